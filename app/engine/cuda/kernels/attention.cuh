// Attention over the paged cache: one chunk of keys at a time, and the merge of chunks in order.
//
// A chunk gives each query its maximum score m, the sum l of exp(score - m), and the values weighted by the same. A
// query's chunks and their order depend on its position alone.
#pragma once

#include "heads.cuh"

constexpr int TILE_QUERIES = 16;      // that a block of threads has at a time
constexpr int RECORD = HEAD_DIM + 2;  // a partial result: weighted values, maximum, sum
constexpr int SUM_LANES = 16;         // partial sums of a softmax sum

struct AttentionTile {  // in shared memory
    float queries[TILE_QUERIES][HEAD_DIM];
    float weights[TILE_QUERIES][CHUNK];  // scores, then exp(score - m)
    float maximum[TILE_QUERIES], sum[TILE_QUERIES];
    int n_keys[TILE_QUERIES];  // of this chunk that the query sees
    int ticket;
};

// Scores of N queries from `first` on with this thread's key.
template <int N>
__device__ __forceinline__ void score(AttentionTile& tile, const u8* keys, int key, int first, float scale) {
    float acc[N][4];
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[n][i] = 0.0f;
#pragma unroll 4
    for (int d = 0; d < HEAD_DIM; d += KV_PER) {
        float k[KV_PER];
        load_key(keys, key, d, k);
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < KV_PER; i += 4) {
                float4 q = *reinterpret_cast<const float4*>(&tile.queries[first + n][d + i]);
                acc[n][0] = fma_rn(q.x, k[i], acc[n][0]);
                acc[n][1] = fma_rn(q.y, k[i + 1], acc[n][1]);
                acc[n][2] = fma_rn(q.z, k[i + 2], acc[n][2]);
                acc[n][3] = fma_rn(q.w, k[i + 3], acc[n][3]);
            }
    }
#pragma unroll
    for (int n = 0; n < N; ++n)
        tile.weights[first + n][key] =
            mul_rn(add_rn(add_rn(acc[n][0], acc[n][2]), add_rn(acc[n][1], acc[n][3])), scale);
}

// Queries 0..n_queries of the tile with the chunk at `page`: scores, their maximum, weights and the sum of those.
__device__ __forceinline__ void weigh_chunk(AttentionTile& tile, int n_queries, int most_keys, const u8* page,
                                            float scale) {
    constexpr int SLOTS = WARPS * 32 / CHUNK;  // queries that are scored at a time
    const int key = threadIdx.x % CHUNK, slot = threadIdx.x / CHUNK;
    if (key < most_keys) {
        if (n_queries >= 2 * SLOTS) {
            for (int q = slot * 2; q + 1 < n_queries; q += SLOTS * 2) score<2>(tile, page, key, q, scale);
            if (n_queries % 2 && slot == 0) score<1>(tile, page, key, n_queries - 1, scale);
        } else {
            for (int q = slot; q < n_queries; q += SLOTS) score<1>(tile, page, key, q, scale);
        }
    }
    __syncthreads();
    for (int q = warp_id(); q < n_queries; q += WARPS) {
        const int n_keys = tile.n_keys[q];
        float* weights = tile.weights[q];
        float m = LOWEST;
        for (int i = lane_id(); i < n_keys; i += 32) m = larger(m, weights[i]);
        m = largest_of(m, 32);
        for (int i = lane_id(); i < n_keys; i += 32) weights[i] = exp_contract(sub_rn(weights[i], m));
        __syncwarp();
        float part = 0.0f;
        for (int i = lane_id() % SUM_LANES; i < n_keys; i += SUM_LANES) part = add_rn(part, weights[i]);
        part = tree_sum(part, SUM_LANES);
        if (lane_id() == 0) tile.maximum[q] = m, tile.sum[q] = part;
    }
    __syncthreads();
}

// Weighted values of query q, dimensions 2 * pair and 2 * pair + 1.
__device__ __forceinline__ float2 weighted_values(const AttentionTile& tile, int q, int pair, const u8* values) {
    float2 acc = make_float2(0.0f, 0.0f);
    const int n_keys = tile.n_keys[q];
#pragma unroll 8
    for (int key = 0; key < n_keys; ++key) {
        float2 v = load_value(values, key, pair);
        float w = tile.weights[q][key];
        acc.x = fma_rn(w, v.x, acc.x);
        acc.y = fma_rn(w, v.y, acc.y);
    }
    return acc;
}

