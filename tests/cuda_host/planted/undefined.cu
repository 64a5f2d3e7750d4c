// What C++ leaves undefined, in arithmetic and elsewhere.
#include "planted.cuh"

template <bool mended>
__device__ void index_that_overflows(const float* in, float* out, unsigned*, int n) {
  using Index = std::conditional_t<mended, long long, int>;
  const Index row = n * 1024, bytes = row * 65536;  // here: index_that_overflows
  out[threadIdx.x] = in[threadIdx.x] + float(bytes >> 40);
}
PLANTED(index_that_overflows)

template <bool mended>
__device__ void shift_by_all_bits(const float* in, float* out, unsigned*, int n) {
  const int bits = n / 8;  // 32
  const unsigned mask = mended && bits == 32 ? ~0u : (1u << bits) - 1;  // here: shift_by_all_bits
  out[threadIdx.x] = in[threadIdx.x] + mask;
}
PLANTED(shift_by_all_bits)

template <bool mended>
__device__ void division_by_zero(const float* in, float* out, unsigned* words, int n) {
  const int heads = int(words[0]);  // 0
  out[threadIdx.x] = in[threadIdx.x] + (mended && !heads ? 0 : n / heads);  // here: division_by_zero
}
PLANTED(division_by_zero)

template <bool mended>
__device__ void difference_that_overflows(const float* in, float* out, unsigned*, int n) {
  using Number = std::conditional_t<mended, long long, int>;
  const Number least = Number(n) * -8388608, below = least - 1;  // here: difference_that_overflows
  out[threadIdx.x] = in[threadIdx.x] + float(below);
}
PLANTED(difference_that_overflows)

template <bool mended>
__device__ void sum_that_overflows(const float* in, float* out, unsigned*, int n) {
  using Number = std::conditional_t<mended, long long, int>;
  const Number most = Number(n - 1) << 23 | 8388607, above = most + n;  // here: sum_that_overflows
  out[threadIdx.x] = in[threadIdx.x] + float(above);
}
PLANTED(sum_that_overflows)

template <bool mended>
__device__ void negation_that_overflows(const float* in, float* out, unsigned*, int n) {
  const int least = n * -8388608;
  out[threadIdx.x] = in[threadIdx.x] + float(mended ? -(long long)least : -least);  // here: negation_that_overflows
}
PLANTED(negation_that_overflows)

template <bool mended>
__device__ void bool_that_holds_another_number(const float* in, float* out, unsigned* words, int) {
  if (threadIdx.x == 0) words[3] = mended ? 1 : 5;
  __syncthreads();
  const bool flag = *reinterpret_cast<const bool*>(words + 3);  // here: bool_that_holds_another_number
  out[threadIdx.x] = flag ? in[0] : 0;
}
PLANTED(bool_that_holds_another_number)

template <bool mended>
__device__ void pointer_round_the_address_space(const float* in, float* out, unsigned*, int n) {
  const long long far = (long long)n << 53;  // 2^63 bytes
  const float* other = in + (mended ? far >> 60 : far);  // here: pointer_round_the_address_space
  out[threadIdx.x] = other == out;
}
PLANTED(pointer_round_the_address_space)

template <bool mended>
__device__ void place_that_cannot_be_reached(const float* in, float* out, unsigned*, int n) {
  if (threadIdx.x < (mended ? 64 : n / 8)) out[threadIdx.x] = in[threadIdx.x];
  else __builtin_unreachable();  // here: place_that_cannot_be_reached
}
PLANTED(place_that_cannot_be_reached)

template <bool mended>
__device__ void leading_zeros_of_nothing(const float* in, float* out, unsigned* words, int) {
  const unsigned none = words[0];
  out[threadIdx.x] = in[0] + (mended ? __clz(int(none)) : __builtin_clz(none));  // here: leading_zeros_of_nothing
}
PLANTED(leading_zeros_of_nothing)
