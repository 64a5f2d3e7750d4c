// Where threads of a block wait for each other, and fences.
#pragma once

#include "language.h"
#include "runtime.h"

__forceinline__ void __syncthreads(CUDA_HOST_HERE) { cuda_host::meet_block("__syncthreads", false, here); }
__forceinline__ int __syncthreads_count(int predicate, CUDA_HOST_HERE) {
  return cuda_host::meet_block("__syncthreads_count", predicate != 0, here);
}
__forceinline__ int __syncthreads_or(int predicate, CUDA_HOST_HERE) {
  return cuda_host::meet_block("__syncthreads_or", predicate != 0, here) > 0;
}
__forceinline__ int __syncthreads_and(int predicate, CUDA_HOST_HERE) {
  return cuda_host::meet_block("__syncthreads_and", predicate == 0, here) == 0;
}

__forceinline__ void __threadfence_block() { cuda_host::fence(cuda_host::Scope::block); }
__forceinline__ void __threadfence() { cuda_host::fence(cuda_host::Scope::device); }
__forceinline__ void __threadfence_system() { cuda_host::fence(cuda_host::Scope::device); }
__forceinline__ void __nanosleep(unsigned) { cuda_host::yield(); }
