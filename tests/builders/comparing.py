"""Reports on head beside base from few words, by the real gate.

`report("pass fail*5", "pass pass*5")`: head's cases, then base's, in the words of `build`; `fail*5` is five runs that
fail, `pass*4/fail` four that pass and one that fails. `beside` takes trials of any content instead of words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from builders import build
from builders.build import Done, call, case, turn
from evalgate.comparison import compare, confirm, verdict
from evalgate.comparison.repeats import Stage
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
    Content,
    CriterionComparison,
    Difference,
    FailureOrigin,
    GradedTrial,
    Interval,
    Links,
    Need,
    Policy,
    PValue,
    Quarantine,
    RelaxedRule,
    Report,
    Run,
    Scale,
    Suite,
    Transcript,
)

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
    relaxed: tuple[RelaxedRule, ...] = (),
    judged: frozenset[str] = frozenset(),
    start: int = 0,
    truncated: str = "",
    deterministic: bool = False,
    fresh: tuple[SidesDone, SidesDone] | None = None,
    links: Links = build.LINKS,
    **more: Any,
) -> Report:
    """A report on both sides.

    `start`: repeats of the first of two stages; 0: there is one. `deterministic`: the agent repeats itself, and the
    runs tell so. `fresh`: fresh runs of both sides, which settle new failures.
    """
    policy = policy or Policy()
    suites = [_scaled(suite, judged) for suite in suites]
    runs = [
        _staged(build.run_of(suites, done, commit=commit), start=start, truncated=truncated)
        for done, commit in ((head, links.commit), (base, BASE_SHA))
    ]
    if deterministic:
        runs = [_watched(run) for run in runs]
    if fresh is not None:
        runs = [
            dataclasses.replace(run, confirmations=build.run_of(suites, done).trials)
            for run, done in zip(runs, fresh, strict=True)
        ]
    ours, theirs = (dataclasses.replace(run, seed=7) for run in runs)
    comparison = compare.compare(
        ours,
        theirs,
        policy=policy,
        origin=origin,
        unpaired=unpaired or {},
        relaxed=relaxed,
        stage=Stage.LAST if start else Stage.ONLY,
        run_together=True,
    )
    return of(ours, comparison, policy=policy, links=links, is_rerun=fresh is not None, **more)


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
    waiting: frozenset[CaseKey] = frozenset(),
    is_rerun: bool = False,
    **more: Any,
) -> Report:
    """A report on a run and a ready comparison; the real gate decides, but for the cases that are `waiting`.
    `is_rerun`: by the reruns of the runs."""
    asked = confirm.of(run, comparison, policy=policy, unreliable=waiting) if is_rerun else ()
    comparison = confirm.settle(comparison, asked, head=run)
    held = dict.fromkeys(waiting, Quarantine(owner="@maria", expires="2026-02-01"))
    decided = verdict.decide(run, policy, comparison=comparison, unreliable=held, asked=asked)
    given = {"reproduce": f"evalgate run {build.SUITE} --base {BASE_SHA}", "version": "0.1.0", **more}
    return Report(run=run, verdict=decided, policy=policy, comparison=comparison, links=links, **given)


def report(head: str, base: str, *, prefix: str = "case_", **more: Any) -> Report:
    """A report on as many cases as there are words; see the module."""
    heads, bases = [spread(word) for word in head.split()], [spread(word) for word in base.split()]
    cases = [
        case(f"{prefix}{number}", turn("Book it.", call("book", city="Oslo"), answer="Booked."), line=number * 10)
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
    case_id: str = "c", *, origin: FailureOrigin | None = None, status: CaseStatus = CaseStatus.PAIRED
) -> CaseComparison:
    """One case of which no side is known."""
    return CaseComparison(suite=build.SUITE, case_id=case_id, status=status, head=None, base=None, origin=origin)


def row(
    base: float | None = 1.0,
    head: float | None = 0.75,
    *,
    interval: Interval | None = None,
    p_adjusted: PValue | None = None,
    gating: bool = True,
    lower_is_better: bool = False,
    cases: ComparedCases | None = None,
    change: Change = Change.REGRESSED,
    **more: Any,
) -> CriterionComparison:
    """One criterion of both sides; no difference where a mean is None."""
    return CriterionComparison(
        name="m",
        rule=AppliedRule(gating=gating, lower_is_better=lower_is_better, floor=0.05),
        change=change,
        cases=cases or ComparedCases(compared=4),
        difference=None
        if base is None or head is None
        else Difference(base=base, head=head, interval=interval, p_adjusted=p_adjusted),
        **more,
    )


def spread(word: str) -> list[str]:
    """`pass*2/fail` as one word a run."""
    found = []
    for part in word.split("/"):
        outcome, _, times = part.partition("*")
        found += [outcome] * int(times or "1")
    return found


def _staged(run: Run, *, start: int, truncated: str) -> Run:
    run = dataclasses.replace(run, truncated=truncated)
    if not start:
        return run
    further = frozenset((each.key.suite, each.key.case_id) for each in run.trials if each.key.repeat >= start)
    return dataclasses.replace(run, repeats=start, more=run.repeats - start, repeated=further)


def _watched(run: Run) -> Run:
    return dataclasses.replace(run, trials=tuple(_with_behaviour(each, run) for each in run.trials))


def _with_behaviour(trial: GradedTrial, run: Run) -> GradedTrial:
    transcript = run.transcripts.find(trial.key)
    return dataclasses.replace(trial, behavior="" if transcript is None else _behaviour(transcript))


def _behaviour(transcript: Transcript) -> str:
    said = [(each.tool_calls, _plain(each.final_response)) for each in transcript.invocations]
    return repr(said)


def _plain(content: Content | None) -> str:
    return "" if content is None else repr(content.parts)
