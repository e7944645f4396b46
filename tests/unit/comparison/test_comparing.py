"""Head beside base: what is claimed, what is left out, and the symmetries that every claim must have."""

from __future__ import annotations

import dataclasses
import math
from random import Random

import pytest
from builders import sides
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.comparison import verdict as comparison_verdict
from evalgate.model import (
    CaseStatus,
    Change,
    CriterionRule,
    FailureOrigin,
    GateKind,
    Policy,
    Run,
    Scale,
    Score,
    ThresholdRule,
    VerdictKind,
)
from evalgate.model.trial import MOST

STEADY = {number: f"answer {number}" for number in range(40)}


@pytest.mark.parametrize(
    ("text", "policy", "expected"),
    [
        ("FFF/PPP " * 3 + "PPP/PPP " * 9, {}, "regressed"),
        ("PPP/FFF " * 3 + "PPP/PPP " * 9, {}, "improved"),
        ("PPP/PPP " * 9, {}, "no_difference"),  # two broken cases of nine would not be seen for sure
        ("PPP/PPP " * 40, {}, "unchanged"),  # two of 40 would
        ("PPP/PPP " * 39, {}, "no_difference"),
        ("PPPPP/PPPPP " * 20, {}, "unchanged"),
        ("P/P " * 5, {}, "no_difference"),
        ("P/P " * 100, {}, "unchanged"),
        ("P/P " * 5, {"deterministic": True}, "unchanged"),
        ("F/P " * 4 + "P/P " * 4, {}, "inconclusive"),  # 4 of 4 discordant: p = 1/16
        ("F/P " * 5 + "P/P " * 4, {}, "regressed"),  # 1/32
        (
            "FFF/PPP " * 3 + "PPP/PPP " * 9,
            {"max_drop": 0.25},
            "inconclusive",
        ),  # significant, and not more than the floor
        ("FFF/PPP " * 3 + "PPP/PPP " * 9, {"alpha": 0.0001}, "inconclusive"),
        # p = 1/4096, and 6 points are more than 5; but so few lost runs may as well be 4
        ("FPPPP/PPPPP " * 12 + "PPPPP/PPPPP " * 28, {}, "inconclusive"),
        ("FPPPP/PPPPP " * 16 + "PPPPP/PPPPP " * 24, {}, "regressed"),
        ("F/P " * 5 + "P/P " * 4, {"threshold": ThresholdRule.CONFIRMED}, "inconclusive"),  # reruns spend alpha too
        ("F/P " * 6 + "P/P " * 4, {"threshold": ThresholdRule.CONFIRMED}, "regressed"),  # 1/64 < 0.02
        # where the pass rate lets all of them pass nothing can be confirmed, and all of alpha is spent here
        ("F/P " * 5 + "P/P " * 15, {"threshold": ThresholdRule.CONFIRMED}, "inconclusive"),
        ("F/P " * 5 + "P/P " * 15, {"threshold": ThresholdRule.CONFIRMED, "pass_rate": 0.8}, "inconclusive"),
        ("F/P " * 5 + "P/P " * 15, {"threshold": ThresholdRule.CONFIRMED, "pass_rate": 0.7}, "regressed"),
        # whichever side they are on: else the failures of head would choose the share by which head is judged
        (
            "F/P " * 5 + "P/P " * 12 + "F/F " * 3,
            {"threshold": ThresholdRule.CONFIRMED, "pass_rate": 0.7},
            "inconclusive",
        ),
        ("55/66 " * 10, {}, "regressed"),  # graded: 0.1 lower in every run
        ("56/55 " * 10, {"max_drop": 0.1}, "unchanged"),  # a smaller difference was seen
        ("??/PP " * 3, {}, "not_measured"),
        ("?P/PP " + "PP/PP " * 3, {}, "not_measured"),
        ("?P/PP " + "PP/PP " * 30, {"min_measured": 0.9}, "no_difference"),
        ("?P/PP " + "PP/PP " * 3, {"min_measured": 0.5}, "inconclusive"),  # what is missing could have been a drop
        ("F?/PP " * 3, {}, "not_measured"),  # a good run in each missing place would leave p = 1/8
        ("F?/PP " * 6, {}, "regressed"),  # and here 1/64
        ("?P/PP " + "FF/PP " * 9, {}, "regressed"),  # bad however the missing one ended
    ],
)
def test_claims(text: str, policy: dict[str, object], expected: str) -> None:
    comparison = sides.compare(text, policy=Policy(**({"threshold": ThresholdRule.ALL} | policy)))  # type: ignore[arg-type]
    assert comparison.criteria[0].change == expected


