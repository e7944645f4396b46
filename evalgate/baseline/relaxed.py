"""Relaxed rules: what of head's rules, criteria, cases, settings and files asks for less than the base's."""

from __future__ import annotations

import dataclasses
import hashlib
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import BaseModel

from evalgate import agents
from evalgate.agents.tools import toolbox
from evalgate.agents.tools.base import ToolMode
from evalgate.baseline import base as baseline_base
from evalgate.baseline.base import BaseRules
from evalgate.ces import cases
from evalgate.config import places
from evalgate.config.quarantine import Reading
from evalgate.config.settings import Runs, Settings
from evalgate.discovery import agents as discovery_agents
from evalgate.errors import Place
from evalgate.formats import fingerprints
from evalgate.model import (
    AgentUse,
    CriterionRule,
    CriterionUse,
    FailOn,
    Policy,
    RelaxedKind,
    RelaxedRule,
    Suite,
    ThresholdRule,
)
from evalgate.simulation import user
from evalgate.text import words

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
        *(found for then, now in pairs for found in _suite(then, now, base.policy, policy)),
        *(found for then, now in pairs if now is not None for found in _cases(then, now)),
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
            yield _rule(f"quarantine of {entry.name}", was, now, place=entry.place)


def _suite(base: Suite, head: Suite | None, before: Policy, policy: Policy) -> Iterator[RelaxedRule]:
    """`before`, `policy`: the base's and head's."""
    if head is None:
        count = words.counted(len(base.eval_set.cases), "case")
        yield RelaxedRule(kind=RelaxedKind.SUITE_REMOVED, subject=base.key, suite=base.key, base=count)
        return
    was, now = agents.identity_of(base.agent), agents.identity_of(head.agent)
    # where the base has no agent yet, any is as good
    if was and was != now and not baseline_base.is_unknown(base.agent):
        yield _rule(f"agent of {head.key}", *_in_words(was, now))
    # a shorter or a longer conversation may each be the easier one; results of an older evalgate do not tell who played
    if user.has_scenarios(base) and base.simulator.model and head.simulator.model:
        for name in PLAYS_USERS:
            for path, *values in _differences(getattr(base.simulator, name), getattr(head.simulator, name), path=name):
                yield _rule(f"simulator {path} of {head.key}", *values)
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


def _cases(base: Suite, head: Suite) -> Iterator[RelaxedRule]:
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
            yield _rule("fail_on", f"with {word.value}", f"without {word.value}")
    # the smaller alpha, the surer a regression must be before it counts
    for name in ("pass_rate", "min_measured", "alpha"):
        yield from _compared(name, getattr(base, name), getattr(head, name), operator.gt)
    yield from _compared("max_drop", base.max_drop, head.max_drop, operator.lt)
    for suite in sorted({*base.suite_pass_rate, *head.suite_pass_rate} & {*known}):
        was, now = (each.suite_pass_rate.get(suite, each.pass_rate) for each in (base, head))
        yield from _compared(f"pass_rate of {suite}", was, now, operator.gt)
    strictest_last = (ThresholdRule.NEW, ThresholdRule.CONFIRMED, ThresholdRule.ALL)
    if strictest_last.index(head.threshold) < strictest_last.index(base.threshold):
        yield _rule("threshold", base.threshold.value, head.threshold.value)
    if base.deterministic and not head.deterministic:
        yield _rule("deterministic", "true", "false")
    if head.adk_compat and not base.adk_compat:
        yield _rule("adk_compat", "false", "true")
    for suite in sorted((head.advisory - base.advisory) & {*known}):
        yield _rule(f"severity of {suite}", "gating", "advisory")
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
        yield _rule(f"gating of {name}", _value(was.gating), _value(now.gating))
    if was.lower_is_better != now.lower_is_better:
        yield _rule(f"lower_is_better of {name}", _value(was.lower_is_better), _value(now.lower_is_better))


def _compared(name: str, base: float, head: float, is_weaker: IsWeaker) -> Iterator[RelaxedRule]:
    if is_weaker(base, head):
        yield _rule(name, *(str(each) if isinstance(each, int) else words.threshold(each) for each in (base, head)))


def _rule(name: str, base: str, head: str, *, place: Place | None = None) -> RelaxedRule:
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


SETTINGS: Final[Mapping[str, IsWeaker]] = {
    "policy": lambda base, head: base == "base" and head != "base",
    "baseline": lambda base, head: base not in (head, "none"),
    # other results to be compared with, which nobody may have looked at
    "data_branch": _is_redirected,
    "baseline_folder": _is_redirected,
    "max_baseline_age": operator.lt,
    "reuse_days": operator.lt,
    "runs": lambda base, head: head.start < base.start or head.most < base.most,
    "budget": _is_any_tightened,  # what it cuts short is inconclusive, on which the gate need not block
    "burn_in": operator.gt,
    "skip_judged": operator.lt,  # switched on
    "strict": operator.gt,  # switched off
    "seed": operator.ne,  # none is better than another, but the luckiest of many is
}

JUDGE: Final[Mapping[str, IsWeaker]] = {
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

TOLD_ELSEWHERE: Final[Mapping[str, str]] = {
    "criteria": "criterion by criterion",
    "agent": "the agents of the suites",
    **dict.fromkeys(
        ("fail_on", "threshold", "deterministic", "alpha", "max_drop", "pass_rate", "min_measured"),
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
        if is_weaker(was := getattr(base, name), now := getattr(head, name)):
            yield _setting(head, name, was=was, now=now)
    for name, is_weaker in JUDGE.items():
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
    """`place`: where head's evalgate.yml says so, however it is written; None where it says nothing."""
    places = head.places
    found = [] if places is None else [places(name, *path[1:]) for name in (path[0], path[0].replace("_", "-"))]
    place = next((each for each in found if each.json_path != "$"), None)
    return _rule(".".join(path), _value(was), _value(now), place=place)


def _value(value: Any) -> str:
    if value is None or value == "":
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel) and not isinstance(value, Runs):
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
            yield _rule(f"contents of {name}", was or "no file", now or "no file", place=Place(file=name))


def _recordings(suites: Iterable[Suite], base: Settings, head: Settings) -> Iterator[RelaxedRule]:
    """Recorded conversations that stand in for an agent, and are others now: nothing but the change says them."""
    codes = [discovery_agents.AgentCode(each.root, apart=discovery_agents.apart_of(each)) for each in (base, head)]
    uses = {fingerprints.agent_key(suite.agent): suite.agent for suite in suites if not agents.is_asked(suite.agent)}
    for use in uses.values():
        was, now = (code.fingerprint(use)[:8] for code in codes)
        if was and was != now:
            yield _rule(f"recordings of {use.options.get('path') or 'the agent'}", was, now or "no file")


def _cassettes(settings: Settings) -> frozenset[str]:
    """The recorded tool calls that answer in the tools' stead, relative to the checkout."""
    folder = settings.gate_file.tools.cassettes
    if "cassettes" not in _tool_files(settings) or places.why_not(settings.root, folder, trusted=True):
        return frozenset()
    found = (settings.root / folder).rglob("*.json")
    return frozenset(path.relative_to(settings.root).as_posix() for path in found)


def _digest(path: Path) -> str:
    """The first digits of what a file holds; "" where there is none that can be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:8] if path.is_file() else ""
    except OSError:
        return ""


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
            yield from {*mine, *found} - (tested - {*mine})
