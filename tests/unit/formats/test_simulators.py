"""user_simulator_config: ADK's keys and defaults, and every way to get them wrong with its
place."""

from __future__ import annotations

import json

import pytest

from evalgate import formats
from evalgate.errors import Severity
from evalgate.formats import CriteriaReading
from evalgate.model import SimulatorUse

TEMPLATE = "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}"
RENDERS_AGAIN = TEMPLATE + "{{ stop_signal | render_string_filter }}"
CHAIN = TEMPLATE + "{{ a" + "/a" * 300 + " }}"
LONG_CHAIN = TEMPLATE + "{{ a" + "*a" * 1500 + " }}"


def parse(simulator) -> CriteriaReading:
    config = {"criteria": {"hallucinations_v1": 0.5}, "user_simulator_config": simulator}
    return formats.parse_criteria(json.dumps(config), file="test_config.json")


def test_without_a_config_there_is_none_and_an_empty_one_is_adks_default():
    assert (
        formats.parse_criteria(
            '{"criteria": {"safety_v1": 0.5}}', file="test_config.json"
        ).simulator
        is None
    )
    simulator = parse({}).simulator
    assert simulator is not None
    defaults = SimulatorUse()
    assert simulator == defaults
    assert (defaults.model, defaults.max_turns, defaults.stop_signal) == (
        "gemini-2.5-flash",
        20,
        "</finished>",
    )


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"type": None}, "model", "gemini-2.5-flash"),  # a missing type is llm_backed in ADK
        ({"type": "llm_backed", "model": "gpt-4.1"}, "model", "gpt-4.1"),
        ({"modelConfiguration": {"temperature": 0}}, "config", {"temperature": 0}),
        ({"max_allowed_invocations": -1}, "max_turns", None),  # no limit
        ({"max_allowed_invocations": -7}, "max_turns", None),
        # pydantic reads numbers from text, in ADK too
        ({"max_allowed_invocations": "4"}, "max_turns", 4),
        ({"customInstructions": TEMPLATE}, "custom_instructions", TEMPLATE),
        # by ADK's own filter
        ({"customInstructions": RENDERS_AGAIN}, "custom_instructions", RENDERS_AGAIN),
        ({"stop_signal": "BYE"}, "stop_signal", "BYE"),  # ours
    ],
)
def test_what_is_said_is_kept(given, field, value):
    reading = parse(given)
    assert reading.problems == ()
    assert getattr(reading.simulator, field) == value


@pytest.mark.parametrize(
    ("given", "code", "key", "hint"),
    [
        ({"type": "llm_audio"}, "not-supported", "type", "llm_backed"),
        ({"type": "llm_baked"}, "wrong-value", "type", "did you mean `llm_backed`?"),
        ({"max_allowed_invocations": 0}, "wrong-value", "max_allowed_invocations", "20"),
        ({"max_allowed_invocations": "many"}, "wrong-type", "max_allowed_invocations", ""),
        ({"model": 3}, "wrong-type", "model", ""),
        ({"model": " "}, "wrong-value", "model", ""),
        ({"stop_signal": ""}, "wrong-value", "stop_signal", ""),  # it would be found in every reply
        (
            {"custom_instructions": "Be a user."},
            "bad-instructions",
            "custom_instructions",
            "conversation_plan",
        ),
        # ADK's Jinja runs into Python's limits; looking for names took minutes
        ({"custom_instructions": CHAIN}, "bad-instructions", "custom_instructions", ""),
        ({"custom_instructions": LONG_CHAIN}, "bad-instructions", "custom_instructions", ""),
        (
            {"custom_instructions": TEMPLATE + "{% if %}"},
            "bad-instructions",
            "custom_instructions",
            "stop_signal",
        ),
        ({"model_configuration": []}, "wrong-type", "model_configuration", ""),
        (
            {"model_configuration": {"temprature": 0}},
            "bad-option",
            "model_configuration.temprature",
            "",
        ),
        ({"model_configuration": {"topK": "x"}}, "bad-option", "model_configuration.topK", ""),
    ],
)
def test_what_cannot_be_used_is_an_error_at_its_place(given, code, key, hint):
    reading = parse(given)
    assert reading.simulator is None
    [problem] = reading.problems
    assert (problem.severity, problem.code) == (Severity.ERROR, code)
    assert problem.place is not None
    assert problem.place.json_path == f"user_simulator_config.{key}"
    assert hint in problem.hint


@pytest.mark.parametrize(
    "key", ["max_invocations", "max-allowed-invocations", "Max_Allowed_Invocations"]
)
def test_an_unknown_key_is_told_with_the_nearest_one(key):
    reading = parse({key: 3})  # ADK takes it and reads it nowhere
    assert reading.simulator is not None
    [problem] = reading.problems
    assert (problem.severity, problem.hint) == (
        Severity.WARNING,
        "did you mean `max_allowed_invocations`?",
    )
