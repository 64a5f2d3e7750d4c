// CUDA's vector types with its sizes and alignments: a misaligned float4 is undefined here as well.
#pragma once

#include <cstddef>

#define CUDA_HOST_VECTOR2(name, type)     \
  struct alignas(2 * sizeof(type)) name { \
    type x, y;                            \
  };                                      \
  inline name make_##name(type x, type y) { return {x, y}; }

#define CUDA_HOST_VECTOR3(name, type) \
  struct name {                       \
    type x, y, z;                     \
  };                                  \
  inline name make_##name(type x, type y, type z) { return {x, y, z}; }

#define CUDA_HOST_VECTOR4(name, type)                             \
  struct alignas(sizeof(type) < 4 ? 4 * sizeof(type) : 16) name { \
    type x, y, z, w;                                              \
  };                                                              \
  inline name make_##name(type x, type y, type z, type w) { return {x, y, z, w}; }

#define CUDA_HOST_VECTORS(name, type) \
  CUDA_HOST_VECTOR2(name##2, type)    \
  CUDA_HOST_VECTOR3(name##3, type)    \
  CUDA_HOST_VECTOR4(name##4, type)

CUDA_HOST_VECTORS(char, signed char)
CUDA_HOST_VECTORS(uchar, unsigned char)
CUDA_HOST_VECTORS(short, short)
CUDA_HOST_VECTORS(ushort, unsigned short)
CUDA_HOST_VECTORS(int, int)
CUDA_HOST_VECTORS(uint, unsigned int)
CUDA_HOST_VECTORS(longlong, long long)
CUDA_HOST_VECTORS(ulonglong, unsigned long long)
CUDA_HOST_VECTORS(float, float)
CUDA_HOST_VECTORS(double, double)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr size_t count() const { return size_t(x) * y * z; }
};
