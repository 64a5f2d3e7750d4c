// Runs a grid: makes fibers for the blocks that are resident, lets the schedule choose among them until all have
// returned.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "context_switch.h"
#include "findings.h"
#include "float_control.h"
#include "memory.h"
#include "races.h"
#include "state.h"

namespace cuda_host {

Identity* current;
dim3 block_size, grid_size;
Launch launch;

void to_scheduler() { cuda_host_switch(&running()->stack_pointer, launch.host_stack_pointer); }

static void run_thread() {
  launch.kernel->call(launch.arguments);
  check_copies_done(*running());
  running()->state = State::done;
  to_scheduler();
  __builtin_unreachable();
}

static void start_block(Block& block, unsigned linear) {
  const unsigned threads = unsigned(block_size.count()), warps = (threads + warpSize - 1) / warpSize;
  block.linear = linear;
  block.index = {linear % grid_size.x, linear / grid_size.x % grid_size.y, linear / grid_size.x / grid_size.y};
  if (block.threads.empty()) {
    block.threads.resize(threads);
    for (Thread& thread : block.threads) thread.stack = take_stack();
  }
  block.warps.assign(warps, {~0u, 0});
  if (threads % warpSize) block.warps.back().live = (1u << threads % warpSize) - 1;
  block.ready.assign((threads + 63) / 64, 0);
  block.ready_count = block.at_barrier = block.predicates = 0;
  block.live = int(threads);
  block.started = false;
  launch.live += threads;
  for (unsigned i = 0; i < threads; i++) {
    Thread& thread = block.threads[i];
    thread.thread_index = {i % block_size.x, i / block_size.x % block_size.y, i / block_size.x / block_size.y};
    thread.block_index = block.index;
    thread.lane = int(i % warpSize);
    thread.block = &block;
    thread.linear = int(i);
    thread.here = {"", 0};
    thread.operation = "its start";
    thread.copies.clear();
    thread.stack_pointer = prepare_stack(thread.stack + stack_bytes, run_thread);
    set_ready(thread);
  }
}

static std::vector<unsigned> block_order(unsigned count) {
  std::vector<unsigned> order(count);
  for (unsigned i = 0; i < count; i++) order[i] = launch.schedule == Schedule::reversed ? count - 1 - i : i;
  if (launch.schedule == Schedule::random)
    for (unsigned i = count; i > 1; i--) std::swap(order[i - 1], order[next_random() % i]);
  return order;
}

// Of a grid that is not cooperative, a few blocks run side by side, or one after the other: both may happen.
static unsigned resident_blocks(unsigned count) {
  if (launch.cooperative) return count;
  const bool alone = launch.schedule == Schedule::warp || launch.schedule == Schedule::reversed;
  return alone ? 1 : std::min(count, 4u);
}

static void run_grid() {
  const unsigned count = unsigned(grid_size.count());
  const std::vector<unsigned> order = block_order(count);
  unsigned next = resident_blocks(count);
  for (unsigned i = 0; i < next; i++) {
    launch.blocks.push_back(std::make_unique<Block>());
    start_block(*launch.blocks.back(), launch.cooperative ? i : order[i]);
  }
  while (Thread* thread = pick_thread()) {
    Block& block = *thread->block;
    load_shared_memory(block);
    current = thread;
    launch.switches++;
    cuda_host_switch(&launch.host_stack_pointer, thread->stack_pointer);
    if (thread->state != State::done) continue;
    leave(*thread);
    if (block.live) continue;
    current = nullptr;
    check_dynamic_end(block);
    forget_loaded_block();
    if (next < count && !launch.cooperative) start_block(block, order[next++]);
  }
  current = nullptr;
  check_slack();
}

static void start(const Request& request) {
  launch.module = request.module;
  launch.kernel = nullptr;
  for (int i = 0; i < request.module->kernel_count; i++)
    if (!strcmp(request.module->kernels[i].name, request.kernel)) launch.kernel = &request.module->kernels[i];
  if (!launch.kernel) fail("launch", {}, "the module has no kernel of this name");
  launch.arguments = request.arguments;
  // A file that declares no dynamic array has no use for what it is given.
  launch.dynamic_bytes = uint32_t(std::min(size_t(request.dynamic_bytes), request.module->dynamic_capacity));
  launch.cooperative = request.cooperative;
  launch.instrumented = request.module->instrumented;
  launch.schedule = Schedule(request.schedule);
  launch.random = request.seed * 2654435761u + 88172645463325252ull;
  launch.live = launch.at_grid = launch.switches = 0;
  grid_size = {request.grid[0], request.grid[1], request.grid[2]};
  block_size = {request.block[0], request.block[1], request.block[2]};
  find_shared_memory();
  forget_loaded_block();
  const bool chosen = launch.schedule == Schedule::block_ahead || launch.schedule == Schedule::block_behind;
  start_schedule(chosen ? size_t(request.seed) : 0);
  if (!launch.instrumented) return;
  start_ordering(unsigned(grid_size.count()), unsigned(block_size.count()));
  start_races();
}

static void finish() {
  current = nullptr;
  for (auto& block : launch.blocks)
    for (Thread& thread : block->threads) give_back_stack(thread.stack);
  launch.blocks.clear();
}

}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

// 0, or 1 with *found filled in. One launch at a time: they are the only state of the runtime beside its memory.
int cuda_host_launch(const Request* request, Finding* found) {
  static std::mutex alone;
  std::lock_guard lock(alone);
  const auto control = float_control();
  int result = 0;
  memset(&finding, 0, sizeof finding);
  {
    SignalsOfLaunch signals(request->stall_ms, request->limit_ms);
    if (!sigsetjmp(host, 1)) {
      if (request->flush_denormals) set_float_control(control | flush_denormals);
      start(*request);
      run_grid();
    } else {
      *found = finding;
      result = 1;
    }
  }
  set_float_control(control);
  finish();
  return result;
}

long cuda_host_switches() { return launch.switches; }  // of the latest launch
}
