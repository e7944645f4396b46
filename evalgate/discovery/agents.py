"""The agents of a checkout: the agent of each evaluation file, and problems with it."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from evalgate import agents, errors, formats
from evalgate.config import gate_file as config_gate_file, places as config_places
from evalgate.config.gate_file import GateFile
from evalgate.config.yaml import Locator
from evalgate.errors import Place, Problem
from evalgate.model import AgentUse, EvalSet
from evalgate.results import kept
from evalgate.text import words
from evalgate.values import frozen_dataclass, grouped
from . import agent_source, walk
from .walk import IgnoreRules, Tree


def code_files(root: Path) -> Iterator[str]:
    """Paths relative to `root`, POSIX, in a fixed order.

    Left out: git-ignored files, git's own folder, `.env` files, environments, `node_modules`,
    caches, evaluation files and their criteria, and evalgate.yml."""
    pending: list[tuple[str, IgnoreRules]] = [("", ())]
    for prefix, entries, rules in walk.visit(root, pending, tell=lambda _: None):
        for name, entry in entries.items():
            path = f"{prefix}{name}"
            if name in (".git", kept.FOLDER, *walk.SKIPPED_FOLDERS) or name.startswith(".env"):
                continue
            if not walk.is_folder(entry):
                if not is_evaluation_file(path) and not walk.is_ignored(path, rules):
                    yield path
            elif not walk.is_ignored(f"{path}/", rules):
                pending.append((f"{path}/", rules))


def is_evaluation_file(path: str) -> bool:
    """True if a file, by its POSIX path below the root, holds cases, criteria or rules, and not an
    agent."""
    name = path.rpartition("/")[2]
    return (
        name.endswith(walk.EVALUATION_ENDINGS)
        or name in walk.CONFIG_NAMES
        or path in config_gate_file.NAMES
        or any(row.is_evaluation_file(path) for row in formats.FORMATS.values())
    )


def holds_expectations(path: str) -> bool:
    """True if a file of a checkout, by its absolute path, holds evaluations, criteria, rules or
    recordings: by its name, or by its content if others use the name as well."""
    folder, _, name = path.rpartition("/")
    is_skipped = not walk.SKIPPED_FOLDERS.isdisjoint(folder.split("/"))  # thousands of files
    if is_skipped or not name.endswith((".json", ".jsonl", ".yaml", ".yml")):
        return False
    is_known = name.endswith(walk.OWN_ENDINGS) or name in walk.CONFIG_NAMES | _GATE_FILES
    if is_known or _RECORDING.fullmatch(name):
        return True
    if any(row.is_evaluation_file(path) for row in formats.FORMATS.values()):
        return True
    if not walk.is_evaluation_name(f"{folder}/", name):
        return walk.holds_set(Path(folder), name)
    head = walk.read_head(Path(folder), name, size=walk.LARGEST_SOURCE_BYTES)
    return formats.kind_of(head.decode(errors="replace"), file=name) in formats.CASE_FILES


_GATE_FILES = {PurePosixPath(name).name for name in config_gate_file.NAMES}
_RECORDING = re.compile(r".*\.(evalset_result|session|recording)\.jsonl?")


def reader(root: Path, *, largest: int = walk.LARGEST_SOURCE_BYTES) -> agent_source.ReadText:
    """A function that reads files below the root. It does not follow links out of the root."""
    root = root.resolve()

    def read(path: str) -> str | None:
        if not os.path.isfile(root / path):  # noqa: PTH113 - most that an import may mean are missing
            return None
        content = walk.read_bytes(root, path, largest=largest)
        return None if isinstance(content, Problem) else content.decode("utf-8", "replace")

    return read


ENTRY_NAMES = frozenset({"root_agent", "get_agent_async"})
"""The names that ADK searches in an agent's module. ADK also searches `app`, which other frameworks
use too."""


def offers_agent(source: str) -> bool:
    """True if the module defines, assigns or imports `root_agent`, `get_agent_async`, or an ADK
    `app`.

    Source that evalgate's Python cannot parse is judged by its words."""
    if not any(name in source for name in (*ENTRY_NAMES, "google.adk", "import app", "as agent")):
        return False
    module = agent_source.parse(source)
    if module is None:
        return "root_agent" in source
    names = set(_bound_names(agent_source.walk_blocks(module, at_import=True)))
    imports = [
        (statement, alias)
        for statement in module.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    ]
    # `from .agent import app` is what ADK's own templates write in `__init__.py`
    is_app = "app" in names and (
        "google.adk" in source
        or any(
            (alias.asname or alias.name) == "app"
            for statement, alias in imports
            if (statement.module or "").split(".")[-1] == "agent"
        )
    )
    # `from . import weather as agent`: ADK takes the attribute
    is_alias = any(statement.level and alias.asname == "agent" for statement, alias in imports)
    return is_app or is_alias or not names.isdisjoint(ENTRY_NAMES)


