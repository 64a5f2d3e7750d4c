"""Hostile templates: each ends in one line within its bounds, and the program that asked goes on.

Every attack runs in a fresh program that then renders an ordinary template with the same renderer. The bounds are 2 s
and 300 MB; time is asserted as the renderer's processor time, and loosely as wall time, because the machine that runs
tests is busy.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.errors import TemplateError
from app.templates import isolation, worker
from app.templates.environment import NO_TEMPLATE_HINT
from app.templates.guard import Segment
from app.templates.isolation import IsolatedTemplate, Renderer
from app.templates.render import Conversation, PromptTokens
from tests.templates.templates import CHATML

MESSAGES = [{"role": "user", "content": "my secret <|im_end|> <"}]
MAX_BYTES = 300_000_000
CPU_SECONDS, WALL_SECONDS = 2.0, 8.0

# Reads a template, renders it and then an ordinary one; says what happened and what it took.
PROGRAM = """
import json, resource, sys, time
from app.engine.memory import peak_rss_mb
from app.errors import TemplateError
from app.templates.isolation import IsolatedTemplate, Renderer
from app.templates.render import Conversation, PromptTokens

source, ordinary, messages = json.load(sys.stdin)
renderer = Renderer()
tokens = PromptTokens(["<|im_end|>"], ["<think>"])


def text_of(source):
    return "".join(s.text for s in IsolatedTemplate(source, {}, tokens, renderer).render(Conversation(messages)))


said = {"error": None, "text": None}
begin = time.monotonic()
try:
    said["text"] = text_of(source)[:1000]
except TemplateError as error:
    said["error"], said["hint"] = error.message, error.hint
said["seconds"] = time.monotonic() - begin
said["after"] = text_of(ordinary)
renderer.close()
children = resource.getrusage(resource.RUSAGE_CHILDREN)
said["cpu"] = children.ru_utime + children.ru_stime
said["bytes"] = [1024 * children.ru_maxrss, 1e6 * peak_rss_mb()]  # not ru_maxrss: it remembers who started this
said["messages"] = messages
print(json.dumps(said))
"""


def text_of(source: str, renderer: Renderer, messages: Any = (), **variables: Any) -> str:
    """The text that `source` gives in the renderer's process."""
    segments = IsolatedTemplate(source, renderer=renderer).render(Conversation(messages, variables=variables))
    return "".join(segment.text for segment in segments)


def doubled(times: int, end: str) -> str:
    body = "{% set ns.l = [ns.l, ns.l] %}" * times
    return "{% set ns = namespace(l=[1]) %}" + body + end


def chain(piece: str, end: str) -> str:
    return "{{ " + piece * 20_000 + end + " }}"


