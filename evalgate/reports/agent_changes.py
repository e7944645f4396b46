"""What changed in the agent between base and head: models, instructions, tools, settings, packages, files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from evalgate.formats import fingerprints
from evalgate.model import AgentDescription, LoadedAgent, LoadedTool, Report, Run
from evalgate.reports.phrases import phrase
from evalgate.text import diff, plain, words
from evalgate.text.diff import DiffPiece
from evalgate.values import frozen_dataclass

NAME, TEXT, TOLD, PACKAGES = 60, 100_000, 6, 2
MOST: Final = 2_000
"""Changes that are looked at: results may come from anybody."""
FIRST: Final = (
    *("google-adk", "google-genai", "langgraph", "langchain", "openai-agents", "openai", "pydantic-ai", "smolagents"),
    *("litellm", "anthropic"),
)
"""Packages that agents are made with, which are told before others."""


@frozen_dataclass
class AgentChange:
    """One thing that changed: `text` has a place (`{}`) for each of `names`, which anybody may have chosen. `lines`:
    the difference, where the text does not say all. `about`: what it is told among."""

    about: str
    text: str
    names: tuple[str, ...] = ()
    lines: tuple[DiffPiece, ...] = ()

    def told(self, mark: Callable[[str], str] = str) -> str:
        """In words; `mark` spells names."""
        return self.text.format(*(mark(plain.label(name, NAME)) for name in self.names))


def of(report: Report) -> tuple[AgentChange, ...]:
    """All that is known to differ, in the order in which it matters; what is not known on both sides is not told."""
    comparison = report.comparison
    if comparison is None or comparison.base is None:
        return ()
    every = (each for before, after in pairs(report.run, comparison.base) for each in _between(before, after))
    found = dict.fromkeys(itertools.islice(every, MOST))
    order = ("model", "instruction", "tool", "agent", "setting", "package", "file")
    return tuple(sorted(found, key=lambda each: order.index(each.about)))


def is_same(report: Report) -> bool:
    """Whether all of every agent is known on both sides, and alike."""
    comparison = report.comparison
    if comparison is None or comparison.base is None or of(report):
        return False
    known = list(pairs(report.run, comparison.base))
    return bool(known) and all(side.agents and side.packages and side.files for pair in known for side in pair)


def sentence(found: Sequence[AgentChange], mark: Callable[[str], str] = str) -> str:
    """`model of desk: a → b, instruction of desk (3 lines), google-adk 1.2.0 → 1.3.0 and 7 more packages`; files only
    where nothing else is known."""
    own = [each.told(mark) for each in found if each.about not in ("package", "file")]
    changed = [each for each in found if each.about == "package"]
    few = changed if len(changed) <= PACKAGES else [each for each in changed if each.names[0] in FIRST][:PACKAGES]
    packages, others = [each.told(mark) for each in few], len(changed) - len(few)
    packages += [phrase("agent_packages", others, bool(packages))] if others else []
    files = [] if own or packages else [each.told(mark) for each in found]
    left = max(TOLD - len(packages), 1)
    if len(own) > left:
        own = [*own[: left - 1], phrase("agent_changes_left", len(own) - left + 1)]
    return words.listed([*own, *packages, *files], limit=TOLD)


def quoted(name: str) -> str:
    """A name as code, for texts that are read so."""
    return f"`{name.replace('`', chr(39))}`"


def pairs(head: Run, base: Run) -> Iterator[tuple[AgentDescription, AgentDescription]]:
    """Base's agent and head's of each suite, each pair once."""
    theirs = {suite.key: fingerprints.agent_key(suite.agent) for suite in base.suites}
    keys = ((theirs.get(suite.key, ""), fingerprints.agent_key(suite.agent)) for suite in head.suites)
    for then, now in dict.fromkeys(keys):
        if then in base.descriptions and now in head.descriptions:
            yield base.descriptions[then], head.descriptions[now]


def _between(before: AgentDescription, after: AgentDescription) -> Iterator[AgentChange]:
    if before.agents and after.agents:
        yield from _agents({each.name: each for each in before.agents}, {each.name: each for each in after.agents})
    if before.packages and after.packages:
        changed = _changed(before.packages, after.packages)
        for name in sorted(changed, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name)):
            then, now = changed[name]
            if then and now:
                yield _replaced("package", "{}", (name,), then, now)
            else:
                yield AgentChange(about="package", text=phrase("package_change", then), names=(name, then or now))
    if before.files and after.files:
        for name, (then, now) in _changed(before.files, after.files).items():
            yield AgentChange(about="file", text=phrase("file_change", then, now), names=(name,))


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What differs by name; "" on the side that does not have it."""
    pairs = {name: (before.get(name, ""), after.get(name, "")) for name in dict.fromkeys([*before, *after])}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _replaced(about: str, text: str, names: tuple[str, ...], then: str, now: str) -> AgentChange:
    named = (*names, then or phrase("not_set"), now or phrase("not_set"))
    return AgentChange(about=about, text=f"{text} {{}} \N{RIGHTWARDS ARROW} {{}}", names=named)


