"""What changed in the agent between base and head: models, instructions, tools, settings, packages,
files."""

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

NAME = 60
TEXT = 100_000
MOST_SHOWN = 6
PACKAGES = 2
MOST: Final = 2_000
"""Changes that are looked at: results may come from anybody."""
FIRST_PACKAGES: Final = (
    *(
        "google-adk",
        "google-genai",
        "langgraph",
        "langchain",
        "openai-agents",
        "openai",
        "pydantic-ai",
        "smolagents",
    ),
    *("litellm", "anthropic"),
)
"""Packages that agents are built with; they are listed first."""


@frozen_dataclass
class AgentChange:
    """One thing that changed: `text` has a placeholder (`{}`) for each of `names`, which are
    untrusted. `lines`: the difference, if the text does not show it all. `about`: its group."""

    group: str
    text: str
    names: tuple[str, ...] = ()
    lines: tuple[DiffPiece, ...] = ()

    def sentence(self, mark: Callable[[str], str] = str) -> str:
        """In words; `mark` spells names."""
        return self.text.format(*(mark(plain.label(name, NAME)) for name in self.names))


def changes_of(report: Report) -> tuple[AgentChange, ...]:
    """All known differences, most important first; anything unknown on either side is left out."""
    comparison = report.comparison
    if comparison is None or comparison.base is None:
        return ()
    all_changes = (
        change
        for base_description, head_description in pairs(report.run, comparison.base)
        for change in _compare(base_description, head_description)
    )
    changes = dict.fromkeys(itertools.islice(all_changes, MOST))
    order = ("model", "instruction", "tool", "agent", "setting", "package", "file")
    return tuple(sorted(changes, key=lambda change: order.index(change.group)))


def is_same(report: Report) -> bool:
    """True if all agents are fully known on both sides and equal."""
    comparison = report.comparison
    if comparison is None or comparison.base is None or changes_of(report):
        return False
    description_pairs = list(pairs(report.run, comparison.base))
    return bool(description_pairs) and all(
        side.agents and side.packages and side.files for pair in description_pairs for side in pair
    )


def sentence(changes: Sequence[AgentChange], mark: Callable[[str], str] = str) -> str:
    """`model of desk: a → b, instruction of desk (3 lines), google-adk 1.2.0 → 1.3.0 and 7 more
    packages`; files only if nothing else is known."""
    agent_texts = [
        change.sentence(mark) for change in changes if change.group not in ("package", "file")
    ]
    package_changes = [change for change in changes if change.group == "package"]
    named_changes = (
        package_changes
        if len(package_changes) <= PACKAGES
        else [change for change in package_changes if change.names[0] in FIRST_PACKAGES][:PACKAGES]
    )
    packages = [change.sentence(mark) for change in named_changes]
    other_count = len(package_changes) - len(named_changes)
    packages += [phrase("agent_packages", other_count, bool(packages))] if other_count else []
    files = [] if agent_texts or packages else [change.sentence(mark) for change in changes]
    room = max(MOST_SHOWN - len(packages), 1)
    if len(agent_texts) > room:
        agent_texts = [
            *agent_texts[: room - 1],
            phrase("agent_changes_left", len(agent_texts) - room + 1),
        ]
    return words.listed([*agent_texts, *packages, *files], limit=MOST_SHOWN)


def quoted(name: str) -> str:
    """A name as Markdown code."""
    return f"`{name.replace('`', chr(39))}`"


def pairs(head: Run, base: Run) -> Iterator[tuple[AgentDescription, AgentDescription]]:
    """Base's agent and head's of each suite, each pair once."""
    base_keys = {suite.key: fingerprints.agent_key(suite.agent) for suite in base.suites}
    keys = (
        (base_keys.get(suite.key, ""), fingerprints.agent_key(suite.agent)) for suite in head.suites
    )
    for base_key, head_key in dict.fromkeys(keys):
        if base_key in base.descriptions and head_key in head.descriptions:
            yield base.descriptions[base_key], head.descriptions[head_key]


def _compare(
    base_description: AgentDescription, head_description: AgentDescription
) -> Iterator[AgentChange]:
    if base_description.agents and head_description.agents:
        yield from _agents(
            {agent.name: agent for agent in base_description.agents},
            {agent.name: agent for agent in head_description.agents},
        )
    if base_description.packages and head_description.packages:
        package_versions = _differences(base_description.packages, head_description.packages)
        for name in sorted(
            package_versions,
            key=lambda name: (
                FIRST_PACKAGES.index(name) if name in FIRST_PACKAGES else len(FIRST_PACKAGES),
                name,
            ),
        ):
            base_version, head_version = package_versions[name]
            if base_version and head_version:
                yield _replacement("package", "{}", (name,), base_version, head_version)
            else:
                yield AgentChange(
                    group="package",
                    text=phrase("package_change", base_version),
                    names=(name, base_version or head_version),
                )
    if base_description.files and head_description.files:
        for name, (base_version, head_version) in _differences(
            base_description.files, head_description.files
        ).items():
            yield AgentChange(
                group="file", text=phrase("file_change", base_version, head_version), names=(name,)
            )


