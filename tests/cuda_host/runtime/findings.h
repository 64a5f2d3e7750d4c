// How a launch ends early: a finding is filled in, and the host's stack is taken up again.
#pragma once

#include <csetjmp>
#include <csignal>
#include <ctime>

#include "state.h"

namespace cuda_host {

extern Finding finding;
extern sigjmp_buf host;  // where a launch goes on after a finding

[[noreturn]] void end_launch(const char* kind, Place here, const char* format, va_list arguments);
void record_stack(const Thread& thread, uintptr_t pc, uintptr_t frame);  // pc: 0 where the frame tells all

// While it lives, memory faults and clock ticks of this system thread belong to the launch.
class SignalsOfLaunch {
 public:
  SignalsOfLaunch(uint32_t stall_ms, uint32_t limit_ms);
  ~SignalsOfLaunch();

 private:
  timer_t timer_;
};

// A thread in the middle of the emulator's own work is not unwound by a clock tick: it fails at the end of that work.
class OwnWork {
 public:
  OwnWork();
  ~OwnWork() noexcept(false);
};

}  // namespace cuda_host
