"""The agents of a repository that have no case yet, found in its source, and the file of its first
case.

Nothing is imported or run. Agents of frameworks other than ADK are objects at the top level of a
module."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeAlias

from evalgate import agents
from evalgate.agents.base import AgentDriver
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError
from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    CriteriaSource,
    EvalSet,
    SessionInput,
    Suite,
)
from evalgate.system import python_needs
from evalgate.values import Json
from . import agents as discovery_agents
from .agent_source import (
    EXAMPLE_FOLDERS,
    FUNCTIONS,
    ImportGraph,
    children,
    is_guard,
    name_of,
    pairs,
    pairs_at_top,
)
from .agents import AgentFolders
from .walk import Tree

QUESTION = "What can you do?"
FOLDER = "evals"
NAME = "first"
FILE = f"{NAME}.evalset.json"

_MODULE = re.compile(r"[\w-]+")
"""A folder or file that may be a part of a module's name."""


def folder_of(settings: Settings) -> str:
    """The folder of the first case: in the folder that the user named, else at the root."""
    parent = settings.paths[0].strip("/") if settings.paths else "."
    return (PurePosixPath(parent) / FOLDER).as_posix()


def suite_of(use: AgentUse, settings: Settings, state: Json | None = None) -> Suite:
    """A suite with one case without turns, with this state of its session."""
    case = Case(case_id=NAME, conversation=(), session=SessionInput(state=state) if state else None)
    return Suite(
        key=f"{folder_of(settings)}/{FILE}",
        eval_set=EvalSet(eval_set_id=NAME, cases=(case,)),
        criteria=(),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=agents.with_defaults(use, settings),
    )


def find_agents(settings: Settings) -> list[AgentUse]:
    """The agents for a first case, the likeliest first: the one that a run would use; else agents
    of ADK, agents of other frameworks, programs that ask one, and functions that answer, or else
    programs that talk at the terminal. Those whose framework is not among their requirements come
    later, those below examples and tests last. Raises ConfigError if there is none."""
    tree = Tree(settings.root, exclude=settings.gate_file.exclude)
    suite = suite_of(discovery_agents.UNKNOWN, settings)
    uses_by_key, _ = discovery_agents.choose_agents(
        {suite.key: suite.eval_set}, gate_file=settings.gate_file, tree=tree
    )
    use = uses_by_key[suite.key]
    if use.found_by.startswith("evalgate.yml"):
        return [use]
    uses = [] if use == discovery_agents.UNKNOWN else [use]
    folders = AgentFolders(tree.agent_files, tree.read_source)
    found_agents = discovery_agents.find_agent(suite.key, folders=folders)
    if not uses and not found_agents.folder:
        uses += [
            AgentUse(driver=agents.DEFAULT, options={"path": path}, found_by="one of several")
            for path in found_agents.folders
        ]
    files = list(discovery_agents.code_files(settings.root))
    graph = ImportGraph(discovery_agents.reader(settings.root))
    # a module makes its main agent last, and the main module imports those of programs
    made_uses = [*find_frameworks(files, graph)][::-1]
    uses += sorted(made_uses, key=lambda use: -_import_count(use, made_uses, graph))
    uses = [use for use in uses if _is_below(use, settings)]
    functions = [] if uses else find_functions(files, graph)
    known_options = [use.options for use in uses]
    programs = [*find_programs(files, graph), *functions]
    if not (uses or programs):
        programs = [*find_conversations(files, graph)]
    # a maker may lack what a program gives it
    uses[LIKELIEST:LIKELIEST] = [
        use for use in programs if use.options not in known_options and _is_below(use, settings)
    ]
    if not uses:
        hint = "Name it: --agent adk:FOLDER, --agent python:MODULE:FUNCTION, or another driver (docs/agents)."
        raise ConfigError("no agent was found", hint=hint)
    return sorted(
        uses,
        key=lambda use: (
            is_example(place_of(use)),
            not _is_declared(use, settings),
        ),
    )


LIKELIEST = 3
"""The number of agents before the first program."""


MOST_RANKED = 20
"""The number of modules with agents up to which their imports decide the order."""


def _import_count(use: AgentUse, other_uses: Sequence[AgentUse], graph: ImportGraph) -> int:
    """The number of other agents' modules that an agent's module imports."""
    places = {place_of(other_use) for other_use in other_uses} - {place_of(use)}
    if not places or len(places) > MOST_RANKED:
        return 0
    reached = graph.reached([f"{place_of(use)}.py"])
    return len(places & {file.removesuffix(".py") for file in reached})


