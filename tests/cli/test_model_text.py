"""The words about a model: what stands in a row of the list, and in each line of `models show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli import model_text as text
from app.cli import run
from app.hub.choices import Choice
from app.hub.describe import describe
from app.hub.fit import Fit
from tests.gguf_files import make_model, split_model, write_model

GB = 10**9


def said(path: Path, free: int | None, linked_to: str | None = None) -> dict[str, str]:
    """`models show` of a file, by its labels."""
    facts = describe(path)
    context, memory = facts["network"]["context"], facts["memory"]
    fit = Fit(memory["weights_bytes"], memory["kv_bytes_per_token"], context, free)
    return dict(text.summary(facts | {"store": "qchat", "linked_to": linked_to, "fit": text.fit_facts(fit)}))


def test_a_row_tells_where_a_model_is_and_what_is_not_known() -> None:
    linked = Choice(
        "disk", "m", 5000, linked_to=Path("/there/m.gguf"), store="qchat", quantisation="Q8_0", context=4096
    )
    assert text.row(linked) == ("m", "qchat", "5 kB", "Q8_0", "4,096", "", "at /there/m.gguf")
    assert text.row(Choice("disk", "m")) == ("m", "qchat", "?", "", "", "", "")
    assert text.row(Choice("catalogue", "m", 5000, licence="MIT")) == ("m", "to be fetched", "~5 kB", "", "", "", "MIT")


def test_what_a_model_cannot_is_said_in_words(tmp_path: Path) -> None:
    plain = {"tokenizer.chat_template": "{{ messages }}"}
    path = write_model(tmp_path / "a.gguf", architecture="llama", head="own", metadata=plain)
    assert (said(path, None)["template"], said(path, None)["options"]) == ("14 characters; plain turns", "none")
    path = write_model(tmp_path / "b.gguf", metadata={"tokenizer.chat_template": None})
    assert said(path, None)["template"] == "none: the model cannot chat"
    assert said(path, None)["options"] == "qk_norm, tied_head"


@pytest.mark.parametrize(
    ("free", "sentence"),
    [
        (None, None),
        (8 * GB, "yes, with a full context: "),
        (301_000_000, "no: a short chat takes "),
    ],
)
def test_whether_it_fits_is_a_sentence_where_it_is_known(
    tmp_path: Path, free: int | None, sentence: str | None
) -> None:
    fits = said(write_model(tmp_path / "a.gguf", context_length=20_000), free).get("fits")
    assert fits is None if sentence is None else str(fits).startswith(sentence)


def test_what_fits_for_a_while_is_said_so(tmp_path: Path) -> None:
    path = write_model(tmp_path / "a.gguf", context_length=200_000)
    facts = describe(path)["memory"]
    fit = Fit(facts["weights_bytes"], facts["kv_bytes_per_token"], 200_000, None)
    assert said(path, fit.least)["fits"].startswith("for shorter chats: ")


def test_parts_and_links_are_told(tmp_path: Path) -> None:
    two = said(split_model(tmp_path, "m", make_model(n_layers=1), 2)[0], None)
    assert two["parts"] == "2 files beside each other" and two["from"] == "qchat"
    one = said(write_model(tmp_path / "a.gguf"), None, "/there")
    assert "parts" not in one and one["from"] == "qchat, used at /there"


@pytest.mark.usefixtures("qchat_home")
@pytest.mark.parametrize(("ctx", "context"), [("100", 100), ("9000", 300)])
def test_the_setting_ctx_is_the_context_that_must_fit_as_far_as_the_model_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ctx: str, context: int
) -> None:
    monkeypatch.setenv("QCHAT_CTX", ctx)
    path = write_model(tmp_path / "a.gguf", context_length=300)
    assert run(["models", "show", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    fit = Fit(facts["memory"]["weights_bytes"], facts["memory"]["kv_bytes_per_token"], context, None)
    assert facts["fit"]["most_bytes"] == fit.most