def _agents(before: Mapping[str, LoadedAgent], after: Mapping[str, LoadedAgent]) -> Iterator[AgentChange]:
    for name in dict.fromkeys([*before, *after]):
        then, now = before.get(name), after.get(name)
        if then is None or now is None:
            yield AgentChange(about="agent", text=phrase("agent_change", then is None), names=(name,))
        else:
            yield from _agent(then, now, is_alone=len(before) == len(after) == 1)
    yield from _models(before, after)


def _models(before: Mapping[str, LoadedAgent], after: Mapping[str, LoadedAgent]) -> Iterator[AgentChange]:
    """Agents that changed alike are told as one."""
    of_change: dict[tuple[str, str], list[str]] = {}
    for name in before.keys() & after.keys():
        if before[name].model != after[name].model:
            of_change.setdefault((before[name].model, after[name].model), []).append(name)
    for (then, now), names in sorted(of_change.items()):
        yield _replaced(
            "model", phrase("models_change", len(names)), tuple(names if len(names) == 1 else ()), then, now
        )


def _agent(then: LoadedAgent, now: LoadedAgent, *, is_alone: bool) -> Iterator[AgentChange]:
    name = now.name
    owner = () if is_alone else (name,)
    yield from _text("instruction", "instruction", name, then.instruction, now.instruction)
    for tool in dict.fromkeys([*then.tools, *now.tools]):
        if tool not in now.tools or tool not in then.tools:
            text = phrase("tool_change", tool in now.tools, is_alone)
            yield AgentChange(about="tool", text=text, names=(tool, *owner))
    for tool in (each for each in then.tools if each in now.tools):
        yield from _tool(tool, then.tools[tool], now.tools[tool])
    yield from _text("agent", "description", name, then.description, now.description)
    if then.kind != now.kind:
        yield _replaced("agent", phrase("class_change"), (name,), then.kind, now.kind)
    yield from _text("agent", "sub_agents", name, "\n".join(then.sub_agents), "\n".join(now.sub_agents))
    for setting, (was, is_now) in _changed(then.settings, now.settings).items():
        yield _replaced("setting", phrase("setting_change", is_alone), (setting, *owner), was, is_now)


def _tool(name: str, then: LoadedTool, now: LoadedTool) -> Iterator[AgentChange]:
    before, after = ("\n".join(f"{key}: {kind}" for key, kind in each.parameters.items()) for each in (then, now))
    yield from _text("tool", "parameters", name, before, after)
    yield from _text("tool", "tool_description", name, then.description, now.description)


def _text(about: str, kind: str, name: str, before: str, after: str) -> Iterator[AgentChange]:
    if before == after:
        return
    lines = diff.of_lines(plain.clip(before, TEXT), plain.clip(after, TEXT))
    gone, come = (sum(each.mark == mark for each in lines) for mark in "-+")
    text = phrase("text_change", kind, max(gone, come))
    yield AgentChange(about=about, text=text, names=(name,), lines=tuple(lines))
