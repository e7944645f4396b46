"""The bar that a head has to clear: its own rules or the base's, and where its own are the weaker ones."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from evalgate.gate import loosening
from evalgate.gate.loosening import Rules
from evalgate.model import Loosening, Policy, Suite
from evalgate.pipeline import fingerprints, trials
from evalgate.wiring.bases import Base


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What is measured, by which rules, and which of head's own rules are weaker than the base's."""

    suites: tuple[Suite, ...]
    policy: Policy
    loosened: tuple[Loosening, ...] = ()


def of(suites: tuple[Suite, ...], policy: Policy, base: Base | None, *, by_base: bool) -> Bar:
    """Head's rules; with `by_base` the base's where they are known: its policy, its criteria and thresholds for every
    suite that it has, and the cases that head deleted. The content of cases is head's, where head has them."""
    if base is None or base.rules is None:
        return Bar(suites=suites, policy=policy)
    own = Rules(suites=suites, policy=policy)
    theirs = Rules(suites=base.rules.suites, policy=base.rules.policy)
    loosened = loosening.find(theirs, own, fingerprint=fingerprints.of_case)
    if not by_base:
        return Bar(suites=suites, policy=policy, loosened=loosened)
    return Bar(suites=_restored(theirs.suites, suites), policy=theirs.policy, loosened=loosened)


def _restored(theirs: tuple[Suite, ...], ours: tuple[Suite, ...]) -> tuple[Suite, ...]:
    before = {suite.key: suite for suite in theirs}
    restored = []
    for suite in ours:
        then = before.get(suite.key)
        restored.append(suite if then is None else _with_base(suite, then))
    here = {suite.key for suite in ours}
    agents = {trials.agent_key(suite.agent): suite.agent for suite in ours}
    if len(agents) == 1:  # a deleted file's cases can only be run where it is clear which agent they are for
        (agent,) = agents.values()
        restored += [dataclasses.replace(suite, agent=agent) for suite in theirs if suite.key not in here]
    return tuple(restored)


def _with_base(suite: Suite, then: Suite) -> Suite:
    ids = {case.case_id for case in suite.eval_set.cases}
    deleted = tuple(case for case in then.eval_set.cases if case.case_id not in ids)
    cases = (*suite.eval_set.cases, *deleted)
    return dataclasses.replace(
        suite,
        eval_set=dataclasses.replace(suite.eval_set, cases=cases),
        criteria=then.criteria,
        criteria_source=then.criteria_source,
    )
