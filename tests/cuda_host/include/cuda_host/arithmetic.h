// Integer and float intrinsics. The rounded ones (_rn) are exact; the fast ones (__expf, __fdividef) are not the GPU's
// bits.
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "vectors.h"

namespace cuda_host {
template <class To, class From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
inline int saturated(float value) {  // float to int as the GPU does it: NaN is 0, what is too large is the largest
  if (value != value) return 0;
  return value >= 2147483648.0f ? INT_MAX : value < -2147483648.0f ? INT_MIN : int(value);
}
inline unsigned saturated_unsigned(float value) {
  if (!(value > 0)) return 0;
  return value >= 4294967296.0f ? UINT_MAX : unsigned(value);
}
template <class A, class B>
using Common = std::common_type_t<A, B>;
template <class A, class B>
using IfArithmetic = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, Common<A, B>>;
}  // namespace cuda_host

template <class A, class B>
constexpr cuda_host::IfArithmetic<A, B> min(A a, B b) {
  using T = cuda_host::Common<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return a != a ? T(b) : b != b ? T(a) : T(b) < T(a) ? T(b) : T(a);
  else
    return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
constexpr cuda_host::IfArithmetic<A, B> max(A a, B b) {
  using T = cuda_host::Common<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return a != a ? T(b) : b != b ? T(a) : T(a) < T(b) ? T(b) : T(a);
  else
    return T(a) < T(b) ? T(b) : T(a);
}

// ---- four bytes at a time
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c = int(unsigned(c) + unsigned(int8_t(a >> i) * int8_t(b >> i)));
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned select = selector >> 4 * i & 15, byte = bytes >> 8 * (select & 7) & 255;
    result |= (select & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;  // bit 3: the sign, eight times
  }
  return result;
}
inline unsigned __vadd4(unsigned a, unsigned b) {
  return ((a & 0x7f7f7f7fu) + (b & 0x7f7f7f7fu)) ^ ((a ^ b) & 0x80808080u);
}
inline unsigned __vsub4(unsigned a, unsigned b) {
  return ((a | 0x80808080u) - (b & 0x7f7f7f7fu)) ^ ((a ^ ~b) & 0x80808080u);
}

// ---- bits
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; i++) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __float_as_int(float x) { return cuda_host::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return cuda_host::bits<unsigned>(x); }
inline float __int_as_float(int x) { return cuda_host::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return cuda_host::bits<float>(x); }
inline long long __double_as_longlong(double x) { return cuda_host::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return cuda_host::bits<double>(x); }

// ---- floats, rounded to nearest even unless the name says otherwise
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
inline float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }

// ---- conversions
inline int __float2int_rn(float x) { return cuda_host::saturated(nearbyintf(x)); }
inline int __float2int_rz(float x) { return cuda_host::saturated(truncf(x)); }
inline int __float2int_rd(float x) { return cuda_host::saturated(floorf(x)); }
inline int __float2int_ru(float x) { return cuda_host::saturated(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return cuda_host::saturated_unsigned(nearbyintf(x)); }
inline unsigned __float2uint_rz(float x) { return cuda_host::saturated_unsigned(truncf(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }

inline long long clock64() {
  static long long ticks = 0;
  return ticks += 100;
}
