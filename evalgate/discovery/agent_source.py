"""Python source, parsed and never run: the imports among the modules of a checkout, and the agents
that modules make or ask.

Agents of frameworks other than ADK are objects at the top level of a module."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TypeAlias, TypeGuard

from evalgate import agents
from evalgate.agents.base import AgentDriver
from evalgate.model import AgentUse

MOST_FILES = 1000
MOST_PARSED = 100

_NAME = re.compile(r"[\w-]+")
"""A folder or file that may be a part of a module's name."""

Imports: TypeAlias = tuple[tuple[int, str], ...]
"""Level and dotted name of each import."""

ReadText = Callable[[str], str | None]
"""Reads a file by its POSIX path below the root; None if it is missing."""


class ImportGraph:
    """The imports among the files of a checkout. Each file is read at most once."""

    def __init__(self, read: ReadText) -> None:
        self.read = functools.cache(read)  # a module has many importers
        # trees are large
        self.parsed = functools.lru_cache(MOST_PARSED)(self._parse)
        self.imports = functools.cache(self._find_imports)
        self.modules = functools.cache(self._find_modules)

    def reached(self, files: Iterable[str]) -> list[str]:
        """These files, and all modules of the checkout that they import, at most MOST_FILES."""
        reached: dict[str, None] = {}
        queue = deque(files)
        while queue and len(reached) < MOST_FILES:
            file = queue.popleft()
            if file not in reached and self.read(file) is not None:
                reached[file] = None
                folder = str(PurePosixPath(file).parent)
                for level, name in self.imports(file):
                    queue += self.modules(folder, level, name)
        return list(reached)

    def packages(self, file: str) -> set[str]:
        """The top packages of a file's absolute imports."""
        return {name.partition(".")[0] for level, name in self.imports(file) if not level}

    def _parse(self, file: str) -> ast.Module | None:
        return parse(self.read(file) or "") if file.endswith(".py") else None

    def _find_imports(self, file: str) -> Imports:
        module = self.parsed(file)
        return () if module is None else imports_of(module)

    def _find_modules(self, folder: str, level: int, name: str) -> list[str]:
        """The files of the checkout that an import in a module of the folder may load."""
        names = name.split(".") if name else []
        folders = [folder, *map(str, PurePosixPath(folder).parents)]
        if level:
            return self.below(folders[level - 1], names) if level <= len(folders) else []
        for base in folders:
            for start in (base, _join(base, "src")):
                if files := self.below(start, names):
                    return files
        return []

    def below(self, base: str, names: Iterable[str]) -> list[str]:
        """The modules named by `names` below a folder, including the packages on the way. The last
        part may be a name in a module."""
        files = []
        path = base
        for name in names:
            path = _join(path, name)
            places = (f"{path}.py", f"{path}/__init__.py")
            files += [file for file in places if self.read(file) is not None]
        return files


def _join(folder: str, name: str) -> str:
    return name if folder in ("", ".") else f"{folder}/{name}"


# --- one module -----------------------------------------------------------------------------------


def parse(text: str) -> ast.Module | None:
    """The syntax tree of a module; None if evalgate's Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imports_of(module: ast.Module) -> Imports:
    """Level and dotted name of each import of a module, and of each name that it imports."""
    imports: dict[tuple[int, str], None] = {}
    for node in walk_blocks(module):
        imports |= {(level, name): None for _, level, name in imported_names(node)}
        if isinstance(node, ast.ImportFrom):
            imports[node.level, node.module or ""] = None
    return tuple(imports)


def imported_names(node: ast.AST) -> Iterator[tuple[ast.alias, int, str]]:
    """The names that an import statement binds, each with its level and dotted name."""
    level, module = (node.level, node.module or "") if isinstance(node, ast.ImportFrom) else (0, "")
    for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
        yield alias, level, f"{module}.{alias.name}".strip(".*")


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def walk_blocks(module: ast.Module, *, at_import: bool = False) -> Iterator[ast.AST]:
    """All statements of a module; `at_import`: without those in functions and classes. Expressions,
    most of the nodes, contain none."""
    pending: deque[ast.AST] = deque([module])
    while pending:
        node = pending.popleft()
        yield node
        if not (at_import and isinstance(node, (*FUNCTIONS, ast.ClassDef))):
            for name in ("body", "handlers", "cases", "orelse", "finalbody"):
                pending += getattr(node, name, ())


def constants_of(module: ast.Module) -> dict[str, str]:
    """The names that a module's top level sets to texts, with their texts."""
    texts = ((name, text_of(value)) for name, value in pairs_at_top(module))
    return {name: text for name, text in texts if name and text is not None}


