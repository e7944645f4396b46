"""No file, however strange, gets more than a problem out of a parser."""

from __future__ import annotations

import json

from hypothesis import given, settings, strategies as st

from evalgate import formats
from evalgate.errors import Severity
from evalgate.text import plain
from evalgate.wings.google_cloud.eval_config import parse_eval_config

KEYS = st.sampled_from(
    [
        "eval_set_id", "evalSetId", "eval_cases", "evalCases", "eval_id", "evalId", "id", "name", "data", "query",
        "conversation", "conversation_scenario", "conversationScenario", "user_persona", "session_input", "state",
        "user_content", "userContent", "final_response", "intermediate_data", "intermediateData", "tool_uses",
        "tool_responses", "intermediate_responses", "invocation_events", "rubrics", "rubric_content", "tools",
        "parts", "text", "role", "content", "args", "function_call", "function", "arguments", "result", "author",
        "expected_tool_use", "tool_name", "tool_input", "reference", "initial_session", "prompt", "agent_data",
        "turns", "events", "user_scenario", "eval_case_id", "conversation_history", "rubric_groups", "response",
        "criteria", "custom_metrics", "threshold", "code_config", "informational", "user_simulator_config", "oops",
    ]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JUNK = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=40,
)
CASES = st.lists(st.dictionaries(KEYS, JUNK, max_size=5), max_size=3)


def is_sound(reading) -> bool:
    has_error = any(p.severity is Severity.ERROR for p in reading.problems)
    return is_placed(reading, "f.json") and (reading.eval_set is None) == has_error


def is_placed(reading, file: str) -> bool:
    return all(p.place is not None and p.place.file == file for p in reading.problems)


@settings(max_examples=40, deadline=None)
@given(JUNK)
def test_arbitrary_json(value):
    text = json.dumps(value)
    assert is_sound(formats.parse_eval_set(text, file="f.json"))
    assert is_placed(formats.parse_criteria(text, file="f.json"), "f.json")
    assert is_placed(parse_eval_config(text, file="f.yaml"), "f.yaml")
    formats.kind_of(text, file="f.test.json")


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_arbitrary_cases(cases):
    text = json.dumps({"eval_set_id": "s", "eval_cases": cases}, indent=1)
    assert is_sound(formats.parse_eval_set(text, file="f.json"))


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_arbitrary_lists(items):
    assert is_sound(formats.parse_eval_set(json.dumps(items), file="f.json"))


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=5), JUNK, max_size=4), JUNK)
def test_arbitrary_criteria(criteria, metrics):
    reading = formats.parse_criteria(
        json.dumps({"criteria": criteria, "custom_metrics": metrics}), file="f.json"
    )
    assert {use.name for use in reading.criteria} <= criteria.keys()


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=80))
def test_arbitrary_text(text):
    assert is_sound(formats.parse_eval_set(text, file="f.json"))
    assert is_placed(formats.parse_criteria(text, file="f.json"), "f.json")
    assert is_placed(parse_eval_config(text, file="f.yaml"), "f.yaml")


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=40))
def test_arbitrary_bytes(data):
    found = plain.decode(data, file="f.json")
    assert isinstance(found, str) or (found.place is not None and found.place.file == "f.json")