@pytest.mark.parametrize(
    ("text", "policy", "change", "fact"),
    [
        ("FFF/PPP " + "PPP/PPP " * 9, {}, "regressed", True),  # one case in ten, for certain
        ("FF/PP " + "PP/PP " * 9, {}, "inconclusive", False),  # a coin toss does that once in sixteen changes
        ("FF/PP " * 2 + "PP/PP " * 18, {}, "regressed", True),  # and two of them once in 256
        ("FFF/PPP " + "PPP/PPP " * 19, {}, "unchanged", True),  # 0.05 is what is let pass, float dust or not
        ("FFF/PPP " + "PPP/PPP " * 19, {"max_drop": 0.0}, "regressed", True),
        ("PPP/FFF " + "PPP/PPP " * 9, {}, "improved", True),
        ("F/P " + "P/P " * 9, {}, "inconclusive", False),  # one run a side: nothing is known of repeats
        ("FF/PP", {}, "inconclusive", False),  # a coin toss does that in a sixteenth of all cases
        ("FFF/PPP", {}, "regressed", True),  # and that in a sixty-fourth
        ("FF/PP PP/PP", {}, "inconclusive", False),  # the other case says nothing of this one
        ("PP/PP PP/PP", {}, "unchanged", True),  # where nothing differs there is nothing to explain
        ("FFF/PP", {}, "inconclusive", False),  # three repetitions
        ("FP/PP " + "PP/PP " * 9, {}, "inconclusive", False),  # equal behaviour and other scores: not the agent's alone
    ],
)
def test_what_repeats_itself_exactly_is_a_fact(text: str, policy: dict[str, object], change: str, fact: bool) -> None:
    row = sides.compare(text, behaviours=STEADY, policy=Policy(**policy)).criteria[0]  # type: ignore[arg-type]
    assert (row.change.value, row.fact) == (change, fact)
    assert (sides.worse(row) is None) == fact


def test_a_judges_scores_are_a_sample_even_of_a_steady_agent() -> None:
    text = "FF/PP " + "PP/PP " * 9
    assert not sides.compare(text, behaviours=STEADY, judged=frozenset({"m"})).criteria[0].fact


def test_one_unsteady_case_makes_all_a_sample() -> None:
    head, base = sides.sides("FF/PP " + "PP/PP " * 9, behaviours=STEADY)
    odd = dataclasses.replace(base.trials[-1], behavior="something else")
    base = dataclasses.replace(base, trials=(*base.trials[:-1], odd))
    assert not sides.compare_runs(head, base).criteria[0].fact
    unknown = dataclasses.replace(base.trials[-1], behavior="")
    base = dataclasses.replace(base, trials=(*base.trials[:-2], unknown, unknown))
    assert not sides.compare_runs(head, base).criteria[0].fact


def test_cases_that_cannot_be_compared_stay_out_of_every_number() -> None:
    unpaired = {
        (sides.SUITE, "c0"): CaseStatus.NEW,
        (sides.SUITE, "c1"): CaseStatus.CHANGED,
        (sides.SUITE, "gone"): CaseStatus.REMOVED,
    }
    comparison = sides.compare("FF/.. FF/.. PP/PP PP/PP", unpaired=unpaired)
    row = comparison.criteria[0]
    assert (row.cases.compared, row.base, row.head, row.cases.unpaired) == (2, 1.0, 1.0, 0)
    assert [case.status for case in comparison.cases] == [
        CaseStatus.NEW,
        CaseStatus.CHANGED,
        *[CaseStatus.PAIRED] * 2,
        CaseStatus.REMOVED,
    ]
    assert [case.origin for case in comparison.cases[:2]] == [FailureOrigin.UNKNOWN] * 2
    assert comparison.cases[0].base is None
    assert comparison.cases[-1].head is None
    assert all(case.why for case in comparison.cases if case.status is not CaseStatus.PAIRED)


