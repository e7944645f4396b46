"""Whose rules decide: head's own or the base's; and which of head's are relaxed."""

from __future__ import annotations

import dataclasses
import hashlib
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import BaseModel

from evalgate import agents, config, errors
from evalgate.agents import opening
from evalgate.agents.base import ToolMode
from evalgate.agents.tools import toolbox
from evalgate.baseline import base as baseline_base
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.ces import cases
from evalgate.config import Trait, load, places, quarantine
from evalgate.config.gate_file import GateFile
from evalgate.config.quarantine import Reading
from evalgate.config.settings import Settings
from evalgate.discovery import agent_source
from evalgate.discovery import agents as discovery_agents
from evalgate.errors import Place, Problem
from evalgate.formats import fingerprints
from evalgate.model import (
    AgentUse,
    BaseSource,
    CaseKey,
    CriterionRule,
    CriterionUse,
    FailOn,
    Policy,
    Quarantine,
    RelaxedKind,
    RelaxedRule,
    Shard,
    Suite,
    ThresholdRule,
)
from evalgate.simulation import user
from evalgate.text import words

RULES = config.names_with(Settings, Trait.RULE)
"""Settings that are the base's under `policy: base`; those that a door gives are the same on both sides."""
UNKNOWN, UNCHECKED = "base-rules-unknown", "base-rules-unchecked"
REVIEW = "Fix the base, or check by hand what this change does to evalgate.yml, evaluation files and criteria."
QUARANTINE_OF, NO_FILE = "quarantine of ", "no file"
GATE_FILE_RULES = config.names_with(GateFile, Trait.RULE)


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
    # what a change can have any number of, and what counts once it is merged, stands before nothing else
    relaxed = tuple(sorted(_relaxed(settings, suites, own, project, renamed=renamed), key=_is_of_little_weight))
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
    settings: Settings, suites: tuple[Suite, ...], policy: Policy, project: BaseProject, *, renamed: Mapping[str, str]
) -> Iterator[RelaxedRule]:
    """What head asks less than the base; of a base which has no evaluation file, than its evalgate.yml."""
    theirs, rules = project.settings, project.rules
    if project.quarantine is not None:
        yield from of_quarantine(project.quarantine, quarantine.read(settings.root), renamed=renamed)
    if rules is None:
        if theirs is None or theirs.places is None:
            return
        rules = BaseRules(suites=(), policy=load.policy_of(theirs, ()))
    if theirs is not None:
        yield from of_settings(theirs, settings, rules.suites)
    yield from of_rules(rules, suites, policy, renamed=renamed)


def _is_of_little_weight(rule: RelaxedRule) -> bool:
    return rule.kind is RelaxedKind.POLICY and (rule.subject.startswith(QUARANTINE_OF) or rule.base == NO_FILE)


def _unknown(settings: Settings, base: Base | None, hint: str) -> Iterator[Problem]:
    """That the base's rules are not known, where there are to be some."""
    if base is None or base.no_agent or base.origin.source is BaseSource.FILE:
        return
    if base.problem and settings.policy != "base":
        message = "could not check whether this change relaxes the base's rules"
        message += "" if base.base_failed else f": {base.problem}"  # else the comparison says so
        yield errors.warning(UNCHECKED, message, hint=hint)
    elif base.problem:
        message = f"`policy: base`: head's rules apply because the base's rules are unknown: {base.problem}"
        yield errors.warning(UNKNOWN, message, hint=hint)
    elif settings.policy == "base":
        message = "`policy: base`: the base has no evaluation files, so head's rules apply"
        yield errors.warning(UNKNOWN, message)


def _unreadable(rules: BaseRules, *, by_base: bool) -> Iterator[Problem]:
    """That files of the base cannot be read: whether head asks for less than they do is not known, and where the
    base's rules decide, head's stand in for those that are in them."""
    if not rules.errors:
        return
    why = f"the base's {baseline_base.first_of(rules.errors)}"
    lacking = rules.unruled if by_base else frozenset()
    if lacking:
        message = f"`policy: base`: head's criteria apply to {words.listed(sorted(lacking))}: {why}"
        yield errors.warning(UNKNOWN, message, hint=REVIEW)
    wrong = {error.place.file for error in rules.errors if error.place is not None}
    files = (rules.unread | rules.unruled or wrong) - lacking
    if files:
        message = f"could not check whether this change relaxes {words.listed(sorted(files))}: {why}"
        yield errors.warning(UNCHECKED, message, hint=REVIEW)


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


