"""The kernels: numba functions over raw addresses. Only `compile.py` imports this package; running needs no numba."""

import os

# numba's own optimiser would run once for every function; compile.py optimises the whole program once, at the end.
os.environ["NUMBA_OPT"] = "0"
