"""Which instruction set is chosen: on this machine, and on others as the system and LLVM describe them."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator

import pytest
from llvmlite import binding

from app.engine.cpu import isa
from app.engine.cpu.isa import BASE_X86, INSTRUCTION_SETS, available, caution, choose
from app.errors import SettingsError

AMX = INSTRUCTION_SETS[0]
AVX512 = BASE_X86 | {"avx512f", "avx512bw", "avx512vl"}
X86_MACHINES = {
    "Haswell, Zen 3": (BASE_X86, ["avx2", "generic"]),
    "Skylake-X": (AVX512, ["avx2", "generic"]),
    "Alder Lake": (BASE_X86 | {"avxvnni"}, ["avx-vnni", "avx2", "generic"]),
    "Ice Lake, Zen 4": (AVX512 | {"avx512vnni"}, ["avx512-vnni", "avx2", "generic"]),
    "Zen 5": (AVX512 | {"avx512vnni", "avxvnni"}, ["avx512-vnni", "avx-vnni", "avx2", "generic"]),
    "older than AVX2": ({"avx", "f16c"}, []),
}


class System:
    """Another system's C library: what it says of sdot. `sysctl` is macOS's answer, None where the name is unknown."""

    def __init__(self, hwcap: int, sysctl: int | None) -> None:
        def getauxval(entry: int) -> int:
            return hwcap if entry == 16 else 0

        def sysctlbyname(name: bytes, answer: object, _size: object, _new: None, _length: int) -> int:
            if name != b"hw.optional.arm.FEAT_DotProd" or sysctl is None:
                return -1
            ctypes.cast(answer, ctypes.POINTER(ctypes.c_int))[0] = sysctl
            return 0

        self.getauxval, self.sysctlbyname = getauxval, sysctlbyname


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A patch under which this machine can be described as another one."""
    isa.host_features.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    isa.host_features.cache_clear()


def describe(patch: pytest.MonkeyPatch, machine: str, system: str, features: set[str] | frozenset[str]) -> None:
    patch.setattr(platform, "machine", lambda: machine)
    patch.setattr(platform, "system", lambda: system)
    patch.setattr(binding, "get_host_cpu_features", lambda: dict.fromkeys(features, True) | {"sse4a": False})


@pytest.mark.parametrize("name", X86_MACHINES)
def test_the_sets_of_x86_machines_best_first(name: str, elsewhere: pytest.MonkeyPatch) -> None:
    features, names = X86_MACHINES[name]
    describe(elsewhere, "x86_64", "Linux", features)
    assert [one.name for one in available()] == names


@pytest.mark.parametrize(
    ("machine", "system", "library", "names"),
    [
        ("aarch64", "Linux", System(hwcap=1 << 20 | 1, sysctl=None), ["neon-dotprod", "generic"]),
        ("aarch64", "Linux", System(hwcap=~(1 << 20), sysctl=1), ["generic"]),
        ("arm64", "Darwin", System(hwcap=0, sysctl=1), ["neon-dotprod", "generic"]),
        ("arm64", "Darwin", System(hwcap=1 << 20, sysctl=0), ["generic"]),
        ("arm64", "Darwin", System(hwcap=1 << 20, sysctl=None), ["generic"]),
        ("ARM64", "Windows", System(hwcap=1 << 20, sysctl=1), ["generic"]),
    ],
)
def test_the_sets_of_arm_machines_though_llvm_does_not_look_for_dotprod(
    machine: str, system: str, library: System, names: list[str], elsewhere: pytest.MonkeyPatch
) -> None:
    describe(elsewhere, machine, system, frozenset())
    elsewhere.setattr(ctypes, "CDLL", lambda _name: library)
    assert [one.name for one in available()] == names
    said = caution(available()[0])
    assert said is not None and names[0] in said and machine.lower() in said


def test_x86_needs_no_word_of_caution() -> None:
    assert caution(AMX) is None


def test_tiles_are_left_alone_where_the_system_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa, "host_features", lambda: AMX.features)
    monkeypatch.setattr(isa, "tiles_permitted", lambda: True)
    assert available()[0] == AMX
    monkeypatch.setattr(isa, "tiles_permitted", lambda: False)
    assert [one.name for one in available()] == ["avx512-vnni", "avx2", "generic"]


def test_the_best_set_is_chosen_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCHAT_ISA", raising=False)
    assert choose() == available()[0]
    monkeypatch.setenv("QCHAT_ISA", "generic")
    assert choose().name == "generic"


@pytest.mark.parametrize("name", ["sse9", "AVX2", "avx512-vnni "])
def test_an_unknown_set_is_refused_with_those_that_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCHAT_ISA", name)
    with pytest.raises(SettingsError, match="does not run") as refused:
        choose()
    assert "generic" in str(refused.value.hint)
