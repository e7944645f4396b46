"""The figures of a run."""

from __future__ import annotations

import dataclasses

import pytest
from builders import build, comparing
from builders.build import TOOLS, WORDS

from evalgate.model import BaseSource
from evalgate.reports import view


def test_counts() -> None:
    v = view.view_of(build.report("pass pass fail error never"))
    expected = {"total": 5, "passed": 2, "failed": 1, "not_measured": 2}
    assert {label: number for label, number in v.counts.items() if number} == expected
    assert v.pass_rate == pytest.approx(2 / 3)
    assert v.tokens == 3 * 410
    assert v.agent_s == pytest.approx(4 * 1.5)


@pytest.mark.parametrize(
    ("source", "reused", "fresh", "trials"),
    [
        (BaseSource.RERUN, 0, False, 4),
        (BaseSource.RERUN, 0, True, 8),  # fresh runs of both cases on both sides
        (BaseSource.MIXED, 1, False, 3),  # one was stored
        (BaseSource.STORE, 2, False, 2),
        (BaseSource.STORE, 2, True, 6),  # stored results, confirmed by fresh runs of both sides
        (BaseSource.FILE, 0, False, 2),
    ],
)
def test_what_a_run_took_is_told_of_both_sides(
    source: BaseSource, reused: int, *, fresh: bool, trials: int
) -> None:
    report = comparing.report("fail fail", "pass pass")
    found, base = report.comparison, report.comparison and report.comparison.base
    assert found is not None
    assert base is not None
    again = {"confirmations": base.trials if fresh else ()}
    stored = [
        dataclasses.replace(trial, reused=at < reused) for at, trial in enumerate(base.trials)
    ]
    found = dataclasses.replace(
        found,
        origin=dataclasses.replace(found.origin, source=source),
        base=dataclasses.replace(base, trials=tuple(stored), **again),
    )
    report = dataclasses.replace(
        report, comparison=found, run=dataclasses.replace(report.run, **again)
    )
    v = view.view_of(report)
    assert (v.tokens, v.agent_s) == (trials * 410, pytest.approx(trials * 1.5))
    assert v.counts["total"] == 2, "cases are head's"


def test_unknown_is_not_zero() -> None:
    v = view.view_of(build.report("error timeout"))
    assert v.pass_rate is None
    assert v.tokens is None
    assert view.view_of(build.report("error")).criteria[0].mean is None
    assert view.view_of(build.report("error")).criteria[0].met is None


def test_criteria() -> None:
    tools, answers = view.view_of(build.report("pass fail error wrong")).criteria
    assert (tools.use.name, tools.threshold, tools.mean, tools.met) == (
        TOOLS,
        1.0,
        pytest.approx(2 / 3),
        False,
    )
    assert (tools.passed, tools.failed, tools.not_evaluated, tools.total) == (2, 1, 1, 4)
    assert (answers.use.name, answers.passed, answers.failed, answers.not_evaluated) == (
        WORDS,
        2,
        1,
        1,
    )


def test_an_informational_criterion_decides_nothing() -> None:
    suite = build.suite(
        build.case("c", build.turn("x")), criteria={TOOLS: 1.0, "token_usage_v1": None}
    )
    done = {
        (suite.key, "c"): [build.scores(build.turn("x"), **{TOOLS: 1.0, "token_usage_v1": 1204})]
    }
    tokens = view.view_of(build.run_report([suite], done)).criteria[1]
    assert (tokens.threshold, tokens.mean, tokens.met, tokens.failed, tokens.not_evaluated) == (
        None,
        1204.0,
        None,
        0,
        0,
    )
