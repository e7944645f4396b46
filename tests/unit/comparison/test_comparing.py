"""Head beside base: what is claimed, what is left out, and the symmetries that every claim must
have."""

from __future__ import annotations

import dataclasses
import math

import pytest
from builders import sides
from hypothesis import given, settings, strategies as st

from evalgate.comparison import compare, verdict as comparison_verdict
from evalgate.model import (
    CaseStatus,
    Change,
    CriterionRule,
    FailureOrigin,
    GateKind,
    Lack,
    Policy,
    Run,
    Scale,
    Score,
    ThresholdRule,
    VerdictKind,
)
from evalgate.model.trial import MOST

ALL = {"threshold": ThresholdRule.ALL}


@pytest.mark.parametrize(
    ("text", "policy", "expected"),
    [
        ("FFF/PPP " * 3 + "PPP/PPP " * 9, {}, "regressed"),
        ("PPP/FFF " * 3 + "PPP/PPP " * 9, {}, "improved"),
        ("PPP/PPP " * 9, {}, "no_evidence"),
        ("P/P " * 100, {}, "no_evidence"),
        ("F/P " * 4 + "P/P " * 4, {}, "no_evidence"),  # four falls in one run each: evidence 6 : 1
        ("F/P " * 7 + "P/P " * 4, {}, "regressed"),
        ("F+F/P+P " * 4 + "P/P " * 36, {}, "regressed"),  # the same four, each once more
        ("F+F/P+P " * 3 + "F/P " + "P/P " * 36, {}, "regressed"),  # three of them are enough
        ("F+PP/P+PP " * 4 + "P/P " * 36, {}, "no_evidence"),  # they pass in fresh runs: flaky
        ("F+FFFFF/P+PPPPP " + "P/P " * 19, {}, "regressed"),  # one case of twenty
        ("F+FFF/P+PPP " + "P/P " * 19, {}, "no_evidence"),
        ("FFF/PPP " * 3 + "PPP/PPP " * 9, {"alpha": 0.0001}, "no_evidence"),
        # which tolerates failures, and no fall
        ("F/P " * 7 + "P/P " * 13, {"pass_rate": 0.5}, "regressed"),
        ("P/F " * 6 + "F/P " * 7 + "P/P " * 4, {}, "no_evidence"),  # as many rose as fell
        ("55/66 " * 100, {}, "regressed"),  # graded: a tenth lower in every run
        ("55/66 " * 40, {}, "no_evidence"),
        ("55/77 " * 40, {}, "regressed"),
        ("33/99 " * 10, {}, "regressed"),
        ("56/55 " * 10, {"max_drop": 0.1}, "no_evidence"),
        ("22/55 " * 20, {"max_drop": 0.4}, "no_evidence"),  # less than what is let pass
        ("??/PP " * 3, {}, "not_measured"),
        ("?P/PP " + "PP/PP " * 3, {}, "not_measured"),
        ("?P/PP " + "PP/PP " * 30, {"min_measured": 0.9}, "no_evidence"),
        ("F?/PP " * 3, {}, "not_measured"),
        ("F?/PP " * 8, {}, "regressed"),  # bad, whatever is missing
        ("?P/PP " + "FF/PP " * 9, {}, "regressed"),
    ],
)
def test_claims(text: str, policy: dict[str, object], expected: str) -> None:
    comparison = sides.compare(text, policy=Policy(**policy))  # type: ignore[arg-type]
    assert comparison.criteria[0].change == expected


@pytest.mark.parametrize(
    ("text", "expected", "compared"),
    [
        ("P-/P- " * 3 + "PP/PP", "no_evidence", 4),
        ("--/-- " * 3 + "PP/PP", "no_evidence", 1),  # of cases that it is not for
        ("--/PP " * 3 + "PP/PP", "no_evidence", 1),  # an answer without what it is for
        ("-?/-- " * 3 + "PP/PP", "not_measured", 1),
        ("--/-- " * 3 + "FF/PP " * 7, "regressed", 7),
    ],
)
def test_a_criterion_that_abstains_lacks_no_score(text: str, expected: str, compared: int) -> None:
    row = sides.compare(f"{text}; {'PP/PP ' * len(text.split())}").criteria[0]
    assert (row.change.value, row.cases.compared) == (expected, compared)


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


