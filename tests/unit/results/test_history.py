"""The history of base runs: what is remembered, what counts as flaky, what is reliable."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.results import history as results_history
from evalgate.results.history import CaseHistory, PastOutcome, PastRun, PastRuns


def outcomes(text: str) -> tuple[PastOutcome, ...]:
    """`P PF - F?`: base runs of a case, a letter for each repeat: pass, fail, ? or - for not measured."""
    return tuple(
        PastOutcome(
            number=number,
            passes=run.count("P"),
            measured=run.count("P") + run.count("F"),
            runs=len(run),
        )
        for number, run in enumerate(text.split(), start=1)
    )


def record_of(*texts: str, fingerprint: str = "x", means: tuple[float | None, ...] = ()) -> PastRuns:
    """A history after base runs in which case 1, 2, ... did as the texts say; `.` where a run did not have the case."""
    record = PastRuns()
    for number, runs in enumerate(zip(*(text.split() for text in texts), strict=True)):
        cases = [case(f"case_{each}", run, fingerprint) for each, run in enumerate(runs, start=1) if run != "."]
        mean = means[number] if number < len(means) else None
        record = results_history.update(record, run_of(*cases, commit=f"{number:040x}", mean=mean))
    return record


def run_of(*cases: CaseHistory, commit: str = "c", mean: float | None = None) -> PastRuns:
    """One run, as it joins a history."""
    return PastRuns(
        runs=(PastRun(number=1, commit=commit, at="", means={} if mean is None else {"match": mean}),), cases=cases
    )


def case(case_id: str, run: str, fingerprint: str = "x") -> CaseHistory:
    return CaseHistory(suite="s", case_id=case_id, question="q", fingerprint=fingerprint, outcomes=outcomes(run))


@pytest.mark.parametrize(
    ("runs", "flaky"),
    [
        ("", False),  # nothing is known
        ("P", False),  # one run of one repeat tells nothing of flaking
        ("PPP", False),  # repeats that agree do
        ("PPF", True),
        ("P P P P", False),
        ("P P F F", False),  # once and for good: a change of the agent
        ("P F P F", True),
        ("P F P", True),
        ("P - F -", False),  # runs that were not measured are no outcome
        ("P - F - P", True),
        ("- ?? -", False),
        ("PP PF PP", True),
        ("PP PF FF", True),
        ("P? F?", False),
    ],
)
def test_flakes(runs: str, flaky: bool) -> None:
    assert results_history.is_flaky(outcomes(runs)) is flaky


@given(st.lists(st.text("PF?", min_size=1, max_size=4), max_size=12))
def test_a_pass_is_as_flaky_as_a_failure(runs: list[str]) -> None:
    mirrored = " ".join(runs).translate(str.maketrans("PF", "FP"))
    assert results_history.is_flaky(outcomes(" ".join(runs))) is results_history.is_flaky(outcomes(mirrored))


# --- memory ------------------------------------------------------------------------------------------


def test_the_record_remembers_the_last_runs_and_their_cases() -> None:
    record = PastRuns()
    for number in range(1, 8):
        cases = (case("always", "P"), *([case("early", "P")] if number < 4 else []))
        record = results_history.update(record, run_of(*cases, commit=str(number)), last=3)
    assert [run.number for run in record.runs] == [5, 6, 7]
    assert [(case.case_id, [each.number for each in case.outcomes]) for case in record.cases] == [("always", [5, 6, 7])]


def test_a_changed_case_starts_anew() -> None:
    record = results_history.update(record_of("P P P"), run_of(case("case_1", "F", "changed")))
    (history,) = record.cases
    assert (history.fingerprint, [each.number for each in history.outcomes]) == ("changed", [4])


def test_a_case_that_one_run_did_not_have_keeps_its_history() -> None:
    """As when only some suites were run."""
    assert [each.number for each in record_of("P . P", "P P P").cases[0].outcomes] == [1, 3]


@given(st.lists(st.lists(st.sampled_from("abcd"), unique=True), max_size=10), st.integers(1, 5))
def test_updating_never_remembers_more_than_it_should(runs: list[list[str]], last: int) -> None:
    record = PastRuns()
    for number, ids in enumerate(runs):
        cases = (case(case_id, "P") for case_id in ids)
        record = results_history.update(record, run_of(*cases, commit=str(number)), last=last)
    assert len(record.runs) == min(len(runs), last)
    assert {case.case_id for case in record.cases} == {case_id for ids in runs[-last:] for case_id in ids}
    oldest = record.runs[0].number if record.runs else 0
    assert all(each.number >= oldest for case in record.cases for each in case.outcomes)


# --- what it is used for -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "runs", "reliable"),
    [
        ("P P P", 3, True),
        ("P P", 3, False),  # not yet
        ("F F P P P", 3, True),  # what was repaired counts as repaired
        ("P P F", 3, False),
        ("PPPPF PPPPP", 1, True),
        ("PPPPF PPPPP", 2, False),
        ("P ? P ? P", 3, True),  # runs that were not measured neither help nor harm
        ("? ? ?", 3, False),
    ],
)
def test_reliable_cases(history: str, runs: int, reliable: bool) -> None:
    known = record_of(history).by_case()["s", "case_1"]
    assert results_history.is_reliable(known, question="q", runs=runs) is reliable


def test_new_and_changed_cases_are_not_reliable() -> None:
    known = record_of("P P P").by_case()["s", "case_1"]
    assert not results_history.is_reliable(None, question="q", runs=1)
    assert not results_history.is_reliable(known, question="changed", runs=1)


def test_a_trend_has_gaps_where_nothing_was_measured() -> None:
    record = record_of("P P P P", means=(0.5, None, 0.0, 0.75))
    (found,) = results_history.trends(record, {"match": 0.5, "unheard of": 1.0}, recent=3)
    assert (found.criterion, found.means, found.now) == ("match", (None, 0.0, 0.75), 0.5)
    assert results_history.trends(record, {"match": 0.5}, recent=1) == (), "one run is no trend"
    assert results_history.trends(PastRuns(), {"match": 0.5}) == ()
    assert results_history.trends(record, {}) == ()


@pytest.mark.parametrize(
    ("cases", "message", "color"),
    [
        ({"PP PP": 45}, "45/45", "brightgreen"),
        ({"PP PP": 43, "PF PP": 2}, "45/45 · 2 flaky", "green"),
        ({"PP PP": 40, "PF PP": 2, "PP FF": 3}, "42/45 · 2 flaky", "yellow"),
        ({"PP PP": 44, "PP P?": 1}, "44/45 · 1 not measured", "yellow"),  # never green: nobody knows
        ({"PP PP": 7, "FF FF": 3}, "7/10", "orange"),
        ({"PP PP": 6, "FF FF": 4}, "6/10", "red"),
        ({"?? ??": 10}, "0/10 · 10 not measured", "lightgrey"),
        ({"PP PP": 2, "PF PP": 1, "PP .": 1, "FF FF": 1}, "3/4 · 1 flaky", "orange"),  # those of the newest run
        ({}, "no cases", "lightgrey"),
    ],
)
def test_the_badge_is_that_of_the_newest_run(cases: dict[str, int], message: str, color: str) -> None:
    record = record_of(*(text for text, count in cases.items() for _ in range(count)))
    badge = json.loads(results_history.render_badge(record))
    assert badge == {"schemaVersion": 1, "label": "evalgate", "message": message, "color": color}