# --- relaxed rules: what asks for less than the base's -------------------------------------------


EXCUSED = " (failures on both sides are tolerated)"
"""Under `threshold: new` a higher threshold makes pre-existing failures of what the base passed by its own."""
WIDTH, LED_UP, MOST = 60, 20, 100_000
"""Of a long value: what is shown, what of it stands before the difference, and what is looked at."""
MOST_TOLD = 3
"""Of the ways in which a CES evaluation asks for less."""
IsWeaker = Callable[[Any, Any], bool]
"""Whether head's value (the second) asks for less than the base's."""
PLAYS_USERS = ("model", "config", "max_turns", "custom_instructions", "include_function_calls", "stop_signal")


def of_rules(
    base: BaseRules, suites: Iterable[Suite], policy: Policy, *, renamed: Mapping[str, str]
) -> list[RelaxedRule]:
    """Every rule of head (`suites`, `policy`) that is weaker than the base's, policy first, then by suite in the base's
    order, the cases last: of these there may be so many that they would hide a rule among them.

    A changed case and changed options of a criterion are listed too: whether they ask for less, only a reader can tell.
    `renamed`: the base's name of an evaluation file by head's, where they differ.
    """
    names = {theirs: ours for ours, theirs in renamed.items()}
    after = {suite.key: suite for suite in suites}
    pairs = [(suite, after.get(names.get(suite.key, suite.key))) for suite in base.suites]
    # of a file that cannot be measured nothing is known, and that blocks by itself
    pairs = [(then, now) for then, now in pairs if now is None or not now.problem]
    known = {names.get(suite.key, suite.key) for suite in base.suites}
    before = baseline_base.under_new_names(base.policy, renamed)
    return [
        *_policy(before, policy, known=known),
        *(found for then, now in pairs for found in _relaxed_suite(then, now, base.policy, policy)),
        *(found for then, now in pairs if now is not None for found in _relaxed_cases(then, now)),
    ]


def stricter(before: BaseRules, suites: tuple[Suite, ...], policy: Policy) -> tuple[str, ...]:
    """What head (`suites`, `policy`) asks more than the base, in words."""
    kinds = (RelaxedKind.POLICY, RelaxedKind.THRESHOLD, RelaxedKind.CRITERION_CHANGED, RelaxedKind.CRITERION_REMOVED)
    back = of_rules(dataclasses.replace(before, suites=suites, policy=policy), before.suites, before.policy, renamed={})
    return tuple(
        dict.fromkeys(
            f"{rule.subject} {rule.head or 'unset'} -> {rule.base or 'set'}" for rule in back if rule.kind in kinds
        )
    )


def of_quarantine(base: Reading, head: Reading, *, renamed: Mapping[str, str]) -> Iterator[RelaxedRule]:
    """Cases that the change quarantines, or for longer: nothing of that counts before it is on the base branch.
    `renamed`: the base's name of an evaluation file by head's."""
    then = base.by_case()
    for key, entry in head.by_case().items():
        before = then.get((renamed.get(key[0], key[0]), key[1]))
        if before is None or entry.quarantine.expires > before.quarantine.expires:
            was = "none" if before is None else f"until {before.quarantine.expires}"
            now = f"until {entry.quarantine.expires} ({entry.quarantine.owner}), once merged"
            yield _relaxed_rule(f"{QUARANTINE_OF}{entry.name}", was, now, place=entry.place)


