// One segment of a group times up to 8 tokens: a lane has a row, and sums it in the order of docs/numerics.md.
#pragma once

#include "activations.cuh"
#include "formats.cuh"

__device__ __forceinline__ int low_sum(int sums) { return (short)sums; }
__device__ __forceinline__ int high_sum(int sums) { return sums >> 16; }

// Four quads of weights times four of activations.
__device__ __forceinline__ int dot_quads(const unsigned (&w)[4], unsigned x0, unsigned x1, unsigned x2, unsigned x3,
                                         int sum) {
    sum = __dp4a((int)w[0], (int)x0, sum);
    sum = __dp4a((int)w[1], (int)x1, sum);
    sum = __dp4a((int)w[2], (int)x2, sum);
    return __dp4a((int)w[3], (int)x3, sum);
}

// The upper bits of a lane's own row, a segment at a time.
template <int FORMAT>
struct UpperPlanes {
    static constexpr int N = FORMAT == Q6_K ? 4 : 2;
    uint4 plane[N];

    __device__ __forceinline__ void load(const u8* segment) {
        if (has_fifth_bit(FORMAT) || FORMAT == Q6_K)
#pragma unroll
            for (int i = 0; i < N; ++i) plane[i] = load_plane(upper_bits<FORMAT>(segment) + i * PLANE, lane_id());
    }
    __device__ __forceinline__ Upper of_block(int b) const {
        if (has_fifth_bit(FORMAT)) return {word_of(b < 4 ? plane[0] : plane[1], b & 3), 0};
        if (FORMAT != Q6_K) return {0, 0};
        const uint4 two = b < 4 ? (b < 2 ? plane[0] : plane[1]) : (b < 6 ? plane[N - 2] : plane[N - 1]);
        return {b & 1 ? two.z : two.x, b & 1 ? two.w : two.y};
    }
};

// Block b of a segment, block `column_block` of the row, for every token.
template <int FORMAT, int T>
__device__ __forceinline__ void add_block(const Head<FORMAT>& head, const UpperPlanes<FORMAT>& upper, const u8* data,
                                          int b, int column_block, const Activations& x, float (&acc)[T]) {
    unsigned low[4], high[4];
    if (FORMAT == Q8_0) {
        uint4 first = load_plane(data, lane_id()), second = load_plane(data + PLANE, lane_id());
#pragma unroll
        for (int j = 0; j < 4; ++j) low[j] = word_of(first, j), high[j] = word_of(second, j);
    } else {
        uint4 nibbles = load_plane(data, lane_id());
#pragma unroll
        for (int j = 0; j < 4; ++j) join_quads<FORMAT>(word_of(nibbles, j), upper.of_block(b), j, low[j], high[j]);
    }
    float dw = head.scale(b), m = has_minimum(FORMAT) ? head.minimum(b) : 0.0f;
#pragma unroll
    for (int t = 0; t < T; ++t) {
        const int row = column_block * T + t;
        uint4 u = x.quads[row * 2], v = x.quads[row * 2 + 1];
        float2 d = x.scales[row];
        int sums = offset_of(FORMAT) ? x.sums[row] : 0, whole;
        if (FORMAT == Q6_K) {
            int s = -32 * low_sum(sums), r = -32 * high_sum(sums);
            s = dot_quads(low, u.x, u.z, v.x, v.z, s);
            r = dot_quads(high, u.y, u.w, v.y, v.w, r);
            whole = s * head.half_scale(b, 0) + r * head.half_scale(b, 1);
        } else {
            whole = offset_of(FORMAT) ? -offset_of(FORMAT) * (low_sum(sums) + high_sum(sums)) : 0;
            whole = dot_quads(low, u.x, u.z, v.x, v.z, whole);
            whole = dot_quads(high, u.y, u.w, v.y, v.w, whole);
        }
        acc[t] = fma_rn(mul_rn((float)whole, d.x), dw, acc[t]);
        if (has_minimum(FORMAT)) acc[t] = fma_rn(d.y, m, acc[t]);
    }
}

