"""What `qchat models` says about a model: a row of the list, a line for each fact, and the same for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from app.cli.fit_text import fit_text
from app.cli.progress import human_bytes
from app.hub.catalogue import CatalogueEntry
from app.hub.choices import Choice
from app.hub.fit import Fit
from app.hub.library import ModelEntry

HEAD = ("NAME", "FROM", "SIZE", "TYPE", "CONTEXT", "MEMORY", "")


def entry_facts(entry: ModelEntry) -> dict[str, Any]:
    """Where a model is and whose, JSON-ready."""
    return {
        "name": entry.name,
        "origin": entry.origin,
        "store": entry.place,
        "path": str(entry.path),
        "files": [str(path) for path in entry.files or (entry.path,)],
        "bytes": entry.size,
        "linked_to": None if entry.linked_to is None else str(entry.linked_to),
    }


def choice_facts(choice: Choice, entry: ModelEntry) -> dict[str, Any]:
    """`entry_facts` with what the file says: `runnable`, and what runs or the `problem`."""
    facts = entry_facts(entry) | {"on_disk": True, "runnable": not choice.problem}
    if choice.quantisation:
        facts |= {"architecture": choice.architecture, "quantisation": choice.quantisation}
    if choice.problem:
        return facts | {"problem": choice.problem}
    return facts | {"context": choice.context, "memory": None if choice.fit is None else fit_facts(choice.fit)}


def catalogue_facts(entry: CatalogueEntry, fit: Fit | None) -> dict[str, Any]:
    """A model that is not here, JSON-ready; `bytes` is approximate and 0 where it is not known."""
    return {
        "name": entry.name,
        "on_disk": False,
        "bytes": entry.bytes,
        "licence": entry.licence,
        "source": entry.source,
        "own": entry.own,
        "memory": None if fit is None else fit_facts(fit),
    }


def fit_facts(fit: Fit) -> dict[str, Any]:
    """Bytes that are needed for a short chat and for the whole context, and those that are free now."""
    return {"verdict": fit.verdict, "least_bytes": fit.least, "most_bytes": fit.most, "free_bytes": fit.free}


def row(choice: Choice) -> Sequence[str]:
    """One line of the list, under HEAD."""
    about = "" if choice.place == "disk" else "~"
    size = about + human_bytes(choice.size) if choice.size else "?"
    context = f"{choice.context:,}" if choice.context else ""
    memory = "" if choice.fit is None else fit_text(choice.fit, about)
    return (choice.name, _from(choice), size, choice.quantisation, context, memory, _remark(choice))


def _from(choice: Choice) -> str:
    return choice.store if choice.place == "disk" else "to be fetched"


def _remark(choice: Choice) -> str:
    if choice.place != "disk":
        return choice.licence
    if choice.problem:
        return f"cannot run: {choice.problem}"
    return f"at {choice.linked_to}" if choice.linked_to else ""


def summary(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A label and a text for each fact of `models show`."""
    yield "name", facts["name"] or "not given"
    yield "from", facts["store"] + (f", used at {facts['linked_to']}" if facts["linked_to"] else "")
    yield "path", facts["path"]
    if len(facts["files"]) > 1:
        yield "parts", f"{len(facts['files']):,} files beside each other"
    yield "size", f"{human_bytes(facts['file_bytes'])}, {facts['parameters'] / 1e6:,.1f} million parameters"
    yield "licence", facts["licence"] or "not given"
    yield "architecture", facts["architecture"] or "not given"
    yield "weights", ", ".join(f"{count} {kind}" for kind, count in facts["tensors"].items())
    if not facts["runnable"]:
        yield "cannot run", facts["problem"]
    else:
        net, memory = facts["network"], facts["memory"]
        yield "layers", f"{net['layers']} of width {net['d_model']}, feed-forward {net['d_ff']}"
        yield "heads", f"{net['heads']} of {net['head_dim']}, {net['kv_heads']} for keys and values"
        yield "options", ", ".join(option for option in ("qk_norm", "qkv_bias", "tied_head") if net[option]) or "none"
        yield "context", f"{net['context']:,} tokens"
        yield (
            "memory",
            (
                f"{human_bytes(memory['weights_bytes'])} weights + {human_bytes(memory['kv_bytes_per_token'])} a token "
                f"({memory['kv']}); {human_bytes(memory['total_bytes_full_context'])} with a full context"
            ),
        )
        if facts["fit"]["free_bytes"] is not None:
            yield "fits", _fit_sentence(facts["fit"])
    yield "tokenizer", _tokenizer_text(facts["tokenizer"])
    yield "template", _template_text(facts["chat_template"])


def _tokenizer_text(facts: dict[str, Any]) -> str:
    ends = f", ends with {facts['eos']['text']} ({facts['eos']['id']})" if facts["eos"] else ""
    rule = facts["splitting_rule"] or "no rule"
    return f"{facts['model'] or 'not given'} ({rule}), {facts['tokens']:,} tokens, {facts['merges']:,} merges{ends}"


def _template_text(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return "none: the model cannot chat"
    offers = [("thinking", facts["thinks"]), ("a switch for it", facts["thinking_switch"]), ("tools", facts["tools"])]
    return f"{facts['characters']:,} characters; " + (", ".join(name for name, has in offers if has) or "plain turns")


def _fit_sentence(fit: dict[str, Any]) -> str:
    free = human_bytes(fit["free_bytes"])
    return {
        "fits": f"yes, with a full context: {human_bytes(fit['most_bytes'])} of the {free} that are free",
        "tight": f"for shorter chats: {human_bytes(fit['most_bytes'])} would be a full context, {free} are free",
        "too large": f"no: a short chat takes {human_bytes(fit['least_bytes'])}, and {free} are free",
    }[fit["verdict"]]
