"""A chat template written for Jinja2, rewritten so that minijinja gives the same text.

`expression.py` rewrites expressions; here are the statements around them:

    for a in values            -> for a in __iterate(LINE, values)
    set x ... endset           -> the same with a scope inside, where Jinja2 has one, and filters as calls afterwards
    filter f ... endfilter     -> a scope, a block that is set in it, and `{{ f(block) }}`
    generation                 -> with, which prints its body and keeps its variables to itself
    raw and a newline          -> raw +%}: Jinja2 never trims that newline

Newlines are neither added nor removed: minijinja's line numbers are those of the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.templates.code import Code
from app.templates.expression import Expressions, Names
from app.templates.lexer import Raw, Tag, Text, normalised, pieces_of
from app.templates.limits import TemplateFailure

_OWN = re.compile(r"\b(?:macro|set|for)\s+(\w+)")
_MACRO = re.compile(r"\bmacro\s+(\w+)")
_NAMESPACE = re.compile(r"\bset\s+(\w+)\s*=\s*namespace\s*\(")
_BLOCK = "__block"


def rewrite(source: str) -> str:
    """The text to compile instead of `source`; raises TemplateFailure for what Jinja2 or a limit refuses."""
    source = normalised(source)
    names = Names(*(frozenset(found.findall(source)) for found in (_OWN, _MACRO, _NAMESPACE)))
    try:
        return "".join(_Rewriter(names).pieces(source))
    except RecursionError:
        raise TemplateFailure(None, "expressions nested too deeply") from None


@dataclass
class _Block:
    """An open block: the statement that ends it, what that becomes, and whether a loop has been left early in it."""

    end: str
    becomes: list[str]
    jumped: bool = False


class _Rewriter:
    """What a template's tags become."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._open: list[_Block] = []

    def pieces(self, source: str) -> Iterator[str]:
        """The rewritten template, piece by piece."""
        for piece in pieces_of(source):
            match piece:
                case Text(text):
                    yield text
                case Raw(opening, rest):
                    yield opening + ("" if opening[-1] in "+-" else "+") + rest
                case Tag(opening, tokens, closing):
                    code = Expressions(tokens, self._names)
                    if opening.startswith("{{"):
                        text = code.items().text
                        yield f"{opening} {text}{code.end()} {closing}"
                    else:
                        statements = self._statements(code)
                        statements[-1] += code.end()
                        yield f"{opening} " + " %}{% ".join(statements) + f" {closing}"

    def _statements(self, code: Expressions) -> list[str]:
        """The statements that one becomes; the template's whitespace signs go before the first and after the last."""
        line, name = code.line, code.take("name")
        match name:
            case "if":
                return self._block("endif", f"if {code.items().text}")
            case "elif":
                return [f"elif {code.items().text}"]
            case "else" if self._open and self._open[-1].end == "endfor":
                if self._open[-1].jumped:  # Jinja2 runs it after a loop in which every round was left early
                    raise TemplateFailure(line, "`else` of a loop with `break` or `continue`")
                self._open[-1].becomes = ["endwith", "endfor"]
                return ["else", "with"]
            case "for":
                return self._block("endfor", self._for(code, line))
            case "set":
                return self._set(code, line)
            case "filter":
                filtered = code.filters(Code(_BLOCK, "string")).text.replace("\n", " ")
                self._open.append(_Block("endfilter", [f"endset %}}{{{{ __text({line}, {filtered}) }}}}{{% endwith"]))
                return ["with", f"set {_BLOCK}"]
            case "macro":
                return self._block("endmacro", f"macro {code.take('name')}{_signature(code)}")
            case "call":
                signature = _signature(code) if code.at("(") else ""
                return self._block("endcall", f"call{signature} {code.expression().text}")
            case "with":
                return self._block("endwith", self._with(code))
            case "generation":
                self._open.append(_Block("endgeneration", ["endwith"]))
                return ["with"]
            case "break" | "continue":
                for block in reversed(self._open):
                    if block.end == "endfor":
                        block.jumped = True
                        break
                return [name]
            case "else":
                return [name]
        if self._open and self._open[-1].end == name:
            return self._open.pop().becomes
        raise TemplateFailure(line, f"the statement `{name}` is unknown or out of place")

    def _block(self, end: str, statement: str) -> list[str]:
        """A statement that is the same in both, up to its end."""
        self._open.append(_Block(end, [end]))
        return [statement]

    def _for(self, code: Expressions, line: int) -> str:
        target, count = _targets(code)
        code.expect("in")
        values = code.items("recursive", conditional=False)
        text = f"for {target} in __iterate({line}, {values.argument()}{f', {count}' if count > 1 else ''})"
        if code.skip("if"):
            text += f" if {code.expression().operand()}"
        return text + (" recursive" if code.skip("recursive") else "")

    def _set(self, code: Expressions, line: int) -> list[str]:
        target, count = _targets(code)
        if code.skip("="):
            value = code.items()
            text = f"__unpack({line}, {value.argument()}, {count})" if count > 1 else value.text
            if any(block.end in ("endmacro", "endcall") for block in self._open):
                # A macro knows those variables outside that it reads before it sets them
                return [f"if {target.partition('.')[0]}", "endif", f"set {target} = {text}"]
            return [f"set {target} = {text}"]
        value = code.filters(Code(_BLOCK, "string")) if code.skip("|") else Code(_BLOCK, "string")
        self._open.append(_Block("endset", ["endwith", "endset", f"set {target} = {value.text}".replace("\n", " ")]))
        return [f"set {_BLOCK}", "with"]

    def _with(self, code: Expressions) -> str:
        targets, values = [], []
        while code.at_kind("name"):
            targets.append(code.take("name"))
            code.expect("=")
            values.append(code.expression())
            if not code.skip(","):
                break
        if len(targets) > 1:  # every value is that outside, also of a name that is set here
            return f"with ({', '.join(targets)}) = ({', '.join(value.argument() for value in values)})"
        return f"with {targets[0]} = {values[0].text}" if targets else "with"


def _targets(code: Expressions) -> tuple[str, int]:
    """The names that are assigned to, as text, and how many they are (1 for `a`, 2 for `a, b`)."""
    bracketed = code.skip("(")
    names = [code.take("name")]
    if code.skip("."):
        return f"{names[0]}.{code.take('name')}", 1
    while code.skip(","):
        names.append(code.take("name"))
    if bracketed:
        code.expect(")")
    return f"({', '.join(names)})" if len(names) > 1 else names[0], len(names)


def _signature(code: Expressions) -> str:
    """The parameters of a macro or a call block."""
    code.expect("(")
    parameters = []
    while not code.skip(")"):
        name = code.take("name")
        parameters.append(f"{name}={code.expression().text}" if code.skip("=") else name)
        if not code.at(")"):
            code.expect(",")
    return f"({', '.join(parameters)})"
