// The paged KV cache: how a key and a value are stored, and how they are read, 16 bytes a lane.
//
// A page holds CHUNK positions of every layer. For one (layer, KV head) it is, in order (the scales with q8_0 only):
//
//     keys    [head_dim / per][CHUNK][per]   per = 16 bytes of numbers: a lane owns a key
//     scales  [head_dim / 32][CHUNK]         float16
//     values  [CHUNK][head_dim]
//     scales  [CHUNK][head_dim / 32]         float16
#pragma once

#include "arithmetic.cuh"
#include "layout.cuh"

constexpr int KV_BYTES = KV_KIND == KV_F32 ? 4 : KV_KIND == KV_F16 ? 2 : 1;
constexpr int KV_PER = 16 / KV_BYTES;
constexpr int KV_SCALES = KV_KIND == KV_Q8_0 ? CHUNK * (HEAD_DIM / 32) * 2 : 0;
constexpr int KV_HALF = CHUNK * HEAD_DIM * KV_BYTES + KV_SCALES;  // bytes of the keys, and of the values

// One number (or a pair of neighbours, x then y) as it comes back from the cache.
__device__ __forceinline__ float cached_number(const u8* numbers, size_t i) {
    if (KV_KIND == KV_F32) return reinterpret_cast<const float*>(numbers)[i];
    if (KV_KIND == KV_F16) return half_to_float(reinterpret_cast<const u16*>(numbers)[i]);
    return (float)reinterpret_cast<const i8*>(numbers)[i];
}

// The KV_PER numbers of one key from dimension `first` on.
__device__ __forceinline__ void load_key(const u8* keys, int key, int first, float (&k)[KV_PER]) {
    uint4 v = *(reinterpret_cast<const uint4*>(keys) + first / KV_PER * CHUNK + key);
#pragma unroll
    for (int i = 0; i < KV_PER; ++i) {
        unsigned word = i * KV_BYTES / 4 == 0 ? v.x : i * KV_BYTES / 4 == 1 ? v.y : i * KV_BYTES / 4 == 2 ? v.z : v.w;
        if (KV_KIND == KV_F32) k[i] = __uint_as_float(word);
        if (KV_KIND == KV_F16) k[i] = half_to_float((word >> (i & 1) * 16) & 0xffffu);
        if (KV_KIND == KV_Q8_0) k[i] = (float)(i8)(word >> (i & 3) * 8);
    }
    if (KV_KIND == KV_Q8_0) {
        const u16* scales = reinterpret_cast<const u16*>(keys + CHUNK * HEAD_DIM);
        float d = half_to_float(scales[first / 32 * CHUNK + key]);
#pragma unroll
        for (int i = 0; i < KV_PER; ++i) k[i] = mul_rn(k[i], d);
    }
}

// Dimensions 2 * pair and 2 * pair + 1 of one value.
__device__ __forceinline__ float2 load_value(const u8* values, int key, int pair) {
    int i = key * (HEAD_DIM / 2) + pair;
    if (KV_KIND == KV_F32) return reinterpret_cast<const float2*>(values)[i];
    if (KV_KIND == KV_F16) {
        unsigned v = reinterpret_cast<const unsigned*>(values)[i];
        return make_float2(half_to_float(v & 0xffffu), half_to_float(v >> 16));
    }
    unsigned v = reinterpret_cast<const u16*>(values)[i];
    const u16* scales = reinterpret_cast<const u16*>(values + CHUNK * HEAD_DIM);
    float d = half_to_float(scales[key * (HEAD_DIM / 32) + pair / 16]);
    return make_float2(mul_rn((float)(i8)v, d), mul_rn((float)(i8)(v >> 8), d));
}

// Number i (lane + 32 j) of a key or value into its place. All lanes of the warp bring a number of one row at a time.
__device__ __forceinline__ void store_number(u8* half, bool is_key, int slot, int i, float x) {
    size_t at = is_key ? (size_t)(i / KV_PER * CHUNK + slot) * KV_PER + i % KV_PER : (size_t)slot * HEAD_DIM + i;
    if (KV_KIND == KV_F32) reinterpret_cast<float*>(half)[at] = x;
    if (KV_KIND == KV_F16) reinterpret_cast<u16*>(half)[at] = float_to_half(x);
    if (KV_KIND == KV_Q8_0) {  // HEAD_DIM is a multiple of 32 here: the warp has one block
        float largest = largest_of(absolute(x), 32);
        reinterpret_cast<i8*>(half)[at] = (i8)quantised(x, quantising_factor(largest));
        if (lane_id() == 0) {
            u16* scales = reinterpret_cast<u16*>(half + CHUNK * HEAD_DIM);
            scales[is_key ? i / 32 * CHUNK + slot : slot * (HEAD_DIM / 32) + i / 32] =
                float_to_half(div_rn(largest, 127.0f));
        }
    }
}