def _relaxed_suite(base: Suite, head: Suite | None, before: Policy, policy: Policy) -> Iterator[RelaxedRule]:
    """`before`, `policy`: the base's and head's."""
    if head is None:
        count = words.counted(len(base.eval_set.cases), "case")
        yield RelaxedRule(kind=RelaxedKind.SUITE_REMOVED, subject=base.key, suite=base.key, base=count)
        return
    was, now = agents.identity_of(base.agent), agents.identity_of(head.agent)
    # where the base has no agent yet, any is as good
    if was and was != now and not baseline_base.is_unknown(base.agent):
        yield _relaxed_rule(f"agent of {head.key}", *_in_words(was, now))
    driver = agents.DRIVERS.get(head.agent.driver)
    for name in driver.easier if driver is not None else ():
        is_given, before_it = head.agent.options.get(name), base.agent.options.get(name)
        if is_given and is_given != before_it:
            yield _relaxed_rule(f"{name} of {head.key}", _value(before_it), _value(is_given))
    # a shorter or a longer conversation may each be the easier one; results of an older evalgate do not tell who played
    if user.has_scenarios(base) and base.simulator.model and head.simulator.model:
        for name in PLAYS_USERS:
            for path, *values in _differences(getattr(base.simulator, name), getattr(head.simulator, name), path=name):
                yield _relaxed_rule(f"simulator {path} of {head.key}", *values)
    after = {use.name: use for use in head.criteria}
    for use in base.criteria:
        kept = after.get(use.name)
        if not _is_shown_only(use) or before.criteria.get(use.name, CriterionRule()).gating:
            yield from _criterion(use, kept, suite=head.key)
        if kept is not None and policy.threshold is ThresholdRule.NEW and _is_relaxed(kept, use):
            yield _changed(use, kept, suite=head.key, was=_threshold(use), now=_threshold(kept) + EXCUSED)


def _criterion(base: CriterionUse, head: CriterionUse | None, *, suite: str) -> Iterator[RelaxedRule]:
    if head is None:
        yield RelaxedRule(kind=RelaxedKind.CRITERION_REMOVED, subject=base.name, suite=suite, base=_threshold(base))
        return
    if _is_shown_only(head) and not _is_shown_only(base):
        yield _changed(base, head, suite=suite, was=_threshold(base), now=_threshold(head))
        return
    if head.lower_is_better != base.lower_is_better:
        was, now = (f"{'lower' if each.lower_is_better else 'higher'} is better" for each in (base, head))
        yield _changed(base, head, suite=suite, was=was, now=now)
    elif not _is_shown_only(base) and _is_relaxed(base, head):
        kind = RelaxedKind.THRESHOLD
        yield _changed(base, head, suite=suite, was=_threshold(base), now=_threshold(head), kind=kind)
    if head.code != base.code:
        yield _changed(base, head, suite=suite, was=base.code or "built in", now=head.code or "built in")
    if head.where_applicable and not base.where_applicable:
        yield _changed(base, head, suite=suite, was="decides every case", now="decides cases with a reference")
    if head.on_the_test and not base.on_the_test:
        yield _changed(
            base, head, suite=suite, was="failing it fails the case", now="failing it makes the case not measured"
        )
    for path, before, after in _differences(base.options, head.options):
        yield _changed(base, head, suite=suite, was=f"{path} {before}", now=f"{path} {after}")


def _changed(
    base: CriterionUse,
    head: CriterionUse,
    *,
    suite: str,
    was: str,
    now: str,
    kind: RelaxedKind = RelaxedKind.CRITERION_CHANGED,
) -> RelaxedRule:
    return RelaxedRule(kind=kind, subject=base.name, suite=suite, base=was, head=now, place=head.place)


def _is_shown_only(use: CriterionUse) -> bool:
    """Whether no case fails by it; where the policy says so, a drop of it fails the gate all the same."""
    return use.informational or use.threshold is None


def _threshold(use: CriterionUse) -> str:
    return "informational" if use.informational or use.threshold is None else words.threshold(use.threshold)


def _is_relaxed(base: CriterionUse, head: CriterionUse) -> bool:
    """Whether head's threshold is easier to reach, where both have one and agree which way is better."""
    if base.threshold is None or head.threshold is None:
        return False
    return head.threshold > base.threshold if base.lower_is_better else head.threshold < base.threshold


def _relaxed_cases(base: Suite, head: Suite) -> Iterator[RelaxedRule]:
    after = {case.case_id: case for case in head.eval_set.cases}
    for case in base.eval_set.cases:
        now = after.get(case.case_id)
        if now is None:
            yield RelaxedRule(kind=RelaxedKind.CASE_REMOVED, subject=case.case_id, suite=head.key)
        elif case.ces is not None and now.ces is not None:
            if told := cases.relaxed(case, now):
                shown = "; ".join(told[:MOST_TOLD]) + (f"; and {len(told) - MOST_TOLD} more" * (len(told) > MOST_TOLD))
                kind = RelaxedKind.CASE_CHANGED
                yield RelaxedRule(kind=kind, subject=case.case_id, suite=head.key, head=shown, place=now.place)
        elif fingerprints.of_case(now) != fingerprints.of_case(case):
            yield RelaxedRule(kind=RelaxedKind.CASE_CHANGED, subject=case.case_id, suite=head.key, place=now.place)


