#include "happens_before.h"

#include <algorithm>
#include <map>
#include <vector>

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
  Knowledge known;         // beyond what its block knows
  Knowledge seen;          // read by relaxed atomics: known after the next fence
  Knowledge published[2];  // by its last fence of each scope: what its atomics pass on
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
uint32_t warp_of(uint32_t thread) { return block_of(thread) * clocks.warps + thread % clocks.threads / warpSize; }

const Segment& segment(const Access& access) { return clocks.segments[access.segment - clocks.first_segment]; }

}  // namespace

uint32_t segment_of_running() {
  const uint32_t number = number_of(*running());
  ThreadClock& clock = clocks.thread[number];
  if (!clock.segment) {
    clocks.segments.push_back(
        {number, clocks.block_epoch[block_of(number)], clocks.warp_epoch[warp_of(number)], clock.releases});
    clock.segment = clocks.first_segment + uint32_t(clocks.segments.size()) - 1;
    if (clock.segment >> 30) fail("out-of-memory", {}, "too many synchronisations in one process for the race check");
  }
  return clock.segment;
}

bool in_this_launch(const Access& access) { return access.segment >= clocks.first_segment; }

bool ordered(const Access& access) {
  if (!in_this_launch(access)) return true;
  const Segment& past = segment(access);
  const uint32_t me = number_of(*running());
  if (past.thread == me && access.spread == one_thread) return true;
  const uint32_t block = block_of(past.thread), warp = warp_of(past.thread), my_block = block_of(me);
  if (block == my_block) {
    if (past.block_epoch < clocks.block_epoch[block]) return true;
    if (access.spread != within_block && warp == warp_of(me) && past.warp_epoch < clocks.warp_epoch[warp]) return true;
  }
  return clocks.block_known[my_block].covers(past, block, warp) || clocks.thread[me].known.covers(past, block, warp);
}

bool of_my_block(const Access& access) {
  return in_this_launch(access) && block_of(segment(access).thread) == running()->block->linear;
}

Access merged(const Access& older, const Access& access) {
  Access both = access;
  if (older.segment == access.segment) {
    both.spread = older.spread;
  } else if (!ordered(older) && of_my_block(older)) {
    both.spread = warp_of(segment(older).thread) == warp_of(number_of(*running())) ? within_warp : within_block;
    if (older.spread > both.spread) both.spread = older.spread;
  }
  return both;
}

std::string thread_of(const Access& access) {
  const uint32_t number = segment(access).thread, block = block_of(number);
  std::string text = "block " + std::to_string(block);
  for (auto& resident : launch.blocks)
    if (resident->linear == block) text = describe(resident->threads[number % clocks.threads]);
  return text + (access.spread ? " and others" : "");
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

// A plain store in between would break the chain; atomics continue it.
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

}  // namespace cuda_host
