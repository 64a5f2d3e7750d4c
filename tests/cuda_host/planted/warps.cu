// Bugs with warp collectives.
#include "planted.cuh"

template <bool mended>
__device__ void syncwarp_missing(const float* in, float* out, unsigned*, int) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  if constexpr (mended) __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];  // here: syncwarp_missing
}
PLANTED(syncwarp_missing)

template <bool mended>
__device__ void shuffle_taken_for_a_barrier(const float* in, float* out, unsigned*, int) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  const float next = __shfl_down_sync(~0u, in[threadIdx.x], 1);
  if constexpr (mended) __syncwarp();
  out[threadIdx.x] = next + tile[threadIdx.x ^ 1];  // here: shuffle_taken_for_a_barrier
}
PLANTED(shuffle_taken_for_a_barrier)

template <bool mended>
__device__ void shuffle_of_half_a_warp(const float* in, float* out, unsigned*, int) {
  float value = in[threadIdx.x];
  if (mended || lane_index() < 16) value = __shfl_xor_sync(~0u, value, 8);  // here: shuffle_of_half_a_warp
  __syncthreads();
  out[threadIdx.x] = value;
}
PLANTED(shuffle_of_half_a_warp)

template <bool mended>
__device__ void lane_outside_its_mask(const float* in, float* out, unsigned*, int) {
  const unsigned mask = mended ? 0xffffffffu : 0x0000ffffu;
  out[threadIdx.x] = __shfl_xor_sync(mask, in[threadIdx.x], 1);  // here: lane_outside_its_mask
}
PLANTED(lane_outside_its_mask)

template <bool mended>
__device__ void shuffle_from_outside_the_mask(const float* in, float* out, unsigned*, int) {
  if (lane_index() >= 16) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffu, in[threadIdx.x], mended ? 8 : 16);  // here: shuffle_from_outside_the_mask
}
PLANTED(shuffle_from_outside_the_mask)

template <bool mended>
__device__ void shuffle_from_a_lane_that_returned(const float* in, float* out, unsigned*, int) {
  if (!mended && lane_index() == 31) return;
  const float next = __shfl_down_sync(~0u, in[threadIdx.x], 1);  // here: shuffle_from_a_lane_that_returned
  if (lane_index() < 31) out[threadIdx.x] = next;
}
PLANTED(shuffle_from_a_lane_that_returned)

template <bool mended>
__device__ void masks_differ(const float* in, float* out, unsigned*, int) {
  const unsigned mask = mended || lane_index() != 3 ? ~0u : 0x0000ffffu;
  out[threadIdx.x] = __shfl_sync(mask, in[threadIdx.x], 3);  // here: masks_differ
}
PLANTED(masks_differ)

template <bool mended>
__device__ void collectives_differ(const float* in, float* out, unsigned*, int) {
  float value = in[threadIdx.x];
  if (mended || lane_index() < 16) value = __shfl_xor_sync(~0u, value, 1);
  else value = __shfl_down_sync(~0u, value, 1);
  out[threadIdx.x] = value;
}
PLANTED(collectives_differ)

template <bool mended>
__device__ void width_of_no_power_of_two(const float* in, float* out, unsigned*, int) {
  out[threadIdx.x] = __shfl_down_sync(~0u, in[threadIdx.x], 1, mended ? 16 : 24);  // here: width_of_no_power_of_two
}
PLANTED(width_of_no_power_of_two)

template <bool mended>
__device__ void tensor_core_in_half_a_warp(const float* in, float* out, unsigned*, int) {
  int sums[4] = {};
  const unsigned a[4] = {1, 2, 3, 4}, b[2] = {5, 6};
  if (mended || lane_index() < 16) cuda_host::mma_m16n8k32_s8(sums, a, b);  // here: tensor_core_in_half_a_warp
  out[threadIdx.x] = in[0] + sums[0];
}
PLANTED(tensor_core_in_half_a_warp)

template <bool mended>
__device__ void warp_waits_for_a_lane_that_polls(const float*, float* out, unsigned* words, int) {
  if (threadIdx.x == 0) {
    while (!mended && atomicAdd(words, 0u) == 0) {}  // here: warp_waits_for_a_lane_that_polls
  }
  __syncwarp();
  if (threadIdx.x == 1) atomicAdd(words, 1u);
  out[threadIdx.x] = 1;
}
PLANTED(warp_waits_for_a_lane_that_polls)

// What both warps have read, a thread of the second writes once its own warp has met.
template <bool mended>
__device__ void write_after_the_own_warp_met(const float* in, float* out, unsigned*, int) {
  __shared__ float factor;
  if (threadIdx.x == 0) factor = in[1];
  __syncthreads();
  out[threadIdx.x] = factor;
  if constexpr (mended) __syncthreads();
  else __syncwarp();
  if (threadIdx.x == 40) factor = 2;  // here: write_after_the_own_warp_met
}
PLANTED(write_after_the_own_warp_met)

template <bool mended>
__device__ void a_reader_writes_what_others_read(const float* in, float* out, unsigned*, int) {
  __shared__ float factor;
  if (threadIdx.x == 0) factor = in[1];
  __syncthreads();
  out[threadIdx.x] = factor;
  if constexpr (mended) __syncthreads();
  if (threadIdx.x == 63) factor = 2;  // here: a_reader_writes_what_others_read
}
PLANTED(a_reader_writes_what_others_read)

template <bool mended>
__device__ void tensor_core_after_a_lane_returned(const float* in, float* out, unsigned*, int) {
  if (!mended && lane_index() == 31) return;
  int sums[4] = {};
  const unsigned a[4] = {1, 2, 3, 4}, b[2] = {5, 6};
  cuda_host::mma_m16n8k32_s8(sums, a, b);  // here: tensor_core_after_a_lane_returned
  out[threadIdx.x] = in[0] + sums[0];
}
PLANTED(tensor_core_after_a_lane_returned)

template <bool mended>
__device__ void matrix_load_after_a_lane_returned(const float* in, float* out, unsigned*, int) {
  __shared__ __align__(16) float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (!mended && lane_index() == 31) return;
  unsigned registers[1];
  cuda_host::ldmatrix<1>(registers, tile + lane_index() % 8 * 4);  // here: matrix_load_after_a_lane_returned
  out[threadIdx.x] = registers[0];
}
PLANTED(matrix_load_after_a_lane_returned)

template <bool mended>
__device__ void matrix_load_before_the_barrier(const float* in, float* out, unsigned*, int) {
  __shared__ __align__(16) float tile[64];
  tile[63 - threadIdx.x] = in[threadIdx.x];
  if constexpr (mended) __syncthreads();
  unsigned registers[1];
  cuda_host::ldmatrix<1>(registers, tile + lane_index() % 8 * 4);  // here: matrix_load_before_the_barrier
  out[threadIdx.x] = registers[0];
}
PLANTED(matrix_load_before_the_barrier)

template <bool mended>
__device__ void matrix_row_at_an_odd_place(const float* in, float* out, unsigned*, int) {
  __shared__ __align__(16) float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  unsigned registers[1];
  const float* row = tile + lane_index() % 8 * 4 + (mended ? 0 : 1);
  cuda_host::ldmatrix<1>(registers, row);  // here: matrix_row_at_an_odd_place
  out[threadIdx.x] = registers[0];
}
PLANTED(matrix_row_at_an_odd_place)
