"""Reports on head beside base from few words, by the real gate.

`report("pass fail*5", "pass pass*5")`: head's cases, then base's, in the words of `build`; `fail*5`
is five runs that fail, `pass*4/fail` four that pass and one that fails. `beside` takes trials of
any content instead of words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from builders import build
from builders.build import Done, call, case, turn
from evalgate.baseline import failures
from evalgate.comparison import verdict
from evalgate.comparison.book import Sides
from evalgate.model import (
    AppliedRule,
    BaseOrigin,
    BaseSource,
    CaseComparison,
    CaseKey,
    CaseStatus,
    Change,
    ComparedCases,
    Comparison,
    CriterionComparison,
    Exemption,
    ExemptionKind,
    FailureOrigin,
    GradedTrial,
    Links,
    Need,
    Policy,
    Purpose,
    Report,
    Run,
    Scale,
    Suite,
)
from evalgate.reports import wording

BASE_SHA = "0f1e2d3c4b5a69788796a5b4c3d2e1f001122334"
RERUN = BaseOrigin(source=BaseSource.RERUN, commit=BASE_SHA, found_by="merge-base")

SidesDone = Mapping[tuple[str, str], Sequence[Done | None]]


def beside(
    suites: Sequence[Suite],
    head: SidesDone,
    base: SidesDone,
    *,
    policy: Policy | None = None,
    origin: BaseOrigin = RERUN,
    unpaired: Mapping[tuple[str, str], CaseStatus] | None = None,
    judged: frozenset[str] = frozenset(),
    truncated: str = "",
    fresh: tuple[SidesDone, SidesDone] | None = None,
    alone: SidesDone | None = None,
    waiting: frozenset[CaseKey] = frozenset(),
    links: Links = build.LINKS,
    **more: Any,
) -> Report:
    """A report on both sides. `fresh`: fresh pairs of runs; `alone`: fresh runs of head."""
    policy = policy or Policy()
    suites = [_scaled(suite, judged) for suite in suites]
    runs = []
    for number, (done, commit) in enumerate(((head, links.commit), (base, BASE_SHA))):
        run = build.run_of(suites, done, commit=commit)
        again = [*(_numbered(suites, fresh[number], Purpose.PAIR) if fresh else ())]
        again += _numbered(suites, alone, Purpose.SINGLE) if alone and not number else ()
        runs.append(
            dataclasses.replace(run, truncated=truncated, seed=7, confirmations=tuple(again))
        )
    if waiting:
        quarantine = dict.fromkeys(
            waiting, Exemption(kind=ExemptionKind.LISTED, owner="@maria", expires="2026-02-01")
        )
        policy = dataclasses.replace(policy, exemptions=quarantine)
    sides = Sides(head=runs[0], base=runs[1], policy=policy, unpaired=unpaired or {})
    comparison = failures.compare(sides, origin=origin)
    return of(runs[0], comparison, policy=policy, links=links, **more)


def _numbered(suites: Sequence[Suite], done: SidesDone, purpose: Purpose) -> list[GradedTrial]:
    trials = build.run_of(suites, done).trials
    return [
        dataclasses.replace(trial, key=dataclasses.replace(trial.key, purpose=purpose))
        for trial in trials
    ]


def _scaled(suite: Suite, judged: frozenset[str]) -> Suite:
    """Scales of 0 to 1 where a criterion has a threshold, open ones where it only informs."""
    uses = tuple(
        dataclasses.replace(
            use,
            scale=Scale(highest=1.0 if use.threshold is not None else None),
            needs=frozenset({Need.JUDGE}) if use.name in judged else use.needs,
        )
        for use in suite.criteria
    )
    return dataclasses.replace(suite, criteria=uses)


def of(
    run: Run,
    comparison: Comparison,
    *,
    policy: Policy,
    links: Links = build.LINKS,
    **more: Any,
) -> Report:
    """A report on a run and a ready comparison; the real gate decides."""
    decided = verdict.decide(run, policy, comparison=comparison)
    decided = wording.with_reasons(decided, run, comparison, policy)
    given = {
        "reproduce": f"evalgate run {build.SUITE} --base {BASE_SHA}",
        "version": "0.1.0",
        **more,
    }
    return build.made(
        run=run, verdict=decided, policy=policy, comparison=comparison, links=links, **given
    )


def report(head: str, base: str, *, prefix: str = "case_", **more: Any) -> Report:
    """A report on as many cases as there are words; see the module."""
    heads, bases = [spread(word) for word in head.split()], [spread(word) for word in base.split()]
    cases = [
        case(
            f"{prefix}{number}",
            turn("Book it.", call("book", city="Oslo"), answer="Booked."),
            line=number * 10,
        )
        for number in range(1, len(heads) + 1)
    ]
    suite = build.suite(*cases)
    done = [
        {
            (suite.key, each.case_id): [build.done_of(word) for word in row]
            for each, row in zip(cases, rows, strict=True)
        }
        for rows in (heads, bases)
    ]
    return beside([suite], done[0], done[1], **more)


def without(words: str, comparison: Comparison, **more: Any) -> Report:
    """A report on head's cases, and on a base of which nothing is known."""
    alone = build.report(words)
    return of(alone.run, comparison, policy=Policy(), **more)


def compared(
    case_id: str = "c",
    *,
    origin: FailureOrigin | None = None,
    status: CaseStatus = CaseStatus.PAIRED,
) -> CaseComparison:
    """One case of which no side is known."""
    return CaseComparison(
        suite=build.SUITE, case_id=case_id, status=status, head=None, base=None, origin=origin
    )


def row(
    base: float | None = 1.0,
    head: float | None = 0.75,
    *,
    gating: bool = True,
    lower_is_better: bool = False,
    cases: ComparedCases | None = None,
    change: Change = Change.REGRESSED,
    **more: Any,
) -> CriterionComparison:
    """One criterion of both sides."""
    return CriterionComparison(
        name="m",
        rule=AppliedRule(gating=gating, lower_is_better=lower_is_better, floor=0.05),
        change=change,
        cases=cases or ComparedCases(compared=4),
        base=base,
        head=head,
        **more,
    )


def spread(word: str) -> list[str]:
    """`pass*2/fail` as one word a run."""
    found = []
    for part in word.split("/"):
        outcome, _, times = part.partition("*")
        found += [outcome] * int(times or "1")
    return found
