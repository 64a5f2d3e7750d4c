// What the headers that a kernel sees ask of the runtime: meeting points, checks of memory, and who is running.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vectors.h"

namespace cuda_host {

// Where in the kernel's source a call stands; each intrinsic takes one as its last, defaulted argument.
struct Place {
  const char* file;
  int line;
  static constexpr Place of_caller(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};
#define CUDA_HOST_HERE ::cuda_host::Place here = ::cuda_host::Place::of_caller()

// Code of the emulator inside of a kernel, whose own accesses are not the kernel's.
#define CUDA_HOST_UNCHECKED __attribute__((no_sanitize("thread", "undefined"), noinline))

struct Identity {
  uint3 thread_index, block_index;
  int lane;
};
extern Identity* current;  // the running CUDA thread, nullptr between launches
extern dim3 block_size, grid_size;

// Runs once, when the last lane of the mask has come: slots[lane] is what each brought, nullptr where none takes part.
using Combine = void (*)(void** slots, unsigned mask);
void meet_warp(unsigned mask, const char* operation, void* slot, Combine combine, Place here);
int meet_block(const char* operation, bool predicate, Place here);  // how many threads had the predicate
void meet_grid(Place here);
void yield();  // lets every other thread that can run go first

enum class Scope { block, device };
enum class Order { relaxed, acquire, release, acquire_release };
enum class AtomicUse { load, store, update };
void fence(Scope scope);
void before_atomic(const volatile void* address, size_t bytes, AtomicUse use, Order order, Place here);
void memory_changed();  // an atomic wrote another value: whoever spins may go on
void check_access(const void* address, size_t bytes, bool write, Place here);
void read_only_load(const void* address, size_t bytes, Place here);

void copy_async(void* shared, const void* global, size_t bytes, size_t source_bytes, Place here);
void commit_copies();
void wait_copies(int groups_left);

[[noreturn]] void fail(const char* kind, Place here, const char* format, ...) __attribute__((format(printf, 3, 4)));

}  // namespace cuda_host

constexpr int warpSize = 32;
#define threadIdx (::cuda_host::current->thread_index)
#define blockIdx (::cuda_host::current->block_index)
#define blockDim (::cuda_host::block_size)
#define gridDim (::cuda_host::grid_size)