def test_advisory_suites_and_quarantined_cases_have_rows_of_their_own() -> None:
    text = "FFF/PPP " * 5 + "PPP/PPP " * 5
    advisory = sides.compare(text, policy=Policy(advisory=frozenset({sides.SUITE})))
    assert [
        (row.rule.gating, row.rule.advisory, row.change.value) for row in advisory.criteria
    ] == [(False, True, "no_evidence")]
    rows = sides.compare(text, policy=sides.quarantining(*range(5))).criteria
    assert [(row.rule.gating, row.rule.advisory, row.change.value) for row in rows] == [
        (True, False, "no_evidence"),
        (False, True, "no_evidence"),
    ]


def test_informational_criteria_are_shown_and_decide_only_where_the_policy_says_so() -> None:
    uses = (sides.use("m"), sides.use("n", threshold=None, lower=True))
    text = "PP/PP " * 12 + "; " + "99/11 " * 12
    scales = {"m": Scale(), "n": Scale(highest=None)}
    shown = sides.compare(text, uses=uses, scales=scales).criteria[1]
    assert (shown.rule.gating, shown.change.value, shown.delta) == (
        False,
        "no_evidence",
        pytest.approx(0.8),
    )
    # a share of base's mean where the scale is open
    assert shown.rule.floor == pytest.approx(0.05 * 0.1)
    policy = Policy(criteria={"n": CriterionRule(gating=True, max_drop=10.0)})
    ruled = sides.compare(text, uses=uses, scales=scales, policy=policy).criteria[1]
    assert (ruled.rule.gating, ruled.rule.floor) == (True, pytest.approx(1.0))
    assert ruled.change is Change.NO_EVIDENCE


def test_lower_is_better_turns_the_claims_round() -> None:
    uses = (sides.use("m", threshold=0.5, lower=True),)
    row = sides.compare("FFF/PPP " * 3 + "PPP/PPP " * 9, uses=uses).criteria[0]
    assert (row.change.value, row.delta, row.drop) == (
        "regressed",
        pytest.approx(0.25),
        pytest.approx(0.25),
    )


def test_the_floor_is_a_share_of_the_scale() -> None:
    scales = {"m": Scale(lowest=1.0, highest=5.0)}
    row = sides.compare("33/33", uses=(sides.use("m"),), scales=scales).criteria[0]
    assert row.rule.floor == pytest.approx(0.2)


def test_a_difference_that_measuring_itself_makes_is_none() -> None:
    text = "77/11 " * 20  # six tenths for certain
    for resolution, expected in ((0.0, "regressed"), (0.3, "regressed"), (0.61, "no_evidence")):
        scales = {"m": Scale(highest=None, resolution=resolution)}
        row = sides.compare(
            text, uses=(sides.use("m", threshold=0.9, lower=True),), scales=scales
        ).criteria[0]
        assert (row.change.value, row.rule.floor >= resolution) == (expected, True)