def test_advisory_suites_and_unreliable_cases_have_rows_of_their_own() -> None:
    text = "FFF/PPP " * 5 + "PPP/PPP " * 5
    advisory = sides.compare(text, policy=Policy(advisory=frozenset({sides.SUITE})))
    assert [(row.rule.gating, row.rule.advisory, row.change.value) for row in advisory.criteria] == [
        (False, True, "regressed")
    ]
    unreliable = frozenset((sides.SUITE, f"c{number}") for number in range(5))
    rows = sides.compare(text, unreliable=unreliable).criteria
    assert [(row.rule.gating, row.rule.advisory, row.change.value) for row in rows] == [
        (True, False, "no_difference"),
        (False, True, "regressed"),
    ]


def test_informational_criteria_are_shown_and_decide_only_where_the_policy_says_so() -> None:
    uses = (sides.use("m"), sides.use("n", threshold=None, lower=True))
    text = "PP/PP " * 12 + "; " + "99/11 " * 12
    scales = {"m": Scale(), "n": Scale(highest=None)}
    shown = sides.compare(text, uses=uses, scales=scales).criteria[1]
    assert (shown.rule.gating, shown.change.value, shown.delta) == (False, "regressed", pytest.approx(0.8))
    assert shown.rule.floor == pytest.approx(0.05 * 0.1)  # a share of base's mean where the scale is open
    policy = Policy(criteria={"n": CriterionRule(gating=True, max_drop=10.0)})
    ruled = sides.compare(text, uses=uses, scales=scales, policy=policy).criteria[1]
    assert (ruled.rule.gating, ruled.rule.floor) == (True, pytest.approx(1.0))
    assert ruled.change is Change.UNCHANGED


def test_lower_is_better_turns_the_claims_round() -> None:
    uses = (sides.use("m", threshold=0.5, lower=True),)
    row = sides.compare("FFF/PPP " * 3 + "PPP/PPP " * 9, uses=uses).criteria[0]
    assert (row.change.value, row.delta, row.drop) == ("regressed", pytest.approx(0.25), pytest.approx(0.25))


def test_the_floor_is_a_share_of_the_scale() -> None:
    scales = {"m": Scale(lowest=1.0, highest=5.0)}
    row = sides.compare("33/33", uses=(sides.use("m"),), scales=scales).criteria[0]
    assert row.rule.floor == pytest.approx(0.2)


def test_a_difference_that_measuring_itself_makes_is_none() -> None:
    text = "77/11 " * 12  # six tenths for certain
    for resolution, expected in ((0.0, "regressed"), (0.59, "regressed"), (0.61, "unchanged")):
        scales = {"m": Scale(highest=None, resolution=resolution)}
        row = sides.compare(text, uses=(sides.use("m", threshold=0.5, lower=True),), scales=scales).criteria[0]
        assert (row.change.value, row.rule.floor >= resolution) == (expected, True)


def test_a_clock_says_nothing_of_sides_that_were_measured_apart() -> None:
    uses = (sides.use("m"), sides.use("s", threshold=0.9, lower=True))
    text = "F/P " * 5 + "P/P " * 4 + "; " + "9/8 " * 2 + "8/9 " * 3 + "9/9 " * 4
    scales = {"m": Scale(), "s": Scale(highest=None, clocked=True)}
    beside = sides.compare(text, uses=uses, scales=scales)
    assert [row.change.value for row in beside.criteria] == ["inconclusive", "inconclusive"]
    apart = sides.compare(text, uses=uses, scales=scales, run_together=False)
    met, seconds = apart.criteria
    assert (seconds.change, seconds.clock_based, sides.worse(seconds)) == (Change.NOT_MEASURED, True, None)
    assert (seconds.base, seconds.head) == (beside.criteria[1].base, beside.criteria[1].head)
    assert met.change is Change.REGRESSED  # what can claim nothing is none of those that it is adjusted for
    told = comparison_verdict.regression_gate(*sides.sides(text, uses=uses)[:1], apart, Policy())
    assert told is not None
    assert (told.kind, told.blocks) == (VerdictKind.FAIL, True)


