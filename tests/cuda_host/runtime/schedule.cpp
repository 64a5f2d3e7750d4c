// Which thread runs next. A schedule is a way to be unkind that is the same at every run.
#include "state.h"

namespace cuda_host {

void set_ready(Thread& thread) {
  thread.state = State::ready;
  thread.block->ready[size_t(thread.linear) >> 6] |= 1ull << (thread.linear & 63);
  thread.block->ready_count++;
}

uint64_t next_random() {  // xorshift64
  launch.random ^= launch.random << 13;
  launch.random ^= launch.random >> 7;
  return launch.random ^= launch.random << 17;
}

static Thread* take(Block& block, int linear) {
  block.ready[size_t(linear) >> 6] &= ~(1ull << (linear & 63));
  block.ready_count--;
  return &block.threads[size_t(linear)];
}

// The lowest ready thread at or after `from`, going round.
static int first_ready(const Block& block, int from) {
  const size_t words = block.ready.size();
  size_t word = size_t(from) >> 6 < words ? size_t(from) >> 6 : 0;
  uint64_t bits = block.ready[word] >> (from & 63) << (from & 63);
  while (!bits) {
    word = word + 1 == words ? 0 : word + 1;
    bits = block.ready[word];
  }
  return int(word * 64) + __builtin_ctzll(bits);
}

static int last_ready(const Block& block) {
  size_t word = block.ready.size() - 1;
  while (!block.ready[word]) word--;
  return int(word * 64) + 63 - __builtin_clzll(block.ready[word]);
}

constexpr int longest_nap = 64;

void yield() {
  Thread& thread = *running();
  thread.state = State::yielded;
  thread.nap = launch.schedule == Schedule::random && next_random() % 8 == 0 ? next_random() % longest_nap : 0;
  to_scheduler();
}

// Threads that have polled memory and may look again; false when there are none.
template <class May>
static bool wake(May may) {
  bool any = false;
  for (auto& block : launch.blocks)
    for (Thread& thread : block->threads) {
      if (thread.state != State::yielded || !may(thread)) continue;
      set_ready(thread);
      any = true;
    }
  return any;
}
static bool wake_all() {
  return wake([](const Thread&) { return true; });
}

static Block* ready_block(size_t first, bool backwards) {
  const size_t count = launch.blocks.size();
  for (size_t i = 0; i < count; i++) {
    Block* block = launch.blocks[(backwards ? count + first - i : first + i) % count].get();
    if (block->ready_count) return block;
  }
  return nullptr;
}

namespace {
struct Cursor {  // where the schedule is; reset by each launch
  size_t block = 0;
  int thread = 0, turn = 0;
  long idle_rounds = 0;
} cursor;
}  // namespace

void start_schedule(size_t chosen_block) { cursor = {chosen_block}; }
void memory_changed() { cursor.idle_rounds = 0; }

constexpr int turns_in_a_block = 32;  // of round robin; a change of block moves its shared memory

static Thread* pick_ready() {
  const size_t count = launch.blocks.size();
  switch (launch.schedule) {
    case Schedule::warp: {  // a warp goes as far as it can, then the next; lower blocks first
      Block* block = ready_block(cursor.block, false);
      if (!block) return nullptr;
      return take(*block, first_ready(*block, 0));
    }
    case Schedule::reversed: {
      Block* block = ready_block(count - 1, true);
      return block ? take(*block, last_ready(*block)) : nullptr;
    }
    case Schedule::round_robin: {  // each thread one stretch, then the next thread
      if (++cursor.turn % turns_in_a_block == 0) cursor.block++;
      Block* block = ready_block(cursor.block % count, false);
      if (!block) return nullptr;
      Thread* thread = take(*block, first_ready(*block, cursor.thread % int(block->threads.size())));
      cursor.thread = thread->linear + 1;
      return thread;
    }
    case Schedule::random: {
      if (next_random() % 16 == 0) cursor.block = next_random() % count;
      Block* block = ready_block(cursor.block % count, false);
      return block ? take(*block, first_ready(*block, int(next_random() % block->threads.size()))) : nullptr;
    }
    case Schedule::block_ahead: {  // one block runs whenever it can, and looks again after every step of another
      Block* leader = launch.blocks[cursor.block % count].get();
      if (!leader->ready_count && running() && running()->block != leader)
        wake([=](const Thread& thread) { return thread.block == leader; });
      Block* block = leader->ready_count ? leader : ready_block(cursor.block % count, false);
      return block ? take(*block, first_ready(*block, 0)) : nullptr;
    }
    case Schedule::block_behind: {  // one block runs only when no other can
      const size_t last = cursor.block % count;
      Block* straggler = launch.blocks[last].get();
      Block* block = ready_block((last + 1) % count, false);
      if (block == straggler && running() && running()->block == straggler &&
          wake([=](const Thread& thread) { return thread.block != straggler; }))
        block = ready_block((last + 1) % count, false);
      return block ? take(*block, first_ready(*block, 0)) : nullptr;
    }
  }
  return nullptr;
}

// Who polls gets another look when nobody else can run. At random some nap through many rounds; a block that is behind
// sleeps until the others have looked in vain.
static bool wake_pollers() {
  for (int round = 0; launch.schedule == Schedule::random && round < longest_nap; round++)
    if (wake([](Thread& thread) { return !thread.nap || !thread.nap--; })) return true;
  const Block* behind = launch.blocks[cursor.block % launch.blocks.size()].get();
  if (launch.schedule == Schedule::block_behind && cursor.idle_rounds < 3 &&
      wake([=](const Thread& thread) { return thread.block != behind; }))
    return true;
  return wake_all();
}

constexpr long idle_limit = 10000;  // rounds in which threads poll and nothing else happens: the launch is stuck

// The next thread to run; nullptr when all have returned. Ends the launch when none can go on.
Thread* pick_thread() {
  if (running() && running()->state != State::yielded) cursor.idle_rounds = 0;
  if (Thread* thread = pick_ready()) return thread;
  if (!launch.live) return nullptr;
  if (++cursor.idle_rounds > idle_limit) report_stuck(true);
  if (!wake_pollers()) report_stuck(false);
  return pick_ready();
}

}  // namespace cuda_host
