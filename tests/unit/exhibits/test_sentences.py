"""What reports say in words."""

from __future__ import annotations

import pytest
from builders import build

from evalgate.exhibits import cases, guidance, sentences
from evalgate.model import FailureKind, Policy, Reason, VerdictKind


def test_every_kind_of_trouble_has_words() -> None:
    assert set(sentences.REASONS) == set(Reason)
    assert set(sentences.FAILURES) == set(FailureKind)
    assert len({sentences.kind_mark(kind) for kind in VerdictKind}) == len(VerdictKind)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("error", "The agent raised an exception in turn 1 (raised): KeyError: 'city'"),
        ("timeout", "The agent took too long in turn 1 (timeout): it ended as timeout"),
        ("unjudged", "response_match_score: the criterion itself failed: no number came back"),
        ("never", "It never ran."),
    ],
)
def test_why_a_case_was_not_measured(words: str, why: str) -> None:
    (exhibit,) = cases.collect(build.report(words))
    assert sentences.why_unmeasured(exhibit) == why


@pytest.mark.parametrize(
    ("words", "policy", "headline", "step"),
    [
        ("pass", Policy(), "Pass", ""),
        ("pass fail", Policy(pass_rate=0.5), "Pass", "within what the required pass rate allows"),
        ("fail", Policy(), "Fail", "Repair the agent"),
        ("fail", Policy(fail_on=frozenset()), "Fail, but the policy does not block on it", "Repair the agent"),
        ("error", Policy(), "Not measured", "says nothing about the agent's quality"),
    ],
)
def test_the_verdict_and_the_next_step(words: str, policy: Policy, headline: str, step: str) -> None:
    report = build.report(words, policy=policy)
    assert sentences.headline(report.verdict) == headline
    assert step in guidance.next_step(report)
    assert bool(step) == bool(guidance.next_step(report))
