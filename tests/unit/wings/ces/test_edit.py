# ruff: noqa: E501 - a row is a line
"""What an update makes of a resource, by its mask; and of the text of its file, where only the
value changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.config import yaml
from evalgate.wings.ces import edit, shapes
from evalgate.wings.ces.edit import Refused
from evalgate.wings.ces.shapes import Evaluation

DATA = Path(__file__).parents[3] / "data/ces"
TURN = {"steps": [{"userInput": {"text": "hi"}}]}
OTHER = {"steps": [{"userInput": {"text": "ho"}}]}
LEVEL = {"turnLevelMetricsThresholds": {"semanticSimilaritySuccessThreshold": 2}}
THRESHOLDS = {
    "goldenEvaluationMetricsThresholds": LEVEL,
    "goldenHallucinationMetricBehavior": "ENABLED",
}
GOLDEN = {
    "name": "n",
    "displayName": "a",
    "description": "d",
    "tags": ["x", "y"],
    "golden": {"turns": [TURN, OTHER], "evaluationExpectations": ["e"]},
    "evaluationMetricsThresholdOverride": THRESHOLDS,
}
SCENARIO = {
    "name": "n",
    "displayName": "a",
    "scenario": {"task": "t", "maxTurns": 3, "variableOverrides": {"a": 1, "b": 2}},
}
OVERRIDE = "evaluationMetricsThresholdOverride"
DEEP = f"{OVERRIDE}.goldenEvaluationMetricsThresholds.turnLevelMetricsThresholds.semanticSimilaritySuccessThreshold"


def but(raw: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The same with other fields; `...` takes one out."""
    return {key: value for key, value in {**raw, **values}.items() if value is not ...}


ROWS = [  # stored, body, mask, result
    # one field, in all forms of a mask and both spellings
    (GOLDEN, {"displayName": "b"}, "displayName", but(GOLDEN, displayName="b")),
    (GOLDEN, {"displayName": "b"}, "display_name", but(GOLDEN, displayName="b")),
    (GOLDEN, {"displayName": "b"}, ["displayName"], but(GOLDEN, displayName="b")),
    (GOLDEN, {"displayName": "b"}, {"paths": ["display_name"]}, but(GOLDEN, displayName="b")),
    (GOLDEN, {"displayName": "b", "tags": ["z"]}, "displayName, tags", but(GOLDEN, displayName="b", tags=["z"])),
    # a field of the body that is not masked stays as it is stored
    (GOLDEN, {"displayName": "b", "description": "else"}, "displayName", but(GOLDEN, displayName="b")),
    # masked and absent: cleared; also where it is absent already, and twice
    (GOLDEN, {}, "description", but(GOLDEN, description=...)),
    (SCENARIO, {}, "description", SCENARIO),
    (GOLDEN, {}, "description,description", but(GOLDEN, description=...)),
    # repeated: replaced, not appended; shortened; cleared
    (GOLDEN, {"tags": ["z"]}, "tags", but(GOLDEN, tags=["z"])),
    (GOLDEN, {}, "tags", but(GOLDEN, tags=...)),
    (GOLDEN, {"golden": {"turns": [TURN]}}, "golden.turns", but(GOLDEN, golden={"turns": [TURN], "evaluationExpectations": ["e"]})),
    # a nested field, its neighbors kept
    (GOLDEN, {"golden": {"evaluationExpectations": ["f"]}}, "golden.evaluationExpectations",
     but(GOLDEN, golden={"turns": [TURN, OTHER], "evaluationExpectations": ["f"]})),
    # a message: replaced whole
    (GOLDEN, {"golden": {"turns": [OTHER]}}, "golden", but(GOLDEN, golden={"turns": [OTHER]})),
    # a nested leaf is cleared, also where the body lacks all above it; its neighbors stay
    (GOLDEN, {}, f"{OVERRIDE}.goldenHallucinationMetricBehavior",
     but(GOLDEN, **{OVERRIDE: {"goldenEvaluationMetricsThresholds": LEVEL}})),
    (GOLDEN, {}, DEEP, but(GOLDEN, **{OVERRIDE: {**THRESHOLDS, "goldenEvaluationMetricsThresholds": {"turnLevelMetricsThresholds": {}}}})),
    # nothing is made only to be cleared
    (SCENARIO, {}, DEEP, SCENARIO),
    # a nested leaf is set where nothing above it is
    (SCENARIO, {OVERRIDE: THRESHOLDS}, DEEP, but(SCENARIO, **{OVERRIDE: {"goldenEvaluationMetricsThresholds": LEVEL}})),
    # an explicit zero is a value
    (GOLDEN, {OVERRIDE: {"goldenEvaluationMetricsThresholds": {"turnLevelMetricsThresholds": {"semanticSimilaritySuccessThreshold": 0}}}}, DEEP,
     but(GOLDEN, **{OVERRIDE: {**THRESHOLDS, "goldenEvaluationMetricsThresholds": {"turnLevelMetricsThresholds": {"semanticSimilaritySuccessThreshold": 0}}}})),
    # a Struct is replaced, not merged
    (SCENARIO, {"scenario": {"variableOverrides": {"c": 3}}}, "scenario.variableOverrides",
     but(SCENARIO, scenario={"task": "t", "maxTurns": 3, "variableOverrides": {"c": 3}})),
    # oneofs switch, by the whole and by a field of it
    (GOLDEN, {"scenario": {"task": "t"}}, "scenario", but(GOLDEN, golden=..., scenario={"task": "t"})),
    (GOLDEN, {"scenario": {"task": "t", "maxTurns": 4}}, "scenario.task", but(GOLDEN, golden=..., scenario={"task": "t"})),
    (SCENARIO, {"golden": {"turns": [TURN]}}, "golden.turns", but(SCENARIO, scenario=..., golden={"turns": [TURN]})),
    # to clear the member that is not set changes nothing; the one that is set goes
    (GOLDEN, {}, "scenario", GOLDEN),
    (GOLDEN, {}, "scenario.task", GOLDEN),
    (GOLDEN, {}, "golden", but(GOLDEN, golden=...)),
    # everything: what the body lacks is cleared; the name stays
    (GOLDEN, {"displayName": "b", "scenario": {"task": "t"}}, "*", {"name": "n", "displayName": "b", "scenario": {"task": "t"}}),
    (GOLDEN, {"name": "m", "displayName": "b"}, "*", {"name": "n", "displayName": "b"}),
    # none: the fields of the body
    (GOLDEN, {"displayName": "b"}, None, but(GOLDEN, displayName="b")),
    (GOLDEN, {"displayName": "b"}, "", but(GOLDEN, displayName="b")),
    (GOLDEN, {"displayName": "b"}, {"paths": []}, but(GOLDEN, displayName="b")),
    (GOLDEN, {"golden": {"turns": [TURN]}}, [], but(GOLDEN, golden={"turns": [TURN]})),
    # output only, and the name: ignored in the mask and in the body
    (GOLDEN, {"name": "m", "etag": "e", "createTime": "2027-02-01T10:00:00Z"}, "name,etag,createTime", GOLDEN),
    (GOLDEN, {"aggregatedMetrics": {}, "displayName": "b"}, "aggregatedMetrics.metricsByAppVersion,displayName", but(GOLDEN, displayName="b")),
    (GOLDEN, {"etag": "e"}, None, GOLDEN),
]  # fmt: skip