def _policy(base: Policy, head: Policy, *, known: Collection[str]) -> Iterator[RelaxedRule]:
    """`known`: the suites that the base has, under head's names; what it does not have cannot be lowered."""
    for word in FailOn:
        if word in base.fail_on and word not in head.fail_on:
            yield _relaxed_rule("fail_on", f"with {word.value}", f"without {word.value}")
    # the smaller alpha, the surer a regression must be before it counts
    for name in ("pass_rate", "min_measured", "alpha"):
        yield from _compared(name, getattr(base, name), getattr(head, name), operator.gt)
    yield from _compared("max_drop", base.max_drop, head.max_drop, operator.lt)
    for suite in sorted({*base.suite_pass_rate, *head.suite_pass_rate} & {*known}):
        was, now = (each.suite_pass_rate.get(suite, each.pass_rate) for each in (base, head))
        yield from _compared(f"pass_rate of {suite}", was, now, operator.gt)
    strictest_last = (ThresholdRule.NEW, ThresholdRule.CONFIRMED, ThresholdRule.ALL)
    if strictest_last.index(head.threshold) < strictest_last.index(base.threshold):
        yield _relaxed_rule("threshold", base.threshold.value, head.threshold.value)
    if head.adk_compat and not base.adk_compat:
        yield _relaxed_rule("adk_compat", "false", "true")
    for suite in sorted((head.advisory - base.advisory) & {*known}):
        yield _relaxed_rule(f"severity of {suite}", "gating", "advisory")
    for name in sorted({*base.criteria, *head.criteria}):
        yield from _criterion_rule(name, base, head)


def _criterion_rule(name: str, base: Policy, head: Policy) -> Iterator[RelaxedRule]:
    was, now = (each.criteria.get(name, CriterionRule()) for each in (base, head))
    if (was.max_drop, now.max_drop) != (None, None):
        before, after = (
            policy.max_drop if rule.max_drop is None else rule.max_drop for policy, rule in ((base, was), (head, now))
        )
        yield from _compared(f"max_drop of {name}", before, after, operator.lt)
    if (now.gating is False and was.gating is not False) or (was.gating is True and now.gating is None):
        yield _relaxed_rule(f"gating of {name}", _value(was.gating), _value(now.gating))
    if was.lower_is_better != now.lower_is_better:
        yield _relaxed_rule(f"lower_is_better of {name}", _value(was.lower_is_better), _value(now.lower_is_better))


def _compared(name: str, base: float, head: float, is_weaker: IsWeaker) -> Iterator[RelaxedRule]:
    if is_weaker(base, head):
        yield _relaxed_rule(
            name, *(str(each) if isinstance(each, int) else words.threshold(each) for each in (base, head))
        )


def _relaxed_rule(name: str, base: str, head: str, *, place: Place | None = None) -> RelaxedRule:
    return RelaxedRule(kind=RelaxedKind.POLICY, subject=name, base=base, head=head, place=place)