def defines_agent(source: str) -> bool:
    """True if the module itself makes the agent that it offers, and does not import it as tests
    do."""
    module = agent_source.parse(source) if any(name in source for name in ENTRY_NAMES) else None
    statements = () if module is None else agent_source.walk_blocks(module, at_import=True)
    bindings = (node for node in statements if not isinstance(node, ast.Import | ast.ImportFrom))
    return not ENTRY_NAMES.isdisjoint(_bound_names(bindings))


def _bound_names(statements: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements bind."""
    for statement in statements:
        match statement:
            case ast.Assign(targets=targets):
                yield from (
                    node.id
                    for target in targets
                    for node in ast.walk(target)
                    if isinstance(node, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)


ReadSource = Callable[[str], str]
"""Reads a file of the repository by its POSIX path; "" if it cannot be read."""


class AgentFolders:
    """The folders that may hold an agent, by the names of their agent files. Each is read at most
    once."""

    def __init__(self, files: Mapping[str, frozenset[str]], read: ReadSource) -> None:
        self.files = files
        self._read = read
        self.holds_agent = functools.cache(self._find_agent)
        inner_folders = [folder for folder in files if folder != "."]
        self._by_name = grouped((folder.rpartition("/")[2], folder) for folder in inner_folders)
        self._children = grouped(
            (folder.rpartition("/")[0] or ".", folder) for folder in inner_folders
        )

    def _find_agent(self, folder: str) -> bool:
        """True if the folder has a root_agent.yaml, or an agent.py or __init__.py that offers an
        agent."""
        names = self.files.get(folder, ())
        paths = (name if folder == "." else f"{folder}/{name}" for name in sorted(names))
        return "root_agent.yaml" in names or any(offers_agent(self._read(path)) for path in paths)

    def with_name(self, name: str) -> list[str]:
        """The folders of this name that hold an agent."""
        return [folder for folder in self._by_name.get(name, ()) if self.holds_agent(folder)]

    def below(self, folder: str) -> list[str]:
        """The direct subfolders of `folder` that hold an agent."""
        return sorted(child for child in self._children.get(folder, ()) if self.holds_agent(child))

    @functools.cached_property
    def agents(self) -> list[str]:
        """All agents that do not lie in another agent's folder, so without sub-agents."""
        folders: list[str] = []
        for folder in sorted(self.files, key=_depth):
            is_inner = any(_is_within(folder, above) for above in folders)
            if not is_inner and self.holds_agent(folder):
                folders.append(folder)
        return sorted(folders)


@frozen_dataclass
class FoundAgents:
    """The folders that may be meant: that of the agent, several candidates, or none."""

    folders: tuple[str, ...] = ()
    found_by: str = ""
    """How the agent was found."""
    sought: str = ""
    """What the candidates are candidates for."""

    @property
    def folder(self) -> str:
        """The agent's folder; "" if there are several candidates, or none."""
        return self.folders[0] if len(self.folders) == 1 else ""


def find_agent(
    key: str, *, folders: AgentFolders, app_name: str = "", named_by: str = ""
) -> FoundAgents:
    """The agent of the evaluation file `key`: the one named `app_name` (set by case `named_by`),
    else the nearest: the first folder upward from the file that holds an agent, or whose direct
    subfolders do; else the only agent of the repository. Of several with the name, the shallowest
    one below the nearest folder upward from the file."""
    same_name_folders = folders.with_name(app_name)
    for parent in _ancestors(key):
        folders_within = [folder for folder in same_name_folders if _is_within(folder, parent)]
        if folders_within:
            depth = min(map(_depth, folders_within))
            return FoundAgents(
                folders=tuple(
                    sorted(folder for folder in folders_within if _depth(folder) == depth)
                ),
                found_by=f"session_input.app_name of case {named_by}",
                sought=f"a folder named {app_name!r} with an agent",
            )
    for parent in _ancestors(key):
        if folders.holds_agent(parent):
            return FoundAgents(folders=(parent,), found_by="nearest agent above the file")
        subfolders = tuple(folders.below(parent))
        if len(subfolders) == 1:
            deeper_count = sum(
                _is_within(folder, parent) and folder != subfolders[0] for folder in folders.agents
            )
            location = "the root" if parent == "." else f"{parent}/"
            note = f"; {words.counted(deeper_count, 'other')} deeper" if deeper_count else ""
            return FoundAgents(folders=subfolders, found_by=f"only agent in {location}{note}")
        if subfolders:
            return FoundAgents(folders=subfolders, sought="the nearest agent")
    only_agent = "only agent of the repository"
    return FoundAgents(
        folders=tuple(folders.agents), found_by=only_agent, sought=f"the {only_agent}"
    )


def evaluated_modules(source: str) -> Iterator[str]:
    """The agents' modules that a test passes to ADK's `AgentEvaluator` as a text, or as a name for
    a text."""
    module = agent_source.parse(source) if "AgentEvaluator" in source else None
    constants = {} if module is None else agent_source.constants_of(module)
    for node in () if module is None else ast.walk(module):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="AgentEvaluator")),
                args=args,
                keywords=keywords,
            ):
                arguments = [
                    keyword.value for keyword in keywords if keyword.arg == "agent_module"
                ] or args[:1]
                texts = (agent_source.text_of(argument, constants) for argument in arguments)
                yield from filter(None, texts)


