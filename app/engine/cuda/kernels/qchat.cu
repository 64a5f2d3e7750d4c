// All kernels, as one program for one model: NVRTC compiles it when the model is loaded.
#include "pack.cu"
#include "prefill.cu"
#include "step.cu"
