// CUDA C++ for the CPU: included before a kernel file, which then compiles unmodified. docs/cuda-emulator.md says what
// is checked. QCHAT_CUDA_HOST is defined; a wrapper of inline PTX has an #ifdef for it and calls namespace cuda_host
// there.
#pragma once

#include "cuda_host/language.h"
#include "cuda_host/vectors.h"
#include "cuda_host/runtime.h"
#include "cuda_host/barriers.h"
#include "cuda_host/warp.h"
#include "cuda_host/atomics.h"
#include "cuda_host/loads.h"
#include "cuda_host/arithmetic.h"
#include "cuda_host/tensor_core.h"
#include "cuda_host/async_copy.h"
#include "cuda_host/clock.h"
#include "cuda_host/kernel_table.h"
