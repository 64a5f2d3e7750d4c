// Bugs with barriers of the whole grid, in cooperative launches. words[0] counts arrivals, words[1] generations.
#include <cooperative_groups.h>

#include "planted.cuh"

enum class Without { nothing, leading, trailing, reset, fences, release_fence, atomic_arrival, early_look, last, poll };

template <Without without>
__device__ void grid_barrier(unsigned* words) {
  if (without != Without::leading) __syncthreads();
  if (threadIdx.x == 0) {
    constexpr bool early = without != Without::early_look;
    unsigned generation = early ? cuda_host::load_acquire(words + 1) : 0;
    if (without != Without::fences && without != Without::release_fence) __threadfence();
    const unsigned arrived = without == Without::atomic_arrival ? words[0]++ : atomicAdd(words, 1u);
    if (!early) generation = cuda_host::load_acquire(words + 1);
    if (arrived == (without == Without::last ? gridDim.x : gridDim.x - 1)) {
      if (without != Without::reset) atomicExch(words, 0u);
      if (without != Without::fences) __threadfence();
      atomicAdd(words + 1, 1u);
    } else if (without == Without::poll) {
      while (words[1] == generation) {}  // here: grid_barrier_polled_by_plain_loads
    } else {
      while (cuda_host::load_relaxed(words + 1) == generation) __nanosleep(20);
    }
    if (without != Without::fences) __threadfence();
  }
  if (without != Without::trailing) __syncthreads();
}

// Three rounds in which each thread takes what a thread of another block has left.
template <Without without>
__device__ void rounds(const float* in, float* out, unsigned* words) {
  const int threads = blockDim.x * gridDim.x, i = global_index();
  out[i] = in[i];
  for (int round = 0; round < 3; round++) {
    grid_barrier<without>(words);
    const float other = out[(i + blockDim.x + 33) % threads];
    grid_barrier<without>(words);
    out[i] = other;
  }
}

#define GRID_BARRIER(name, what)                                             \
  template <bool mended>                                                     \
  __device__ void name(const float* in, float* out, unsigned* words, int) {  \
    rounds<mended ? Without::nothing : Without::what>(in, out, words);       \
  }                                                                          \
  PLANTED(name)
GRID_BARRIER(grid_barrier_without_leading_barrier, leading)
GRID_BARRIER(grid_barrier_without_trailing_barrier, trailing)
GRID_BARRIER(grid_barrier_never_reset, reset)
GRID_BARRIER(grid_barrier_without_fences, fences)
GRID_BARRIER(grid_barrier_without_a_release_fence, release_fence)
GRID_BARRIER(grid_barrier_without_atomic_arrival, atomic_arrival)
GRID_BARRIER(grid_barrier_that_reads_its_generation_late, early_look)
GRID_BARRIER(grid_barrier_that_waits_for_one_more, last)
GRID_BARRIER(grid_barrier_polled_by_plain_loads, poll)

template <bool mended>
__device__ void block_barrier_for_a_grid_barrier(const float* in, float* out, unsigned* words, int) {
  const int threads = blockDim.x * gridDim.x, i = global_index();
  out[i] = in[i];
  if constexpr (mended) cooperative_groups::this_grid().sync();
  else __syncthreads();
  const float other = out[(i + blockDim.x) % threads];  // here: block_barrier_for_a_grid_barrier
  cooperative_groups::this_grid().sync();
  out[i] = other;
}
PLANTED(block_barrier_for_a_grid_barrier)

template <bool mended>
__device__ void block_that_skips_the_grid_barrier(const float* in, float* out, unsigned* words, int) {
  if (!mended && blockIdx.x == 1) return;
  rounds<Without::nothing>(in, out, words);
}
PLANTED(block_that_skips_the_grid_barrier)

template <bool mended>
__device__ void block_that_skips_the_grid_sync(const float* in, float* out, unsigned*, int) {
  out[global_index()] = in[0];
  if (!mended && blockIdx.x == 1) return;
  cooperative_groups::this_grid().sync();  // here: block_that_skips_the_grid_sync
}
PLANTED(block_that_skips_the_grid_sync)

template <bool mended>
__device__ void warp_that_skips_the_grid_sync(const float* in, float* out, unsigned*, int) {
  out[global_index()] = in[0];
  if (!mended && threadIdx.x >= 32) return void(__syncthreads());  // here: warp_that_skips_the_grid_sync
  cooperative_groups::this_grid().sync();
}
PLANTED(warp_that_skips_the_grid_sync)

// Waits for a block with a higher number, which need not be resident when the launch is not cooperative.
template <bool mended>
__device__ void wait_for_a_block_that_is_not_resident(const float*, float* out, unsigned* words, int) {
  if (threadIdx.x == 0 && !mended && blockIdx.x == 0)
    while (cuda_host::load_acquire(words) == 0) {}  // here: wait_for_a_block_that_is_not_resident
  if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) cuda_host::store_release(words, 1u);
}
PLANTED(wait_for_a_block_that_is_not_resident)

template <bool mended>
__device__ void grid_sync_of_a_plain_launch(const float*, float* out, unsigned*, int) {
  if constexpr (!mended) cooperative_groups::this_grid().sync();  // here: grid_sync_of_a_plain_launch
  out[global_index()] = 1;
}
PLANTED(grid_sync_of_a_plain_launch)
