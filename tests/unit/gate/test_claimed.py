"""What a claimed run's new failures come to where it is posted, and by whose rules."""

from __future__ import annotations

import dataclasses

import pytest
from builders import build, comparing

from evalgate.config.settings import Settings
from evalgate.gate import post
from evalgate.model import EditKind, Edits, GateEdit, GradedTrial, Links, PlanPart, Purpose
from evalgate.reports import comment
from evalgate.results.file import Stored


@pytest.mark.parametrize(
    ("head", "base", "origin", "blocks", "problems"),
    [
        ("pass pass pass", "pass pass pass", "flaky", False, []),  # noise turns no check red
        ("fail fail fail fail fail", "pass pass pass pass pass", "new", True, []),
        ("fail fail fail", "pass pass", "unconfirmed", True, ["fresh-runs-missing"]),  # too few
        ("", "", "unconfirmed", True, ["fresh-runs-missing"]),  # their run had another `threshold`
    ],
)
def test_fresh_runs_of_the_claimed_run_count(
    head: str, base: str, origin: str, *, blocks: bool, problems: list[str]
) -> None:
    report = post.decide(choice(), claimed("fail", head), claimed("pass", base), links=Links())
    assert report.comparison is not None
    assert [case.origin for case in report.comparison.cases] == [origin]
    assert report.verdict.blocks is blocks
    assert [problem.code for problem in report.problems] == problems


@pytest.mark.parametrize(
    ("shards", "origin"),
    [
        (1, "new"),  # five pairs are enough for all of the purse
        (2, "unconfirmed"),  # a shard of two began with half of it
    ],
)
def test_a_claim_of_merged_shards_is_judged_by_the_share_of_each(shards: int, origin: str) -> None:
    head = claimed("fail", "fail fail fail fail fail")
    homes = {
        (suite.key, case.case_id): 1 for suite in head.run.suites for case in suite.eval_set.cases
    }
    part = PlanPart(of=shards, homes=homes) if shards > 1 else None
    head = dataclasses.replace(head, run=dataclasses.replace(head.run, part=part))
    report = post.decide(choice(), head, claimed("pass", "pass pass pass pass pass"), links=Links())
    assert report.comparison is not None
    assert [case.origin for case in report.comparison.cases] == [origin]
    assert report.verdict.blocks


@pytest.mark.parametrize("has_base", [True, False])
def test_whose_rules_decided_is_not_taken_from_a_claim(*, has_base: bool) -> None:
    base = claimed("pass", "") if has_base else None
    head = dataclasses.replace(claimed("fail", ""), edits=Edits(by_base=True))
    assert not post.decide(choice(), head, base, links=Links()).edits.by_base


def test_what_a_claim_edits_is_told() -> None:
    rule = GateEdit(kind=EditKind.RULE, subject="max_drop", base="0.1", head="0.9")
    head = dataclasses.replace(
        claimed("pass", ""), comparison=None, edits=Edits(edits=(rule,), decide=True)
    )
    shown = comment.render(post.decide(choice(), head, None, links=Links()))
    assert (
        "passes only because this change relaxes the rules:** `max_drop` `0.1` \u2192 `0.9`"
        in shown
    )


def choice() -> Settings:
    return Settings(threshold="new", fail_on=frozenset({"threshold"}))


def claimed(word: str, fresh: str) -> Stored:
    """One case that did as the word says, and as `fresh` says in fresh runs, compared by the base's
    rules as it says of itself."""
    told = comparing.report("fail", "pass").comparison
    assert told is not None
    run = dataclasses.replace(build.report(word).run, confirmations=_fresh(fresh))
    return Stored(
        run=run,
        outcomes=None,  # type: ignore[arg-type]  # nobody looks at what agents said
        version="0.1.0",
        criteria={},
        comparison=told,
    )


def _fresh(words: str) -> tuple[GradedTrial, ...]:
    trials = [build.report(word).run.trials[0] for word in words.split()]
    return tuple(
        dataclasses.replace(
            trial, key=dataclasses.replace(trial.key, purpose=Purpose.PAIR, number=at)
        )
        for at, trial in enumerate(trials)
    )
