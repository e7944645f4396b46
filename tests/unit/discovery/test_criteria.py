"""Criteria as configured against the table: names, thresholds, options."""

import math
from types import SimpleNamespace

import pytest
from pydantic import BaseModel, ConfigDict, Field

from evalgate.criteria import informational
from evalgate.criteria.base import CriterionSpec
from evalgate.discovery import criteria
from evalgate.errors import Place, Severity
from evalgate.model import OPEN, CriterionUse, Need, Scale


class Judge(BaseModel):
    model_config = ConfigDict(extra="forbid")

    judge_model: str = "m"
    num_samples: int = Field(default=5, ge=1)


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    match_type: str = "EXACT"
    ignore_args: bool = Field(default=False, alias="ignoreArgs")
    judge_model_options: Judge | None = None


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


def spec(name, **rest):
    return CriterionSpec(
        name=name, summary="", options=rest.pop("options", Nothing), build=lambda *_: None, **rest
    )


SPECS = {
    each.name: each
    for each in (
        spec("tool_trajectory_avg_score", options=Options, needs=frozenset({Need.REFERENCE})),
        spec("response_match_score"),
        spec("response_evaluation_score", scale=Scale(lowest=1.0, highest=5.0)),
        spec("latency", scale=Scale(highest=None), lower_is_better=True),
        spec("error_share", lower_is_better=True),
        spec("time_of_ours_v1", is_beyond_adk=True),
        spec("token_usage_v1", scale=OPEN, informational=True),
    )
}
PLACE = Place(file="test_config.json", line=3, column=5, json_path="$.criteria.x")


@pytest.fixture(autouse=True)
def table(monkeypatch):
    monkeypatch.setattr(criteria, "CRITERIA", SPECS)
    monkeypatch.setattr(informational, "SPECS", (SPECS["token_usage_v1"],))


def check(name, threshold=0.5, **rest):
    return checked_uses(CriterionUse(name=name, threshold=threshold, place=PLACE, **rest))


def checked_uses(*uses):
    found, problems = criteria.check(uses)
    return SimpleNamespace(criteria=found, problems=problems)


def codes(checked):
    return [problem.code for problem in checked.problems]


@pytest.mark.parametrize(
    ("name", "threshold", "expected"),
    [
        ("response_match_score", 0.8, []),
        ("response_match_score", 1.0, []),  # the highest score can be reached
        ("response_match_score", 0.0, ["threshold-always-passes"]),
        ("response_match_score", -0.0, ["threshold-always-passes"]),
        ("response_match_score", 1.0000001, ["threshold-out-of-range"]),
        ("response_match_score", 7.0, ["threshold-out-of-range"]),
        ("response_match_score", -1.0, ["threshold-out-of-range"]),
        ("response_match_score", math.nan, ["threshold-out-of-range"]),
        ("response_match_score", math.inf, ["threshold-out-of-range"]),
        ("response_match_score", None, ["no-threshold"]),
        ("response_evaluation_score", 5.0, []),  # a scale of its own
        ("response_evaluation_score", 1.0, ["threshold-always-passes"]),
        # a share, where 1 to 5 is scored
        ("response_evaluation_score", 0.8, ["threshold-out-of-range"]),
        ("latency", 30.0, []),
        ("latency", 0.0, []),  # strict, yet not vacuous: lower is better
        ("latency", math.inf, ["threshold-out-of-range"]),
        # lower is better: the highest lets all through
        ("error_share", 1.0, ["threshold-always-passes"]),
        ("error_share", 0.0, []),
        ("token_usage_v1", None, []),
        ("token_usage_v1", 1000.0, ["threshold-ignored"]),
    ],
)
def test_thresholds_are_held_against_the_scale(name, threshold, expected):
    assert codes(check(name, threshold)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("response_match_score", ["scale-turned-round"]),
        ("response_evaluation_score", ["scale-turned-round", "threshold-out-of-range"]),
        ("latency", []),  # it is so anyway
        ("error_share", []),
        ("token_usage_v1", ["threshold-ignored"]),  # without a best end
    ],
)
def test_to_call_the_worst_scores_good_is_told(name, expected):
    checked = check(name, lower_is_better=True)
    assert sorted(codes(checked)) == expected
    assert {p.severity for p in checked.problems if p.code == "scale-turned-round"} <= {
        Severity.WARNING
    }
    assert "scale-turned-round" not in codes(check(name))


def test_a_metric_of_ones_own_may_be_a_cost():
    assert codes(check("words", lower_is_better=True, code="metrics.words.count")) == []


@pytest.mark.parametrize(
    ("threshold", "hint"),
    [
        (7.0, "Did you mean 0.7?"),
        (80.0, "Did you mean 0.8?"),
        (10.0, "Did you mean 1?"),
        (1.2, ""),
        (500.0, ""),
    ],
)
def test_a_threshold_of_another_scale_is_recognised(threshold, hint):
    assert check("response_match_score", threshold).problems[0].hint == hint


def test_only_a_vacuous_threshold_and_an_ignored_one_are_no_errors():
    assert check("response_match_score", 0.0).problems[0].severity is Severity.WARNING
    assert check("token_usage_v1", 5.0).problems[0].severity is Severity.WARNING
    assert check("response_match_score", 2.0).problems[0].severity is Severity.ERROR


def test_an_ignored_threshold_is_taken_out_and_the_flags_come_from_the_table():
    (use,) = check("token_usage_v1", 1000.0).criteria
    assert (use.threshold, use.informational) == (None, True)
    (use,) = check("latency", 3.0).criteria
    assert use.lower_is_better


