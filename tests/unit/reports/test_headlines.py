"""What reports say in words."""

from __future__ import annotations

import pytest
from builders import build

from evalgate.model import Policy, VerdictKind
from evalgate.reports import cases, view, wording


def test_every_kind_has_a_sign_of_its_own() -> None:
    assert len({cases.MARKS[kind] for kind in VerdictKind}) == len(VerdictKind)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("error", "The agent raised an exception in turn 1 (raised): KeyError: 'city'"),
        ("timeout", "The agent timed out in turn 1 (timeout): it ended as timeout"),
        ("unjudged", "response_match_score: scoring failed: no number came back"),
        ("never", "The case did not run."),
    ],
)
def test_why_a_case_was_not_measured(words: str, why: str) -> None:
    (case,) = view.view_of(build.report(words)).cases
    assert case.unmeasured_reason == why


@pytest.mark.parametrize(
    ("words", "policy", "headline", "step"),
    [
        ("pass", Policy(), "Pass", ""),
        ("pass fail", Policy(pass_rate=0.5), "Pass", "within the required pass rate"),
        ("fail", Policy(), "Fail", "Fix the agent"),
        ("fail", Policy(fail_on=frozenset()), "Fail (non-blocking)", "Fix the agent"),
        ("error", Policy(), "Not measured", "Without a result there is no pass"),
    ],
)
def test_the_verdict_and_the_next_step(
    words: str, policy: Policy, headline: str, step: str
) -> None:
    report = build.report(words, policy=policy)
    assert wording.headline(report) == headline
    assert step in wording.next_step(report)
    assert bool(step) == bool(wording.next_step(report))
