"""What the kernels take on every GPU that qchat runs on, for every format: the table of docs/performance.md.

    python -m bench.cuda_registers

NVRTC compiles 88 programs, 2 to 3 s of processor time each; no GPU is needed. Registers and spills of tests are budgets
of a part of it (tests/engine/cuda/test_compile.py).
"""

from __future__ import annotations

from app.engine.formats import FORMATS, GGMLType
from tests.engine.cuda.programs import ARCHITECTURES, program


def cell(architecture: str, kind: GGMLType) -> str:
    """Registers and bytes spilled of steps of 1 and of 8 tokens, and of the products of a prompt."""
    usage = program(architecture, kind, (1, 8)).usage
    return ", ".join(
        f"{usage[kernel].registers}" + (f"+{usage[kernel].spilled}" if usage[kernel].spilled else "")
        for kernel in ("step_1", "step_8", "prefill_project")
    )


def main() -> None:
    print(f"| | {' | '.join(ARCHITECTURES)} |")
    print("|---" * (1 + len(ARCHITECTURES)) + "|")
    for kind in FORMATS:
        cells = [cell(architecture, kind) for architecture in ARCHITECTURES]
        print(f"| {kind.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
