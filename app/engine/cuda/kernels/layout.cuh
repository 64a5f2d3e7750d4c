// What the kernels and the Python around them must agree on; app/engine/cuda/layout.py has the same structures.
//
// A matrix is cut into groups of 32 rows: a lane owns a row. A group is contiguous and is a sequence of segments of 256
// columns (the last may have fewer); formats.cuh says what a segment holds. Everything in it is read 16 bytes a lane.
#pragma once

#include "intrinsics.cuh"

constexpr int LANES = 32;       // rows of a group
constexpr int BLOCK = 32;       // columns that share one activation scale
constexpr int SEGMENT = 8;      // blocks that are summed before they join the total
constexpr int CHUNK = 128;      // keys in one attention chunk, and in one page of the cache
constexpr int PHASES = 5;       // phases a layer; one more follows the last layer
constexpr int NORM_PARTS = 64;  // partial sums of RMSNorm

// Set by the host for the model and the device at hand: HEAD_DIM, KV_KIND, FORMATS (a bit for each GGML type that
// occurs), STEPS (the sum of the sizes of step that fit into shared memory), WARPS of a block of threads.
constexpr int KV_F32 = 0, KV_F16 = 1, KV_Q8_0 = 2;

struct Matrix {
    const u8* data;
    long long group_bytes;
    int format;  // GGML type id
    int n_rows;
    int n_groups;
    int n_blocks;  // blocks of 32 columns a row
};

struct Layer {  // norms and biases are float32 vectors, null where the model has none
    const float *attn_norm, *ffn_norm, *q_norm, *k_norm, *q_bias, *k_bias, *v_bias;
    Matrix q, k, v, out, gate, up, down;
};

struct Step {
    int n_tokens;           // rows of this step, or of this chunk of a prompt
    int start;              // position of its first row
    int n_logits;           // rows that go through the LM head
    int first_logit_row;    // the first of them
    int n_ends;             // tokens that end a reply
    int n_layers, d_model, d_ff, n_heads, n_kv_heads;
    int max_chunks;  // chunks for which `partials` has room
    int logit_stride;
    int chunk_stride;  // tokens that `activations` has room for between two blocks: n_tokens in whole tiles
    float norm_eps, attention_scale;
    long long head_stride;  // bytes of one (layer, KV head) in a page
    const Layer* layers;
    const float* output_norm;
    Matrix embedding, head;
    const float *cos, *sin;  // [positions, head_dim / 2]
    u8* const* pages;
    const int* tokens;   // that the rows stand for; with guesses, those after the first
    float* residual;     // [tokens, d_model]
    float* qkv;          // [tokens, (heads + 2 KV heads) * head_dim]
    float* attention;    // [tokens, heads * head_dim]
    u8* ffn;             // float32 [tokens, d_ff] where `down` has float weights, else activations (activations.cuh)
    u8* activations;     // of a chunk (activations.cuh)
    float* gate_up;      // of a chunk, [tokens, 2 * d_ff]
    float* logits;       // [logit rows, logit_stride]
    float* partials;     // [8, heads, max_chunks, head_dim + 2]: weighted values, then maximum and sum
    unsigned* arrivals;  // at the grid barrier
    unsigned* finished;  // [KV heads] chunks whose partial results are there
    // Of greedy decoding (choose.cuh):
    const int* ends;           // [n_ends]
    unsigned long long* best;  // [8] key of each row's best token
    unsigned* stopping;        // what the first block of threads saw in `stop`
    const unsigned* stop;      // in memory of the host: not 0 when no further step is wanted
    unsigned long long* out;   // in memory of the host: a word for each token of the launch
};

static_assert(sizeof(Matrix) == MATRIX_BYTES && sizeof(Layer) == LAYER_BYTES && sizeof(Step) == STEP_BYTES,
              "layout.py has other structures");
