// Warp collectives: shuffles, votes, reductions, __syncwarp. A shuffle orders no memory; __syncwarp does.
#pragma once

#include <cstring>

#include "language.h"
#include "runtime.h"

namespace cuda_host {

struct Shuffle {
  uint64_t value;
  int source;  // lane to read from
  uint64_t result;
  Place here;
};

inline void exchange(void** slots, unsigned mask) {
  for (int lane = 0; lane < warpSize; lane++) {
    if (!(mask >> lane & 1)) continue;
    Shuffle* reader = static_cast<Shuffle*>(slots[lane]);
    const Shuffle* source = static_cast<Shuffle*>(slots[reader->source]);
    if (!source) fail("missing-lane", reader->here, "lane %d reads lane %d, which takes no part", lane, reader->source);
    reader->result = source->value;
  }
}

template <class T>
CUDA_HOST_UNCHECKED T shuffle(unsigned mask, T value, int source, const char* operation, Place here) {
  static_assert(sizeof(T) <= 8, "a shuffle carries up to 8 bytes");
  Shuffle slot{0, source, 0, here};
  memcpy(&slot.value, &value, sizeof value);
  meet_warp(mask, operation, &slot, exchange, here);
  T result;
  memcpy(&result, &slot.result, sizeof result);
  return result;
}

__forceinline__ int segment_start(int width) { return current->lane & ~(width - 1); }

__forceinline__ void check_width(int width, Place here) {
  if (width < 1 || width > warpSize || (width & (width - 1)))
    fail("undefined-behaviour", here, "a shuffle's width is a power of two up to 32, not %d", width);
}

// Every lane gets what `fold` makes of all lanes' values, lowest lane first.
template <class T, class Fold>
CUDA_HOST_UNCHECKED T reduce(unsigned mask, T value, const char* operation, Fold, Place here) {
  T slot = value;
  meet_warp(
      mask, operation, &slot,
      [](void** slots, unsigned lanes) {
        T total{};
        bool first = true;
        for (int lane = 0; lane < warpSize; lane++) {
          if (!(lanes >> lane & 1)) continue;
          const T value = *static_cast<T*>(slots[lane]);
          total = first ? value : Fold::of(total, value, lane);
          first = false;
        }
        for (int lane = 0; lane < warpSize; lane++)
          if (lanes >> lane & 1) *static_cast<T*>(slots[lane]) = total;
      },
      here);
  return slot;
}
struct Sum {
  template <class T>
  static T of(T a, T b, int) {
    return T(unsigned(a) + unsigned(b));
  }
};
struct Least {
  template <class T>
  static T of(T a, T b, int) {
    return b < a ? b : a;
  }
};
struct Greatest {
  template <class T>
  static T of(T a, T b, int) {
    return b > a ? b : a;
  }
};
struct BitAnd {
  template <class T>
  static T of(T a, T b, int) {
    return a & b;
  }
};
struct BitOr {
  template <class T>
  static T of(T a, T b, int) {
    return a | b;
  }
};
struct BitXor {
  template <class T>
  static T of(T a, T b, int) {
    return a ^ b;
  }
};

}  // namespace cuda_host

__forceinline__ void __syncwarp(unsigned mask = ~0u, CUDA_HOST_HERE) {
  cuda_host::meet_warp(mask, "__syncwarp", nullptr, [](void**, unsigned) {}, here);
}

template <class T>
__forceinline__ T __shfl_sync(unsigned mask, T value, int source, int width = 32, CUDA_HOST_HERE) {
  cuda_host::check_width(width, here);
  return cuda_host::shuffle(mask, value, cuda_host::segment_start(width) | (source & (width - 1)), "__shfl_sync", here);
}

template <class T>
__forceinline__ T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, CUDA_HOST_HERE) {
  cuda_host::check_width(width, here);
  const int lane = cuda_host::current->lane, source = lane ^ lane_mask;
  const bool within = source >= 0 && source <= (lane | (width - 1));
  return cuda_host::shuffle(mask, value, within ? source : lane, "__shfl_xor_sync", here);
}

template <class T>
__forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_HOST_HERE) {
  cuda_host::check_width(width, here);
  const int lane = cuda_host::current->lane, source = lane + int(delta);
  return cuda_host::shuffle(mask, value, source <= (lane | (width - 1)) ? source : lane, "__shfl_down_sync", here);
}

template <class T>
__forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_HOST_HERE) {
  cuda_host::check_width(width, here);
  const int lane = cuda_host::current->lane, source = lane - int(delta);
  return cuda_host::shuffle(mask, value, source >= cuda_host::segment_start(width) ? source : lane, "__shfl_up_sync",
                            here);
}

__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate, CUDA_HOST_HERE) {
  const unsigned vote = predicate ? 1u << cuda_host::current->lane : 0u;
  return cuda_host::reduce(mask, vote, "__ballot_sync", cuda_host::BitOr{}, here);
}
__forceinline__ int __any_sync(unsigned mask, int predicate, CUDA_HOST_HERE) {
  return cuda_host::reduce(mask, unsigned(predicate != 0), "__any_sync", cuda_host::BitOr{}, here) != 0;
}
__forceinline__ int __all_sync(unsigned mask, int predicate, CUDA_HOST_HERE) {
  return cuda_host::reduce(mask, unsigned(predicate != 0), "__all_sync", cuda_host::BitAnd{}, here) != 0;
}

#define CUDA_HOST_REDUCE(name, type, fold)                                 \
  __forceinline__ type name(unsigned mask, type value, CUDA_HOST_HERE) {   \
    return cuda_host::reduce(mask, value, #name, cuda_host::fold{}, here); \
  }
CUDA_HOST_REDUCE(__reduce_add_sync, int, Sum)
CUDA_HOST_REDUCE(__reduce_add_sync, unsigned, Sum)
CUDA_HOST_REDUCE(__reduce_min_sync, int, Least)
CUDA_HOST_REDUCE(__reduce_min_sync, unsigned, Least)
CUDA_HOST_REDUCE(__reduce_max_sync, int, Greatest)
CUDA_HOST_REDUCE(__reduce_max_sync, unsigned, Greatest)
CUDA_HOST_REDUCE(__reduce_and_sync, unsigned, BitAnd)
CUDA_HOST_REDUCE(__reduce_or_sync, unsigned, BitOr)
CUDA_HOST_REDUCE(__reduce_xor_sync, unsigned, BitXor)
#undef CUDA_HOST_REDUCE
