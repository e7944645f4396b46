"""Which settings and rules of evalgate.yml ask for less than the base's, beside those that are part of the policy."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import BaseModel

from evalgate.agents.tools import toolbox
from evalgate.agents.tools.base import ToolMode
from evalgate.config.gate_file import ToolsRule
from evalgate.config.settings import Runs, Settings
from evalgate.config.yaml import Locator
from evalgate.errors import Place
from evalgate.model import (
    AgentUse,
    Case,
    CriterionRule,
    CriterionUse,
    FailOn,
    Policy,
    RelaxedKind,
    RelaxedRule,
    SimulatorUse,
    Suite,
    ThresholdRule,
)
from evalgate.text import words

# -- Whether a change lowers its own bar --

EXCUSED = " (failures on both sides are tolerated)"
"""Under `threshold: new` a stricter bar makes known failures of what the base passed by its own."""
WIDTH, LED_UP, MOST = 60, 20, 100_000
"""Of a long value: what is shown, what of it stands before the difference, and what is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRules:
    """What one side asks for: its evaluation files with their criteria, and its policy."""

    suites: tuple[Suite, ...]
    policy: Policy


def of_rules(
    base: ComparedRules,
    head: ComparedRules,
    *,
    fingerprint: Callable[[Case], str],
    which: Callable[[AgentUse], str],
    renamed: Mapping[str, str] | None = None,
) -> tuple[RelaxedRule, ...]:
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
) -> Iterator[RelaxedRule]:
    """`before`, `policy`: the base's and head's."""
    if head is None:
        count = words.counted(len(base.eval_set.cases), "case")
        yield RelaxedRule(kind=RelaxedKind.SUITE_REMOVED, subject=base.key, suite=base.key, base=count)
        return
    was, now = which(base.agent), which(head.agent)
    if was != now and was:
        yield _rule(f"agent of {head.key}", *_side_by_side(was, now))
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


def _cases(base: Suite, head: Suite, fingerprint: Callable[[Case], str]) -> Iterator[RelaxedRule]:
    after = {case.case_id: case for case in head.eval_set.cases}
    for case in base.eval_set.cases:
        now = after.get(case.case_id)
        if now is None:
            yield RelaxedRule(kind=RelaxedKind.CASE_REMOVED, subject=case.case_id, suite=head.key)
        elif fingerprint(now) != fingerprint(case):
            yield RelaxedRule(kind=RelaxedKind.CASE_CHANGED, subject=case.case_id, suite=head.key, place=now.place)


def _is_led(suite: Suite) -> bool:
    return any(case.scenario is not None for case in suite.eval_set.cases)


def _simulator(base: SimulatorUse, head: SimulatorUse, *, suite: str) -> Iterator[RelaxedRule]:
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