def test_a_clock_says_nothing_of_sides_that_were_measured_apart() -> None:
    uses = (sides.use("m"), sides.use("s", threshold=0.9, lower=True))
    text = "F/P " * 7 + "P/P " * 4 + "; " + "9/8 " * 2 + "8/9 " * 3 + "9/9 " * 6
    scales = {"m": Scale(), "s": Scale(highest=None, clocked=True)}
    beside = sides.compare(text, uses=uses, scales=scales)
    assert beside.criteria[1].change is Change.NO_EVIDENCE
    met, seconds = sides.compare(text, uses=uses, scales=scales, run_together=False).criteria
    assert (seconds.change, seconds.lack) == (Change.NOT_MEASURED, Lack.CLOCK)
    assert (seconds.base, seconds.head) == (beside.criteria[1].base, beside.criteria[1].head)
    assert met.change is Change.REGRESSED


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("F/P", "new"),
        ("F/F", "known"),
        ("F/?", "unknown"),
        ("F/. P/P", "unknown"),  # of the first case
        ("P/P", None),
        ("?/P", None),
        ("FFP/PPP", "mixed"),
        ("FFF/PFF", "mixed"),
    ],
)
def test_whose_failure_it_is_by_the_first_runs(text: str, origin: str | None) -> None:
    found = sides.compare(text, policy=Policy(**ALL)).cases[0].origin
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
        ("F/F ; F/?", "known", ""),
        ("F/P ; F/?", "new", "m"),
        ("F/P ; P/?", "new", "m"),
        ("F/? ; P/P", "unknown", ""),  # of what head fails, a part is not known
        ("FF/FF ; FF/PP", "new", "n"),
        ("PFF/PPP ; FPP/PPP", "new", "m"),
    ],
)
def test_a_failure_is_known_by_the_criteria_that_fail(text: str, origin: str, newly: str) -> None:
    case = sides.compare(text, policy=Policy(**ALL)).cases[0]
    assert (case.origin, "".join(case.newly)) == (FailureOrigin(origin), newly)


def test_a_criterion_without_a_say_makes_no_failure_new() -> None:
    uses = (sides.use("m"), sides.use("n", threshold=None))
    case = sides.compare("F/F ; F/P", uses=uses, policy=Policy(**ALL)).cases[0]
    assert (case.origin, case.newly) == (FailureOrigin.KNOWN, ())


def test_the_base_has_no_outcome_of_another_question() -> None:
    unpaired = {(sides.SUITE, "c0"): CaseStatus.CHANGED, (sides.SUITE, "c1"): CaseStatus.NEW}
    comparison = sides.compare("F/F F/P P/F", unpaired=unpaired)
    assert [(case.origin, case.base, case.broken) for case in comparison.cases[:2]] == [
        (FailureOrigin.UNKNOWN, None, False)
    ] * 2
    assert comparison.cases[2].fixed


def test_a_graded_criterion_that_fails_in_the_mean_alone() -> None:
    assert sides.compare("41/PP", policy=Policy(**ALL)).cases[0].origin is FailureOrigin.NEW


@pytest.mark.parametrize(
    ("text", "rule", "origin"),
    [
        ("F/P", "confirmed", "unconfirmed"),  # nobody ran it again
        ("F+F/P+P", "confirmed", "unconfirmed"),  # not often enough
        ("F+FFFFF/P+PPPPP", "confirmed", "new"),
        ("F+PP/P+PP", "confirmed", "flaky"),
        ("F+??????/P+??????", "confirmed", "unconfirmed"),  # what cannot be measured says nothing
        ("F+PPP/P+???", "confirmed", "unconfirmed"),
        ("F++FFFFFFFFFFFF/F", "confirmed", "known"),
        ("F++P/F", "confirmed", "flaky"),
        ("F++F/F", "confirmed", "known"),
        ("F/F", "new", "known"),
        ("!+FFFFF/P+PPPPP", "confirmed", "new"),  # a crash is a run that did not pass
        ("!+P/P+P", "confirmed", "flaky"),
        ("!++P/!", "confirmed", "flaky"),
    ],
)
def test_whose_failure_it_is_by_fresh_runs(text: str, rule: str, origin: str) -> None:
    comparison = sides.compare(
        f"{text} " + "P/P " * 9, policy=Policy(threshold=ThresholdRule(rule))
    )
    assert comparison.cases[0].origin == origin


