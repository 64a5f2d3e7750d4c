// Where threads wait for each other: warp collectives, block barriers, the grid's barrier.
#include "happens_before.h"
#include "state.h"

namespace cuda_host {

static Thread* lane_of(Block& block, const Thread& thread, int lane) {
  return &block.threads[size_t(thread.linear - thread.lane + lane)];
}

// Completes the collective that `thread` waits at, once every live lane of its mask has come to it.
static bool try_warp(Thread& thread) {
  Block& block = *thread.block;
  Warp& warp = block.warps[size_t(thread.linear / warpSize)];
  const unsigned taking_part = thread.mask & warp.live;
  if (taking_part & ~warp.waiting) return false;
  void* slots[warpSize] = {};
  for (unsigned left = taking_part; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const Thread& other = *lane_of(block, thread, lane);
    if (other.operation != thread.operation || other.mask != thread.mask)
      fail("divergent-collective", thread.here,
           "lane %d is at %s with mask %08x, but lane %d, which is in that mask, is at %s (line %d) with mask %08x",
           thread.lane, thread.operation, thread.mask, lane, other.operation, other.here.line, other.mask);
    slots[lane] = other.slot;
  }
  thread.combine(slots, taking_part);
  if (!thread.slot) order_warp(block, thread.linear / warpSize, taking_part);  // only __syncwarp brings nothing
  warp.waiting &= ~taking_part;
  for (unsigned left = taking_part; left; left &= left - 1) set_ready(*lane_of(block, thread, __builtin_ctz(left)));
  return true;
}

void meet_warp(unsigned mask, const char* operation, void* slot, Combine combine, Place here) {
  Thread& thread = *running();
  thread.here = here;
  if (!(mask >> thread.lane & 1)) {
    fail("lane-not-in-mask", here, "lane %d calls %s with mask %08x, which leaves it out", thread.lane, operation,
         mask);
  }
  thread.mask = mask;
  thread.operation = operation;
  thread.slot = slot;
  thread.combine = combine;
  thread.state = State::at_warp;
  thread.block->warps[size_t(thread.linear / warpSize)].waiting |= 1u << thread.lane;
  try_warp(thread);
  to_scheduler();
}

static bool same_place(const Place& a, const Place& b) { return a.line == b.line && !strcmp(a.file, b.file); }

static void complete_block(Block& block) {
  const int exited = int(block.threads.size()) - block.live;
  if (exited) {
    current = block.first_at_barrier;
    fail("divergent-barrier", block.first_at_barrier->here,
         "%d threads wait at %s, but %d of the block's %zu threads have returned without it", block.at_barrier,
         block.first_at_barrier->operation, exited, block.threads.size());
  }
  order_block(block);
  for (Thread& thread : block.threads) {
    thread.passed = block.predicates;
    set_ready(thread);
  }
  block.at_barrier = block.predicates = 0;
}

int meet_block(const char* operation, bool predicate, Place here) {
  Thread& thread = *running();
  Block& block = *thread.block;
  thread.here = here;
  thread.operation = operation;
  if (!block.at_barrier) {
    block.first_at_barrier = &thread;
  } else if (!same_place(here, block.first_at_barrier->here) || operation != block.first_at_barrier->operation) {
    const Thread& first = *block.first_at_barrier;
    fail("divergent-barrier", here, "waits at %s, but %s already waits at %s in line %d", operation,
         describe(first).c_str(), first.operation, first.here.line);
  }
  thread.state = State::at_block;
  block.at_barrier++;
  block.predicates += predicate;
  if (block.at_barrier == block.live) complete_block(block);
  to_scheduler();
  return thread.passed;
}

static long all_threads() { return long(grid_size.count() * block_size.count()); }

static void complete_grid() {
  order_grid();
  launch.at_grid = 0;
  for (auto& block : launch.blocks)
    for (Thread& thread : block->threads)
      if (thread.state == State::at_grid) set_ready(thread);
}

void meet_grid(Place here) {
  if (!launch.cooperative) fail("launch", here, "a grid barrier needs a cooperative launch");
  Thread& thread = *running();
  thread.here = here;
  thread.operation = "grid sync";
  thread.state = State::at_grid;
  if (++launch.at_grid == all_threads()) complete_grid();  // who has returned never comes
  to_scheduler();
}

void leave(Thread& thread) {
  Block& block = *thread.block;
  Warp& warp = block.warps[size_t(thread.linear / warpSize)];
  thread.state = State::done;
  block.live--;
  launch.live--;
  warp.live &= ~(1u << thread.lane);
  for (unsigned waiting = warp.waiting; waiting; waiting &= warp.waiting & (waiting - 1))
    try_warp(*lane_of(block, thread, __builtin_ctz(waiting)));
  if (block.at_barrier && block.at_barrier == block.live) complete_block(block);
}

static const char* describe_state(const Thread& thread) {
  switch (thread.state) {
    case State::ready:
      return "running";
    case State::yielded:
      return "polling memory";
    case State::done:
      return "gone";
    default:
      return thread.operation;
  }
}

// Nobody can run: says who waits for whom, most telling first.
void report_stuck(bool spinning) {
  std::string summary;
  const Thread *polling = nullptr, *at_warp = nullptr, *at_block = nullptr, *any = nullptr;
  for (auto& block : launch.blocks)
    for (const Thread& thread : block->threads) {
      if (thread.state == State::done) continue;
      if (!any) any = &thread;
      if (thread.state == State::yielded && !polling) polling = &thread;
      if (thread.state == State::at_warp && !at_warp) at_warp = &thread;
      if (thread.state == State::at_block && !at_block) at_block = &thread;
    }
  if (spinning && polling) {
    current = const_cast<Thread*>(polling);
    const Thread* other = at_warp ? at_warp : at_block;
    fail("deadlock", polling->here, "polls memory that nobody will change%s%s", other ? "; " : "",
         other ? (describe(*other) + " waits at " + other->operation + " in line " + std::to_string(other->here.line))
                     .c_str()
               : "");
  }
  if (at_warp) {
    current = const_cast<Thread*>(at_warp);
    const Warp& warp = at_warp->block->warps[size_t(at_warp->linear / warpSize)];
    const int missing = __builtin_ctz(at_warp->mask & warp.live & ~warp.waiting);
    const Thread& lane = *lane_of(*at_warp->block, *at_warp, missing);
    fail("missing-lane", at_warp->here, "waits at %s with mask %08x for lane %d, which is at %s in line %d",
         at_warp->operation, at_warp->mask, missing, describe_state(lane), lane.here.line);
  }
  current = const_cast<Thread*>(any);
  if (at_block) {
    current = const_cast<Thread*>(at_block);
    for (const Thread& thread : at_block->block->threads)
      if (thread.state != State::at_block && thread.state != State::done)
        fail("divergent-barrier", at_block->here, "waits at %s, but %s is at %s in line %d", at_block->operation,
             describe(thread).c_str(), describe_state(thread), thread.here.line);
  }
  fail("deadlock", any->here, "waits at %s, where %ld threads of the grid will not come", any->operation,
       all_threads() - launch.at_grid);
}

}  // namespace cuda_host
