// A chunk of a prompt: the phases of step.cu for many tokens, a launch for each part.
//
//     prefill_prepare   rows to activations: of the residual (normalised), of attention, or SiLU(gate) * up
//     prefill_project   a phase's matrices times all tokens: stored, or added to the residual
//     prefill_heads     QK-norm, RoPE; keys and values to the cache, queries back to where they were
//     prefill_attend    queries of one KV head, 16 at a time, over all chunks of keys
#include "attention.cuh"
#include "project.cuh"
#include "tiles.cuh"

constexpr int PREPARED_TOKENS = 8;  // by one block of threads

// What phase `kind` multiplies: its matrices, whether they want int8 or floats, the row length.
struct Part {
    const Matrix *first, *second, *third;
    int n;
    bool ints, floats;
};

__device__ __forceinline__ Part part_of(const Step& step, int layer, int kind) {
    const Layer& table = step.layers[layer];
    Part part = {nullptr, nullptr, nullptr, step.d_model, false, false};
    if (kind == 0) part.first = &table.q, part.second = &table.k, part.third = &table.v;
    if (kind == 2) part.first = &table.out, part.n = step.n_heads * HEAD_DIM;
    if (kind == 3) part.first = &table.gate, part.second = &table.up;
    if (kind == 4) part.first = &table.down, part.n = step.d_ff;
    part.floats = is_float(part.first->format);
    part.ints = !part.floats;
    if (part.second) (is_float(part.second->format) ? part.floats : part.ints) = true;
    if (part.third) (is_float(part.third->format) ? part.floats : part.ints) = true;
    return part;
}

extern "C" __global__ void __launch_bounds__(256) prefill_prepare(const Step* step_address, int layer, int kind) {
    const Step& step = *step_address;
    const Part part = part_of(step, layer, kind);
    const int first = blockIdx.x * PREPARED_TOKENS, count = max(0, min(PREPARED_TOKENS, step.n_tokens - first)),
              n = part.n;
    const Activations x = activations_at(step.activations, n / BLOCK, step.chunk_stride, part.ints).from(first, n);
    if (kind == 4) {
        const float* rows = step.gate_up + (size_t)first * 2 * n;
        place_rows<PREPARED_TOKENS>(n, count, part.ints, part.floats, x, [&](int t, int quad) {
            const float4 gate = *reinterpret_cast<const float4*>(rows + (size_t)t * 2 * n + quad * 4);
            const float4 up = *reinterpret_cast<const float4*>(rows + (size_t)t * 2 * n + n + quad * 4);
            return make_float4(silu_times(gate.x, up.x), silu_times(gate.y, up.y), silu_times(gate.z, up.z),
                               silu_times(gate.w, up.w));
        });
        return;
    }
    const float* rows = (kind == 2 ? step.attention : step.residual) + (size_t)first * n;
    const float* norm = kind == 0 ? step.layers[layer].attn_norm : kind == 3 ? step.layers[layer].ffn_norm : nullptr;
    prepare<PREPARED_TOKENS>(rows, n, count, norm, step.norm_eps, part.ints, part.floats, x);
}

// Blocks of threads: x counts tiles of tokens, y fours of groups of rows.
extern "C" __global__ void __launch_bounds__(TILE_WARPS * 32)
    prefill_project(const Step* step_address, int layer, int kind) {
    const Step& step = *step_address;
    const Part part = part_of(step, layer, kind);
    const Activations x = activations_at(step.activations, part.n / BLOCK, step.chunk_stride, part.ints);
    const Matrix* matrices[3] = {part.first, part.second, part.third};
    int group = blockIdx.y * TILE_GROUPS + warp_id() % TILE_GROUPS, first_row = 0;
    const Matrix* matrix = nullptr;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        if (matrix || !matrices[i]) continue;
        if (group < matrices[i]->n_groups) {
            matrix = matrices[i];
        } else {
            group -= matrices[i]->n_groups;
            first_row += matrices[i]->n_rows;
        }
    }
    const int first_token = blockIdx.x * TILE_TOKENS, first_in_tile = warp_id() / TILE_GROUPS * WARP_TOKENS;
    Sums total;
    multiply_rows(matrix, group, part.n / BLOCK, part.ints, x, first_token, first_in_tile, total);
    if (!matrix) return;
    const bool add = kind == 2 || kind == 4, floats = is_float(matrix->format);
    float* out = add ? step.residual : kind == 0 ? step.qkv : step.gate_up;
    const int stride = add ? step.d_model : kind == 0 ? (step.n_heads + 2 * step.n_kv_heads) * HEAD_DIM : 2 * step.d_ff;
    const int g = lane_id() >> 2, t = lane_id() & 3;