def _is_declared(use: AgentUse, settings: Settings) -> bool:
    """True if the agent's requirements name its framework, or are unknown."""
    driver = agents.DRIVERS[use.driver]
    needs = python_needs.nearest_needs(settings.root / place_of(use), settings.root)
    text = "" if needs is None else needs.text.lower().replace("_", "-")
    names = {driver.name, *driver.modules}
    return not text or any(name.replace("_", "-") in text for name in names)


def _is_below(use: AgentUse, settings: Settings) -> bool:
    """True if an agent lies below a path that the user named."""
    file = (settings.root / place_of(use)).resolve()
    places = [(settings.root / path).resolve() for path in settings.paths]
    return not places or any(file.is_relative_to(place) for place in places)


# --- agents that modules make or ask --------------------------------------------------------------


_TESTS = ("test_", "conftest")


def find_frameworks(files: Iterable[str], graph: ImportGraph) -> Iterator[AgentUse]:
    """The agents that modules of these files make, by their driver and options.

    Left out: tests; agents that another agent calls or that guard it; agents of examples, if there
    are others."""
    uses: list[AgentUse] = []
    helper_calls: set[str] = set()
    for file, module in _parsed(files, graph, _framework_names()):
        uses_of_module = list(_made_in(file, module, graph))
        uses += uses_of_module
        helper_calls |= _agents_of_others(module, uses_of_module)
    helper_ends = tuple(f".{call}" for call in helper_calls)
    main_uses = [use for use in uses if not is_example(place_of(use))]
    for use in main_uses or uses:
        if not f".{use.options['call']}".endswith(helper_ends):
            yield use


def is_example(place: str) -> bool:
    """True if a file, a folder or a module lies among examples or tests."""
    return not EXAMPLE_FOLDERS.isdisjoint(re.split(r"[/.:]", place.lower()))


def place_of(use: AgentUse) -> str:
    """The path of an agent's folder or module, below the root."""
    path = str(use.options.get("path", "."))
    module = str(use.options.get("call", "")).partition(":")[0]
    return os.path.normpath(str(PurePosixPath(path, *module.split("."))))


def _made_in(file: str, module: ast.Module, graph: ImportGraph) -> Iterator[AgentUse]:
    for driver in _drivers_of(file, graph):
        made_agents = _named(module, driver.makers)
        helpers = _helpers(module, made_agents)
        root_names = (
            [
                name
                for name in made_agents
                if name not in helpers and "guardrail" not in name.lower()
            ]
            or [*_factories(module, driver.makers)]
            or [*_named(module, driver.parts)]
        )
        if root_names and any(map(_runs_at_import, module.body)):
            yield _use_of(file, PROGRAM, graph, driver=driver.name, found_by=FIRST_ASKED)
        else:
            yield from (_use_of(file, name, graph, driver=driver.name) for name in root_names)


def _drivers_of(file: str, graph: ImportGraph) -> list[AgentDriver]:
    """The drivers of the frameworks that a module imports."""
    packages = graph.packages(file)
    return [row for row in agents.DRIVERS.values() if not packages.isdisjoint(row.modules)]


def _use_of(
    file: str, name: str, graph: ImportGraph, *, driver: str, found_by: str = ""
) -> AgentUse:
    """The agent with this name in a file."""
    folder, dotted = _importable(file, graph)
    path = {} if folder == "." else {"path": folder}
    options = {"call": f"{dotted}:{name}", **path}
    return AgentUse(driver=driver, options=options, found_by=found_by)


def _named(module: ast.Module, makers: Collection[str]) -> dict[str, ast.expr]:
    """The names at a module's top level for what a maker makes, with its calls."""
    return {name: value for name, value in pairs_at_top(module) if name and _makes(value, makers)}


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_BUILT_BY_NOBODY = frozenset({
    "Any", "Callable", "Dict", "Iterable", "List", "Literal", "Mapping", "Optional", "Path", "Sequence", "Tuple", "Type",
    "Union",
})  # fmt: skip
"""Capitalized annotations that are no classes with a constructor of their own."""


def _needs_nothing(function: Function, *, after: int = 0) -> bool:
    """True if all parameters after the first `after` have defaults, or a class that may be made
    without arguments."""
    names = [name_of(parameter.annotation) for parameter in _required(function)[after:]]
    return all(name[:1].isupper() and name not in _BUILT_BY_NOBODY for name in names)


def _functions_of(owner: ast.ClassDef) -> dict[str, Function]:
    """The methods of a class by name."""
    return {node.name: node for node in owner.body if isinstance(node, FUNCTIONS)}


