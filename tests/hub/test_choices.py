"""The rows of the model picker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.hub.catalogue import load_catalogue
from app.hub.catalogue.repository import Offer, Repository
from app.hub.choices import (
    Choice,
    at_server,
    completed,
    in_catalogue,
    matching,
    of_backends,
    of_servers,
    offers_of,
    on_disk,
    unfinished,
)
from app.hub.download.identity import Identity
from app.hub.download.state import State, save
from app.hub.fit import Fit
from app.hub.library import Library
from app.lock import alone
from app.settings import ServerTable
from tests.gguf_files import make_model, write_model

GB = 10**9


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path / "models")
    library.prepare()
    return library


def complete(choice: Choice, ctx: int = 0) -> Choice:
    return completed(choice, "f16", ctx, 8 * GB)


def test_a_file_is_a_row_at_once_and_its_facts_come_later(library: Library) -> None:
    path = write_model(library.models_dir / "mine.gguf", metadata={"general.name": "My own"}, context_length=300)
    (row,) = on_disk(library.list())
    assert (row.name, row.size, row.complete, row.usable) == ("mine", path.stat().st_size, False, True)
    row = complete(row)
    assert (row.title, row.quantisation, row.context, row.complete) == ("My own", "Q8_0", 300, True)
    assert row.fit and row.fit.verdict == "fits" and row.fit.context == 300


def test_a_file_that_tells_no_name_can_be_looked_for(library: Library) -> None:
    write_model(library.models_dir / "mine.gguf", metadata={"general.name": None})
    rows = [complete(row) for row in on_disk(library.list())]
    assert [row.name for row in matching(rows, "mine")] == ["mine"]


def test_the_setting_ctx_is_the_context_that_must_fit(library: Library) -> None:
    write_model(library.models_dir / "mine.gguf", context_length=300)
    (row,) = on_disk(library.list())
    for ctx, context in ((100, 100), (9000, 300)):
        fit = complete(row, ctx).fit
        assert fit and fit.context == context


def broken_header(path: Path) -> None:
    path.write_bytes(b"GGUF\x03\0\0\0 and no more")


def no_gguf(path: Path) -> None:
    path.write_bytes(b"<html>")


def cut_short(path: Path) -> None:
    path.write_bytes(make_model().to_bytes()[:-400])


def other_architecture(path: Path) -> None:
    write_model(path, metadata={"general.architecture": "mamba"})


def dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


def folder_behind_a_link(path: Path) -> None:
    path.symlink_to(path.parent)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (broken_header, "incomplete"),
        (no_gguf, "GGUF"),
        (cut_short, "incomplete"),
        (other_architecture, "mamba"),
        (dangling_link, "No such file"),
        (folder_behind_a_link, "not a file"),
    ],
)
def test_a_file_that_cannot_run_has_the_reason(library: Library, make: Callable[[Path], object], reason: str) -> None:
    make(library.models_dir / "bad.gguf")
    write_model(library.models_dir / "good.gguf")
    bad, good = map(complete, on_disk(library.list()))
    assert not bad.usable and good.usable
    assert reason in bad.problem


def test_what_is_on_this_disk_is_not_in_the_catalogue_too(library: Library) -> None:
    write_model(library.models_dir / "Qwen3-0.6B-Q8_0.gguf")
    here = on_disk(library.list())
    rows = in_catalogue(here, "f16", 0, 8 * GB)
    assert [row.name for row in here] == ["qwen3:0.6b"]
    assert {row.name for row in rows} == set(load_catalogue()) - {"qwen3:0.6b"}
    assert rows[0].name == "smollm2:135m", "the starter comes first"


def test_a_catalogue_row_is_weighed_before_it_is_fetched() -> None:
    rows = {row.name: row for row in in_catalogue([], "f16", 0, 8 * GB)}
    assert rows["qwen3:4b"].fit == Fit(2_500_000_000, 2 * 36 * 8 * 128 * 2, 40_960, 8 * GB)
    for ctx, context in ((1000, 1000), (10**9, 40_960)):
        fit = {row.name: row.fit for row in in_catalogue([], "f16", ctx, 8 * GB)}["qwen3:4b"]
        assert fit and fit.context == context
    verdicts = {name: row.fit.verdict for name, row in rows.items() if row.fit}
    assert verdicts["qwen3:0.6b"] == "fits"
    assert verdicts["qwen3:8b"] == "tight"
    assert verdicts["qwen3:32b"] == "too large"


def test_the_catalogue_says_of_the_starter_what_its_file_says(smollm2_path: Path) -> None:
    entry = load_catalogue()["smollm2:135m"]
    row = complete(Choice("disk", entry.name, path=smollm2_path, complete=False))
    (listed,) = (row for row in in_catalogue([], "f16", 0, 8 * GB) if row.name == entry.name)
    assert row.context == listed.context
    assert row.fit and listed.fit and row.fit.kv_per_token == listed.fit.kv_per_token
    assert row.fit.weights == pytest.approx(listed.fit.weights, rel=0.05)


def test_two_files_of_one_name_lead_each_to_its_own(library: Library) -> None:
    write_model(library.models_dir / "Qwen3-0.6B-Q8_0.gguf")
    write_model(library.models_dir / "qwen3:0.6b.gguf")
    rows = on_disk(library.list())
    assert len({row.key for row in rows}) == 2
    assert {library.find(row.name) for row in rows} == {row.path for row in rows}


def test_another_backend_is_named_and_not_loaded() -> None:
    (row,) = of_backends(["local", "openai", "ollama", "other"])
    assert (row.place, row.name, row.usable) == ("backend", "other", False)


def test_a_download_that_can_be_gone_on_with_is_a_row(library: Library) -> None:
    """That of y is being fetched; of z nothing has come, of w nobody knows from where."""
    for name, source, done in (("x", "hf:o/r/x.gguf", 5), ("y", "hf:o/r/y.gguf", 7), ("z", "s", 0), ("w", "", 5)):
        part = library.incoming_dir / f"{name}.gguf.part"
        part.write_bytes(bytes(done))
        save(part, State(f"{name}.gguf", source, "", Identity(9, etag="v"), 9, ((0, done),)))
    with alone(library.incoming_dir / "y.gguf.lock", lambda: None):
        x, y = unfinished(library)
    assert (x.name, x.label, x.done, x.size, x.usable) == ("hf:o/r/x.gguf", "x.gguf", 5, 9, True)
    assert (y.name, y.usable, y.problem) == ("hf:o/r/y.gguf", False, "another qchat is fetching it")


def test_of_a_repository_the_best_comes_first_and_parts_are_told() -> None:
    offers = (Offer("Q4_0", "a.gguf", 1), Offer("Q8_0", "b.gguf", 2, parts=2, best=True), Offer("", "c.gguf", 3))
    rows = offers_of(Repository("o/r", offers))
    assert [(row.name, row.note, row.store) for row in rows] == [
        ("hf:o/r/b.gguf", "2 parts", "hf:o/r"), ("hf:o/r/a.gguf", "", "hf:o/r"), ("hf:o/r/c.gguf", "", "hf:o/r"),
    ]  # fmt: skip


def test_the_model_of_a_server_comes_first_and_a_server_without_models_says_so() -> None:
    server = ServerTable("work", url="http://h", model="m")
    (row,) = of_servers([server])
    assert (row.name, row.complete, row.usable) == ("work/m", False, True)
    assert [row.name for row in at_server(server, ["a", "m", "b"])] == ["work/m", "work/a", "work/b"]
    (none,) = at_server(server, [])
    assert (none.name, none.usable, none.problem) == ("work/m", False, "it has no model yet")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["qwen3:4b", "notes"]),
        ("4B", ["qwen3:4b"]),
        ("  4b   qwen ", ["qwen3:4b"]),
        ("diary", ["notes"]),
        ("q6_k", ["notes"]),
        ("qwen notes", []),
        ("label store", ["notes"]),
    ],
)
def test_a_filter_takes_every_word_in_any_case(text: str, names: list[str]) -> None:
    rows = [
        Choice("catalogue", "qwen3:4b"),
        Choice("disk", "notes", title="Diary helper", quantisation="Q6_K", label="a label", store="a store"),
    ]
    assert [row.name for row in matching(rows, text)] == names
