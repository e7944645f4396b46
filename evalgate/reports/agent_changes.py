"""What changed in the agent between base and head: models, instructions, tools, settings, packages,
files."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from evalgate.model import AgentDescription, Report, Run
from evalgate.text import diff, plain, words
from evalgate.text.diff import DiffPiece
from evalgate.values import frozen_dataclass
from .phrases import phrase

NAME = 60
"""Characters of a name that are shown."""
TEXT = 100_000
"""Characters of each text that are compared."""
MOST_SHOWN = 6
"""Changes in the sentence."""
PACKAGES = 2
"""Packages that the sentence names; more are counted."""
MOST = 2_000
"""Changes that are looked at: results may come from anybody."""
RANKS = {
    kind: rank
    for rank, kinds in enumerate(
        (
            ("model",),
            ("instruction",),
            ("tool",),
            ("parameters", "tool_description"),
            ("agent", "description", "class", "sub_agents"),
            ("setting",),
            ("package",),
            ("file",),
        )
    )
    for kind in kinds
}
"""The kinds of changes in the order of importance."""
TEXTS = ("instruction", "description", "sub_agents", "tool_description", "parameters")
"""Kinds with a text of several lines."""

Fact: TypeAlias = tuple[str, str, str]
"""Its kind, the name of what it is about, and the agent that has that, or ""."""


@frozen_dataclass
class AgentChange:
    """One thing that changed."""

    kind: str
    """A key of RANKS."""
    text: str
    """A sentence with the names of the next four fields in braces."""
    name: str
    """Of what changed; untrusted, as the next three."""
    owner: str = ""
    """The agent that has it; "" for an agent, a package or a file."""
    base: str = ""
    """The value on the base."""
    head: str = ""
    """The value on head."""
    lines: tuple[DiffPiece, ...] = ()
    """The difference, if the text does not show it all."""

    def sentence(self, mark: Callable[[str], str] = str) -> str:
        """In words; `mark` spells names."""
        names = {
            "name": self.name,
            "owner": self.owner,
            "base": self.base or phrase("not_set"),
            "head": self.head or phrase("not_set"),
        }
        return self.text.format_map(
            {field: mark(plain.label(name, NAME)) for field, name in names.items()}
        )


def changes_of(report: Report) -> tuple[AgentChange, ...]:
    """All known differences, most important first; anything unknown on either side is left out."""
    base = report.compared.base
    if base is None:
        return ()
    all_changes = (
        change
        for base_description, head_description in pairs(report.run, base)
        for change in _compare(base_description, head_description)
    )
    changes = dict.fromkeys(itertools.islice(all_changes, MOST))
    return tuple(
        sorted(
            changes,
            key=lambda change: (
                RANKS[change.kind],
                change.name if change.kind == "package" else "",
            ),
        )
    )


def is_known(report: Report) -> bool:
    """True if all agents are fully known on both sides."""
    base = report.compared.base
    sides = [] if base is None else [side for pair in pairs(report.run, base) for side in pair]
    return bool(sides) and all(side.agents and side.packages and side.files for side in sides)


def sentence(changes: Sequence[AgentChange], mark: Callable[[str], str] = str) -> str:
    """`model of desk: a → b, instruction of desk (3 lines) and 7 packages`; files only if no part
    of the agent is known to differ."""
    agent_texts = [
        change.sentence(mark) for change in changes if change.kind not in ("package", "file")
    ]
    package_changes = [change for change in changes if change.kind == "package"]
    packages = [change.sentence(mark) for change in package_changes]
    if len(packages) > PACKAGES:
        packages = [words.counted(len(packages), "package")]
    files = [
        change.sentence(mark) for change in changes if change.kind == "file" and not agent_texts
    ]
    room = MOST_SHOWN - len(packages)
    if len(agent_texts) > room:
        agent_texts[room - 1 :] = [phrase("agent_changes_left", len(agent_texts) - room + 1)]
    return words.listed([*agent_texts, *packages, *files], limit=MOST_SHOWN)


def pairs(head: Run, base: Run) -> Iterator[tuple[AgentDescription, AgentDescription]]:
    """Base's agent and head's of each suite, each pair once."""
    base_keys = {suite.key: suite.agent.key for suite in base.suites}
    keys = ((base_keys.get(suite.key, ""), suite.agent.key) for suite in head.suites)
    for base_key, head_key in dict.fromkeys(keys):
        if base_key in base.descriptions and head_key in head.descriptions:
            description = base.descriptions[base_key]
            # another agent has read only its own files; stored results stand for an absent one
            if description != base.descriptions.get(head_key):
                description = AgentDescription(
                    agents=description.agents, packages=description.packages
                )
            yield description, head.descriptions[head_key]


def _compare(base: AgentDescription, head: AgentDescription) -> Iterator[AgentChange]:
    """The facts that differ, if both sides know their kind and have the agent that they are of."""
    is_alone = len(base.agents) == len(head.agents) == 1
    base_facts, head_facts = (dict(_facts(description)) for description in (base, head))
    base_kinds, head_kinds = ({kind for kind, _, _ in facts} for facts in (base_facts, head_facts))
    names_by_models: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for fact in dict.fromkeys([*base_facts, *head_facts]):
        kind, name, owner = fact
        base_text, head_text = base_facts.get(fact), head_facts.get(fact)
        if owner:
            agent = ("agent", owner, "")
            is_known = agent in base_facts and agent in head_facts
        else:
            is_known = kind in base_kinds and kind in head_kinds
        if base_text == head_text or not is_known:
            continue
        if kind == "model":
            names_by_models[base_text or "", head_text or ""].append(name)
        elif kind not in TEXTS:
            text = phrase("agent_change", kind, base_text, head_text, is_alone)
            yield AgentChange(
                kind=kind,
                text=text,
                name=name,
                owner=owner,
                base=base_text or "",
                head=head_text or "",
            )
        elif base_text is not None and head_text is not None:  # not of a tool of one side
            sides = (plain.clip(side, TEXT) for side in (base_text, head_text))
            lines = tuple(diff.of_lines(*sides))
            line_count = max(sum(line.mark == mark for line in lines) for mark in "-+")
            text = phrase("text_change", kind, line_count)
            yield AgentChange(kind=kind, text=text, name=name, lines=lines)
    for (base_model, head_model), names in sorted(names_by_models.items()):
        text = phrase("models_change", len(names))
        yield AgentChange(kind="model", text=text, name=names[0], base=base_model, head=head_model)


def _facts(description: AgentDescription) -> Iterator[tuple[Fact, str]]:
    """The facts on an agent with their texts, "" for what only exists or not."""
    for agent in description.agents:
        yield ("agent", agent.name, ""), ""
        texts = {
            "model": agent.model,
            "instruction": agent.instruction,
            "description": agent.description,
            "class": agent.kind,
            "sub_agents": "\n".join(agent.sub_agents),
        }
        for kind, text in texts.items():
            yield (kind, agent.name, agent.name), text
        for name, tool in agent.tools.items():
            parameters = (f"{parameter}: {kind}" for parameter, kind in tool.parameters.items())
            yield ("tool", name, agent.name), ""
            yield ("parameters", name, agent.name), "\n".join(parameters)
            yield ("tool_description", name, agent.name), tool.description
        for setting, text in agent.settings.items():
            yield ("setting", setting, agent.name), text
    for package, version in description.packages.items():
        yield ("package", package, ""), version
    for file, digest in description.files.items():
        yield ("file", file, ""), digest
