// A step of up to 8 tokens: every phase of every layer.
//
//     first  the tokens' embeddings
//     1      RMSNorm, quantise, Q K V projections
//     2      QK-norm, RoPE, store the new keys and values, attention by (KV head x chunk), merged by the last of a head
//     3      quantise, output projection, + residual
//     4      RMSNorm, quantise, gate and up projections, SiLU(gate) * up, quantised where it is made
//     5      down projection, + residual
//     last   norm, LM head of the rows that are needed
//
// A kernel does phases first_phase .. end_phase; the embeddings are number -1, phase 1 of the first layer is 0. As one cooperative launch of all of them it is the persistent step:
// blocks of threads meet at a barrier after each phase. As a launch for each phase it needs no barrier, and the stream
// keeps the order. What a block computes does not depend on who else computes.
//
// With n_steps the persistent step chooses the best token itself and goes on with it, for up to so many steps: greedy
// decoding without the host.
#include "attention.cuh"
#include "embed.cuh"
#include "project.cuh"

#include "choose.cuh"

// Every block of threads arrives: one atomic, then one word to look at. The first brings what the others lack to 2^31,
// so the top bit turns over when all are there, and the word is ready for the next time.
__device__ inline void grid_barrier(const Step& step) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const unsigned before = atomicAdd(step.arrivals, blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u);
        while ((load_acquire(step.arrivals) ^ before) >> 31 == 0) {
        }
        __threadfence();
    }
    __syncthreads();
}

template <int T>
__device__ void run_phase(const Step& step, int phase) {
    if (phase < 0) return embed(step);
    const int kind = phase % PHASES, layer = phase / PHASES;
    const bool head = layer == step.n_layers;
    const Layer& table = step.layers[head ? 0 : layer];
    if (kind == 1) return attend_step(step, table, layer);
    const float *rows = step.residual, *norm = nullptr;
    int n = step.d_model, n_tokens = step.n_tokens;
    Work work;
    work.first = work.second = work.third = nullptr;
    work.finish = ADD;
    work.out = step.residual;
    work.out_stride = step.d_model;
    if (head) {
        if (step.n_logits == 0) return;
        rows += (size_t)step.first_logit_row * n;
        norm = step.output_norm;
        n_tokens = step.n_logits;
        work.first = &step.head;
        work.finish = STORE;
        work.out = step.logits;
        work.out_stride = step.logit_stride;
    } else if (kind == 0) {
        norm = table.attn_norm;
        work.first = &table.q;
        work.second = &table.k;
        work.third = &table.v;
        work.finish = STORE;
        work.out = step.qkv;
        work.out_stride = (step.n_heads + 2 * step.n_kv_heads) * HEAD_DIM;
    } else if (kind == 2) {
        rows = step.attention;
        n = step.n_heads * HEAD_DIM;
        work.first = &table.out;
    } else if (kind == 3) {
        norm = table.ffn_norm;
        work.first = &table.gate;
        work.second = &table.up;
        work.finish = is_float(table.down.format) ? SILU_STORE : SILU_QUANTISE;
        work.out = reinterpret_cast<float*>(step.ffn);
        work.activations = step.ffn;
        work.out_stride = step.d_ff;
    } else {
        rows = reinterpret_cast<const float*>(step.ffn);
        n = step.d_ff;
        work.first = &table.down;
    }
    bool floats = is_float(work.first->format), ints = !floats;
    if (work.second) (is_float(work.second->format) ? floats : ints) = true;
    if (work.third) (is_float(work.third->format) ? floats : ints) = true;
    float* partial = reinterpret_cast<float*>(smem);  // [2][WARPS][T][32]
    u8* memory = smem + 2 * WARPS * T * LANES * 4;
    Activations x = activations_at(memory, n / BLOCK, T, ints);
    if (kind == 4 && ints)
        fetch<T>(step.ffn, n / BLOCK, memory);
    else
        prepare<T>(rows, n, n_tokens, norm, step.norm_eps, ints, floats, x);
    project<T>(work, x, n_tokens, partial);
}

template <int T>
__device__ void run_steps(const Step& given, int first_phase, int end_phase, int n_steps) {
    __shared__ Step step;  // this block's own: a step that follows changes its position and its token
    __shared__ int tokens[T], steps_left;
    for (int i = threadIdx.x; i < (int)(sizeof(Step) / 4); i += blockDim.x)
        reinterpret_cast<int*>(&step)[i] = reinterpret_cast<const int*>(&given)[i];
    if (n_steps > 0 && threadIdx.x < given.n_tokens) tokens[threadIdx.x] = given.tokens[threadIdx.x];
    if (threadIdx.x == 0) steps_left = n_steps;
    __syncthreads();
    do {
        for (int phase = first_phase; phase < end_phase; ++phase) {
            run_phase<T>(step, phase);
            if (phase + 1 < end_phase) grid_barrier(step);
            if (n_steps > 0 && phase < 0) forget_best(step);
        }
        if (n_steps == 0) return;
        note_best<T>(step);
        grid_barrier(step);
    } while (take_step(step, tokens, steps_left));
}

#define QCHAT_STEP(T)                                                             \
    extern "C" __global__ void __launch_bounds__(WARPS * 32, 1)                   \
        step_##T(const Step* step, int first_phase, int end_phase, int n_steps) { \
        run_steps<T>(*step, first_phase, end_phase, n_steps);                     \
    }
#if STEPS & 1
QCHAT_STEP(1)
#endif
#if STEPS & 2
QCHAT_STEP(2)
#endif
#if STEPS & 4
QCHAT_STEP(4)
#endif
#if STEPS & 8
QCHAT_STEP(8)
#endif
