"""The bar that a head has to clear: its own rules or the base's, and where its own are the weaker ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evalgate.gate import loosening
from evalgate.gate.loosening import Rules
from evalgate.model import AgentUse, Loosening, LooseningKind, Policy, Suite
from evalgate.pipeline import fingerprints, trials
from evalgate.settings import Settings
from evalgate.wiring import agent_pools, simulating
from evalgate.wiring.bases import Base


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What is measured, by which rules, and which of head's own rules are weaker than the base's."""

    suites: tuple[Suite, ...]
    policy: Policy
    loosened: tuple[Loosening, ...] = ()


def of(
    suites: tuple[Suite, ...], policy: Policy, base: Base | None, *, by_base: bool, settings: Settings | None = None
) -> Bar:
    """Head's rules; with `by_base` the base's where they are known: its policy, its criteria and thresholds for every
    suite that it has, and the cases that head deleted. The content of cases is head's, where head has them.

    evalgate.yml is part of the change: where the base's own says `policy: base`, head's cannot take that back.
    `settings`: head's, to be compared with the base's.
    """
    if base is None or base.rules is None:
        return Bar(suites=suites, policy=policy)
    theirs = Rules(suites=base.rules.suites, policy=base.rules.policy)
    loosened = (
        *(() if base.settings is None or settings is None else _settings(base.settings, settings)),
        *loosening.find(theirs, Rules(suites=suites, policy=policy), fingerprint=fingerprints.of_case),
    )
    if not by_base and (base.settings is None or base.settings.policy != "base"):
        return Bar(suites=suites, policy=policy, loosened=loosened)
    restored = _restored(theirs.suites, suites, base.renamed)
    return Bar(suites=restored, policy=_renamed(theirs.policy, base.renamed), loosened=loosened)


def _settings(theirs: Settings, ours: Settings) -> Iterator[Loosening]:
    """Settings that weaken the gate and are no part of the policy."""
    if theirs.policy == "base" and ours.policy != "base":
        yield _rule("policy", theirs.policy, ours.policy)
    if theirs.baseline not in (ours.baseline, "none"):
        yield _rule("baseline", theirs.baseline, ours.baseline)
    if ours.skip_judged and not theirs.skip_judged:
        yield _rule("skip_judged", "false", "true")
    if ours.runs.start < theirs.runs.start or ours.runs.most < theirs.runs.most:
        yield _rule("runs", str(theirs.runs), str(ours.runs))


def _rule(name: str, base: str, head: str) -> Loosening:
    return Loosening(kind=LooseningKind.POLICY, subject=name, base=base, head=head)


def _renamed(policy: Policy, renamed: Mapping[str, str]) -> Policy:
    """The base's policy under head's names of evaluation files."""
    known = policy.suite_pass_rate
    rates = {ours: known[theirs] for ours, theirs in renamed.items() if theirs in known}
    advisory = {ours for ours, theirs in renamed.items() if theirs in policy.advisory}
    return dataclasses.replace(
        policy,
        suite_pass_rate={**known, **rates},
        advisory=(policy.advisory - renamed.keys()) | advisory,
    )


def _restored(theirs: tuple[Suite, ...], ours: tuple[Suite, ...], renamed: Mapping[str, str]) -> tuple[Suite, ...]:
    before = {suite.key: suite for suite in theirs}
    kept = [(suite, before.get(renamed.get(suite.key, suite.key))) for suite in ours]
    known = {suite.key for suite in ours} | set(renamed.values())
    deleted = [suite for suite in theirs if suite.key not in known]
    agents = {trials.agent_key(suite.agent): suite.agent for suite in ours}
    return (
        *(suite if then is None else _with_base(suite, then) for suite, then in kept),
        *(dataclasses.replace(suite, agent=_agent_for(suite, agents)) for suite in deleted),
    )


def _agent_for(deleted: Suite, agents: Mapping[str, AgentUse]) -> AgentUse:
    """Head's agent for a file that head deleted: the one that the base had for it, or the only one. Where neither is
    clear its cases are not measured, which is no pass."""
    same = agents.get(trials.agent_key(deleted.agent))
    if same is not None:
        return same
    if len(agents) == 1:
        return next(iter(agents.values()))
    return agent_pools.absent(f"{deleted.key} was deleted, and which of head's agents its cases are for is not known")


def _with_base(suite: Suite, then: Suite) -> Suite:
    ids = {case.case_id for case in suite.eval_set.cases}
    deleted = tuple(case for case in then.eval_set.cases if case.case_id not in ids)
    cases = (*suite.eval_set.cases, *deleted)
    names = {use.name for use in then.criteria}
    # a file that got its first simulated user has this criterion only on head's side
    ended = tuple(use for use in suite.criteria if use.name == simulating.ENDED and use.name not in names)
    return dataclasses.replace(
        suite,
        eval_set=dataclasses.replace(suite.eval_set, cases=cases),
        criteria=(*ended, *then.criteria),
        criteria_source=then.criteria_source,
        simulator=suite.simulator if simulating.has_scenarios(suite) else then.simulator,
    )
