"""Whether the agents that somebody named are there, as far as that can be told without running anything."""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import assert_never

from evalgate import agents
from evalgate.config import gate_file as config_gate_file
from evalgate.config import globs
from evalgate.config.gate_file import AgentRule, GateFile
from evalgate.config.settings import Settings
from evalgate.config.yaml import Locator
from evalgate.discovery import walk as discovery_walk
from evalgate.discovery.walk import IgnoreRules, Tree
from evalgate.errors import Place, Problem, Severity
from evalgate.formats import fingerprints
from evalgate.model import AgentUse, EvalSet
from evalgate.text import words

# -- The fingerprint of what an agent is made of --

# -- The files that an agent may be made of --

FOR_PEOPLE = ("readme", "changelog", "contributing", "code_of_conduct", "security", "license", "licence", "notice")
"""How the names of files begin that no agent is made of; within its own folder they count as well."""

REPORTS = frozenset({
    "journal.jsonl", "base-journal.jsonl", "results.json", "base.json", "durations.json",
    "junit.xml", "comment.md", "summary.md", "report.html", "findings.sarif",
})  # fmt: skip
"""What a run writes into its output folder, whatever the folder is called."""

_OURS = {"journal.jsonl": b'{"journal":', "results.json": b'{"schema_version":'}
"""How the files begin that tell such a folder."""


def walk(root: Path, *, apart: Collection[str] = (), own: str | None = None) -> Iterator[str]:
    """Paths relative to `root`, posix, in a fixed order.

    Left out: what a .gitignore of the tree names, hidden folders and files, environments, `node_modules`, caches,
    evaluation files and their criteria, evalgate.yml, files for people (README, LICENSE ...), what runs wrote into any
    folder, and the folders `apart` (posix, relative). `own`: the agent's own folder or file, of which all counts but
    the hidden, caches, evaluation files and what runs wrote.
    """
    seen = set()
    if own is not None and (root / own).is_dir():
        for path in _files(root, "" if own in ("", ".") else f"{own.strip('/')}/", apart, ignored=own in ("", ".")):
            seen.add(path)
            yield path
    elif own is not None and (root / own).is_file():
        seen.add(own)
        yield own
    for path in _files(root, "", apart, ignored=True):
        if path not in seen and not _is_for_people(path):
            yield path


def _files(root: Path, start: str, apart: Collection[str], *, ignored: bool) -> Iterator[str]:
    """All files below the prefix `start`; with `ignored` without what git ignores."""
    pending: list[tuple[str, IgnoreRules]] = [(start, IgnoreRules())]
    while pending:
        prefix, above = pending.pop()
        entries = _entries(root / prefix)
        if prefix and not discovery_walk.ENVIRONMENT_MARKS.isdisjoint(entries):
            continue
        rules = _rules(prefix, entries, above) if ignored else above
        written = REPORTS if _is_output(entries) else frozenset()
        for name, entry in entries.items():
            path = f"{prefix}{name}"
            if name.startswith(".") or name in discovery_walk.SKIPPED_FOLDERS or path in apart or name in written:
                continue
            if _is_folder(entry):
                if not rules.ignores(f"{path}/"):
                    pending.append((f"{path}/", rules))
            elif not rules.ignores(path) and not _evaluates(path):
                yield path


