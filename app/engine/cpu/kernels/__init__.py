"""The kernels: numba functions over raw addresses. Only `compile.py` imports this package; running needs no numba."""
