// Bugs with shared and local memory.
#include "planted.cuh"

template <bool mended>
__device__ void slot_without_a_value(const float* in, float* out, unsigned*, int) {
  __shared__ float parts[4];  // the block has two warps
  const float sum = warp_sum(in[threadIdx.x]);
  if (mended && threadIdx.x < 4) parts[threadIdx.x] = 0;
  __syncthreads();
  if (lane_index() == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  out[threadIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];  // here: slot_without_a_value
}
PLANTED(slot_without_a_value)

template <bool mended>
__device__ void past_a_static_array(const float* in, float* out, unsigned*, int) {
  __shared__ float tile[64], other[64];
  other[threadIdx.x] = 0;
  tile[threadIdx.x + (mended ? 0 : 1)] = in[threadIdx.x];  // here: past_a_static_array
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x] + other[threadIdx.x];
}
PLANTED(past_a_static_array)

template <bool mended>
__device__ void past_the_dynamic_array(const float* in, float* out, unsigned*, int) {  // the launch gives 64 floats
  float* tile = reinterpret_cast<float*>(smem);
  tile[threadIdx.x + (mended ? 0 : 1)] = in[threadIdx.x];  // here: past_the_dynamic_array
  __syncthreads();
  out[threadIdx.x] = threadIdx.x ? tile[threadIdx.x] : 0;
}
PLANTED(past_the_dynamic_array)

template <bool mended>
__device__ void arrays_that_overlap(const float* in, float* out, unsigned*, int) {
  float* first = reinterpret_cast<float*>(smem);
  float* second = first + (mended ? 32 : 31);
  if (threadIdx.x < 32) first[threadIdx.x] = in[threadIdx.x];
  else second[threadIdx.x - 32] = in[threadIdx.x];  // here: arrays_that_overlap
  __syncthreads();
  out[threadIdx.x] = threadIdx.x < 32 ? first[threadIdx.x] : second[threadIdx.x - 32];
}
PLANTED(arrays_that_overlap)

template <bool mended>
__device__ void floats_after_odd_bytes(const float* in, float* out, unsigned*, int) {
  signed char* bytes = reinterpret_cast<signed char*>(smem);
  float* scales = reinterpret_cast<float*>(smem + (mended ? 64 : 62));
  if (threadIdx.x < 32) bytes[threadIdx.x] = 1;
  else scales[threadIdx.x - 32] = in[threadIdx.x];  // here: floats_after_odd_bytes
  out[threadIdx.x] = 0;
}
PLANTED(floats_after_odd_bytes)

template <bool mended>
__device__ void past_a_local_array(const float* in, float* out, unsigned*, int n) {
  float values[8];
  for (int i = 0; i < 8; i++) values[i] = in[threadIdx.x + i];
  const int last = n / 32;  // 8
  out[threadIdx.x] = values[mended ? last - 1 : last];  // here: past_a_local_array
}
PLANTED(past_a_local_array)

__device__ __noinline__ float descend(const float* in, int depth) {
  volatile float here[64];
  here[depth & 63] = in[depth & 63];
  return depth ? descend(in, depth - 1) + here[depth & 63] : here[0];  // here: too_many_local_variables
}
template <bool mended>
__device__ void too_many_local_variables(const float* in, float* out, unsigned*, int) {
  out[threadIdx.x] = descend(in, mended ? 10 : 100000);
}
PLANTED(too_many_local_variables)

// Only the last block forgets its value: what a block before it wrote at the same address is not its own.
template <bool mended>
__device__ void slot_of_a_later_block_without_a_value(const float* in, float* out, unsigned*, int) {
  __shared__ float factor;
  if (threadIdx.x == 0 && (mended || blockIdx.x + 1 < gridDim.x)) factor = in[1];
  __syncthreads();
  out[global_index()] = factor;  // here: slot_of_a_later_block_without_a_value
}
PLANTED(slot_of_a_later_block_without_a_value)

template <bool mended>
__device__ void read_past_the_dynamic_array(const float* in, float* out, unsigned*, int) {  // it has 64 floats
  float* tile = reinterpret_cast<float*>(smem);
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x + (mended && threadIdx.x == 63 ? 0 : 1)];  // here: read_past_the_dynamic_array
}
PLANTED(read_past_the_dynamic_array)

template <bool mended>
__device__ void byte_of_a_word_that_another_writes(const float* in, float* out, unsigned*, int) {
  __shared__ float factor;
  if (threadIdx.x == 0) factor = in[1];
  __syncthreads();
  if (threadIdx.x == 0) factor = in[2];
  if constexpr (mended) __syncthreads();
  const auto* bytes = reinterpret_cast<unsigned char*>(&factor);
  if (threadIdx.x == 40) out[0] = bytes[3];  // here: byte_of_a_word_that_another_writes
}
PLANTED(byte_of_a_word_that_another_writes)

template <bool mended>
__device__ void word_of_bytes_that_others_write(const float* in, float* out, unsigned*, int) {
  __shared__ __align__(4) unsigned char bytes[64];
  bytes[threadIdx.x] = (unsigned char)in[threadIdx.x];
  if constexpr (mended) __syncthreads();
  out[threadIdx.x] = reinterpret_cast<unsigned*>(bytes)[threadIdx.x / 4];  // here: word_of_bytes_that_others_write
}
PLANTED(word_of_bytes_that_others_write)