def test_criteria_beside_each_other_are_held_to_more() -> None:
    text = "F/P " * 5 + "P/P " * 4
    assert sides.compare(text).criteria[0].change is Change.REGRESSED
    two = sides.compare(f"{text} ; {'P/F ' * 2 + 'F/P ' * 3 + 'P/P ' * 4}")
    assert [row.change.value for row in two.criteria] == ["inconclusive", "inconclusive"]
    assert sides.adjusted(two.criteria[0]) == pytest.approx(2 / 32, abs=0.01)


@pytest.mark.parametrize("added", ["P/P " * 9, "F/P " * 5 + "P/P " * 4, "F/F " * 9])
def test_a_criterion_that_cannot_fail_turns_no_red_to_green(added: str) -> None:
    text = "F/P " * 5 + "P/P " * 4
    one, two = sides.compare(text).criteria[0], sides.compare(f"{text} ; {added}").criteria[0]
    assert (two.change, two.difference) == (Change.REGRESSED, one.difference)


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("F/P", "new"),
        ("F/F", "known"),
        ("F/?", "unknown"),
        ("F/. P/P", "unknown"),  # of the first case
        ("P/P", None),
        ("?/P", None),
        ("FFP/PPP", "mixed"),  # 1 of 3 against 3 of 3: p = 0.2
        ("FFF/PFF", "mixed"),  # the base is no better than a coin
        ("FFFFP/PPPPP", "new"),  # p = 0.024: no coin toss
        ("FFFPP/PPPPP", "mixed"),
    ],
)
def test_whose_failure_it_is(text: str, origin: str | None) -> None:
    found = sides.compare(text).cases[0].origin
    assert (None if found is None else found.value) == origin


@pytest.mark.parametrize(
    ("text", "origin", "newly"),
    [
        ("F/F ; F/F", "known", ""),
        ("P/F ; F/P", "new", "n"),  # the base fails by the other criterion alone
        ("F/F ; F/P", "new", "n"),
        ("F/F ; P/P", "known", ""),
        ("F/F ; P/F", "known", ""),  # one of two was repaired
        ("F/P ; F/P", "new", "mn"),
        ("F/F ; F/?", "unknown", ""),  # of what head fails, a part is not known
        ("F/P ; F/?", "new", "m"),
        ("F/P ; P/?", "new", "m"),
        ("F/? ; P/P", "unknown", ""),
        ("FF/FF ; FF/PP", "new", "n"),
        ("FFF/PFF ; FFF/FFF", "mixed", ""),
        ("FFFFF/PPPFF ; FFFFF/PPPPP", "new", "n"),  # by the case as a whole it could be chance
        ("PFF/PPP ; FPP/PPP", "new", ""),  # never passes, by one criterion or the other
    ],
)
def test_a_failure_is_known_by_the_criteria_that_fail(text: str, origin: str, newly: str) -> None:
    case = sides.compare(text).cases[0]
    assert (case.origin, "".join(case.newly)) == (FailureOrigin(origin), newly)


def test_a_criterion_without_a_say_makes_no_failure_new() -> None:
    uses = (sides.use("m"), sides.use("n", threshold=None))
    case = sides.compare("F/F ; F/P", uses=uses).cases[0]
    assert (case.origin, case.newly) == (FailureOrigin.KNOWN, ())


def test_the_base_has_no_outcome_of_another_question() -> None:
    unpaired = {(sides.SUITE, "c0"): CaseStatus.CHANGED, (sides.SUITE, "c1"): CaseStatus.NEW}
    comparison = sides.compare("F/F F/P P/F", unpaired=unpaired)
    assert [(case.origin, case.base, case.broken) for case in comparison.cases[:2]] == [
        (FailureOrigin.UNKNOWN, None, False)
    ] * 2
    assert comparison.cases[2].fixed