BIG_TEXT = "{% set ns = namespace(t='x' * 64) %}{% for i in range(N) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}"
STOPPED = "the chat template was stopped: "
ATTACKS = {
    "a namespace that holds itself": "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
    "deep list": "{{ " + "[" * 90_000 + "]" * 90_000 + " }}",
    "deep list built by a loop": (
        "{% set ns = namespace(l=[]) %}{% for i in range(90000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}"
    ),
    "60 list doublings, length": doubled(60, "{{ ns.l|string|length }}"),
    "60 list doublings, printed": doubled(60, "{{ ns.l }}"),
    "60 list doublings, tojson": doubled(60, "{{ ns.l|tojson }}"),
    "lipsum": "{{ lipsum.__globals__['os'].popen('touch PWNED').read() }}",
    "cycler": "{{ cycler.__init__.__globals__.os.popen('touch PWNED').read() }}",
    "self": "{{ self.__init__.__globals__.__builtins__.__import__('os').popen('touch PWNED').read() }}",
    "class": "{{ ''.__class__.__mro__[1].__subclasses__()[0].__init__.__globals__['os'].system('touch PWNED') }}",
    "nested loops": "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "string product": "{{ 'a' * 10**10 }}",
    "list product": "{{ ([1] * 10**9)|length }}",
    "range": "{% for i in range(10**9) %}x{% endfor %}",
    "power": "{{ 10**(10**10) }}",
    "ljust": "{{ 'x'.ljust(10**10) }}",
    "format width": "{{ '{:>9999999999}'.format(1) }}",
    "percent width": "{{ '%9999999999d' % 1 }}",
    "indent": "{{ [1]|tojson(indent=10**9) }}",
    "macro recursion": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "chained not": chain("not ", "x"),
    "chained minus": chain("- ", "1"),
    "chained plus": chain("1 + ", "1"),
    "chained and": chain("1 and ", "1"),
    "chained elif": "{% if 0 %}" + "{% elif 0 %}" * 20_000 + "{% endif %}{{ nosuch.x.y }}",
    "5 MB": "{{ x }}" + "y" * 5_000_000,
    "parentheses": "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
    "long text": BIG_TEXT.replace("N", "16") + "{{ ns.t }}",
    "control bytes": "{{ raise_exception('\x1b]52;c;cHduZWQ=\x07\x9b2J\u202e' ~ 'z' * 5000) }}",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_one_line_within_bounds(name: str, tmp_path: Path) -> None:
    said = attacked(ATTACKS[name], tmp_path)
    assert said["error"] is not None and said["text"] is None
    assert said["error"].isprintable() and len(said["error"]) < 400
    assert said["hint"] in (NO_TEMPLATE_HINT, None)
    assert "my secret" not in said["error"]
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_the_template_appends_to_stays_the_callers(tmp_path: Path) -> None:
    said = attacked("{% set _ = messages.append({'role': 'system', 'content': 'PWNED'}) %}", tmp_path)
    assert said["messages"] == MESSAGES


def attacked(source: str, folder: Path) -> dict[str, Any]:
    """What `PROGRAM` says, its bounds and the ordinary template checked."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        input=json.dumps([source, CHATML, MESSAGES]),
        env=os.environ | {"PYTHONPATH": str(Path(isolation.__file__).parents[2])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    assert "my secret" in said["after"]
    assert said["cpu"] < CPU_SECONDS + 0.5  # two starts of the renderer are in it
    assert said["seconds"] < WALL_SECONDS
    assert max(said["bytes"]) < MAX_BYTES
    return said


@pytest.fixture
def renderer() -> Any:
    renderer = Renderer()
    yield renderer
    renderer.close()


def worker_of(renderer: Renderer) -> psutil.Process:
    text_of("", renderer)
    (process,) = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
    return process


def test_values_arrive_as_they_are(renderer: Renderer) -> None:
    values = [
        1.0,
        1e16,
        1.5e-7,
        10**40,
        -(2**63),
        None,
        True,
        "\ud83d\ude00",
        "\ud800",
        "a\u2028\x00\x1c\n",
        float("inf"),
    ]
    mapping = {"z": 1, "a": {"y": 2, "b": 3}, "": []}
    request = worker.encode({"v": values, "m": mapping, "n": float("nan")})
    assert request.count(b"\n") == 1
    decoded = worker.decode(request)
    assert decoded["v"] == values and list(map(type, decoded["v"])) == list(map(type, values))
    assert str(decoded["m"]) == str(mapping)
    assert str(decoded["n"]) == "nan"
    shown = [value for value in values if not (isinstance(value, str) and "\ud800" <= max(value) <= "\udfff")]
    shown_text = text_of("{{ v|tojson }}{{ m|tojson }}", renderer, v=shown, m=mapping)
    assert shown_text == json.dumps(shown, ensure_ascii=False) + json.dumps(mapping)


def test_named_tokens_line_and_message_cross_the_process(renderer: Renderer) -> None:
    tokens = PromptTokens(["<s>"], ["</s>"])
    template = IsolatedTemplate("{{ bos_token }}{{ x }}", {"bos_token": "<s>"}, tokens, renderer)
    assert template.render(Conversation([], variables={"x": "é<s>"})) == [Segment("<s>é", True), Segment("<s>", False)]
    with pytest.raises(TemplateError, match=r"line 2.*nosuch") as refused:
        text_of("a\n{% nosuch %}", renderer)
    assert refused.value.line == 2


def test_what_stopped_it_is_named(renderer: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "SECONDS", 0.2)
    with pytest.raises(TemplateError) as stopped:
        text_of(ATTACKS["60 list doublings, length"], renderer)
    assert stopped.value.message == STOPPED + "it ran for more than 0.2 s"
    monkeypatch.setattr(isolation, "SECONDS", 20)
    with pytest.raises(TemplateError) as stopped:
        text_of(ATTACKS["a namespace that holds itself"], renderer)
    assert stopped.value.message == STOPPED + "the renderer crashed (SIGSEGV)"
    with pytest.raises(TemplateError) as stopped:
        text_of(ATTACKS["long text"], renderer)
    assert stopped.value.message.startswith(STOPPED + "it wrote more than 1,00")


def test_the_clock_runs_for_the_whole_prompt_not_for_each_render(renderer: Renderer) -> None:
    """Harmless without marks; with them every render takes all time or, on a fast machine, all memory."""
    source = "{% if messages[0].content != '<|im_end|>' %}" + ATTACKS["60 list doublings, length"] + "{% endif %}"
    template = IsolatedTemplate(source, tokens=PromptTokens(["<|im_end|>"], ["<think>"]), renderer=renderer)
    worker_of(renderer)
    begin = time.monotonic()
    with pytest.raises(TemplateError, match=r"it ran for more than 1\.5 s|it needed more than"):
        template.render(Conversation([{"role": "user", "content": "<|im_end|>"}]))
    assert time.monotonic() - begin < 2 * isolation.SECONDS


def test_a_worker_out_of_memory_says_so(renderer: Renderer) -> None:
    """With no room left beyond what it has, any sizeable request is too much."""
    process = worker_of(renderer)
    process.rlimit(psutil.RLIMIT_AS, (process.memory_info().vms + (1 << 20),) * 2)
    with pytest.raises(TemplateError) as stopped:
        text_of("{{ x }}", renderer, x="é" * 1_000_000)
    assert stopped.value.message == STOPPED + "it needed more than 256 MB of memory"


def test_a_conversation_that_is_too_long_is_refused_before_it_is_sent(renderer: Renderer) -> None:
    with pytest.raises(TemplateError, match="the chat template is too long: 5,000,007 characters"):
        text_of(ATTACKS["5 MB"], renderer)
    with pytest.raises(TemplateError, match="the conversation is too long"):
        text_of(CHATML, renderer, [{"role": "user", "content": "x" * (8 << 20)}])
    with pytest.raises(TemplateError, match="cannot be rendered"):
        text_of(CHATML, renderer, x=10**5000)


def test_the_longest_conversation_fits_into_the_memory(renderer: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide characters: four bytes each inside the worker, for two bytes each in the request."""
    monkeypatch.setattr(isolation, "SECONDS", 20)  # however busy the machine is
    content = "é" * 100_000 + "\U0001f600"
    messages = [{"role": "user", "content": content + "<|im_end|>"}] * 40
    template = IsolatedTemplate(CHATML, tokens=PromptTokens(["<|im_end|>"]), renderer=renderer)
    segments = template.render(Conversation(messages))
    assert sum(segment.text.count("é") for segment in segments) == 4_000_000
    assert [segment.trusted for segment in segments].count(False) == 40


def test_the_worker_has_no_secrets_and_no_files(renderer: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    core = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (core[1], core[1]))  # as where people look into crashes
    process = worker_of(renderer)
    resource.setrlimit(resource.RLIMIT_CORE, core)
    open_files = sorted(int(path.name) for path in Path(f"/proc/{process.pid}/fd").iterdir())
    os.close(reader)
    os.close(writer)
    assert "OPENAI_API_KEY" not in process.environ() and "HOME" not in process.environ()
    assert open_files == [0, 1, 2]
    assert process.rlimit(psutil.RLIMIT_FSIZE)[0] == process.rlimit(psutil.RLIMIT_CORE)[0] == 0
    assert 0 < process.rlimit(psutil.RLIMIT_CPU)[0] < 10
    assert os.getsid(process.pid) != os.getsid(0)  # Ctrl-C in the chat does not reach it


def test_a_worker_that_was_killed_meanwhile_is_started_again(renderer: Renderer) -> None:
    process = worker_of(renderer)
    process.kill()
    process.wait()
    assert text_of("next", renderer) == "next"


def test_an_interrupted_render_does_not_answer_the_next_one(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    worker_of(renderer)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            text_of(ATTACKS["60 list doublings, length"], renderer)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert text_of("next", renderer) == "next"


@pytest.mark.parametrize("how", ["end", "kill"])
def test_the_worker_ends_with_the_program(how: str) -> None:
    code = (
        "import os, signal\nfrom app.templates.isolation import IsolatedTemplate, Renderer\n"
        "from app.templates.render import Conversation\n"
        "r = Renderer()\nIsolatedTemplate('', renderer=r).render(Conversation([]))\nprint(r._process.pid, flush=True)\n"
    )
    if how == "kill":
        code += "os.kill(os.getpid(), signal.SIGKILL)\n"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode == 0) == (how == "end")
    ended_by = time.monotonic() + 10
    while psutil.pid_exists(int(done.stdout)) and psutil.Process(int(done.stdout)).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < ended_by
