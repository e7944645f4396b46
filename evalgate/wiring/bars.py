"""The bar that a head has to clear: its own rules or the base's, and where its own are the weaker ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from evalgate.errors import Problem, Severity
from evalgate.gate import loosening
from evalgate.model import AgentUse, BaseSource, Loosening, Policy, Suite
from evalgate.pipeline import fingerprints, trials
from evalgate.wiring import agent_pools, base_sought, policies, simulating, weaker
from evalgate.wiring.bases import Base
from evalgate.wiring.choosing import Choice

RULES = (
    *("fail_on", "threshold", "confirm", "alpha", "max_drop", "policy", "admission", "pass_rate", "min_measured"),
    *("adk_compat", "skip_judged", "strict", "runs", "budget", "max_baseline_age"),
)
"""Settings that are the base's under `policy: base`; those that a door gives are the same on both sides."""
GATE_FILE_RULES = ("suites", "compare", "judge", "simulator", "tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What is measured, by which rules, and which of head's own rules are weaker than the base's.

    `choice`: the settings and the gate file that decide: head's, with the base's rules in them where those decide
    (`by_base`). `problems`: why rules that were asked for could not be had.
    """

    choice: Choice
    suites: tuple[Suite, ...]
    policy: Policy
    loosened: tuple[Loosening, ...] = ()
    by_base: bool = False
    problems: tuple[Problem, ...] = ()


def of(choice: Choice, suites: tuple[Suite, ...], policy: Policy, base: Base | None) -> Bar:
    """Head's rules; with `policy: base` the base's where they are known: its policy, its criteria and thresholds for
    every suite that it has, its judges, and the cases that head deleted. The content of cases is head's, where head has
    them.

    evalgate.yml is part of the change: where the base's own says `policy: base`, head's cannot take that back.
    """
    if base is None or base.rules is None:
        return Bar(choice=choice, suites=suites, policy=policy, problems=_unknown(choice, base))
    theirs = base.choice
    rules = loosening.Rules(suites=base.rules.suites, policy=base.rules.policy)
    loosened = (
        *(() if theirs is None else weaker.find(theirs, choice, base.rules.suites)),
        *loosening.find(rules, loosening.Rules(suites=suites, policy=policy), fingerprint=fingerprints.of_case),
    )
    if not base_sought.rules_of_base(choice, theirs):
        return Bar(choice=choice, suites=suites, policy=policy, loosened=loosened)
    ruling = choice if theirs is None else _ruled(choice, theirs)
    return Bar(
        choice=ruling,
        suites=_restored(rules.suites, suites, base.renamed, ruling),
        policy=_with_new(_renamed(rules.policy, base.renamed), _new(rules.suites, suites, base.renamed), ruling),
        loosened=loosened,
        by_base=True,
    )


def _unknown(choice: Choice, base: Base | None) -> tuple[Problem, ...]:
    """That `policy: base` cannot be kept; a base that is not there at all says so itself."""
    if base is None or choice.settings.policy != "base" or base.problem or base.origin.source is BaseSource.FILE:
        return ()
    message = "`policy: base`: the base's own rules cannot be read, so head's decide"
    hint = "Its evaluation files or its evalgate.yml have errors, or it has none: `evalgate validate` on the base."
    return (Problem(severity=Severity.WARNING, code="base-rules-unknown", message=message, hint=hint),)


def _ruled(choice: Choice, theirs: Choice) -> Choice:
    """Head's choice with the base's rules in it, and its stores; where other things lie and how fast they go stays
    head's."""
    names = (*RULES, *base_sought.STORES)
    settings = choice.settings.model_copy(update={name: getattr(theirs.settings, name) for name in names})
    rules = {name: getattr(theirs.gate_file, name) for name in GATE_FILE_RULES}
    return dataclasses.replace(choice, settings=settings, gate_file=choice.gate_file.model_copy(update=rules))


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


def _new(theirs: tuple[Suite, ...], ours: tuple[Suite, ...], renamed: Mapping[str, str]) -> list[Suite]:
    """The files that the base has under no name."""
    known = {suite.key for suite in theirs} | renamed.keys()
    return [suite for suite in ours if suite.key not in known]


def _with_new(policy: Policy, new: list[Suite], ruling: Choice) -> Policy:
    """The base's policy with what the ruling evalgate.yml says of files that the base does not have yet."""
    own = policies.policy_of(ruling, new)
    keys = {suite.key for suite in new}
    return dataclasses.replace(
        policy,
        suite_pass_rate={**policy.suite_pass_rate, **own.suite_pass_rate},
        advisory=(policy.advisory - keys) | own.advisory,
    )


def _restored(
    theirs: tuple[Suite, ...], ours: tuple[Suite, ...], renamed: Mapping[str, str], ruling: Choice
) -> tuple[Suite, ...]:
    before = {suite.key: suite for suite in theirs}
    kept = [(suite, before.get(renamed.get(suite.key, suite.key))) for suite in ours]
    known = {suite.key for suite in ours} | set(renamed.values())
    deleted = [suite for suite in theirs if suite.key not in known]
    agents = {trials.agent_key(suite.agent): suite.agent for suite in ours}
    return (
        *(suite if then is None else _with_base(suite, then, ruling) for suite, then in kept),
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


def _with_base(suite: Suite, then: Suite, ruling: Choice) -> Suite:
    ids = {case.case_id for case in suite.eval_set.cases}
    deleted = tuple(case for case in then.eval_set.cases if case.case_id not in ids)
    made = dataclasses.replace(
        suite,
        eval_set=dataclasses.replace(suite.eval_set, cases=(*suite.eval_set.cases, *deleted)),
        criteria=then.criteria,
        criteria_source=then.criteria_source,
        simulator=then.simulator if simulating.has_scenarios(then) else suite.simulator,
    )
    # a file that got its first simulated user has no rules on it from the base's side yet
    return made if simulating.has_scenarios(then) else simulating.settle((made,), ruling)[0]
