#include "races.h"

#include <array>
#include <vector>

#include "memory.h"
#include "state.h"

namespace cuda_host {

constexpr size_t word_bytes = 4;

namespace {
struct Races {
  uint32_t launch = 0;
  std::vector<std::array<Cell, word_bytes>> split;  // of this launch
} races;
}  // namespace

void start_races() {
  races.launch++;
  races.split.clear();
}

static Cell* cells_of_bytes(Word& word) {
  if (!word.bytes) {
    races.split.push_back({word.whole, word.whole, word.whole, word.whole});
    word.bytes = uint32_t(races.split.size());
  }
  return races.split[word.bytes - 1].data();
}

// Calls use(cell, offset) for each cell that the bytes have.
template <class Use>
static void each_cell(const Bytes& bytes, Use use) {
  size_t number = bytes.first, left = bytes.count, offset = bytes.offset;
  while (left) {
    Word& word = bytes.words[number / word_bytes];
    if (word.launch != races.launch) word = {{}, 0, races.launch};
    const size_t in_word = number % word_bytes, count = left < word_bytes - in_word ? left : word_bytes - in_word;
    if (count == word_bytes && !word.bytes) {
      use(word.whole, offset);
    } else {
      Cell* cells = cells_of_bytes(word);
      for (size_t i = 0; i < count; i++) use(cells[in_word + i], offset + i);
    }
    number += count, offset += count, left -= count;
  }
}

static void keep_read(Cell& cell, const Access& access) {
  Access* free = nullptr;
  for (Access& read : cell.reads) {
    if (read.segment == access.segment) return;
    if (of_my_block(read)) {
      read = merged(read, access);
      return;
    }
    if (!free && ordered(read)) free = &read;
  }
  *(free ? free : &cell.reads[access.segment % reading_blocks]) = access;
}

[[noreturn]] static void race(const char* what, const char* with, const Access& other, const Bytes& bytes,
                              size_t offset) {
  fail("race", {}, "%s of %zu byte%s at byte %zu of %s is not ordered with the %s by %s at <%#x>", what, bytes.count,
       bytes.count == 1 ? "" : "s", offset, name_of(bytes.owner).c_str(), with, thread_of(other).c_str(), other.pc);
}

void record(const Bytes& bytes, bool write, uint32_t pc) {
  const Access access{segment_of_running(), one_thread, pc};
  const auto check = [&](const Access& other, const char* with, size_t offset) {
    if (other.segment && !ordered(other)) race(write ? "write" : "read", with, other, bytes, offset);
  };
  each_cell(bytes, [&](Cell& cell, size_t offset) {
    check(cell.write, "write", offset);
    check(cell.atomic, "atomic", offset);
    if (!write) return keep_read(cell, access);
    for (const Access& read : cell.reads) check(read, "read", offset);
    cell = {};
    cell.write = access;
  });
}

void record_atomic(const Bytes& bytes, AtomicUse use, uint32_t pc) {
  const Access access{segment_of_running(), one_thread, pc};
  each_cell(bytes, [&](Cell& cell, size_t offset) {
    if (!ordered(cell.write)) race("atomic", "write", cell.write, bytes, offset);
    if (use == AtomicUse::load) return;
    for (const Access& read : cell.reads)
      if (!ordered(read)) race("atomic", "read", read, bytes, offset);
    cell.atomic = merged(cell.atomic, access);
  });
}

bool written_in_this_launch(const Bytes& bytes) {
  bool written = false;
  each_cell(bytes,
            [&](const Cell& cell, size_t) { written |= in_this_launch(cell.write) || in_this_launch(cell.atomic); });
  return written;
}

}  // namespace cuda_host
