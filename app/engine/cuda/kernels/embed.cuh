// A token's embedding: one row of a packed matrix as the float32 numbers that it stands for, with the bits of
// `dequantise` in app/engine/formats.py.
#pragma once

#include "arithmetic.cuh"
#include "formats.cuh"

// Column `column` of row `row` of a group.
template <int FORMAT>
__device__ __forceinline__ float weight_at(const u8* group, int row, int column) {
    const u8* segment = group + (size_t)(column / (SEGMENT * BLOCK)) * segment_bytes(FORMAT);
    const int b = column / BLOCK % SEGMENT, i = column % BLOCK;
    Head<FORMAT> head;
    head.load(segment, row);
    const u8* data = segment + head_bytes(FORMAT) + b * block_bytes(FORMAT) + row * 16;
    if (FORMAT == Q8_0) return mul_rn(head.scale(b), (float)(i8)data[i / 16 * PLANE + i % 16]);
    int q = data[i % 16] >> i / 16 * 4 & 15;
    const u8* upper = upper_bits<FORMAT>(segment) + row * 16;
    if (has_fifth_bit(FORMAT)) q |= (upper[b / 4 * PLANE + b % 4 * 4 + i % 4] >> i / 4 & 1) << 4;
    if (FORMAT == Q6_K) {
        q |= (upper[b / 2 * PLANE + b % 2 * 8 + i / 16 * 4 + i % 4] >> i % 16 / 4 * 2 & 3) << 4;
        return mul_rn(mul_rn(head.scale(b), (float)head.half_scale(b, i / 16)), (float)(q - offset_of(FORMAT)));
    }
    const float w = mul_rn(head.scale(b), (float)(q - offset_of(FORMAT)));
    return has_minimum(FORMAT) ? add_rn(w, head.minimum(b)) : w;
}

template <int FORMAT>
__device__ __forceinline__ float float_at(const u8* group, int row, int column) {
    const int at = column * (FORMAT == F32 ? 4 : 2);
    const u8* place = group + (size_t)(at / 16) * PLANE + row * 16 + at % 16;
    if (FORMAT == F32) return *reinterpret_cast<const float*>(place);
    const unsigned bits = *reinterpret_cast<const u16*>(place);
    return FORMAT == F16 ? half_to_float(bits) : __uint_as_float(bits << 16);
}

__device__ inline float number_at(const Matrix& matrix, int row, int column) {
    const u8* group = matrix.data + (size_t)(row / LANES) * matrix.group_bytes;
    switch (matrix.format) {
#define QCHAT_QUANTISED(F) \
    case F:                \
        return weight_at<F>(group, row % LANES, column);
#define QCHAT_FLOATS(F) \
    case F:             \
        return float_at<F>(group, row % LANES, column);
#include "formats_in_use.cuh"
#undef QCHAT_QUANTISED
#undef QCHAT_FLOATS
    }
    return 0.0f;
}

// The embeddings of a step's tokens, or of a chunk's, into the residual. A warp has 32 columns of a token at a time.
__device__ inline void embed(const Step& step) {
    const int warps = blockDim.x / 32;
    for (int i = blockIdx.x * warps + warp_id(); i < step.n_tokens * step.embedding.n_blocks; i += gridDim.x * warps) {
        const int t = i / step.embedding.n_blocks, column = i % step.embedding.n_blocks * BLOCK + lane_id();
        step.residual[(size_t)t * step.d_model + column] = number_at(step.embedding, step.tokens[t], column);
    }
}
