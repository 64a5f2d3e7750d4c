// From the Q, K and V projections to heads: bias, QK-norm, RoPE, and the place in the cache. A warp has a head of a
// token.
#pragma once

#include "kv_page.cuh"

// Bias, norm and rotation of one head, float32 [HEAD_DIM] at `source`, into shared `row`. `norm`, `bias`: null for
// none; `cos` is null for values, which are not turned.
__device__ __forceinline__ void finish_head(const float* source, const float* bias, const float* norm, float eps,
                                            const float* cos, const float* sin, float* row) {
    constexpr int PER_LANE = (HEAD_DIM + 31) / 32;
    float x[PER_LANE];
#pragma unroll
    for (int j = 0; j < PER_LANE; ++j) {
        int i = lane_id() + 32 * j;
        x[j] = i < HEAD_DIM ? source[i] : 0.0f;
        if (bias && i < HEAD_DIM) x[j] = add_rn(x[j], __ldg(bias + i));
    }
    if (norm) {
        float even = 0.0f, odd = 0.0f;  // partial sums lane and lane + 32
#pragma unroll
        for (int j = 0; j < PER_LANE; j += 2) {
            even = fma_rn(x[j], x[j], even);
            if (j + 1 < PER_LANE) odd = fma_rn(x[j + 1], x[j + 1], odd);
        }
        float mean = div_rn(tree_sum(add_rn(even, odd), 32), (float)HEAD_DIM);
        float factor = div_rn(1.0f, sqrt_rn(add_rn(mean, eps)));
#pragma unroll
        for (int j = 0; j < PER_LANE; ++j) {
            int i = lane_id() + 32 * j;
            if (i < HEAD_DIM) x[j] = mul_rn(mul_rn(x[j], factor), __ldg(norm + i));
        }
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < PER_LANE; ++j)
        if (lane_id() + 32 * j < HEAD_DIM) row[lane_id() + 32 * j] = x[j];
    __syncwarp();
    if (!cos) return;
    for (int i = lane_id(); i < HEAD_DIM / 2; i += 32) {
        float a = row[i], b = row[i + HEAD_DIM / 2], c = __ldg(cos + i), s = __ldg(sin + i);
        row[i] = fma_rn(a, c, negated(mul_rn(b, s)));
        row[i + HEAD_DIM / 2] = fma_rn(b, c, mul_rn(a, s));
    }
    __syncwarp();
}

// Head `head` (queries, then keys, then values) of token t of the step, into shared `row`.
__device__ __forceinline__ void load_head(const Step& step, const Layer& layer, int t, int head, float* row) {
    const int position = step.start + t, width = (step.n_heads + 2 * step.n_kv_heads) * HEAD_DIM;
    const bool is_query = head < step.n_heads, is_value = head >= step.n_heads + step.n_kv_heads;
    const int index = is_query ? head : head - step.n_heads - (is_value ? step.n_kv_heads : 0);
    const float* bias = is_query ? layer.q_bias : is_value ? layer.v_bias : layer.k_bias;
    finish_head(step.qkv + (size_t)t * width + head * HEAD_DIM, bias ? bias + index * HEAD_DIM : nullptr,
                is_value   ? nullptr
                : is_query ? layer.q_norm
                           : layer.k_norm,
                step.norm_eps, is_value ? nullptr : step.cos + (size_t)position * (HEAD_DIM / 2),
                step.sin + (size_t)position * (HEAD_DIM / 2), row);
}

__device__ __forceinline__ u8* page_of(const Step& step, int layer, int kv_head, int chunk) {
    return step.pages[chunk] + (size_t)(layer * step.n_kv_heads + kv_head) * step.head_stride;
}

// Key (or value) of token t of one KV head into the cache, by one warp. `row` is shared, [HEAD_DIM].
__device__ __forceinline__ void store_head(const Step& step, const Layer& table, int layer, int t, int kv_head,
                                           bool is_key, float* row) {
    load_head(step, table, t, step.n_heads + (is_key ? 0 : step.n_kv_heads) + kv_head, row);
    const int position = step.start + t;
    u8* half = page_of(step, layer, kv_head, position / CHUNK) + (is_key ? 0 : KV_HALF);
    for (int i = lane_id(); i < HEAD_DIM; i += 32) store_number(half, is_key, position % CHUNK, i, row[i]);
    __syncwarp();
}
