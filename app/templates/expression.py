"""An expression of Jinja2 written again for minijinja, with a call of a function of ours for all that differs.

The grammar is that of Jinja2's `parser.py`, which decides what an operand is: `a + b is string` tests `b` alone. What
minijinja does as Python does stays native, because a call costs half a microsecond: `and`, `or`, `not`, attributes,
items, literals, and operators whose operands are certain to be strings or small integers.

Line ends between tokens are kept, so that minijinja's line numbers are those of the template. Operands keep their
order, and a chain of operators becomes one call, because minijinja limits nesting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from app.templates.code import UNDEFINED, Code, Kind, common_kind, compares_as_python, kind_of_result
from app.templates.filters import FILTERS
from app.templates.lexer import Token
from app.templates.limits import TemplateFailure
from app.templates.methods import METHODS
from app.templates.predicates import TESTS
from app.templates.tokens import Tokens

_FUNCTIONS = frozenset(["dict", "range", "raise_exception", "strftime_now"])
_NATIVE_TESTS = frozenset(["string", "mapping", "none", "true", "false", "boolean"])
_LOOP_INTEGERS = frozenset(["index", "index0", "length", "revindex", "revindex0", "depth", "depth0"])
_ARGUMENTS_OF_MACROS = ("varargs", "kwargs")
_WORDS = ("and", "if", "in", "is", "not", "or", "else")
_MAX_INTEGER = 1 << 31  # literals below are added natively; sums of them fit minijinja's integers
_NATIVE_SUMS: tuple[Kind, ...] = ("string", "macros", "integer")
_MAX_CHOICES = 3  # in one sum: each doubles it
_MAX_REPEATED = 200  # characters; longer operands in the middle of `a < b < c` are not written twice
# Comparisons and their functions; `__compare` is for several at once
COMPARED = {
    "==": "__equal",
    "!=": "__not_equal",
    "<": "__less",
    "<=": "__at_most",
    ">": "__greater",
    ">=": "__at_least",
    "in": "__in",
    "not in": "__not_in",
}
_CONSTANTS: dict[str, Kind] = {
    "true": "boolean",
    "True": "boolean",
    "false": "boolean",
    "False": "boolean",
    "none": "none",
    "None": "none",
}


@dataclass(frozen=True)
class Names:
    """What the whole template says of its names: those that it sets, its macros, and what it sets to a namespace."""

    own: Collection[str] = field(default=())
    macros: Collection[str] = field(default=())
    namespaces: Collection[str] = field(default=())


class Expressions(Tokens):
    """Reads the tokens of one tag. Raises TemplateFailure where Jinja2 finds a syntax error."""

    def __init__(self, tokens: Sequence[Token], names: Names) -> None:
        super().__init__(tokens)
        self._names = names

    # Operators, from the weakest

    def items(self, *ends: str, conditional: bool = True) -> Code:
        """An expression, or several with commas, which are a tuple. `ends` are names that end it."""
        read = self.expression if conditional else self._or
        parts, is_tuple = [], False
        while self.at_kind("string", "number", "name", "operator") and not self.at(*ends, ")", "]", "}"):
            parts.append(read())
            if not self.skip(","):
                break
            is_tuple = True
        if is_tuple:
            return _tuple(parts)
        return parts[0] if parts else self.fail()

    def expression(self) -> Code:
        """One expression."""
        code = self._or()
        while self.skip("if"):
            condition = self._or()
            if self.skip("else"):
                other = self.expression()
                text = f"{code.operand()} if {condition.operand()} else {other.operand()}"
                code = Code(text, common_kind(code, other), whole=False, choice=(code, condition.operand(), other))
            else:
                code = Code(f"{code.operand()} if {condition.operand()}", whole=False)
        return code

    def _or(self) -> Code:
        return self._logical("or", self._and)

    def _and(self) -> Code:
        return self._logical("and", self._not)

    def _logical(self, word: str, read: Callable[[], Code]) -> Code:
        codes = [read()]
        while self.skip(word):
            codes.append(read())
        if len(codes) == 1:
            return codes[0]
        return Code(f" {word} ".join(code.operand() for code in codes), common_kind(*codes), whole=False)

    def _not(self) -> Code:
        count = 0
        while self.at("not") and not self.at("in", ahead=1):
            self.skip("not")
            count += 1
        code = self._comparison()
        return Code("not " * count + code.operand(), "boolean", whole=False) if count else code

    def _comparison(self) -> Code:
        line, codes, operators = self.line, [self._sum()], list[str]()
        while self.at(*COMPARED) or (self.at("not") and self.at("in", ahead=1)):
            negated = "not " if self.skip("not") else ""
            operators.append(negated + self.take("name", "operator"))
            codes.append(self._sum())
        if not operators:
            return codes[0]
        pairs = [self._compare(line, *pair) for pair in zip(codes, operators, codes[1:], strict=False)]
        if len(pairs) == 1:
            return pairs[0]
        if max(len(code.text) for code in codes[1:-1]) > _MAX_REPEATED:
            return self._chain("__compare", line, codes, operators)
        # `a < b < c` is `a < b and b < c`
        texts = [pairs[0].operand(), *(pair.operand().replace("\n", " ") for pair in pairs[1:])]
        return Code(" and ".join(texts), "boolean", whole=False)

    def _compare(self, line: int, left: Code, operator: str, right: Code) -> Code:
        if compares_as_python(operator, left, right):
            return Code(f"{left.operand()} {operator} {right.operand()}", "boolean", whole=False)
        return self._call(COMPARED[operator], line, left.argument(), right.argument(), kind="boolean")

    def _sum(self) -> Code:
        line, codes, operators = self.line, [self._concatenation()], list[str]()
        while self.at("+", "-"):
            operators.append(self.take("operator"))
            codes.append(self._concatenation())
        return self._add(line, codes, operators) if operators else codes[0]

    def _add(self, line: int, codes: list[Code], operators: Sequence[str]) -> Code:
        kinds = {code.kind for code in codes}
        if "mixed" in kinds:
            return self._add_choice(line, codes, operators)
        if "-" in operators:
            kind: Kind = "integer" if kinds == {"integer"} else "value"
        elif "markup" in kinds:
            codes = [code if code.kind == "markup" else self._call("__escape", line, code.argument()) for code in codes]
            kind = "markup"
        else:  # in a sum with a string or a list of macros, anything else fails in both
            kind = next((kind for kind in _NATIVE_SUMS if kind in kinds), "value")
            kind = "value" if kind == "integer" and len(kinds) > 1 else kind
        if kind == "value":
            return self._chain("__calculate", line, codes, operators)
        text = codes[0].operand()
        for operator, code in zip(operators, codes[1:], strict=True):
            text += f" {operator} {code.operand()}"
        return Code(text, kind, whole=False)

    def _add_choice(self, line: int, codes: list[Code], operators: Sequence[str]) -> Code:
        """The sum for each side of a choice, because the rest is escaped where it is added to `safe` text only."""
        place = next(i for i, code in enumerate(codes) if code.kind == "mixed")
        choice = codes[place].choice
        if choice is None or sum(code.kind == "mixed" for code in codes) > _MAX_CHOICES:
            raise TemplateFailure(line, "a sum with what may be `safe`")
        one, condition, other = choice
        first, second = (
            self._add(line, [*codes[:place], side, *codes[place + 1 :]], operators) for side in (one, other)
        )
        text = f"{first.operand()} if {condition} else " + second.operand().replace("\n", " ")
        return Code(text, common_kind(first, second), whole=False, choice=(first, condition, second))

    def _concatenation(self) -> Code:
        line, codes = self.line, [self._product()]
        while self.skip("~"):
            codes.append(self._product())
        if len(codes) == 1:
            return codes[0]
        if all(code.kind in ("string", "integer") for code in codes):
            return Code(" ~ ".join(code.operand() for code in codes), "string", whole=False)
        return self._call("__concatenate", line, *(code.argument() for code in codes), kind="string")

    def _product(self) -> Code:
        line, codes, operators = self.line, [self._power()], list[str]()
        while self.at("*", "/", "//", "%"):
            operators.append(self.take("operator"))
            codes.append(self._power())
        if not operators:
            return codes[0]
        if operators == ["%"] and codes[0].kind == codes[1].kind == "integer":
            return Code(f"{codes[0].operand()} % {codes[1].operand()}", "integer", whole=False)
        return self._chain("__calculate", line, codes, operators)

    def _power(self) -> Code:
        line, codes = self.line, [self._signed()]
        while self.skip("**"):
            codes.append(self._signed())
        return self._chain("__calculate", line, codes, ["**"] * (len(codes) - 1)) if len(codes) > 1 else codes[0]

    def _signed(self, filters: bool = True) -> Code:
        line = self.line
        if self.at("-", "+"):
            function = "__negative" if self.take("operator") == "-" else "__positive"
            operand = self._signed(filters=False)
            if function == "__negative" and operand.text.strip().isdecimal():
                code = Code(f"-{operand.text}", "integer", whole=False)
            else:
                code = self._call(function, line, operand.argument())
        else:
            code = self._primary()
        code = self._postfix(code)
        return self._filters_and_tests(code) if filters else code

    # Operands

    def _primary(self) -> Code:
        line = self.line
        if self.at_kind("name"):
            return self._name()
        if self.at_kind("string"):
            return self._string()
        if self.at_kind("number"):
            return self._number()
        if self.skip("("):
            line_ends = self.line_ends()
            code = Code("()", "value") if self.at(")") else self.items()
            self.expect(")")
            return Code(line_ends + code.operand(), code.kind, choice=code.choice)
        if self.skip("["):
            codes = [self.expression() for _ in self.until("]")]
            kind: Kind = "macros" if any(code.name in self._names.macros for code in codes) else "value"
            return Code("[" + ", ".join(code.argument() for code in codes) + "]", kind)
        if not self.skip("{"):
            self.fail()
        return self._dict(line)

    def _name(self) -> Code:
        name = self.take("name")
        if name in _CONSTANTS:
            return Code(self.line_ends() + name.lower(), _CONSTANTS[name])
        if name in _WORDS:  # a variable for Jinja2, which nobody can set
            return Code(UNDEFINED, "value")
        if name in _ARGUMENTS_OF_MACROS:
            raise TemplateFailure(self.line, f"`{name}` of a macro is not known here")
        return Code(self.line_ends() + name, name=name)

    def _string(self) -> Code:
        text, line_ends = "", ""
        while self.at_kind("string"):
            literal = self.take("string")
            line_ends += self.line_ends() + "\n" * literal.count("\n")
            text += _string_value(literal, self.line)
        return Code(json.dumps(text, ensure_ascii=False) + line_ends, "string", literal=text)

    def _number(self) -> Code:
        line, text = self.line, self.take("number").replace("_", "")
        try:
            value = int(text, 0)
        except ValueError:
            if text.isdecimal():
                raise TemplateFailure(line, f"unexpected number `{text}`") from None
            return self._call("__number", line, f'"{text}"')
        if value >= _MAX_INTEGER:
            return self._call("__number", line, f'"{value}"')
        return Code(f"{self.line_ends()}{value}", "integer")

    def _dict(self, line: int) -> Code:
        keys, values = list[Code](), list[Code]()
        for _ in self.until("}"):
            keys.append(self.expression())
            self.expect(":")
            values.append(self.expression())
        if all(key.kind == "string" for key in keys):
            pairs = (f"{key.text}: {value.argument()}" for key, value in zip(keys, values, strict=True))
            return Code("{" + ", ".join(pairs) + "}", "value")
        pairs = (f"({key.argument()}, {value.argument()})" for key, value in zip(keys, values, strict=True))
        return self._call("__dict", line, "[" + ", ".join(pairs) + "]")

    def _postfix(self, code: Code) -> Code:
        while True:
            line = self.line
            if self.skip("."):
                code = self._attribute(code, line)
            elif self.skip("["):
                code = self._item(code, line)
            elif self.skip("("):
                code = self._function(code, line)
            else:
                return code

    def _attribute(self, code: Code, line: int) -> Code:
        if self.at_kind("number"):
            return Code(f"{code.operand()}[{int(self.take('number'))}]{self.line_ends()}")
        name = self.take("name")
        own = code.name == "loop" or code.name in self._names.namespaces
        if self.at("(") and name in METHODS and not own:
            self.skip("(")
            arguments = self._arguments()
            return self._call(
                "__method", line, code.argument(), f'"{name}"', *arguments, kind=kind_of_result(name, code)
            )
        if name in METHODS and not own:
            return self._call("__attribute", line, code.argument(), f'"{name}"')
        kind: Kind = "integer" if code.name == "loop" and name in _LOOP_INTEGERS else "unknown"
        kind = "boolean" if code.name == "loop" and name in ("first", "last") else kind
        return Code(f"{code.operand()}.{self.line_ends()}{name}", kind)

    def _item(self, code: Code, line: int) -> Code:
        bounds: list[Code | None] = [None]
        if not self.at(":"):
            bounds[0] = Code("()", "value") if self.at("]") else self.items(":")
        is_slice = self.at(":")
        while self.skip(":") and len(bounds) < 3:
            bounds.append(None if self.at(":", "]") else self.expression())
        self.expect("]")
        if is_slice:
            arguments = ("none" if bound is None else bound.argument() for bound in bounds)
            return self._call("__slice_of", line, code.argument(), *arguments)
        assert bounds[0] is not None, "the token was no colon"
        if bounds[0].literal in METHODS:
            return self._call("__item", line, code.argument(), bounds[0].text)
        return Code(f"{code.operand()}[{bounds[0].text}]{self.line_ends()}")

    def _function(self, code: Code, line: int) -> Code:
        arguments = self._arguments()
        if code.name in _FUNCTIONS and code.name not in self._names.own:
            return self._call(f"__{code.name}", line, *arguments)
        if code.name == "loop":
            return Code(f"{code.text}({self._call('__iterate', line, *arguments).text})", "string")
        return Code(f"{code.operand()}({', '.join(arguments)}){self.line_ends()}")

    def _arguments(self) -> list[str]:
        """The arguments of a call up to its closing bracket."""
        arguments = []
        for _ in self.until(")"):
            if self.at("*", "**"):
                arguments.append(self.take("operator") + self.expression().operand())
            elif self.at_kind("name") and self.at("=", ahead=1):
                name = self.take("name")
                self.skip("=")
                arguments.append(f"{name}={self.expression().argument()}")
            else:
                arguments.append(self.expression().argument())
        return arguments

    def _filters_and_tests(self, code: Code) -> Code:
        while True:
            line = self.line
            if self.skip("|"):
                code = self._filter(code)
            elif self.skip("is"):
                code = self._test(code, line)
            elif self.skip("("):
                code = self._function(code, line)
            else:
                return code

    def filters(self, code: Code) -> Code:
        """The filters of which the name of the first is next, applied to `code`."""
        code = self._filter(code)
        while self.skip("|"):
            code = self._filter(code)
        return code

    def _filter(self, code: Code) -> Code:
        line, name = self.line, self.take("name")
        arguments = self._arguments() if self.skip("(") else []
        if name not in FILTERS:
            return self._call("__unknown", line, f'"the filter {name}"', kind="value")
        return self._call(f"__{name}", line, code.argument(), *arguments, kind=kind_of_result(name, code))

    def _test(self, code: Code, line: int) -> Code:
        negated = self.skip("not")
        name = self.take("name")
        if self.skip("("):
            arguments = self._arguments()
        elif self.at_kind("name", "string", "number") or self.at("[", "{"):
            if self.at("is"):
                self.fail()
            arguments = [] if self.at("else", "or", "and") else [self._postfix(self._primary()).argument()]
        else:
            arguments = []
        if name in _NATIVE_TESTS and not arguments:
            return Code(f"{code.operand()} is {'not ' * negated}{name}", "boolean", whole=False)
        if name not in TESTS:
            return self._call("__unknown", line, f'"the test {name}"', kind="boolean")
        tested = self._call(f"__is_{name}", line, code.argument(), *arguments, kind="boolean")
        return Code(f"not {tested.text}", "boolean", whole=False) if negated else tested

    # Calls

    def _chain(self, function: str, line: int, codes: Sequence[Code], operators: Sequence[str]) -> Code:
        arguments = [codes[0].argument()]
        for operator, code in zip(operators, codes[1:], strict=True):
            arguments += [f'"{operator}"', code.argument()]
        return self._call(function, line, *arguments)

    def _call(self, function: str, line: int, *arguments: str, kind: Kind = "value") -> Code:
        return Code(f"{function}({', '.join([str(line), *arguments])}{self.line_ends()})", kind)


def _tuple(parts: Sequence[Code]) -> Code:
    return Code("(" + ", ".join(part.argument() for part in parts) + ",)", "value")


def _string_value(literal: str, line: int) -> str:
    """What a string literal stands for, with escapes as Python reads them."""
    try:
        return literal[1:-1].encode("ascii", "backslashreplace").decode("unicode-escape")
    except UnicodeDecodeError:
        raise TemplateFailure(line, f"unexpected {literal}") from None
