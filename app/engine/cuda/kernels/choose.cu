// The best token on the device: greedy decoding needs one number of a row of logits, not all of them.
//
// Larger logit first, lower id among equal ones, which is the order of app/engine/draw.py. A key holds both: the bits
// of the float in an order that whole numbers have, then the complement of the id.
#include "layout.cuh"

__device__ __forceinline__ unsigned long long key_of(float logit, int id) {
    const unsigned found = __float_as_uint(logit), bits = found == 0x80000000u ? 0u : found;  // -0 equals 0
    const unsigned ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (unsigned long long)ordered << 32 | (unsigned)~id;
}

__device__ __forceinline__ unsigned long long larger_key(unsigned long long key) {
    for (int half = 16; half; half /= 2) {
        const unsigned long long other = __shfl_xor_sync(ALL_LANES, key, half);
        key = other > key ? other : key;
    }
    return key;
}

__device__ __forceinline__ unsigned long long largest_of_block(unsigned long long key, unsigned long long* shared) {
    key = larger_key(key);
    if (lane_id() == 0) shared[warp_id()] = key;
    __syncthreads();
    key = larger_key(lane_id() < blockDim.x / 32 ? shared[lane_id()] : 0);
    __syncthreads();
    return key;
}

// The `count` best ids of each row and their logits, best first: ids and logits [rows, count]. A row has one block of
// threads, which looks at it once for each of them: count is small, as top-k is.
extern "C" __global__ void __launch_bounds__(256)
    best_of_all(const float* logits, int n, int stride, int count, int* ids, float* best) {
    __shared__ unsigned long long shared[32];
    const float* row = logits + (size_t)blockIdx.x * stride;
    unsigned long long below = ~0ull;
    for (int i = 0; i < count; ++i) {
        unsigned long long key = 0;
        for (int id = threadIdx.x; id < n; id += blockDim.x) {
            const unsigned long long other = key_of(row[id], id);
            if (other < below && other > key) key = other;
        }
        below = largest_of_block(key, shared);
        if (threadIdx.x == 0) {
            const int id = (int)~(unsigned)below;
            ids[blockIdx.x * count + i] = id;
            best[blockIdx.x * count + i] = row[id];
        }
    }
}
