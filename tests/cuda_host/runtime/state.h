// The state of a launch: its blocks and threads, and what each is waiting for.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../include/cuda_host/kernel_table.h"
#include "../include/cuda_host/runtime.h"

namespace cuda_host {

constexpr size_t page = 4096;
constexpr int poison = 0xff;  // of memory that nobody has written: NaN as a float, -1 as an integer

enum class State : uint8_t { ready, yielded, at_warp, at_block, at_grid, done };

struct Block;

struct AsyncCopy {
  char* shared;
  const char* global;
  size_t bytes, source_bytes;
  Place here;
};

struct Thread : Identity {
  Block* block;
  int linear;  // in its block
  State state;
  char* stack;
  void* stack_pointer;
  Place here;  // where it waits, or its last atomic
  const char* operation;
  unsigned mask;
  void* slot;
  Combine combine;
  uint64_t nap;                                // rounds that it will not look at memory
  int passed;                                  // threads whose predicate held at the barrier
  std::vector<std::vector<AsyncCopy>> copies;  // committed groups, oldest first; the last is still open
};

struct Warp {
  unsigned live, waiting;  // lanes
};

struct Word;

struct Block {
  uint3 index;
  unsigned linear;  // in its grid
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<uint64_t> ready;  // a bit for each thread
  int ready_count, live, at_barrier, predicates;
  Thread* first_at_barrier;
  std::vector<char> shared;  // its shared memory while another block has the address
  bool started;
  // With the race check, of the bytes of shared memory that it owns:
  std::vector<Word> words;
  std::vector<uint8_t> written;    // has it a value?
  std::vector<uint8_t> in_flight;  // will an asynchronous copy still write it?
};

enum class Schedule : int { warp, reversed, round_robin, random, block_ahead, block_behind };

// What the host asks for. Mirrored by launch.py.
struct Request {
  const Module* module;
  const char* kernel;
  uint32_t grid[3], block[3];
  uint32_t dynamic_bytes;
  int32_t cooperative;
  int32_t schedule;
  int32_t flush_denormals;
  uint32_t stall_ms, limit_ms;  // processor time: of one thread without a scheduling point, of the launch
  uint64_t seed;
  void** arguments;
};

constexpr int deepest_stack = 24;

// What was found. Mirrored by finding.py.
struct Finding {
  char kind[32];
  char message[1200];
  int32_t has_thread;
  uint32_t block[3], thread[3];
  char file[256];
  int32_t line;
  int32_t depth;
  uintptr_t stack[deepest_stack];  // return addresses, innermost first, as offsets in the module
};

struct SharedMemory {  // of the block that runs now, at one address for all
  char *start, *dynamic;
  size_t bytes;
};

struct Launch {
  const Module* module;
  const Kernel* kernel;
  void** arguments;
  uint32_t dynamic_bytes;
  bool cooperative, instrumented;
  Schedule schedule;
  uint64_t random;
  std::vector<std::unique_ptr<Block>> blocks;  // resident
  long live, at_grid;
  long switches;
  uintptr_t module_base, module_end;
  SharedMemory shared;
  void* host_stack_pointer;
};
extern Launch launch;

inline Thread* running() { return static_cast<Thread*>(current); }

// ---- findings.cpp
std::string describe(const Thread& thread);

// ---- fibers.cpp
constexpr size_t stack_bytes = 1 << 16;
char* take_stack();
void give_back_stack(char* stack);

// ---- shared_memory.cpp
void find_shared_memory();         // of launch.module, for this system thread
size_t owned_shared_bytes();       // that a block has
size_t owned_offset(const void*);  // of an address among them
void load_shared_memory(Block&);   // puts the block's own bytes at the address
void forget_loaded_block();
void check_dynamic_end(const Block& block);

// ---- async_copy.cpp
void check_copies_done(const Thread& thread);
// ---- schedule.cpp
void start_schedule(size_t chosen_block);
void set_ready(Thread& thread);
Thread* pick_thread();
uint64_t next_random();

// ---- meetings.cpp
void leave(Thread& thread);  // it has returned: whoever waited for it may go on
[[noreturn]] void report_stuck(bool spinning);

// ---- launch.cpp
void to_scheduler();

}  // namespace cuda_host
