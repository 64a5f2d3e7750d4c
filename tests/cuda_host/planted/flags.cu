// Bugs of blocks that tell each other by a word of memory when they may go on.
#include "planted.cuh"

template <bool mended>
__device__ void tell(unsigned* word) {
  if constexpr (mended) cuda_host::store_release(word, 1u);
  else cuda_host::store_relaxed(word, 1u);
}
template <bool mended>
__device__ void be_told(unsigned* word) {
  while ((mended ? cuda_host::load_acquire(word) : cuda_host::load_relaxed(word)) == 0) {}
}

// The flag has no order, so what an atomic wrote before it need not be what a plain load finds after it.
template <bool mended>
__device__ void count_read_after_a_relaxed_flag(const float*, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    atomicAdd(words + 1, 1u);
    tell<mended>(words);
  } else {
    be_told<mended>(words);
    out[0] = words[1];  // here: count_read_after_a_relaxed_flag
  }
}
PLANTED(count_read_after_a_relaxed_flag)

template <bool mended>
__device__ void atomic_on_a_word_that_was_read(const float*, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    out[0] = words[1];
    tell<mended>(words);
  } else {
    be_told<mended>(words);
    atomicAdd(words + 1, 1u);  // here: atomic_on_a_word_that_was_read
  }
}
PLANTED(atomic_on_a_word_that_was_read)

template <bool mended>
__device__ void flag_in_a_volatile_word_without_a_fence(const float* in, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  volatile unsigned* flag = words;
  if (blockIdx.x == 0) {
    out[0] = in[0];
    __threadfence();
    *flag = 1;
  } else if (blockIdx.x == 1) {
    while (*flag == 0) __nanosleep(20);
    if constexpr (mended) __threadfence();
    out[1] = out[0];  // here: flag_in_a_volatile_word_without_a_fence
  }
}
PLANTED(flag_in_a_volatile_word_without_a_fence)

// Block 1 passes on what block 0 has published: an addition keeps the chain, a store begins another. Block 2 looks only
// after that, for who sees block 0's own value is told by block 0.
template <bool mended>
__device__ void flag_stored_over_by_another_block(const float* in, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    out[0] = in[0];
    cuda_host::store_release(words, 1u);
  } else if (blockIdx.x == 1) {
    while (cuda_host::load_relaxed(words) == 0) {}
    if constexpr (mended) cuda_host::add_relaxed(words, 1u);
    else cuda_host::store_relaxed(words, 2u);
    cuda_host::store_relaxed(words + 1, 1u);
  } else {
    while (cuda_host::load_relaxed(words + 1) == 0) {}
    while (cuda_host::load_acquire(words) < 2) {}
    out[2] = out[0];  // here: flag_stored_over_by_another_block
  }
}
PLANTED(flag_stored_over_by_another_block)

// Two blocks read a word, and the third writes it when one of them says that it has.
template <bool mended>
__device__ void writer_waits_for_one_reader_of_two(const float*, float* out, unsigned* words, int) {
  if (threadIdx.x) return;
  if (blockIdx.x < 2) {
    out[blockIdx.x] = words[1];
    if (blockIdx.x == 1) while (cuda_host::load_relaxed(words + 2) == 0) {}
    if (blockIdx.x == 0) cuda_host::store_relaxed(words + 2, 1u);
    if (mended || blockIdx.x == 1) cuda_host::add_release(words, 1u);
  } else {
    while (cuda_host::load_acquire(words) < (mended ? 2 : 1)) {}
    words[1] = 5;  // here: writer_waits_for_one_reader_of_two
  }
}
PLANTED(writer_waits_for_one_reader_of_two)
