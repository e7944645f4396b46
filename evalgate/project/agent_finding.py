"""Which agent an evaluation file runs, where nobody said so: by app_name, else the nearest agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from evalgate.errors import Place, Problem, Severity
from evalgate.project import agent_source
from evalgate.text import words

ReadSource = Callable[[str], str]
"""The text of a file of the repository by its posix path; empty where it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFolders:
    """The folders that may hold an agent, by the names of their agent files; each is read at most once."""

    files: Mapping[str, frozenset[str]]
    read: ReadSource
    _known: dict[str, bool] = field(default_factory=dict)
    _by_name: dict[str, list[str]] = field(default_factory=dict)
    _children: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in self.files:
            if folder != ".":
                above, _, name = folder.rpartition("/")
                self._by_name.setdefault(name, []).append(folder)
                self._children.setdefault(above or ".", []).append(folder)

    def holds_agent(self, folder: str) -> bool:
        """Whether the folder has a root_agent.yaml, or an agent.py or __init__.py that offers an agent."""
        if folder not in self._known:
            names = self.files.get(folder, frozenset())
            self._known[folder] = "root_agent.yaml" in names or any(
                agent_source.offers_agent(self.read(name if folder == "." else f"{folder}/{name}"))
                for name in sorted(names)
            )
        return self._known[folder]

    def named(self, name: str) -> list[str]:
        """The folders of this name that hold an agent."""
        return [folder for folder in self._by_name.get(name, ()) if self.holds_agent(folder)]

    def directly_in(self, folder: str) -> list[str]:
        """The folders right below `folder` that hold an agent."""
        return sorted(below for below in self._children.get(folder, ()) if self.holds_agent(below))

    def outermost(self) -> list[str]:
        """Every agent that lies in no other agent's folder: sub-agents are left out."""
        found: list[str] = []
        for folder in sorted(self.files, key=_depth):
            if not any(_lies_in(folder, above) for above in found) and self.holds_agent(folder):
                found.append(folder)
        return sorted(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The folder of an agent and how it was found."""

    folder: str
    found_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """Several folders would do."""

    candidates: tuple[str, ...]
    sought: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """No folder would do."""


Finding = Found | Ambiguous | Absent


def find_agent(key: str, *, folders: AgentFolders, app_name: str = "", named_by: str = "") -> Finding:
    """The agent of the evaluation file `key`: `app_name` first (told by case `named_by`), then the nearest."""
    if app_name:
        finding = _find_by_name(key, app_name=app_name, named_by=named_by, folders=folders)
        if not isinstance(finding, Absent):
            return finding
    return _find_nearest(key, folders=folders)


def _find_by_name(key: str, *, app_name: str, named_by: str, folders: AgentFolders) -> Finding:
    """Up from the file: the first folder that is, or has beneath it, an agent's folder of that name; the shallowest."""
    candidates = folders.named(app_name)
    for above in _ancestors(key):
        within = [folder for folder in candidates if _lies_in(folder, above)]
        if not within:
            continue
        depth = min(_depth(folder) for folder in within)
        shallowest = [folder for folder in within if _depth(folder) == depth]
        if len(shallowest) == 1:
            return Found(folder=shallowest[0], found_by=f"session_input.app_name of case {named_by}")
        return Ambiguous(candidates=tuple(sorted(shallowest)), sought=f"a folder named {app_name!r} with an agent")
    return Absent()


def _find_nearest(key: str, *, folders: AgentFolders) -> Finding:
    """Up from the file: the first folder that holds an agent, or whose direct children do; else the only one."""
    for above in _ancestors(key):
        if folders.holds_agent(above):
            return Found(folder=above, found_by="nearest agent above the file")
        below = folders.directly_in(above)
        if len(below) == 1:
            return Found(folder=below[0], found_by=f"only agent in {'the root' if above == '.' else above + '/'}")
        if below:
            return Ambiguous(candidates=tuple(below), sought="the nearest agent")
    everywhere = folders.outermost()
    if len(everywhere) == 1:
        return Found(folder=everywhere[0], found_by="only agent of the repository")
    if everywhere:
        return Ambiguous(candidates=tuple(everywhere), sought="the only agent of the repository")
    return Absent()


def ambiguous_problem(key: str, finding: Ambiguous) -> Problem:
    """Several agents would do: the candidates, and how to say which."""
    return Problem(
        severity=Severity.ERROR,
        code="ambiguous-agent",
        message=f"looking for {finding.sought}, there are {len(finding.candidates)}: "
        f"{words.listed(finding.candidates, limit=8)}",
        place=Place(file=key),
        hint=_snippet(key, path=finding.candidates[0]),
    )


def absent_problem(keys: list[str]) -> Problem:
    """No agent for these files: what was looked for, and how to name one."""
    files = "" if len(keys) == 1 else f" for {words.counted(len(keys), 'evaluation file')} ({words.listed(keys)})"
    return Problem(
        severity=Severity.ERROR,
        code="no-agent",
        message=f"no agent found{files}: no folder has an agent.py or __init__.py with `root_agent` or an ADK `app`, "
        f"or a root_agent.yaml",
        place=Place(file=keys[0]),
        hint=_snippet("**" if len(keys) > 1 else keys[0], path="path/to/agent"),
    )


def unmatched_name_problem(key: str, *, app_name: str, finding: Found) -> Problem:
    """No folder is named as the session's app: which agent is run instead."""
    return Problem(
        severity=Severity.NOTE,
        code="app-name-unmatched",
        message=f"session_input.app_name is {app_name!r}, but no folder of that name has an agent; using "
        f"`{finding.folder}` ({finding.found_by})",
        place=Place(file=key),
    )


def _snippet(glob: str, *, path: str) -> str:
    return (
        "Set it in evalgate.yml:\n"
        "      agents:\n"
        f'        - suites: ["{glob}"]\n'
        "          driver: adk\n"
        f"          path: {path}"
    )


def _ancestors(key: str) -> Iterator[str]:
    """The folders above a file, nearest first, `.` last."""
    return (str(folder) for folder in PurePosixPath(key).parents)


def _lies_in(folder: str, above: str) -> bool:
    return above in (".", folder) or folder.startswith(f"{above}/")


def _depth(folder: str) -> int:
    return 0 if folder == "." else folder.count("/") + 1
