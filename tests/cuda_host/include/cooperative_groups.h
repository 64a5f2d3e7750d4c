// The part of cooperative groups that has a plain meaning: the grid, the block, a full warp.
#pragma once

#include "cuda_host.h"

namespace cooperative_groups {

struct grid_group {
  void sync(CUDA_HOST_HERE) const { cuda_host::meet_grid(here); }
  unsigned long long size() const { return blockDim.count() * gridDim.count(); }
};
inline grid_group this_grid() { return {}; }

struct thread_block {
  void sync(CUDA_HOST_HERE) const { __syncthreads(here); }
  unsigned size() const { return unsigned(blockDim.count()); }
  unsigned thread_rank() const { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
};
inline thread_block this_thread_block() { return {}; }

}  // namespace cooperative_groups
