// Tensor cores: the integer product and its loads, as warp collectives with the fragment layouts of the PTX ISA.
#pragma once

#include "language.h"
#include "runtime.h"

namespace cuda_host {

struct Product {
  int* d;
  const unsigned *a, *b;
  Place here;
};

// mma.sync.m16n8k32.s32.s8.s8.s32: d (16 x 8) += a (16 x 32, by rows) * b (32 x 8, by columns). Lane 4 g + t holds
// a[g + 8 (i & 1)][4 t + 16 (i >> 1) ..] as a[i], b[4 t + 16 i ..][g] as b[i], d[g + 8 (i >> 1)][2 t + (i & 1)] as
// d[i].
inline void multiply(void** slots, unsigned mask) {
  if (mask != ~0u)
    fail("missing-lane", static_cast<Product*>(slots[__builtin_ctz(mask)])->here,
         "mma.sync needs all 32 lanes, not %08x", mask);
  int8_t a[16][32], b[8][32];
  for (int lane = 0; lane < 32; lane++) {
    const Product* part = static_cast<Product*>(slots[lane]);
    const int group = lane >> 2, column = (lane & 3) * 4;
    for (int byte = 0; byte < 4; byte++) {
      for (int i = 0; i < 4; i++)
        a[group + (i & 1) * 8][column + (i >> 1) * 16 + byte] = int8_t(part->a[i] >> 8 * byte);
      for (int i = 0; i < 2; i++) b[group][column + i * 16 + byte] = int8_t(part->b[i] >> 8 * byte);
    }
  }
  for (int lane = 0; lane < 32; lane++) {
    const Product* part = static_cast<Product*>(slots[lane]);
    for (int i = 0; i < 4; i++) {
      const int8_t *row = a[(lane >> 2) + (i >> 1) * 8], *column = b[(lane & 3) * 2 + (i & 1)];
      int sum = 0;
      for (int k = 0; k < 32; k++) sum += row[k] * column[k];
      part->d[i] = int(unsigned(part->d[i]) + unsigned(sum));
    }
  }
}

CUDA_HOST_UNCHECKED inline void mma_m16n8k32_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                                CUDA_HOST_HERE) {
  Product part{d, a, b, here};
  meet_warp(~0u, "mma.m16n8k32.s8", &part, multiply, here);
}

struct MatrixLoad {
  unsigned* registers;
  const void* row;
  int matrices;
  Place here;
};

// ldmatrix.x1/x2/x4: lane 8 m + r names row r (16 bytes) of matrix m; lane 4 r + c gets 4 bytes, column c, of each.
inline void distribute(void** slots, unsigned mask) {
  if (mask != ~0u)
    fail("missing-lane", static_cast<MatrixLoad*>(slots[__builtin_ctz(mask)])->here,
         "ldmatrix needs all 32 lanes, not %08x", mask);
  for (int lane = 0; lane < 32; lane++) {
    const MatrixLoad* load = static_cast<MatrixLoad*>(slots[lane]);
    for (int matrix = 0; matrix < load->matrices; matrix++) {
      const MatrixLoad* source = static_cast<MatrixLoad*>(slots[matrix * 8 + (lane >> 2)]);
      __builtin_memcpy(load->registers + matrix, static_cast<const char*>(source->row) + (lane & 3) * 4, 4);
    }
  }
}

template <int matrices>
CUDA_HOST_UNCHECKED void ldmatrix(unsigned (&registers)[matrices], const void* row, CUDA_HOST_HERE) {
  static_assert(matrices == 1 || matrices == 2 || matrices == 4);
  if (current->lane < matrices * 8) check_access(row, 16, false, here);
  MatrixLoad load{registers, row, matrices, here};
  meet_warp(~0u, "ldmatrix", &load, distribute, here);
}

}  // namespace cuda_host
