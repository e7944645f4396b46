"""From cases to suites to the one answer."""

from __future__ import annotations

import dataclasses

import pytest
from builders import sides
from hypothesis import example, given, strategies as st

from evalgate.comparison import threshold, verdict as comparison_verdict
from evalgate.model import (
    AgentFailure,
    AgentUse,
    Case,
    CaseVerdict,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    FailOn,
    FailureKind,
    GradedTrial,
    NotEvaluated,
    Policy,
    Reason,
    Run,
    Score,
    Suite,
    TrialKey,
    Verdict,
    VerdictKind,
)
from evalgate.model.deviations import under


def run_of(text: str, *, complete: bool = True) -> Run:
    """`a: pass fail / b: error`: suites and how their cases ended; `-` never ran."""
    suites, trials = [], []
    for part in filter(None, (piece.strip() for piece in text.split("/"))):
        key, _, words = part.partition(":")
        cases = tuple(
            Case(case_id=f"c{number}", conversation=()) for number, _ in enumerate(words.split())
        )
        suites.append(
            Suite(
                key=key,
                eval_set=EvalSet(eval_set_id=key, cases=cases),
                criteria=(CriterionUse(name="m", threshold=0.5),),
                criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
                agent=AgentUse(driver="adk"),
            )
        )
        for case, word in zip(cases, words.split(), strict=True):
            if word == "-":
                continue
            failure = (
                AgentFailure(kind=FailureKind.EXITED, message="exited") if word == "error" else None
            )
            grade = (
                NotEvaluated(reason=Reason.AGENT_FAILED, message="exited")
                if failure
                else Score(value=1.0 if word == "pass" else 0.0)
            )
            trials.append(
                GradedTrial(
                    key=TrialKey(suite=key, case_id=case.case_id),
                    failure=failure,
                    grades={"m": grade},
                )
            )
    return Run(
        suites=tuple(suites),
        trials=tuple(trials),
        transcripts={}.get,
        complete=complete,
    )


def decide(text: str, *, complete: bool = True, **policy: object) -> Verdict:
    return sides.decide(run_of(text, complete=complete), None, Policy(**policy))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "policy", "expected"),
    [
        ("a: pass pass", {}, "pass"),
        ("a: pass fail", {}, "fail"),
        ("a: pass error", {}, "not_measured"),  # a broken agent is no pass
        ("a: fail error", {}, "fail"),  # and hides no failure
        ("a: pass -", {}, "not_measured"),  # what never ran is no pass
        ("a: pass / b: fail", {}, "fail"),  # one suite is enough
        ("a: pass / b: error", {}, "not_measured"),
        ("", {}, "not_measured"),  # nothing is not green
        ("a:", {}, "not_measured"),
        ("a: pass pass pass fail", {"pass_rate": 0.75}, "pass"),
        ("a: pass pass fail fail", {"pass_rate": 0.75}, "fail"),
        ("a: pass pass pass error", {"min_measured": 0.75}, "pass"),
        # a share of nothing is still nothing
        ("a: error error", {"min_measured": 0.0}, "not_measured"),
        ("a: pass fail error error", {"pass_rate": 0.9}, "fail"),  # 3 of 4 at best: certain
        ("a: pass fail", {"suite_pass_rate": {"a": 0.5}}, "pass"),
        # 0.7 * 10 > 7 in floats
        ("a: pass pass pass pass pass pass pass fail fail fail", {"pass_rate": 0.7}, "pass"),
    ],
)
def test_verdicts(text: str, policy: dict[str, object], expected: str) -> None:
    assert decide(text, **policy).kind.value == expected


def test_an_interrupted_run_is_no_pass() -> None:
    assert decide("a: pass", complete=False).kind is VerdictKind.NOT_MEASURED


