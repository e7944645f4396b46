"""One case as a reader meets it."""

from __future__ import annotations

import pytest
from builders import build

from evalgate.model import Policy, Report, VerdictKind
from evalgate.model.deviations import ADKS
from evalgate.reports import cases, view


def only(report: Report) -> cases.CaseView:
    (case,) = view.view_of(report).cases
    return case


@pytest.mark.parametrize(
    ("words", "shown", "why"),
    [
        ("pass/pass", 0, "the first, where all are alike"),
        ("pass/fail/pass", 1, "the one below its threshold"),
        ("error/fail", 1, "a wrong answer before a broken agent"),
        ("pass/error", 1, "a broken agent before a pass"),
        ("never/pass", 1, "what ran"),
    ],
)
def test_the_trial_that_shows_what_went_wrong(words: str, shown: int, why: str) -> None:
    trial = only(build.report(words)).main_trial
    assert trial is not None, why
    assert trial.key.number == shown, why


@pytest.mark.parametrize(
    ("words", "is_mixed"),
    [
        ("pass/pass/pass", False),
        ("pass/fail/pass", True),
        ("0.9/0.75/0.9", True),  # the mean passes all the same
        ("fail/fail/fail", False),
        ("pass/error/pass", False),  # unknown is neither
    ],
)
def test_mixed_is_both_sides_of_the_threshold(words: str, is_mixed: bool) -> None:
    assert bool(only(build.report(words)).mixed) is is_mixed


def test_a_broken_agent_is_told_from_a_failing_one() -> None:
    assert only(build.report("error")).agent_failed
    assert not only(build.report("fail")).agent_failed
    assert not only(build.report("fail/error")).agent_failed
    assert only(build.report("error", policy=Policy(deviations=ADKS))).agent_failed


def test_skipped_is_told_from_never_run() -> None:
    assert only(build.report("skipped")).skipped
    assert not only(build.report("never")).skipped
    assert not only(build.report("unjudged")).skipped


def test_the_furthest_below_its_threshold_comes_first() -> None:
    found = view.view_of(build.report("0.7 pass 0.1 fail 0.7")).cases
    order = [case.case_id for case in cases.worst_first(found)]
    assert order == ["case_4", "case_3", "case_1", "case_5", "case_2"]


def test_kinds() -> None:
    found = view.view_of(build.report("pass fail error")).cases
    assert [each.kind for each in found] == [
        VerdictKind.PASS,
        VerdictKind.FAIL,
        VerdictKind.NOT_MEASURED,
    ]
    assert [(each.place.file, each.place.line) for each in found] == [
        (build.SUITE, 10),
        (build.SUITE, 20),
        (build.SUITE, 30),
    ]
