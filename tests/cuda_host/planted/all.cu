// Every planted bug in one translation unit, which compiles faster than eight.
#include "async_copies.cu"
#include "atomics.cu"
#include "barriers.cu"
#include "flags.cu"
#include "global_memory.cu"
#include "grids.cu"
#include "shared_memory.cu"
#include "warps.cu"
