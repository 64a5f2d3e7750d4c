// The processor's switch for denormals: what -ftz=true does on a GPU, for inputs and results.
#pragma once

#include <cstdint>

namespace cuda_host {

#if defined(__x86_64__)
constexpr uint32_t flush_denormals = 0x8040;  // FTZ and DAZ of MXCSR
inline uint32_t float_control() { return __builtin_ia32_stmxcsr(); }
inline void set_float_control(uint32_t value) { __builtin_ia32_ldmxcsr(value); }
#elif defined(__aarch64__)
constexpr uint64_t flush_denormals = 1 << 24;  // FZ of FPCR
inline uint64_t float_control() {
  uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
inline void set_float_control(uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#endif

}  // namespace cuda_host
