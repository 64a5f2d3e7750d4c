// Matrix products of a prompt chunk on tensor cores: 32 rows x 32 tokens a warp, in the same order of sums as a step.
//
// mma m16n8k32 gives the exact int32 of a block of 32 columns for 16 rows and 8 tokens; the float operations of
// docs/numerics.md follow on each of them. Of a product lane 4 g + t has rows g and g + 8, tokens 2 t and 2 t + 1; it
// brings quads t and t + 4 of rows g and g + 8 (in nibble formats one word of each) and of token g (one 8-byte load).
#pragma once

#include "products.cuh"

constexpr int TILE_WARPS = 8;
constexpr int WARP_TOKENS = 32;
constexpr int TILE_TOKENS = 2 * WARP_TOKENS;  // of a block of threads: half of its warps have the first 32
constexpr int TILE_GROUPS = TILE_WARPS / 2;
constexpr int STAGE_BYTES = SEGMENT * TILE_TOKENS * 44;  // activations of one segment

// Sums of 32 rows x 32 tokens: [16 rows][8 tokens][fragment]; of float weights [token], and the row is the lane's.
struct Sums {
    float at[2][4][4];
};

__device__ __forceinline__ float& of_token(Sums& sums, int token) {
    return sums.at[token / 16][token / 4 % 4][token % 4];
}

// Adds 12582912 (1.5 * 2^23) to a whole number under 2^22 by way of its bits, and takes it off again: exact.
constexpr int MAGIC_BITS = 0x4b400000;
__device__ __forceinline__ float from_magic(int bits) { return sub_rn(__int_as_float(bits), 12582912.0f); }

// One word of the weights of row `row` of the group.
__device__ __forceinline__ unsigned load_word(const u8* plane, int row, int word) {
    return __ldg(reinterpret_cast<const unsigned*>(plane + row * 16) + word);
}

template <int FORMAT>
__device__ __forceinline__ Upper load_upper(const u8* segment, int row, int b) {
    const u8* planes = upper_bits<FORMAT>(segment);
    if (has_fifth_bit(FORMAT)) return {load_word(planes + b / 4 * PLANE, row, b & 3), 0};
    if (FORMAT != Q6_K) return {0, 0};
    const uint2 two = __ldg(reinterpret_cast<const uint2*>(planes + b / 2 * PLANE + row * 16) + (b & 1));
    return {two.x, two.y};
}

// `x` is the segment's stage; `first` the warp's first token in it. Sums are added to `sums`, which begin at 0.
template <int FORMAT>
__device__ __forceinline__ void multiply_tile(const u8* segment, int n_blocks, const Activations& x, int first,
                                              Sums& sums) {
    const int g = lane_id() >> 2, t = lane_id() & 3;
    Head<FORMAT> heads[4];  // rows g, g + 8, g + 16, g + 24
#pragma unroll
    for (int i = 0; i < 4; ++i) heads[i].load(segment, g + 8 * i);
    const u8* data = segment + head_bytes(FORMAT);
#pragma unroll 2
    for (int b = 0; b < n_blocks; ++b, data += block_bytes(FORMAT)) {
        unsigned low[4], high[4];
        float dw[4], m[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = g + 8 * i;
            if (FORMAT == Q8_0) {
                low[i] = load_word(data, row, t);
                high[i] = load_word(data + PLANE, row, t);
            } else {
                join_quads<FORMAT>(load_word(data, row, t), load_upper<FORMAT>(segment, row, b), t, low[i], high[i]);
            }
            dw[i] = heads[i].scale(b);
            m[i] = has_minimum(FORMAT) ? heads[i].minimum(b) : 0.0f;
        }
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int place = b * TILE_TOKENS + first + n * 8;
            const uint2 quads = reinterpret_cast<const uint2*>(x.quads + (place + g) * 2)[t];
            const float4 d = *reinterpret_cast<const float4*>(x.scales + place + 2 * t);  // of both tokens
            int2 s = make_int2(0, 0);
            if (offset_of(FORMAT)) s = *reinterpret_cast<const int2*>(x.sums + place + 2 * t);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int i = 2 * half;
                float whole[4];
                if (FORMAT == Q6_K) {
                    const int l0 = -32 * low_sum(s.x), l1 = -32 * low_sum(s.y);
                    const int h0 = -32 * high_sum(s.x), h1 = -32 * high_sum(s.y);
                    int c[4] = {l0, l1, l0, l1}, e[4] = {h0, h1, h0, h1};
                    mma_16x8x16(c, low[i], low[i + 1], quads.x);
                    mma_16x8x16(e, high[i], high[i + 1], quads.y);
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        whole[k] = (float)(c[k] * heads[i + k / 2].half_scale(b, 0) +
                                           e[k] * heads[i + k / 2].half_scale(b, 1));
                } else {
                    const int s0 = MAGIC_BITS - offset_of(FORMAT) * (low_sum(s.x) + high_sum(s.x));
                    const int s1 = MAGIC_BITS - offset_of(FORMAT) * (low_sum(s.y) + high_sum(s.y));
                    int c[4] = {s0, s1, s0, s1};
                    mma_16x8x32(c, low[i], low[i + 1], high[i], high[i + 1], quads.x, quads.y);
#pragma unroll
                    for (int k = 0; k < 4; ++k) whole[k] = from_magic(c[k]);
                }
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    float& acc = sums.at[half][n][k];
                    acc = fma_rn(mul_rn(whole[k], k & 1 ? d.z : d.x), dw[i + k / 2], acc);
                    if (has_minimum(FORMAT)) acc = fma_rn(k & 1 ? d.w : d.y, m[i + k / 2], acc);
                }
            }
        }
    }
}

