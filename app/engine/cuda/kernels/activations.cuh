// The rows that a product multiplies: normalised where a norm comes first, as int8 blocks, as floats, or as both.
//
// T tokens (those past the step's are zeros) of n columns, in one stretch of memory, shared or global.
// T is the stride of blocks: 1, 2, 4 or 8 in a step, the padded length of a chunk in prefill.
//
//     quads    [blocks][T] 32 bytes    int8 in the order of quads 0, 4, 1, 5, 2, 6, 3, 7: two neighbours share a nibble
//     word scales   [blocks][T] float2      d, and d times the sum of the block sums     [blocks][T] int         sums
//     of quads 0..3 (low half) and of quads 4..7 (high half) floats   [T][n]                  for weights that are
//     floats
#pragma once

#include "arithmetic.cuh"
#include "layout.cuh"

struct Activations {
    uint4* quads;
    float2* scales;
    int* sums;
    float* floats;
    int stride;  // T

    // The same from token `first` on; floats have n columns.
    __device__ __forceinline__ Activations from(int first, int n) const {
        return {quads + first * 2, scales + first, sums + first, floats + (size_t)first * n, stride};
    }
};

__host__ __device__ constexpr size_t quantised_bytes(int n_blocks, int n_tokens) {
    return (size_t)n_blocks * n_tokens * 44;
}

// The places of the parts, from `memory` on; floats follow where there are blocks of int8 before them.
__device__ __forceinline__ Activations activations_at(u8* memory, int n_blocks, int n_tokens, bool ints) {
    Activations x;
    x.quads = reinterpret_cast<uint4*>(memory);
    x.scales = reinterpret_cast<float2*>(memory + (size_t)n_blocks * n_tokens * 32);
    x.sums = reinterpret_cast<int*>(memory + (size_t)n_blocks * n_tokens * 40);
    x.floats = reinterpret_cast<float*>(memory + (ints ? (quantised_bytes(n_blocks, n_tokens) + 15) / 16 * 16 : 0));
    x.stride = n_tokens;
    return x;
}

// One quad (four neighbouring columns v, quad j) of place `row` = block * T + t; eight lanes bring the block's quads,
// and all 32 lanes of the warp come. Nothing is stored where row is -1.
__device__ __forceinline__ void quantise_quad(const Activations& x, int row, int j, float4 v) {
    float largest = largest_of(larger(larger(absolute(v.x), absolute(v.y)), larger(absolute(v.z), absolute(v.w))), 8);
    float factor = quantising_factor(largest), d = div_rn(largest, 127.0f);
    int a = quantised(v.x, factor), b = quantised(v.y, factor), c = quantised(v.z, factor), e = quantised(v.w, factor);
    int half = whole_sum(a + b + c + e, 4);  // of quads 0..3, or of quads 4..7
    int other = __shfl_xor_sync(ALL_LANES, half, 4);
    int place = (j & 3) * 2 + (j >> 2);
    if (row < 0) return;
    reinterpret_cast<unsigned*>(x.quads + row * 2)[place] =
        (a & 0xffu) | (b & 0xffu) << 8 | (c & 0xffu) << 16 | (unsigned)e << 24;
    if (j == 0) {
        x.scales[row] = make_float2(d, mul_rn((float)(half + other), d));
        x.sums[row] = (half & 0xffff) | (int)((unsigned)other << 16);
    }
}

