"""Two versions by field, and what of that relaxes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.gate import waiting
from evalgate.wings.ces import compare, resources as gate_resources, shapes
from evalgate.wings.ces.edit import Refused
from evalgate.wings.ces.read import Kind
from evalgate.wings.ces.resources import Resources

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


MAY_RELAX = [  # what is changed, and to what
    # thresholds, against the documented default where one is absent
    (GOLDEN, (*THRESHOLDS, "turnLevelMetricsThresholds", LEVEL), 2),
    (GOLDEN, (*TURNS, 0, OVERRIDE), {LEVEL: 1}),
    (GOLDEN, (*LAST, OVERRIDE, LEVEL), 0),
    (GOLDEN, (*FIRST, 2, "expectation", "expectationLevelMetricsThresholdsOverride"),
     {"toolInvocationParameterCorrectnessThreshold": 0.5}),
    # extra tools, similarity channel beside
    (GOLDEN, (*THRESHOLDS, "toolMatchingSettings", "extraToolCallBehavior"), "ALLOW"),
    (SCENARIO, (*THRESHOLDS, "toolMatchingSettings"), {"extraToolCallBehavior": "ALLOW"}),
    # not evaluated any more
    (GOLDEN, (*FIRST, 2, "expectation", "skipEvaluation"), True),
    # weaker comparisons
    (GOLDEN, (*LAST, "steps", 4, "expectation", "comparisonType"), "SEMANTIC_SIMILARITY"),
    (GOLDEN, (*LAST, "steps", 4, "expectation", "comparisonType"), ...),
    # metrics switched off: by a value, and by the message without its `true`
    (GOLDEN, (*LAST, "hallucinationMetricBehaviorOverride"), "DISABLED"),
    (SCENARIO, ("evaluationMetricsThresholdOverride", "scenarioHallucinationMetricBehavior"), ...),
    (GOLDEN, (*SIMILARITY, "enableSemanticSimilarityMetrics"), False),
    (GOLDEN, SIMILARITY, {}),
    (SCENARIO, SIMILARITY, {}),
    # goals
    (SCENARIO, ("scenario", "userGoalBehavior"), "USER_GOAL_IGNORED"),
    (SCENARIO, ("scenario", "userGoalBehavior"), "USER_GOAL_REJECTED"),
    # removed: an expectation, a rubric, a turn, a named expectation, all of a golden
    (GOLDEN, (*FIRST, 3), ...),
    (SCENARIO, ("scenario", "rubrics", 0), ...),
    (SCENARIO, ("scenario", "scenarioExpectations", 0), ...),
    (GOLDEN, (*TURNS, 1), ...),
    (GOLDEN, ("golden", "evaluationExpectations"), ...),
    (GOLDEN, ("golden",), ...),
    # replaced: what is expected, how an argument is compared, what is asked, how long
    (GOLDEN, (*FIRST, 2, "expectation", "agentResponse", "chunks", 0, "text"), "Hi"),
    (GOLDEN, (*LAST, "steps", 1, "expectation", "toolCall", "args", "weeks"), {"$matchType": "ignore"}),
    (GOLDEN, (*LAST, "steps", 1, "expectation", "toolCall", "args", "weeks"), ...),
    (GOLDEN, (*LAST, "steps", 0, "userInput", "text"), "Hi"),
    (SCENARIO, ("scenario", "rubrics", 0), "Whatever"),
    (SCENARIO, ("scenario", "task"), "Say hello"),
    (SCENARIO, ("scenario", "maxTurns"), ...),
    # added: what failed as unexpected is expected, or is not looked at; more is said to the agent;
    # its tools are faked
    (GOLDEN, (*FIRST, 4), SKIPPED),
    (GOLDEN, (*LAST, "steps", 9), {"expectation": {"toolCall": {"tool": "x"}}}),
    (GOLDEN, (*FIRST, 4), {"expectation": {"mockToolResponse": {"tool": "x", "response": {"a": 1}}}}),
    (GOLDEN, (*FIRST, 2, "expectation", "agentResponse", "chunks", 1), {"text": "x"}),
    (GOLDEN, (*FIRST, 4), {"userInput": {"text": "The answer is 7."}}),
    (GOLDEN, (*FIRST, 4), {"agentTransfer": {"targetAgent": "x"}}),
    (GOLDEN, (*FIRST, 0, "userInput", "variables", "more"), 1),
    (SCENARIO, ("scenario", "userFacts", 9), {"name": "a", "value": "b"}),
    (SCENARIO, ("scenario", "variableOverrides", "more"), 1),
    (SCENARIO, ("scenario", "scenarioExpectations", 9),
     {"toolExpectation": {"expectedToolCall": {"tool": "x"}, "mockToolResponse": {"tool": "x", "response": {"a": 1}}}}),
    # nothing is ranked: what names a value of its own is a person's to decide
    (GOLDEN, ("description",), "else"),
    (GOLDEN, ("tags",), []),
    (GOLDEN, (*FIRST, 2, "expectation", "note"), "x"),
    (GOLDEN, (*LAST, OVERRIDE), ...),
    (GOLDEN, (*LAST, "steps", 4, "expectation", "comparisonType"), "EQUALS"),
    (GOLDEN, (*LAST, "steps", 5, "expectation", "skipEvaluation"), ...),
    (SCENARIO, ("evaluationMetricsThresholdOverride", "goldenHallucinationMetricBehavior"), "ENABLED"),
    (GOLDEN, METRICS, ...),
    (GOLDEN, (*METRICS, "toolCorrectnessMetricsConfig"), ...),
    # an expected transfer allows one
    (GOLDEN, (*FIRST, 4), {"expectation": {"agentTransfer": {"targetAgent": "x"}}}),
    # a turn that cannot be run, or that skips
    (GOLDEN, (*TURNS, 3), {"steps": [{"userInput": {"dtmf": "1"}}]}),
    (GOLDEN, (*TURNS, 3), {"steps": [{"userInput": {"text": "And?"}}, SKIPPED]}),
    (GOLDEN, (*TURNS, 3), {"steps": [{"userInput": {"text": "And?"}}], OVERRIDE: {LEVEL: 0}}),
    # a new threshold may be lower than the app's
    (SCENARIO, (*THRESHOLDS, "turnLevelMetricsThresholds"), {LEVEL: 3}),
    # what is added to turns and expectations is a person's to read, also if it only restricts
    (SCENARIO, (*THRESHOLDS, "turnLevelMetricsThresholds"), {LEVEL: 4}),
    (GOLDEN, (*FIRST, 4), {"expectation": {"updatedVariables": {"a": 1}}}),
    (GOLDEN, (*TURNS, 3), {"steps": [{"userInput": {"text": "And?"}}]}),
    (SCENARIO, ("scenario", "scenarioExpectations", 9), {"agentResponse": {"chunks": [{"text": "x"}]}}),
]  # fmt: skip

ASKS_MORE = [
    (GOLDEN, (*LAST, OVERRIDE, LEVEL), 4),
    (SCENARIO, ("scenario", "rubrics", 2), "Is polite"),
    (GOLDEN, ("tags", 9), "more"),
]


@pytest.mark.parametrize("name", ["id", "name", "description", "tags", "enableExtras"])
def test_an_argument_counts_whatever_it_is_called(name: str) -> None:
    args = (*LAST, "steps", 1, "expectation", "toolCall", "args")
    before = changed(GOLDEN, args, {name: False})
    told = compare.relaxed_reasons(
        list(compare.changes(before, changed(GOLDEN, args, {name: True})))
    )
    assert [each.partition(": ")[2] for each in told] == ["it is replaced by another"]


def found(raw: dict[str, Any], path: tuple[Any, ...], value: Any) -> list[compare.FieldChange]:
    other = changed(raw, path, value)
    shapes.Evaluation.model_validate(other)  # what is compared is an evaluation
    return list(compare.changes(raw, other))


@pytest.mark.parametrize(("raw", "path", "value"), MAY_RELAX)
def test_an_assistant_proposes_what_may_relax(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    raw: dict[str, Any],
    path: tuple[Any, ...],
    value: Any,
) -> None:
    assert compare.relaxed_reasons(found(raw, path, value))
    monkeypatch.setattr(
        gate_resources.platformdirs, "user_cache_dir", lambda _: str(tmp_path / "cache")
    )
    file = tmp_path / "repository/evaluations/e/e.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(raw))
    root = file.parents[2]
    body, mask = changed(raw, path, value), str(path[0])
    with pytest.raises(Refused) as refused:
        Resources(root, no_relaxing=True).update(Kind.EVALUATION, body, mask=mask)
    assert json.loads(file.read_text()) == raw
    if path == ("golden",):
        assert refused.value.code == "INVALID_ARGUMENT"  # an evaluation of neither kind
        return
    assert refused.value.code == "PERMISSION_DENIED"
    (change,) = waiting.changes(root).values()
    assert f"`evalgate ces accept {change.name}`" in refused.value.message
    waiting.accept(root, change)
    accepted = shapes.Evaluation.model_validate(json.loads(file.read_text()))
    assert shapes.content_of(accepted) == shapes.content_of(shapes.Evaluation.model_validate(body))
    assert waiting.changes(root) == {}


@pytest.mark.parametrize(("raw", "path", "value"), ASKS_MORE)
def test_what_only_asks_for_more(raw: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    differences = found(raw, path, value)
    assert differences
    assert compare.relaxed_reasons(differences) == ()


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