INVALID = [  # mask, what is said
    ("displayNam", "`displayNam` is not a field; did you mean `displayName`?"),
    ("displayName.x", "`displayName` has no fields"),
    ("golden.turns.steps", "`turns` is a list"),
    ("golden.turns.0", "`turns` is a list"),
    ("scenario.userFacts.name", "`userFacts` is a list"),
    ("scenario.variableOverrides.a", "`variableOverrides` has no fields"),
    ("inputs", "`inputs` is not a field"),
    ("golden.", "is not a field"),
    ("*,displayName", "stands alone"),
    (3, "expected text with commas"),
    ({"path": []}, "or {paths: [...]}"),
    ([1], "expected text with commas"),
]


@pytest.mark.parametrize(("stored", "body", "mask", "result"), ROWS)
def test_masks(
    stored: dict[str, Any], body: dict[str, Any], mask: Any, result: dict[str, Any]
) -> None:
    content = shapes.content_of(Evaluation.model_validate(body))
    before = json.dumps(stored)
    assert (
        edit.with_fields(stored, content, edit.mask_of(mask, body, Evaluation), Evaluation)
        == result
    )
    assert json.dumps(stored) == before


@pytest.mark.parametrize(("mask", "said"), INVALID)
def test_invalid_masks(mask: Any, said: str) -> None:
    with pytest.raises(Refused) as told:
        edit.mask_of(mask, {}, Evaluation)
    assert told.value.code == "INVALID_ARGUMENT"
    assert said in told.value.message
    assert told.value.violations[0][0] == "updateMask"


def test_there_are_enough_rows() -> None:
    assert len(ROWS) >= 30


# --- the text of a file ---------------------------------------------------------------------------

