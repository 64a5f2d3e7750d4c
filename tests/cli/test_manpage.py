"""qchat(1): that it says what the commands say, and that roff reads it as it is meant."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from app.cli import COMMANDS, cli
from app.cli.manpage import manual_page
from app.settings import OTHER_VARIABLES, RULES, variable

COMMITTED = Path(__file__).parents[2] / "docs" / "man" / "qchat.1"


@pytest.fixture(scope="module")
def page() -> str:
    return manual_page(cli)


def test_the_committed_page_is_up_to_date(page: str) -> None:
    assert COMMITTED.read_text(encoding="ascii") == page, "run 'make man'"


def test_every_command_option_setting_and_variable_is_in_the_page(page: str) -> None:
    text = plain(page)
    for name in COMMANDS:
        assert f"\nqchat {name} " in text or f"\nqchat {name}\n" in text
    for words in ("qchat models pull [OPTIONS] SOURCE", "qchat ask [OPTIONS] [PROMPT]", "qchat config path"):
        assert text.count(f"\n{words}\n") == 2  # the synopsis and a section of its own
    for option in ("-m, --model MODEL", "--think, --no-think", "--kv f16|f32|q8_0", "--stop TEXT", "--session CHAT"):
        assert f"\n{option}\n" in text
    for name in [*OTHER_VARIABLES, *map(variable, RULES)]:
        assert name in text
    for code in (0, 1, 2, 3, 4, 130):
        assert f"\n{code}\n" in text


def test_settings_have_the_comment_and_the_default_of_the_defaults_file(page: str) -> None:
    text = plain(page)
    assert "Engine threads; 0 takes one for each physical core.\nAllowed: a whole number from 0 to 1024." in text
    assert "Default: 4096." in text
    assert "\nsampling.top_p, QCHAT_SAMPLING_TOP_P\nOnly the likeliest tokens that together" in text


def test_a_line_of_text_is_never_taken_for_a_macro_or_changed_by_a_terminal() -> None:
    @click.group()
    def tool() -> None:
        """About.

        .SH is text, \\n too, and 'quotes', "-5", ~/x^y`z` é🚀.

        \b
        .one  line
        'two
        """

    @tool.command()
    @click.argument("files", nargs=-1, required=True)
    @click.option("--secret", hidden=True)
    @click.option("--times", type=click.IntRange(1, 9), default=3, show_default=True, help="How often.")
    def work(files: str, secret: str, times: int) -> None:
        """Work."""

    page = manual_page(tool)
    body = page.split('.\\" Written', 1)[1]
    assert page.isascii()
    assert "\n\\&.SH is text, \\en too, and \\(aqquotes\\(aq, \\(dq\\-5\\(dq, \\(ti/x\\(hay\\(gaz\\(ga " in body
    assert " \\[u00E9]\\[u1F680].\n" in body
    assert "\n.nf\n\\&.one  line\n\\(aqtwo\n.fi\n" in body
    assert (
        "\n.SS qchat work\\fR [OPTIONS] FILES...\nWork.\n.TP\n.B \\-\\-times INTEGER\nHow often. (default: 3)\n" in body
    )
    assert "secret" not in body


def test_no_paragraph_is_empty_and_no_line_ends_in_a_space(page: str) -> None:
    assert not re.search(r"^\.S[HS] .*\n\.P$| $|^$", page[:-1], re.MULTILINE)
    macros = set(re.findall(r"^\.(\w+)", page, re.MULTILINE))
    assert macros <= {"TH", "SH", "SS", "P", "TP", "B", "br", "nf", "fi"}


def plain(page: str) -> str:
    """The text of the page without its roff."""
    text = re.sub(r"^\.(?:B|SS|SH) ", "", page, flags=re.MULTILINE).replace("\\fR", "").replace("\\&", "")
    for escape, character in (("\\-", "-"), ("\\(aq", "'"), ("\\(dq", '"'), ("\\(ti", "~"), ("\\(ga", "`")):
        text = text.replace(escape, character)
    return text