def test_the_policy_says_what_blocks() -> None:
    assert decide("a: error").blocks
    assert not decide("a: error", fail_on=frozenset({FailOn.THRESHOLD})).blocks
    assert not decide("a: pass").blocks


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: pass", "The case passed."),
        ("a: pass pass", "All 2 cases passed."),
        ("a: pass fail", "1 of 2 cases failed in a."),
        ("a: fail error / b: fail", "2 of 3 cases failed in a and b; 1 could not be evaluated."),
        ("a: pass error", "1 of 2 cases could not be evaluated in a."),
        ("", "There was no case to evaluate."),
    ],
)
def test_sentences(text: str, sentence: str) -> None:
    assert decide(text).reason == sentence


def test_adding_an_unmeasured_case_never_improves_a_verdict() -> None:
    order = {"pass": 2, "not_measured": 1, "fail": 0}
    for text in ("a: pass", "a: fail", "a: pass fail", "a: error"):
        assert order[decide(f"{text} error").kind.value] <= order[decide(text).kind.value]


@pytest.mark.parametrize(
    ("text", "policy", "blocked_by", "sentence"),
    [
        # one failing case does not hide nine that crashed
        (
            "a: fail" + 9 * " error",
            {},
            "not_measured",
            "9 of 10 cases could not be evaluated in a (1 failed).",
        ),
        (
            "a: fail / b: error error",
            {},
            "not_measured",
            "2 of 3 cases could not be evaluated in b (1 failed).",
        ),
        ("a: pass fail", {}, None, "1 of 2 cases failed in a."),  # everything was measured
        (
            "a: fail error",
            {"pass_rate": 0.9, "min_measured": 0.5},
            None,
            "1 of 2 cases failed in a; ",
        ),
        (
            "a: fail pass error",
            {"fail_on": "inconclusive"},
            None,
            "1 of 3 cases failed in a; 1 could not",
        ),
        (
            "a: fail error",
            {"fail_on": "threshold not_measured"},
            "fail",
            "1 of 2 cases failed in a; 1 could",
        ),
    ],
)
def test_what_blocks_is_looked_for_behind_the_kind_as_well(
    text: str, policy: dict[str, object], blocked_by: str | None, sentence: str
) -> None:
    words = str(policy.get("fail_on", "not_measured")).split()
    verdict = decide(text, **{**policy, "fail_on": frozenset(map(FailOn, words))})
    assert verdict.kind is VerdictKind.FAIL
    assert verdict.blocked_by == blocked_by
    assert verdict.reason.startswith(sentence)


def test_a_budget_is_looked_for_behind_failures_and_crashes() -> None:
    for text in (
        "a: fail -",
        "a: error -",
        "a: fail error -",
        "a: fail / b: -",
        "a: error / b: pass",
    ):
        run = dataclasses.replace(run_of(text), truncated="1.00 USD were spent")
        verdict = sides.decide(run, None, Policy(fail_on=frozenset({FailOn.INCONCLUSIVE})))
        assert verdict.blocked_by is VerdictKind.INCONCLUSIVE, text
        assert verdict.reason.startswith("The run was cut short (1.00 USD were spent)")
        assert ("failed." in verdict.reason) == ("fail" in text)


@pytest.mark.parametrize("adk_compat", [False, True])
def test_a_case_that_fails_by_one_criterion_does_not_hide_what_another_lacks(
    *, adk_compat: bool
) -> None:
    run = run_of("a: fail")
    suite = dataclasses.replace(
        run.suites[0],
        criteria=(*run.suites[0].criteria, CriterionUse(name="judged", threshold=0.5)),
    )
    outage = NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message="the judge is out")
    trial = dataclasses.replace(run.trials[0], grades={**run.trials[0].grades, "judged": outage})
    run = dataclasses.replace(run, suites=(suite,), trials=(trial,))
    policy = Policy(
        fail_on=frozenset({FailOn.NOT_MEASURED}), deviations=under(adk_compat=adk_compat)
    )
    verdict = sides.decide(run, None, policy)
    assert verdict.kind is VerdictKind.FAIL
    assert verdict.blocks is not adk_compat  # ADK passes over criteria without a score
    if not adk_compat:
        assert verdict.reason == "1 of 1 cases could not be fully evaluated in a (1 failed)."


