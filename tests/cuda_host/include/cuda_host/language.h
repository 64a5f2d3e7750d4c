// The words that CUDA adds to C++, as the C++ that means the same for one fiber a thread.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__ static const
// A thread_local variable may stand in a function, where it is static, or be `extern` in a file, as __shared__ may. All
// fibers run on one system thread, so each has one address, and the runtime gives each block its own bytes there.
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#ifndef __restrict__
#define __restrict__ __restrict
#endif
