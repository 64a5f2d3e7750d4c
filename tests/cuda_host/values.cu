// Kernels whose results test_emulator.py compares with NumPy's.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern __shared__ __align__(16) unsigned char smem[];

extern "C" __global__ void convert(const float* floats, __half* to_half, __nv_bfloat16* to_bfloat,
                                   const __half* halves, float* from_half, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  to_half[i] = __float2half(floats[i]);
  to_bfloat[i] = __float2bfloat16(floats[i]);
  from_half[i] = __half2float(halves[i]);
}

template <int threads>
__device__ int sum_of_indices() {
  __shared__ int values[threads];
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < threads; i++) sum += values[i];
  return sum;
}

extern "C" __global__ void collectives(int* out, const int* words) {  // out[64][12]
  const int lane = threadIdx.x & 31;
  int* row = out + threadIdx.x * 12;
  row[0] = (int)__ballot_sync(~0u, lane % 3 == 0);
  row[1] = __shfl_up_sync(~0u, lane, 1);
  row[2] = __shfl_down_sync(~0u, lane, 2, 8);
  row[3] = __shfl_sync(~0u, lane * 10, 3, 8);
  row[4] = __shfl_xor_sync(~0u, lane, 16);
  row[5] = __any_sync(~0u, lane == 5) + 2 * __all_sync(~0u, lane < 32) + 4 * __all_sync(~0u, lane < 31);
  row[6] = __syncthreads_or(threadIdx.x == 63) + 2 * __syncthreads_and(threadIdx.x < 63);
  row[7] = __syncthreads_count(threadIdx.x < 10);
  row[8] = sum_of_indices<64>();
  row[9] = __dp4a(words[0], words[1], 7);
  row[10] = __reduce_add_sync(~0u, lane);
  row[11] = (int)__byte_perm(words[0], words[1], 0x7531);
}

extern "C" __global__ void histogram(unsigned* counts, const int* values, int n) {  // 16 counts
  unsigned* mine = reinterpret_cast<unsigned*>(smem);
  if (threadIdx.x < 16) mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&mine[values[i] & 15], 1);
  }
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}

// Each block adds its part; the last one to finish adds up the parts.
extern "C" __global__ void sum_of_all(const float* x, float* parts, unsigned* finished, float* sum, int n) {
  __shared__ bool last;
  float part = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) part += x[i];
  for (int lanes = 16; lanes; lanes /= 2) part += __shfl_xor_sync(~0u, part, lanes);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = part;
    __threadfence();
    last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last || threadIdx.x) return;
  float total = 0;
  for (unsigned i = 0; i < gridDim.x; i++) total += parts[i];
  *sum = total;
}

#ifdef QCHAT_CUDA_HOST
__device__ void product(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  cuda_host::mma_m16n8k32_s8(d, a, b);
}
#endif

// d (16 x 8) = a (16 x 32) b (8 x 32, transposed), of int8
extern "C" __global__ void tensor_product(const unsigned* a, const unsigned* b, int* d) {
  const int group = threadIdx.x >> 2, quad = threadIdx.x & 3;
  unsigned a_words[4], b_words[2];
  for (int i = 0; i < 4; i++) a_words[i] = a[(group + (i & 1) * 8) * 8 + quad + (i >> 1) * 4];
  for (int i = 0; i < 2; i++) b_words[i] = b[group * 8 + quad + i * 4];
  int sums[4] = {0, 0, 0, 0};
  product(sums, a_words, b_words);
  for (int i = 0; i < 4; i++) d[(group + (i >> 1) * 8) * 8 + quad * 2 + (i & 1)] = sums[i];
}

// A grid barrier by hand: a counter of arrivals and a generation. Every block adds 1 to each cell, in turn.
extern "C" __global__ void rounds(int* cells, unsigned* barrier, int count) {
  for (int round = 0; round < count; round++) {
    const int cell = (blockIdx.x + round) % gridDim.x;
    if (threadIdx.x == 0) cells[cell] += 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      const unsigned generation = cuda_host::load_acquire(barrier + 1);
      __threadfence();
      if (atomicAdd(barrier, 1u) == gridDim.x - 1) {
        atomicExch(barrier, 0u);
        __threadfence();
        atomicAdd(barrier + 1, 1u);
      } else {
        while (cuda_host::load_acquire(barrier + 1) == generation) __nanosleep(32);
      }
      __threadfence();
    }
    __syncthreads();
  }
}
