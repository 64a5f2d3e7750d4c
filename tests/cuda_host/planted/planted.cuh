// A planted bug is a template whose `mended` form is right; both become kernels with the same parameters. A comment
// `// here: name` marks the line that the finding must name.
#pragma once

#define PLANTED(name)                                                                                      \
  extern "C" __global__ void name##_bug(const float* in, float* out, unsigned* words, int n) {             \
    name<false>(in, out, words, n);                                                                        \
  }                                                                                                        \
  extern "C" __global__ void name##_mended(const float* in, float* out, unsigned* words, int n) {          \
    name<true>(in, out, words, n);                                                                         \
  }

extern __shared__ __align__(16) unsigned char smem[];

__device__ __forceinline__ int global_index() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int lane_index() { return threadIdx.x & 31; }

__device__ __forceinline__ float warp_sum(float value, unsigned mask = 0xffffffffu, int first = 16) {
  for (int lanes = first; lanes; lanes /= 2) value += __shfl_xor_sync(mask, value, lanes);
  return value;
}
