// Races: for each word of memory who has read and written it, as far as a later access may not be ordered with them.
#pragma once

#include "happens_before.h"

namespace cuda_host {

struct Allocation;

constexpr int reading_blocks = 4;  // whose reads of a word are kept; of more blocks, the latest

struct Cell {
  Access write, atomic, reads[reading_blocks];
};

// Four bytes, which have one cell while every access is to all of them, and a cell each from the first that is not.
struct Word {
  Cell whole;
  uint32_t bytes;   // where their cells are, + 1
  uint32_t launch;  // in which all this was noted; before it, all is ordered
};

// Bytes that are accessed: the first is byte `offset` of the buffer `owner`, or of shared memory where that is nullptr.
struct Bytes {
  Word* words;   // of the owner
  size_t first;  // number of the first byte, by which its word is found
  const Allocation* owner;
  size_t offset, count;
};

void start_races();
void record(const Bytes& bytes, bool write, uint32_t pc);
void record_atomic(const Bytes& bytes, AtomicUse use, uint32_t pc);
bool written_in_this_launch(const Bytes& bytes);

}  // namespace cuda_host