def test_a_graded_criterion_that_fails_in_the_mean_alone() -> None:
    assert sides.compare("41/PP").cases[0].origin is FailureOrigin.NEW


# ---- what must hold for all data

runs = st.text("PF?", min_size=3, max_size=3)
tables = st.lists(st.tuples(runs, runs), min_size=1, max_size=6)
graded = st.lists(st.tuples(*[st.text("0123456789", min_size=2, max_size=2)] * 2), min_size=1, max_size=5)
POLICIES = [Policy(), Policy(min_measured=0.5), Policy(max_drop=0.0, alpha=0.3, min_measured=0.0)]
policies = st.sampled_from(POLICIES)


def words(table: list[tuple[str, str]]) -> str:
    return " ".join(f"{head}/{base}" for head, base in table)


MIRROR = {
    Change.REGRESSED: Change.IMPROVED,
    Change.IMPROVED: Change.REGRESSED,
    Change.UNCHANGED: Change.UNCHANGED,
    Change.NO_DIFFERENCE: Change.NO_DIFFERENCE,
    Change.INCONCLUSIVE: Change.INCONCLUSIVE,
    Change.NOT_MEASURED: Change.NOT_MEASURED,
}


@settings(max_examples=60, deadline=None)
@given(st.one_of(tables, graded), policies)
def test_swapping_the_sides_mirrors_everything(table: list[tuple[str, str]], policy: Policy) -> None:
    head, base = sides.sides(words(table))
    forth, back = sides.compare_runs(head, base, policy=policy), sides.compare_runs(base, head, policy=policy)
    for one, other in zip((*forth.criteria, forth.overall), (*back.criteria, back.overall), strict=True):
        assert one is not None
        assert other is not None
        if Change.NOT_MEASURED not in (one.change, other.change):
            assert other.change is MIRROR[one.change]
        if one.delta is not None:
            assert other.delta == pytest.approx(-one.delta)
        if one.interval is not None and other.interval is not None:
            assert other.interval.low == pytest.approx(-one.interval.high)
            assert other.interval.high == pytest.approx(-one.interval.low)
        assert sides.worse(other) == pytest.approx(sides.better(one))


any_scores = st.lists(st.floats(-MOST, MOST), min_size=2, max_size=2)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(any_scores, any_scores), min_size=1, max_size=4), st.booleans(), policies)
def test_any_scores_that_there_may_be_give_numbers(
    table: list[tuple[list[float], list[float]]], adaptive: bool, policy: Policy
) -> None:
    heads, bases = ([list(case[side]) for case in table] for side in (0, 1))
    head, base = (of_scores(each, start=1 if adaptive else 2) for each in (heads, bases))
    scales = {"m": Scale(lowest=None, highest=None)}
    comparison = sides.compare_runs(head, base, policy=policy, scales=scales)
    row = comparison.criteria[0]
    ends = () if row.interval is None else (row.interval.low, row.interval.high)
    assert all(
        math.isfinite(each)
        for each in (row.delta, row.rule.floor, *ends, sides.worse(row), sides.better(row))
        if each is not None
    )
    decided = comparison_verdict.decide(sides.scaled(head, scales), policy, comparison=comparison)
    assert all(case.kind is not VerdictKind.NOT_MEASURED for case in decided.suites[0].cases)


def of_scores(cases: list[list[float]], *, start: int) -> Run:
    """A run of one criterion, two trials a case."""
    run = sides.run([["00"] * len(cases)], start=start)
    values = {f"c{number}": values for number, values in enumerate(cases)}
    trials = (
        dataclasses.replace(trial, grades={"m": Score(value=values[trial.key.case_id][trial.key.repeat])})
        for trial in run.trials
    )
    return dataclasses.replace(run, trials=tuple(trials))


