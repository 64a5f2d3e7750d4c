// Which accesses are ordered: a happens-before check over CUDA's own synchronisation, so that a missing barrier or fence
// is found whatever the schedule was.
//
// Time is kept in counters: a block's epoch goes up at its barrier, a warp's at __syncwarp, a thread's release count at
// a fence. An access is stamped with the segment in which it happened; a thread has learned of a segment when it shares
// a later epoch with it, or has taken in, through an atomic and fences, that the epoch is over.
#pragma once

#include <cstdint>

#include "../include/cuda_host/runtime.h"

namespace cuda_host {

struct Block;
struct Allocation;

enum Spread : uint32_t { one_thread, within_warp, within_block };  // of several accesses kept as one

struct Access {
  uint32_t segment : 30, spread : 2;  // segment 0: never
  uint32_t pc;                        // offset in the module
};

constexpr int reading_blocks = 4;  // reads of a byte that are kept, one a block; of more blocks, the latest

struct Cell {  // of one byte
  Access write, atomic, reads[reading_blocks];
};

void start_ordering(unsigned blocks, unsigned threads);
void order_block(Block& block);
void order_warp(Block& block, int warp, unsigned lanes);
void order_grid();
void exchange_knowledge(uintptr_t address, AtomicUse use, Order order);

// Checks an access against those before it and keeps it; `cells` are those of its first byte, which is byte `offset` of
// the buffer `owner`, or of shared memory where that is nullptr.
void record(Cell* cells, size_t bytes, bool write, uint32_t pc, const Allocation* owner, size_t offset);
void record_atomic(Cell* cells, size_t bytes, AtomicUse use, uint32_t pc, const Allocation* owner, size_t offset);
bool written_in_this_launch(const Cell& cell);

}  // namespace cuda_host
