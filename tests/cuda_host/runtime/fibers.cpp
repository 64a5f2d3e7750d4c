// Stacks for fibers, kept for the next launch.
#include <sys/mman.h>

#include "state.h"

namespace cuda_host {

constexpr size_t stacks_a_mapping = 64;
constexpr size_t guarded_stacks = 1 << 14;  // each guard page splits a mapping, and Linux allows 65,530 of them

namespace {
struct Stacks {
  std::vector<char*> free;
  size_t made = 0;
} stacks;
}  // namespace

char* take_stack() {
  if (stacks.free.empty()) {
    void* memory = mmap(nullptr, stacks_a_mapping * stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("out-of-memory", {}, "no room for the stacks of so many threads");
    for (size_t i = 0; i < stacks_a_mapping; i++) {
      char* stack = static_cast<char*>(memory) + i * stack_bytes;
      if (stacks.made++ < guarded_stacks) mprotect(stack, page, PROT_NONE);
      stacks.free.push_back(stack);
    }
  }
  char* stack = stacks.free.back();
  stacks.free.pop_back();
  return stack;
}

void give_back_stack(char* stack) { stacks.free.push_back(stack); }

}  // namespace cuda_host
