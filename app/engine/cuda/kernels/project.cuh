// Matrix products of a step of up to T tokens: which warp multiplies what, and where the sums go.
//
// A block of threads has a share of the rows' groups. Its tasks are (group, segment) pairs, in order; a round gives one
// task to each warp. Segments of a row must be added in order, so each warp leaves its sums in shared memory, and after
// the round warp t adds those of token t, while the others are at the next round.
#pragma once

#include "products.cuh"

enum Finish { STORE, ADD, SILU_QUANTISE, SILU_STORE };

struct Work {
    const Matrix *first, *second,
        *third;  // one after the other (STORE), or gate and up side by side (SILU_..); or null
    Finish finish;
    float* out;       // [T, out_stride]: STORE, ADD and SILU_STORE write there
    u8* activations;  // SILU_QUANTISE
    int out_stride;
};

__device__ __forceinline__ bool is_pair(const Work& work) {
    return work.finish == SILU_QUANTISE || work.finish == SILU_STORE;
}

// Where group `item` of matrices that follow each other is; `item` becomes the group, `first_row` the row of the
// output.
__device__ __forceinline__ const Matrix* locate(const Work& work, int& item, int& first_row) {
    first_row = 0;
    if (item < work.first->n_groups) return work.first;
    item -= work.first->n_groups;
    first_row = work.first->n_rows;
    if (item < work.second->n_groups) return work.second;
    item -= work.second->n_groups;
    first_row += work.second->n_rows;
    return work.third;
}

// The sum of row `item` * 32 + lane and token t is whole. `gate` is that of the first of two matrices.
__device__ __forceinline__ void finish_row(const Work& work, int item, int t, int n_tokens, int T, float gate,
                                           float sum) {
    int first_row;
    int row_item = item;
    const Matrix* matrix = locate(work, row_item, first_row);
    if (is_pair(work)) {
        float hidden = silu_times(gate, sum);
        if (work.finish == SILU_QUANTISE) {
            Activations x = activations_at(work.activations, matrix->n_groups, T, true);
            quantise_column(x, item * T + t, hidden);
            return;
        }
        sum = hidden;
    }
    int row = row_item * LANES + lane_id();
    if (row >= matrix->n_rows || t >= n_tokens) return;
    float* out = work.out + (size_t)t * work.out_stride + first_row + row;
    *out = work.finish == ADD ? add_rn(*out, sum) : sum;
}

// Where the share of a block of threads begins, of items that all blocks share.
__device__ __forceinline__ int first_item(int n_items, int block) {
    return (int)((long long)n_items * block / gridDim.x);
}

// All of `work` for this block of threads' share of the rows. `partial` is shared, [2][WARPS][T][32].
template <int T>
__device__ void project(const Work& work, const Activations& x, int n_tokens, float* partial) {
    const bool pair = is_pair(work);
    int n_items = work.first->n_groups;
    if (!pair && work.second) n_items += work.second->n_groups + work.third->n_groups;
    const int n_segments = (work.first->n_blocks + SEGMENT - 1) / SEGMENT,
              per_item = pair ? 2 * n_segments : n_segments;
    const int first = first_item(n_items, blockIdx.x), last = first_item(n_items, blockIdx.x + 1);
    const int n_tasks = (last - first) * per_item;
    float total = 0.0f, gate = 0.0f;  // of this warp's token, in the row that is being added up
    for (int round = 0; round * WARPS < n_tasks; ++round) {
        float* sums = partial + (round & 1) * WARPS * T * LANES;
        const int task = round * WARPS + warp_id();
        if (task < n_tasks) {
            int item = first + task / per_item, segment = task % per_item, first_row;
            const Matrix* matrix;
            if (pair) {
                matrix = segment >= n_segments ? work.second : work.first;
                segment %= n_segments;
            } else {
                matrix = locate(work, item, first_row);
            }
            float acc[T];
            multiply_segment<T>(*matrix, item, segment, x, acc);
#pragma unroll
            for (int t = 0; t < T; ++t) sums[(warp_id() * T + t) * LANES + lane_id()] = acc[t];
        }
        __syncthreads();
        if (warp_id() < T) {  // this warp's token
            const int t = warp_id(), end = min(WARPS, n_tasks - round * WARPS);
            for (int w = 0; w < end; ++w) {
                int at = (round * WARPS + w) % per_item;
                float sum = sums[(w * T + t) * LANES + lane_id()];
                if (pair && at == n_segments) gate = total;
                total = at % n_segments == 0 ? sum : add_rn(total, sum);
                if (at == per_item - 1)
                    finish_row(work, first + (round * WARPS + w) / per_item, t, n_tokens, T, gate, total);
            }
        }
    }
    __syncthreads();
}