_MANIFESTS = ("agents-cli-manifest.yaml", "pyproject.toml")
_AGENT_DIRECTORY = re.compile(r"""^agent_directory\s*[:=]\s*["']?([\w./-]+)""", re.MULTILINE)


def _find_by_manifest(
    key: str, folders: AgentFolders, tree: Tree, *, is_only: bool
) -> FoundAgents | None:
    """The folder that agents-cli runs: `agent_directory` of the nearest manifest that has it.
    `is_only`: no other agent was found, so its modules may offer the agent in any way."""
    for parent in PurePosixPath(key).parents:
        for file in (str(parent / name) for name in _MANIFESTS):
            if directory := _AGENT_DIRECTORY.search(tree.read_source(file)):
                folder = str(parent / directory[1])
                is_agent = folders.holds_agent(folder) or (is_only and folder in folders.files)
                found_by = f"agent_directory in {file}"
                return FoundAgents(folders=(folder,), found_by=found_by) if is_agent else None
    return None


_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
"""The files that pytest collects."""


def _find_by_test(key: str, candidates: Sequence[str], tree: Tree) -> FoundAgents | None:
    """The one candidate that tests name, because users run `AgentEvaluator` with pytest: tests of
    the nearest folder above the file, else all tests."""
    tests = tree.other_python
    folders = [
        [path for path in tests if (path.rpartition("/")[0] or ".") == above]
        for above in _ancestors(key)
    ]
    named_tests = [path for path in tests if _TEST_FILE.search(path)]
    for paths in (*folders, named_tests):
        tests_by_agent = {
            agent: path
            for path in paths
            for module in evaluated_modules(tree.read_source(path))
            for agent in _named_agents(module, candidates, tree)
        }
        if tests_by_agent:
            found_by = f"AgentEvaluator in {next(iter(tests_by_agent.values()))}"
            agent = FoundAgents(folders=tuple(tests_by_agent), found_by=found_by)
            return agent if agent.folder else None
    return None


def _named_agents(module: str, candidates: Sequence[str], tree: Tree) -> list[str]:
    """The one file that makes a module's agent, or the folders that match the most parts of the
    module's name, wherever it is imported from: `team.desk.agent` matches `src/team/desk`, not
    `src/team`."""
    end = f"/{module.replace('.', '/')}.py"
    files = [
        path
        for path in tree.other_python
        if f"/{path}".endswith(end) and defines_agent(tree.read_source(path))
    ]
    if len(files) == 1:
        return files
    names = module.split(".")
    for depth in range(len(names), 0, -1):
        folders = [folder for folder in candidates if folder.split("/")[-depth:] == names[:depth]]
        if folders:
            return folders
    return []


def _ancestors(key: str) -> Iterator[str]:
    """The folders above a file, the nearest first, `.` last."""
    return (str(folder) for folder in PurePosixPath(key).parents)


def _is_within(folder: str, above: str) -> bool:
    return above in (".", folder) or folder.startswith(f"{above}/")


def _depth(folder: str) -> int:
    return 0 if folder == "." else folder.count("/") + 1