@pytest.mark.parametrize(
    ("text", "is_worse"),
    [
        # head passes what the base fails; nobody knows the second criterion
        (f"{'P/F ' * 9}; {'?/? ' * 9}", False),
        # only head does not know it
        (f"{'P/F ' * 9}; {'?/P ' * 9}", True),
        (f"{'P/P ' * 9}; {'?/P ' * 9}", True),
    ],
)
def test_a_criterion_unknown_on_both_sides_makes_neither_side_worse(
    text: str, *, is_worse: bool
) -> None:
    assert sides.compare(text).book.is_worse is is_worse


def test_fresh_runs_are_counted() -> None:
    reruns = sides.compare("F+FPF+/P+PP?+ P/P").cases[0].reruns
    assert reruns is not None
    assert (reruns.passed, reruns.runs, reruns.base_passed, reruns.base_runs) == (1, 3, 2, 2)


def of_another_day(base: Run) -> Run:
    """The base, whose first runs are earlier results."""
    return dataclasses.replace(
        base, trials=tuple(dataclasses.replace(trial, apart=True) for trial in base.trials)
    )


def test_nothing_is_staked_on_a_base_of_another_day() -> None:
    head, base = sides.sides("F/P " * 9 + "P/P " * 4)
    assert sides.compare_runs(head, base).book.is_worse
    comparison = sides.compare_runs(head, of_another_day(base))
    assert comparison.book.worse == 1
    assert [row.change for row in comparison.criteria] == [Change.INCONCLUSIVE]
    assert comparison.is_past


def test_a_base_that_ran_today_is_not_one_of_another_day() -> None:
    head, base = sides.sides("5+9/9+9 " * 30)
    comparison = sides.compare_runs(head, of_another_day(base))
    assert [row.change for row in comparison.criteria] == [Change.NO_EVIDENCE]
    assert not comparison.is_past


def test_a_side_that_crashes_in_each_run_is_not_a_base_of_another_day() -> None:
    comparison = sides.compare("!/P !/P")
    assert [(row.change, row.lack) for row in comparison.criteria] == [
        (Change.INCONCLUSIVE, Lack.RUNS)
    ]
    assert not comparison.is_past


# ---- what must hold for all data

runs = st.text("PF?", min_size=3, max_size=3)
tables = st.lists(st.tuples(runs, runs), min_size=1, max_size=6)
graded = st.lists(
    st.tuples(*[st.text("0123456789", min_size=2, max_size=2)] * 2), min_size=1, max_size=5
)
POLICIES = [Policy(), Policy(min_measured=0.5), Policy(max_drop=0.0, alpha=0.3, min_measured=0.0)]
policies = st.sampled_from(POLICIES)


def words(table: list[tuple[str, str]]) -> str:
    return " ".join(f"{head}/{base}" for head, base in table)


MIRROR = {Change.REGRESSED: Change.IMPROVED, Change.IMPROVED: Change.REGRESSED}


@settings(max_examples=60, deadline=None)
@given(st.one_of(tables, graded), policies)
def test_swapping_the_sides_mirrors_everything(
    table: list[tuple[str, str]], policy: Policy
) -> None:
    head, base = sides.sides(words(table))
    forth, back = (
        sides.compare_runs(head, base, policy=policy),
        sides.compare_runs(base, head, policy=policy),
    )
    assert (forth.book.worse, forth.book.better) == (
        pytest.approx(back.book.better),
        pytest.approx(back.book.worse),
    )
    assert forth.rates == back.rates[::-1]
    for one, other in zip(forth.criteria, back.criteria, strict=True):
        if one.change in MIRROR and other.change is not Change.NOT_MEASURED:
            assert other.change is MIRROR[one.change]
        if one.delta is not None:
            assert other.delta == pytest.approx(-one.delta)


