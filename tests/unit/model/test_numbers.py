"""Counts and seconds that agents, judges and files report: what cannot be is unknown, and harms no
report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalgate.agents import protocol
from evalgate.agents.protocol import EventMessage
from evalgate.formats.adk_shapes import InvocationWire, UsageWire
from evalgate.formats.recordings import parse_recordings
from evalgate.judges import openai, replay
from evalgate.model import shapes
from evalgate.runner import budget

COUNTS: list[tuple[Any, int | None]] = [
    (0, 0),
    (12, 12),
    (12.0, 12),  # JSON has one kind of number
    ("12", 12),  # as some gateways write it
    (2**53 - 1, 2**53 - 1),
    (2**53, None),  # no longer exact everywhere
    (10**400, None),  # no float holds it
    ("9" * 400, None),  # the same as a text
    (-5, None),
    (1.5, None),
    (float("inf"), None),
    (float("nan"), None),
    (True, None),
    (None, None),
]


@pytest.mark.parametrize(("given", "expected"), COUNTS)
def test_a_count_is_a_whole_number_that_can_be_or_unknown(given: Any, expected: int | None) -> None:
    assert (
        UsageWire.model_validate({"prompt_token_count": given}).to_model().prompt_tokens == expected
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0, 0.0),
        (2.5, 2.5),
        (shapes.MOST_SECONDS, shapes.MOST_SECONDS),
        (2 * shapes.MOST_SECONDS, None),
        (10**400, None),
        (-1, None),
        (float("inf"), None),
        (float("nan"), None),
        ("Infinity", None),  # how results.json writes it
    ],
)
def test_a_duration_is_a_time_that_can_be_or_unknown(given: Any, expected: float | None) -> None:
    turn = InvocationWire.model_validate(
        {"user_content": {}, "duration": 1, "tool_duration": given}
    ).to_model()
    assert turn.timings is not None
    assert turn.timings.tool_s == expected


def test_an_agent_that_lies_about_its_tokens_is_no_crash() -> None:
    said = {
        "prompt_token_count": 10**400,
        "candidates_token_count": 7,
        "total_token_count": 10**400,
    }
    line = json.dumps({"type": "event", "session": "s", "usage_metadata": said}).encode()
    event = protocol.parse_worker_message(line)
    assert isinstance(event, EventMessage)
    usage = event.step().usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.candidates_tokens, usage.total_tokens) == (None, 7, None)


def test_recorded_tokens_that_cannot_be_are_unknown_too() -> None:
    lines = [
        {"author": "user", "content": {"parts": [{"text": "hi"}]}},
        {"author": "a", "content": {"parts": [{"text": "x"}]}, "usage_metadata": {"total_token_count": 10**400}},
    ]  # fmt: skip
    reading = parse_recordings("\n".join(map(json.dumps, lines)), file="r.jsonl")
    (recording,) = reading.recordings
    assert reading.problems == ()
    assert budget.tokens_of(budget.calls_of(recording.transcript)) is None


def test_a_judge_that_lies_about_its_tokens_is_no_crash() -> None:
    usage = openai._usage_of({"prompt_tokens": 10**400, "completion_tokens": -5, "total_tokens": 9})
    assert usage is not None
    assert (usage.prompt_tokens, usage.candidates_tokens, usage.total_tokens) == (None, None, 9)


def test_so_is_one_that_was_recorded() -> None:
    kept = {
        "format": 1,
        "address": "a",
        "parts": [{"text": "valid"}],
        "usage": {"prompt_tokens": 10**400},
    }
    usage = replay.parse_entry(json.dumps(kept)).reply.usage
    assert usage is not None
    assert usage.prompt_tokens is None