template <int FORMAT, int T>
__device__ __forceinline__ void add_quantised(const u8* data, int first_block, int n_blocks, const Activations& x,
                                              float (&acc)[T]) {
    Head<FORMAT> head;
    head.load(data, lane_id());
    UpperPlanes<FORMAT> upper;
    upper.load(data);
    data += head_bytes(FORMAT);
    if (n_blocks == SEGMENT) {
#pragma unroll
        for (int b = 0; b < SEGMENT; ++b)
            add_block<FORMAT, T>(head, upper, data + b * block_bytes(FORMAT), b, first_block + b, x, acc);
    } else {
#pragma unroll 1
        for (int b = 0; b < n_blocks; ++b)
            add_block<FORMAT, T>(head, upper, data + b * block_bytes(FORMAT), b, first_block + b, x, acc);
    }
}

template <int FORMAT>
__device__ __forceinline__ float weight_of(const uint4& v, int i) {
    if (FORMAT == F32) return __uint_as_float(word_of(v, i));
    if (FORMAT == F16) return half_of(v, i);
    unsigned word = word_of(v, i / 2);
    return __uint_as_float(i & 1 ? word & 0xffff0000u : word << 16);
}

// Column by column. `x.floats` is [T][n].
template <int FORMAT, int T>
__device__ __forceinline__ void add_floats(const u8* data, int first_block, int n_blocks, int n, const Activations& x,
                                           float (&acc)[T]) {
    constexpr int PER_PLANE = FORMAT == F32 ? 4 : 8;
    int first = first_block * BLOCK;
#pragma unroll 2
    for (int column = 0; column < n_blocks * BLOCK; column += PER_PLANE) {
        uint4 w = load_plane(data + column / PER_PLANE * PLANE, lane_id());
#pragma unroll
        for (int t = 0; t < T; ++t) {
            const float4* at = reinterpret_cast<const float4*>(x.floats + (size_t)t * n + first + column);
#pragma unroll
            for (int i = 0; i < PER_PLANE / 4; ++i) {
                float4 v = at[i];
                acc[t] = fma_rn(v.x, weight_of<FORMAT>(w, i * 4), acc[t]);
                acc[t] = fma_rn(v.y, weight_of<FORMAT>(w, i * 4 + 1), acc[t]);
                acc[t] = fma_rn(v.z, weight_of<FORMAT>(w, i * 4 + 2), acc[t]);
                acc[t] = fma_rn(v.w, weight_of<FORMAT>(w, i * 4 + 3), acc[t]);
            }
        }
    }
}

// acc[t] = segment `segment` of row `group` * 32 + lane, times token t.
template <int T>
__device__ __forceinline__ void multiply_segment(const Matrix& matrix, int group, int segment, const Activations& x,
                                                 float (&acc)[T]) {
    const u8* data = matrix.data + (size_t)group * matrix.group_bytes;
    int first_block = segment * SEGMENT, n_blocks = min(SEGMENT, matrix.n_blocks - first_block);
#pragma unroll
    for (int t = 0; t < T; ++t) acc[t] = 0.0f;
    switch (matrix.format) {
#define QCHAT_QUANTISED(F)                                                                             \
    case F:                                                                                            \
        add_quantised<F, T>(data + (size_t)segment * segment_bytes(F), first_block, n_blocks, x, acc); \
        break;
#define QCHAT_FLOATS(F)                                                                                                \
    case F:                                                                                                            \
        add_floats<F, T>(data + (size_t)segment * segment_bytes(F), first_block, n_blocks, matrix.n_blocks * BLOCK, x, \
                         acc);                                                                                         \
        break;
#include "formats_in_use.cuh"
#undef QCHAT_QUANTISED
#undef QCHAT_FLOATS
    }
}
