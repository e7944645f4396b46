"""What the OpenAI-compatible judge makes of a request and a setting, without a server."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from builders.judging import request

from evalgate.judges import openai
from evalgate.judges.base import JudgeFailed, JudgeFailureKind, JudgeSetting


class Client:
    """Stands for the openai client: keeps what it is asked, answers `valid`."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.chat = SimpleNamespace(completions=SimpleNamespace(with_raw_response=self))

    def create(self, **asked: Any) -> SimpleNamespace:
        self.asked = asked
        answer = {"choices": [{"message": {"content": "valid"}, "finish_reason": "stop"}]}
        return SimpleNamespace(
            http_response=SimpleNamespace(json=lambda: json.loads(json.dumps(answer)))
        )


def sent(model: str = "gpt-4.1", **fields: Any) -> dict[str, Any]:
    client = Client()
    reply = openai.OpenAIJudge(JudgeSetting(model=model), client).ask(request(**fields))
    assert reply.text == "valid"
    assert reply.usage is None  # nobody said, so nobody knows
    return client.asked


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({"temperature": 0, "topP": 0.5, "seed": 3}, {"temperature": 0, "top_p": 0.5, "seed": 3}),
        ({"stop_sequences": ["x"], "presence_penalty": 1}, {"stop": ["x"], "presence_penalty": 1}),
        ({"max_output_tokens": 9}, {"max_tokens": 9}),
        # what only means something to Gemini, and changes no verdict
        ({"safety_settings": [], "candidate_count": 1, "labels": {"a": "b"}}, {}),
        ({"temperature": None}, {}),
        # the way to what only this endpoint knows
        (
            {
                "http_options": {
                    "extra_body": {"reasoning_effort": "low"},
                    "headers": {"x-team": "a"},
                }
            },
            {"extra_body": {"reasoning_effort": "low"}, "extra_headers": {"x-team": "a"}},
        ),
    ],
)
def test_the_config_in_this_protocols_words(
    config: dict[str, Any], options: dict[str, Any]
) -> None:
    found = sent(config=config)
    assert {
        name: value for name, value in found.items() if name not in ("model", "messages")
    } == options


@pytest.mark.parametrize(
    ("model", "word"),
    [
        ("gpt-4.1", "max_tokens"),
        ("gpt-5", "max_completion_tokens"),
        ("o4-mini", "max_completion_tokens"),
    ],
)
def test_newer_models_want_another_word(model: str, word: str) -> None:
    assert sent(model, config={"maxOutputTokens": 5})[word] == 5


def test_what_cannot_be_said_here_is_told_and_not_left_out() -> None:
    with pytest.raises(JudgeFailed) as raised:
        sent(config={"thinking_config": {"thinking_budget": 0}})
    assert raised.value.failure.kind is JudgeFailureKind.BAD_REQUEST
    assert "thinkingConfig has no meaning" in raised.value.failure.message


@pytest.mark.parametrize(
    ("schema", "strict"),
    [({"type": "object", "additionalProperties": False}, True), ({"type": "object"}, False)],
)
def test_a_schema_is_strict_where_it_may_be(schema: dict[str, Any], strict: bool) -> None:
    form = sent(schema=schema)["response_format"]["json_schema"]
    assert (form["schema"], form["strict"]) == (schema, strict)


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert openai.DRIVER.missing(JudgeSetting(model="m")) == ""
    assert "set OPENAI_API_KEY" in openai.DRIVER.missing(
        JudgeSetting(model="m", api_key_env=("OPENAI_API_KEY",))
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    message = openai.DRIVER.missing(JudgeSetting(model="m"))
    assert re.search(r"install it: \S+ -m uv pip install --python \S+ .*openai", message)