// Float weights: a lane has a row, and reads what it is multiplied with from global memory, all lanes the same.
template <int FORMAT>
__device__ __forceinline__ void multiply_float_tile(const u8* data, int first_block, int n_blocks, int n,
                                                    const Activations& x, int first, Sums& sums) {
#pragma unroll
    for (int token = 0; token < WARP_TOKENS; token += 8) {
        float acc[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        add_floats<FORMAT, 8>(data, first_block, n_blocks, n, x.from(first + token, n), acc);
#pragma unroll
        for (int i = 0; i < 8; ++i) of_token(sums, token + i) = acc[i];
    }
}

// Blocks first_block .. of tokens first .. of a chunk's activations to shared memory.
__device__ __forceinline__ void stage(const Activations& x, int first_block, int n_blocks, int first, u8* shared) {
    const Activations to = activations_at(shared, SEGMENT, TILE_TOKENS, true);
    constexpr int QUADS = TILE_TOKENS * 2, SCALES = TILE_TOKENS / 2, ALL = QUADS + SCALES + TILE_TOKENS / 4;
    for (int i = threadIdx.x; i < n_blocks * ALL; i += blockDim.x) {
        const int b = i / ALL, j = i % ALL, from = (first_block + b) * x.stride + first, at = b * TILE_TOKENS;
        if (j < QUADS)
            copy_16(to.quads + at * 2 + j, x.quads + (size_t)from * 2 + j);
        else if (j < QUADS + SCALES)
            copy_16(to.scales + at + (j - QUADS) * 2, x.scales + from + (j - QUADS) * 2);
        else
            copy_16(to.sums + at + (j - QUADS - SCALES) * 4, x.sums + from + (j - QUADS - SCALES) * 4);
    }
}

// The warp's rows (a group of `matrix`, or none where it is null) times its tokens, whole rows.
__device__ __forceinline__ void multiply_rows(const Matrix* matrix, int group, int n_blocks, bool ints,
                                              const Activations& x, int first_token, int first_in_tile, Sums& total) {
    const int n_segments = (n_blocks + SEGMENT - 1) / SEGMENT;
    if (ints) stage(x, 0, min(SEGMENT, n_blocks), first_token, smem);
    for (int segment = 0; segment < n_segments; ++segment) {
        const int first_block = segment * SEGMENT, here = min(SEGMENT, n_blocks - first_block);
        u8* shared = smem + (segment & 1) * STAGE_BYTES;
        finish_copies();
        __syncthreads();  // this segment is here, and nobody reads the one before it any more
        if (ints && segment + 1 < n_segments)
            stage(x, first_block + SEGMENT, min(SEGMENT, n_blocks - first_block - SEGMENT), first_token,
                  smem + (segment + 1 & 1) * STAGE_BYTES);
        if (!matrix) continue;
        const Activations staged = activations_at(shared, SEGMENT, TILE_TOKENS, true);
        const u8* data = matrix->data + (size_t)group * matrix->group_bytes;
        Sums sums;
#pragma unroll
        for (int i = 0; i < 32; ++i) of_token(sums, i) = 0.0f;
        switch (matrix->format) {
#define QCHAT_QUANTISED(F)                                                                              \
    case F:                                                                                             \
        multiply_tile<F>(data + (size_t)segment * segment_bytes(F), here, staged, first_in_tile, sums); \
        break;
#define QCHAT_FLOATS(F)                                                                                           \
    case F:                                                                                                       \
        multiply_float_tile<F>(data + (size_t)segment * segment_bytes(F), first_block, here, n_blocks * BLOCK, x, \
                               first_token + first_in_tile, sums);                                                \
        break;
#include "formats_in_use.cuh"
#undef QCHAT_QUANTISED
#undef QCHAT_FLOATS
        }
#pragma unroll
        for (int i = 0; i < 32; ++i)
            of_token(total, i) = segment == 0 ? of_token(sums, i) : add_rn(of_token(total, i), of_token(sums, i));
    }
}