def text_of(node: ast.AST | None, constants: Mapping[str, str] = {}) -> str | None:
    """The text of an expression, which may be the name of a constant; None if it is no text."""
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def pairs_at_top(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that a module's top level sets, with their values."""
    return itertools.chain.from_iterable(map(pairs, module.body))


def pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names with their values: in assignments, dictionaries and keyword arguments."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((getattr(target, "id", ""), value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield getattr(target, "id", ""), value
        case ast.Dict(keys=keys, values=values):
            yield from (
                (text_of(key) or "", value) for key, value in zip(keys, values, strict=True)
            )
        case ast.keyword(arg=str(name), value=value):
            yield name, value


def children(node: ast.AST) -> Iterable[ast.AST]:
    """The nodes right below a node, without code that runs only in a script."""
    return node.orelse if _is_guard(node) else ast.iter_child_nodes(node)


def _is_guard(node: ast.AST) -> TypeGuard[ast.If]:
    """True for `if __name__ == "__main__"`."""
    return isinstance(node, ast.If) and "__name__" in map(name_of, leaves(node.test))


def leaves(value: ast.expr) -> Iterator[ast.Name | ast.Constant]:
    """The names and constants of an expression, without those in calls within it."""
    pending: list[ast.AST] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name | ast.Constant):
            yield node
        elif not isinstance(node, ast.Call | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def name_of(node: ast.AST | None) -> str:
    """The last part of a dotted name; "" for any other node."""
    return str(getattr(node, "id", getattr(node, "attr", "")))


# --- agents of other frameworks ------------------------------------------------------------------


_TESTS = ("test_", "conftest")
EXAMPLE_FOLDERS = frozenset({
    "benchmark", "benchmarks", "demo", "demos", "eval", "evals", "evaluation", "evaluations", "example", "examples",
    "sample", "samples", "test", "tests",
})  # fmt: skip
"""Folders whose agents are rarely the main agent of a repository."""


def find_frameworks(files: Iterable[str], graph: ImportGraph) -> Iterator[AgentUse]:
    """The agents that modules of these files make, by their driver and options.

    Left out: tests; agents that another agent calls or that guard it; agents of examples, if there
    are others."""
    uses: dict[str, list[AgentUse]] = {}
    helper_calls: set[str] = set()
    for file, module in _parsed(files, graph, _framework_names()):
        uses[file] = list(_made_in(file, module, graph))
        helper_calls |= _agents_of_others(module, uses[file])
    main_files = [file for file in uses if uses[file] and not is_example(file)]
    yield from (
        use
        for file in main_files or uses
        for use in uses[file]
        if not any(
            f".{use.options['call']}".endswith(f".{helper_call}") for helper_call in helper_calls
        )
    )


def is_example(place: str) -> bool:
    """True if a file, a folder or a module lies among examples or tests."""
    return not EXAMPLE_FOLDERS.isdisjoint(re.split(r"[/.:]", place.lower()))


def _made_in(file: str, module: ast.Module, graph: ImportGraph) -> Iterator[AgentUse]:
    for driver in _drivers_of(file, graph):
        made_agents = _named(module, driver.makers)
        helpers = _helpers(module, made_agents)
        root_names = [
            name for name in made_agents if name not in helpers and "guardrail" not in name.lower()
        ]
        root_names = root_names or [*_factories(module, driver.makers)]
        root_names = root_names or [*_named(module, driver.parts)]
        if root_names and any(map(_runs_at_import, module.body)):
            root_names = [PROGRAM]
        for name in root_names:
            found_by = FIRST_ASKED if name == PROGRAM else ""
            yield _use_of(file, name, graph, driver=driver.name, found_by=found_by)


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
        is_module = name.endswith(".py") and _NAME.fullmatch(name.removesuffix(".py"))
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
    return is_main or _is_guard(statement) or _runs_at_import(statement)


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
    start = next((folder for folder in folders if not _NAME.fullmatch(folder.name)), base)
    return str(start), ".".join(path.relative_to(start).parts)