def _entries(folder: Path) -> Mapping[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return {entry.name: entry for entry in sorted(listing, key=lambda entry: entry.name)}
    except OSError:
        return {}


def _is_output(entries: Mapping[str, os.DirEntry[str]]) -> bool:
    """Whether a run wrote into the folder: only what it wrote is left out, never what else lies there."""
    return any(name in entries and _begins(Path(entries[name].path), head) for name, head in _OURS.items())


def _begins(path: Path, head: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(head)) == head
    except OSError:
        return False


def _rules(prefix: str, entries: Mapping[str, os.DirEntry[str]], above: IgnoreRules) -> IgnoreRules:
    entry = entries.get(".gitignore")
    if entry is None or not entry.is_file(follow_symlinks=False):
        return above
    try:
        text = Path(entry.path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return above
    return above.extended(prefix, discovery_walk.parse_rules(text, file=f"{prefix}.gitignore")[0])


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _evaluates(path: str) -> bool:
    name = path.rpartition("/")[2]
    return (
        discovery_walk.is_evaluation_name(name) or name in discovery_walk.CONFIG_NAMES or path in config_gate_file.NAMES
    )


def _is_for_people(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name.startswith(FOR_PEOPLE) and not name.endswith((".py", ".js", ".ts", ".json", ".yml", ".yaml", ".toml"))


WHOLE_BYTES = 4 * 1024 * 1024
"""Larger files (model weights, data) count by their size only."""


def apart_of(settings: Settings) -> tuple[str, ...]:
    """What of a checkout is no part of any agent: what runs write, and what answers in the stead of tools and judges.
    Relative to a side's root, or absolute."""
    rules = settings.gate_file
    named = (
        *(settings.output, settings.baseline_folder, settings.cache, settings.config, settings.criteria),
        *(rules.tools.cassettes, rules.tools.mocks, rules.judge.record, rules.judge.replay, rules.judge.calibration),
    )
    return tuple(each for each in named if each)


class AgentCode:
    """One side's checkout, read at most once.

    `apart`: see `apart_of`.
    """

    def __init__(self, root: Path, *, apart: Iterable[str] = ()) -> None:
        self._root = root
        paths = (Path(os.path.normpath(root / each)) for each in apart)
        self._apart = frozenset(path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root))
        self._contents: dict[str, bytes] = {}
        self._known: dict[str, str] = {}

    def fingerprint(self, use: AgentUse) -> str:
        """16 hex digits; "" where the agent's code is elsewhere, and nothing can be told of it.

        An agent may import and read what it likes, so all of the checkout counts that `source_files.walk` sees; of
        recordings only the recordings.
        """
        key = fingerprints.agent_key(use)
        if key not in self._known:
            self._known[key] = self._read(use)
        return self._known[key]

    def _read(self, use: AgentUse) -> str:
        driver = agents.DRIVERS.get(use.driver)
        if driver is None or driver.is_remote:
            return ""
        files = driver.files(use.options, SeenCheckout(self._root, apart=self._apart))
        seen = hashlib.sha256()
        for path in sorted(files):
            seen.update(os.fsencode(path) + b"\0" + self._content(path) + b"\0")
        return seen.hexdigest()[:16]

    def _content(self, path: str) -> bytes:
        if path not in self._contents:
            self._contents[path] = hashlib.sha256(_content(self._root / path)).digest()
        return self._contents[path]


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():  # a link to a folder, or to nothing
            return b"link " + os.fsencode(path.readlink()) if path.is_symlink() else b"no file"
        size = path.stat().st_size
        return path.read_bytes() if size <= WHOLE_BYTES else str(size).encode()
    except OSError:
        return b"unreadable"


# -- Whether Python source offers an ADK agent, told from its text --

ENTRY_NAMES = frozenset({"root_agent", "get_agent_async"})
"""What ADK looks for in an agent's module; also `app`, which other frameworks use as well."""


def offers_agent(source: str) -> bool:
    """Whether the module defines, assigns or imports `root_agent`, `get_agent_async`, or an `app` of ADK.

    Source that this Python cannot parse is judged by its words.
    """
    if not any(name in source for name in (*ENTRY_NAMES, "google.adk", "import app")):
        return False
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "root_agent" in source
    names = set(_bound_names(module.body))
    if names & ENTRY_NAMES:
        return True
    return "app" in names and ("google.adk" in source or _imports_app_from_sibling(module.body))


def _bound_names(body: list[ast.stmt]) -> Iterator[str]:
    """Names that the module's own level binds, within `if`, `try` and `with` too."""
    for statement in body:
        match statement:
            case ast.Assign(targets=targets):
                yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.If(body=inner, orelse=other):
                yield from _bound_names([*inner, *other])
            case ast.Try(body=inner, handlers=handlers, orelse=other, finalbody=final):
                yield from _bound_names([*inner, *other, *final])
                for handler in handlers:
                    yield from _bound_names(handler.body)
            case ast.With(body=inner):
                yield from _bound_names(inner)
            case _:
                pass


def _imports_app_from_sibling(body: list[ast.stmt]) -> bool:
    """`from .agent import app`: what ADK's own templates write in `__init__.py`."""
    return any(
        isinstance(statement, ast.ImportFrom)
        and (statement.module or "").split(".")[-1] == "agent"
        and any((alias.asname or alias.name) == "app" for alias in statement.names)
        for statement in body
    )


# -- Which agent an evaluation file runs, where nobody said so --

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
                offers_agent(self.read(name if folder == "." else f"{folder}/{name}")) for name in sorted(names)
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


# -- The agent of every suite --

UNKNOWN = AgentUse(
    driver=agents.DEFAULT, options={agents.DRIVERS[agents.DEFAULT].argument: "."}, found_by="nothing found"
)
"""Stands in where no agent was found: the problem beside it is an error, so that it never runs."""

CODES = frozenset({"no-agent", "ambiguous-agent", "app-name-unmatched", "mixed-app-names"})
"""Of all problems that finding an agent may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoices:
    """The agent by suite key; `problems` in the order of the keys."""

    by_key: Mapping[str, AgentUse]
    problems: tuple[Problem, ...]


def choose_agents(
    sets: Mapping[str, EvalSet], *, gate_file: GateFile, files: Mapping[str, frozenset[str]], read: ReadSource
) -> AgentChoices:
    """A rule of the gate file wins (of several the last); one of the default driver without an agent only adds options.

    `files`: names of possible agent files by folder. Nothing is imported.
    """
    folders = AgentFolders(files=files, read=read)
    argument = agents.DRIVERS[agents.DEFAULT].argument
    by_key: dict[str, AgentUse] = {}
    problems: list[Problem] = []
    absent: list[str] = []
    for key in sorted(sets):
        rule, said_by = _last_rule(key, gate_file)
        use = None if rule is None else agents.rule_use(rule)
        if use is not None and (use.driver != agents.DEFAULT or argument in use.options):
            by_key[key] = dataclasses.replace(use, found_by=said_by)
            continue
        app_name, case_id, told = _app_name(key, sets[key])
        problems.extend(told)
        finding = find_agent(key, folders=folders, app_name=app_name, named_by=case_id)
        by_key[key] = UNKNOWN
        match finding:
            case Found(folder=folder, found_by=found_by):
                options = {**(rule.options if rule else {}), argument: folder}
                by_key[key] = AgentUse(driver=agents.DEFAULT, options=options, found_by=found_by)
                if app_name and folder != "." and folder.rpartition("/")[2] != app_name:
                    problems.append(unmatched_name_problem(key, app_name=app_name, finding=finding))
            case Ambiguous():
                problems.append(ambiguous_problem(key, finding))
            case Absent():
                absent.append(key)
            case _:
                assert_never(finding)
    if absent:
        problems.append(absent_problem(absent))
    return AgentChoices(by_key=by_key, problems=tuple(problems))


def _last_rule(key: str, gate_file: GateFile) -> tuple[AgentRule | None, str]:
    for index in reversed(range(len(gate_file.agents))):
        rule = gate_file.agents[index]
        if globs.matches(key, rule.suites):
            return rule, f"evalgate.yml agents[{index}]"
    return None, ""


def _app_name(key: str, eval_set: EvalSet) -> tuple[str, str, list[Problem]]:
    """The app that the file's sessions name, the case that names it first, and a warning where there are several."""
    named: dict[str, str] = {}
    for case in eval_set.cases:
        if case.session is not None and case.session.app_name:
            named.setdefault(case.session.app_name, case.case_id)
    if not named:
        return "", "", []
    app_name, case_id = next(iter(named.items()))
    if len(named) == 1:
        return app_name, case_id, []
    problem = Problem(
        severity=Severity.WARNING,
        code="mixed-app-names",
        message=f"the file's sessions name {len(named)} apps: {words.listed(named)}; only the first ({app_name}) is "
        f"used for the whole file",
        place=Place(file=key),
        hint="Split the file by agent, or set the agent in evalgate.yml.",
    )
    return app_name, case_id, [problem]


_RULE = re.compile(r"agents\[(\d+)\]$")


class SeenCheckout:
    """What drivers may look at (base.Checkout), each looked for once it is asked for.

    `apart`: folders and files that are no part of any agent, see `source_files.walk`.
    """

    def __init__(self, root: Path, *, apart: Collection[str] = ()) -> None:
        self.root = root
        self._apart = apart

    def code(self, own: str | None = None) -> Iterator[str]:
        """See base.Checkout."""
        return walk(self.root, apart=self._apart, own=own)

    def below(self, folder: str) -> Iterator[str]:
        """See base.Checkout."""
        for where, folders, files in os.walk(self.root / folder):
            folders[:] = sorted(
                name for name in folders if name != ".git" and name not in discovery_walk.SKIPPED_FOLDERS
            )
            yield from (os.path.relpath(os.path.join(where, name), self.root) for name in files)  # noqa: PTH118 - many

    def agent_folders(self) -> Sequence[str]:
        """See base.Checkout."""
        read = functools.partial(discovery_walk.read_source, self.root)
        return AgentFolders(files=self._tree.agent_files, read=read).outermost()

    def json_files(self) -> Sequence[str]:
        """See base.Checkout."""
        return self._tree.other_json

    @functools.cached_property
    def _tree(self) -> Tree:
        return discovery_walk.walk(self.root)


def problems(uses: Iterable[AgentUse], *, root: Path, places: Locator | None) -> Iterator[Problem]:
    """What is wrong with the places of agents that a rule names, each agent once. `places`: of evalgate.yml, where it
    names them.

    An error for what no environment could make right, a warning for what may be installed.
    """
    checkout = SeenCheckout(root)
    told = set()
    for use in uses:
        rule, driver = _RULE.search(use.found_by), agents.DRIVERS.get(use.driver)
        if rule is None or driver is None or use.found_by in told:
            continue
        told.add(use.found_by)
        options = {name: value for name, value in use.options.items() if isinstance(value, str)}
        missing = driver.missing(options, checkout)
        if missing is not None:
            named = options.get(driver.argument, "") if use.driver == agents.DEFAULT else ""
            yield Problem(
                severity=Severity.ERROR if missing.certain else Severity.WARNING,
                code="agent-missing",
                message=missing.message,
                place=places("agents", int(rule[1]), missing.option) if places is not None else None,
                hint=_driver_meant(named) or missing.hint,
            )


def _driver_meant(text: str) -> str:
    """The hint where a driver may have been meant: `comand:node agent.mjs`."""
    name, colon, rest = text.partition(":")
    if not colon or len(name) < 2 or not name.isidentifier():
        return ""
    close = words.nearest(name, agents.DRIVERS)
    return (
        f"Did you mean `{close}:{rest}`?" if close else f"`{name}` is not a known driver: {', '.join(agents.DRIVERS)}."
    )