def _differences(base: object, head: object, *, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Where two values differ, as deep as both are mappings or lists of one length: `judge_model_options.judge_model`,
    before and after in words."""
    if isinstance(base, Mapping) and isinstance(head, Mapping):
        for name in sorted({*base, *head}, key=str):
            yield from _differences(base.get(name), head.get(name), path=f"{path}.{name}" if path else str(name))
    elif isinstance(base, list | tuple) and isinstance(head, list | tuple) and len(base) == len(head):
        for at, (was, now) in enumerate(zip(base, head, strict=True)):
            yield from _differences(was, now, path=f"{path}[{at}]")
    elif base != head:
        yield path, *_in_words(base, head)


def _in_words(base: object, head: object) -> tuple[str, str]:
    """Two values, both from shortly before where they differ."""
    texts = ["unset" if each is None else str(each)[:MOST] for each in (base, head)]
    shared = next((at for at, (was, now) in enumerate(zip(*texts, strict=False)) if was != now), min(map(len, texts)))
    start = max(shared - LED_UP, 0) if max(map(len, texts)) > WIDTH else 0
    shown = [f"{'...' if start else ''}{text[start:]}" for text in texts]
    was, now = (text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..." for text in shown)
    return was, now


def _is_tightened(base: float | None, head: float | None) -> bool:
    """A bound on what may be spent that is new, or lower: less is measured."""
    return head is not None and (base is None or head < base)


def _is_any_tightened(base: BaseModel, head: BaseModel) -> bool:
    return any(_is_tightened(getattr(base, name), getattr(head, name)) for name in type(base).model_fields)


def _is_redirected(base: str, head: str) -> bool:
    return bool(head) and head != base


WEAKER_SETTINGS: Final[Mapping[str, IsWeaker]] = {
    "policy": lambda base, head: base == "base" and head != "base",
    "baseline": lambda base, head: base not in (head, "none"),
    # other results to be compared with, which nobody may have looked at
    "data_branch": _is_redirected,
    "baseline_folder": _is_redirected,
    "max_baseline_age": operator.lt,
    "reuse_days": operator.lt,
    "runs": operator.gt,
    "budget": _is_any_tightened,  # what it cuts short is inconclusive, on which the gate need not block
    "skip_judged": operator.lt,  # switched on
    "strict": operator.gt,  # switched off
    "seed": operator.ne,  # none is better than another, but the luckiest of many is
}

WEAKER_JUDGE: Final[Mapping[str, IsWeaker]] = {
    # who answers: another service, another address, or recorded replies
    "client": operator.ne,
    "base_url": operator.ne,
    "replay": _is_redirected,
    "calibration": lambda base, head: bool(base) and head != base,
    "min_kappa": lambda base, head: base is not None and (head is None or head < base),
    # what they cut short is not measured, of which a share may be missing
    "deadline": _is_tightened,
    "call_deadline": operator.gt,
    "budget": _is_any_tightened,
}


def of_settings(base: Settings, head: Settings, suites: Iterable[Suite] = ()) -> Iterator[RelaxedRule]:
    """Every setting and every rule on judges and tools that asks for less than the base's, and files of which only a
    reader can tell. `suites`: the base's, whose custom metrics are such files."""
    for name, is_weaker in WEAKER_SETTINGS.items():
        if is_weaker(was := getattr(base, name), now := getattr(head, name)):
            yield _setting(head, name, was=was, now=now)
    for name, is_weaker in WEAKER_JUDGE.items():
        if is_weaker(was := getattr(base.gate_file.judge, name), now := getattr(head.gate_file.judge, name)):
            yield _setting(head, "judge", name, was=was, now=now)
    theirs, ours = base.gate_file.tools, head.gate_file.tools
    mode_then, mode = toolbox.mode_of(base), toolbox.mode_of(head)
    if mode not in (mode_then, ToolMode.LIVE, ToolMode.RECORD):  # they run no longer
        yield _setting(head, "tools", "mode", was=mode_then.value, now=mode.value)
    for name in _tool_files(head):
        before, after = getattr(theirs, name), getattr(ours, name)
        if mode is mode_then and before != after:
            yield _setting(head, "tools", name, was=before, now=after)
    yield from _recordings(suites, base, head)
    yield from _contents(base, head, _metrics(suites, base.root) | _metrics(suites, head.root))


def _tool_files(settings: Settings) -> tuple[str, ...]:
    """The settings of the files that answer in the tools' stead."""
    mode = toolbox.mode_of(settings)
    if mode is ToolMode.REPLAY:
        return ("cassettes", "mocks") if settings.gate_file.tools.mocks else ("cassettes",)
    return ("mocks",) if mode is ToolMode.MOCK else ()


def _setting(head: Settings, *path: str, was: Any, now: Any) -> RelaxedRule:
    return _relaxed_rule(".".join(path), _value(was), _value(now), place=head.place_of(*path))


def _value(value: Any) -> str:
    if value is None or value == "":
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel):
        return ", ".join(f"{name}={each:g}" for name, each in value if each is not None) or "unset"
    return f"{value:g}" if isinstance(value, float) else str(value)


_LONGEST_NAME = 100


