"""Instructions that this machine may lack, written out in plain LLVM IR, which runs anywhere.

As Intel's and Arm's manuals have them: each int32 lane grows by the sum of four products of neighbouring bytes.
"""

from __future__ import annotations

import re

# name: int32 lanes, how the first and the second operand's bytes are widened
INSTRUCTIONS = {
    "llvm.x86.avx512.vpdpbusd.512": (16, "zext", "sext"),
    "llvm.aarch64.neon.sdot.v4i32.v16i8": (4, "sext", "sext"),
}


def write_out(text: str, instruction: str) -> str:
    """`text`, LLVM IR that uses the instruction, with a function in its place."""
    declaration = re.compile(rf"^declare .*@{re.escape(instruction)}\(.*$", re.MULTILINE)
    assert declaration.search(text)
    return declaration.sub("", text).replace(instruction, "written_out") + _function(*INSTRUCTIONS[instruction])


def _function(lanes: int, left: str, right: str) -> str:
    ints, octets, words = f"<{lanes} x i32>", f"<{4 * lanes} x i8>", f"<{4 * lanes} x i32>"
    columns = [", ".join(f"i32 {4 * lane + byte}" for lane in range(lanes)) for byte in range(4)]
    picks = "".join(
        f"%p{byte} = shufflevector {words} %p, {words} poison, {ints} <{columns[byte]}>\n" for byte in range(4)
    )
    return f"""
define internal {ints} @written_out({ints} %sum, {octets} %left, {octets} %right) {{
%l = {left} {octets} %left to {words}
%r = {right} {octets} %right to {words}
%p = mul {words} %l, %r
{picks}%a = add {ints} %p0, %p1
%b = add {ints} %p2, %p3
%c = add {ints} %a, %b
%d = add {ints} %sum, %c
ret {ints} %d
}}
"""
