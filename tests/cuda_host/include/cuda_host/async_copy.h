// cp.async: the bytes arrive when they are waited for and not before, which is the worst that a GPU may do.
#pragma once

#include "language.h"
#include "runtime.h"

namespace cuda_host {

// source_bytes below `bytes` fills the rest with zeros, as the PTX operand does.
template <int bytes>
__forceinline__ void cp_async(void* shared, const void* global, int source_bytes = bytes, CUDA_HOST_HERE) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  copy_async(shared, global, bytes, size_t(source_bytes), here);
}
__forceinline__ void cp_async_commit() { commit_copies(); }
template <int groups_left>
__forceinline__ void cp_async_wait() {
  wait_copies(groups_left);
}

}  // namespace cuda_host
