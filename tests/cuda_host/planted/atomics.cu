// Bugs with atomics, fences and locks.
#include "planted.cuh"

template <bool mended>
__device__ void counter_without_an_atomic(const float* in, float* out, unsigned*, int) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (in[threadIdx.x] > 10) {
    if constexpr (mended) atomicAdd(&count, 1);
    else count++;  // here: counter_without_an_atomic
  }
  __syncthreads();
  out[threadIdx.x] = count;
}
PLANTED(counter_without_an_atomic)

template <bool mended>
__device__ void count_read_too_early(const float* in, float* out, unsigned*, int) {
  __shared__ int counts[4];
  if (threadIdx.x < 4) counts[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&counts[int(in[threadIdx.x]) & 3], 1);
  if constexpr (mended) __syncthreads();
  out[threadIdx.x] = counts[threadIdx.x & 3];  // here: count_read_too_early
}
PLANTED(count_read_too_early)

template <bool mended>
__device__ void count_cleared_too_late(const float* in, float* out, unsigned*, int) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  if constexpr (mended) __syncthreads();
  atomicAdd(&count, int(in[threadIdx.x]));
  __syncthreads();
  out[threadIdx.x] = count;
}
PLANTED(count_cleared_too_late)

template <bool mended>
__device__ void misaligned_atomic(const float*, float* out, unsigned* words, int) {
  char* bytes = reinterpret_cast<char*>(words) + (mended ? 4 : 2);
  atomicAdd(reinterpret_cast<unsigned*>(bytes), 1u);  // here: misaligned_atomic
  out[global_index()] = 1;
}
PLANTED(misaligned_atomic)

enum class Left { nothing, fence_before, fence_after, device_scope };

// Block 0 hands a value to block 1 by a flag.
template <Left left>
__device__ void hand_over(const float* in, float* out, unsigned* words) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    out[0] = in[0];
    if (left == Left::device_scope) __threadfence_block();
    else if (left != Left::fence_before) __threadfence();
    atomicExch(words, 1u);
  } else if (blockIdx.x == 1) {
    while (atomicAdd(words, 0u) == 0) {}
    if (left != Left::fence_after) __threadfence();
    out[1] = out[0];  // here: flag_without_a_fence_before
  }
}
template <bool mended>
__device__ void flag_without_a_fence_before(const float* in, float* out, unsigned* words, int) {
  hand_over<mended ? Left::nothing : Left::fence_before>(in, out, words);
}
PLANTED(flag_without_a_fence_before)
template <bool mended>
__device__ void flag_without_a_fence_after(const float* in, float* out, unsigned* words, int) {
  hand_over<mended ? Left::nothing : Left::fence_after>(in, out, words);
}
PLANTED(flag_without_a_fence_after)
template <bool mended>
__device__ void fence_of_a_block_for_the_device(const float* in, float* out, unsigned* words, int) {
  hand_over<mended ? Left::nothing : Left::device_scope>(in, out, words);
}
PLANTED(fence_of_a_block_for_the_device)

template <bool mended>
__device__ void flag_with_a_relaxed_load(const float* in, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    out[0] = in[0];
    cuda_host::store_release(words, 1u);
  } else if (blockIdx.x == 1) {
    while ((mended ? cuda_host::load_acquire(words) : cuda_host::load_relaxed(words)) == 0) {}
    out[1] = out[0];  // here: flag_with_a_relaxed_load
  }
}
PLANTED(flag_with_a_relaxed_load)

template <bool mended>
__device__ void flag_with_a_relaxed_store(const float* in, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    out[0] = in[0];
    if constexpr (mended) cuda_host::store_release(words, 1u);
    else cuda_host::store_relaxed(words, 1u);
  } else if (blockIdx.x == 1) {
    while (cuda_host::load_acquire(words) == 0) {}
    out[1] = out[0];  // here: flag_with_a_relaxed_store
  }
}
PLANTED(flag_with_a_relaxed_store)

// The last block to finish adds up what each has left in `out`.
template <bool mended>
__device__ void last_block_without_a_fence(const float* in, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  out[blockIdx.x] = in[blockIdx.x];
  if constexpr (mended) __threadfence();
  if (atomicAdd(words, 1u) != gridDim.x - 1) return;
  __threadfence();
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += out[i];  // here: last_block_without_a_fence
  out[gridDim.x] = sum;
}
PLANTED(last_block_without_a_fence)

// What all lanes have written is published by one of them, once the warp has met.
template <bool mended>
__device__ void published_before_the_warp_met(const float* in, float* out, unsigned* words, int) {
  if (threadIdx.x >= 32) return;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x];
    if constexpr (mended) __syncwarp();
    if (threadIdx.x == 0) cuda_host::store_release(words, 1u);
  } else if (blockIdx.x == 1) {
    if (threadIdx.x == 0)
      while (cuda_host::load_acquire(words) == 0) {}
    __syncwarp();
    out[64 + threadIdx.x] = out[threadIdx.x ^ 7];  // here: published_before_the_warp_met
  }
}
PLANTED(published_before_the_warp_met)

template <bool mended>
__device__ void lock_without_order(const float* in, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  while (atomicCAS(words, 0u, 1u) != 0) {}
  if constexpr (mended) __threadfence();
  words[1] += unsigned(in[1]);  // here: lock_without_order
  if constexpr (mended) __threadfence();
  atomicExch(words, 0u);
}
PLANTED(lock_without_order)

__device__ __forceinline__ void take(unsigned* lock) {
  while (cuda_host::compare_and_swap_acquire(lock, 0u, 1u) != 0) {}  // here: locks_in_opposite_order
}
template <bool mended>
__device__ void locks_in_opposite_order(const float*, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  const int first = mended ? 0 : blockIdx.x & 1, second = 1 - first;
  for (int round = 0; round < 20; round++) {
    take(words + first);
    take(words + second);
    words[2] += 1;
    cuda_host::store_release(words + second, 0u);
    cuda_host::store_release(words + first, 0u);
  }
}
PLANTED(locks_in_opposite_order)

template <bool mended>
__device__ void lock_that_is_kept(const float*, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  for (int round = 0; round < 2; round++) {
    while (atomicExch(words, 1u) != 0) __nanosleep(20);  // here: lock_that_is_kept
    if (mended || blockIdx.x != 2) atomicExch(words, 0u);
  }
}
PLANTED(lock_that_is_kept)

template <bool mended>
__device__ void count_read_after_the_own_warp_met(const float* in, float* out, unsigned*, int) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, int(in[1]));
  if constexpr (mended) __syncthreads();
  else __syncwarp();
  if (threadIdx.x >= 32) out[threadIdx.x] = count;  // here: count_read_after_the_own_warp_met
}
PLANTED(count_read_after_the_own_warp_met)

template <bool mended>
__device__ void counter_without_a_first_value(const float*, float* out, unsigned* words, int) {
  unsigned* counter = mended ? words : reinterpret_cast<unsigned*>(out) + 255;
  atomicAdd(counter, 1u);  // here: counter_without_a_first_value
}
PLANTED(counter_without_a_first_value)