// factors[t] = 1 / sqrt(mean of squares + eps) of rows [n_tokens, n]. Element i is squared into partial sum i mod 64.
template <int T>
__device__ void norm_factors(const float* rows, int n, int n_tokens, float eps, float* factors) {
    __shared__ float parts[T * NORM_PARTS];
    for (int i = threadIdx.x; i < T * NORM_PARTS; i += blockDim.x) {
        int t = i / NORM_PARTS;
        float acc = 0.0f;
        if (t < n_tokens)
#pragma unroll 8
            for (int column = i % NORM_PARTS; column < n; column += NORM_PARTS) {
                float v = rows[(size_t)t * n + column];
                acc = fma_rn(v, v, acc);
            }
        parts[i] = acc;
    }
    __syncthreads();
    for (int t = warp_id(); t < n_tokens; t += blockDim.x / 32) {
        const float* p = parts + t * NORM_PARTS;
        float mean = div_rn(tree_sum(add_rn(p[lane_id()], p[lane_id() + 32]), 32), (float)n);
        if (lane_id() == 0) factors[t] = div_rn(1.0f, sqrt_rn(add_rn(mean, eps)));
    }
    __syncthreads();
}

// T tokens of n columns into `x`, by all threads of the block. `load(t, quad)` gives four columns of a token under
// n_tokens.
template <int T, class Load>
__device__ __forceinline__ void place_rows(int n, int n_tokens, bool ints, bool floats, const Activations& x,
                                           Load load) {
    const int quads = n / 4;
    for (int first = warp_id() * 32; first < quads * T; first += blockDim.x) {  // n is a multiple of 32: whole blocks
        const int i = first + lane_id(), t = i / quads, quad = i % quads;
        float4 v = t < n_tokens ? load(t, quad) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (ints) quantise_quad(x, t < T ? quad / 8 * x.stride + t : -1, quad % 8, v);
        if (floats && t < T) *reinterpret_cast<float4*>(x.floats + (size_t)t * n + quad * 4) = v;
    }
}

// Rows [n_tokens, n], normalised where `norm` is not null, into `x`.
template <int T>
__device__ void prepare(const float* rows, int n, int n_tokens, const float* norm, float eps, bool ints, bool floats,
                        const Activations& x) {
    __shared__ float factors[T];
    if (norm) norm_factors<T>(rows, n, n_tokens, eps, factors);
    place_rows<T>(n, n_tokens, ints, floats, x, [&](int t, int quad) {
        float4 v = *reinterpret_cast<const float4*>(rows + (size_t)t * n + quad * 4);
        if (!norm) return v;
        const float4 w = __ldg(reinterpret_cast<const float4*>(norm) + quad);
        const float f = factors[t];
        return make_float4(mul_rn(mul_rn(v.x, f), w.x), mul_rn(mul_rn(v.y, f), w.y), mul_rn(mul_rn(v.z, f), w.z),
                           mul_rn(mul_rn(v.w, f), w.w));
    });
    __syncthreads();
}

// Activations that an earlier phase left in global memory.
template <int T>
__device__ void fetch(const u8* source, int n_blocks, u8* target) {
    int n_bytes = (int)quantised_bytes(n_blocks, T), wide = n_bytes / 16;
    for (int i = threadIdx.x; i < wide; i += blockDim.x)
        reinterpret_cast<uint4*>(target)[i] = reinterpret_cast<const uint4*>(source)[i];
    for (int i = wide * 4 + threadIdx.x; i < n_bytes / 4; i += blockDim.x)
        reinterpret_cast<int*>(target)[i] = reinterpret_cast<const int*>(source)[i];
    __syncthreads();
}

// A block of 32 columns, one a lane, at [block][t] of activations in global memory.
__device__ __forceinline__ void quantise_column(const Activations& x, int row, float value) {
    float largest = largest_of(absolute(value), 32);
    float d = div_rn(largest, 127.0f);
    int q = quantised(value, quantising_factor(largest)), lane = lane_id(), j = lane / 4;
    reinterpret_cast<i8*>(x.quads + row * 2)[((j & 3) * 2 + (j >> 2)) * 4 + (lane & 3)] = (i8)q;
    int half = whole_sum(q, 16), other = __shfl_xor_sync(ALL_LANES, half, 16);
    if (lane == 0) {
        x.scales[row] = make_float2(d, mul_rn((float)(half + other), d));
        x.sums[row] = (half & 0xffff) | (int)((unsigned)other << 16);
    }
}