@pytest.mark.parametrize(
    ("name", "code", "hint"),
    [
        ("response_match_scor", "unknown-criterion", "Did you mean `response_match_score`?"),
        (
            "TOOL_TRAJECTORY_AVG_SCORE",
            "unknown-criterion",
            "Did you mean `tool_trajectory_avg_score`?",
        ),
        (
            "zebra",
            "unknown-criterion",
            "Known criteria: error_share, latency, response_evaluation_score",
        ),
    ],
)
def test_names_that_nobody_grades_are_errors(name, code, hint):
    (problem,) = check(name).problems
    assert (problem.code, problem.severity, problem.place) == (code, Severity.ERROR, PLACE)
    assert problem.hint.startswith(hint)


def test_a_criterion_with_an_error_is_kept_as_written():
    (use,) = check("zebra", 0.3).criteria
    assert (use.name, use.threshold) == ("zebra", 0.3)


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        # within a nested option
        (
            {"judge_model_options": {"num_sample": 3}},
            "`tool_trajectory_avg_score` has no option `judge_model_options.num_sample`",
            "",
        ),
        (
            {"ignore_args": "maybe"},
            '`tool_trajectory_avg_score`: `ignore_args` is "maybe", expected a valid boolean',
            "",
        ),
        (
            {"judge_model_options": 5},  # no class of ours is named
            "`tool_trajectory_avg_score`: `judge_model_options` is 5, expected an object",
            "",
        ),
        (
            {"judge_model_options": {"num_samples": 0}},
            "`tool_trajectory_avg_score`: `judge_model_options.num_samples` is 0, expected greater than or equal to 1",
            "",
        ),
    ],
)
def test_options_are_explained(options, message, hint):
    (problem,) = check("tool_trajectory_avg_score", options=options).problems
    assert problem.code == "bad-option"
    assert message in problem.message
    assert problem.hint.startswith(hint)
    assert problem.place.json_path.startswith("$.criteria.x.")
    assert problem.place.line == 3


def test_valid_options_are_normalised_and_only_those_given():
    (use,) = check("tool_trajectory_avg_score", options={"ignoreArgs": "true"}).criteria
    assert use.options == {"ignore_args": True}


@pytest.mark.parametrize(
    ("name", "options", "hint"),
    [
        ("tool_trajectory_avg_score", {"match_typ": "EXACT"}, "Did you mean `match_type`?"),
        (
            "tool_trajectory_avg_score",
            {"zebra": 1},
            "Known options: match_type, ignore_args, judge_model_options.",
        ),
        ("response_match_score", {"weight": 0.3}, "Its only option is `threshold`."),
    ],
)
def test_options_that_adk_takes_no_notice_of_are_warned_about(name, options, hint):
    checked = check(name, options={**options})
    (problem,) = checked.problems
    assert (problem.code, problem.severity, problem.hint) == (
        "unknown-option",
        Severity.WARNING,
        hint,
    )
    assert f"`{name}` has no option `{next(iter(options))}`" in problem.message
    assert problem.place.json_path == f"$.criteria.x.{next(iter(options))}"
    assert checked.criteria[0].options == {}


def test_an_unknown_option_of_a_criterion_of_ours_is_an_error():
    (problem,) = check("time_of_ours_v1", options={"zebra": 1}).problems
    assert (problem.code, problem.severity) == ("bad-option", Severity.ERROR)


@pytest.mark.parametrize(
    "spelling", ["include_intermediate_responses_in_final", "includeIntermediateResponsesInFinal"]
)
def test_adks_option_of_every_criterion_is_taken_by_every_criterion(spelling):
    checked = check("response_match_score", options={spelling: True})
    assert (codes(checked), checked.criteria[0].options) == ([], {})
    (problem,) = check("response_match_score", options={spelling: "perhaps"}).problems
    assert (problem.code, problem.severity) == ("bad-option", Severity.ERROR)
    assert f'`{spelling}` is "perhaps", expected a valid boolean' in problem.message


def test_a_custom_metric_is_known_by_its_code_alone():
    assert (
        codes(check("my_own", 42.0, code="pkg.metric", scale=OPEN, options={"anything": 1})) == []
    )
    # it takes the name over
    assert codes(check("response_match_score", 42.0, code="pkg.metric", scale=OPEN)) == []
    assert codes(check("my_own", math.nan, code="pkg.metric")) == ["threshold-out-of-range"]
    # the interval of its `metric_info` is checked as that of our own criteria
    outside = check("my_own", 42.0, code="pkg.metric", scale=Scale(lowest=1, highest=5))
    assert codes(outside) == ["threshold-out-of-range"]
    assert codes(check("my_own", None, code="pkg.metric")) == ["no-threshold"]


def test_every_problem_is_told_and_the_order_is_kept():
    uses = [
        CriterionUse(name="response_match_score", threshold=7.0, options={"x": 1}),
        CriterionUse(name="zebra", threshold=0.5),
    ]
    checked = checked_uses(*uses)
    assert [use.name for use in checked.criteria] == ["response_match_score", "zebra"]
    assert sorted(codes(checked)) == [
        "threshold-out-of-range",
        "unknown-criterion",
        "unknown-option",
    ]


def test_informational_criteria_join_unless_named():
    (use,) = criteria.informational_uses()
    assert (use.name, use.threshold, use.informational) == ("token_usage_v1", None, True)
    assert criteria.informational_uses(beside=[use]) == ()
