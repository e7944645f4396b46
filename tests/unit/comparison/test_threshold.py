"""The threshold gate, case by case: a small language writes the grades of a case's repeats."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from evalgate.comparison import threshold
from evalgate.model import (
    AgentFailure,
    CaseVerdict,
    CriterionUse,
    FailureKind,
    Grade,
    GradedTrial,
    NotEvaluated,
    Reason,
    Run,
    Score,
    TrialKey,
)
from evalgate.model.deviations import under

OUTAGE = NotEvaluated(reason=Reason.CRITERION_FAILED, message="the judge is out")
CRASH = AgentFailure(kind=FailureKind.RAISED, message="KeyError: 'city'")


ABSTENTION = NotEvaluated(reason=Reason.ABSTAINED, message="NOT_EVALUATED")


def grade(word: str) -> Grade:
    if word in ("?", "-"):
        return OUTAGE if word == "?" else ABSTENTION
    return Score(value=float(word), turns=(float(word),))


def judge(
    text: str,
    *,
    threshold_of: float = 0.8,
    repeats: int | None = None,
    lower: bool = False,
    compat: bool = False,
) -> CaseVerdict:
    """`a=1,0.5 b=?,1`: criteria and their scores by repeat, `?` for none, `-` for a metric that
    abstains, `!` for an agent that failed."""
    columns = dict(pair.split("=") for pair in text.split())
    names = [name for name in columns if name != "info"]
    width = max(len(column.split(",")) for column in columns.values())
    trials = []
    for repeat in range(width):
        words = {name: column.split(",")[repeat] for name, column in columns.items()}
        crashed = "!" in words.values()
        grades: dict[str, Grade] = {
            name: NotEvaluated(reason=Reason.AGENT_FAILED, message="x") if crashed else grade(word)
            for name, word in words.items()
        }
        key = TrialKey(suite="s", case_id="c", number=repeat)
        trials.append(GradedTrial(key=key, failure=CRASH if crashed else None, grades=grades))
    uses = [
        CriterionUse(name=name, threshold=threshold_of, lower_is_better=lower) for name in names
    ]
    if "info" in columns:
        uses.append(CriterionUse(name="info", threshold=None, informational=True))
    return judged(uses, trials, repeats=width if repeats is None else repeats, adk_compat=compat)


def judged(
    uses: Sequence[CriterionUse],
    trials: Sequence[GradedTrial],
    *,
    repeats: int = 1,
    adk_compat: bool = False,
) -> CaseVerdict:
    run = Run(suites=(), trials=tuple(trials), transcripts={}.get, repeats=repeats)
    deviations = under(adk_compat=adk_compat)
    return threshold.judge_case(("s", "c"), uses, trials, run=run, deviations=deviations)


@pytest.mark.parametrize(
    ("grades", "expected"),
    [
        ("a=0.8", "pass"),  # reaching the threshold is enough
        ("a=0.7999999999999999", "fail"),  # no tolerance
        ("a=0.9 b=0.2", "fail"),  # every criterion counts
        ("a=0.9 b=?", "not_measured"),  # a judge outage beside a pass is no pass
        ("a=0.2 b=?", "fail"),  # an outage does not hide a failure
        ("a=?", "not_measured"),  # nothing known
        ("a=!", "not_measured"),  # a crash is not a zero
        # a metric that abstains decides nothing, and is no pass by itself
        ("a=0.9 b=-", "pass"),
        ("a=0.2 b=-", "fail"),
        ("a=-", "not_measured"),
        ("a=? b=-", "not_measured"),
        # in some runs: the others decide
        ("a=0.9,-", "pass"),
        ("a=-,0.2", "fail"),
        ("a=-,? b=1,1", "not_measured"),
        ("info=5", "not_measured"),  # informational criteria never decide
        ("a=1 info=5", "pass"),
        ("a=1 info=?", "pass"),  # and their absence does not matter
        ("a=1,0.6", "pass"),  # the mean of the repeats is what counts
        ("a=1,0.5", "fail"),
        ("a=1,?", "not_measured"),  # a missing repeat leaves the mean unknown
        ("a=0,?", "fail"),  # even a perfect second repeat could not reach 0.8
        ("a=1,!", "not_measured"),
        ("a=0,!", "fail"),
        ("a=0.7,0.8,0.9", "pass"),  # a running float sum would give 0.7999999999999999
    ],
)
def test_case_verdicts(grades: str, expected: str) -> None:
    assert judge(grades).kind.value == expected


@pytest.mark.parametrize(
    ("grades", "expected"),
    [
        ("a=0.9 b=?", "pass"),  # ADK skips what was not evaluated
        ("a=?", "not_measured"),
        ("a=!", "fail"),  # ADK counts a failed inference as a failed case
        ("a=0.2 b=?", "fail"),
    ],
)
def test_adk_compat_is_adk_with_its_faults(grades: str, expected: str) -> None:
    assert judge(grades, compat=True).kind.value == expected


def test_lower_is_better_turns_the_comparison_round() -> None:
    assert judge("a=0.3", threshold_of=0.5, lower=True).kind.value == "pass"
    assert judge("a=0.6", threshold_of=0.5, lower=True).kind.value == "fail"
    assert judge("a=1,?", threshold_of=0.4, lower=True).kind.value == "fail"


def test_a_trial_that_never_ran_is_not_measured() -> None:
    verdict = judge("a=1", repeats=3)
    assert verdict.kind.value == "not_measured"
    assert verdict.criteria[0].values == (1.0, None, None)


def test_the_reason_names_the_crash() -> None:
    assert "KeyError" in judge("a=!").reason
    assert judge("a=0.1 b=0.2").reason == "below threshold: a, b"


scores = st.lists(st.one_of(st.just("?"), st.floats(0, 1).map(str)), min_size=1, max_size=6)


@given(scores)
def test_losing_a_grade_never_improves_a_verdict(words: list[str]) -> None:
    rank = {"pass": 2, "not_measured": 1, "fail": 0}
    before = judge("a=" + ",".join(words)).kind.value
    for position in range(len(words)):
        lost = [*words[:position], "?", *words[position + 1 :]]
        after = judge("a=" + ",".join(lost)).kind.value
        # a failure that was certain may become uncertain, but nothing becomes a pass
        assert after != "pass" or before == "pass"
        assert rank[after] <= max(rank[before], 1)


@given(scores, st.randoms(use_true_random=False))
def test_the_order_of_repeats_is_irrelevant(words: list[str], random: object) -> None:
    shuffled = list(words)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert judge("a=" + ",".join(words)).kind is judge("a=" + ",".join(shuffled)).kind


@pytest.mark.parametrize(
    ("agent", "simulator", "kind"),
    [
        ("1", "1", "pass"),
        ("0", "1", "fail"),
        ("1", "0.5", "not_measured"),  # the test was broken
        # and so nothing is known of the agent, whatever it seems to have done
        ("0", "0.5", "not_measured"),
        ("0", "?", "fail"),  # nobody knows whether the test was broken
        ("?", "0.5", "not_measured"),
    ],
)
def test_a_criterion_on_the_test_below_its_threshold_leaves_the_case_unmeasured(
    agent, simulator, kind
):
    uses = [
        CriterionUse(name="a", threshold=0.8),
        CriterionUse(name="s", threshold=0.8, on_the_test=True),
    ]
    trial = GradedTrial(
        key=TrialKey(suite="s", case_id="c"),
        failure=None,
        grades={"a": grade(agent), "s": grade(simulator)},
    )
    verdict = judged(uses, [trial])
    assert verdict.kind.value == kind
    if kind == "not_measured" and simulator == "0.5":
        assert verdict.criteria[1].reason is Reason.TEST_BROKEN
        assert "0.5 is below the required 0.8" in verdict.reason


def test_a_simulated_user_that_failed_is_not_called_the_agent():
    failure = AgentFailure(kind=FailureKind.SIMULATOR, message="the model is down")
    missing = NotEvaluated(reason=Reason.SIMULATOR_FAILED, message=failure.message)
    trial = GradedTrial(
        key=TrialKey(suite="s", case_id="c"), failure=failure, grades={"a": missing}
    )
    verdict = judged([CriterionUse(name="a", threshold=0.8)], [trial])
    assert (verdict.kind.value, verdict.reason) == (
        "not_measured",
        "simulated user failed: the model is down",
    )
