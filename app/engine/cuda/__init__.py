"""The engine on NVIDIA GPUs: CUDA kernels compiled for the model at hand, and the Python that feeds them."""
