// Each access of a kernel that was compiled with -fsanitize=thread comes here instead of to that sanitizer's own
// library: bounds to the byte, alignment, values that nobody wrote, asynchronous copies under way, and the order of
// accesses.
#include "accesses.h"

#include <cstring>

#include "findings.h"
#include "memory.h"
#include "races.h"
#include "state.h"

namespace cuda_host {

namespace {

struct Caller {  // what a finding names: a place in the source, or an address of the code
  uintptr_t pc;
  Place here;
  uint32_t offset() const { return uint32_t(pc - launch.module_base); }
};

[[noreturn]] void fail_for(const Caller& caller, const char* kind, const std::string& text) {
  fail(kind, caller.here, "%s", text.c_str());
}

std::string bytes_at(const char* what, size_t bytes, size_t offset, const Allocation* owner) {
  return std::string(what) + " of " + std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes") + " at byte " +
         std::to_string(offset) + " of " + name_of(owner);
}

bool in_shared(const volatile void* address) {
  return uintptr_t(address) - uintptr_t(launch.shared.start) < launch.shared.bytes;
}

void check_dynamic_bounds(const char* address, size_t bytes, const char* what, const Caller& caller) {
  const size_t offset = uintptr_t(address) - uintptr_t(launch.shared.dynamic);
  if (offset < launch.module->dynamic_capacity && offset + bytes > launch.dynamic_bytes)
    fail_for(caller, "out-of-bounds",
             std::string(what) + " of " + std::to_string(bytes) + " bytes at byte " + std::to_string(offset) + " of " +
                 std::to_string(launch.dynamic_bytes) + " bytes of dynamic shared memory");
}

// The buffer that the access lies in; nullptr for a page of none, where the access itself will fault.
Allocation* check_bounds(const char* address, size_t bytes, const char* what, const Caller& caller) {
  Allocation* owner = allocation_of(address);
  if (!owner || !owner->live) return nullptr;
  if (address < owner->start)
    fail_for(caller, "out-of-bounds",
             std::string(what) + " of " + std::to_string(bytes) + " bytes, " + std::to_string(owner->start - address) +
                 " bytes before " + name_of(owner));
  const size_t offset = size_t(address - owner->start);
  if (offset + bytes > owner->bytes) fail_for(caller, "out-of-bounds", bytes_at(what, bytes, offset, owner));
  return owner;
}

void check_has_value(const uint8_t* written, const Bytes& bytes, const char* what, const Caller& caller) {
  for (size_t i = 0; i < bytes.count; i++)
    if (!written[i])
      fail_for(caller, "uninitialised",
               bytes_at(what, bytes.count, bytes.offset + i, bytes.owner) + ", which has no value");
}

void access_shared(const char* address, size_t count, bool write, const Caller& caller) {
  const char* what = write ? "write" : "read";
  check_dynamic_bounds(address, count, what, caller);
  Block& block = *running()->block;
  const size_t first = owned_offset(address);
  const Bytes bytes{block.words.data(), first, nullptr, size_t(address - launch.shared.start), count};
  for (size_t i = 0; i < count; i++) {
    if (!block.in_flight[first + i]) continue;
    fail_for(caller, "async-copy", bytes_at(what, count, bytes.offset, nullptr) + ", which cp.async has yet to fill");
  }
  if (write)
    memset(&block.written[first], 1, count);
  else
    check_has_value(&block.written[first], bytes, what, caller);
  record(bytes, write, caller.offset());
}

void access_global(const char* address, size_t count, bool write, const Caller& caller) {
  const char* what = write ? "write" : "read";
  Allocation* owner = check_bounds(address, count, what, caller);
  if (!owner || (write && owner->read_only)) return;  // the access itself will fault
  if (!owner->words) make_words(*owner);
  const size_t offset = size_t(address - owner->start);
  const Bytes bytes{owner->words, offset, owner, offset, count};
  if (write)
    memset(owner->written + offset, 1, count);
  else
    check_has_value(owner->written + offset, bytes, what, caller);
  if (!owner->read_only) record(bytes, write, caller.offset());
}

inline void access(const void* memory, size_t bytes, bool write, const Caller& caller) {
  const char* address = static_cast<const char*>(memory);
  const bool shared = in_shared(address);
  if (!shared && !in_arena(address)) return;  // the thread's stack, a constant, the emulator
  if (!running()) return;
  OwnWork own_work;
  if (shared)
    access_shared(address, bytes, write, caller);
  else
    access_global(address, bytes, write, caller);
}

void check_alignment(const void* address, size_t alignment, size_t bytes, const Caller& caller) {
  if (uintptr_t(address) % alignment == 0 || !(in_shared(address) || in_arena(address)) || !running()) return;
  fail_for(caller, "misaligned",
           "an access to " + std::to_string(bytes) + " bytes, whose type asks for a multiple of " +
               std::to_string(alignment) + ", at an address that is " + std::to_string(uintptr_t(address) % alignment) +
               " above one");
}

void use_atomically(const volatile void* memory, size_t bytes, AtomicUse use, Order order, const Caller& caller) {
  const char* address = static_cast<const char*>(const_cast<const void*>(memory));
  check_alignment(address, bytes, bytes, caller);
  const bool shared = in_shared(address);
  if (!shared && !in_arena(address)) return;
  OwnWork own_work;
  Allocation* owner = nullptr;
  if (shared)
    check_dynamic_bounds(address, bytes, "atomic", caller);
  else if (!(owner = check_bounds(address, bytes, "atomic", caller)) || owner->read_only)
    return;
  if (!launch.instrumented) return;
  if (owner && !owner->words) make_words(*owner);
  Block& block = *running()->block;
  const size_t offset = size_t(address - (shared ? launch.shared.start : owner->start));
  const size_t first = shared ? owned_offset(address) : offset;
  uint8_t* written = shared ? &block.written[first] : owner->written + first;
  const Bytes touched{shared ? block.words.data() : owner->words, first, owner, offset, bytes};
  if (use == AtomicUse::store)
    memset(written, 1, bytes);
  else
    check_has_value(written, touched, "atomic", caller);
  exchange_knowledge(uintptr_t(address), use, order);
  record_atomic(touched, use, caller.offset());
}

}  // namespace

void before_atomic(const volatile void* address, size_t bytes, AtomicUse use, Order order, Place here) {
  const uintptr_t pc = uintptr_t(__builtin_return_address(1));
  running()->here = here;
  yield();
  use_atomically(address, bytes, use, order, {pc, here});
}

void check_access(const void* address, size_t bytes, bool write, Place here) {
  const Caller caller{uintptr_t(__builtin_return_address(1)), here};
  check_alignment(address, bytes & (bytes - 1) ? 1 : bytes, bytes, caller);
  if (launch.instrumented) access(address, bytes, write, caller);
}

void read_only_load(const void* memory, size_t bytes, Place here) {
  if (!launch.instrumented || !in_arena(memory)) return;
  const char* address = static_cast<const char*>(memory);
  const Caller caller{uintptr_t(__builtin_return_address(0)), here};
  const Allocation* owner = check_bounds(address, bytes, "read", caller);
  if (!owner || !owner->words) return;
  const size_t offset = size_t(address - owner->start);
  if (written_in_this_launch({owner->words, offset, owner, offset, bytes}))
    fail_for(caller, "read-only-load",
             bytes_at("__ldg", bytes, offset, owner) +
                 ", which this launch has written: the read-only cache may hold the old value");
}

void begin_arrival(char* shared, size_t bytes, Place here) {
  if (!launch.instrumented) return;
  const Caller caller{uintptr_t(__builtin_return_address(0)), here};
  access(shared, bytes, true, caller);
  memset(&running()->block->in_flight[owned_offset(shared)], 1, bytes);
}

void end_arrival(char* shared, size_t bytes, Place here) {
  if (!launch.instrumented) return;
  memset(&running()->block->in_flight[owned_offset(shared)], 0, bytes);
  access(shared, bytes, true, {uintptr_t(__builtin_return_address(0)), here});
}

}  // namespace cuda_host

