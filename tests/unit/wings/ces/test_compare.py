"""Two versions by field, and what of that relaxes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.wings.ces import compare, shapes
from evalgate.wings.ces.edit import Refused
from evalgate.wings.ces.mcp import resources as gate_resources
from evalgate.wings.ces.mcp.resources import Resources
from evalgate.wings.ces.read import Kind

DATA = Path(__file__).parents[3] / "data/ces"
GOLDEN = json.loads((DATA / "golden_library_renewal.json").read_text())
SCENARIO = json.loads((DATA / "scenario_lost_card.json").read_text())
TURNS = ("golden", "turns")
FIRST = (*TURNS, 0, "steps")
LAST = (*TURNS, 2)
OVERRIDE = "turnLevelMetricsThresholdsOverride"
THRESHOLDS = ("evaluationMetricsThresholdOverride", "goldenEvaluationMetricsThresholds")
LEVEL = "semanticSimilaritySuccessThreshold"
METRICS = ("evaluationMetricsConfigOverride", "goldenMetricsConfig")
SIMILARITY = (*METRICS, "semanticSimilarityMetricsConfig")
SKIPPED = {"expectation": {"skipEvaluation": True, "agentResponse": {"chunks": [{"text": "x"}]}}}


def changed(raw: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The same with another value at a path; `...` takes it out."""
    made = copy.deepcopy(raw)
    here: Any = made
    for step in path[:-1]:
        here = here.setdefault(step, {}) if isinstance(here, dict) else here[step]
    if value is ...:
        del here[path[-1]]
    elif isinstance(here, list) and path[-1] >= len(here):
        here.append(value)
    else:
        here[path[-1]] = value
    return made


RELAXES = [  # what is changed, to what, and what is said of it
    # thresholds, against the documented default where one is absent
    (GOLDEN, (*THRESHOLDS, "turnLevelMetricsThresholds", LEVEL), 2, "lowered from 3 to 2"),
    (GOLDEN, (*TURNS, 0, OVERRIDE), {LEVEL: 1}, "lowered from 3 to 1"),
    (GOLDEN, (*LAST, OVERRIDE, LEVEL), 0, "lowered from 2 to 0"),
    (GOLDEN, (*FIRST, 2, "expectation", "expectationLevelMetricsThresholdsOverride"),
     {"toolInvocationParameterCorrectnessThreshold": 0.5}, "lowered from 1 to 0.5"),
    # extra tools, similarity channel beside
    (GOLDEN, (*THRESHOLDS, "toolMatchingSettings", "extraToolCallBehavior"), "ALLOW", "becomes ALLOW, was FAIL"),
    (SCENARIO, (*THRESHOLDS, "toolMatchingSettings"), {"extraToolCallBehavior": "ALLOW"}, "becomes ALLOW"),
    # not evaluated any more
    (GOLDEN, (*FIRST, 2, "expectation", "skipEvaluation"), True, "not evaluated"),
    # weaker comparisons
    (GOLDEN, (*LAST, "steps", 4, "expectation", "comparisonType"), "SEMANTIC_SIMILARITY", "was CONTAINS"),
    (GOLDEN, (*LAST, "steps", 4, "expectation", "comparisonType"), ..., "becomes unspecified"),
    # metrics switched off: by a value, and by the message without its `true`
    (GOLDEN, (*LAST, "hallucinationMetricBehaviorOverride"), "DISABLED", "was ENABLED"),
    (SCENARIO, ("evaluationMetricsThresholdOverride", "scenarioHallucinationMetricBehavior"), ..., "was ENABLED"),
    (GOLDEN, (*SIMILARITY, "enableSemanticSimilarityMetrics"), False, "switched off"),
    (GOLDEN, SIMILARITY, {}, "switched off"),
    (SCENARIO, SIMILARITY, {}, "switched off"),
    # goals
    (SCENARIO, ("scenario", "userGoalBehavior"), "USER_GOAL_IGNORED", "becomes USER_GOAL_IGNORED"),
    (SCENARIO, ("scenario", "userGoalBehavior"), "USER_GOAL_REJECTED", "another goal"),
    # removed: an expectation, a rubric, a turn, a named expectation, all of a golden
    (GOLDEN, (*FIRST, 3), ..., "the expectation is removed"),
    (SCENARIO, ("scenario", "rubrics", 0), ..., "the rubric is removed"),
    (SCENARIO, ("scenario", "scenarioExpectations", 0), ..., "the expectation is removed"),
    (GOLDEN, (*TURNS, 1), ..., "the turn is removed"),
    (GOLDEN, ("golden", "evaluationExpectations"), ..., "the expectation is removed"),
    (GOLDEN, ("golden",), ..., "the golden is removed"),
    # replaced: what is expected, how an argument is compared, what is asked, how long
    (GOLDEN, (*FIRST, 2, "expectation", "agentResponse", "chunks", 0, "text"), "Hi", "the expectation is replaced"),
    (GOLDEN, (*LAST, "steps", 1, "expectation", "toolCall", "args", "weeks"), {"$matchType": "ignore"}, "argument"),
    (GOLDEN, (*LAST, "steps", 1, "expectation", "toolCall", "args", "weeks"), ..., "the expected argument is removed"),
    (GOLDEN, (*LAST, "steps", 0, "userInput", "text"), "Hi", "the user input is replaced"),
    (SCENARIO, ("scenario", "rubrics", 0), "Whatever", "the rubric is replaced"),
    (SCENARIO, ("scenario", "task"), "Say hello", "the task is replaced"),
    (SCENARIO, ("scenario", "maxTurns"), ..., "limit of turns"),
    # added: what failed as unexpected is expected, or is not looked at; more is said to the agent;
    # its tools are faked
    (GOLDEN, (*FIRST, 4), SKIPPED, "the expectation is added"),
    (GOLDEN, (*LAST, "steps", 9), {"expectation": {"toolCall": {"tool": "x"}}}, "the expectation is added"),
    (GOLDEN, (*FIRST, 4), {"expectation": {"mockToolResponse": {"tool": "x", "response": {"a": 1}}}}, "is added"),
    (GOLDEN, (*FIRST, 2, "expectation", "agentResponse", "chunks", 1), {"text": "x"}, "the expectation is added"),
    (GOLDEN, (*FIRST, 4), {"userInput": {"text": "The answer is 7."}}, "the step is added"),
    (GOLDEN, (*FIRST, 4), {"agentTransfer": {"targetAgent": "x"}}, "the step is added"),
    (GOLDEN, (*FIRST, 0, "userInput", "variables", "more"), 1, "the user input is added"),
    (SCENARIO, ("scenario", "userFacts", 9), {"name": "a", "value": "b"}, "the fact is added"),
    (SCENARIO, ("scenario", "variableOverrides", "more"), 1, "is added"),
    (SCENARIO, ("scenario", "scenarioExpectations", 9),
     {"toolExpectation": {"expectedToolCall": {"tool": "x"}, "mockToolResponse": {"tool": "x", "response": {"a": 1}}}},
     "is added"),
]  # fmt: skip