TEXTS = [  # text, what becomes of the value, the text after it
    ('{\n  "a": 1,\n  "b": [1, 2]\n}\n', {"a": 2, "b": [1, 2]}, '{\n  "a": 2,\n  "b": [1, 2]\n}\n'),
    (
        '{\n  "a": 1,\n  "b": [1, 2]\n}\n',
        {"a": 1, "b": [1, 3, 2]},
        '{\n  "a": 1,\n  "b": [1, 3, 2]\n}\n',
    ),
    ('{\n  "a": 1,\n  "b": 2\n}\n', {"b": 2}, '{\n  "b": 2\n}\n'),
    ('{\n  "a": 1,\n  "b": 2\n}\n', {"a": 1}, '{\n  "a": 1\n}\n'),
    (
        '{\n  "a": 1\n}\n',
        {"a": 1, "c": {"d": [1]}},
        '{\n  "a": 1,\n  "c": {\n    "d": [\n      1\n    ]\n  }\n}\n',
    ),
    ('{"a":1,"b":2}', {"a": 1, "b": 3, "c": 4}, '{"a":1,"b":3, "c": 4}'),
    (
        '{\n\t"a": {},\n\t"b": "é"\n}',
        {"a": {"x": 1}, "b": "é"},
        '{\n\t"a": {\n\t\t"x": 1\n\t},\n\t"b": "é"\n}',
    ),
    # the keys of the file keep their spelling
    ('{"display_name": "a"}', {"displayName": "b"}, '{"display_name": "b"}'),
    # a repeated key is removed everywhere: an earlier value must not count instead
    ('{"a": 1, "b": 2, "a": 3}', {"b": 2}, '{"b": 2}'),
    ('{"a": 1, "a": 3}', {"b": 2}, '{"b": 2}'),
]
YAMLS = [
    ("# top\na: 1  # one\nb: [1, 2]\n", {"a": 2, "b": [1, 2]}, "# top\na: 2  # one\nb: [1, 2]\n"),
    ("a: 1\n# two\nb: 2\n", {"a": 1, "b": 2, "c": {"d": "x"}}, "a: 1\n# two\nb: 2\nc:\n  d: x\n"),
    ("a: 1  # one\nb: 2\n", {"b": 2}, "b: 2\n"),
    ("a:\n  - x: 1  # one\n    y: 2\n  - x: 3\n", {"a": [{"y": 2}, {"x": 3}]}, "a:\n  - y: 2\n  - x: 3\n"),
    ("a:\n  - x: 1\n  # keep\n  - x: 3\nb: 1\n", {"a": [{"x": 3}], "b": 1}, "a:\n  # keep\n  - x: 3\nb: 1\n"),
    ("a:\n  - x: 1\n", {"a": [{"x": 0}, {"x": 1}]}, "a:\n  - x: 0\n  - x: 1\n"),
    ("a:\n- x: 1\nb: 2\n", {"a": [{"x": 1}, {"x": 2}], "b": 2}, "a:\n- x: 1\n- x: 2\nb: 2\n"),
    ("a: |\n  long\n  text\nb: 1\n", {"a": "short", "b": 1}, "a: short\nb: 1\n"),
    ("a: {x: 1, y: 2}\n", {"a": {"y": 2, "z": 3}}, 'a: {y: 2, "z": 3}\n'),
    ("a: x\n", {"a": "yes: no"}, "a: 'yes: no'\n"),
    ("a: x\nb: 1\n", {"a": ["x"], "b": 1}, 'a: ["x"]\nb: 1\n'),
    ("a: 1\nb: 2\na: 3\n", {"b": 2}, "b: 2\n"),
]  # fmt: skip


def value_of(text: str, *, is_json: bool) -> Any:
    if is_json:
        return json.loads(text)
    return yaml.load(text, file="x", loader_type=yaml.JsonLoader).raw


@pytest.mark.parametrize(("text", "new", "after"), [*TEXTS, *YAMLS])
def test_only_the_value_changes(text: str, new: Any, after: str) -> None:
    is_json = text.startswith("{")
    old = json.loads(
        json.dumps(value_of(text, is_json=is_json)).replace("display_name", "displayName")
    )
    assert edit.edited(text, old, new, is_json=is_json) == after


VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=4)
    | st.sampled_from(["yes", "2027-01-01", "# x", "- a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c d"]), inner, max_size=3)
    ),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUE, min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(old=OBJECT, new=OBJECT, indent=st.sampled_from([None, 2, "\t"]))
def test_any_json_becomes_any_other(old: Any, new: Any, indent: Any) -> None:
    text = json.dumps(old, indent=indent)
    assert json.loads(edit.edited(text, old, new, is_json=True)) == new


def test_anchors_are_left_to_people() -> None:
    with pytest.raises(Refused, match="anchors"):
        edit.edited("a: &x 1\nb: *x\n", {"a": 1, "b": 1}, {"a": 2, "b": 1}, is_json=False)