def _contents(base: Settings, head: Settings, metrics: Collection[str]) -> Iterator[RelaxedRule]:
    """Files that judge or answer otherwise now. One that is new counts as code of a metric: it may stand before another
    of its name."""
    named = []
    for settings in (base, head):
        rules = settings.gate_file
        mocks = rules.tools.mocks if "mocks" in _tool_files(settings) else ""
        named.append({rules.judge.calibration, rules.judge.replay, mocks} - {""})
    # where each side has its folder elsewhere, the setting says so
    cassettes = _cassettes(base) if base.gate_file.tools.cassettes == head.gate_file.tools.cassettes else frozenset()
    cassettes = cassettes if "cassettes" in _tool_files(head) else frozenset()
    for name in sorted({*metrics, *(named[0] & named[1]), *cassettes}):
        was, now = (_digest(settings.root / name) for settings in (base, head))
        if now != was and (was or name in metrics):
            yield _relaxed_rule(f"contents of {name}", was or NO_FILE, now or NO_FILE, place=Place(file=name))


def _recordings(suites: Iterable[Suite], base: Settings, head: Settings) -> Iterator[RelaxedRule]:
    """Recorded conversations that stand in for an agent, and are others now: nothing but the change says them."""
    codes = [discovery_agents.AgentCode(each.root, apart=discovery_agents.apart_of(each)) for each in (base, head)]
    uses = {fingerprints.agent_key(suite.agent): suite.agent for suite in suites if not agents.is_asked(suite.agent)}
    for use in uses.values():
        was, now = (code.fingerprint(use)[:8] for code in codes)
        if was and was != now:
            yield _relaxed_rule(f"recordings of {use.options.get('path') or 'the agent'}", was, now or NO_FILE)


def _cassettes(settings: Settings) -> frozenset[str]:
    """The recorded tool calls that answer in the tools' stead, relative to the checkout."""
    folder = settings.gate_file.tools.cassettes
    if "cassettes" not in _tool_files(settings) or places.why_not(settings.root, folder, trusted=True):
        return frozenset()
    found = (settings.root / folder).rglob("*.json")
    return frozenset(path.relative_to(settings.root).as_posix() for path in found)


def _digest(path: Path) -> str:
    """The first digits of what a file, or all files of a folder, hold; "" where there is nothing that can be read."""
    try:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.is_file())
            return fingerprints.digest([[str(each.relative_to(path)), _digest(each)] for each in inside])[:8]
        return hashlib.sha256(path.read_bytes()).hexdigest()[:8] if path.is_file() else ""
    except OSError:
        return ""


def _metrics(suites: Iterable[Suite], root: Path) -> frozenset[str]:
    """The files of custom metrics, those beside them (in the folder of a module, in all of a package), and what they
    import of the checkout. The file that the agent itself is in is what is tested."""
    return frozenset(
        path.relative_to(root).as_posix()
        for suite in suites
        for module in {(use.code or "").rpartition(".")[0] for use in suite.criteria}
        for path in _files_beside(root, module, suite.agent)
    )


def _files_beside(root: Path, module: str, agent: AgentUse) -> Iterator[Path]:
    """The Python files that a metric's module lies among and imports, wherever it may be itself: below the root, the
    agent's folder (also by the name `agent`), or one above it."""
    parts = module.split(".")
    if not all(part.isidentifier() and len(part) <= _LONGEST_NAME for part in parts):
        return
    own = PurePosixPath(str(agent.options.get("path") or "/"))
    home = None if own.is_absolute() or ".." in own.parts else own
    places = [(place, parts) for place in dict.fromkeys([".", "src", *map(str, home.parents if home else ())])]
    called = str(agent.options.get("call") or "").partition(":")[0]  # `package.module:function`
    tested = {root / (f"{called.replace('.', '/')}.py" if called else ".")}
    if home is not None:
        places += [(str(home), parts), (str(home), parts[1:] if parts[0] == "agent" else parts)]
        tested |= {root / home, root / home / "agent.py"}
    for place, names in places:
        folder = root / place
        stem = folder.joinpath(*names)
        mine = [path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()]
        if names and mine:
            found = [*(folder.glob("*.py") if len(names) == 1 else ()), *(folder / names[0]).rglob("*.py")]
            yield from {*mine, *found, *_imported(root, mine, tested)} - (tested - {*mine})


def _imported(root: Path, modules: Collection[Path], tested: Collection[Path]) -> Iterator[Path]:
    """What modules import of the checkout, without the agent and what it alone imports."""

    def text_of(name: str) -> str | None:
        path = root / name
        if path in tested and path not in modules:
            return None
        try:
            return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        except OSError:
            return None

    files = (path.relative_to(root).as_posix() for path in modules)
    return (root / name for name in agent_source.followed(files, text_of))
