"""Grades of a trial: each criterion's own, though equal ones are kept once."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from evalgate.model import Finding, Grade, NotEvaluated, Reason, Score, Transcript, Trial, TrialKey
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
    criteria = {name: (lambda _evidence, found=found: found) for name, found in given_grades.items()}
    return session.grade(TRIAL, TASK, criteria).grades


@given(st.lists(st.dictionaries(st.sampled_from("xyz"), grades), max_size=6))
def test_every_criterion_keeps_its_own_grade_in_its_own_place(trials: list[dict[str, Grade]]) -> None:
    kept = [graded(each) for each in trials]
    assert [list(each.items()) for each in kept] == [list(each.items()) for each in trials]
    assert repr(kept) == repr(trials)
