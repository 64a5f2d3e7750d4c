"""`qchat completion`, and the answers to the shell that uses it.

A script for bash, zsh or fish asks qchat with the text of the command line up to the cursor, quotes included; click
finds what may stand there. The words are taken apart here, for all three alike, because bash breaks them at colons
(`smollm2:135m`). An answer is a line for each candidate: kind, value and help, with tabs between.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete

from app.errors import printable

ASKED, LINE, BREAKS = "_QCHAT_COMPLETE", "_QCHAT_LINE", "_QCHAT_BREAKS"  # of the environment
_HELP = 100  # characters
_TO_ESCAPE = {  # by the quote that is open
    "": re.compile(r"[^\w@%+=:,./-]"),
    '"': re.compile(r'[$`"\\]'),
    "'": re.compile("'"),
}


@dataclass(frozen=True)
class TypedLine:
    """A command line as far as it is typed."""

    words: tuple[str, ...]  # without quotes, the unfinished one last; that is "" if the line ends between words
    quote: str  # the one that is open: ' or " or ""
    replaced_from: int  # where in the unfinished word begins what bash replaces


def read_line(line: str, breaks: str = "") -> TypedLine:
    """Take `line` apart as a POSIX shell does. `breaks`: characters after which, unquoted, bash begins to replace."""
    words, word, quote, replaced_from = [], "", "", 0
    in_word = False
    characters = iter(line)
    for character in characters:
        if character == "\\" and quote != "'":
            escaped = next(characters, "")
            in_word, word = True, word + (escaped if not quote or escaped in '$`"\\' else character + escaped)
        elif character == quote:
            quote, replaced_from = "", len(word)
        elif quote:
            word += character
        elif character in "'\"":
            in_word, quote, replaced_from = True, character, len(word)
        elif character.isspace():
            if in_word:
                words.append(word)
            in_word, word, replaced_from = False, "", 0
        else:
            in_word, word = True, word + character
            if character in breaks:
                replaced_from = len(word)
    return TypedLine((*words, word), quote, replaced_from)


class _Shell(ShellComplete):
    """The protocol that the three scripts share."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.typed = read_line(os.environ.get(LINE, ""), os.environ.get(BREAKS, ""))

    def source_vars(self) -> dict[str, str]:  # type: ignore[override]
        return {"prog": self.prog_name, "asked": self.complete_var, "line": LINE, "breaks": BREAKS}

    def get_completion_args(self) -> tuple[list[str], str]:
        *words, incomplete = self.typed.words
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.type}\t{self.whole(item)}\t{printable(item.help or '', _HELP)}"

    def whole(self, item: CompletionItem[str]) -> str:
        """The whole word that is to stand in the line; click leaves out the `--option=` before a value."""
        option, equals, _ = self.typed.words[-1].partition("=")
        is_value_of_option = equals and option.startswith("--") and not item.value.startswith(option)
        return f"{option}={item.value}" if is_value_of_option else item.value


class _Bash(_Shell):
    """bash inserts what it is given as it stands, in place of what follows the last break."""

    name = "bash"
    source_template = """\
_qchat_complete() {
    local kind value
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value _; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            file) compopt -o default 2>/dev/null ;;
        esac
    done < <(%(line)s="${COMP_LINE:0:COMP_POINT}" %(breaks)s="$COMP_WORDBREAKS" \\
        %(asked)s=bash_complete "${1/#~\\//$HOME/}" 2>/dev/null)
}
complete -o nosort -F _qchat_complete %(prog)s 2>/dev/null || complete -F _qchat_complete %(prog)s
"""

    def format_completion(self, item: CompletionItem[str]) -> str:
        quote = self.typed.quote
        escape = "'\\''" if quote == "'" else "\\\\\\g<0>"
        rest = _TO_ESCAPE[quote].sub(escape, self.whole(item)[self.typed.replaced_from :])
        return f"{item.type}\t{rest}\t"


class _Zsh(_Shell):
    """zsh quotes by itself, and shows the help beside each value."""

    name = "zsh"
    source_template = """\
#compdef %(prog)s
_qchat_complete() {
    local -a values shown fields
    local answer files typed="${(j: :)words[1,CURRENT-1]} ${QIPREFIX}${PREFIX}"
    for answer in "${(@f)$(%(line)s="$typed" %(asked)s=zsh_complete ${~words[1]} 2>/dev/null)}"; do
        fields=("${(@ps:\\t:)answer}")
        case $fields[1] in
            plain) values+=("$fields[2]"); shown+=("$fields[2]${fields[3]:+  -- $fields[3]}") ;;
            file) files=1 ;;
        esac
    done
    if (( $#values )); then
        compadd -V %(prog)s -l -d shown -a values
    elif [[ -n $files ]]; then
        compset -P '--*='
        _files
    fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _qchat_complete "$@"
else
    compdef _qchat_complete %(prog)s
fi
"""


class _Fish(_Shell):
    """fish quotes by itself, and shows the help beside each value."""

    name = "fish"
    source_template = """\
function __qchat_complete
    set -l command (commandline -opc)[1]
    for answer in (%(line)s=(commandline -cp | string collect) %(asked)s=fish_complete $command 2>/dev/null)
        set -l fields (string split \\t -- $answer)
        switch $fields[1]
            case plain
                string join \\t -- $fields[2..]
            case file
                __fish_complete_path (commandline -ct)
        end
    end
end
complete -c %(prog)s -f -k -a '(__qchat_complete)'
"""


_SHELLS: Mapping[str, type[_Shell]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> None:
    """Print the script that lets bash, zsh or fish complete commands, options, models and chats.

    \b
    bash, in ~/.bashrc:  eval "$(qchat completion bash)"
    zsh, in ~/.zshrc after compinit:  eval "$(qchat completion zsh)"
    fish:  qchat completion fish > ~/.config/fish/completions/qchat.fish
    """
    click.echo(_SHELLS[shell](ctx.find_root().command, {}, "qchat", ASKED).source(), nl=False)


def answer_shell(cli: click.Command, instruction: str) -> int:
    """What a script asks for with `SHELL_complete`, on stdout; the exit code."""
    shell = _SHELLS.get(instruction.removesuffix("_complete"))
    if shell is None:
        return 1
    for line in shell(cli, {}, "qchat", ASKED).complete().splitlines():
        click.echo(line)
    return 0
