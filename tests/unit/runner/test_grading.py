"""Grades of a trial: each criterion's own, though equal ones are kept once."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Mapping

from hypothesis import given, strategies as st

from evalgate.criteria.base import Criterion
from evalgate.model import (
    CriterionUse,
    Finding,
    Grade,
    NotEvaluated,
    Reason,
    Score,
    Transcript,
    Trial,
    TrialKey,
    TrialView,
)
from evalgate.runner import session
from evalgate.runner.trials import Task
from tests.unit.runner import fakes

CASE = fakes.case("c")
KEY = TrialKey(suite="s", case_id="c")
TASK = Task(key=KEY, suite=fakes.suite("s", CASE), case=CASE)
TRIAL = Trial(key=KEY, outcome=Transcript(invocations=()))

values = st.sampled_from([0.0, 0.5, 1.0])  # few, so that equal ones meet
turns = st.lists(st.none() | values, max_size=2).map(tuple)
findings = st.sampled_from([(), (Finding(text="so"),), (Finding(text="or so", turn=1),)])
grades = st.one_of(
    st.builds(
        Score,
        value=values,
        turns=turns,
        breakdown=st.sampled_from([{}, {"in": 1.0}]),
        findings=findings,
        passed=st.sampled_from([None, True]),
    ),
    st.builds(
        NotEvaluated,
        reason=st.sampled_from(list(Reason)[:2]),
        message=st.sampled_from("ab"),
        turns=turns,
        findings=findings,
    ),
)


def graded(given_grades: Mapping[str, Grade]) -> Mapping[str, Grade]:
    criteria = {
        name: (lambda _evidence, found=found: found) for name, found in given_grades.items()
    }
    return session.grade(TRIAL, TASK, criteria, stored_grades={})


def test_criteria_that_ask_a_judge_do_so_at_the_same_time_and_stay_in_their_order() -> None:
    """Each waits for the other: one after the other they would wait for good."""
    both = threading.Barrier(2)

    def asks(value: float, pause_s: float) -> Criterion:
        def judged(_: TrialView) -> Grade:
            both.wait(10)
            time.sleep(pause_s)
            return Score(value=value)

        return judged

    suite = fakes.suite("s", CASE, criteria=("slow", "quick"))
    suite = dataclasses.replace(
        suite, criteria=(*suite.criteria, CriterionUse(name="plain", threshold=0.5))
    )
    made = session.grade(
        TRIAL,
        Task(key=KEY, suite=suite, case=CASE),
        {"slow": asks(0.1, 0.05), "plain": lambda _: Score(value=0.2), "quick": asks(0.3, 0.0)},
        stored_grades={},
    )
    assert [(name, grade) for name, grade in made.items()] == [
        ("slow", Score(value=0.1)),
        ("plain", Score(value=0.2)),
        ("quick", Score(value=0.3)),
    ]


def test_a_criterion_that_breaks_breaks_no_other() -> None:
    suite = fakes.suite("s", CASE, criteria=("one", "two", "known"))

    def broken(_: TrialView) -> Grade:
        raise ValueError("no")

    found = session.grade(
        TRIAL,
        Task(key=KEY, suite=suite, case=CASE),
        {"one": broken, "two": lambda _: Score(value=1.0), "known": broken},
        stored_grades={"known": Score(value=0.5)},
    )
    assert found["one"] == NotEvaluated(
        reason=Reason.CRITERION_FAILED, message="one raised ValueError: no"
    )
    assert (found["two"], found["known"]) == (Score(value=1.0), Score(value=0.5))


@given(st.lists(st.dictionaries(st.sampled_from("xyz"), grades), max_size=6))
def test_every_criterion_keeps_its_own_grade_in_its_own_place(
    trials: list[dict[str, Grade]],
) -> None:
    kept = [graded(each) for each in trials]
    assert [list(each.items()) for each in kept] == [list(each.items()) for each in trials]
    assert repr(kept) == repr(trials)