using namespace cuda_host;

#define HERE uintptr_t(__builtin_return_address(0))

// The names that -fsanitize=thread gives to accesses. A volatile access counts as a relaxed atomic, as in PTX.
#define ACCESSES(bytes)                                                                                         \
  void __tsan_read##bytes(void* address) {                                                                      \
    if (bytes > 1) check_alignment(address, bytes > 8 ? 8 : bytes, bytes, {HERE, {}});                          \
    access(address, bytes, false, {HERE, {}});                                                                  \
  }                                                                                                             \
  void __tsan_write##bytes(void* address) {                                                                     \
    if (bytes > 1) check_alignment(address, bytes > 8 ? 8 : bytes, bytes, {HERE, {}});                          \
    access(address, bytes, true, {HERE, {}});                                                                   \
  }                                                                                                             \
  void __tsan_unaligned_read##bytes(void* address) { access(address, bytes, false, {HERE, {}}); }               \
  void __tsan_unaligned_write##bytes(void* address) { access(address, bytes, true, {HERE, {}}); }               \
  void __tsan_volatile_read##bytes(void* address) { access_volatile(address, bytes, AtomicUse::load, HERE); }   \
  void __tsan_volatile_write##bytes(void* address) { access_volatile(address, bytes, AtomicUse::store, HERE); } \
  void __tsan_unaligned_volatile_read##bytes(void* address) { __tsan_volatile_read##bytes(address); }           \
  void __tsan_unaligned_volatile_write##bytes(void* address) { __tsan_volatile_write##bytes(address); }

static void access_volatile(void* address, size_t bytes, AtomicUse use, uintptr_t pc) {
  if (!running() || !(in_shared(address) || in_arena(address))) return;
  yield();
  use_atomically(address, bytes, use, Order::relaxed, {pc, {}});
  if (use == AtomicUse::store) memory_changed();
}

extern "C" {
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void* address, size_t bytes) { access(address, bytes, false, {HERE, {}}); }
void __tsan_write_range(void* address, size_t bytes) { access(address, bytes, true, {HERE, {}}); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
