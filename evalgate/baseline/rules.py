"""The bar that a head has to clear: its own rules or the base's, and where its own are the weaker ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evalgate import agents as agents_module
from evalgate.agents import opening
from evalgate.baseline import base as baseline_base
from evalgate.baseline import loosening
from evalgate.baseline.base import Base, BaseRules
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.errors import Problem, Severity
from evalgate.formats import fingerprints
from evalgate.model import AgentUse, BaseSource, CaseKey, FailOn, Policy, RelaxedRule, Shard, Suite
from evalgate.simulation import user
from evalgate.text import words

RULES = (
    *("fail_on", "threshold", "confirm", "alpha", "max_drop", "policy", "admission", "pass_rate", "min_measured"),
    *("adk_compat", "skip_judged", "strict", "runs", "budget", "max_baseline_age"),
)
"""Settings that are the base's under `policy: base`; those that a door gives are the same on both sides."""
UNCHECKED = "Review its changes to evalgate.yml, evaluation files and criteria; fix the base."
GATE_FILE_RULES = ("suites", "compare", "judge", "simulator", "tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is measured, by which rules, and which of head's own rules are weaker than the base's.

    `settings`: the settings and the gate file that decide: head's, with the base's rules in them where those decide
    (`by_base`). `problems`: why rules that were asked for could not be had. `shard`: the part of a plan that `suites`
    are; None: all of it. `quarantined`: cases that are shown and never decide.
    """

    settings: Settings
    suites: tuple[Suite, ...]
    policy: Policy
    relaxed: tuple[RelaxedRule, ...] = ()
    by_base: bool = False
    problems: tuple[Problem, ...] = ()
    shard: Shard | None = None
    quarantined: frozenset[CaseKey] = frozenset()


def of(settings: Settings, suites: tuple[Suite, ...], policy: Policy, base: Base | None) -> Rules:
    """Head's rules; with `policy: base` the base's where they are known: its policy, its criteria and thresholds for
    every suite that it has, its judges, and the cases that head deleted. The content of cases is head's, where head has
    them. What of the base's rules cannot be read is a problem, and head's stand in for just that.

    evalgate.yml is part of the change: where the base's own says `policy: base`, head's cannot take that back.
    """
    if base is None or base.rules is None:
        return Rules(
            settings=settings,
            suites=suites,
            policy=_at_least(policy, settings, base),
            relaxed=_of_settings(settings, policy, base),
            problems=_unknown(settings, base),
        )
    theirs, rules = base.settings, base.rules
    renamed = base.renamed or baseline_base.renames(rules.suites, suites)
    relaxed = (
        *(() if theirs is None else loosening.of_settings(theirs, settings, rules.suites)),
        *loosening.of_rules(
            loosening.ComparedRules(suites=tuple(map(_with_known_agent, rules.suites)), policy=rules.policy),
            loosening.ComparedRules(suites=suites, policy=policy),
            fingerprint=fingerprints.of_case,
            which=agents_module.identity_of,
            renamed=renamed,
        ),
    )
    by_base = baseline_base.rules_of_base(settings, theirs)
    problems = tuple(_faulty(rules, by_base=by_base))
    if not by_base:
        return Rules(settings=settings, suites=suites, policy=policy, relaxed=relaxed, problems=problems)
    ruling = settings if theirs is None else _ruled(settings, theirs)
    return Rules(
        settings=ruling,
        suites=_restored(rules, suites, renamed, ruling),
        policy=_with_new(_renamed(rules.policy, renamed), _new(rules, suites, renamed), ruling),
        relaxed=relaxed,
        by_base=True,
        problems=problems,
    )


def _with_known_agent(suite: Suite) -> Suite:
    """The suite; without an agent where none was found, in whose place any is as good."""
    return dataclasses.replace(suite, agent=AgentUse(driver="")) if baseline_base.is_unknown(suite.agent) else suite


def _of_settings(settings: Settings, policy: Policy, base: Base | None) -> tuple[RelaxedRule, ...]:
    """What head's evalgate.yml asks less than that of a base which has no evaluation file."""
    if base is None or base.settings is None or base.settings.places is None:
        return ()
    theirs, ours = (
        loosening.ComparedRules(suites=(), policy=each) for each in (load.policy_of(base.settings, ()), policy)
    )
    return (
        *loosening.of_settings(base.settings, settings),
        *loosening.of_rules(theirs, ours, fingerprint=fingerprints.of_case, which=agents_module.identity_of),
    )


def _unknown(settings: Settings, base: Base | None) -> tuple[Problem, ...]:
    """That the base's rules are not known, where there are to be some."""
    if base is None or base.no_agent or base.origin.source is BaseSource.FILE:
        return ()
    if base.problem:
        return (_unchecked(settings, "the base's rules", base.problem),)
    if settings.policy != "base":
        return ()
    message = "`policy: base`: the base has no evaluation files, so head's rules apply"
    return (Problem(severity=Severity.WARNING, code="base-rules-unknown", message=message),)


def _at_least(policy: Policy, settings: Settings, base: Base | None) -> Policy:
    """Head's policy; where the base's was to decide and something is wrong with the base, head's cannot let that
    pass."""
    if base is None or not base.problem or base.no_agent or settings.policy != "base":
        return policy
    return dataclasses.replace(policy, fail_on=policy.fail_on | {FailOn.NOT_MEASURED})


def _unchecked(settings: Settings, what: str, why: str) -> Problem:
    if settings.policy == "base":
        message = f"`policy: base`: head's rules apply because {what} are unknown: {why}"
        return Problem(severity=Severity.WARNING, code="base-rules-unknown", message=message, hint=UNCHECKED)
    message = f"could not check whether this change relaxes {what}: {why}"
    return Problem(severity=Severity.WARNING, code="base-rules-unchecked", message=message, hint=UNCHECKED)


def _faulty(rules: BaseRules, *, by_base: bool) -> Iterator[Problem]:
    """That files of the base cannot be read: whether head asks for less than they do is not known, and where the
    base's rules decide, head's stand in for those that are in them."""
    if not rules.faults:
        return
    why = f"the base's {baseline_base.told_of(rules.faults)}"
    lacking = rules.unruled if by_base else frozenset()
    if lacking:
        message = f"`policy: base`: head's criteria apply to {words.listed(sorted(lacking))}: {why}"
        yield Problem(severity=Severity.WARNING, code="base-rules-unknown", message=message, hint=UNCHECKED)
    wrong = {fault.place.file for fault in rules.faults if fault.place is not None}
    files = (rules.unread | rules.unruled or wrong) - lacking
    if files:
        message = f"could not check whether this change relaxes {words.listed(sorted(files))}: {why}"
        yield Problem(severity=Severity.WARNING, code="base-rules-unchecked", message=message, hint=UNCHECKED)


def _ruled(settings: Settings, theirs: Settings) -> Settings:
    """Head's settings with the base's rules in it, and its stores; where other things lie and how fast they go stays
    head's."""
    names = (*RULES, *baseline_base.STORES)
    rules = {name: getattr(theirs.gate_file, name) for name in GATE_FILE_RULES}
    ruled = {name: getattr(theirs, name) for name in names}
    return settings.model_copy(update={**ruled, "gate_file": settings.gate_file.model_copy(update=rules)})


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


def _new(rules: BaseRules, ours: tuple[Suite, ...], renamed: Mapping[str, str]) -> list[Suite]:
    """The files that the base has under no name."""
    known = {suite.key for suite in rules.suites} | renamed.keys()
    return [suite for suite in ours if suite.key not in known]


def _with_new(policy: Policy, new: list[Suite], ruling: Settings) -> Policy:
    """The base's policy with what the ruling evalgate.yml says of files that the base does not have yet."""
    own = load.policy_of(ruling, new)
    keys = {suite.key for suite in new}
    return dataclasses.replace(
        policy,
        suite_pass_rate={**policy.suite_pass_rate, **own.suite_pass_rate},
        advisory=(policy.advisory - keys) | own.advisory,
    )


def _restored(
    rules: BaseRules, ours: tuple[Suite, ...], renamed: Mapping[str, str], ruling: Settings
) -> tuple[Suite, ...]:
    before = {suite.key: suite for suite in rules.suites}
    kept = [(suite, before.get(renamed.get(suite.key, suite.key))) for suite in ours]
    # without cases there is nothing to run, by criteria that cannot be read nothing could be decided
    known = {suite.key for suite in ours} | set(renamed.values()) | rules.unread | rules.unruled
    deleted = [suite for suite in rules.suites if suite.key not in known]
    agents = {fingerprints.agent_key(suite.agent): suite.agent for suite in ours}
    return (
        *(suite if then is None else _with_base(suite, then, ruling, rules) for suite, then in kept),
        *(dataclasses.replace(suite, agent=_agent_for(suite, agents)) for suite in deleted),
    )


def _agent_for(deleted: Suite, agents: Mapping[str, AgentUse]) -> AgentUse:
    """Head's agent for a file that head deleted: the one that the base had for it, or the only one. Where neither is
    clear its cases are not measured, which is no pass."""
    same = agents.get(fingerprints.agent_key(deleted.agent))
    if same is not None:
        return same
    if len(agents) == 1:
        return next(iter(agents.values()))
    return opening.absent(f"{deleted.key} was deleted, and the agent for its cases is unknown")


def _with_base(suite: Suite, then: Suite, ruling: Settings, rules: BaseRules) -> Suite:
    """Head's suite with the cases that head deleted and by the base's rules; by its own criteria where the base's
    cannot be read."""
    ids = {case.case_id for case in suite.eval_set.cases}
    deleted = tuple(case for case in then.eval_set.cases if case.case_id not in ids)
    whole = dataclasses.replace(
        suite, eval_set=dataclasses.replace(suite.eval_set, cases=(*suite.eval_set.cases, *deleted))
    )
    if then.key in rules.unruled:
        return whole
    led = user.has_scenarios(then) or then.key in rules.led
    made = dataclasses.replace(
        whole,
        criteria=then.criteria,
        criteria_source=then.criteria_source,
        simulator=then.simulator if led else suite.simulator,
    )
    # a file that got its first simulated user has no rules on it from the base's side yet
    return made if led else user.settle((made,), ruling)[0]