SUITES = st.lists(
    st.lists(st.sampled_from(["pass", "fail", "error", "-"]), min_size=1, max_size=6), max_size=3
)
FAIL_ON = st.frozensets(st.sampled_from(FailOn))
SHARES = st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0])


def blocks(suites: list[list[str]], *, truncated: str, policy: Policy) -> bool:
    run = run_of(" / ".join(f"s{number}: {' '.join(cases)}" for number, cases in enumerate(suites)))
    return comparison_verdict.decide(
        dataclasses.replace(run, truncated=truncated), policy, comparison=None
    ).blocks


@given(SUITES, st.integers(0, 3), FAIL_ON, SHARES, st.sampled_from(["", "spent"]))
@example([["error"]], 0, frozenset({FailOn.NOT_MEASURED}), 1.0, "")
@example([["error"]], 1, frozenset({FailOn.NOT_MEASURED}), 1.0, "")
@example([["-"]], 0, frozenset({FailOn.INCONCLUSIVE}), 1.0, "spent")
def test_a_failing_case_more_never_lets_a_verdict_pass(
    suites: list[list[str]],
    where: int,
    fail_on: frozenset[FailOn],
    pass_rate: float,
    truncated: str,
) -> None:
    policy = Policy(fail_on=fail_on, pass_rate=pass_rate)
    more = [[*cases, "fail"] if number == where else cases for number, cases in enumerate(suites)]
    more = more if where < len(suites) or not suites else [*suites, ["fail"]]
    if blocks(suites, truncated=truncated, policy=policy):
        assert blocks(more, truncated=truncated, policy=policy)


@given(SUITES, FAIL_ON, SHARES, SHARES, st.sampled_from(["", "spent"]))
def test_a_case_that_turns_from_pass_to_fail_never_lets_a_verdict_pass(
    suites: list[list[str]],
    fail_on: frozenset[FailOn],
    pass_rate: float,
    min_measured: float,
    truncated: str,
) -> None:
    policy = Policy(fail_on=fail_on, pass_rate=pass_rate, min_measured=min_measured)
    if not blocks(suites, truncated=truncated, policy=policy):
        return
    for number, cases in enumerate(suites):
        if "pass" in cases:
            at = cases.index("pass")
            worse = [
                *suites[:number],
                [*cases[:at], "fail", *cases[at + 1 :]],
                *suites[number + 1 :],
            ]
            assert blocks(worse, truncated=truncated, policy=policy), worse


@given(
    st.tuples(*[st.integers(0, 4)] * 5).filter(lambda counts: counts[0] > 0),
    SHARES,
    SHARES,
)
def test_turning_a_pass_never_takes_a_kind_out_of_what_is_there(
    numbers: tuple[int, ...], required: float, min_measured: float
) -> None:
    passed, failed, unrun, unmeasured, doubtful = numbers

    def there(turned: int) -> set[VerdictKind]:
        kinds = [
            *[(VerdictKind.PASS, None)] * (passed - turned),
            *[(VerdictKind.FAIL, None)] * (failed + turned),
            *[(VerdictKind.INCONCLUSIVE, None)] * unrun,
            *[(VerdictKind.NOT_MEASURED, None)] * unmeasured,
            *[(VerdictKind.NOT_MEASURED, VerdictKind.FAIL)] * doubtful,
        ]
        cases = [
            CaseVerdict(suite="s", case_id=f"c{at}", kind=kind, criteria=(), second_kind=second)
            for at, (kind, second) in enumerate(kinds)
        ]
        suite = threshold.judge(cases, required=required, min_measured=min_measured)
        return {*suite} - {VerdictKind.PASS}

    assert there(0) <= there(1)
