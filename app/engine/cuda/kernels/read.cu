// How fast memory can be read: 16 bytes a thread, a warp's 512 in a row, eight on their way at a time, and no work but to
// add them up.
#include "intrinsics.cuh"

constexpr int FLYING = 8;

__device__ __forceinline__ unsigned sum_of(const uint4& v) { return v.x + v.y + v.z + v.w; }

extern "C" __global__ void __launch_bounds__(256) read_memory(const uint4* memory, long long n, unsigned* sums) {
    const long long thread = blockIdx.x * 256LL + threadIdx.x, stride = gridDim.x * 256LL;
    unsigned sum = 0;
    long long i = thread;
    for (; i + (FLYING - 1) * stride < n; i += FLYING * stride) {
        uint4 v[FLYING];
#pragma unroll
        for (int k = 0; k < FLYING; ++k) v[k] = __ldg(memory + i + k * stride);
#pragma unroll
        for (int k = 0; k < FLYING; ++k) sum += sum_of(v[k]);
    }
    for (; i < n; i += stride) sum += sum_of(__ldg(memory + i));
    sums[thread] = sum;  // or the compiler would leave the reads out
}
