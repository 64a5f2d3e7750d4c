// half and half2: conversions and arithmetic that round to nearest even, bit for bit; NaN becomes 0x7fff.
#pragma once

#include "cuda_host.h"

namespace cuda_host {

inline uint16_t half_bits(float value) {
  const uint32_t all = bits<uint32_t>(value), sign = all >> 16 & 0x8000, magnitude = all & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 and more round to infinity
  if (magnitude < 0x38800000)  // below the smallest normal half: adding 0.5 leaves the rounded mantissa at the bottom
    return uint16_t(sign | (bits<uint32_t>(bits<float>(magnitude) + 0.5f) - 0x3f000000));
  return uint16_t(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13));
}

inline float half_value(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
  if (exponent == 31) return bits<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent) return bits<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  return bits<float>(sign | bits<uint32_t>(float(mantissa) * 0x1p-24f));
}

}  // namespace cuda_host

struct __half {
  uint16_t bits;
  __half() = default;
  __half(float value) : bits(cuda_host::half_bits(value)) {}
  operator float() const { return cuda_host::half_value(bits); }
};
typedef __half half;
struct alignas(4) __half2 {
  __half x, y;
};
typedef __half2 half2;

inline float __half2float(__half h) { return h; }
inline __half __float2half(float f) { return f; }
inline __half __float2half_rn(float f) { return f; }
inline unsigned short __half_as_ushort(__half h) { return h.bits; }
inline __half __ushort_as_half(unsigned short bits) {
  __half h;
  h.bits = bits;
  return h;
}
inline float2 __half22float2(__half2 h) { return {h.x, h.y}; }
inline __half2 __floats2half2_rn(float a, float b) { return {a, b}; }
inline __half2 __float22half2_rn(float2 f) { return {f.x, f.y}; }
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half __low2half(__half2 h) { return h.x; }
inline __half __high2half(__half2 h) { return h.y; }
inline float __low2float(__half2 h) { return h.x; }
inline float __high2float(__half2 h) { return h.y; }

// A product of two halves is exact in float and a sum is rounded once; a*b + c needs double for that.
inline __half operator+(__half a, __half b) { return float(a) + float(b); }
inline __half operator-(__half a, __half b) { return float(a) - float(b); }
inline __half operator*(__half a, __half b) { return float(a) * float(b); }
inline __half __hadd(__half a, __half b) { return a + b; }
inline __half __hsub(__half a, __half b) { return a - b; }
inline __half __hmul(__half a, __half b) { return a * b; }
inline __half2 __hadd2(__half2 a, __half2 b) { return {a.x + b.x, a.y + b.y}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {a.x * b.x, a.y * b.y}; }
