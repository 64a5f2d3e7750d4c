"""The engine on the CPU: kernels compiled once by numba, packed weights, a pool of threads."""
