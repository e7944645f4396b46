"""The history of base runs: what is remembered, what counts as broken or drift."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.results import history as results_history
from evalgate.results.history import CaseHistory, History, PastOutcome, PastRun, PastRuns

NOBODY = Context(environ={}, cache=Path())


def outcomes(text: str) -> tuple[PastOutcome, ...]:
    """`P PF - F?`: base runs of a case, a letter for each repeat: pass, fail, ? or - for not
    measured."""
    return tuple(
        PastOutcome(
            number=number,
            passes=run.count("P"),
            measured=run.count("P") + run.count("F"),
            runs=len(run),
        )
        for number, run in enumerate(text.split(), start=1)
    )


def record_of(
    *texts: str, fingerprint: str = "x", means: tuple[float | None, ...] = ()
) -> PastRuns:
    """A history after base runs in which case 1, 2, ... did as the texts say; `.` where a run did
    not have the case."""
    record = PastRuns()
    for number, runs in enumerate(zip(*(text.split() for text in texts), strict=True)):
        cases = [
            case(f"case_{each}", run, fingerprint)
            for each, run in enumerate(runs, start=1)
            if run != "."
        ]
        mean = means[number] if number < len(means) else None
        record = results_history.update(record, run_of(*cases, commit=f"{number:040x}", mean=mean))
    return record


def run_of(*cases: CaseHistory, commit: str = "c", mean: float | None = None) -> PastRuns:
    """One run, as it joins a history."""
    return PastRuns(
        runs=(
            PastRun(number=1, commit=commit, at="", means={} if mean is None else {"match": mean}),
        ),
        cases=cases,
    )


def case(case_id: str, run: str, fingerprint: str = "x") -> CaseHistory:
    return CaseHistory(
        suite="s", case_id=case_id, question="q", fingerprint=fingerprint, outcomes=outcomes(run)
    )


# --- memory ---------------------------------------------------------------------------------------


def test_the_record_remembers_the_last_runs_and_their_cases() -> None:
    record = PastRuns()
    for number in range(1, 8):
        cases = (case("always", "P"), *([case("early", "P")] if number < 4 else []))
        record = results_history.update(record, run_of(*cases, commit=str(number)), limit=3)
    assert [run.number for run in record.runs] == [5, 6, 7]
    assert [(case.case_id, [each.number for each in case.outcomes]) for case in record.cases] == [
        ("always", [5, 6, 7])
    ]


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
        record = results_history.update(record, run_of(*cases, commit=str(number)), limit=last)
    assert len(record.runs) == min(len(runs), last)
    assert {case.case_id for case in record.cases} == {
        case_id for ids in runs[-last:] for case_id in ids
    }
    oldest = record.runs[0].number if record.runs else 0
    assert all(each.number >= oldest for case in record.cases for each in case.outcomes)


# --- what it is used for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "broken"),
    [
        ("F F F", True),
        ("F F", False),  # not yet
        ("P P F F F", True),  # whatever it did before
        ("F F P", False),
        ("F PF F", False),  # one repeat that passes is enough
        ("FF FF FF", True),
        ("F ? F ? F", True),  # runs that were not measured neither help nor harm
        ("? ? ?", False),
    ],
)
def test_a_case_is_broken_after_three_base_runs_without_a_pass(
    history: str, *, broken: bool
) -> None:
    assert results_history.is_broken(record_of(history).cases[0]) is broken


# --- drift ----------------------------------------------------------------------------------------


def drifts(*runs: str, agents: str = "", days: str = "") -> list[str]:
    """The days on which something is seen to have moved, where 20 cases did as each text says in
    one run a day. `agents`, `days`: a letter a run, where it is another agent, or the same day."""
    record, found = PastRuns(), []
    for number, run in enumerate(runs):
        day = ord(days[number]) if days else number
        at = f"2026-01-{day % 30 + 1:02d}T04:00:00+00:00"
        new = PastRun(number=1, commit="c", at=at, agent=agents[number] if agents else "a")
        cases = [case(f"case_{each}", run) for each in range(1, 21)]
        record = results_history.update(record, PastRuns(runs=(new,), cases=tuple(cases)))
        assert results_history.parse_history(results_history.render_history(record)) == record
        if (seen := record.runs[-1].drift) is not None:
            found.append(f"{at[8:10]} since {seen.since[8:10]}")
    return found


STEADY = ("PP",) * 8


@pytest.mark.parametrize(
    ("runs", "more", "found"),
    [
        ((*STEADY, "PP"), {}, []),
        ((*STEADY, "FF"), {}, ["09 since 09"]),
        (("FF",) * 8 + ("PP",), {}, ["09 since 09"]),  # the model became better: that is drift, too
        # it takes as many runs as it takes, and knows which
        ((*STEADY, "PF", "PF", "PF"), {}, ["10 since 09"]),
        # told once: what follows is as it is now
        ((*STEADY, "FF", "FF", "FF", "FF", "FF"), {}, ["09 since 09"]),
        ((*STEADY, "FF", *("FF",) * 8, "PP"), {}, ["09 since 09", "18 since 18"]),
        ((*STEADY, "FF"), {"agents": "aaaaaaaab"}, []),  # the agent is another one
        ((*STEADY, "FF"), {"agents": "bbbbbbbba"}, []),  # one run has none before it
        ((*STEADY, "FF"), {"days": "ABCDEFGHH"}, []),  # a day has one look, by its first run
        ((*STEADY, "FF", "FF"), {"days": "ABCDEFGHHI"}, ["14 since 13"]),
        (("PP", "FF"), {}, ["02 since 02"]),
        ((*STEADY, "??"), {}, []),
    ],
)
def test_drift_is_seen_by_the_first_run_of_a_day_of_one_agent(
    runs: tuple[str, ...], more: dict[str, str], found: list[str]
) -> None:
    assert drifts(*runs, **more) == found


def test_an_agent_of_which_nothing_is_known_does_not_drift() -> None:
    runs = [
        PastRun(number=number, commit="c", at=f"2026-01-{number:02d}") for number in range(1, 3)
    ]
    assert (
        results_history.update(PastRuns(runs=tuple(runs)), run_of(case("case_1", "F")))
        .runs[-1]
        .drift
        is None
    )


def test_a_trend_has_gaps_where_nothing_was_measured() -> None:
    record = record_of("P P P", means=(None, 0.0, 0.75))
    (found,) = results_history.trends(record, {"match": 0.5, "unheard of": 1.0})
    assert (found.criterion, found.means, found.current) == ("match", (None, 0.0, 0.75), 0.5)
    only = record_of("P", means=(0.5,))
    assert results_history.trends(only, {"match": 0.5}) == (), "one run is no trend"
    assert results_history.trends(PastRuns(), {"match": 0.5}) == ()
    assert results_history.trends(record, {}) == ()


def test_earlier_runs_of_a_case_are_told_in_words() -> None:
    record = record_of("PP PF -- FF", "P . P F")
    history = History(settings=Settings(), context=NOBODY, past=record)
    found = history.of_cases()
    assert [
        (each["kind"].value, each["outcome"], each["place"]) for each in found["s", "case_1"]
    ] == [
        ("pass", "2 of 2 runs passed", "base branch"),
        ("fail", "1 of 2 runs passed", "base branch"),
        ("not_measured", "not measured", "base branch"),
        ("fail", "0 of 2 runs passed", "base branch"),
    ]
    assert [each["commit"] for each in found["s", "case_2"]] == [
        f"{number:040x}" for number in (0, 2, 3)
    ]
    assert History(settings=Settings(), context=NOBODY).of_cases() == {}
