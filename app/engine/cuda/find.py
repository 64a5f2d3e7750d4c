"""Whether this machine can run the CUDA engine, and if not, what it lacks: asked cheaply, so that CuPy is imported only
where there is a driver.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys

from app.engine.cuda.device import Device
from app.errors import CudaUnavailableError, printable

OLDEST = (7, 5)  # compute capability: Turing has dp4a and int8 tensor cores
INSTALL = "pip install 'qchat[cuda13]' (driver 580 or newer) or 'qchat[cuda12]'"


def open_gpu() -> Device:
    """The first GPU. CudaUnavailableError says in one line what is missing and how to get it."""
    _require_driver()
    if not _has_cupy():
        raise CudaUnavailableError(f"CUDA needs CuPy, which is not installed: {INSTALL}")
    try:
        import cupy  # noqa: PLC0415 - takes most of a second

        from app.engine.cuda.cupy_device import CupyDevice  # noqa: PLC0415 - imports CuPy

        capability = str(cupy.cuda.Device(0).compute_capability)
        if (int(capability[:-1]), int(capability[-1])) < OLDEST:
            raise CudaUnavailableError(
                f"CUDA needs a GPU of compute capability {OLDEST[0]}.{OLDEST[1]} or newer; "
                f"this one has {capability[:-1]}.{capability[-1]}: use --device cpu"
            )
        return CupyDevice(0)
    except (ImportError, RuntimeError) as error:  # CuPy's own errors are RuntimeErrors
        raise does_not_start(error) from error


def does_not_start(error: Exception) -> CudaUnavailableError:
    """For an error of CuPy or CUDA that comes of what is installed: a driver that is too old, or NVRTC or its headers
    missing."""
    reason = printable(" ".join(str(error).split()), 160)
    return CudaUnavailableError(f"CUDA does not start ({reason}): {INSTALL} fits CuPy to the driver")


def _has_cupy() -> bool:
    return importlib.util.find_spec("cupy") is not None


def _require_driver() -> None:
    """The driver's library is here and finds a GPU."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        raise CudaUnavailableError(
            "CUDA needs an NVIDIA GPU and its driver, and this machine has no driver: nvidia.com/drivers"
            + ("" if _has_cupy() else f", then {INSTALL}")
        ) from error
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        raise CudaUnavailableError("the NVIDIA driver finds no GPU that is free for CUDA: see nvidia-smi")
