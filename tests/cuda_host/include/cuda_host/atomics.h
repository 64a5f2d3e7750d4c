// Atomics are relaxed, as in CUDA: a fence before publishes, a fence after takes in. The named orders below are for the
// wrappers of PTX (ld.acquire, st.release, red.release ...). Each is a place where another thread may go first.
#pragma once

#include <cstring>

#include "language.h"
#include "runtime.h"

namespace cuda_host {

template <class T>
struct Itself {
  using type = T;
};
template <class T>
using Same = typename Itself<T>::type;  // takes no part in finding T

template <class T, class Change>
CUDA_HOST_UNCHECKED T update(T* address, Change change, Order order, Place here) {
  before_atomic(address, sizeof(T), AtomicUse::update, order, here);
  const T old = *address, changed = change(old);
  *address = changed;
  if (memcmp(&old, &changed, sizeof(T))) memory_changed();
  return old;
}

template <class T>
CUDA_HOST_UNCHECKED T load(const T* address, Order order, Place here) {
  before_atomic(address, sizeof(T), AtomicUse::load, order, here);
  return *address;
}

template <class T>
CUDA_HOST_UNCHECKED void store(T* address, T value, Order order, Place here) {
  before_atomic(address, sizeof(T), AtomicUse::store, order, here);
  *address = value;
  memory_changed();
}

template <class T>
__forceinline__ T load_relaxed(const T* p, CUDA_HOST_HERE) {
  return load(p, Order::relaxed, here);
}
template <class T>
__forceinline__ T load_acquire(const T* p, CUDA_HOST_HERE) {
  return load(p, Order::acquire, here);
}
template <class T>
__forceinline__ void store_relaxed(T* p, T value, CUDA_HOST_HERE) {
  store(p, value, Order::relaxed, here);
}
template <class T>
__forceinline__ void store_release(T* p, T value, CUDA_HOST_HERE) {
  store(p, value, Order::release, here);
}
template <class T>
__forceinline__ T add_relaxed(T* p, T value, CUDA_HOST_HERE) {
  return update(p, [=](T old) { return T(old + value); }, Order::relaxed, here);
}
template <class T>
__forceinline__ T add_acquire(T* p, T value, CUDA_HOST_HERE) {
  return update(p, [=](T old) { return T(old + value); }, Order::acquire, here);
}
template <class T>
__forceinline__ T add_release(T* p, T value, CUDA_HOST_HERE) {
  return update(p, [=](T old) { return T(old + value); }, Order::release, here);
}
template <class T>
__forceinline__ T add_acquire_release(T* p, T value, CUDA_HOST_HERE) {
  return update(p, [=](T old) { return T(old + value); }, Order::acquire_release, here);
}
template <class T>
__forceinline__ T exchange_acquire(T* p, T value, CUDA_HOST_HERE) {
  return update(p, [=](T) { return value; }, Order::acquire, here);
}
template <class T>
__forceinline__ T compare_and_swap_acquire(T* p, T expected, T value, CUDA_HOST_HERE) {
  return update(p, [=](T old) { return old == expected ? value : old; }, Order::acquire, here);
}

}  // namespace cuda_host

// The second argument converts to the type of the first, as CUDA's overloads let it.
#define CUDA_HOST_ATOMIC(name, expression)                                                                    \
  template <class T>                                                                                          \
  __forceinline__ T name(T* address, cuda_host::Same<T> value, CUDA_HOST_HERE) {                              \
    return cuda_host::update(address, [=](T old) { return T(expression); }, cuda_host::Order::relaxed, here); \
  }
CUDA_HOST_ATOMIC(atomicAdd, old + value)
CUDA_HOST_ATOMIC(atomicSub, old - value)
CUDA_HOST_ATOMIC(atomicMax, old < value ? value : old)
CUDA_HOST_ATOMIC(atomicMin, value < old ? value : old)
CUDA_HOST_ATOMIC(atomicAnd, old& value)
CUDA_HOST_ATOMIC(atomicOr, old | value)
CUDA_HOST_ATOMIC(atomicXor, old ^ value)
CUDA_HOST_ATOMIC(atomicExch, value)
CUDA_HOST_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
CUDA_HOST_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef CUDA_HOST_ATOMIC

template <class T>
__forceinline__ T atomicCAS(T* address, cuda_host::Same<T> expected, cuda_host::Same<T> value, CUDA_HOST_HERE) {
  return cuda_host::update(
      address, [=](T old) { return old == expected ? value : old; }, cuda_host::Order::relaxed, here);
}
