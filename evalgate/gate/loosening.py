"""Whether a change lowers its own bar: every rule of head that is weaker than the base's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from evalgate.model import (
    AgentUse,
    Case,
    CriterionRule,
    CriterionUse,
    FailOn,
    Loosening,
    LooseningKind,
    Policy,
    SimulatorUse,
    Suite,
    ThresholdRule,
)
from evalgate.text import words

EXCUSED = " (failures on both sides are tolerated)"
"""Under `threshold: new` a stricter bar makes known failures of what the base passed by its own."""
WIDTH, LED_UP, MOST = 60, 20, 100_000
"""Of a long value: what is shown, what of it stands before the difference, and what is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one side asks for: its evaluation files with their criteria, and its policy."""

    suites: tuple[Suite, ...]
    policy: Policy


def find(
    base: Rules,
    head: Rules,
    *,
    fingerprint: Callable[[Case], str],
    which: Callable[[AgentUse], str],
    renamed: Mapping[str, str] | None = None,
) -> tuple[Loosening, ...]:
    """Every rule that is weaker than the base's, policy first, then by suite in the base's order, the cases last: of
    these there may be so many that they would hide a rule among them.

    `fingerprint`: of all that a case asks and expects. `which`: the agent in words, "" for none. A changed case and
    changed options of a criterion are listed too: whether they ask for less, only a reader can tell. `renamed`: the
    base's name of an evaluation file by head's, where they differ.
    """
    names = {theirs: ours for ours, theirs in (renamed or {}).items()}
    after = {suite.key: suite for suite in head.suites}
    pairs = [(suite, after.get(names.get(suite.key, suite.key))) for suite in base.suites]
    known = {names.get(suite.key, suite.key) for suite in base.suites}
    return (
        *_policy(_under(base.policy, names), head.policy, known=known),
        *(found for then, now in pairs for found in _suite(then, now, base.policy, head.policy, which=which)),
        *(found for then, now in pairs if now is not None for found in _cases(then, now, fingerprint)),
    )


def _under(policy: Policy, names: Mapping[str, str]) -> Policy:
    """The base's policy under head's names of evaluation files."""
    return dataclasses.replace(
        policy,
        suite_pass_rate={names.get(key, key): rate for key, rate in policy.suite_pass_rate.items()},
        advisory=frozenset(names.get(key, key) for key in policy.advisory),
    )


def _suite(
    base: Suite, head: Suite | None, before: Policy, policy: Policy, *, which: Callable[[AgentUse], str]
) -> Iterator[Loosening]:
    """`before`, `policy`: the base's and head's."""
    if head is None:
        count = words.counted(len(base.eval_set.cases), "case")
        yield Loosening(kind=LooseningKind.SUITE_REMOVED, subject=base.key, suite=base.key, base=count)
        return
    was, now = which(base.agent), which(head.agent)
    if was != now and was:
        yield _rule(f"agent of {head.key}", *_beside(was, now))
    # results of an older evalgate do not tell who played the users
    if _is_led(base) and base.simulator.model and head.simulator.model:
        yield from _simulator(base.simulator, head.simulator, suite=head.key)
    after = {use.name: use for use in head.criteria}
    for use in base.criteria:
        kept = after.get(use.name)
        if not _is_shown_only(use) or before.criteria.get(use.name, CriterionRule()).gating:
            yield from _criterion(use, kept, suite=head.key)
        if kept is not None and policy.threshold is ThresholdRule.NEW and _is_easier(kept, use):
            yield _changed(use, kept, suite=head.key, was=_bar(use), now=_bar(kept) + EXCUSED)


def _cases(base: Suite, head: Suite, fingerprint: Callable[[Case], str]) -> Iterator[Loosening]:
    after = {case.case_id: case for case in head.eval_set.cases}
    for case in base.eval_set.cases:
        now = after.get(case.case_id)
        if now is None:
            yield Loosening(kind=LooseningKind.CASE_REMOVED, subject=case.case_id, suite=head.key)
        elif fingerprint(now) != fingerprint(case):
            yield Loosening(kind=LooseningKind.CASE_CHANGED, subject=case.case_id, suite=head.key, place=now.place)


def _is_led(suite: Suite) -> bool:
    return any(case.scenario is not None for case in suite.eval_set.cases)


def _simulator(base: SimulatorUse, head: SimulatorUse, *, suite: str) -> Iterator[Loosening]:
    """Whatever differs of who plays the users; a shorter or a longer conversation may each be the easier one."""
    for name in ("model", "config", "max_turns", "custom_instructions", "include_function_calls", "stop_signal"):
        for path, was, now in _differences(getattr(base, name), getattr(head, name), path=name):
            yield _rule(f"simulator {path} of {suite}", was, now)


def _is_shown_only(use: CriterionUse) -> bool:
    """Whether no case fails by it; where the policy says so, a drop of it fails the gate all the same."""
    return use.informational or use.threshold is None


def _bar(use: CriterionUse) -> str:
    return "informational" if use.informational or use.threshold is None else words.threshold(use.threshold)


def _is_easier(base: CriterionUse, head: CriterionUse) -> bool:
    """Whether head's threshold is the lower bar, where both have one and agree which way is better."""
    if base.threshold is None or head.threshold is None:
        return False
    return head.threshold > base.threshold if base.lower_is_better else head.threshold < base.threshold


