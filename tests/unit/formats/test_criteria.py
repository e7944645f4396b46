"""test_config.json: thresholds and options in every shape, and what is wrong with the rest."""

from __future__ import annotations

import json

import pytest

from evalgate import formats
from evalgate.errors import Severity
from evalgate.formats import CriteriaReading


def parse(value) -> CriteriaReading:
    text = value if isinstance(value, str) else json.dumps(value, indent=2)
    return formats.parse_criteria(text, file="a/test_config.json")


def found(reading: CriteriaReading) -> list[tuple[Severity, str, str]]:
    return [(p.severity, p.code, p.place.json_path if p.place else "") for p in reading.problems]


@pytest.mark.parametrize(
    ("value", "threshold", "codes"),
    [
        (0.8, 0.8, []),
        (1, 1.0, []),
        (0, 0.0, []),
        (-1.5, -1.5, []),
        ({"threshold": 0.5}, 0.5, []),
        # ADK takes numbers written as text, and true
        ("0.5", 0.5, ["threshold-not-a-number"]),
        ({"threshold": "0.5"}, 0.5, ["threshold-not-a-number"]),
        (True, 1.0, ["threshold-not-a-number"]),
    ],
)
def test_thresholds(value, threshold, codes):
    reading = parse({"criteria": {"response_match_score": value}})
    [use] = reading.criteria
    assert (use.name, use.threshold, dict(use.options)) == ("response_match_score", threshold, {})
    assert [p.code for p in reading.problems] == codes
    assert use.place is not None
    assert (use.place.line, use.place.column) == (3, 5)


@pytest.mark.parametrize(
    ("value", "code", "hint"),
    [
        (None, "bad-threshold", "0.8"),
        ("high", "bad-threshold", "0.8"),
        ([0.8], "bad-threshold", "0.8"),
        (float("nan"), "bad-threshold", "0.8"),
        (float("inf"), "bad-threshold", "0.8"),
        ({"threshold": None}, "bad-threshold", "0.8"),
        ({}, "missing-threshold", "threshold"),
        ({"min_score": 0.5}, "missing-threshold", "`min_score` is there instead"),
        ({"treshold": 0.5}, "missing-threshold", "`treshold` is there instead"),
        ({"threshold": 1, "informational": "yes"}, "wrong-type", ""),
    ],
)
def test_thresholds_that_cannot_be_read(value, code, hint):
    reading = parse({"criteria": {"m": value, "response_match_score": 0.8}})
    assert [use.name for use in reading.criteria] == ["response_match_score"]
    [problem] = [p for p in reading.problems if p.severity is Severity.ERROR]
    assert problem.code == code
    assert hint in problem.hint
    assert problem.place is not None
    assert problem.place.line in (3, 4, 5, 6)


def test_options_are_snake_case_at_their_level_and_untouched_below():
    value = {
        "threshold": 0.8,
        "judgeModelOptions": {"judgeModel": "m"},
        "rubrics": [{"rubricId": "r"}],
    }
    [use] = parse({"criteria": {"final_response_match_v2": value}}).criteria
    assert use.options == {
        "judge_model_options": {"judgeModel": "m"},
        "rubrics": [{"rubricId": "r"}],
    }


@pytest.mark.parametrize("order", [("match_type", "matchType"), ("matchType", "match_type")])
def test_of_both_spellings_of_an_option_the_one_that_adk_reads_counts(order):
    values = {"match_type": "EXACT", "matchType": "IN_ORDER"}
    value = {"threshold": 1, **{key: values[key] for key in order}}
    reading = parse({"criteria": {"tool_trajectory_avg_score": value}})
    assert reading.criteria[0].options == {"match_type": "IN_ORDER"}
    assert [code for _, code, _ in found(reading)] == ["duplicate-key"]


@pytest.mark.parametrize(
    "key", ["match-type", "Match_Type", "MATCH_TYPE", "MatchType", "ignore-args", "Informational"]
)
def test_other_spellings_of_an_option_stay_as_written(key):
    [use] = parse({"criteria": {"tool_trajectory_avg_score": {"threshold": 1, key: True}}}).criteria
    assert (use.options, use.informational) == ({key: True}, False)


