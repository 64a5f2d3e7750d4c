#include "happens_before.h"

#include <algorithm>
#include <map>
#include <vector>

#include "memory.h"
#include "state.h"

namespace cuda_host {

namespace {

struct Segment {
  uint32_t thread, block_epoch, warp_epoch, releases;
};

// What somebody knows to be over: epochs of blocks, epochs of warps, releases of threads.
struct Knowledge {
  std::vector<uint32_t> blocks;  // empty, or one for each block
  std::map<uint32_t, uint32_t> warps, threads;

  bool empty() const { return blocks.empty() && warps.empty() && threads.empty(); }
  static void raise(uint32_t& value, uint32_t to) {
    if (value < to) value = to;
  }
  void join(const Knowledge& other) {
    if (!other.blocks.empty()) {
      blocks.resize(other.blocks.size());
      for (size_t i = 0; i < blocks.size(); i++) raise(blocks[i], other.blocks[i]);
    }
    for (auto [warp, epoch] : other.warps) raise(warps[warp], epoch);
    for (auto [thread, count] : other.threads) raise(threads[thread], count);
  }
  bool covers(const Segment& segment, uint32_t block, uint32_t warp) const {
    if (!blocks.empty() && segment.block_epoch < blocks[block]) return true;
    if (auto it = warps.find(warp); it != warps.end() && segment.warp_epoch < it->second) return true;
    auto it = threads.find(segment.thread);
    return it != threads.end() && segment.releases < it->second;
  }
};

struct ThreadClock {
  uint32_t segment = 0;  // 0: none since its last synchronisation
  uint32_t releases = 0;
  Knowledge known;          // beyond what its block knows
  Knowledge seen;           // read by relaxed atomics: known after the next fence
  Knowledge published[2];   // by its last fence of each scope: what its atomics pass on
};

struct Clocks {
  uint32_t blocks, threads, warps;  // warps and threads in a block
  uint32_t first_segment = 1;
  std::vector<Segment> segments;
  std::vector<uint32_t> block_epoch, warp_epoch;
  std::vector<Knowledge> block_known;
  std::vector<ThreadClock> thread;
  std::map<std::pair<uintptr_t, uint32_t>, Knowledge> objects;  // by address and block; 0: every block
} clocks;

uint32_t number_of(const Thread& thread) { return thread.block->linear * clocks.threads + uint32_t(thread.linear); }
uint32_t block_of(uint32_t thread) { return thread / clocks.threads; }
uint32_t warp_of(uint32_t thread) {
  return block_of(thread) * clocks.warps + thread % clocks.threads / warpSize;
}

uint32_t segment_of(uint32_t number) {
  ThreadClock& clock = clocks.thread[number];
  if (!clock.segment) {
    clocks.segments.push_back({number, clocks.block_epoch[block_of(number)], clocks.warp_epoch[warp_of(number)],
                               clock.releases});
    clock.segment = clocks.first_segment + uint32_t(clocks.segments.size()) - 1;
    if (clock.segment >> 30) fail("out-of-memory", {}, "too many synchronisations in one process for the race check");
  }
  return clock.segment;
}

const Segment& segment(const Access& access) { return clocks.segments[access.segment - clocks.first_segment]; }

bool ordered(const Access& access, uint32_t me) {
  if (access.segment < clocks.first_segment) return true;  // never, or an earlier launch
  const Segment& past = segment(access);
  if (past.thread == me && access.spread == one_thread) return true;
  const uint32_t block = block_of(past.thread), warp = warp_of(past.thread), my_block = block_of(me);
  if (block == my_block) {
    if (past.block_epoch < clocks.block_epoch[block]) return true;
    if (access.spread != within_block && warp == warp_of(me) && past.warp_epoch < clocks.warp_epoch[warp]) return true;
  }
  return clocks.block_known[my_block].covers(past, block, warp) || clocks.thread[me].known.covers(past, block, warp);
}

// `slot` keeps the latest of several accesses that may be concurrent, and how far they spread.
void keep(Access& slot, const Access& access, uint32_t me) {
  if (slot.segment == access.segment) {
    slot.pc = access.pc;
    return;
  }
  Access merged = access;
  if (!ordered(slot, me) && block_of(segment(slot).thread) == block_of(me)) {
    merged.spread = warp_of(segment(slot).thread) == warp_of(me) ? within_warp : within_block;
    if (slot.spread > merged.spread) merged.spread = slot.spread;
  }
  slot = merged;
}

void keep_read(Cell& cell, const Access& access, uint32_t me) {
  Access* free = nullptr;
  for (Access& read : cell.reads) {
    if (read.segment == access.segment) return;
    if (read.segment >= clocks.first_segment && block_of(segment(read).thread) == block_of(me))
      return keep(read, access, me);
    if (!free && ordered(read, me)) free = &read;
  }
  *(free ? free : &cell.reads[access.segment % reading_blocks]) = access;
}

[[noreturn]] void race(const char* what, size_t bytes, const char* with, const Access& other,
                       const Allocation* owner, size_t offset) {
  const uint32_t number = segment(other).thread, block = block_of(number);
  const Thread* thread = nullptr;
  for (auto& resident : launch.blocks)
    if (resident->linear == block) thread = &resident->threads[number % clocks.threads];
  fail("race", {}, "%s of %zu byte%s at byte %zu of %s is not ordered with the %s by %s%s at <%#x>",
          what, bytes, bytes == 1 ? "" : "s", offset, name_of(owner).c_str(), with,
          thread ? describe(*thread).c_str() : ("block " + std::to_string(block)).c_str(),
          other.spread ? " and others" : "", other.pc);
}

}  // namespace

bool written_in_this_launch(const Cell& cell) {
  return cell.write.segment >= clocks.first_segment || cell.atomic.segment >= clocks.first_segment;
}

void start_ordering(unsigned blocks, unsigned threads) {
  clocks.first_segment += uint32_t(clocks.segments.size());
  clocks.segments.clear();
  clocks.blocks = blocks;
  clocks.threads = threads;
  clocks.warps = (threads + warpSize - 1) / warpSize;
  clocks.block_epoch.assign(blocks, 0);
  clocks.warp_epoch.assign(size_t(blocks) * clocks.warps, 0);
  clocks.block_known.assign(blocks, {});
  clocks.thread.assign(size_t(blocks) * threads, {});
  clocks.objects.clear();
}

void order_block(Block& block) {
  if (!launch.instrumented) return;
  Knowledge& together = clocks.block_known[block.linear];
  for (uint32_t i = 0; i < clocks.threads; i++) {
    ThreadClock& clock = clocks.thread[block.linear * clocks.threads + i];
    clock.segment = 0;
    if (clock.known.empty()) continue;
    together.join(clock.known);
    clock.known = {};
  }
  clocks.block_epoch[block.linear]++;
}

void order_warp(Block& block, int warp, unsigned lanes) {
  if (!launch.instrumented) return;
  const uint32_t first = block.linear * clocks.threads + uint32_t(warp) * warpSize;
  Knowledge together;
  for (unsigned left = lanes; left; left &= left - 1) together.join(clocks.thread[first + __builtin_ctz(left)].known);
  for (unsigned left = lanes; left; left &= left - 1) {
    ThreadClock& clock = clocks.thread[first + __builtin_ctz(left)];
    clock.segment = 0;
    if (!together.empty()) clock.known = together;
  }
  clocks.warp_epoch[block.linear * clocks.warps + uint32_t(warp)]++;
}

void order_grid() {
  if (!launch.instrumented) return;
  uint32_t latest = 0;
  for (uint32_t epoch : clocks.block_epoch) latest = std::max(latest, epoch);
  clocks.block_epoch.assign(clocks.blocks, latest + 1);
  for (Knowledge& known : clocks.block_known) known.blocks.assign(clocks.blocks, latest + 1);
  for (ThreadClock& clock : clocks.thread) clock.segment = 0;
}

void fence(Scope scope) {
  if (!launch.instrumented) return;
  const uint32_t me = number_of(*running()), block = block_of(me), warp = warp_of(me);
  ThreadClock& clock = clocks.thread[me];
  clock.known.join(clock.seen);
  clock.seen = {};
  clock.segment = 0;
  clock.releases++;
  for (Scope covered : {Scope::block, Scope::device}) {
    if (covered > scope) break;
    Knowledge& published = clock.published[int(covered)];
    published.join(clocks.block_known[block]);
    published.join(clock.known);
    published.blocks.resize(clocks.blocks);
    Knowledge::raise(published.blocks[block], clocks.block_epoch[block]);
    if (clocks.warp_epoch[warp]) Knowledge::raise(published.warps[warp], clocks.warp_epoch[warp]);
    published.threads[me] = clock.releases;
  }
}

// What an atomic passes on and takes in. A plain store in between would break the chain; atomics continue it.
void exchange_knowledge(uintptr_t address, AtomicUse use, Order order) {
  const uint32_t me = number_of(*running());
  if (order == Order::release || order == Order::acquire_release) fence(Scope::device);
  ThreadClock& clock = clocks.thread[me];
  Knowledge& everybody = clocks.objects[{address, 0}];
  Knowledge& in_block = clocks.objects[{address, block_of(me) + 1}];
  if (use != AtomicUse::store) {
    clock.seen.join(everybody);
    clock.seen.join(in_block);
  }
  if (use == AtomicUse::store) everybody = in_block = {};
  if (use != AtomicUse::load) {
    everybody.join(clock.published[int(Scope::device)]);
    in_block.join(clock.published[int(Scope::block)]);
  }
  if (order == Order::acquire || order == Order::acquire_release) {
    clock.known.join(clock.seen);
    clock.seen = {};
  }
}

void record(Cell* cells, size_t bytes, bool write, uint32_t pc, const Allocation* owner, size_t offset) {
  const uint32_t me = number_of(*running());
  const Access access{segment_of(me), one_thread, pc};
  uint32_t fine = 0;  // a segment that was just found to be ordered
  auto check = [&](const Access& other, const char* what, size_t byte) {
    if (other.segment == fine && !other.spread) return;
    if (!ordered(other, me)) race(write ? "write" : "read", bytes, what, other, owner, offset + byte);
    if (!other.spread) fine = other.segment;
  };
  for (size_t byte = 0; byte < bytes; byte++) {
    Cell& cell = cells[byte];
    check(cell.write, "write", byte);
    check(cell.atomic, "atomic", byte);
    if (!write) {
      keep_read(cell, access, me);
      continue;
    }
    for (Access& read : cell.reads) check(read, "read", byte);
    cell = {};
    cell.write = access;
  }
}

void record_atomic(Cell* cells, size_t bytes, AtomicUse use, uint32_t pc, const Allocation* owner, size_t offset) {
  const uint32_t me = number_of(*running());
  const Access access{segment_of(me), one_thread, pc};
  for (size_t byte = 0; byte < bytes; byte++) {
    Cell& cell = cells[byte];
    if (!ordered(cell.write, me)) race("atomic", bytes, "write", cell.write, owner, offset + byte);
    if (use == AtomicUse::load) continue;
    for (Access& read : cell.reads)
      if (!ordered(read, me)) race("atomic", bytes, "read", read, owner, offset + byte);
    keep(cell.atomic, access, me);
  }
}

}  // namespace cuda_host
