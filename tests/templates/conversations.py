"""Kinds of conversations that chat templates meet, the awkward ones too: what a comparison with Jinja2 runs over."""

from __future__ import annotations

from typing import Any

Variables = dict[str, Any]


def _message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


SYSTEM = _message("system", "Be brief.")
USER = _message("user", "hi <b> & \"quotes\" 'é' 🙂")
REPLY = _message("assistant", "Hello there.")
THOUGHT = _message("assistant", "<think>\nhm\n\nwell\n</think>\n\nHello")
REASONED = _message("assistant", "Hello", reasoning_content="hm\n", thinking="hm\n", reasoning="hm\n")
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather < now & here > 'there' é",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "a city", "enum": ["Rom", "Köln"]},
                "days": {"type": "integer", "default": 1, "maximum": 1e16},
                "limit": {"type": ["number", "null"], "minimum": 1.0, "step": 1.5e-07},
            },
            "required": ["city"],
        },
    },
}
TOOLS = [WEATHER, {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {}}}]


def _call(arguments: Any, number: int = 1) -> dict[str, Any]:
    return {"id": f"call{number:05}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


CALL = _message("assistant", "", tool_calls=[_call({"city": "Köln", "days": 2, "limit": 1.0, "x": None, "ok": True})])
CALLS = _message("assistant", None, tool_calls=[_call({"city": "<a>"}), _call({"limit": 1e16, "n": [1, 2.5]}, 2)])
TEXT_CALL = _message("assistant", "Looking.", tool_calls=[_call('{"city": "Köln"}')])
RESULT = _message("tool", '{"degrees": 20.0}', tool_call_id="call00001", name="get_weather")
STRUCTURED = _message("tool", {"degrees": 20.0, "wind": [1e-7, 3]}, tool_call_id="call00001", name="get_weather")
PARTS = _message("user", [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}])
TRANSLATED = _message(
    "user", [{"type": "text", "source_lang_code": "en", "target_lang_code": "de-AT", "text": " Where? ", "image": None}]
)
SPACES = "\x1c\x1f \u00a0\u2003line\u2028two\r\nthree\x0b \x85\t\n"


def _variables(messages: Any, **more: Any) -> Variables:
    return {
        "messages": messages,
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
        "bos_token": "<s>",
        "eos_token": "</s>",
        **more,
    }


KINDS: dict[str, Variables] = {
    "plain": _variables([USER]),
    "no generation prompt": _variables([USER, REPLY], add_generation_prompt=False),
    "system": _variables([SYSTEM, USER]),
    "many turns": _variables([SYSTEM, USER, REPLY, USER, REPLY, USER]),
    "starts with assistant": _variables([REPLY, USER]),
    "two user turns": _variables([USER, USER]),
    "system in the middle": _variables([USER, REPLY, SYSTEM, USER]),
    "unknown role": _variables([USER, _message("critic", "no")]),
    "empty text": _variables([_message("system", ""), _message("user", "")]),
    "thinking on": _variables([SYSTEM, USER], enable_thinking=True, thinking=True),
    "thinking off": _variables([SYSTEM, USER], enable_thinking=False, thinking=False),
    "think in history": _variables([USER, THOUGHT, USER]),
    "think last": _variables([USER, THOUGHT], add_generation_prompt=False),
    "reasoning fields": _variables([USER, REASONED, USER, REASONED], add_generation_prompt=False),
    "tools": _variables([SYSTEM, USER], tools=TOOLS),
    "no tools given": _variables([USER], tools=[]),
    "tool call": _variables([USER, CALL], tools=TOOLS, add_generation_prompt=False),
    "tool results": _variables([SYSTEM, USER, CALL, RESULT, REPLY, USER], tools=TOOLS, enable_thinking=True),
    "two calls, no content": _variables([USER, CALLS, RESULT, STRUCTURED], tools=TOOLS),
    "arguments as text": _variables([USER, TEXT_CALL, RESULT], tools=TOOLS),
    "content None": _variables([_message("user", None), _message("assistant", None), USER]),
    "content in parts": _variables([PARTS, REPLY, PARTS]),
    "odd whitespace": _variables([_message("system", SPACES), _message("user", SPACES), _message("assistant", SPACES)]),
    "documents": _variables(
        [SYSTEM, USER],
        documents=[{"title": "T", "text": "x", "score": 1.0}, {"doc_id": 2, "title": "", "text": "é", "score": 1e16}],
        date_string="26 Jul 2024",
    ),
    "numbers for content": _variables([_message("user", 1e16), _message("user", {"a": [1.0, 1.5e-7, 2**70]})]),
    "numbers in a list": _variables([_message("user", [1e16, 0.5]), _message("assistant", [2.0, 1.5e-7, 2**70])]),
    "own variables of some": _variables([{**USER, "title": " T "}], functions="[]", datetime="2024-07-26"),
    "translation": _variables([TRANSLATED]),
    "no list of messages": _variables({"query": "hi", "functions_str": ["f()", "g()"]}),
    "continued reply": _variables(
        [USER, _message("assistant", "<think>\nso fa")], continue_final_message=True, add_generation_prompt=False
    ),
}
