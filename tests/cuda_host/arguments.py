"""A launch's arguments against the kernel's parameters: CuPy and the driver compare neither number nor type."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.cuda_host.finding import Finding

if TYPE_CHECKING:
    from tests.cuda_host.emulator import Buffer

_NUMPY_KINDS = {"i": "i", "u": "u", "f": "f", "b": "b", "V": "s"}  # NumPy's letter: that of kernel_table.h


@dataclass(frozen=True)
class Parameter:
    """`kind`: p pointer, i signed, u unsigned, f float, b bool, s structure, v void; `element_*`: what p points to."""

    type: str
    kind: str
    nbytes: int
    element_kind: str
    element_nbytes: int
    writes: bool


class _ParameterRecord(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char),
        ("bytes", ctypes.c_int),
        ("element_kind", ctypes.c_char),
        ("element_bytes", ctypes.c_int),
        ("writes", ctypes.c_bool),
    ]


class _KernelRecord(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(_ParameterRecord)),
        ("parameter_count", ctypes.c_int),
    ]


class _ModuleRecord(ctypes.Structure):
    _fields_ = [("kernels", ctypes.POINTER(_KernelRecord)), ("kernel_count", ctypes.c_int)]


def read_parameters(module: int) -> dict[str, tuple[Parameter, ...]]:
    """Kernels by name, from the address of the table in include/cuda_host/kernel_table.h."""
    table = _ModuleRecord.from_address(module)
    kernels = [table.kernels[i] for i in range(table.kernel_count)]
    return {k.name.decode(): tuple(_parameter(k.parameters[i]) for i in range(k.parameter_count)) for k in kernels}


def _parameter(record: _ParameterRecord) -> Parameter:
    shown = re.search(r"\[with T = (.*)\]$", record.name.decode())
    return Parameter(
        type=shown[1] if shown else "?",
        kind=record.kind.decode(),
        nbytes=record.bytes,
        element_kind=record.element_kind.decode(),
        element_nbytes=record.element_bytes,
        writes=record.writes,
    )


def argument_bytes(
    kernel: str, parameters: Sequence[Parameter], arguments: Sequence[Any], is_live: Callable[[Buffer], bool]
) -> list[ctypes.Array[ctypes.c_char]]:
    """Each argument as the bytes that the kernel is handed.

    Raises:
        Finding: of kind "launch", when one does not fit its parameter.
    """
    if len(arguments) != len(parameters):
        raise Finding("launch", kernel, f"{len(parameters)} parameters, {len(arguments)} arguments")
    values = []
    for position, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
        value, problem = _value(argument, parameter, is_live)
        if problem:
            raise Finding("launch", kernel, f"argument {position} is {problem}; the parameter is {parameter.type}")
        values.append(ctypes.create_string_buffer(value, len(value)))
    return values


def _value(argument: Any, parameter: Parameter, is_live: Callable[[Buffer], bool]) -> tuple[bytes, str]:
    """The argument's bytes, and what is wrong with it."""
    if hasattr(argument, "address"):
        problem = _pointer_problem(argument, parameter, is_live)
        return int(argument.address).to_bytes(8, "little"), problem
    if not isinstance(argument, np.generic):
        return b"", f"a {type(argument).__name__}, neither a buffer nor a NumPy scalar"
    kind = _NUMPY_KINDS.get(argument.dtype.kind)
    fits = argument.nbytes == parameter.nbytes and parameter.kind in (kind, "s")
    return argument.tobytes(), "" if fits else argument.dtype.name


def _pointer_problem(buffer: Buffer, parameter: Parameter, is_live: Callable[[Buffer], bool]) -> str:
    shown = f"the buffer '{buffer.name}'"
    if parameter.kind != "p":
        return shown
    if not is_live(buffer):
        return f"{shown}, which was freed"
    if buffer.dtype is None or parameter.element_kind in "vs" or buffer.dtype in (np.uint8, np.void):
        return ""  # bytes of any meaning
    kinds = {_NUMPY_KINDS.get(buffer.dtype.kind), parameter.element_kind}
    same_kind = len(kinds) == 1 or kinds == {"i", "u"}
    if buffer.dtype.itemsize == parameter.element_nbytes and same_kind:
        return ""
    return f"{shown} of {buffer.dtype.name}"