def _required(function: Function) -> list[ast.arg]:
    """The parameters without a default."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [
        *positional[: len(positional) - len(arguments.defaults)],
        *(argument for argument, default in by_name if default is None),
    ]


_ANSWERING = re.compile(
    r"(answer|ask|chat|respond|reply|query|handle|process|agent|run|invoke)(_\w*)?|"
    r"\w*_(answer|response|reply)"
)
_ANSWERING_FUNCTION = re.compile(rf"\bdef\s+({_ANSWERING.pattern})\b")


def find_functions(files: Iterable[str], graph: ImportGraph) -> Iterator[AgentUse]:
    """The functions and methods with one text parameter and a name for answering, such as `answer`,
    `run_agent`, `Desk.chat`. Tests are left out."""
    for file, module in _parsed(files, graph, _ANSWERING_FUNCTION):
        names: list[str] = []
        for statement in module.body:
            if isinstance(statement, FUNCTIONS) and _answers(statement):
                names.append(statement.name)
            elif isinstance(statement, ast.ClassDef):
                names += (f"{statement.name}.{name}" for name in _methods(statement))
        for name in names:
            yield _use_of(file, name, graph, driver=agents.OF_FUNCTIONS)


def _answers(function: Function, *, after: int = 0, texts: int = 1) -> bool:
    """True if a function has a name for answering, and requires so many texts after the first
    `after` parameters."""
    kinds = [name_of(parameter.annotation) for parameter in _required(function)[after:]]
    has_name = not function.name.startswith("_") and _ANSWERING.fullmatch(function.name) is not None
    return has_name and len(kinds) == texts and {*kinds} <= {"", "str"}


_TEXT = re.compile(
    r"(user_)?(goal|idea|input|message|prompt|query|question|request|subject|task|text|topic)"
)


def _methods(owner: ast.ClassDef) -> Iterator[str]:
    """The answering methods of a class without constructor arguments; those that need nothing, if
    an object is made of a text."""
    by_name = {
        name: function
        for name, function in _functions_of(owner).items()
        if not function.decorator_list
    }
    made_of = _required(by_name["__init__"])[1:] if "__init__" in by_name else []
    if owner.bases or len(made_of) > 1 or not all(_TEXT.fullmatch(part.arg) for part in made_of):
        return
    texts = 1 - len(made_of)
    yield from (name for name, method in by_name.items() if _answers(method, after=1, texts=texts))


def _makes(value: ast.AST | None, makers: Collection[str]) -> bool:
    """True if an expression calls a maker, also as `Agent[Context](...)`."""
    function = value.func if isinstance(value, ast.Call) else None
    if name_of(getattr(function, "value", None)) == "re":  # `re.compile` is not a maker
        return False
    return name_of(function.value if isinstance(function, ast.Subscript) else function) in makers


def _factories(module: ast.Module, makers: Collection[str]) -> Iterator[str]:
    """The public functions and classes of a module that make an agent without arguments: they
    return it, or a function that returns it; a class may keep it as an attribute."""
    functions = [node for node in ast.walk(module) if isinstance(node, FUNCTIONS)]
    known_makers: set[str] = set()
    new_makers = set(makers)
    while new_makers:  # a function may return what another one makes
        known_makers |= new_makers
        new_makers = {node.name for node in functions if _returns_agent(node, known_makers)}
        new_makers -= known_makers
    called_names = {
        name_of(call.func)
        for function in functions
        if function.name in known_makers
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
    }
    for statement in module.body:
        if isinstance(statement, FUNCTIONS) and statement.name in known_makers - called_names:
            if _needs_nothing(statement) and not statement.name.startswith("_"):
                yield statement.name
        elif not isinstance(statement, ast.ClassDef):
            continue
        elif any(name_of(mark) in makers for mark in statement.decorator_list):  # as `@CrewBase`
            yield statement.name
        elif _is_made_alone(statement):
            yield from (
                f"{statement.name}.{name}" for name in _agents_of_class(statement, known_makers)
            )


def _returns_agent(function: Function, makers: Collection[str]) -> bool:
    """True if a function returns the result of a maker: alone, in a tuple, or given to a class."""
    made_names = {
        name for node in ast.walk(function) for name, value in pairs(node) if _makes(value, makers)
    }

    def is_agent(value: ast.expr | None) -> bool:
        return _makes(value, makers) or (isinstance(value, ast.Name) and value.id in made_names)

    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.Tuple(elts=parts)) if any(map(is_agent, parts)):
                return True
            case ast.Return(value=ast.Call(func=func, args=args, keywords=keywords)) if name_of(
                func
            )[:1].isupper() and any(
                map(is_agent, [*args, *(keyword.value for keyword in keywords)])
            ):
                return True
            case ast.Return(value=value) if is_agent(value):
                return True
    return name_of(function.returns) in makers


def _is_made_alone(owner: ast.ClassDef) -> bool:
    """True for a public class whose objects are made without arguments."""
    init = _functions_of(owner).get("__init__")
    is_abstract = any(name_of(node) == "abstractmethod" for node in ast.walk(owner))
    is_made = not owner.bases if init is None else _needs_nothing(init, after=1)
    return is_made and not is_abstract and not owner.name.startswith("_")


def _agents_of_class(owner: ast.ClassDef, makers: Collection[str]) -> Iterator[str]:
    """The attributes that keep an agent; else the public methods that make one."""
    attributes = [
        target.attr
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign | ast.AnnAssign) and _makes(node.value, makers)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and name_of(target.value) == "self"
    ]
    methods = [
        name
        for name, method in _functions_of(owner).items()
        if _returns_agent(method, makers)
        and not (len(_required(method)) > 1 or name.startswith("_"))
    ]
    yield from dict.fromkeys(attributes or methods)


PROGRAM = "__main__"
"""The name of an agent that only a program has."""

MOST_PROGRAMS = 20
"""The number of programs whose imports are followed."""

FIRST_ASKED = "the agent that this program asks first"

SERVERS = frozenset({"chainlit", "fastapi", "flask", "gradio", "streamlit", "uvicorn"})
"""Packages whose programs serve, and do not ask an agent themselves."""


def find_programs(files: Collection[str], graph: ImportGraph) -> Iterator[AgentUse]:
    """The programs that make an agent of a framework, or import a module that does, those near the
    root first. Tests are left out."""
    drivers_by_file: dict[str, str] = {}
    for file, module in _parsed(files, graph, _framework_names()):
        for driver in _drivers_of(file, graph):
            if any(_makes(node, driver.makers) for node in ast.walk(module)):
                drivers_by_file[file] = driver.name
    for file in _programs(files if drivers_by_file else (), graph, _RUNNING):
        places = [place for place in graph.reached([file]) if place in drivers_by_file]
        if places:
            name = drivers_by_file[places[0]]
            yield _use_of(file, PROGRAM, graph, driver=name, found_by=FIRST_ASKED)


def find_conversations(files: Iterable[str], graph: ImportGraph) -> Iterator[AgentUse]:
    """The programs without a framework that take a text at the terminal, and call a model."""
    for file in _programs(files, graph, _TERMINAL):
        if any(graph.packages(place) & CLIENTS for place in graph.reached([file])):
            found_by = "a program at the terminal"
            yield _use_of(file, PROGRAM, graph, driver=agents.OF_FUNCTIONS, found_by=found_by)


CLIENTS = frozenset({
    "anthropic", "cohere", "google", "groq", "huggingface_hub", "litellm", "mistralai", "ollama", "openai", "together",
})  # fmt: skip
"""Packages that call models."""

_TERMINAL = re.compile(r"\binput\(|\bparse_args\(|\bargv\[1|\b(click|typer)\b")


def _programs(files: Iterable[str], graph: ImportGraph, words: re.Pattern[str]) -> Iterator[str]:
    """The first programs among these files that contain one of the words, nearest the root."""
    nearest_first = sorted(files, key=lambda file: (file.count("/"), not file.endswith("main.py")))
    programs = (
        file
        for file, module in _parsed(nearest_first, graph, words)
        if any(map(_runs, module.body)) and graph.packages(file).isdisjoint(SERVERS)
    )
    return itertools.islice(programs, MOST_PROGRAMS)


def _parsed(
    files: Iterable[str], graph: ImportGraph, words: re.Pattern[str]
) -> Iterator[tuple[str, ast.Module]]:
    """The modules among these files that contain one of the words, without tests. A file such as
    `my agent.py` is no module: nothing can import it."""
    for file in files:
        name = PurePosixPath(file).name
        is_test = name.startswith(_TESTS) or "tests/" in file
        is_module = name.endswith(".py") and _MODULE.fullmatch(name.removesuffix(".py"))
        text = graph.read(file) or "" if is_module and not is_test else ""
        if words.search(text) and (module := graph.parsed(file)) is not None:
            yield file, module


def _framework_names() -> re.Pattern[str]:
    names = {name for driver in agents.DRIVERS.values() for name in driver.modules}
    return re.compile("|".join(map(re.escape, sorted(names))))


def _runs_at_import(statement: ast.stmt) -> bool:
    """True for code outside functions that asks for input or runs an event loop: it also runs if
    its module is imported."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        function = node.func if isinstance(node, ast.Call) else None
        if (name_of(getattr(function, "value", None)), name_of(function)) in _RUNNING_CALLS:
            return True
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            pending += children(node)
    return False


