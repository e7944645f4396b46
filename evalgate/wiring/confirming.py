"""New failures, confirmed by fresh runs: by how many, and what these say; the same here, of parts and of files."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from evalgate.agents import opening
from evalgate.errors import Problem, Severity
from evalgate.gate import confirmation
from evalgate.gate.pairing import CaseKey
from evalgate.model import Comparison, FailureOrigin, Policy, Run, Suite, ThresholdRule
from evalgate.text import words

SPARE = 2
"""How many rounds of fresh runs are made beyond those asked for, where an agent or a judge failed in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be confirmed: `cases`, each by `pairs` fresh runs of both sides, or of head where the base cannot be
    run (`alone`)."""

    cases: frozenset[CaseKey]
    pairs: int
    alone: frozenset[CaseKey]

    @property
    def rounds(self) -> range:
        """The rounds of fresh runs that may be made, counted from 1."""
        return range(1, self.pairs + SPARE + 1 if self.cases else 1)

    def settle(self, comparison: Comparison, *, head: Run, base: Run) -> Comparison:
        """The comparison by the fresh runs that there are."""
        return confirmation.settle(
            comparison, head=head, base=base, pairs=self.pairs, only=self.cases, alone=self.alone
        )


def ask(
    cases: Iterable[CaseKey], suites: Iterable[Suite], base: Run, *, repeats: int, policy: Policy, parts: int = 1
) -> Asked:
    """How these new failures are confirmed. `suites`: of the whole plan. `repeats`: the runs that every case had.
    `parts`: on how many machines, of which none knows what the others find: each makes enough runs for as many new
    failures everywhere."""
    found, planned = frozenset(cases), tuple(suites)
    pairs = confirmation.needed(
        len(found) * parts * confirmation.looks_at_most(planned),
        ways=confirmation.ways(planned),
        repeats=repeats,
        minimum=policy.confirm,
        alpha=policy.alpha,
    )
    return Asked(cases=found, pairs=pairs, alone=alone(base))


def settle_files(comparison: Comparison, *, head: Run, base: Run, policy: Policy) -> Comparison:
    """New failures by the fresh runs that stand in files; by head's alone where the base's has none of a case."""
    if policy.threshold is not ThresholdRule.NEW or comparison.problem:
        return comparison
    candidates = confirmation.candidates(comparison, policy=policy, unreliable=frozenset())
    asked = ask(candidates, head.suites, base, repeats=head.repeats, policy=policy)
    seen = {(trial.key.suite, trial.key.case_id) for trial in base.confirmations}
    asked = dataclasses.replace(asked, alone=asked.cases - seen)
    return asked.settle(comparison, head=head, base=base)


def alone(base: Run) -> frozenset[CaseKey]:
    """The cases that cannot be run on the base: only results of it are at hand."""
    return frozenset(
        (suite.key, case.case_id)
        for suite in base.suites
        if suite.agent.driver == opening.ABSENT
        for case in suite.eval_set.cases
    )


def unsettled(comparison: Comparison) -> frozenset[CaseKey]:
    """New failures of which too few fresh runs could be measured."""
    return frozenset(
        (case.suite, case.case_id) for case in comparison.cases if case.origin is FailureOrigin.UNCONFIRMED
    )


def without_base(policy: Policy, suites: Collection[str], *, is_at_hand: bool) -> tuple[Problem, ...]:
    """A warning where `threshold: new` decides and the base cannot be run for `suites` that are compared; `is_at_hand`:
    its code is, and it is its agents that cannot be run, as one behind a URL."""
    if policy.threshold is not ThresholdRule.NEW or not suites:
        return ()
    where = f" for {words.listed(sorted(suites), limit=3)}" if is_at_hand else ""
    message = (
        f"`threshold: new`: the base cannot be run here{where}, so new failures are confirmed on head only, and a "
        f"flaky case may block"
    )
    hint = "" if is_at_hand else "`baseline: auto` runs the base when needed."
    return (Problem(severity=Severity.WARNING, code="confirmed-by-head-alone", message=message, hint=hint),)


def not_run(comparison: Comparison) -> tuple[Problem, ...]:
    """A warning where files lack the fresh runs that new failures ask for."""
    cases = unsettled(comparison)
    if not cases:
        return ()
    message = (
        f"`threshold: new`: the files lack reruns of {words.counted(len(cases), 'new failure')}; a flaky case may block"
    )
    hint = "Use `evalgate run --base` to make them."
    return (Problem(severity=Severity.WARNING, code="fresh-runs-missing", message=message, hint=hint),)
