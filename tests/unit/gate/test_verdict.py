"""From cases to suites to the one answer."""

from __future__ import annotations

import pytest

from evalgate.gate import verdict as verdicts
from evalgate.gate.threshold import Scale
from evalgate.model import (
    AgentFailure,
    AgentUse,
    Case,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    FailOn,
    FailureKind,
    GradedTrial,
    InMemoryTranscripts,
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


def run_of(text: str, *, complete: bool = True) -> Run:
    """`a: pass fail / b: error`: suites and how their cases ended; `-` never ran."""
    suites, trials = [], []
    for part in filter(None, (piece.strip() for piece in text.split("/"))):
        key, _, words = part.partition(":")
        cases = tuple(Case(case_id=f"c{number}", conversation=()) for number, _ in enumerate(words.split()))
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
            failure = AgentFailure(kind=FailureKind.EXITED, message="exited") if word == "error" else None
            grade = (
                NotEvaluated(reason=Reason.AGENT_FAILED, message="exited")
                if failure
                else Score(value=1.0 if word == "pass" else 0.0)
            )
            trials.append(
                GradedTrial(key=TrialKey(suite=key, case_id=case.case_id), failure=failure, grades={"m": grade})
            )
    return Run(suites=tuple(suites), trials=tuple(trials), transcripts=InMemoryTranscripts(), complete=complete)


def decide(text: str, *, complete: bool = True, **policy: object) -> Verdict:
    return verdicts.decide(run_of(text, complete=complete), Policy(**policy), scales={"m": Scale()})  # type: ignore[arg-type]


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
        ("a: error error", {"min_measured": 0.0}, "not_measured"),  # a share of nothing is still nothing
        ("a: pass fail error error", {"pass_rate": 0.9}, "fail"),  # 3 of 4 at best: certain
        ("a: pass fail", {"suite_pass_rate": {"a": 0.5}}, "pass"),
        ("a: pass pass pass pass pass pass pass fail fail fail", {"pass_rate": 0.7}, "pass"),  # 0.7 * 10 > 7 in floats
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
        ("a: pass fail", "1 of 2 cases below its threshold in a."),
        ("a: fail error / b: fail", "2 of 3 cases below their thresholds in a and b; 1 could not be measured."),
        ("a: pass error", "1 of 2 cases could not be measured in a: no pass."),
        ("", "There was no case to measure."),
    ],
)
def test_sentences(text: str, sentence: str) -> None:
    assert decide(text).reason == sentence


def test_adding_an_unmeasured_case_never_improves_a_verdict() -> None:
    order = {"pass": 2, "not_measured": 1, "fail": 0}
    for text in ("a: pass", "a: fail", "a: pass fail", "a: error"):
        assert order[decide(f"{text} error").kind.value] <= order[decide(text).kind.value]
