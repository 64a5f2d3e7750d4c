// A clock that all threads of a launch read alike.
#pragma once

#include <ctime>

#include "language.h"
#include "runtime.h"

namespace cuda_host {

CUDA_HOST_UNCHECKED inline unsigned microseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return unsigned(now.tv_sec * 1000000ull + now.tv_nsec / 1000);
}

}  // namespace cuda_host
