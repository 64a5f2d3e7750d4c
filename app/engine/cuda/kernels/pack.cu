// From rows of a GGUF tensor, as the file has them, to groups whose lanes own a row (formats.cuh). A thread has a block
// of 32 columns of a row. The layouts read here are those of app/engine/formats.py.
#include "formats.cuh"

struct Raw {  // 32 numbers as stored, and the bytes of their scales
    int q[32];
    const u8* head;
};

__device__ inline void read_block(int format, const u8* row, int block, Raw& raw) {
    const int super = block / SEGMENT, sub = block % SEGMENT;  // of 256 columns, and the 32 in it
    const u8* at;
    switch (format) {
    case Q8_0:
        raw.head = row + block * 34;
        for (int i = 0; i < 32; ++i) raw.q[i] = raw.head[2 + i];
        break;
    case Q4_0:
    case Q4_1:
        raw.head = row + block * (format == Q4_0 ? 18 : 20);
        at = raw.head + (format == Q4_0 ? 2 : 4);
        for (int i = 0; i < 16; ++i) raw.q[i] = at[i] & 15, raw.q[i + 16] = at[i] >> 4;
        break;
    case Q5_0:
    case Q5_1:
        raw.head = row + block * (format == Q5_0 ? 22 : 24);
        at = raw.head + (format == Q5_0 ? 2 : 4);
        for (int i = 0; i < 16; ++i) raw.q[i] = at[4 + i] & 15, raw.q[i + 16] = at[4 + i] >> 4;
        for (int i = 0; i < 32; ++i) raw.q[i] |= (at[i / 8] >> i % 8 & 1) << 4;
        break;
    case Q4_K:
    case Q5_K:
        raw.head = row + super * (format == Q4_K ? 144 : 176);
        at = raw.head + (format == Q4_K ? 16 : 48) + sub / 2 * 32;
        for (int i = 0; i < 32; ++i) raw.q[i] = sub % 2 ? at[i] >> 4 : at[i] & 15;
        if (format == Q5_K)
            for (int i = 0; i < 32; ++i) raw.q[i] |= (raw.head[16 + i] >> sub & 1) << 4;
        break;
    case Q6_K:
        raw.head = row + super * 210;
        at = raw.head + sub / 4 * 64 + sub % 2 * 32;
        for (int i = 0; i < 32; ++i) {
            raw.q[i] = sub % 4 < 2 ? at[i] & 15 : at[i] >> 4;
            raw.q[i] |= (raw.head[128 + sub / 4 * 32 + i] >> sub % 4 * 2 & 3) << 4;
        }
        break;
    }
}

// The scales of the block; of K formats those of all 256 columns, brought by the first block.
__device__ inline void write_head(int format, const Raw& raw, u8* segment, int lane, int sub) {
    u8* first = segment + lane * 16;
    if (format == Q6_K) {
        if (sub != 0) return;
        for (int i = 0; i < 16; ++i) first[i] = raw.head[192 + i];
        for (int i = 0; i < 2; ++i) segment[5 * PLANE + lane * 2 + i] = raw.head[208 + i];
    } else if (is_k(format)) {
        if (sub != 0) return;
        for (int i = 0; i < 16; ++i) first[i] = raw.head[i];
    } else {
        for (int i = 0; i < 2; ++i) {
            first[sub * 2 + i] = raw.head[i];
            if (has_minimum(format)) first[PLANE + sub * 2 + i] = raw.head[2 + i];
        }
    }
}

__device__ inline void write_block(int format, const Raw& raw, u8* segment, int lane, int sub) {
    u8* data = segment + head_bytes(format) + sub * block_bytes(format) + lane * 16;
    if (format == Q8_0) {
        for (int i = 0; i < 32; ++i) data[i / 16 * PLANE + i % 16] = (u8)raw.q[i];
        return;
    }
    for (int i = 0; i < 16; ++i) data[i] = (u8)((raw.q[i] & 15) | (raw.q[i + 16] & 15) << 4);
    if (has_fifth_bit(format)) {
        u8* bits = segment + head_bytes(format) - (2 - sub / 4) * PLANE + lane * 16 + sub % 4 * 4;
        for (int i = 0; i < 4; ++i) {
            int byte = 0;
            for (int j = 0; j < 8; ++j) byte |= (raw.q[4 * j + i] >> 4) << j;
            bits[i] = (u8)byte;
        }
    }
    if (format == Q6_K) {
        u8* pairs = segment + (1 + sub / 2) * PLANE + lane * 16 + sub % 2 * 8;
        for (int i = 0; i < 8; ++i) {
            int byte = 0;
            for (int j = 0; j < 4; ++j) byte |= (raw.q[16 * (i / 4) + 4 * j + i % 4] >> 4) << 2 * j;
            pairs[i] = (u8)byte;
        }
    }
}

// `n_rows` rows of `row_bytes` to whole groups, from byte `offset` of the weights on, which were all zeros. Where
// `paired_head` is not 0, the rows of each head of so many go from pairs (2i, 2i + 1) to halves (i, i + head / 2).
extern "C" __global__ void __launch_bounds__(256)
    pack_rows(const u8* source, u8* weights, long long offset, int format, int n_rows, int row_bytes, int n_blocks,
              int paired_head, long long group_bytes) {
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < (long long)n_rows * n_blocks; i += gridDim.x * 256LL) {
        const int row = (int)(i % n_rows), block = (int)(i / n_rows), lane = row % LANES;
        int from = row;
        if (paired_head) {
            const int place = row % paired_head, half = paired_head / 2;
            from = row - place + (place < half ? 2 * place : 2 * (place - half) + 1);
        }
        const u8* bytes = source + (long long)from * row_bytes;
        u8* group = weights + offset + row / LANES * group_bytes;
        if (is_float(format)) {
            const int size = format == F32 ? 4 : 2;
            for (int j = 0; j < BLOCK * size; ++j) {
                const int at = block * BLOCK * size + j;
                group[at / 16 * PLANE + lane * 16 + at % 16] = bytes[at];
            }
            continue;
        }
        Raw raw;
        read_block(format, bytes, block, raw);
        u8* segment = group + (long long)(block / SEGMENT) * segment_bytes(format);
        write_head(format, raw, segment, lane, block % SEGMENT);
        write_block(format, raw, segment, lane, block % SEGMENT);
    }
}
