// Rows of a matrix that nobody trained, in a file's format: every bit that may be anything is drawn, and the others,
// those of a block's scales most of all, are as in every block.
#include "intrinsics.cuh"

extern "C" __global__ void __launch_bounds__(256)
    random_rows(u8* rows, long long n, const u8* drawn, const u8* fixed, int block_bytes, unsigned seed) {
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
        unsigned x = (unsigned)i ^ (unsigned)(i >> 32) * 0x9e3779b9u ^ seed;  // and mixed as by murmur3
        x = (x ^ x >> 16) * 0x85ebca6bu;
        x = (x ^ x >> 13) * 0xc2b2ae35u;
        const int place = (int)(i % block_bytes);
        rows[i] = (u8)(((x ^ x >> 16) & drawn[place]) | fixed[place]);
    }
}