#pragma unroll
    for (int i = 0; i < 32; ++i) {  // i as in `of_token`
        const int k = i % 4, in_group = floats ? lane_id() : g + (k / 2) * 8 + i / 16 * 16;
        const int token = first_token + first_in_tile + (floats ? i : i / 4 % 4 * 8 + 2 * t + k % 2);
        const int row = group * LANES + in_group;
        if (token >= step.n_tokens || row >= matrix->n_rows) continue;
        float* at = out + (size_t)token * stride + first_row + row;
        *at = add ? add_rn(*at, of_token(total, i)) : of_token(total, i);
    }
}

// A warp has a head of a token.
extern "C" __global__ void __launch_bounds__(256) prefill_heads(const Step* step_address, int layer) {
    __shared__ float rows[8][HEAD_DIM];
    const Step& step = *step_address;
    const Layer& table = step.layers[layer];
    const int all = step.n_heads + 2 * step.n_kv_heads;
    float* row = rows[warp_id()];
    for (int i = blockIdx.x * 8 + warp_id(); i < step.n_tokens * all; i += gridDim.x * 8) {
        const int t = i / all, head = i % all;
        if (head >= step.n_heads) {
            const bool is_key = head < step.n_heads + step.n_kv_heads;
            store_head(step, table, layer, t, (head - step.n_heads) % step.n_kv_heads, is_key, row);
            continue;
        }
        load_head(step, table, t, head, row);
        float* out = step.qkv + (size_t)t * all * HEAD_DIM + head * HEAD_DIM;
        for (int j = lane_id(); j < HEAD_DIM; j += 32) out[j] = row[j];
        __syncwarp();
    }
}

// Blocks of threads: x counts tiles of queries, y KV heads.
extern "C" __global__ void __launch_bounds__(WARPS * 32) prefill_attend(const Step* step_address, int layer) {
    const Step& step = *step_address;
    AttentionTile& tile = *reinterpret_cast<AttentionTile*>(smem);
    constexpr int ITEMS =
        (TILE_QUERIES * (HEAD_DIM / 2) + WARPS * 32 - 1) / (WARPS * 32);  // pairs of numbers of a thread
    const int h = blockIdx.y, group = step.n_heads / step.n_kv_heads, first = blockIdx.x * TILE_QUERIES;
    const int count = min(TILE_QUERIES, step.n_tokens * group - first),
              width = (step.n_heads + 2 * step.n_kv_heads) * HEAD_DIM;
    const int last_position = step.start + (first + count - 1) / group;
    for (int i = threadIdx.x; i < count * HEAD_DIM; i += blockDim.x) {
        const int q = first + i / HEAD_DIM;
        tile.queries[i / HEAD_DIM][i % HEAD_DIM] =
            step.qkv[(size_t)(q / group) * width + (h * group + q % group) * HEAD_DIM + i % HEAD_DIM];
    }
    float2 values[ITEMS];
    float maximum[ITEMS], sum[ITEMS];
    for (int chunk = 0; chunk <= last_position / CHUNK; ++chunk) {
        if (threadIdx.x < count)
            tile.n_keys[threadIdx.x] =
                max(0, min(CHUNK, step.start + (first + (int)threadIdx.x) / group + 1 - chunk * CHUNK));
        __syncthreads();
        const u8* page = page_of(step, layer, h, chunk);
        weigh_chunk(tile, count, min(CHUNK, last_position + 1 - chunk * CHUNK), page, step.attention_scale);
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const int i = threadIdx.x + k * WARPS * 32, q = i / (HEAD_DIM / 2), pair = i % (HEAD_DIM / 2);
            if (q >= count || tile.n_keys[q] == 0) continue;
            const float2 v = weighted_values(tile, q, pair, page + KV_HALF);
            if (chunk == 0) {
                values[k] = v, maximum[k] = tile.maximum[q], sum[k] = tile.sum[q];
                continue;
            }
            const Merge merged(maximum[k], sum[k], tile.maximum[q], tile.sum[q]);
            values[k] = make_float2(merged.values(values[k].x, v.x), merged.values(values[k].y, v.y));
            maximum[k] = merged.m, sum[k] = merged.sum;
        }
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = threadIdx.x + k * WARPS * 32, q = i / (HEAD_DIM / 2), pair = i % (HEAD_DIM / 2);
        if (q >= count) continue;
        float* out = step.attention +
                     ((size_t)((first + q) / group) * step.n_heads + h * group + (first + q) % group) * HEAD_DIM +
                     2 * pair;
        out[0] = div_rn(values[k].x, sum[k]);
        out[1] = div_rn(values[k].y, sum[k]);
    }
}
