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

// One thread, so that each atomic has one old value: words and olds are [10][n].
extern "C" __global__ void atomics(unsigned* words, const unsigned* operands, unsigned* olds, int n) {
  for (int i = 0; i < n; i++) {
    const unsigned value = operands[i];
    olds[0 * n + i] = atomicAdd(words + 0 * n + i, value);
    olds[1 * n + i] = atomicSub(words + 1 * n + i, value);
    olds[2 * n + i] = atomicMax(words + 2 * n + i, value);
    olds[3 * n + i] = atomicMin(words + 3 * n + i, value);
    olds[4 * n + i] = atomicAnd(words + 4 * n + i, value);
    olds[5 * n + i] = atomicOr(words + 5 * n + i, value);
    olds[6 * n + i] = atomicXor(words + 6 * n + i, value);
    olds[7 * n + i] = atomicInc(words + 7 * n + i, value);
    olds[8 * n + i] = atomicDec(words + 8 * n + i, value);
    olds[9 * n + i] = atomicCAS(words + 9 * n + i, 7u, value);
  }
}

extern "C" __global__ void integers(const unsigned* a, const unsigned* b, unsigned* out) {  // [12][threads]
  const unsigned x = a[threadIdx.x], y = b[threadIdx.x], n = blockDim.x;
  unsigned* at = out + threadIdx.x;
  at[0 * n] = __vadd4(x, y);
  at[1 * n] = __vsub4(x, y);
  at[2 * n] = __funnelshift_l(x, y, y);
  at[3 * n] = __funnelshift_r(x, y, y);
  at[4 * n] = __mulhi((int)x, (int)y);
  at[5 * n] = __umulhi(x, y);
  at[6 * n] = __brev(x);
  at[7 * n] = __popc(x);
  at[8 * n] = __clz((int)x);
  at[9 * n] = __ffs((int)x);
  at[10 * n] = __byte_perm(x, y, x ^ y);
  at[11 * n] = __dp4a(x, y, 5u);
}

extern "C" __global__ void whole_numbers(const float* x, int* out) {  // [6][threads]
  const int n = blockDim.x;
  int* at = out + threadIdx.x;
  at[0 * n] = __float2int_rn(x[threadIdx.x]);
  at[1 * n] = __float2int_rz(x[threadIdx.x]);
  at[2 * n] = __float2int_rd(x[threadIdx.x]);
  at[3 * n] = __float2int_ru(x[threadIdx.x]);
  at[4 * n] = (int)__float2uint_rn(x[threadIdx.x]);
  at[5 * n] = (int)__float2uint_rz(x[threadIdx.x]);
}

// Four matrices of 8 x 8 halves; and 16-byte copies of which only the first 4 bytes have a source.
extern "C" __global__ void matrices(const unsigned* rows, unsigned* out, unsigned* filled) {
  __shared__ __align__(16) unsigned tile[32 * 4];
  cuda_host::cp_async<16>(tile + threadIdx.x * 4, rows + threadIdx.x * 4);
  cuda_host::cp_async_commit();
  cuda_host::cp_async_wait<0>();
  __syncthreads();
  unsigned registers[4];
  cuda_host::ldmatrix<4>(registers, tile + threadIdx.x * 4);
  for (int i = 0; i < 4; i++) out[i * 32 + threadIdx.x] = registers[i];
  __syncthreads();
  cuda_host::cp_async<16>(tile + threadIdx.x * 4, rows + threadIdx.x * 4, 4);
  cuda_host::cp_async_commit();
  cuda_host::cp_async_wait<0>();
  for (int i = 0; i < 4; i++) filled[threadIdx.x * 4 + i] = tile[threadIdx.x * 4 + i];
}

extern "C" __global__ void unset(float* out) {  // what nobody wrote, and then something for the next block to find
  __shared__ float value;
  out[blockIdx.x] = value;
  value = 1;
}

extern "C" __global__ void copy_words(const unsigned* from, unsigned* to) { to[threadIdx.x] = from[threadIdx.x]; }

// Who comes when: each thread where it looks at memory, each warp where its lanes meet.
extern "C" __global__ void looks(int* order, unsigned* next) {
  for (int i = 0; i < 2; i++) order[atomicAdd(next, 1u)] = blockIdx.x;
}
extern "C" __global__ void stretches(int* order, unsigned* next) {
  for (int i = 0; i < 2; i++) {
    if (threadIdx.x % 32 == 0) order[(*next)++] = blockIdx.x * 2 + threadIdx.x / 32;
    __syncwarp();
  }
}

// Two threads that keep each other busy for ever.
extern "C" __global__ void for_ever(unsigned* words) {
  while (atomicAdd(words, 1u) != ~0u) {}
}

extern "C" __global__ void wait(const unsigned* words) {
  while (!*words) asm volatile("" ::: "memory");
}

extern "C" __global__ void leavers(int* out) {  // who has returned is not waited for
  if (threadIdx.x >= 20) return;
  __syncwarp();
  out[threadIdx.x] = __popc(__ballot_sync(~0u, 1));
}