TIGHTENS = [
    (GOLDEN, ("description",), "else"),
    (GOLDEN, ("tags",), []),
    (GOLDEN, (*FIRST, 2, "expectation", "note"), "x"),
    (GOLDEN, (*LAST, OVERRIDE, LEVEL), 4),
    (GOLDEN, (*LAST, OVERRIDE), ...),  # the default asks more than the override
    (GOLDEN, (*LAST, "steps", 4, "expectation", "comparisonType"), "EQUALS"),
    (GOLDEN, (*LAST, "steps", 5, "expectation", "skipEvaluation"), ...),
    (GOLDEN, (*FIRST, 4), {"expectation": {"updatedVariables": {"a": 1}}}),  # a further expectation
    (GOLDEN, (*FIRST, 4), {"expectation": {"agentTransfer": {"targetAgent": "x"}}}),
    (GOLDEN, (*TURNS, 3), {"steps": [{"userInput": {"text": "And?"}}]}),  # behind all others
    (
        SCENARIO,
        ("scenario", "scenarioExpectations", 9),
        {"agentResponse": {"chunks": [{"text": "x"}]}},
    ),
    (SCENARIO, ("scenario", "rubrics", 2), "Is polite"),
    (
        SCENARIO,
        ("evaluationMetricsThresholdOverride", "goldenHallucinationMetricBehavior"),
        "ENABLED",
    ),
    (GOLDEN, METRICS, ...),  # switched on as by default
    (GOLDEN, (*METRICS, "toolCorrectnessMetricsConfig"), ...),
]


@pytest.mark.parametrize("name", ["id", "name", "description", "tags", "enableExtras"])
def test_an_argument_counts_whatever_it_is_called(name: str) -> None:
    args = (*LAST, "steps", 1, "expectation", "toolCall", "args")
    before = changed(GOLDEN, args, {name: False})
    told = compare.relaxations(list(compare.changes(before, changed(GOLDEN, args, {name: True}))))
    assert [each.reason for each in told] == ["the expected argument is replaced by another"]


def found(raw: dict[str, Any], path: tuple[Any, ...], value: Any) -> list[compare.FieldChange]:
    other = changed(raw, path, value)
    shapes.Evaluation.model_validate(other)  # what is compared is an evaluation
    return list(compare.changes(raw, other))