@pytest.mark.parametrize("key", ["Threshold", "THRESHOLD"])
def test_other_spellings_of_the_threshold_are_an_error(key):
    [problem] = parse({"criteria": {"response_match_score": {key: 1}}}).problems
    assert (problem.code, problem.hint) == ("missing-threshold", f"`{key}` is there instead")


def test_informational_criteria_need_no_threshold():
    uses = {"token_usage_v1": {}, "my_metric": {"informational": True, "lowerIsBetter": True}}
    first, second = parse({"criteria": uses}).criteria
    assert (first.threshold, first.informational) == (None, False)
    assert (second.threshold, second.informational, second.lower_is_better) == (None, True, True)
    assert second.options == {}


@pytest.mark.parametrize("spelling", ["custom_metrics", "customMetrics"])
@pytest.mark.parametrize("inner", ["code_config", "codeConfig"])
def test_custom_metrics_have_code(spelling, inner):
    reading = parse(
        {
            "criteria": {"mine": 0.5},
            spelling: {"mine": {inner: {"name": "pkg.mod.fn"}, "description": ""}},
        }
    )
    assert [(use.name, use.code) for use in reading.criteria] == [("mine", "pkg.mod.fn")]
    assert reading.problems == ()


@pytest.mark.parametrize(
    ("metrics", "code", "path"),
    [
        ([], "wrong-type", "custom_metrics"),
        ({"m": "x"}, "wrong-type", "custom_metrics.m"),
        ({"m": {}}, "missing-key", "custom_metrics.m"),
        ({"m": {"Code_Config": {"name": "a.b"}}}, "missing-key", "custom_metrics.m"),
        ({"m": {"code_config": {}}}, "wrong-type", "custom_metrics.m.code_config"),
        (
            {"m": {"code_config": {"name": "fn"}}},
            "wrong-value",
            "custom_metrics.m.code_config.name",
        ),
    ],
)
def test_custom_metrics_that_cannot_be_read(metrics, code, path):
    assert found(parse({"criteria": {}, "custom_metrics": metrics})) == [
        (Severity.ERROR, code, path)
    ]


@pytest.mark.parametrize(
    ("interval", "scale"),
    [
        ({"min_value": 1, "max_value": 5}, (1.0, 5.0)),
        ({"minValue": 0, "maxValue": 10.5, "open_at_max": True}, (0.0, 10.5)),
        (None, (None, None)),  # open, as without it
        # unclear ones are errors
        ({"min_value": 5, "max_value": 1}, None),
        ({"min_value": 0}, None),
        ({"min_value": True, "max_value": "1"}, None),
        ("0 to 1", None),
    ],
)
def test_the_interval_of_a_custom_metric_is_its_scale(interval, scale):
    metric = {"code_config": {"name": "a.b"}, "metricInfo": {"metricValueInfo": {}}}
    metric["metricInfo"]["metricValueInfo"]["interval"] = interval
    reading = parse({"criteria": {"mine": 4.0}, "custom_metrics": {"mine": metric}})
    if scale is None:
        assert found(reading) == [(Severity.ERROR, "wrong-value", "custom_metrics.mine")]
    else:
        [use] = reading.criteria
        assert (use.scale.lowest, use.scale.highest) == scale
        assert reading.problems == ()


def test_a_custom_metric_that_never_runs_is_told():
    reading = parse({"criteria": {}, "custom_metrics": {"m": {"code_config": {"name": "a.b"}}}})
    assert found(reading) == [(Severity.WARNING, "unused-key", "custom_metrics.m")]


@pytest.mark.parametrize("spelling", ["user_simulator_config", "userSimulatorConfig"])
def test_the_simulator_is_read_in_both_spellings(spelling):
    reading = parse(
        {"criteria": {}, spelling: {"maxAllowedInvocations": 3, "include_function_calls": True}}
    )
    simulator = reading.simulator
    assert simulator is not None
    assert (simulator.max_turns, simulator.include_function_calls, simulator.model) == (
        3,
        True,
        "gemini-2.5-flash",
    )
    place = reading.simulator_place
    assert place is not None
    assert (place.file, place.line) == ("a/test_config.json", 3)


