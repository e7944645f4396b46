"""What a comparison says in words and figures."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from builders import comparing, sides
from builders.compared_scenarios import COMPARED
from hypothesis import given
from hypothesis import strategies as st

from evalgate.comparison import labels
from evalgate.comparison.labels import CaseLabel
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseComparison,
    CaseOutcome,
    CaseStatus,
    CaseVerdict,
    Change,
    Comparison,
    CriterionComparison,
    FailureOrigin,
    Interval,
    Power,
    PValue,
    RelaxedKind,
    RelaxedRule,
    VerdictKind,
)
from evalgate.reports import cases, comment, view, wording
from evalgate.text import words

SHA = comparing.BASE_SHA


def row(base: float | None = 1.0, head: float | None = 0.75, **more: Any) -> CriterionComparison:
    """A fall with an interval and an adjusted p of 0.02."""
    given = {"interval": Interval(low=-0.4, high=-0.1), "p_adjusted": PValue(worse=0.02, better=1.0), **more}
    return comparing.row(base, head, **given)


def test_every_kind_has_words() -> None:
    assert set(cases.CHANGES) == set(cases.KINDS) == set(Change)
    assert set(cases.ORIGINS) == {*labels.FAILURES, CaseLabel.FLAKY, CaseLabel.QUARANTINED}
    assert set(cases.IN_COUNTS) == {*labels.FAILURES} - {CaseLabel.FAILED}
    assert set(labels.OF_ORIGIN) == set(FailureOrigin)
    assert set(wording.RELAXED) == set(RelaxedKind)
    assert all(cases.origin_words(BaseOrigin(source=source)) for source in BaseSource)


@pytest.mark.parametrize(
    ("delta", "options", "shown"),
    [
        (None, {}, "-"),
        (0.0, {}, "0.00"),
        (-0.14, {}, "\N{MINUS SIGN}0.14"),
        (0.14, {}, "+0.14"),
        (-0.0004, {}, "\N{MINUS SIGN}0.0004"),  # not 0.00: something moved
        (0.00001, {}, "0.0000"),  # too small to have a sign
        (1234.4, {}, "+1,234"),
        (62.9, {"like": "12"}, "+63"),  # tokens: the means beside it have no decimals
        (0.0391, {"like": "0.125"}, "+0.039"),
        (-0.15, {"share": True}, "\N{MINUS SIGN}15 points"),
        (0.004, {"share": True}, "+0.4 points"),
        (0.0, {"share": True}, "0 points"),
    ],
)
def test_differences_are_signed(delta: float | None, options: dict[str, Any], shown: str) -> None:
    assert words.signed(delta, **options) == shown


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9), st.booleans())
def test_swapped_sides_swap_the_sign_alone(delta: float, share: bool) -> None:
    one, other = words.signed(delta, share=share), words.signed(-delta, share=share)
    assert one.lstrip("+\N{MINUS SIGN}") == other.lstrip("+\N{MINUS SIGN}")
    assert one == other or {one[0], other[0]} == {"+", "\N{MINUS SIGN}"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (row(), "\N{MINUS SIGN}0.40 to \N{MINUS SIGN}0.10"),
        (row(fact=True), "exact"),  # no sample: nothing to be unsure of
        (row(interval=None), "-"),
        (
            row(base=532.0, head=411.0, interval=Interval(low=-123.4, high=-120.1)),
            "\N{MINUS SIGN}123 to \N{MINUS SIGN}120",
        ),
    ],
)
def test_intervals(given: CriterionComparison, shown: str) -> None:
    assert cases.between(given) == shown


def test_an_interval_of_shares_names_its_unit_once() -> None:
    assert cases.between(row(), share=True) == "\N{MINUS SIGN}40 to \N{MINUS SIGN}10 points"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (row(), "0.020"),
        (row(p_adjusted=PValue(worse=0.0001, better=1.0)), "< 0.001"),
        (row(head=1.1, p_adjusted=PValue(worse=1.0, better=0.03)), "0.030"),  # it rose: the p of a rise
        (row(lower_is_better=True, head=0.5, p_adjusted=PValue(worse=1.0, better=0.04)), "0.040"),
        (row(fact=True), "-"),
        (row(head=1.0), "-"),  # nothing moved
        (row(gating=False), "-"),  # what decides nothing claims nothing
        (row(p_adjusted=None), "-"),
    ],
)
def test_p_stands_only_where_it_means_something(given: CriterionComparison, shown: str) -> None:
    assert cases.p_value(given) == shown


@pytest.mark.parametrize(
    ("base", "head", "shown"),
    [
        (1.0, 0.75, ("1.00", "0.75")),
        (0.9733, 0.85, ("0.97", "0.85")),
        (0.9733, 0.9712, ("0.973", "0.971")),  # two decimals would hide that they differ
        (1.0, 0.9996, ("1.0000", "0.9996")),
        (0.5, 0.9996, ("0.5000", "0.9996")),  # never a false 1.00
        (532.4, 410.66, ("532.4", "410.7")),  # with a change of 121.7
        (532.0, 411.0, ("532", "411")),
        (None, None, ("-", "-")),
    ],
)
def test_means(base: float | None, head: float | None, shown: tuple[str, str]) -> None:
    assert words.compared(base, head)[:2] == shown


@given(st.floats(min_value=0, max_value=1), st.floats(min_value=0, max_value=1))
def test_means_that_differ_look_different_and_no_mean_looks_perfect_that_is_not(base: float, head: float) -> None:
    shown = words.compared(base, head)[:2]
    assert (shown[0] == shown[1]) <= math.isclose(base, head, abs_tol=1e-9)
    assert all(text != "1.00" or value > 1 - 1e-9 for text, value in zip(shown, (base, head), strict=True))


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (BaseOrigin(source=BaseSource.RERUN, age_days=9.0, distance=3), "run alongside"),  # it has no age
        (BaseOrigin(source=BaseSource.STORE, age_days=0.01), "cached results, less than an hour old"),
        (
            BaseOrigin(source=BaseSource.STORE, age_days=0.5, distance=1),
            "cached results, 12 hours old, 1 commit before",
        ),
        (BaseOrigin(source=BaseSource.STORE, age_days=30.2, distance=0), "cached results, 30 days old"),
        (BaseOrigin(source=BaseSource.MIXED, reused=12, run=1), "12 cached, 1 new trial"),
        (BaseOrigin(source=BaseSource.FILE), "results from a file"),
    ],
)
def test_where_the_base_comes_from(origin: BaseOrigin, said: str) -> None:
    assert cases.origin_words(origin).startswith(said)


@pytest.mark.parametrize(
    ("power", "said"),
    [
        (None, ""),
        (Power(drop=0.25, repeats=3), "3 runs per case would detect a drop of the pass rate of 25 points or more"),
        (
            Power(drop=0.25, repeats=2, more=3),
            "2 runs per case and 3 more for cases with mixed results would detect a drop",
        ),
        (
            Power(drop=None, repeats=2, more=3),
            "2 runs per case and 3 more for cases with mixed results would not detect any drop",
        ),
        (Power(drop=None, repeats=1), "1 run per case would not detect any drop of the pass rate (80% power)."),
        (Power(drop=None, repeats=1, would=((5, 0.4),)), "5 runs would detect 40 points."),
        (Power(drop=0.1, repeats=2, would=((5, 0.08), (10, 0.05))), "5 runs would detect 8 points and 10 runs"),
        (Power(drop=0.2, repeats=5, base_repeats=1), "5 runs per case on head and 1 on the base would detect a drop"),
        (Power(drop=0.2, repeats=5, base_repeats=1, would=((5, 0.1),)), "5 runs per side would detect 10 points."),
    ],
)
def test_what_could_have_been_missed(power: Power | None, said: str) -> None:
    assert said in cases.power_sentence(power)
    assert bool(said) == bool(cases.power_sentence(power))


def test_repeats_that_would_find_no_more_are_not_offered() -> None:
    assert "10 runs" not in cases.power_sentence(Power(drop=0.102, repeats=5, would=((10, 0.1),)))
    assert "10 runs" not in cases.power_sentence(Power(drop=0.3, repeats=3, would=((5, 0.1), (10, 0.1))))


@pytest.mark.parametrize(
    ("head", "base", "said"),
    [
        (3, 3, "3 runs per side"),
        (1, None, "1 run per side"),
        (5, 1, "5 runs per case on head and 1 on the base"),  # stored, of fewer runs
        (1, 5, "1 run per case on head and 5 on the base"),
    ],
)
def test_how_often_each_side_ran(head: int, base: int | None, said: str) -> None:
    ours, theirs = (None if each is None else sides.run([["P" * each]]) for each in (head, base))
    assert ours is not None
    assert cases.runs_words(ours, theirs) == said


WOULD = Power(drop=0.5, repeats=2, would=((5, 0.4), (10, 0.3)))


@pytest.mark.parametrize(
    ("mixed", "steady", "power", "said"),
    [
        (0, 6, None, ""),
        (2, 1, None, ""),  # two say little
        (3, 7, None, ""),  # under a third
        (4, 6, None, "4 of 10 cases have mixed results: this comparison is unreliable."),
        (
            4,
            6,
            Power(drop=0.5, repeats=2, would=((5, 0.4), (10, 0.3))),
            "10 runs per case and side (200 agent runs)",
        ),
        (4, 6, Power(drop=0.5, repeats=2, would=((5, 0.4), (10, 0.3))), "would detect a drop of 30 points."),
    ],
)
def test_a_suite_of_coin_tosses_is_called_unreliable(mixed: int, steady: int, power: Power | None, said: str) -> None:
    arms = [CaseOutcome(passed=1, failed=1, unmeasured=0, kind=VerdictKind.FAIL)] * mixed
    arms += [CaseOutcome(passed=2, failed=0, unmeasured=0, kind=VerdictKind.PASS)] * steady
    compared = tuple(
        CaseComparison(suite="s", case_id=str(number), status=CaseStatus.PAIRED, head=arm, base=arm)
        for number, arm in enumerate(arms)
    )
    comparison = Comparison(origin=BaseOrigin(source=BaseSource.RERUN), cases=compared, power=power)
    assert said in cases.unreliable(comparison)
    assert bool(said) == bool(cases.unreliable(comparison))


def test_facts_are_no_samples() -> None:
    shown = {name: cases.certainty(COMPARED[name]().comparison) for name in ("base_fact", "base_unchanged")}
    assert "differences are exact" in shown["base_fact"]
    assert "80% power" in shown["base_unchanged"]


def test_an_agent_beside_itself_is_no_sample() -> None:
    comparison = COMPARED["base_unchanged"]().comparison
    assert comparison is not None
    alone = dataclasses.replace(comparison, unchanged=tuple({case.suite for case in comparison.cases}))
    assert cases.base_words(alone) == "the same agent as head's"
    assert cases.certainty(alone) == ""


def test_what_one_coin_toss_could_have_made_is_not_called_a_fact_beside_facts() -> None:
    text = "FF/PP FF/PP PP/PP ; FF/PP PP/PP PP/PP"  # two cases differ by the first criterion, one by the second
    comparison = sides.compare(text, behaviours=dict.fromkeys(range(3), "same"))
    assert [row.fact for row in comparison.criteria] == [True, False]
    assert "differences not marked exact" in cases.certainty(comparison)


def ended(*, base: VerdictKind, newly: tuple[str, ...] = ("m",)) -> CaseComparison:
    """A new failure of a case that ended like this on the base."""
    arm = CaseOutcome(passed=1, failed=1, unmeasured=0, kind=base)
    return dataclasses.replace(comparing.compared(origin=FailureOrigin.NEW), base=arm, newly=newly)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (None, ""),
        (comparing.compared(), ""),
        (comparing.compared(origin=FailureOrigin.KNOWN), "pre-existing failure"),
        (comparing.compared(origin=FailureOrigin.UNCONFIRMED), "not confirmed"),
        (ended(base=VerdictKind.PASS), "new failure"),
        (ended(base=VerdictKind.FAIL), "new failure: the base passes a criterion"),
        (ended(base=VerdictKind.PASS, newly=()), "new failure"),
        (comparing.compared(origin=FailureOrigin.UNKNOWN, status=CaseStatus.NEW), "new case"),
        (comparing.compared(origin=FailureOrigin.UNKNOWN, status=CaseStatus.CHANGED), "changed case"),
    ],
)
def test_whose_failure_it_is(case: CaseComparison | None, said: str) -> None:
    failed = CaseVerdict(suite="s", case_id="c", kind=VerdictKind.FAIL, criteria=())
    told = cases.failure_origin(labels.label(failed, origin=None if case is None else case.origin), case)
    assert told.startswith(said)
    assert ("a criterion" in told) is ("a criterion" in said)
    assert bool(said) == bool(told)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (RelaxedKind.THRESHOLD, "threshold of <x> lowered from <0.80> to <0.50>"),
        (RelaxedKind.CRITERION_REMOVED, "criterion <x> (was <0.80>) removed"),
        (RelaxedKind.CRITERION_CHANGED, "criterion <x> changed from <0.80> to <0.50>"),
        (RelaxedKind.CASE_REMOVED, "case <x> deleted"),
        (RelaxedKind.CASE_CHANGED, "expectation of case <x> changed: <0.50>"),
        (RelaxedKind.SUITE_REMOVED, "evaluation file <x> deleted"),
        (RelaxedKind.POLICY, "<x> changed from <0.80> to <0.50>"),
    ],
)
def test_rules_that_were_weakened(kind: RelaxedKind, said: str) -> None:
    each = RelaxedRule(kind=kind, subject="x", base="0.80", head="0.50")
    assert view._relaxed_sentence(each, mark="<{}>".format) == said


def test_a_name_with_braces_is_no_placeholder() -> None:
    each = RelaxedRule(kind=RelaxedKind.POLICY, subject="{base}", base="{0}", head="{head}")
    assert wording.relaxed(each) == "{base} changed from {0} to {head}"


def test_the_worst_criteria_come_first_and_those_without_a_say_apart() -> None:
    comparison = COMPARED["base_regressed"]().comparison
    assert comparison is not None
    # those of cases that decide nothing, such as quarantined ones, are told but where they are informational as well
    shown = [
        dataclasses.replace(row, rule=dataclasses.replace(row.rule, gating=False, advisory=True))
        for row in comparison.criteria
    ]
    rows = cases.rows(dataclasses.replace(comparison, criteria=(*comparison.criteria, *shown)))
    assert [each.change for each in rows[0]] == [Change.REGRESSED, Change.REGRESSED]
    assert [each.name for each in rows[1]] == ["token_usage_v1"]
    assert {each.name for each in rows[2]} == {each.name for each in rows[0]}


def test_the_comment_says_each_thing_once() -> None:
    shown = comment.render(COMPARED["base_regressed"]())
    above_the_cases = shown.partition("###")[0]
    for said in ("3 cases now fail", "(3 new, ", "0f1e2d3`", "5 runs per side", "\N{MINUS SIGN}14 points"):
        assert above_the_cases.count(said) == 1
