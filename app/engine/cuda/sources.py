"""All kernels as one text: NVRTC gets a program, not a folder, and CuPy's cache of programs knows every line."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent / "kernels"
MAIN = "qchat.cu"

_INCLUDE = re.compile(r'#include "([\w.]+)"')


def program_source(main: str = MAIN) -> str:
    """`main` with the files that it includes in their places; #line keeps messages of a compiler right."""
    seen: set[str] = set()

    def lines(name: str) -> list[str]:
        text = (FOLDER / name).read_text()
        if name in seen:
            return []
        if "#pragma once" in text:
            seen.add(name)
        out = [f'#line 1 "{name}"']
        for number, line in enumerate(text.splitlines(), 1):
            if found := _INCLUDE.fullmatch(line):
                out += [*lines(found[1]), f'#line {number + 1} "{name}"']
            elif line != "#pragma once":
                out.append(line)
            else:
                out.append("")
        return out

    return "\n".join(lines(main)) + "\n"