def test_a_simulator_of_the_wrong_type():
    assert found(parse({"user_simulator_config": 3})) == [
        (Severity.ERROR, "wrong-type", "user_simulator_config")
    ]


@pytest.mark.parametrize(
    ("value", "key", "hint"),
    [
        # what other tools call it
        ({"metrics": [{"metric_name": "m"}]}, "metrics", "criteria"),
        ({"evaluators": {}}, "evaluators", "criteria"),
        ({"thresholds": {"m": 1}}, "thresholds", "criteria"),
        # the criteria without their frame
        ({"response_match_score": 0.8}, "response_match_score", "criteria"),
        ({"tool_trajectory_avg_score": {"threshold": 1}}, "tool_trajectory_avg_score", "criteria"),
        # a slip
        ({"critera": {}}, "critera", "did you mean `criteria`?"),
        ({"Criteria": {"response_match_score": 0.8}}, "Criteria", "did you mean `criteria`?"),
        ({"CRITERIA": {}}, "CRITERIA", "did you mean `criteria`?"),
        (
            {"criteria": {}, "custom-metrics": {}},
            "custom-metrics",
            "did you mean `custom_metrics`?",
        ),
        ({"criteria": {}, "custom_metric": {}}, "custom_metric", "did you mean `custom_metrics`?"),
        ({"criteria": {}, "rootAgent": "x"}, "rootAgent", ""),
    ],
)
def test_unknown_keys_are_told(value, key, hint):
    reading = parse(value)
    [problem] = reading.problems
    assert (problem.severity, problem.code) == (Severity.WARNING, "unknown-key")
    assert f"`{key}`" in problem.message
    assert hint in problem.hint
    assert reading.criteria == ()


def test_comments_are_not_told():
    assert parse({"_comment": "x", "$schema": "y", "criteria": {}}).problems == ()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"criteria": [{"name": "m"}]}, "criteria-not-an-object"),
        ({"criteria": None}, "criteria-not-an-object"),
        ([], "not-a-config"),
        ("3", "not-a-config"),
        ("", "file-empty"),
        ('{"criteria": {"m": 1,}}', "json-syntax"),
        ('{"criteria": ' + "[" * 100_000, "json-too-deep"),
    ],
)
def test_files_that_are_no_configs(value, code):
    reading = parse(value)
    assert [c for s, c, _ in found(reading) if s is Severity.ERROR] == [code]
    assert reading.criteria == ()


def test_live_mode_is_not_run():
    # an answer by text says nothing of a live model
    assert found(parse({"live_model_config": {}})) == [
        (Severity.ERROR, "not-supported", "live_model_config")
    ]
    assert found(parse({"live_model_config": None})) == []  # ADK's way to say nothing


def test_a_criterion_that_stands_twice():
    reading = parse('{"criteria": {"m": 0.1, "m": 0.9}}')
    assert [use.threshold for use in reading.criteria] == [0.9]
    assert [code for _, code, _ in found(reading)] == ["duplicate-key"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"eval_set_id": "x", "eval_cases": []}, "an evaluation set (`eval_cases`)"),
        ({"evalSetId": "x", "evalCases": []}, "an evaluation set (`evalCases`)"),
        ([{"query": "hi", "reference": "ho"}], "an evaluation set in the old format (`query`)"),
        ([{"name": "x", "data": []}], "an evaluation set in the old format (`data`)"),
        ({"eval_case_results": []}, "results of a run (`eval_case_results`)"),
    ],
)
def test_another_file_of_adks_saved_as_criteria_is_told_as_what_it_is(value, found):
    (problem,) = formats.parse_criteria(json.dumps(value), file="evals/test_config.json").problems
    assert (problem.code, problem.message) == ("not-a-config", f"expected criteria, found {found}")
    assert ("rename it to test_config.evalset.json" in problem.hint) is ("evaluation set" in found)