def _differences(
    base_texts: Mapping[str, str], head_texts: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """The pairs of texts that differ, by name; "" on the side that does not have one."""
    pairs = {
        name: (base_texts.get(name, ""), head_texts.get(name, ""))
        for name in dict.fromkeys([*base_texts, *head_texts])
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _replacement(
    group: str, text: str, names: tuple[str, ...], base_text: str, head_text: str
) -> AgentChange:
    all_names = (*names, base_text or phrase("not_set"), head_text or phrase("not_set"))
    return AgentChange(group=group, text=f"{text} {{}} \N{RIGHTWARDS ARROW} {{}}", names=all_names)


def _agents(
    base_agents: Mapping[str, LoadedAgent], head_agents: Mapping[str, LoadedAgent]
) -> Iterator[AgentChange]:
    for name in dict.fromkeys([*base_agents, *head_agents]):
        base_agent = base_agents.get(name)
        head_agent = head_agents.get(name)
        if base_agent is None or head_agent is None:
            yield AgentChange(
                group="agent", text=phrase("agent_change", base_agent is None), names=(name,)
            )
        else:
            yield from _agent(
                base_agent, head_agent, is_alone=len(base_agents) == len(head_agents) == 1
            )
    yield from _models(base_agents, head_agents)


def _models(
    base_agents: Mapping[str, LoadedAgent], head_agents: Mapping[str, LoadedAgent]
) -> Iterator[AgentChange]:
    """The changes of models; agents with the same change share one."""
    names_by_models: dict[tuple[str, str], list[str]] = {}
    for name in base_agents.keys() & head_agents.keys():
        if base_agents[name].model != head_agents[name].model:
            names_by_models.setdefault(
                (base_agents[name].model, head_agents[name].model), []
            ).append(name)
    for (base_model, head_model), names in sorted(names_by_models.items()):
        yield _replacement(
            "model",
            phrase("models_change", len(names)),
            tuple(names if len(names) == 1 else ()),
            base_model,
            head_model,
        )


def _agent(
    base_agent: LoadedAgent, head_agent: LoadedAgent, *, is_alone: bool
) -> Iterator[AgentChange]:
    name = head_agent.name
    owner = () if is_alone else (name,)
    yield from _text(
        "instruction", "instruction", name, base_agent.instruction, head_agent.instruction
    )
    for tool in dict.fromkeys([*base_agent.tools, *head_agent.tools]):
        if tool not in head_agent.tools or tool not in base_agent.tools:
            text = phrase("tool_change", tool in head_agent.tools, is_alone)
            yield AgentChange(group="tool", text=text, names=(tool, *owner))
    for tool in (tool_name for tool_name in base_agent.tools if tool_name in head_agent.tools):
        yield from _tool(tool, base_agent.tools[tool], head_agent.tools[tool])
    yield from _text("agent", "description", name, base_agent.description, head_agent.description)
    if base_agent.kind != head_agent.kind:
        yield _replacement(
            "agent", phrase("class_change"), (name,), base_agent.kind, head_agent.kind
        )
    yield from _text(
        "agent",
        "sub_agents",
        name,
        "\n".join(base_agent.sub_agents),
        "\n".join(head_agent.sub_agents),
    )
    for setting, (base_text, head_text) in _differences(
        base_agent.settings, head_agent.settings
    ).items():
        yield _replacement(
            "setting", phrase("setting_change", is_alone), (setting, *owner), base_text, head_text
        )


def _tool(name: str, base_tool: LoadedTool, head_tool: LoadedTool) -> Iterator[AgentChange]:
    base_parameters, head_parameters = (
        "\n".join(f"{key}: {kind}" for key, kind in tool.parameters.items())
        for tool in (base_tool, head_tool)
    )
    yield from _text("tool", "parameters", name, base_parameters, head_parameters)
    yield from _text("tool", "tool_description", name, base_tool.description, head_tool.description)


def _text(
    group: str, kind: str, name: str, base_text: str, head_text: str
) -> Iterator[AgentChange]:
    if base_text == head_text:
        return
    lines = diff.of_lines(plain.clip(base_text, TEXT), plain.clip(head_text, TEXT))
    removed_count, added_count = (sum(line.mark == mark for line in lines) for mark in "-+")
    text = phrase("text_change", kind, max(removed_count, added_count))
    yield AgentChange(group=group, text=text, names=(name,), lines=tuple(lines))