any_scores = st.lists(st.floats(-MOST, MOST), min_size=2, max_size=2)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(any_scores, any_scores), min_size=1, max_size=4), policies)
def test_any_scores_that_there_may_be_give_numbers(
    table: list[tuple[list[float], list[float]]], policy: Policy
) -> None:
    head, base = (of_scores([list(case[side]) for case in table]) for side in (0, 1))
    scales = {"m": Scale(lowest=None, highest=None)}
    comparison = sides.compare_runs(head, base, policy=policy, scales=scales)
    row = comparison.criteria[0]
    numbers = (
        row.delta,
        row.rule.floor,
        row.evidence,
        comparison.book.worse,
        comparison.book.better,
    )
    assert all(math.isfinite(number) for number in numbers if number is not None)
    decided = comparison_verdict.decide(sides.scaled(head, scales), policy, comparison=comparison)
    assert all(case.kind is not VerdictKind.NOT_MEASURED for case in decided.suites[0].cases)


def of_scores(cases: list[list[float]]) -> Run:
    """A run of one criterion, two trials a case."""
    run = sides.run([["00"] * len(cases)])
    values = {f"c{number}": values for number, values in enumerate(cases)}
    trials = (
        dataclasses.replace(
            trial, grades={"m": Score(value=values[trial.key.case_id][trial.key.number])}
        )
        for trial in run.trials
    )
    return dataclasses.replace(run, trials=tuple(trials))


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.lists(runs, min_size=1, max_size=6),
        st.lists(st.text("0123456789", min_size=2, max_size=2), min_size=1),
    ),
    policies,
)
def test_identical_sides_never_regress(cases: list[str], policy: Policy) -> None:
    if len({len(case) for case in cases}) != 1:
        return
    comparison = sides.compare(" ".join(f"{case}/{case}" for case in cases), policy=policy)
    assert comparison.criteria[0].change not in (Change.REGRESSED, Change.IMPROVED)
    assert comparison.book.worse <= 1


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
        (lose(head, position % len(head.trials)), base)
        if of_head
        else (head, lose(base, position % len(base.trials)))
    )
    before, after = (
        comparison_verdict.decide(
            one, policy, comparison=sides.compare_runs(one, other, policy=policy)
        )
        for one, other in ((head, base), (lost_head, lost_base))
    )
    # with a lower `min_measured` the policy itself lets cases pass that lack a score: where one was
    # lacking before, what is lost may be the only one that spoke against the case
    lost = table[position % len((head if of_head else base).trials) // 3][0 if of_head else 1]
    known = policy.min_measured == 1.0 or "?" not in lost
    for gate in GateKind if known else [GateKind.REGRESSION]:
        kinds = [
            next(each.kind for each in verdict.gates if each.gate is gate)
            for verdict in (before, after)
        ]
        assert kinds[1] is not VerdictKind.PASS or kinds[0] is VerdictKind.PASS
    assert not known or after.kind is not VerdictKind.PASS or before.kind is VerdictKind.PASS


def test_min_measured_lets_no_case_pass_that_fails_as_far_as_it_was_measured() -> None:
    head, _ = sides.sides("?FF/??? FPP/???")
    lost = lose(head, 1)
    policy = Policy(min_measured=0.5)
    verdict = comparison_verdict.decide(lost, policy, comparison=None)
    assert verdict.kind is VerdictKind.NOT_MEASURED
    assert [case.doubtful for case in verdict.suites[0].cases] == [True, False]


def test_pass_rates_are_unbiased() -> None:
    """Of C(passes, k) and C(failures, k), over the cases that are known on both sides."""
    runs = [[True, True, False], [True, True, False], [False, False]]
    head, base = compare.pass_rates(
        [(case, [True, True]) for case in runs] + [([], [True]), ([True], [])]
    )
    assert (head.cases, head.k, head.rate) == (3, 2, pytest.approx(4 / 9))
    assert head.all_of_k == pytest.approx((1 / 3 + 1 / 3 + 0) / 3)
    assert head.any_of_k == pytest.approx((1 + 1 + 0) / 3)
    assert (base.k, base.rate, base.all_of_k, base.any_of_k) == (2, 1, 1, 1)
    assert compare.pass_rates([([], []), ([True], [])]) == ()