@settings(max_examples=60, deadline=None)
@given(st.one_of(tables, graded), st.randoms(use_true_random=False), policies)
def test_the_order_of_cases_is_irrelevant(table: list[tuple[str, str]], random: Random, policy: Policy) -> None:
    shuffled = list(table)
    random.shuffle(shuffled)
    one, other = (sides.compare(words(each), policy=policy).criteria[0] for each in (table, shuffled))
    assert one.change is other.change
    assert (sides.worse(one), one.interval) == (
        pytest.approx(sides.worse(other)),
        other.interval,
    ) or one.interval == pytest.approx(other.interval)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.lists(runs, min_size=1, max_size=6), st.lists(st.text("0123456789", min_size=2, max_size=2), min_size=1)
    ),
    policies,
)
def test_identical_sides_never_regress(cases: list[str], policy: Policy) -> None:
    if len({len(case) for case in cases}) != 1:
        return
    comparison = sides.compare(" ".join(f"{case}/{case}" for case in cases), policy=policy)
    assert comparison.criteria[0].change not in (Change.REGRESSED, Change.IMPROVED)


def lose(run: Run, position: int) -> Run:
    """The same without the grade of one trial."""
    trial = run.trials[position]
    trials = list(run.trials)
    trials[position] = dataclasses.replace(trial, grades=dict.fromkeys(trial.grades, sides.OUTAGE))
    return dataclasses.replace(run, trials=tuple(trials))


@settings(max_examples=60, deadline=None)
@given(tables, policies, st.integers(0, 1000), st.booleans())
def test_losing_a_grade_never_makes_a_pass(
    table: list[tuple[str, str]], policy: Policy, position: int, of_head: bool
) -> None:
    head, base = sides.sides(words(table))
    lost_head, lost_base = (
        (lose(head, position % len(head.trials)), base) if of_head else (head, lose(base, position % len(base.trials)))
    )
    before, after = (
        comparison_verdict.decide(one, policy, comparison=sides.compare_runs(one, other, policy=policy))
        for one, other in ((head, base), (lost_head, lost_base))
    )
    # with a lower `min_measured` the policy itself lets cases pass that lack a score: where one was lacking before,
    # what is lost may be the only one that spoke against the case
    lost = table[position % len((head if of_head else base).trials) // 3][0 if of_head else 1]
    known = policy.min_measured == 1.0 or "?" not in lost
    for gate in GateKind if known else [GateKind.REGRESSION]:
        kinds = [next(each.kind for each in verdict.gates if each.gate is gate) for verdict in (before, after)]
        assert kinds[1] is not VerdictKind.PASS or kinds[0] is VerdictKind.PASS
    assert not known or after.kind is not VerdictKind.PASS or before.kind is VerdictKind.PASS


def test_min_measured_lets_no_case_pass_that_fails_as_far_as_it_was_measured() -> None:
    head, _ = sides.sides("?FF/??? FPP/???")
    lost = lose(head, 1)
    policy = Policy(min_measured=0.5)
    verdict = comparison_verdict.decide(lost, policy, comparison=None)
    assert verdict.kind is VerdictKind.NOT_MEASURED
    assert [case.doubtful for case in verdict.suites[0].cases] == [True, False]


@pytest.mark.parametrize(
    "text", ["FFF/PPP " * 3 + "PPP/PPP " * 9, "PPF/PPP " * 8, "P/P P/F F/P", "?P/PP " + "FF/PP " * 9]
)
def test_each_side_has_an_interval_of_its_own(text: str) -> None:
    (row, *_) = sides.compare(text, policy=Policy(threshold=ThresholdRule.ALL)).criteria
    found = row.difference
    assert found is not None
    for mean, interval in ((found.head, found.head_interval), (found.base, found.base_interval)):
        assert interval is not None
        assert 0 <= interval.low <= mean + 1e-9
        assert mean - 1e-9 <= interval.high <= 1
        assert interval.high > interval.low, "few cases never say all"


def test_a_fact_has_no_interval() -> None:
    (row, *_) = sides.compare("P/P " * 5, policy=Policy(deterministic=True)).criteria
    assert row.difference is not None
    assert (row.difference.head_interval, row.difference.base_interval) == (None, None)