UNKNOWN = AgentUse(
    driver=agents.DEFAULT,
    options={agents.DRIVERS[agents.DEFAULT].argument: "."},
    found_by="nothing found",
)
"""The agent of a suite without one. The error that is reported with it prevents its run."""


def title(use: AgentUse) -> str:
    """The driver and the name of an agent."""
    driver = agents.DRIVERS.get(use.driver)
    return f"{use.driver} {driver.label(use.options) if driver else ''}"


def label(use: AgentUse) -> str:
    """An agent in a few words: its driver, its name, and its origin."""
    return f"{title(use)} ({use.found_by})" if use.found_by else title(use)


CODES = frozenset(
    {"no-agent", "ambiguous-agent", "agent-aside", "app-name-unmatched", "mixed-app-names"}
)
"""Codes of all problems with finding an agent."""


def choose_agents(
    sets: Mapping[str, EvalSet], *, gate_file: GateFile, tree: Tree
) -> tuple[dict[str, AgentUse], list[Problem]]:
    """The agent by suite key, and problems, in the order of the keys. Nothing is imported.

    A matching rule of the gate file wins (the last one). A rule of the default driver without an
    agent only adds options."""
    agent_folders = functools.cache(lambda: AgentFolders(tree.agent_files, tree.read_source))
    other_files = functools.cache(
        lambda: [path for path in tree.other_python if defines_agent(tree.read_source(path))]
    )
    argument = agents.DRIVERS[agents.DEFAULT].argument
    uses: dict[str, AgentUse] = {}
    problems: list[Problem] = []
    keys_without_agent: list[str] = []
    for key in sorted(sets):
        rules = [
            (index, agent_rule)
            for index, agent_rule in enumerate(gate_file.agents)
            if config_places.matches(key, agent_rule.suites)
        ]
        index, rule = rules[-1] if rules else (-1, None)
        use = None if rule is None else agents.rule_use(rule)
        if use is not None and (use.driver != agents.DEFAULT or argument in use.options):
            uses[key] = AgentUse(
                driver=use.driver,
                options=use.options,
                found_by=f"evalgate.yml agents[{index}]",
            )
            continue
        app_name, case_id = _app_name(key, sets[key], problems)
        folders = agent_folders()
        agent = find_agent(key, folders=folders, app_name=app_name, named_by=case_id)
        if not agent.folders and len(other_files()) == 1:
            found_by = "only file that makes a root_agent"
            agent = FoundAgents(folders=tuple(other_files()), found_by=found_by)
        agent = _without_doubt(key, agent, folders=folders, tree=tree)
        problems.extend(_doubts(key, agent, app_name))
        uses[key] = UNKNOWN
        if agent.folder:
            options = {**(rule.options if rule else {}), argument: agent.folder}
            uses[key] = AgentUse(driver=agents.DEFAULT, options=options, found_by=agent.found_by)
        elif not agent.folders:
            keys_without_agent.append(key)
    if keys_without_agent:
        problems.append(_no_agent(keys_without_agent, other_files()))
    return uses, problems


def _without_doubt(
    key: str, agent: FoundAgents, *, folders: AgentFolders, tree: Tree
) -> FoundAgents:
    """The agent that the project's manifest names or the tests run, instead of a guess."""
    if agent.folder and not agent.found_by.startswith("only "):
        return agent  # not only because there is no other
    named_agent = _find_by_manifest(key, folders, tree, is_only=not agent.folders)
    if named_agent is None and agent.folders:
        parents = (".",) if agent.folder else agent.folders
        candidates = [
            folder
            for folder in folders.files
            if any(_is_within(folder, parent) for parent in parents) and folders.holds_agent(folder)
        ]
        named_agent = _find_by_test(key, candidates, tree)
    return named_agent or agent


