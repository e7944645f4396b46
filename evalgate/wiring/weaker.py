"""Which settings and rules of evalgate.yml ask for less than the base's, beside those that are part of the policy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import BaseModel

from evalgate.agents.tools import toolbox
from evalgate.agents.tools.base import ToolMode
from evalgate.config.gate_file import ToolsRule
from evalgate.config.settings import Runs, Settings
from evalgate.config.yaml import Locator
from evalgate.errors import Place
from evalgate.model import AgentUse, Loosening, LooseningKind, Suite

_LONGEST_NAME = 100

IsWeaker = Callable[[Any, Any], bool]
"""Whether head's value (the second) asks for less than the base's."""


def _switched_on(base: bool, head: bool) -> bool:  # noqa: FBT001 - two values of one setting
    return head and not base


def _switched_off(base: bool, head: bool) -> bool:  # noqa: FBT001 - two values of one setting
    return base and not head


def _raised(base: float, head: float) -> bool:
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
    "max_baseline_age": _raised,
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


def find(base: Settings, head: Settings, suites: Iterable[Suite] = ()) -> Iterator[Loosening]:
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


def _contents(base: Settings, head: Settings, metrics: Collection[str]) -> Iterator[Loosening]:
    """Files that judge or answer otherwise now. One that is new counts as code of a metric: it may stand before another
    of its name."""
    for name in sorted({*metrics, *(set(_files(base)) & set(_files(head)))}):
        was, now = (_digest(settings.root / name) for settings in (base, head))
        if now != was and (was or name in metrics):
            yield Loosening(
                kind=LooseningKind.POLICY,
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
        for path in _beside(root, module, suite.agent)
    )


def _beside(root: Path, module: str, agent: AgentUse) -> Iterator[Path]:
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


def _tools(base: Settings, head: Settings) -> Iterator[Loosening]:
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


def _told(head: Settings, *path: str, was: Any, now: Any) -> Loosening:
    place = None if head.places is None else _place(head.places, path)
    return Loosening(kind=LooseningKind.POLICY, subject=".".join(path), base=_said(was), head=_said(now), place=place)


def _place(places: Locator, path: tuple[str, ...]) -> Place | None:
    """Where head's evalgate.yml says so; None where it says nothing. A setting may be written either way."""
    found = (places(name, *path[1:]) for name in (path[0], path[0].replace("_", "-")))
    return next((place for place in found if place.json_path != "$"), None)


def _said(value: Any) -> str:
    if value is None or value == "":
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel) and not isinstance(value, Runs):
        bounds = ", ".join(f"{name}={each:g}" for name, each in value if each is not None)
        return bounds or "unset"
    return f"{value:g}" if isinstance(value, float) else str(value)
