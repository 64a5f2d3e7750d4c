"""A code block as rows: a label with the language, the lines on a quiet background, highlighted once it is closed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Token
from pygments.util import ClassNotFound

from app.ui.markdown.wrap import Piece, Row, fold

_FILL = ("code",)
_LABEL = ("code", "code-label")
_INDENT = Piece("  ", _FILL, False)
_PADDING = 4  # cells left and right of the code
_TAB = 4
# Highlighting runs on the event loop: a block above this many characters stays plain, so that it can't hold up keys.
_LARGEST = 50_000

_ROLES: dict[Any, str] = {
    Token.Comment: "tok-comment",
    Token.Keyword: "tok-keyword",
    Token.Operator.Word: "tok-keyword",
    Token.Literal.String: "tok-string",
    Token.Literal.Number: "tok-number",
    Token.Keyword.Constant: "tok-number",
    Token.Name.Function: "tok-function",
    Token.Name.Class: "tok-function",
    Token.Name.Decorator: "tok-function",
    Token.Name.Tag: "tok-keyword",
    Token.Name.Attribute: "tok-function",
    Token.Name.Builtin: "tok-builtin",
    Token.Name.Builtin.Pseudo: "tok-builtin",
    Token.Name.Exception: "tok-builtin",
    Token.Generic.Inserted: "tok-inserted",
    Token.Generic.Deleted: "tok-deleted",
    Token.Generic.Heading: "tok-function",
    Token.Generic.Subheading: "tok-keyword",
    Token.Generic.Prompt: "tok-comment",
}

Line = tuple[Piece, ...]


def label_row(language: str, width: int) -> Row:
    """The row above the code. It is there without a language too, so that nothing moves when one is known."""
    name = language if len(language) <= width - _PADDING else language[: max(1, width - _PADDING - 1)] + "…"
    return Row((_INDENT, Piece(name, _LABEL, False)) if name else (), None, _FILL, whole="")


def plain_line(text: str, width: int) -> list[Row]:
    """One line of code without highlighting, folded where it is too long."""
    return _fold_line((Piece(text.expandtabs(_TAB), _FILL),), width)


def code_rows(language: str, text: str, width: int, closed: bool = True) -> list[Row]:
    """The whole block; `closed` is false while the fence is still being written."""
    rows = [label_row(language, width)]
    for line in highlight(language, text) if closed else _plain(text):
        rows.extend(_fold_line(line, width))
    return rows


@lru_cache(maxsize=64)
def highlight(language: str, text: str) -> tuple[Line, ...]:
    """The lines of `text` in the colours of `language`; plain where it isn't known or the block is very large.

    Remembered, because a block inside a list item that is still growing is laid out again with every piece of text.
    """
    if not language or len(text) > _LARGEST:
        return _plain(text)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return _plain(text)
    expanded = text.expandtabs(_TAB) + "\n"  # without which the rules for a whole line miss the last one
    lines: list[list[Piece]] = [[]]
    for kind, value in lexer.get_tokens(expanded):
        roles = _roles(kind)
        for index, part in enumerate(value.split("\n")):
            if index:
                lines.append([])
            if part:
                lines[-1].append(Piece(part, roles))
    if "\n".join("".join(piece.text for piece in line) for line in lines) != expanded:
        return _plain(text)  # a lexer that changes the text isn't trusted with it
    return tuple(tuple(line) for line in lines[:-1])


def _plain(text: str) -> tuple[Line, ...]:
    return tuple((Piece(line, _FILL),) for line in text.expandtabs(_TAB).split("\n"))


def _roles(kind: Any) -> tuple[str, ...]:
    while kind is not None:
        if role := _ROLES.get(kind):
            return ("code", role)
        kind = kind.parent
    return _FILL


def _fold_line(line: Line, width: int) -> list[Row]:
    room = max(2, width - _PADDING)
    text = "".join(piece.text for piece in line)
    parts = fold(text, room)
    if len(parts) == 1:
        return [Row((_INDENT, *line), None, _FILL)]
    rows: list[Row] = []
    rest = list(line)
    for part in parts:
        pieces = [_INDENT]
        missing = len(part)
        while missing and rest:
            piece = rest.pop(0)
            if len(piece.text) > missing:
                rest.insert(0, Piece(piece.text[missing:], piece.roles))
                piece = Piece(piece.text[:missing], piece.roles)
            pieces.append(piece)
            missing -= len(piece.text)
        rows.append(Row(tuple(pieces), "" if rows else None, _FILL))
    return rows