_RUNNING_CALLS = (("asyncio", "run"), ("loop", "run_until_complete"), ("", "input"))
_RUNNING = re.compile(rf"{PROGRAM}|\b(run|main|run_until_complete|input)\(")


def _runs(statement: ast.stmt) -> bool:
    """True for a statement that runs a program: under `if __name__ == "__main__"`, or a call."""
    called = getattr(statement.value, "func", None) if isinstance(statement, ast.Expr) else None
    is_main = name_of(called) in ("run", "main", "run_until_complete")
    return is_main or is_guard(statement) or _runs_at_import(statement)


def _helpers(module: ast.Module, made_agents: Mapping[str, ast.expr]) -> set[str]:
    """The agents that other agents of the module name, or that their tools and guards call."""
    helper_names = {
        helper
        for name, value in made_agents.items()
        for helper in _names_in(value)
        if helper != name
    }
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr="handoffs")], value=value):
                helper_names |= _names_in(value)
            case ast.Assign(value=ast.Call(func=func, keywords=keywords)) if (
                name_of(func) == "Task"
            ):
                helper_names |= {
                    name_of(keyword.value) for keyword in keywords if keyword.arg == "agent"
                }
        if isinstance(statement, FUNCTIONS):
            marks = {
                name_of(leaf) for mark in statement.decorator_list for leaf in ast.walk(mark)
            } - {""}
            if any(mark in made_agents or re.search("tool|guardrail", mark) for mark in marks):
                helper_names |= _names_in(statement) - marks
    return helper_names & made_agents.keys()