def _doubts(key: str, agent: FoundAgents, app_name: str) -> Iterator[Problem]:
    """Problems with the agent that was found for a file."""
    if len(agent.folders) > 1:
        message = f"found {len(agent.folders)} candidates for {agent.sought}: "
        message += words.listed(agent.folders, limit=8)
        hint = _rule_example(key, path=agent.folders[0])
        yield errors.error("ambiguous-agent", message, Place(key), hint)
    if not agent.folder:
        return
    parts = agent.folder.split("/")
    examples_folders = (
        "/".join(parts[: index + 1])
        for index, name in enumerate(parts)
        if name.lower() in agent_source.EXAMPLE_FOLDERS
    )
    # a folder of examples or tests with the agent and without the evaluation file
    aside = (folder for folder in examples_folders if not key.startswith(f"{folder}/"))
    examples_folder = next(aside, "")
    if examples_folder and not agent.found_by.startswith("AgentEvaluator"):
        message = f"using the agent in `{agent.folder}` ({agent.found_by}), which lies in {examples_folder}/ and may not be meant"
        yield errors.warning(
            "agent-aside", message, Place(key), _rule_example(key, path=agent.folder)
        )
    if app_name and agent.folder != "." and agent.folder.rpartition("/")[2] != app_name:
        message = f"session_input.app_name is {app_name!r}, but no folder of that name has an agent; using "
        message += f"`{agent.folder}` ({agent.found_by})"
        yield errors.note("app-name-unmatched", message, Place(key))


def _no_agent(keys: Sequence[str], other_files: Sequence[str]) -> Problem:
    """The error for the files `keys`, which have no agent. `other_files`: files other than agent.py
    that make one."""
    is_several = len(keys) > 1
    files = (
        f" for {words.counted(len(keys), 'evaluation file')} ({words.listed(keys)})"
        if is_several
        else ""
    )
    message = f"no agent found{files}: no folder has an agent.py or __init__.py with `root_agent` or an ADK `app`, "
    message += "or a root_agent.yaml"
    message += f"; {words.listed(other_files, limit=8)} have a `root_agent`" if other_files else ""
    hint = _rule_example(
        "**" if is_several else keys[0], path=other_files[0] if other_files else "path/to/agent"
    )
    hint += "".join(f"\n          {line}" for line in OTHER_AGENTS)
    return errors.error("no-agent", message, Place(keys[0]), hint)


def _app_name(key: str, eval_set: EvalSet, problems: list[Problem]) -> tuple[str, str]:
    """The app in the file's sessions, and the first case with it. Several apps are a problem."""
    cases_by_app: dict[str, str] = {}
    for case in eval_set.cases:
        if case.session is not None and case.session.app_name:
            cases_by_app.setdefault(case.session.app_name, case.case_id)
    app_name, case_id = next(iter(cases_by_app.items()), ("", ""))
    if len(cases_by_app) > 1:
        message = f"the cases name {len(cases_by_app)} apps: {words.listed(cases_by_app)}; only the first ({app_name}) is "
        message += "used for the whole file"
        hint = "Split the file by agent, or set the agent in evalgate.yml."
        problems.append(errors.warning("mixed-app-names", message, Place(key), hint))
    return app_name, case_id


def _rule_example(glob: str, *, path: str) -> str:
    return (
        "Set it in evalgate.yml:\n"
        "      agents:\n"
        f'        - suites: ["{glob}"]\n'
        "          driver: adk\n"
        f"          path: {path}"
    )


OTHER_AGENTS = (
    "# or driver: python, call: package.module:function",
    "# or driver: command, command: ./agent",
    "# or driver: http, url: http://localhost:8000/ask",
)
"""Suggestions for a file that has no known agent."""

_RULE = re.compile(r"agents\[(\d+)\]$")


def files_below(root: Path, folder: str) -> Iterator[str]:
    """All files below a folder of the checkout `root`, relative to it, except those of installed
    packages."""
    for parent, folders, files in os.walk(root / folder):
        folders[:] = sorted(
            name for name in folders if name != ".git" and name not in walk.SKIPPED_FOLDERS
        )
        yield from (os.path.relpath(os.path.join(parent, name), root) for name in files)  # noqa: PTH118 - many


def missing_of(use: AgentUse, root: Path) -> tuple[str, str] | None:
    """The option of an agent that names a missing place of the checkout, and the message; None if
    nothing is missing."""
    options = {name: value for name, value in use.options.items() if isinstance(value, str)}
    return agents.DRIVERS[use.driver].missing(options, root)


def problems(uses: Iterable[AgentUse], *, root: Path, places: Locator | None) -> Iterator[Problem]:
    """Errors in the paths of agents that rules name, each agent once. `places`: of the rules in
    evalgate.yml."""
    origins = set()
    for use in uses:
        rule = _RULE.search(use.found_by)
        driver = agents.DRIVERS.get(use.driver)
        if rule is None or driver is None or use.found_by in origins:
            continue
        origins.add(use.found_by)
        missing = missing_of(use, root)
        if missing is not None:
            option, message = missing
            place = places("agents", int(rule[1]), option) if places else None
            yield errors.error("agent-missing", message, place)
