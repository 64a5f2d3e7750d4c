// Going from one fiber to another: the registers that a call keeps are pushed, and the stack pointer changes.
#pragma once

#include <cstdint>
#include <cstring>

namespace cuda_host {

// Leaves the present stack, whose pointer goes to *save, for the one that `target` was saved from.
extern "C" void cuda_host_switch(void** save, void* target);

#if defined(__x86_64__)
asm(R"(
.text
.globl cuda_host_switch
.hidden cuda_host_switch
.type cuda_host_switch, @function
cuda_host_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size cuda_host_switch, . - cuda_host_switch
)");

// A stack on which cuda_host_switch finds `start` to return to. rbp is zero there, which ends a walk over the frames.
inline void* prepare_stack(char* top, void (*start)()) {
  void** sp = reinterpret_cast<void**>(top) - 2;
  sp[0] = reinterpret_cast<void*>(start);
  sp[1] = nullptr;  // where `start` would return to; it never does
  sp -= 6;
  memset(sp, 0, 6 * sizeof *sp);
  return sp;
}
#elif defined(__aarch64__)
asm(R"(
.text
.globl cuda_host_switch
.hidden cuda_host_switch
.type cuda_host_switch, %function
cuda_host_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size cuda_host_switch, . - cuda_host_switch
)");

inline void* prepare_stack(char* top, void (*start)()) {
  char* sp = top - 160;
  memset(sp, 0, 160);
  memcpy(sp + 88, &start, sizeof start);  // x30
  return sp;
}
#else
#error "the CUDA emulator switches fibers on x86-64 and AArch64 only"
#endif

}  // namespace cuda_host
