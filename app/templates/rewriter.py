"""A chat template written for Jinja2, rewritten so that minijinja gives the same text.

minijinja has no hook for a method that it does not know, and hands an undefined value to Python as None. Both are
decided by tokens alone, so the template is rewritten before it is compiled:

    receiver.method(args)      -> __method(receiver|default(__undefined),"method",LINE,args)     `methods.METHODS`
    value|filter(args)         -> value|default(__undefined)|__filter(LINE,args)                 filters of our own
    value is test              -> value|default(__undefined) is test                             tests of our own
    "format" % value           -> "format"|__format(LINE,value)
    for a in values            -> for a in (values)|default(__undefined)|__iterate(LINE)
    value|map(..)|tojson       -> value|map(..)|__generator(LINE)|tojson, which fails: Python's json takes no generator
    raise_exception(message)   -> __raise(LINE,message)
    {% generation %}           -> {% with %}, which prints its body and keeps its variables to itself
    {% raw %} and a newline    -> {% raw +%}: Jinja2 never trims that newline
    'a\\x41'                    -> the same string in escapes that minijinja reads

A function call is a primary, so subscripts, chains and the precedence of filters stay what they were. Newlines are
neither added nor removed: minijinja's line numbers are those of the template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from app.templates.expression import Expression
from app.templates.filters import FILTERS, TESTS
from app.templates.lexer import Raw, Tag, Text, Token, normalised, pieces_of
from app.templates.methods import METHODS

UNDEFINED, METHOD, FORMAT, ITERATE, RAISE = "__undefined", "__method", "__format", "__iterate", "__raise"
GENERATOR = "__generator"
_GENERATORS = ("batch", "items", "map", "reject", "rejectattr", "select", "selectattr", "slice", "unique")
_DEFAULT = f"|default({UNDEFINED})"
_OWN_RAISE = re.compile(r"\b(?:macro|set)\s+raise_exception\b")


def filter_with_line(name: str) -> str:
    """The name under which filter `name` takes the template's line as its first argument."""
    return f"__{name}"


def rewrite(source: str) -> str:
    """The text to compile instead of `source`; raises TemplateFailure where it is over a size limit."""
    source = normalised(source)
    raise_is_ours = not _OWN_RAISE.search(source)
    parts = []
    for piece in pieces_of(source):
        match piece:
            case Text(text):
                parts.append(text)
            case Raw(opening, rest):
                parts.append(opening + ("" if opening[-1] in "+-" else "+") + rest)
            case Tag(opening, tokens, closing):
                parts += [opening, _TagRewriter(tokens, raise_is_ours).text(), closing]
    return "".join(parts)


class _TagRewriter:
    """One tag: the tokens, and for each what goes before it, instead of it and after it."""

    def __init__(self, tokens: Sequence[Token], raise_is_ours: bool) -> None:
        self._all = tokens
        self._expression = Expression(tokens)
        self._raise_is_ours = raise_is_ours
        self._tokens = self._expression.tokens
        self._before = [""] * len(self._tokens)
        self._instead = [_string(t.text) if t.kind == "string" else t.text for t in self._tokens]
        self._after = [""] * len(self._tokens)

    def text(self) -> str:
        if len(self._tokens) == 1 and self._expression.at(0, "generation", "endgeneration"):
            self._instead[0] = self._tokens[0].text.replace("generation", "with")
        for i in range(len(self._tokens)):
            self._method(i)
            self._test(i)
            self._filter(i)
            self._raise(i)
        for i in reversed(range(len(self._tokens))):  # inner ones first, and around what the methods have become
            self._format(i)
        self._for()
        count = iter(range(len(self._tokens)))
        return "".join(t.text if t.kind == "space" else self._edited(next(count)) for t in self._all)

    def _edited(self, i: int) -> str:
        return self._before[i] + self._instead[i] + self._after[i]

    def _open_call(self, bracket: int, line: int) -> None:
        """The bracket that opens the arguments of a call gets the line as first argument."""
        self._instead[bracket] = f"({line}" if self._expression.at(bracket + 1, ")") else f"({line},"

    def _method(self, dot: int) -> None:
        e, name, bracket = self._expression, dot + 1, dot + 2
        if not (e.at(dot, ".") and dot > 0 and e.is_name(name) and e.at(bracket, "(") and bracket in e.partner):
            return
        method = self._tokens[name]
        if method.text in METHODS:
            start = e.chain_start(dot - 1)
            self._before[start] = f"{METHOD}(" + self._before[start]
            self._instead[dot] = _DEFAULT
            self._instead[name] = f',"{method.text}",{method.line}'
            self._instead[bracket] = "" if e.at(bracket + 1, ")") else ","

    def _test(self, i: int) -> None:
        e = self._expression
        name = i + 2 if e.at(i + 1, "not") else i + 1
        if i > 0 and e.at(i, "is") and not e.at(i - 1, ".", "|") and e.at(name, *TESTS):
            self._before[i] = f"{_DEFAULT} " + self._before[i]

    def _filter(self, pipe: int) -> None:
        e, name = self._expression, pipe + 1
        if pipe > 0 and e.at(pipe, "|") and e.at(name, *FILTERS):
            called = self._tokens[name]
            self._before[pipe] += _DEFAULT
            if called.text == "tojson" and e.filter_that_ends(pipe - 1) in _GENERATORS:
                self._before[pipe] += f"|{GENERATOR}({called.line})"
            self._instead[name] = filter_with_line(called.text)
            if e.at(name + 1, "("):
                self._open_call(name + 1, called.line)
            else:
                self._instead[name] += f"({called.line})"

    def _format(self, percent: int) -> None:
        e = self._expression
        if e.at(percent, "%") and e.is_string(percent - 1) and percent + 1 < len(e):
            last = e.operand_end(percent + 1)
            self._instead[percent] = f"|{FORMAT}({self._tokens[percent].line},"
            if e.partner.get(percent + 1) == last and e.at(percent + 1, "("):
                self._default_each(percent + 2, last)
            else:
                self._after[last] += _DEFAULT
            self._after[last] += ")"

    def _default_each(self, first: int, end: int) -> None:
        """Each of the comma-separated expressions in `first` to `end` (without) keeps an undefined value."""
        e = self._expression
        while first < end:
            comma = min(e.next_outside_brackets(first, ","), end)
            self._before[first] = "(" + self._before[first]
            self._after[comma - 1] += f"){_DEFAULT}"
            first = comma + 1

    def _raise(self, i: int) -> None:
        e = self._expression
        if self._raise_is_ours and e.at(i, "raise_exception") and e.at(i + 1, "(") and not e.at(i - 1, ".", "|"):
            self._instead[i] = RAISE
            self._open_call(i + 1, self._tokens[i].line)

    def _for(self) -> None:
        e = self._expression
        if not e.at(0, "for"):
            return
        first = e.next_outside_brackets(1, "in") + 1
        if first < len(e):
            last = e.next_outside_brackets(first, "if", "recursive") - 1
            self._before[first] = "(" + self._before[first]
            self._after[last] += f"){_DEFAULT}|{ITERATE}({self._tokens[first].line})"


def _string(literal: str) -> str:
    """A string literal with escapes as Python reads them; what Python cannot read stays for minijinja to report."""
    if "\\" not in literal:
        return literal
    try:
        value = literal[1:-1].encode("ascii", "backslashreplace").decode("unicode-escape")
    except UnicodeDecodeError:
        return literal
    return json.dumps(value, ensure_ascii=False) + "\n" * literal.count("\n")  # the value has its own; lines must stay
