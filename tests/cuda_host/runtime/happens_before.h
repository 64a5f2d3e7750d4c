// Which accesses are ordered: a happens-before check over CUDA's own synchronisation, so that a missing barrier or
// fence is found whatever the schedule was.
//
// Time is kept in counters: a block's epoch goes up at its barrier, a warp's at __syncwarp, a thread's release count at
// a fence. An access is stamped with the segment in which it happened; a thread has learned of a segment when it shares
// a later epoch with it, or has taken in, through an atomic and fences, that the epoch is over.
#pragma once

#include <cstdint>
#include <string>

#include "../include/cuda_host/runtime.h"

namespace cuda_host {

struct Block;

enum Spread : uint32_t { one_thread, within_warp, within_block };  // of several accesses kept as one

struct Access {
  uint32_t segment : 30, spread : 2;  // segment 0: never
  uint32_t pc;                        // offset in the module
};

void start_ordering(unsigned blocks, unsigned threads);
void order_block(Block& block);
void order_warp(Block& block, int warp, unsigned lanes);
void order_grid();
void exchange_knowledge(uintptr_t address, AtomicUse use, Order order);  // what an atomic passes on and takes in

uint32_t segment_of_running();
bool in_this_launch(const Access& access);
bool ordered(const Access& access);                        // before what the running thread does now
bool of_my_block(const Access& access);                    // is it, of this launch, by a thread of its block?
Access merged(const Access& older, const Access& access);  // the later of two that may be concurrent
std::string thread_of(const Access& access);

}  // namespace cuda_host
