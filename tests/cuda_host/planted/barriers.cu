// Bugs with __syncthreads.
#include "planted.cuh"

template <bool mended>
__device__ void barrier_missing(const float* in, float* out, unsigned*, int) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  if constexpr (mended) __syncthreads();
  out[threadIdx.x] = threadIdx.x ? tile[threadIdx.x - 1] : 0;  // here: barrier_missing
}
PLANTED(barrier_missing)

template <bool mended>
__device__ float block_sum(float value) {
  __shared__ float parts[2];
  value = warp_sum(value);
  if (lane_index() == 0) parts[threadIdx.x / 32] = value;  // here: barrier_missing_before_reuse
  __syncthreads();
  const float sum = parts[0] + parts[1];
  if constexpr (mended) __syncthreads();
  return sum;
}
template <bool mended>
__device__ void barrier_missing_before_reuse(const float* in, float* out, unsigned*, int) {
  const float sum = block_sum<mended>(in[threadIdx.x]);
  out[threadIdx.x] = sum + block_sum<mended>(sum * in[threadIdx.x]);
}
PLANTED(barrier_missing_before_reuse)

template <bool mended>
__device__ void barrier_of_a_warp_for_a_block(const float* in, float* out, unsigned*, int) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  if constexpr (mended) __syncthreads();
  else __syncwarp();
  out[threadIdx.x] = tile[63 - threadIdx.x];  // here: barrier_of_a_warp_for_a_block
}
PLANTED(barrier_of_a_warp_for_a_block)

template <bool mended>
__device__ void broadcast_overwritten(const float* in, float* out, unsigned*, int) {
  __shared__ float factor;
  float sum = 0;
  for (int round = 0; round < 3; round++) {
    if (threadIdx.x == 0) factor = in[round];  // here: broadcast_overwritten
    __syncthreads();
    sum += factor * in[threadIdx.x];
    if constexpr (mended) __syncthreads();
  }
  out[threadIdx.x] = sum;
}
PLANTED(broadcast_overwritten)

template <bool mended>
__device__ void barrier_in_a_branch(const float* in, float* out, unsigned*, int) {
  out[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 32) {
    if constexpr (!mended) __syncthreads();  // here: barrier_in_a_branch
    out[threadIdx.x] += 1;
  }
  if constexpr (mended) __syncthreads();
}
PLANTED(barrier_in_a_branch)

template <bool mended>
__device__ void barrier_after_a_return(const float* in, float* out, unsigned*, int) {
  __shared__ float tile[64];
  if (!mended && threadIdx.x >= 60) return;
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();  // here: barrier_after_a_return
  if (threadIdx.x < 60) out[threadIdx.x] = tile[59 - threadIdx.x];
}
PLANTED(barrier_after_a_return)

template <bool mended>
__device__ void two_barriers_in_two_branches(const float* in, float* out, unsigned*, int) {
  out[threadIdx.x] = in[threadIdx.x];
  if constexpr (mended) {
    __syncthreads();
  } else if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[63 - threadIdx.x] += 1;
}
PLANTED(two_barriers_in_two_branches)

template <bool mended>
__device__ void barrier_in_an_uneven_loop(const float* in, float* out, unsigned*, int) {
  float sum = 0;
  for (int i = 0; i < (mended ? 3 : threadIdx.x == 5 ? 4 : 3); i++) {
    sum += in[i];
    __syncthreads();  // here: barrier_in_an_uneven_loop
  }
  out[threadIdx.x] = sum;
}
PLANTED(barrier_in_an_uneven_loop)

template <bool mended>
__device__ void a_vote_meets_a_barrier(const float* in, float* out, unsigned*, int) {
  const bool vote = mended || threadIdx.x < 32, mine = in[threadIdx.x] > 3;
  out[threadIdx.x] = vote ? __syncthreads_or(mine) : (__syncthreads(), 1);  // here: a_vote_meets_a_barrier
}
PLANTED(a_vote_meets_a_barrier)

template <bool mended>
__device__ void barrier_while_another_warp_shuffles(const float* in, float* out, unsigned*, int) {
  float value = in[threadIdx.x];
  if (!mended && threadIdx.x == 7) __syncthreads();
  value = warp_sum(value);
  if (mended || threadIdx.x != 7) __syncthreads();
  out[threadIdx.x] = value;
}
PLANTED(barrier_while_another_warp_shuffles)