def _names_in(node: ast.AST) -> set[str]:
    """The names in a part of a module."""
    return {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name)}


def _agents_of_others(module: ast.Module, uses: Iterable[AgentUse]) -> set[str]:
    """The imported names in a module's agents, as `module:name`."""
    own_names = {str(use.options["call"]).partition(":")[2] for use in uses}
    made_values = (value for name, value in pairs_at_top(module) if name in own_names)
    used_names = set().union(*map(_names_in, made_values))
    return {
        f"{statement.module.rpartition('.')[2]}:{alias.name}"
        for statement in module.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
        if (alias.asname or alias.name) in used_names
    }


def _importable(file: str, graph: ImportGraph) -> tuple[str, str]:
    """The folder from which to import a module, and its name there: the nearest one in which its
    imports are found, or that of a project, else the root or `src`; for a module in a folder that
    is named like an installed package, its own."""
    path = PurePosixPath(file.removesuffix("/__init__.py").removesuffix(".py"))
    folder = path.parent
    imports = graph.imports(file)
    paths = [name.split(".") for level, name in imports if not level]
    for base in (folder, *folder.parents):
        if graph.read(str(base / "__init__.py")) is None and any(
            graph.below(str(base), names)
            for names in paths
            if base != folder or names[0] != path.name
        ):
            return _named_from(base, path)
        if base.name and graph.read(str(base / "pyproject.toml")) is not None:
            start = base / "src" if path.is_relative_to(base / "src") else base
            return _named_from(start, path)
    # `from smolagents import Agent` in a folder smolagents/ is of the installed package
    is_shadowed = path.parts[0] in graph.packages(file)
    if is_shadowed and graph.read(str(folder / "__init__.py")) is None:
        return str(folder), path.name
    # `from ..words import` needs two folders to be packages
    level = max((level for level, _ in imports), default=0)
    is_below_src = path.parts[0] == "src" and len(path.parts) > level + 1
    return _named_from(PurePosixPath("src" if is_below_src else "."), path)


def _named_from(base: PurePosixPath, path: PurePosixPath) -> tuple[str, str]:
    """The folder from which to import a module below `base`, and its name there: `base` itself, or
    the last folder that no name of a module can contain, such as `my app` or `v1.0`."""
    folders = (folder for folder in path.parents if folder.is_relative_to(base))
    start = next((folder for folder in folders if not _MODULE.fullmatch(folder.name)), base)
    return str(start), ".".join(path.relative_to(start).parts)
