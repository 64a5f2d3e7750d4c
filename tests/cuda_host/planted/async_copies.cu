// Bugs with cp.async.
#include "planted.cuh"

template <bool mended>
__device__ void copy_read_before_it_arrived(const float* in, float* out, unsigned*, int) {
  __shared__ __align__(16) float tile[64];
  if (threadIdx.x < 16) cuda_host::cp_async<16>(tile + 4 * threadIdx.x, in + 4 * threadIdx.x);
  cuda_host::cp_async_commit();
  if constexpr (mended) cuda_host::cp_async_wait<0>();
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];  // here: copy_read_before_it_arrived
  cuda_host::cp_async_wait<0>();
}
PLANTED(copy_read_before_it_arrived)

template <bool mended>
__device__ void copy_waited_for_by_its_own_thread_only(const float* in, float* out, unsigned*, int) {
  __shared__ __align__(16) float tile[256];
  cuda_host::cp_async<16>(tile + 4 * threadIdx.x, in + 4 * threadIdx.x);
  cuda_host::cp_async_commit();
  cuda_host::cp_async_wait<0>();
  if constexpr (mended) __syncthreads();
  out[threadIdx.x] = tile[(4 * threadIdx.x + 4) % 256];
}
PLANTED(copy_waited_for_by_its_own_thread_only)

// Two stages: while one is used, the next arrives. The bug waits as if the newest group were none.
template <bool mended>
__device__ void one_group_too_many_left(const float* in, float* out, unsigned*, int n) {
  __shared__ __align__(16) float stages[2][64];
  const auto fetch = [&](int stage) {
    if (threadIdx.x < 16 && stage * 64 < n)
      cuda_host::cp_async<16>(stages[stage & 1] + 4 * threadIdx.x, in + stage * 64 + 4 * threadIdx.x);
    cuda_host::cp_async_commit();
  };
  float sum = 0;
  fetch(0);
  for (int stage = 0; stage * 64 < n; stage++) {
    fetch(stage + 1);
    cuda_host::cp_async_wait<mended ? 1 : 2>();
    __syncthreads();
    sum += stages[stage & 1][63 - threadIdx.x];  // here: one_group_too_many_left
    __syncthreads();
  }
  cuda_host::cp_async_wait<0>();
  out[threadIdx.x] = sum;
}
PLANTED(one_group_too_many_left)

template <bool mended>
__device__ void return_with_a_copy_under_way(const float* in, float* out, unsigned*, int) {
  __shared__ __align__(16) float tile[64];
  const int at = 4 * threadIdx.x;
  if (threadIdx.x < 16) cuda_host::cp_async<16>(tile + at, in + at);  // here: return_with_a_copy_under_way
  cuda_host::cp_async_commit();
  if constexpr (mended) cuda_host::cp_async_wait<0>();
  out[threadIdx.x] = 0;
}
PLANTED(return_with_a_copy_under_way)

template <bool mended>
__device__ void misaligned_copy(const float* in, float* out, unsigned*, int) {
  __shared__ __align__(16) float tile[64];
  const int at = 4 * threadIdx.x;
  if (threadIdx.x < 8) cuda_host::cp_async<16>(tile + at, in + at + (mended ? 4 : 1));  // here: misaligned_copy
  cuda_host::cp_async_commit();
  cuda_host::cp_async_wait<0>();
  out[threadIdx.x] = 0;
}
PLANTED(misaligned_copy)

template <bool mended>
__device__ void copy_of_more_bytes_than_its_size(const float* in, float* out, unsigned*, int n) {
  __shared__ __align__(16) float tile[64];
  const int at = 4 * threadIdx.x, bytes = n / 32 * (mended ? 1 : 4);  // 8 or 32
  if (threadIdx.x < 16) cuda_host::cp_async<16>(tile + at, in + at, bytes);  // here: copy_of_more_bytes_than_its_size
  cuda_host::cp_async_commit();
  cuda_host::cp_async_wait<0>();
  out[threadIdx.x] = 0;
}
PLANTED(copy_of_more_bytes_than_its_size)

template <bool mended>
__device__ void copy_to_an_odd_place(const float* in, float* out, unsigned*, int) {
  __shared__ __align__(16) float tile[64];
  const int at = 4 * threadIdx.x;
  if (threadIdx.x < 8) cuda_host::cp_async<16>(tile + at + (mended ? 4 : 1), in + at);  // here: copy_to_an_odd_place
  cuda_host::cp_async_commit();
  cuda_host::cp_async_wait<0>();
  out[threadIdx.x] = 0;
}
PLANTED(copy_to_an_odd_place)
