// Checks of single accesses to memory.
#pragma once

#include "../include/cuda_host/runtime.h"

namespace cuda_host {

// Bytes of shared memory that an asynchronous copy will write, and the moment when it has.
void begin_arrival(char* shared, size_t bytes, Place here);
void end_arrival(char* shared, size_t bytes, Place here);

}  // namespace cuda_host
