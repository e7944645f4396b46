"""The history of base runs: what is remembered, what counts as flaky, who is admitted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.model import CaseTally, Health, History, PastOutcome, Reliability, RunSummary
from evalgate.results import history as results_history


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


def record_of(*texts: str, fingerprint: str = "x", means: tuple[float | None, ...] = ()) -> History:
    """A history after base runs in which case 1, 2, ... did as the texts say; `.` where a run did not have the case."""
    record = History()
    for number, runs in enumerate(zip(*(text.split() for text in texts), strict=True)):
        tallies = [tally(f"case_{each}", run, fingerprint) for each, run in enumerate(runs, start=1) if run != "."]
        mean = means[number] if number < len(means) else None
        summary = RunSummary(
            commit=f"{number:040x}", at="", cases=tuple(tallies), means={} if mean is None else {"match": mean}
        )
        record = results_history.update(record, summary)
    return record


def tally(case_id: str, run: str, fingerprint: str = "x") -> CaseTally:
    return CaseTally(
        suite="s",
        case_id=case_id,
        question="q",
        fingerprint=fingerprint,
        passes=run.count("P"),
        measured=run.count("P") + run.count("F"),
        runs=len(run),
    )


@pytest.mark.parametrize(
    ("runs", "mixed", "flips", "flaky"),
    [
        ("", 0, 0, False),  # nothing is known
        ("P", 0, 0, False),  # one run of one repeat tells nothing of flaking
        ("PPP", 0, 0, False),  # repeats that agree do
        ("PPF", 1, 0, True),
        ("P P P P", 0, 0, False),
        ("P P F F", 0, 1, False),  # once and for good: a change of the agent
        ("P F P F", 0, 3, True),
        ("P - F -", 0, 1, False),  # runs that were not measured are no outcome
        ("- ?? -", 0, 0, False),
        ("PP PF PP", 1, 0, True),
        ("PP PF FF", 1, 1, True),  # the flip is against the last run whose repeats agreed
        ("P? F?", 0, 1, False),
    ],
)
def test_flakes(runs: str, mixed: int, flips: int, flaky: bool) -> None:
    said = results_history.judge(outcomes(runs))
    assert (said.mixed_runs, said.flips, said.is_flaky) == (mixed, flips, flaky)


def test_counts_and_pass_rate() -> None:
    assert results_history.judge(outcomes("PPF ??? P?F")) == Reliability(
        base_runs=2,
        passes=3,
        failures=2,
        unmeasured=4,
        pass_rate=0.6,
        mixed_runs=2,
        flips=0,
    )


def test_what_was_never_measured_has_no_rate() -> None:
    assert results_history.judge(outcomes("? ?")).pass_rate is None


@given(st.lists(st.text("PF?", min_size=1, max_size=4), max_size=12))
def test_rates_are_shares_and_repeats_add_up(runs: list[str]) -> None:
    said = results_history.judge(outcomes(" ".join(runs)))
    assert said.passes + said.failures + said.unmeasured == sum(len(run) for run in runs)
    assert said.pass_rate is None or 0 <= said.pass_rate <= 1
    mirrored = results_history.judge(outcomes(" ".join(runs).translate(str.maketrans("PF", "FP"))))
    assert (mirrored.mixed_runs, mirrored.flips, mirrored.passes) == (said.mixed_runs, said.flips, said.failures)


# --- memory ------------------------------------------------------------------------------------------


def test_the_record_remembers_the_last_runs_and_their_cases() -> None:
    record = History()
    for number in range(1, 8):
        cases = (tally("always", "P"), *([tally("early", "P")] if number < 4 else []))
        summary = RunSummary(commit=str(number), at="", cases=cases)
        record = results_history.update(record, summary, last=3)
    assert [run.number for run in record.runs] == [5, 6, 7]
    assert [(case.case_id, [each.number for each in case.outcomes]) for case in record.cases] == [("always", [5, 6, 7])]


def test_a_changed_case_starts_anew() -> None:
    record = record_of("P P P")
    record = results_history.update(record, RunSummary(commit="c", at="", cases=(tally("case_1", "F", "changed"),)))
    (history,) = record.cases
    assert (history.fingerprint, [each.number for each in history.outcomes]) == ("changed", [4])


def test_a_case_that_one_run_did_not_have_keeps_its_history() -> None:
    """As when only some suites were run."""
    assert [each.number for each in record_of("P . P", "P P P").cases[0].outcomes] == [1, 3]


@given(st.lists(st.lists(st.sampled_from("abcd"), unique=True), max_size=10), st.integers(1, 5))
def test_updating_never_remembers_more_than_it_should(runs: list[list[str]], last: int) -> None:
    record = History()
    for number, ids in enumerate(runs):
        cases = tuple(tally(case_id, "P") for case_id in ids)
        record = results_history.update(record, RunSummary(commit=str(number), at="", cases=cases), last=last)
    assert len(record.runs) == min(len(runs), last)
    assert {case.case_id for case in record.cases} == {case_id for ids in runs[-last:] for case_id in ids}
    oldest = record.runs[0].number if record.runs else 0
    assert all(each.number >= oldest for case in record.cases for each in case.outcomes)


# --- what it is used for -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "runs", "pass_rate", "admitted"),
    [
        ("P P P", 3, 1.0, True),
        ("P P", 3, 1.0, False),  # not yet
        ("F F P P P", 3, 1.0, True),  # what was mended counts as mended
        ("P P F", 3, 1.0, False),
        ("PPPPF PPPPP", 2, 0.9, True),
        ("P ? P ? P", 3, 1.0, True),  # runs that were not measured neither help nor harm
        ("? ? ?", 3, 0.0, False),
        ("F", 0, 1.0, True),  # nothing is asked for
    ],
)
def test_admission(history: str, runs: int, pass_rate: float, admitted: bool) -> None:
    case = results_history.by_case(record_of(history))["s", "case_1"]
    assert results_history.is_admitted(case, question="q", runs=runs, pass_rate=pass_rate) is admitted


def test_new_and_changed_cases_are_not_admitted() -> None:
    case = results_history.by_case(record_of("P P P"))["s", "case_1"]
    assert not results_history.is_admitted(None, question="q", runs=1, pass_rate=0.0)
    assert not results_history.is_admitted(case, question="changed", runs=1, pass_rate=0.0)


def test_a_trend_has_gaps_where_nothing_was_measured() -> None:
    record = record_of("P P P P", means=(0.5, None, 0.0, 0.75))
    (found,) = results_history.trends(record, {"match": 0.5, "unheard of": 1.0}, recent=3)
    assert (found.criterion, found.means, found.now) == ("match", (None, 0.0, 0.75), 0.5)
    assert results_history.trends(record, {"match": 0.5}, recent=1) == (), "one run is no trend"
    assert results_history.trends(History(), {"match": 0.5}) == ()
    assert results_history.trends(record, {}) == ()


def test_health_is_that_of_the_newest_run() -> None:
    record = record_of("PP PP PP", "PF PP PP", "PP PP P?", "FF FF FF", "PP PP .")
    assert results_history.examine(record) == Health(total=4, passed=2, unmeasured=1, flaky=1)
    assert results_history.examine(History()) == Health(total=0, passed=0, unmeasured=0, flaky=0)
