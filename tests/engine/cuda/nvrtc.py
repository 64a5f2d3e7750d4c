"""NVRTC without a driver: the engine's kernels as machine code of any GPU, with what ptxas says about them."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.engine.cuda.sources import MODEL, program_source
from tests.kept import TEST_CACHE, alone

_KEPT = TEST_CACHE / "nvrtc"
_USAGE = re.compile(
    r"entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
    r"Used (\d+) registers",
    re.DOTALL,
)


@dataclass(frozen=True)
class Usage:
    """What a thread of one kernel takes; bytes of local memory, and of stores and loads of registers there."""

    registers: int
    local: int
    spilled: int


@dataclass(frozen=True)
class Compiled:
    cubin: Path
    usage: Mapping[str, Usage]

    def sass(self) -> dict[str, str]:
        """The instructions of each kernel."""
        command = [str(_folder() / "bin" / "nvdisasm"), "-c", str(self.cubin)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        parts = re.split(r"^\.text\.(\w+):$", text, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2], strict=True))


def compiled(architecture: str, constants: Mapping[str, int], main: Path = MODEL) -> Compiled:
    """The program for one architecture, with the options that CuPy gives; kept between runs of the tests."""
    source = program_source(main)
    options = [
        *("--std=c++17", f"-I{_folder() / 'include'}", "-ftz=true", "--device-as-default-execution-space"),
        *(f"-arch={architecture}", "--ptxas-options=-v", *(f"-D{name}={value}" for name, value in constants.items())),
    ]
    key = hashlib.sha256("\0".join([source, *options, *_version()]).encode()).hexdigest()[:16]
    cubin, log = _KEPT / f"{key}.cubin", _KEPT / f"{key}.log"
    with alone(_KEPT / key):
        if not log.exists():
            code, text = _compile(source, options)
            cubin.write_bytes(code)
            log.write_text(text)
    found = _USAGE.findall(log.read_text())
    usage = {name: Usage(int(used), int(local), int(out) + int(back)) for name, local, out, back, used in found}
    return Compiled(cubin, usage)


def _compile(source: str, options: list[str]) -> tuple[bytes, str]:
    nvrtc, program, size = _library(), ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"qchat.cu", 0, None, None)
    given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        raise AssertionError(log.value.decode())
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw, log.value.decode()


@cache
def _folder() -> Path:
    """Where the wheels of NVIDIA put their parts."""
    spec = importlib.util.find_spec("nvidia")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / "cu13"


@cache
def _library() -> ctypes.CDLL:
    libraries = _folder() / "lib"
    builtins = next(libraries.glob("libnvrtc-builtins.so.*"))
    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)  # NVRTC looks for it only where the loader does
    return ctypes.CDLL(str(next(libraries.glob("libnvrtc.so.*"))))


@cache
def _version() -> tuple[str, str]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return str(major.value), str(minor.value)
