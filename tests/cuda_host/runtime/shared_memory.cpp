// Shared memory is the thread-local storage of the module. All blocks see it at one address, so a block that takes over
// brings its bytes and the one before saves its own. A block starts with poison.
#include <link.h>

#include <algorithm>
#include <cstring>

#include "races.h"
#include "state.h"

namespace cuda_host {

static Block* loaded;

void find_shared_memory() {
  launch.shared.dynamic = launch.module->dynamic_shared();  // also makes this system thread's storage exist
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void*) {
        const uintptr_t module = reinterpret_cast<uintptr_t>(launch.module);
        size_t bytes = 0;
        uintptr_t end = 0;
        bool ours = false;
        for (int i = 0; i < info->dlpi_phnum; i++) {
          const auto& header = info->dlpi_phdr[i];
          const uintptr_t start = info->dlpi_addr + header.p_vaddr;
          if (header.p_type == PT_LOAD && module >= start && module < start + header.p_memsz) ours = true;
          if (header.p_type == PT_LOAD) end = std::max(end, start + header.p_memsz);
          if (header.p_type == PT_TLS) bytes = header.p_memsz;
        }
        if (!ours) return 0;
        launch.module_base = info->dlpi_addr;
        launch.module_end = end;
        launch.shared.start = static_cast<char*>(info->dlpi_tls_data);
        launch.shared.bytes = bytes;
        return 1;
      },
      nullptr);
  memset(launch.shared.start, poison, launch.shared.bytes);
}

// The parts of shared memory that a block owns: before the dynamic array, what of that was asked for, after it.
template <class Use>
static void each_part(Use use) {
  SharedMemory& shared = launch.shared;
  const size_t before = size_t(shared.dynamic - shared.start), end = before + launch.module->dynamic_capacity;
  use(shared.start, before);
  use(shared.dynamic, launch.dynamic_bytes);
  use(shared.start + end, shared.bytes - end);
}

size_t owned_shared_bytes() { return launch.shared.bytes - launch.module->dynamic_capacity + launch.dynamic_bytes; }

size_t owned_offset(const void* address) {
  const size_t offset = size_t(static_cast<const char*>(address) - launch.shared.start);
  const size_t dynamic = size_t(launch.shared.dynamic - launch.shared.start);
  return offset < dynamic + launch.module->dynamic_capacity
             ? offset
             : offset - launch.module->dynamic_capacity + launch.dynamic_bytes;
}

void load_shared_memory(Block& block) {
  if (loaded == &block) return;
  if (loaded) {
    char* to = loaded->shared.data();
    each_part([&](char* part, size_t bytes) { memcpy(to, part, bytes), to += bytes; });
  }
  if (block.started) {
    const char* from = block.shared.data();
    each_part([&](char* part, size_t bytes) { memcpy(part, from, bytes), from += bytes; });
  } else {
    block.shared.resize(owned_shared_bytes());
    each_part([&](char* part, size_t bytes) { memset(part, poison, bytes); });
    if (launch.instrumented) {
      block.words.assign(owned_shared_bytes() / 4 + 1, Word{});
      block.written.assign(owned_shared_bytes(), 0);
      block.in_flight.assign(owned_shared_bytes(), 0);
    }
    block.started = true;
  }
  loaded = &block;
}

void forget_loaded_block() { loaded = nullptr; }

void check_dynamic_end(const Block& block) {
  const char* end = launch.shared.dynamic + launch.dynamic_bytes;
  const size_t rest = launch.module->dynamic_capacity - launch.dynamic_bytes;
  if (!rest || (uint8_t(*end) == poison && !memcmp(end, end + 1, rest - 1))) return;
  fail("out-of-bounds", {}, "block %u, or one before it, wrote past the %u bytes of dynamic shared memory",
       block.linear, launch.dynamic_bytes);
}

}  // namespace cuda_host
