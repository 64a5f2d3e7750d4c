// Greedy decoding on the device: the best token of each row of logits, which guesses were right, and whether to go on.
//
// The order is that of app/engine/sampling.py: the larger logit, of equal ones the lower id, and NaN before all. A key
// holds both: the bits of the float in an order that whole numbers have, then the complement of the id.
#pragma once

#include "layout.cuh"

__device__ __forceinline__ unsigned long long key_of(float logit, int id) {
    unsigned bits = __float_as_uint(logit);
    if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fffffffu;  // any NaN
    if (bits == 0x80000000u) bits = 0;                           // -0 equals 0
    const unsigned ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (unsigned long long)ordered << 32 | (unsigned)~id;
}

__device__ __forceinline__ int id_of(unsigned long long key) { return (int)~(unsigned)key; }

// Whether the logit is a number between the infinities.
__device__ __forceinline__ bool is_finite(unsigned long long key) {
    const unsigned ordered = (unsigned)(key >> 32);
    return ordered > 0x007fffffu && ordered < 0xff800000u;
}

__device__ __forceinline__ unsigned long long larger_key(unsigned long long key) {
    for (int half = 16; half; half /= 2) {
        const unsigned long long other = __shfl_xor_sync(ALL_LANES, key, half);
        key = other > key ? other : key;
    }
    return key;
}

// Before any block of threads notes a best token, and after all have read those of the step before.
__device__ __forceinline__ void forget_best(const Step& step) {
    if (blockIdx.x == 0 && threadIdx.x < step.n_tokens) step.best[threadIdx.x] = 0;
}

// The best token among those logits that this block of threads has computed, for every row.
template <int T>
__device__ void note_best(const Step& step) {
    constexpr int PARTS = WARPS / T;  // warps that share a row
    static_assert(WARPS % T == 0, "a warp has one row");
    __shared__ unsigned long long keys[WARPS];
    const bool asks = blockIdx.x == 0 && threadIdx.x == 0;
    unsigned stop = 0;
    if (asks) stop = load_from_host(step.stop);  // on its way while the logits are looked through
    const int row = warp_id() % T, end = min(first_item(step.head.n_groups, blockIdx.x + 1) * LANES, step.head.n_rows);
    unsigned long long key = 0;
    if (row < step.n_tokens) {
        const float* logits = step.logits + (size_t)row * step.logit_stride;
        int id = first_item(step.head.n_groups, blockIdx.x) * LANES + warp_id() / T * 32 + lane_id();
        for (; id < end; id += PARTS * 32) key = max(key, key_of(logits[id], id));
    }
    key = larger_key(key);
    if (lane_id() == 0) keys[warp_id()] = key;
    if (asks) *step.stopping = stop;
    __syncthreads();
    if (threadIdx.x >= step.n_tokens) return;
    key = keys[threadIdx.x];
    for (int part = 1; part < PARTS; ++part) key = max(key, keys[part * T + threadIdx.x]);
    if (key) atomicMax(step.best + threadIdx.x, key);
}

constexpr unsigned FILLED = 1u << 31, LAST_OF_STEP = 1u << 30;

// A token for the host, in one word, so that no order between two words matters: microseconds on the device's clock,
// marks, the token.
__device__ __forceinline__ void post(unsigned long long* word, int token, bool last) {
    store_to_host(word, (unsigned long long)microseconds() << 32 | FILLED | (last ? LAST_OF_STEP : 0) | (unsigned)token);
}

// What a step gave: its own best token, and one more for each guess before the first wrong one. They go to the host,
// the cache keeps what is before the last of them, and that one is the input of the next step. Every block of threads
// finds the same; `step` and `tokens` are its own, in shared memory. Whether another step follows: not after a token
// that ends the reply, nor where the host wants none, nor past a row whose best logit is no finite number.
__device__ __forceinline__ bool take_step(Step& step, int* tokens, int& n_steps) {
    __shared__ int go_on;
    if (threadIdx.x == 0) {
        int n_taken = 0;
        bool last = !is_finite(step.best[0]), ended = last;
        while (!last) {
            const int token = id_of(step.best[n_taken++]);
            for (int i = 0; i < step.n_ends; ++i) ended = ended || step.ends[i] == token;
            last = ended || n_taken == step.n_tokens || token != tokens[n_taken] || !is_finite(step.best[n_taken]);
            if (blockIdx.x == 0) post(step.out++, token, last);
            tokens[0] = token;
        }
        step.start += n_taken;
        step.n_tokens = step.n_logits = 1;
        step.tokens = tokens;
        go_on = !ended && *step.stopping == 0 && --n_steps > 0;
    }
    __syncthreads();
    return go_on;
}
