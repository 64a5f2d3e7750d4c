#include "memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <deque>

#include "races.h"
#include "state.h"

namespace cuda_host {

constexpr size_t arena_bytes = size_t(1) << 38;

static void* reserve(size_t bytes, int protection) {
  void* memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

namespace {
struct Arena {
  char *start = nullptr, *next = nullptr;
  uint32_t* owner = nullptr;           // of each page: number of the allocation + 1
  std::deque<Allocation> allocations;  // by number; addresses of elements stay
} arena;
}  // namespace

bool in_arena(const volatile void* address) {
  return arena.start && uintptr_t(address) - uintptr_t(arena.start) < arena_bytes;
}

Allocation* allocation_of(const volatile void* address) {
  const uint32_t number = arena.owner[(uintptr_t(address) - uintptr_t(arena.start)) / page];
  return number ? &arena.allocations[number - 1] : nullptr;
}

Fault explain_fault(const char* address) {
  Fault fault{"out-of-bounds", {}};
  if (!in_arena(address)) {
    snprintf(fault.text, sizeof fault.text, "address %p is no device memory", static_cast<const void*>(address));
    return fault;
  }
  Allocation* owner = allocation_of(address);
  if (owner && !owner->live) {
    fault.kind = "use-after-free";
    snprintf(fault.text, sizeof fault.text, "byte %zd of the %zu-byte buffer '%s', which was freed",
             address - owner->start, owner->bytes, owner->name);
    return fault;
  }
  if (owner && owner->read_only && address < owner->start + owner->bytes) {
    fault.kind = "read-only";
    snprintf(fault.text, sizeof fault.text, "write to byte %zd of the read-only buffer '%s'", address - owner->start,
             owner->name);
    return fault;
  }
  const Allocation* nearest = nullptr;
  for (ptrdiff_t step : {ptrdiff_t(0), -ptrdiff_t(page), ptrdiff_t(page)})
    if (!nearest && in_arena(address + step)) nearest = allocation_of(address + step);
  if (!nearest) {
    snprintf(fault.text, sizeof fault.text, "address %p is in no buffer", static_cast<const void*>(address));
  } else if (address < nearest->start) {
    snprintf(fault.text, sizeof fault.text, "%zd bytes before the %zu-byte buffer '%s'", nearest->start - address,
             nearest->bytes, nearest->name);
  } else {
    snprintf(fault.text, sizeof fault.text, "byte %zd of the %zu-byte buffer '%s'", address - nearest->start,
             nearest->bytes, nearest->name);
  }
  return fault;
}

static size_t watched_bytes(const Allocation& allocation) { return (allocation.bytes / 4 + 1) * sizeof(Word); }

void make_words(Allocation& allocation) {
  allocation.words = static_cast<Word*>(reserve(watched_bytes(allocation), PROT_READ | PROT_WRITE));
  if (!allocation.words) fail("out-of-memory", {}, "no room to watch %s", name_of(&allocation).c_str());
}

static size_t whole_pages(size_t bytes) { return (bytes + page - 1) / page * page; }

// The pages that hold the allocation.
static char* first_page(const Allocation& allocation) {
  return reinterpret_cast<char*>(uintptr_t(allocation.start) / page * page);
}
static size_t page_bytes(const Allocation& allocation) {
  return size_t(allocation.start - first_page(allocation)) + (allocation.bytes + 15) / 16 * 16;
}

std::string name_of(const Allocation* owner) {
  if (!owner) return "shared memory";
  return "the " + std::to_string(owner->bytes) + "-byte buffer '" + owner->name + "'";
}

static bool poisoned(const char* from, const char* to) {
  return from == to || (uint8_t(*from) == poison && !memcmp(from, from + 1, size_t(to - from) - 1));
}

void check_slack() {
  for (const Allocation& allocation : arena.allocations) {
    if (!allocation.live || allocation.read_only) continue;
    const char *start = allocation.start, *end = start + allocation.bytes;
    const char* side = !poisoned(first_page(allocation), start)                          ? "before"
                       : !poisoned(end, first_page(allocation) + page_bytes(allocation)) ? "past"
                                                                                         : nullptr;
    if (side) fail("out-of-bounds", {}, "bytes just %s %s were written", side, name_of(&allocation).c_str());
  }
}

}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

// Memory of `bytes`, poisoned, 16-byte aligned at both ends; nullptr when there is none left.
void* cuda_host_allocate(size_t bytes, const char* name) {
  if (!arena.start) {
    arena.start = arena.next = static_cast<char*>(reserve(arena_bytes, PROT_NONE));
    arena.owner = static_cast<uint32_t*>(reserve(arena_bytes / page * sizeof(uint32_t), PROT_READ | PROT_WRITE));
    if (!arena.start || !arena.owner) return arena.start = nullptr;
  }
  const size_t padded = (bytes + 15) / 16 * 16, usable = whole_pages(padded ? padded : 1);
  if (usable + 2 * page > arena_bytes - size_t(arena.next - arena.start)) return nullptr;
  char* pages = arena.next + page;
  if (mprotect(pages, usable, PROT_READ | PROT_WRITE)) return nullptr;
  memset(pages, poison, usable);
  arena.next = pages + usable;
  Allocation allocation{pages + usable - padded, bytes, {}, true, false, nullptr, nullptr};
  snprintf(allocation.name, sizeof allocation.name, "%s", name);
  allocation.written = static_cast<uint8_t*>(reserve(bytes ? bytes : 1, PROT_READ | PROT_WRITE));
  arena.allocations.push_back(allocation);
  const size_t first = size_t(pages - arena.start) / page;
  for (size_t i = 0; i < usable / page; i++) arena.owner[first + i] = uint32_t(arena.allocations.size());
  return allocation.start;
}

// 1 when `address` .. + `bytes` is inside one live buffer.
int cuda_host_is_live(const char* address, size_t bytes) {
  if (!in_arena(address)) return 0;
  const Allocation* owner = allocation_of(address);
  return owner && owner->live && address >= owner->start && address + bytes <= owner->start + owner->bytes;
}

void cuda_host_write(char* address, const void* source, size_t bytes) {
  Allocation& owner = *allocation_of(address);
  if (owner.read_only) mprotect(first_page(owner), page_bytes(owner), PROT_READ | PROT_WRITE);
  memcpy(address, source, bytes);
  memset(owner.written + (address - owner.start), 1, bytes);
  if (owner.read_only) mprotect(first_page(owner), page_bytes(owner), PROT_READ);
}

void cuda_host_protect(const char* address, int read_only) {
  Allocation& owner = *allocation_of(address);
  owner.read_only = read_only;
  mprotect(first_page(owner), page_bytes(owner), read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

void cuda_host_free(char* address) {
  Allocation& owner = *allocation_of(address);
  owner.live = false;
  madvise(first_page(owner), page_bytes(owner), MADV_DONTNEED);
  mprotect(first_page(owner), page_bytes(owner), PROT_NONE);
  munmap(owner.written, owner.bytes ? owner.bytes : 1);
  if (owner.words) munmap(owner.words, watched_bytes(owner));
  owner.written = nullptr;
  owner.words = nullptr;
}
}
