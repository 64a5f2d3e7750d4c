#include "findings.h"

#include <cstdio>
#include <cstring>

namespace cuda_host {

Finding finding;
sigjmp_buf host;

std::string describe(const Thread& thread) {
  char text[120];
  const uint3 block = thread.block_index, index = thread.thread_index;
  snprintf(text, sizeof text, "block (%u,%u,%u) thread (%u,%u,%u)", block.x, block.y, block.z, index.x, index.y,
           index.z);
  return text;
}

// Return addresses of a CUDA thread that lie in the kernel's module, by frame pointers; the runtime's own are left out.
void record_stack(const Thread& thread, uintptr_t pc, uintptr_t frame) {
  const uintptr_t low = reinterpret_cast<uintptr_t>(thread.stack), high = low + stack_bytes;
  finding.depth = 0;
  auto add = [](uintptr_t address) {
    if (address < launch.module_base || address >= launch.module_end || finding.depth == deepest_stack) return;
    finding.stack[finding.depth++] = address - launch.module_base;
  };
  if (pc) add(pc);
  while (frame >= low && frame + 16 <= high && frame % 8 == 0) {
    const uintptr_t *words = reinterpret_cast<uintptr_t*>(frame), next = words[0];
    if (words[1]) add(words[1]);
    if (next <= frame) break;
    frame = next;
  }
}

static void record_stack(const Thread& thread) {
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const uintptr_t low = reinterpret_cast<uintptr_t>(thread.stack);
  if (here >= low && here < low + stack_bytes) return record_stack(thread, 0, here);
#if defined(__x86_64__)  // what cuda_host_switch has pushed
  const uintptr_t* saved = static_cast<uintptr_t*>(thread.stack_pointer);
  record_stack(thread, saved[6], saved[5]);
#elif defined(__aarch64__)
  const uintptr_t* saved = static_cast<uintptr_t*>(thread.stack_pointer);
  record_stack(thread, saved[11], saved[10]);
#endif
}

void end_launch(const char* kind, Place here, const char* format, va_list arguments) {
  snprintf(finding.kind, sizeof finding.kind, "%s", kind);
  vsnprintf(finding.message, sizeof finding.message, format, arguments);
  const Thread* thread = running();
  finding.has_thread = thread != nullptr;
  finding.file[0] = 0;
  finding.line = 0;
  if (thread) {
    const uint3 block = thread->block_index, index = thread->thread_index;
    const uint32_t numbers[6] = {block.x, block.y, block.z, index.x, index.y, index.z};
    memcpy(finding.block, numbers, sizeof finding.block);
    memcpy(finding.thread, numbers + 3, sizeof finding.thread);
  }
  if (here.file) {
    snprintf(finding.file, sizeof finding.file, "%s", here.file);
    finding.line = here.line;
  }
  siglongjmp(host, 1);
}

void fail(const char* kind, Place here, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (running()) record_stack(*running());
  end_launch(kind, here, format, arguments);
}

}  // namespace cuda_host