def _criterion(base: CriterionUse, head: CriterionUse | None, *, suite: str) -> Iterator[RelaxedRule]:
    if head is None:
        yield RelaxedRule(kind=RelaxedKind.CRITERION_REMOVED, subject=base.name, suite=suite, base=_bar(base))
        return
    if _is_shown_only(head) and not _is_shown_only(base):
        yield _changed(base, head, suite=suite, was=_bar(base), now=_bar(head))
        return
    if head.lower_is_better != base.lower_is_better:
        yield _changed(base, head, suite=suite, was=_direction(base), now=_direction(head))
    elif not _is_shown_only(base) and _is_easier(base, head):
        yield RelaxedRule(
            kind=RelaxedKind.THRESHOLD,
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
        yield path, *_side_by_side(base, head)


def _side_by_side(base: object, head: object) -> tuple[str, str]:
    """Two values in words, both from shortly before where they part."""
    texts = [_shown(each, width=MOST) for each in (base, head)]
    shared = next((at for at, (was, now) in enumerate(zip(*texts, strict=False)) if was != now), min(map(len, texts)))
    start = max(shared - LED_UP, 0) if max(map(len, texts)) > WIDTH else 0
    was, now = (f"{'...' if start else ''}{_clipped(text[start:])}" for text in texts)
    return was, now


def _changed(base: CriterionUse, head: CriterionUse, *, suite: str, was: str, now: str) -> RelaxedRule:
    return RelaxedRule(
        kind=RelaxedKind.CRITERION_CHANGED, subject=base.name, suite=suite, base=was, head=now, place=head.place
    )


def _direction(use: CriterionUse) -> str:
    return "lower is better" if use.lower_is_better else "higher is better"


def _shown(value: object, *, width: int = WIDTH) -> str:
    return "unset" if value is None else str(value)[:width]


def _clipped(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _policy(base: Policy, head: Policy, *, known: Collection[str]) -> Iterator[RelaxedRule]:
    """`known`: the suites that the base has, under head's names; what it does not have cannot be lowered."""
    for word in FailOn:
        if word in base.fail_on and word not in head.fail_on:
            yield _rule("fail_on", f"with {word.value}", f"without {word.value}")
    yield from _lowered("pass_rate", base.pass_rate, head.pass_rate)
    yield from _lowered("min_measured", base.min_measured, head.min_measured)
    # the smaller alpha, the surer a regression must be before it counts
    yield from _lowered("alpha", base.alpha, head.alpha)
    yield from _raised_rule("max_drop", base.max_drop, head.max_drop)
    for suite in sorted({*base.suite_pass_rate, *head.suite_pass_rate} & {*known}):
        was, now = (each.suite_pass_rate.get(suite, each.pass_rate) for each in (base, head))
        yield from _lowered(f"pass_rate of {suite}", was, now)
    if head.threshold is ThresholdRule.NEW and base.threshold is ThresholdRule.ALL:
        yield _rule("threshold", base.threshold.value, head.threshold.value)
    if head.threshold is ThresholdRule.NEW and base.threshold is ThresholdRule.NEW:
        yield from _raised_rule("confirm", base.confirm, head.confirm)
    if head.adk_compat and not base.adk_compat:
        yield _rule("adk_compat", "false", "true")
    for suite in sorted((head.advisory - base.advisory) & {*known}):
        yield _rule(f"severity of {suite}", "gating", "advisory")
    yield from _raised_rule("admission", base.admission, head.admission)
    yield from _overrides(base, head)


def _overrides(base: Policy, head: Policy) -> Iterator[RelaxedRule]:
    for name in sorted({*base.criteria, *head.criteria}):
        was, now = (each.criteria.get(name, CriterionRule()) for each in (base, head))
        before, after = (
            policy.max_drop if rule.max_drop is None else rule.max_drop for policy, rule in ((base, was), (head, now))
        )
        if (was.max_drop, now.max_drop) != (None, None):
            yield from _raised_rule(f"max_drop of {name}", before, after)
        if now.gating is False and was.gating is not False:
            yield _rule(f"gating of {name}", _shown(was.gating).lower(), "false")
        elif was.gating is True and now.gating is None:
            yield _rule(f"gating of {name}", "true", "unset")
        if was.lower_is_better != now.lower_is_better:
            said = [_shown(each.lower_is_better).lower() for each in (was, now)]
            yield _rule(f"lower_is_better of {name}", said[0], said[1])


def _lowered(name: str, base: float, head: float) -> Iterator[RelaxedRule]:
    if head < base:
        yield _rule(name, _number(base), _number(head))


def _raised_rule(name: str, base: float, head: float) -> Iterator[RelaxedRule]:
    if head > base:
        yield _rule(name, _number(base), _number(head))


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else words.threshold(value)


def _rule(name: str, base: str, head: str) -> RelaxedRule:
    return RelaxedRule(kind=RelaxedKind.POLICY, subject=name, base=base, head=head)


_LONGEST_NAME = 100

IsWeaker = Callable[[Any, Any], bool]
"""Whether head's value (the second) asks for less than the base's."""


def _switched_on(base: bool, head: bool) -> bool:  # noqa: FBT001 - two values of one setting
    return head and not base


def _switched_off(base: bool, head: bool) -> bool:  # noqa: FBT001 - two values of one setting
    return base and not head


def _is_raised(base: float, head: float) -> bool:
    return head > base


def _fell(base: float | None, head: float | None) -> bool:
    """A bound from below that is lower now, or gone."""
    return base is not None and (head is None or head < base)


def _tightened(base: float | None, head: float | None) -> bool:
    """A bound on what may be spent that is new, or lower: less is measured."""
    return head is not None and (base is None or head < base)


def _any_tightened(base: Any, head: Any) -> bool:
    return any(_tightened(getattr(base, name), getattr(head, name)) for name in type(base).model_fields)


def _renamed(base: str, head: str) -> bool:
    return bool(head) and head != base


def _replaced(base: str, head: str) -> bool:
    return bool(base) and head != base


def _differs(base: object, head: object) -> bool:
    return head != base


def _fewer(base: Runs, head: Runs) -> bool:
    return head.start < base.start or head.most < base.most


SETTINGS: Final[Mapping[str, IsWeaker]] = {
    "policy": lambda base, head: base == "base" and head != "base",
    "baseline": lambda base, head: base not in (head, "none"),
    # other results to be compared with, which nobody may have looked at
    "data_branch": _renamed,
    "baseline_folder": _renamed,
    "max_baseline_age": _is_raised,
    "runs": _fewer,
    "budget": _any_tightened,  # what it cuts short is inconclusive, on which the gate need not block
    "skip_judged": _switched_on,
    "strict": _switched_off,
}

JUDGE: Final[Mapping[str, IsWeaker]] = {
    # who answers: another service, another address, or recorded replies
    "client": _differs,
    "base_url": _differs,
    "replay": _renamed,
    "calibration": _replaced,
    "min_kappa": _fell,
    # what they cut short is not measured, of which a share may be missing
    "deadline": _tightened,
    "budget": _any_tightened,
}

TOLD_ELSEWHERE: Final[Mapping[str, str]] = {
    "criteria": "criterion by criterion",
    "agent": "the agents of the suites",
    **dict.fromkeys(
        ("fail_on", "threshold", "confirm", "alpha", "max_drop", "admission", "pass_rate", "min_measured"),
        "with the policy",
    ),
    "adk_compat": "with the policy",
    "agents": "which agent each suite has",
    "suites": "criterion by criterion, and with the policy",
    "compare": "with the policy",
    "simulator": "by suite, and with its criteria",
    "exclude": "evaluation files that are gone",
    "judge.model": "with each criterion's options",
    "judge.config": "with each criterion's options",
    "judge.num_samples": "with each criterion's options",
    "judge.exhaustive": "with each criterion's options",
    "judge.criteria": "with each criterion's options",
    "tools.mode": "below, since a door may set it as well",
    "tools.cassettes": "below, where the mode uses them",
    "tools.mocks": "below, where the mode uses them",
}
"""What else can weaken the gate, and where that is told."""

NOT_WEAKER: Final[Mapping[str, str]] = {
    "seed": "random draws; none is better than another",
    **dict.fromkeys(("concurrency", "workers", "isolation"), "how fast, not what is asked"),
    **dict.fromkeys(
        ("turn_timeout", "case_timeout", "start_timeout", "memory", "max_output"),
        "what they stop is not measured, never passed or failed",
    ),
    "retries": "for lost connections; an answer is never asked for again",
    **dict.fromkeys(("env", "python", "requirements"), "what the agent is, which is what is tested"),
    **dict.fromkeys(("name", "comment", "check_run"), "where the verdict is shown"),
    **dict.fromkeys(("durations", "output"), "how parts are cut, and where files go"),
    **dict.fromkeys(("judge.api_key_env", "judge.record"), "whose account pays, and what is kept"),
    **dict.fromkeys(("judge.timeout", "judge.calls_at_once"), "how fast, not what is asked"),
}
"""What cannot weaken the gate, and why."""


def of_settings(base: Settings, head: Settings, suites: Iterable[Suite] = ()) -> Iterator[RelaxedRule]:
    """Every setting and every rule on judges and tools that asks for less than the base's, and files of which only a
    reader can tell. `suites`: the base's, whose custom metrics are such files."""
    for name, is_weaker in SETTINGS.items():
        was, now = getattr(base, name), getattr(head, name)
        if is_weaker(was, now):
            yield _told(head, name, was=was, now=now)
    for name, is_weaker in JUDGE.items():
        was, now = getattr(base.gate_file.judge, name), getattr(head.gate_file.judge, name)
        if is_weaker(was, now):
            yield _told(head, "judge", name, was=was, now=now)
    yield from _tools(base, head)
    yield from _contents(base, head, _metrics(suites, base.root) | _metrics(suites, head.root))


def _contents(base: Settings, head: Settings, metrics: Collection[str]) -> Iterator[RelaxedRule]:
    """Files that judge or answer otherwise now. One that is new counts as code of a metric: it may stand before another
    of its name."""
    for name in sorted({*metrics, *(set(_files(base)) & set(_files(head)))}):
        was, now = (_digest(settings.root / name) for settings in (base, head))
        if now != was and (was or name in metrics):
            yield RelaxedRule(
                kind=RelaxedKind.POLICY,
                subject=f"contents of {name}",
                base=was or "no file",
                head=now or "no file",
                place=Place(file=name),
            )


def _files(settings: Settings) -> list[str]:
    rules = settings.gate_file
    mode = toolbox.mode_of(settings, rules.tools)
    named = [rules.judge.calibration, rules.judge.replay]
    named += [rules.tools.mocks] if "mocks" in _used(mode, rules.tools) else []
    return [name for name in named if name]


def _metrics(suites: Iterable[Suite], root: Path) -> frozenset[str]:
    """The files of custom metrics and those beside them: in the folder of a module, in all of a package. The file that
    the agent itself is in is what is tested."""
    return frozenset(
        path.relative_to(root).as_posix()
        for suite in suites
        for module in {(use.code or "").rpartition(".")[0] for use in suite.criteria}
        for path in _files_beside(root, module, suite.agent)
    )


def _files_beside(root: Path, module: str, agent: AgentUse) -> Iterator[Path]:
    """The Python files that a metric's module lies among, wherever it may be imported from: below the root, the agent's
    folder (also by the name `agent`), or one above it."""
    parts = module.split(".")
    if not all(part.isidentifier() and len(part) <= _LONGEST_NAME for part in parts):
        return
    own = PurePosixPath(str(agent.options.get("path") or "/"))
    home = None if own.is_absolute() or ".." in own.parts else own
    places = [(place, parts) for place in dict.fromkeys([".", "src", *map(str, home.parents if home else ())])]
    tested = {root / _entry(agent)}
    if home is not None:
        places += [(str(home), parts), (str(home), parts[1:] if parts[0] == "agent" else parts)]
        tested |= {root / home, root / home / "agent.py"}
    for place, names in places:
        folder = root / place
        stem = folder.joinpath(*names)
        mine = [path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()]
        if names and mine:
            found = [*(folder.glob("*.py") if len(names) == 1 else ()), *(folder / names[0]).rglob("*.py")]
            yield from {*mine, *found} - (tested - {*mine})


def _entry(agent: AgentUse) -> str:
    """The file of a callable `package.module:function`."""
    called = agent.options.get("call")
    return f"{str(called).partition(':')[0].replace('.', '/')}.py" if called else "."


def _digest(path: Path) -> str:
    """The first digits of what a file holds; "" where there is none that can be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:8] if path.is_file() else ""
    except OSError:
        return ""


def _tools(base: Settings, head: Settings) -> Iterator[RelaxedRule]:
    """Tools that run no longer, or whose answers are made up elsewhere."""
    theirs, ours = base.gate_file.tools, head.gate_file.tools
    was, now = toolbox.mode_of(base, theirs), toolbox.mode_of(head, ours)
    if now not in (was, ToolMode.LIVE, ToolMode.RECORD):
        yield _told(head, "tools", "mode", was=was.value, now=now.value)
    for name in _used(now, ours):
        before, after = getattr(theirs, name), getattr(ours, name)
        if now is was and before != after:
            yield _told(head, "tools", name, was=before, now=after)


def _used(mode: ToolMode, rule: ToolsRule) -> tuple[str, ...]:
    if mode is ToolMode.REPLAY:
        return ("cassettes", "mocks") if rule.mocks else ("cassettes",)
    return ("mocks",) if mode is ToolMode.MOCK else ()


def _told(head: Settings, *path: str, was: Any, now: Any) -> RelaxedRule:
    place = None if head.places is None else _place(head.places, path)
    return RelaxedRule(kind=RelaxedKind.POLICY, subject=".".join(path), base=_value(was), head=_value(now), place=place)


def _place(places: Locator, path: tuple[str, ...]) -> Place | None:
    """Where head's evalgate.yml says so; None where it says nothing. A setting may be written either way."""
    found = (places(name, *path[1:]) for name in (path[0], path[0].replace("_", "-")))
    return next((place for place in found if place.json_path != "$"), None)


def _value(value: Any) -> str:
    if value is None or value == "":
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel) and not isinstance(value, Runs):
        bounds = ", ".join(f"{name}={each:g}" for name, each in value if each is not None)
        return bounds or "unset"
    return f"{value:g}" if isinstance(value, float) else str(value)
