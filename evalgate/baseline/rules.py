"""Whose rules decide: head's own or the base's; and which of head's are relaxed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evalgate.agents import opening
from evalgate.baseline import base as baseline_base
from evalgate.baseline import relaxed
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.config import load, quarantine
from evalgate.config.settings import Settings
from evalgate.errors import Problem, Severity
from evalgate.formats import fingerprints
from evalgate.model import AgentUse, BaseSource, CaseKey, FailOn, Policy, Quarantine, RelaxedRule, Shard, Suite
from evalgate.simulation import user
from evalgate.text import words

RULES = (
    *("fail_on", "threshold", "deterministic", "alpha", "max_drop", "policy", "burn_in", "pass_rate", "min_measured"),
    *("adk_compat", "skip_judged", "strict", "runs", "budget", "max_baseline_age", "seed"),
)
"""Settings that are the base's under `policy: base`; those that a door gives are the same on both sides."""
UNKNOWN, UNCHECKED = "base-rules-unknown", "base-rules-unchecked"
REVIEW = "Fix the base, or check by hand what this change does to evalgate.yml, evaluation files and criteria."
GATE_FILE_RULES = ("suites", "compare", "judge", "simulator", "tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is measured, by which rules, and which of head's own rules are weaker than the base's.

    `settings`: the settings and the gate file that decide: head's, with the base's rules in them where those decide
    (`by_base`). `problems`: why rules that were asked for could not be had. `shard`: the part of a plan that `suites`
    are; None: all of it. `before`: the base's own rules, by head's names, where head's decide. `quarantined`: cases
    that are shown and never decide. `touched`: cases that are new in the change, or changed by it.
    """

    settings: Settings
    suites: tuple[Suite, ...]
    policy: Policy
    relaxed: tuple[RelaxedRule, ...] = ()
    by_base: bool = False
    problems: tuple[Problem, ...] = ()
    shard: Shard | None = None
    before: BaseRules | None = None
    quarantined: Mapping[CaseKey, Quarantine] = field(default_factory=dict)
    touched: frozenset[CaseKey] = frozenset()


def of(settings: Settings, suites: tuple[Suite, ...], base: Base | None, *, hint: str = REVIEW) -> Rules:
    """Head's rules; with `policy: base` the base's where they are known: its policy, its criteria and thresholds for
    every suite that it has, its judges, and the cases that head deleted. The content of cases is head's, where head has
    them. What of the base's rules cannot be read is a problem, and head's stand in for just that.

    evalgate.yml is part of the change: where the base's own says `policy: base`, head's cannot take that back.
    `hint`: what to do where the base's rules are not known.
    """
    own = load.policy_of(settings, suites)
    project = BaseProject() if base is None else base.project
    theirs, rules = project.settings, project.rules
    renamed = {} if rules is None else project.renamed or baseline_base.renames(rules.suites, suites)
    relaxed = tuple(_relaxed(settings, suites, own, project, renamed=renamed))
    if rules is None:
        if base is not None and base.problem and not base.no_agent and settings.policy == "base":
            # the base's policy was to decide, and head's cannot tolerate that something is wrong with the base
            own = dataclasses.replace(own, fail_on=own.fail_on | {FailOn.NOT_MEASURED})
        problems = tuple(_unknown(settings, base, hint))
        return Rules(settings=settings, suites=suites, policy=own, relaxed=relaxed, problems=problems)
    by_base = baseline_base.is_by_base(settings, theirs)
    problems = tuple(_unreadable(rules, by_base=by_base))
    if not by_base:
        own = _blocking_on_broken(own, suites, rules, renamed)
        before = baseline_base.rules_under_new_names(rules, renamed)
        return Rules(settings=settings, suites=suites, policy=own, relaxed=relaxed, problems=problems, before=before)
    ruling = settings
    if theirs is not None:
        # head's settings with the base's rules and stores; where other things lie and how fast they go stays head's
        sections = {name: getattr(theirs.gate_file, name) for name in GATE_FILE_RULES}
        update = {name: getattr(theirs, name) for name in (*RULES, *baseline_base.STORES)}
        update["gate_file"] = settings.gate_file.model_copy(update=sections)
        ruling = settings.model_copy(update=update)
    known = {suite.key for suite in rules.suites} | renamed.keys()
    new = load.policy_of(ruling, [suite for suite in suites if suite.key not in known])
    policy = baseline_base.under_new_names(rules.policy, renamed, own=new)
    measured = tuple(_suites(rules, suites, renamed, ruling))
    return Rules(
        settings=ruling,
        suites=measured,
        policy=_blocking_on_broken(policy, measured, rules, renamed),
        relaxed=relaxed,
        by_base=True,
        problems=problems,
    )


def _blocking_on_broken(
    policy: Policy, suites: tuple[Suite, ...], rules: BaseRules, renamed: Mapping[str, str]
) -> Policy:
    """The policy; where head broke a file that the base can measure, what is not measured blocks. `fail-on` without it
    is for outages: this is none. One that blocks on nothing stays so."""
    sound = {
        suite.key
        for suite in rules.suites
        if suite.eval_set.cases and suite.key not in rules.unruled and not baseline_base.is_unknown(suite.agent)
    }
    broken = {suite.key for suite in suites if suite.problem or suite.agent.is_absent} - policy.advisory
    if not policy.fail_on or not any(renamed.get(key, key) in sound for key in broken):
        return policy
    return dataclasses.replace(policy, fail_on=policy.fail_on | {FailOn.NOT_MEASURED})


def _relaxed(
    settings: Settings,
    suites: tuple[Suite, ...],
    policy: Policy,
    project: BaseProject,
    *,
    renamed: Mapping[str, str],
) -> Iterator[RelaxedRule]:
    """What head asks less than the base; of a base which has no evaluation file, than its evalgate.yml."""
    theirs, rules = project.settings, project.rules
    if project.quarantine is not None:
        yield from relaxed.of_quarantine(project.quarantine, quarantine.read(settings.root), renamed=renamed)
    if rules is None:
        if theirs is None or theirs.places is None:
            return
        rules = BaseRules(suites=(), policy=load.policy_of(theirs, ()))
    if theirs is not None:
        yield from relaxed.of_settings(theirs, settings, rules.suites)
    yield from relaxed.of_rules(rules, suites, policy, renamed=renamed)


def _unknown(settings: Settings, base: Base | None, hint: str) -> Iterator[Problem]:
    """That the base's rules are not known, where there are to be some."""
    if base is None or base.no_agent or base.origin.source is BaseSource.FILE:
        return
    if base.problem and settings.policy != "base":
        message = "could not check whether this change relaxes the base's rules"
        message += "" if base.base_failed else f": {base.problem}"  # else the comparison says so
        yield Problem(severity=Severity.WARNING, code=UNCHECKED, message=message, hint=hint)
    elif base.problem:
        message = f"`policy: base`: head's rules apply because the base's rules are unknown: {base.problem}"
        yield Problem(severity=Severity.WARNING, code=UNKNOWN, message=message, hint=hint)
    elif settings.policy == "base":
        message = "`policy: base`: the base has no evaluation files, so head's rules apply"
        yield Problem(severity=Severity.WARNING, code=UNKNOWN, message=message)


def _unreadable(rules: BaseRules, *, by_base: bool) -> Iterator[Problem]:
    """That files of the base cannot be read: whether head asks for less than they do is not known, and where the
    base's rules decide, head's stand in for those that are in them."""
    if not rules.errors:
        return
    why = f"the base's {baseline_base.first_of(rules.errors)}"
    lacking = rules.unruled if by_base else frozenset()
    if lacking:
        message = f"`policy: base`: head's criteria apply to {words.listed(sorted(lacking))}: {why}"
        yield Problem(severity=Severity.WARNING, code=UNKNOWN, message=message, hint=REVIEW)
    wrong = {error.place.file for error in rules.errors if error.place is not None}
    files = (rules.unread | rules.unruled or wrong) - lacking
    if files:
        message = f"could not check whether this change relaxes {words.listed(sorted(files))}: {why}"
        yield Problem(severity=Severity.WARNING, code=UNCHECKED, message=message, hint=REVIEW)


def _suites(rules: BaseRules, ours: tuple[Suite, ...], renamed: Mapping[str, str], ruling: Settings) -> Iterator[Suite]:
    """Head's suites by the base's rules, then those that head deleted."""
    before = {suite.key: suite for suite in rules.suites}
    for suite in ours:
        then = before.get(renamed.get(suite.key, suite.key))
        yield suite if then is None or suite.problem else _by_rules_of(then, suite, ruling, rules)
    # without cases there is nothing to run, by criteria that cannot be read nothing could be decided
    known = {suite.key for suite in ours} | set(renamed.values()) | rules.unread | rules.unruled
    agents = {fingerprints.agent_key(suite.agent): suite.agent for suite in ours}
    for suite in rules.suites:
        if suite.key not in known:
            yield dataclasses.replace(suite, agent=_agent_for(suite, agents))


def _agent_for(deleted: Suite, agents: Mapping[str, AgentUse]) -> AgentUse:
    """Head's agent for a file that head deleted: the one that the base had for it, or the only one. Where neither is
    clear its cases are not measured, which is no pass."""
    same = agents.get(fingerprints.agent_key(deleted.agent))
    if same is not None:
        return same
    if len(agents) == 1:
        return next(iter(agents.values()))
    return opening.absent(f"{deleted.key} was deleted, and the agent for its cases is unknown")


def _by_rules_of(then: Suite, suite: Suite, ruling: Settings, rules: BaseRules) -> Suite:
    """Head's suite with the cases that head deleted and by the base's rules; by its own criteria where the base's
    cannot be read."""
    ids = {case.case_id for case in suite.eval_set.cases}
    deleted = tuple(case for case in then.eval_set.cases if case.case_id not in ids)
    readable = then.key not in rules.unruled
    simulated = user.has_scenarios(then) or then.key in rules.simulated
    made = Suite(
        key=suite.key,
        eval_set=dataclasses.replace(suite.eval_set, cases=(*suite.eval_set.cases, *deleted)),
        criteria=then.criteria if readable else suite.criteria,
        criteria_source=then.criteria_source if readable else suite.criteria_source,
        agent=suite.agent,
        simulator=then.simulator if readable and simulated else suite.simulator,
    )
    # a file that got its first simulated user has no rules on it from the base's side yet
    return made if simulated or not readable else user.settle((made,), ruling)[0]
