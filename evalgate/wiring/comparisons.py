"""Head's run beside base's, wherever the two come from: measured just now, joined from parts, read from files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from evalgate import criteria
from evalgate.criteria.base import Need
from evalgate.gate import comparing
from evalgate.gate.pairing import CaseKey
from evalgate.gate.threshold import Scale
from evalgate.gate.two_stage import Stage
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    Comparison,
    CriterionRule,
    CriterionUse,
    Loosening,
    Policy,
    Run,
    Standing,
)


def compare(
    head: Run,
    base: Run,
    *,
    policy: Policy,
    origin: BaseOrigin,
    unpaired: Mapping[CaseKey, Standing],
    loosened: tuple[Loosening, ...],
    stage: Stage,
    unreliable: frozenset[CaseKey] = frozenset(),
    beside: bool | None = None,
) -> Comparison:
    """The comparison; where nothing of the base could be measured, one that says so.

    `beside`: whether all of the base was run side by side with head; None: as the origin says.
    """
    problem = "" if _shares_no_case(head, unpaired) else _never_ran(base)
    if problem:
        return Comparison(origin=origin, problem=problem, loosened=loosened)
    beside = origin.source is BaseSource.RERUN if beside is None else beside
    notes = dict.fromkeys((*origin.notes, *_other_models(head, base, beside=beside)))
    return comparing.compare(
        head,
        base,
        policy=policy,
        scales=scales(),
        judged=_judged(),
        origin=dataclasses.replace(origin, notes=tuple(notes)),
        unpaired=unpaired,
        seed=head.seed,
        loosened=loosened,
        stage=stage,
        unreliable=unreliable,
        beside=beside,
    )


def scales() -> dict[str, Scale]:
    """The scale of every criterion."""
    return {
        spec.name: Scale(lowest=spec.lowest, highest=spec.highest, resolution=spec.resolution, clocked=spec.clocked)
        for spec in criteria.CRITERIA.values()
    }


def clocked(policy: Policy) -> tuple[str, ...]:
    """The criteria that are read from a clock and decide all the same."""
    return tuple(
        name
        for name, spec in criteria.CRITERIA.items()
        if spec.clocked and policy.criteria.get(name, CriterionRule()).gating
    )


def computed(uses: Iterable[CriterionUse]) -> frozenset[str]:
    """Those that ask nobody and run no code but ours: they give the same at any time, and cost nothing."""
    return frozenset(use.name for use in uses if use.code is None and use.name not in _judged())


def _judged() -> frozenset[str]:
    """Criteria that a judge scores."""
    return frozenset(name for name, spec in criteria.CRITERIA.items() if spec.needs & {Need.JUDGE, Need.VERTEX})


def _shares_no_case(head: Run, unpaired: Mapping[CaseKey, Standing]) -> bool:
    """Whether every case is new or changed, so that nothing could be compared whatever became of the base."""
    keys = [(suite.key, case.case_id) for suite in head.suites for case in suite.eval_set.cases]
    return bool(keys) and all(unpaired.get(key, Standing.PAIRED) is not Standing.PAIRED for key in keys)


def _never_ran(base: Run) -> str:
    """Why no trial of the base can be used at all; "" where one can."""
    if not base.trials:
        return "no base result could be compared"
    failures = [trial.failure for trial in base.trials]
    if all(failure is not None for failure in failures) and failures[0] is not None:
        return f"the base's agent did not run: {failures[0].message}"
    return ""


def _other_models(head: Run, base: Run, *, beside: bool) -> tuple[str, ...]:
    """A note where other models answered: though the agent is the same, or at another time, when a provider may have
    moved as well. That difference is not the change's, or not its alone."""
    same = dict(head.codes) == dict(base.codes)
    if not head.models or not base.models or head.models == base.models or (beside and not same):
        return ()
    then, now = (", ".join(sorted(run.models)) for run in (base, head))
    agent = "the same agent" if same else "the agent"
    return (f"{agent} used other models on the base ({then}) than on head ({now})",)
