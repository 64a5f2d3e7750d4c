// The functions of docs/numerics.md: exp, SiLU, the tree sum, and int8 quantisation of a block.
#pragma once

#include "intrinsics.cuh"

constexpr float LEAST = 1e-36f;     // a block whose numbers are all under this counts as zeros
constexpr float LOWEST = -3.0e38f;  // below every score

// e^x as 2^n e^r with a polynomial of degree 6 (Cephes expf); 0 below -87, and e^88 above 88.
__device__ __forceinline__ float exp_contract(float x) {
    float clamped = larger(smaller(x, 88.0f), -87.0f);
    int n = __float2int_rn(mul_rn(clamped, 1.44269504088896341f));
    float k = (float)n;
    float r = fma_rn(k, 2.12194440e-4f, fma_rn(k, -0.693359375f, clamped));
    float p = 1.9875691500e-4f;
    p = fma_rn(p, r, 1.3981999507e-3f);
    p = fma_rn(p, r, 8.3334519073e-3f);
    p = fma_rn(p, r, 4.1665795894e-2f);
    p = fma_rn(p, r, 1.6666665459e-1f);
    p = fma_rn(p, r, 0.5f);
    p = add_rn(fma_rn(p, mul_rn(r, r), r), 1.0f);
    return x < -87.0f ? 0.0f : __int_as_float(__float_as_int(p) + n * (1 << 23));
}

__device__ __forceinline__ float silu_times(float gate, float up) {
    return mul_rn(div_rn(gate, add_rn(1.0f, exp_contract(sub_rn(0.0f, gate)))), up);
}

// The sum over `width` lanes, a power of two: part i and part i + width / 2, and so on. Every lane gets it.
__device__ __forceinline__ float tree_sum(float part, int width) {
    for (int half = width / 2; half; half /= 2) part = add_rn(part, __shfl_xor_sync(ALL_LANES, part, half));
    return part;
}

__device__ __forceinline__ float largest_of(float x, int width) {
    for (int half = width / 2; half; half /= 2) x = larger(x, __shfl_xor_sync(ALL_LANES, x, half));
    return x;
}

__device__ __forceinline__ int whole_sum(int x, int width) {
    for (int half = width / 2; half; half /= 2) x += __shfl_xor_sync(ALL_LANES, x, half);
    return x;
}

// What a number of a block is multiplied with before it is rounded; `largest` is the block's max |x|.
__device__ __forceinline__ float quantising_factor(float largest) {
    return largest >= LEAST ? div_rn(127.0f, largest) : 0.0f;
}

__device__ __forceinline__ int quantised(float x, float factor) { return __float2int_rn(mul_rn(x, factor)); }
