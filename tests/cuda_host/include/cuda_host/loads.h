// Loads and stores with a cache hint. Only __ldg means more than a plain access: its cache does not see what the same
// launch has written.
#pragma once

#include "language.h"
#include "runtime.h"

template <class T>
__forceinline__ T __ldg(const T* address, CUDA_HOST_HERE) {
  cuda_host::read_only_load(address, sizeof(T), here);
  return *address;
}
template <class T>
__forceinline__ T __ldcg(const T* address) {
  return *address;
}
template <class T>
__forceinline__ T __ldca(const T* address) {
  return *address;
}
template <class T>
__forceinline__ T __ldcs(const T* address) {
  return *address;
}
template <class T>
__forceinline__ T __ldlu(const T* address) {
  return *address;
}
template <class T>
__forceinline__ T __ldcv(const T* address) {
  return *address;
}
template <class T>
__forceinline__ void __stwb(T* address, T value) {
  *address = value;
}
template <class T>
__forceinline__ void __stcg(T* address, T value) {
  *address = value;
}
template <class T>
__forceinline__ void __stcs(T* address, T value) {
  *address = value;
}
template <class T>
__forceinline__ void __stwt(T* address, T value) {
  *address = value;
}

// Addresses of shared memory are 32-bit numbers in PTX; wrappers of PTX take the pointer itself here.
__forceinline__ size_t __cvta_generic_to_shared(const void* address) { return reinterpret_cast<size_t>(address); }
