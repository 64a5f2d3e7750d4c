// Bugs with addresses, values and the order of accesses in global memory. `in` has n floats and is read-only, `out` has
// room for n, of which nothing is written yet.
#include "planted.cuh"

template <bool mended>
__device__ void one_too_many(const float* in, float* out, unsigned*, int n) {
  for (int i = global_index(); mended ? i < n : i <= n; i += blockDim.x * gridDim.x) {
    out[i] = in[i < n ? i : 0];  // here: one_too_many
  }
}
PLANTED(one_too_many)

template <bool mended>
__device__ void one_too_many_inside_the_page(const float* in, float* out, unsigned* words, int) {
  if (global_index() == 0) words[mended ? 12 : 13] = unsigned(in[0]);  // here: one_too_many_inside_the_page
}
PLANTED(one_too_many_inside_the_page)

template <bool mended>
__device__ void read_before_the_start(const float* in, float* out, unsigned*, int n) {
  const int i = global_index();
  if (i < n) out[i] = in[i] - (mended && i == 0 ? 0 : in[i - 1]);  // here: read_before_the_start
}
PLANTED(read_before_the_start)

template <bool mended>
__device__ void rows_for_columns(const float* in, float* out, unsigned*, int n) {
  const int rows = 8, columns = n / rows;
  for (int i = global_index(); i < n; i += blockDim.x * gridDim.x) {
    const int row = i / columns, column = i % columns;
    out[i] = in[mended ? row * columns + column : column * columns + row];  // here: rows_for_columns
  }
}
PLANTED(rows_for_columns)

template <bool mended>
__device__ void sum_into_no_value(const float* in, float* out, unsigned*, int n) {
  const int i = global_index();
  if (i >= n) return;
  if constexpr (mended) out[i] = 0;
  out[i] += in[i];  // here: sum_into_no_value
}
PLANTED(sum_into_no_value)

template <bool mended>
__device__ void misaligned_vector(const float* in, float* out, unsigned*, int) {
  const float4 four = *reinterpret_cast<const float4*>(in + (mended ? 4 : 3) * threadIdx.x);  // here: misaligned_vector
  out[threadIdx.x] = four.x + four.w;
}
PLANTED(misaligned_vector)

// Blocks of 34 bytes, as Q8_0 has them: their words are not where an int may be.
template <bool mended>
__device__ void word_in_a_block_of_34_bytes(const float* in, float* out, unsigned*, int) {
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(in) + 34 * (threadIdx.x & 7) + 2;
  int word;
  if constexpr (mended) {
    const unsigned short* halves = reinterpret_cast<const unsigned short*>(bytes);
    word = halves[0] | halves[1] << 16;
  } else {
    word = *reinterpret_cast<const int*>(bytes);  // here: word_in_a_block_of_34_bytes
  }
  out[threadIdx.x] = word;
}
PLANTED(word_in_a_block_of_34_bytes)

template <bool mended>
__device__ void write_to_weights(const float* in, float* out, unsigned*, int) {
  float* target = mended ? out : const_cast<float*>(in);
  target[threadIdx.x] = 1;  // here: write_to_weights
}
PLANTED(write_to_weights)

template <bool mended>
__device__ void null_pointer(const float* in, float* out, unsigned*, int) {
  const float* bias = mended ? in : nullptr;
  asm("" : "+r"(bias));  // the compiler must not know
  out[threadIdx.x] = bias[threadIdx.x];  // here: null_pointer
}
PLANTED(null_pointer)

// words[0..1] hold the address of a buffer that the bug's launch has freed.
template <bool mended>
__device__ void use_after_free(const float* in, float* out, unsigned* words, int) {
  const float* buffer = mended ? in : *reinterpret_cast<const float* const*>(words);
  out[threadIdx.x] = buffer[threadIdx.x];  // here: use_after_free
}
PLANTED(use_after_free)

template <bool mended>
__device__ void blocks_add_to_one_word(const float*, float* out, unsigned* words, int) {
  if (threadIdx.x == 0) {
    if constexpr (mended) atomicAdd(words, 1u);
    else words[0] += 1;  // here: blocks_add_to_one_word
  }
  out[global_index()] = 1;
}
PLANTED(blocks_add_to_one_word)

template <bool mended>
__device__ void every_thread_writes_the_same(const float* in, float* out, unsigned*, int) {
  if (!mended || threadIdx.x == 0) out[blockIdx.x] = in[0];  // here: every_thread_writes_the_same
}
PLANTED(every_thread_writes_the_same)

template <bool mended>
__device__ void neighbour_read_while_written(const float* in, float* out, unsigned*, int) {
  const int i = global_index();
  out[i] = in[i];
  if constexpr (mended) __syncthreads();
  const float next = out[i ^ 32];  // here: neighbour_read_while_written
  if constexpr (mended) __syncthreads();
  out[i] = next;
}
PLANTED(neighbour_read_while_written)

template <bool mended>
__device__ void read_only_load_of_what_was_written(const float* in, float* out, unsigned*, int) {
  out[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  const float* other = out + 63 - threadIdx.x;
  const float value = mended ? *other : __ldg(other);  // here: read_only_load_of_what_was_written
  __syncthreads();
  out[threadIdx.x] = value;
}
PLANTED(read_only_load_of_what_was_written)

template <bool mended>
__device__ void read_only_load_of_what_an_atomic_wrote(const float*, float* out, unsigned* words, int) {
  if (threadIdx.x == 0) atomicAdd(words + 1, 1u);
  __syncthreads();
  out[threadIdx.x] = mended ? words[1] : __ldg(words + 1);  // here: read_only_load_of_what_an_atomic_wrote
}
PLANTED(read_only_load_of_what_an_atomic_wrote)

template <bool mended>
__device__ void read_one_too_many_inside_the_page(const float*, float* out, unsigned* words, int) {
  out[threadIdx.x] = words[mended ? 12 : 13];  // here: read_one_too_many_inside_the_page
}
PLANTED(read_one_too_many_inside_the_page)

template <bool mended>
__device__ void write_before_the_start(const float* in, float* out, unsigned* words, int n) {
  const int first = n / 256 - 2;  // -1
  if (threadIdx.x == 0) words[mended ? 0 : first] = unsigned(in[0]);  // here: write_before_the_start
}
PLANTED(write_before_the_start)
