// How weights of each format lie in a segment of a group, and how a lane reads them.
//
// Planes of 32 lanes x 16 bytes, first those that belong to the whole segment, then those of its blocks of 32 columns:
//
//     Q8_0             8 scales (f16); a block: columns 0..15, columns 16..31
//     Q4_0, Q4_1       8 scales; Q4_1: 8 minima; a block: nibbles
//     Q5_0, Q5_1       the same, with the fifth bits of blocks 0..3 and of blocks 4..7 before the nibbles
//     Q4_K, Q5_K       d, dmin and the file's 12 bytes of 6-bit scales; Q5_K: fifth bits; nibbles
//     Q6_K             16 scales (int8); the top pairs of blocks 0 and 1, 2 and 3, ..; d (f16, 2 bytes a lane); nibbles
//     F16, BF16, F32   columns in order, 16 bytes of a row at a time
//
// Columns come in quads of four neighbours, a quad in a word. The low half of nibble word j holds quad j and the high
// half quad j + 4; in the word of a block's fifth bits, bit j of byte i tops column i of quad j; in the two words of
// its pairs, bits 2j.. of word h top quad 4h + j. Planes of a segment with fewer than 8 blocks have zeros in the rest.
#pragma once

#include "layout.cuh"

constexpr int F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q4_K = 12, Q5_K = 13, Q6_K = 14,
              BF16 = 30;
constexpr int PLANE = LANES * 16;  // bytes

__host__ __device__ constexpr bool is_float(int format) { return format == F32 || format == F16 || format == BF16; }
__host__ __device__ constexpr bool is_k(int format) { return format == Q4_K || format == Q5_K; }
__host__ __device__ constexpr bool has_minimum(int format) {
    return format == Q4_1 || format == Q5_1 || format == Q4_K || format == Q5_K;
}
__host__ __device__ constexpr bool has_fifth_bit(int format) {
    return format == Q5_0 || format == Q5_1 || format == Q5_K;
}
// Taken off a stored number to get the weight.
__host__ __device__ constexpr int offset_of(int format) {
    return format == Q4_0 ? 8 : format == Q5_0 ? 16 : format == Q6_K ? 32 : 0;
}
// Bytes before the blocks of a segment.
__host__ __device__ constexpr int head_bytes(int format) {
    return is_float(format) ? 0
           : format == Q6_K ? 5 * PLANE + LANES * 2
                            : (1 + (format == Q4_1 || format == Q5_1) + 2 * has_fifth_bit(format)) * PLANE;
}
__host__ __device__ constexpr int block_bytes(int format) {
    return format == F32 ? 8 * PLANE : format == F16 || format == BF16 ? 4 * PLANE : format == Q8_0 ? 2 * PLANE : PLANE;
}
__host__ __device__ constexpr int segment_bytes(int format) {
    return head_bytes(format) + SEGMENT * block_bytes(format);
}

__device__ __forceinline__ uint4 load_plane(const u8* plane, int row) {
    return __ldg(reinterpret_cast<const uint4*>(plane) + row);
}

// Registers have no index: with `i` known at compile time these are one instruction.
__device__ __forceinline__ unsigned word_of(const uint4& v, int i) {
    return i < 2 ? (i == 0 ? v.x : v.y) : (i == 2 ? v.z : v.w);
}
__device__ __forceinline__ float half_of(const uint4& v, int i) {
    return half_to_float((word_of(v, i / 2) >> (i & 1) * 16) & 0xffffu);
}
__device__ __forceinline__ int byte_of(unsigned low, unsigned high, int i) {  // of eight
    return (int)(((i < 4 ? low : high) >> (i & 3) * 8) & 0xffu);
}

// What a row has for a whole segment: its scales and minima.
template <int FORMAT>
struct Head {
    uint4 scales, minima;
    float d;

    __device__ __forceinline__ void load(const u8* segment, int row) {
        scales = load_plane(segment, row);
        if (FORMAT == Q4_1 || FORMAT == Q5_1) minima = load_plane(segment + PLANE, row);
        if (FORMAT == Q6_K) d = half_to_float(__ldg(reinterpret_cast<const u16*>(segment + 5 * PLANE) + row));
        if (is_k(FORMAT)) unpack_k_scales();
    }

    // From here on scales.x is d and dmin, (minima.x, minima.y) the eight scales and (minima.z, minima.w) the minima.
    __device__ __forceinline__ void unpack_k_scales() {
        unsigned first = scales.y, second = scales.z, shared = scales.w;
        minima.x = first & 0x3f3f3f3fu;
        minima.y = (shared & 0x0f0f0f0fu) | ((first >> 2) & 0x30303030u);
        minima.z = second & 0x3f3f3f3fu;
        minima.w = ((shared >> 4) & 0x0f0f0f0fu) | ((second >> 2) & 0x30303030u);
    }

    // The scale of block b; Q6_K's int8 scales are part of the whole numbers (`half_scale`).
    __device__ __forceinline__ float scale(int b) const {
        if (FORMAT == Q6_K) return d;
        if (is_k(FORMAT)) return mul_rn(half_to_float(scales.x & 0xffffu), (float)byte_of(minima.x, minima.y, b));
        return half_of(scales, b);
    }
    __device__ __forceinline__ float minimum(int b) const {
        if (is_k(FORMAT)) return negated(mul_rn(half_to_float(scales.x >> 16), (float)byte_of(minima.z, minima.w, b)));
        return half_of(minima, b);
    }
    __device__ __forceinline__ int half_scale(int b, int half) const {
        int i = 2 * b + half;
        return (i8)(word_of(scales, i / 4) >> (i & 3) * 8);
    }
};

// Where the upper bits of a row are: the fifth bits of block b are word b % 4 of plane b / 4, the pairs of block b
// words 2 (b % 2) and 2 (b % 2) + 1 of plane b / 2.
template <int FORMAT>
__device__ __forceinline__ const u8* upper_bits(const u8* segment) {
    return segment + (FORMAT == Q6_K ? PLANE : head_bytes(FORMAT) - 2 * PLANE);
}

// The upper bits of one block: a word of fifth bits in `first`, or two words of pairs.
struct Upper {
    unsigned first, second;
};

// Quads j and j + 4 of a block from a word of nibbles; numbers still have their offset.
template <int FORMAT>
__device__ __forceinline__ void join_quads(unsigned nibbles, Upper upper, int j, unsigned& low, unsigned& high) {
    low = nibbles & 0x0f0f0f0fu;
    high = (nibbles >> 4) & 0x0f0f0f0fu;
    if (has_fifth_bit(FORMAT)) {
        low |= ((upper.first >> j) & 0x01010101u) << 4;
        high |= ((upper.first >> (j + 4)) & 0x01010101u) << 4;
    }
    if (FORMAT == Q6_K) {
        low |= ((upper.first >> 2 * j) & 0x03030303u) << 4;
        high |= ((upper.second >> 2 * j) & 0x03030303u) << 4;
    }
}
