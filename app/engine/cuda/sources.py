"""A program of kernels as one text: NVRTC gets that, not a folder, and CuPy's cache of programs knows every line."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent / "kernels"
MODEL = FOLDER / "qchat.cu"  # the engine's: all that a model needs

_INCLUDE = re.compile(r'#include "([\w.]+)"')


def program_source(main: Path = MODEL) -> str:
    """`main` with the files that it includes in their places; #line keeps messages of a compiler right."""
    seen: set[str] = set()

    def lines(file: Path) -> list[str]:
        text, name = file.read_text(), file.name
        if name in seen:
            return []
        if "#pragma once" in text:
            seen.add(name)
        out = [f'#line 1 "{name}"']
        for number, line in enumerate(text.splitlines(), 1):
            if found := _INCLUDE.fullmatch(line):
                out += [*lines(FOLDER / found[1]), f'#line {number + 1} "{name}"']
            elif line != "#pragma once":
                out.append(line)
            else:
                out.append("")
        return out

    return "\n".join(lines(main)) + "\n"