// The state of earlier chunks and the next chunk's result become one: factors of both, the maximum and the sum.
struct Merge {
    float m, sum, a, b;
    __device__ __forceinline__ Merge(float m1, float sum1, float m2, float sum2) {
        m = larger(m1, m2);
        a = exp_contract(sub_rn(m1, m));
        b = exp_contract(sub_rn(m2, m));
        sum = fma_rn(sum2, b, mul_rn(sum1, a));
    }
    __device__ __forceinline__ float values(float old, float next) const { return fma_rn(next, b, mul_rn(old, a)); }
};

// Query q of KV head h in a step: the token is q / group, the head h * group + q % group.
__device__ __forceinline__ float* partial_of(const Step& step, int t, int head, int chunk) {
    return step.partials + (((size_t)t * step.n_heads + head) * step.max_chunks + chunk) * RECORD;
}

// The partial results of all chunks of KV head h, merged first to last.
__device__ inline void merge_chunks(const Step& step, int h) {
    const int group = step.n_heads / step.n_kv_heads;
    for (int i = threadIdx.x; i < step.n_tokens * group * HEAD_DIM; i += blockDim.x) {
        const int t = i / (group * HEAD_DIM), head = h * group + i / HEAD_DIM % group, d = i % HEAD_DIM;
        const int n_chunks = (step.start + t) / CHUNK + 1;
        const float* part = partial_of(step, t, head, 0);
        float m = part[HEAD_DIM], sum = part[HEAD_DIM + 1], value = part[d];
        for (int chunk = 1; chunk < n_chunks; ++chunk) {
            part += RECORD;
            Merge merged(m, sum, part[HEAD_DIM], part[HEAD_DIM + 1]);
            value = merged.values(value, part[d]);
            m = merged.m, sum = merged.sum;
        }
        step.attention[((size_t)t * step.n_heads + head) * HEAD_DIM + d] = div_rn(value, sum);
    }
}

// Phase 2 of a step: pieces of work are (KV head, chunk). The piece with the step's own positions stores their keys and
// values first; whoever is the last of a head merges its chunks.
__device__ inline void attend_step(const Step& step, const Layer& table, int layer) {
    AttentionTile& tile = *reinterpret_cast<AttentionTile*>(smem);
    const int group = step.n_heads / step.n_kv_heads, n_queries = step.n_tokens * group;
    const int n_chunks = (step.start + step.n_tokens - 1) / CHUNK + 1;
    for (int piece = blockIdx.x; piece < n_chunks * step.n_kv_heads; piece += gridDim.x) {
        const int h = piece % step.n_kv_heads, chunk = piece / step.n_kv_heads, first_key = chunk * CHUNK;
        for (int i = warp_id(); i < 2 * step.n_tokens; i += WARPS)
            if ((step.start + i / 2) / CHUNK == chunk)
                store_head(step, table, layer, i / 2, h, i % 2 == 0, tile.queries[warp_id()]);
        const u8* page = page_of(step, layer, h, chunk);
        const int most_keys = min(CHUNK, step.start + step.n_tokens - first_key);
        for (int first = 0; first < n_queries; first += TILE_QUERIES) {
            const int count = min(TILE_QUERIES, n_queries - first);
            __syncthreads();
            for (int q = warp_id(); q < count; q += WARPS) {
                const int t = (first + q) / group;
                load_head(step, table, t, h * group + (first + q) % group, tile.queries[q]);
                if (lane_id() == 0) tile.n_keys[q] = max(0, min(CHUNK, step.start + t + 1 - first_key));
            }
            __syncthreads();
            weigh_chunk(tile, count, most_keys, page, step.attention_scale);
            for (int i = threadIdx.x; i < count * (HEAD_DIM / 2); i += blockDim.x) {
                const int q = i / (HEAD_DIM / 2), pair = i % (HEAD_DIM / 2), t = (first + q) / group;
                if (tile.n_keys[q] == 0) continue;
                float* part = partial_of(step, t, h * group + (first + q) % group, chunk);
                float2 v = weighted_values(tile, q, pair, page + KV_HALF);
                part[2 * pair] = v.x, part[2 * pair + 1] = v.y;
                if (pair == 0) part[HEAD_DIM] = tile.maximum[q], part[HEAD_DIM + 1] = tile.sum[q];
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            tile.ticket = atomicAdd(step.finished + h, 1u);
            __threadfence();
        }
        __syncthreads();
        if (tile.ticket == n_chunks - 1) {
            merge_chunks(step, h);
            if (threadIdx.x == 0) step.finished[h] = 0;
        }
        __syncthreads();
    }
}
