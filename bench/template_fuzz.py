"""Random templates against Jinja2: how many give another text, and the smallest form of each that does.

    python bench/template_fuzz.py --count 20000 --seed 0

A template that both engines refuse counts as equal; how many were rendered by both is printed, because refusals prove
little. Template number N of a seed is the same whatever the count and the number of processes.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from tests.templates.grammar import ADDRESS, Conversations, Templates
from tests.templates.jinja_reference import FAILURE, Outcome, outcome, reference_outcome

warnings.simplefilter("ignore", SyntaxWarning)  # of the code that Jinja2 makes of nonsense
CONVERSATIONS = 2  # renders of each template
_TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|(?:(?!\{[%{#]).)+|.", re.S)
_PIECE = re.compile(r"\{[%{#][-+]?|[-+]?[%}#]\}|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|\s+|.", re.S)


def case(seed: int, number: int) -> tuple[str, list[dict[str, Any]]]:
    """Template `number` of `seed`, and the variables of its renders."""
    chance = random.Random(f"{seed}:{number}")
    source = Templates(chance).template()
    return source, [Conversations(chance).variables() for _ in range(CONVERSATIONS)]


@functools.lru_cache(maxsize=2)
def compiled(source: str) -> ChatTemplate | None:
    """Our template, or None where it is refused at once."""
    try:
        return ChatTemplate(source)
    except TemplateError:
        return None


def outcomes(source: str, variables: dict[str, Any]) -> tuple[Outcome, Outcome]:
    """What ours and the reference make of it."""
    template = compiled(source)
    return outcome(template, variables) if template else FAILURE, reference_outcome(source, variables)


def smallest(source: str, wanted: Callable[[str], bool]) -> str:
    """`source` without every tag, pair of tags or brackets, and run of pieces that it can lose and stay `wanted`."""
    found = _TAG.findall(source)
    while (shorter := _without_tags(found, wanted)) is not None:
        found = shorter
    pieces = _PIECE.findall("".join(found))
    while (shorter := _without_pieces(pieces, wanted)) is not None:
        pieces = shorter
    return "".join(pieces)


def _without_tags(parts: list[str], wanted: Callable[[str], bool]) -> list[str] | None:
    """`parts`, tags and the text between, without a block, or its two tags, or one part; None if none can go."""
    for begin in range(len(parts)):
        for end in range(len(parts), begin, -1):
            if end == begin + 1 or (_opens(parts[begin]) and parts[end - 1].strip("{%+- }").startswith("end")):
                for kept in ([], parts[begin + 1 : end - 1]):
                    shorter = parts[:begin] + kept + parts[end:]
                    if len(shorter) < len(parts) and wanted("".join(shorter)):
                        return shorter
    return None


def _opens(tag: str) -> bool:
    return tag.startswith("{%") and not tag.strip("{%+- }").startswith(("end", "else", "elif"))


def _without_pieces(pieces: list[str], wanted: Callable[[str], bool]) -> list[str] | None:
    length = len(pieces) // 2
    while length:
        for i in range(len(pieces) - length + 1):
            for middle in ([], pieces[i + 1 : i + length - 1]) if pieces[i] in "([" else ([],):
                shorter = pieces[:i] + middle + pieces[i + length :]
                if len(shorter) < len(pieces) and wanted("".join(shorter)):
                    return shorter
        length = length // 2 if length > 12 else length - 1
    return None


def check(task: tuple[int, int, bool]) -> tuple[Counter[str], str]:
    """What the renders of one case came to, and the first mismatch, minimised, or nothing."""
    seed, number, shrink = task
    source, conversations = case(seed, number)
    counts: Counter[str] = Counter()
    for variables in conversations:
        ours, reference = outcomes(source, variables)
        if reference.text is not None and ADDRESS.search(reference.text):
            counts["not compared"] += 1
        elif ours == reference:
            counts["rendered" if reference.text is not None else "refused"] += 1
        else:
            counts["different"] += 1
            return counts, f"#{number} {shown(source, variables, shrink)}"
    return counts, ""


def shown(source: str, variables: dict[str, Any], shrink: bool) -> str:
    """A mismatch for people: the template, its smallest form that differs alike, what each made of it."""
    ours, reference = outcomes(source, variables)
    kind = ours.text is None, reference.text is None

    def alike(text: str) -> bool:
        ours, reference = outcomes(text, variables)
        comparable = reference.text is None or not ADDRESS.search(reference.text)
        return comparable and ours != reference and (ours.text is None, reference.text is None) == kind

    if shrink:
        source = smallest(source, alike)
        ours, reference = outcomes(source, variables)
    used = {name: value for name, value in variables.items() if re.search(rf"\b{name}\b", source)}
    return f"{source!r}\n  ours      {ours}\n  reference {reference}\n  variables {used!r:.300}"


def main() -> int:
    """Print every mismatch and the counts; the exit code is 1 if there was any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first template")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    tasks = [(options.seed, options.first + n, not options.no_shrink) for n in range(options.count)]
    counts: Counter[str] = Counter()
    mismatches = 0
    with multiprocessing.Pool(options.processes) as pool:
        for counted, mismatch in pool.imap_unordered(check, tasks, chunksize=20):
            counts += counted
            if mismatch:
                mismatches += 1
                print(mismatch, flush=True)
    renders = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
    print(f"{options.count:,} templates, {mismatches:,} mismatches (renders: {renders})")
    return min(mismatches, 1)


if __name__ == "__main__":
    sys.exit(main())