@pytest.mark.parametrize(("raw", "path", "value", "said"), RELAXES)
def test_what_relaxes(raw: dict[str, Any], path: tuple[Any, ...], value: Any, said: str) -> None:
    assert said in " ".join(map(str, compare.relaxations(found(raw, path, value))))


@pytest.mark.parametrize(("raw", "path", "value", "said"), RELAXES)
def test_an_assistant_is_refused_what_relaxes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    raw: dict[str, Any],
    path: tuple[Any, ...],
    value: Any,
    said: str,
) -> None:
    monkeypatch.setattr(
        gate_resources.platformdirs, "user_cache_dir", lambda _: str(tmp_path / "cache")
    )
    file = tmp_path / "repository/evaluations/e/e.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(raw))
    body, mask = changed(raw, path, value), str(path[0])
    with pytest.raises(Refused) as told:
        Resources(file.parents[2], no_relaxing=True).update(Kind.EVALUATION, body, mask=mask)
    if path == ("golden",):
        assert told.value.code == "INVALID_ARGUMENT"  # an evaluation of neither kind
    else:
        assert told.value.code == "PERMISSION_DENIED"
        assert any(
            said in why or said in str(told.value.message) for _, why in told.value.violations
        )
    assert json.loads(file.read_text()) == raw


@pytest.mark.parametrize(("raw", "path", "value"), TIGHTENS)
def test_what_does_not(raw: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    differences = found(raw, path, value)
    assert differences
    assert [str(each) for each in compare.relaxations(differences)] == []


PERSONA = {"displayName": "p", "personality": "curt"}
APPS = [  # what an app says, what it says then, and what is told of it
    ({}, {"evaluationSettings": {"goldenEvaluationToolCallBehaviour": "FAKE"}}, ["becomes FAKE"]),
    (
        {"evaluationSettings": {}},
        {"evaluationSettings": {"goldenRunMethod": "NAIVE"}},
        ["becomes NAIVE"],
    ),
    ({}, {"evaluationSettings": {"goldenRunMethod": "STABLE"}}, []),
    (
        {},
        {"evaluationSettings": {"metricsConfig": changed({}, METRICS[1:], {SIMILARITY[-1]: {}})}},
        ["switched off"],
    ),
    ({}, {"evaluationSettings": {"scenarioConversationInitiator": "AGENT"}}, ["becomes AGENT"]),
    (
        {"evaluationPersonas": [PERSONA]},
        {"evaluationPersonas": [{**PERSONA, "personality": "kind"}]},
        ["replaced"],
    ),
    ({}, {"evaluationPersonas": [PERSONA]}, ["the persona is added"]),
    # one more prompt, by its name
    ({"llmCriteria": {}}, {"llmCriteria": {"polite": "Is it polite?"}}, []),
]


@pytest.mark.parametrize(("old", "new", "said"), APPS)
def test_what_relaxes_in_an_app(old: Any, new: Any, said: list[str]) -> None:
    told = [str(each) for each in compare.relaxations(list(compare.changes(old, new)))]
    assert len(told) == len(said), told
    assert all(words in text for words, text in zip(said, told, strict=True)), told


def test_what_relaxes_in_a_simulation() -> None:
    step = {"goal": "g", "success_criteria": "s"}
    old = {"name": "a", "steps": [step], "expectations": ["polite"]}
    for new, said in (
        ({**old, "expectations": []}, "the expectation is removed"),
        ({**old, "steps": [{**step, "static_utterance": "x"}]}, "is added"),
        ({**old, "steps": [{**step, "success_criteria": "t"}]}, "is replaced"),
        ({**old, "steps": [step, step], "expectations": ["polite", "brief"]}, ""),
    ):
        assert said in " ".join(map(str, compare.relaxations(list(compare.changes(old, new)))))
        assert bool(said) == bool(compare.relaxations(list(compare.changes(old, new))))


CHANGES = [  # old, new, what is told
    ({"a": 1}, {"a": 1.0}, []),
    ({"a": 1}, {"a": True}, ["a: 1 -> true"]),
    ({"a": None}, {}, ["a: null -> (not set)"]),
    # what is inserted does not change all behind it
    ({"a": [1, 2, 3]}, {"a": [0, 1, 2, 3]}, ["a[0]: (not set) -> 0"]),
    ({"a": [1, 2, 3]}, {"a": [1, 3]}, ["a[1]: 2 -> (not set)"]),
    ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1, "c": 3}]}, ["a[0].c: 2 -> 3"]),
    ([], {}, ["(whole): [] -> {}"]),
]


@pytest.mark.parametrize(("old", "new", "told"), CHANGES)
def test_changes_by_field(old: Any, new: Any, told: list[str]) -> None:
    assert [str(each) for each in compare.changes(old, new)] == told