def _criterion(base: CriterionUse, head: CriterionUse | None, *, suite: str) -> Iterator[Loosening]:
    if head is None:
        yield Loosening(kind=LooseningKind.CRITERION_REMOVED, subject=base.name, suite=suite, base=_bar(base))
        return
    if _is_shown_only(head) and not _is_shown_only(base):
        yield _changed(base, head, suite=suite, was=_bar(base), now=_bar(head))
        return
    if head.lower_is_better != base.lower_is_better:
        yield _changed(base, head, suite=suite, was=_direction(base), now=_direction(head))
    elif not _is_shown_only(base) and _is_easier(base, head):
        yield Loosening(
            kind=LooseningKind.THRESHOLD,
            subject=base.name,
            suite=suite,
            base=_bar(base),
            head=_bar(head),
            place=head.place,
        )
    if head.code != base.code:
        yield _changed(base, head, suite=suite, was=base.code or "built in", now=head.code or "built in")
    if head.on_the_test and not base.on_the_test:
        yield _changed(base, head, suite=suite, was="a miss fails the case", now="a miss is not measured")
    for path, before, after in _differences(base.options, head.options):
        yield _changed(base, head, suite=suite, was=f"{path} {before}", now=f"{path} {after}")


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
        yield path, *_beside(base, head)


def _beside(base: object, head: object) -> tuple[str, str]:
    """Two values in words, both from shortly before where they part."""
    texts = [_said(each, width=MOST) for each in (base, head)]
    shared = next((at for at, (was, now) in enumerate(zip(*texts, strict=False)) if was != now), min(map(len, texts)))
    start = max(shared - LED_UP, 0) if max(map(len, texts)) > WIDTH else 0
    was, now = (f"{'...' if start else ''}{_clipped(text[start:])}" for text in texts)
    return was, now


def _changed(base: CriterionUse, head: CriterionUse, *, suite: str, was: str, now: str) -> Loosening:
    return Loosening(
        kind=LooseningKind.CRITERION_CHANGED, subject=base.name, suite=suite, base=was, head=now, place=head.place
    )


def _direction(use: CriterionUse) -> str:
    return "lower is better" if use.lower_is_better else "higher is better"


def _said(value: object, *, width: int = WIDTH) -> str:
    return "unset" if value is None else str(value)[:width]


def _clipped(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _policy(base: Policy, head: Policy, *, known: Collection[str]) -> Iterator[Loosening]:
    """`known`: the suites that the base has, under head's names; what it does not have cannot be lowered."""
    for word in FailOn:
        if word in base.fail_on and word not in head.fail_on:
            yield _rule("fail_on", f"with {word.value}", f"without {word.value}")
    yield from _lowered("pass_rate", base.pass_rate, head.pass_rate)
    yield from _lowered("min_measured", base.min_measured, head.min_measured)
    # the smaller alpha, the surer a regression must be before it counts
    yield from _lowered("alpha", base.alpha, head.alpha)
    yield from _raised("max_drop", base.max_drop, head.max_drop)
    for suite in sorted({*base.suite_pass_rate, *head.suite_pass_rate} & {*known}):
        was, now = (each.suite_pass_rate.get(suite, each.pass_rate) for each in (base, head))
        yield from _lowered(f"pass_rate of {suite}", was, now)
    if head.threshold is ThresholdRule.NEW and base.threshold is ThresholdRule.ALL:
        yield _rule("threshold", base.threshold.value, head.threshold.value)
    if head.threshold is ThresholdRule.NEW and base.threshold is ThresholdRule.NEW:
        yield from _raised("confirm", base.confirm, head.confirm)
    if head.adk_compat and not base.adk_compat:
        yield _rule("adk_compat", "false", "true")
    for suite in sorted((head.advisory - base.advisory) & {*known}):
        yield _rule(f"severity of {suite}", "gating", "advisory")
    yield from _raised("admission", base.admission, head.admission)
    yield from _overrides(base, head)


def _overrides(base: Policy, head: Policy) -> Iterator[Loosening]:
    for name in sorted({*base.criteria, *head.criteria}):
        was, now = (each.criteria.get(name, CriterionRule()) for each in (base, head))
        before, after = (
            policy.max_drop if rule.max_drop is None else rule.max_drop for policy, rule in ((base, was), (head, now))
        )
        if (was.max_drop, now.max_drop) != (None, None):
            yield from _raised(f"max_drop of {name}", before, after)
        if now.gating is False and was.gating is not False:
            yield _rule(f"gating of {name}", _said(was.gating).lower(), "false")
        elif was.gating is True and now.gating is None:
            yield _rule(f"gating of {name}", "true", "unset")
        if was.lower_is_better != now.lower_is_better:
            said = [_said(each.lower_is_better).lower() for each in (was, now)]
            yield _rule(f"lower_is_better of {name}", said[0], said[1])


def _lowered(name: str, base: float, head: float) -> Iterator[Loosening]:
    if head < base:
        yield _rule(name, _number(base), _number(head))


def _raised(name: str, base: float, head: float) -> Iterator[Loosening]:
    if head > base:
        yield _rule(name, _number(base), _number(head))


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else words.threshold(value)


def _rule(name: str, base: str, head: str) -> Loosening:
    return Loosening(kind=LooseningKind.POLICY, subject=name, base=base, head=head)
