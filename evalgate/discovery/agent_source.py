"""Facts in an agent's source: variables that it reads, models that it names, keys in its `.env`.

Nothing is imported or run. Import statements are followed from the agent's own modules, within the
checkout. Agents of frameworks other than ADK are objects at the top level of a module."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeAlias, TypeGuard

from evalgate import agents
from evalgate.agents.base import AgentDriver
from evalgate.judges import models
from evalgate.judges.clients import GOOGLE_KEYS, TRUE_WORDS
from evalgate.judges.models import ENDPOINTS
from evalgate.model import AgentUse
from evalgate.system import redact
from . import dotenv

MOST_FILES = 1000
MOST_PARSED = 100
EXAMPLES = (
    *(
        f"{dot}env{separator}{word}"
        for word in ("example", "sample", "template")
        for dot in (".", "")
        for separator in ".-_"
    ),
    "example.env",
)
"""Names of files that list an agent's variables: `.env.example`, `env-sample`."""

VERTEX = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
"""Variables that google-genai needs for Vertex AI, besides credentials."""

_NAME = re.compile(r"[\w-]+")
"""A folder or file that may be a part of a module's name."""
_GEMINI = re.compile(r"gemini-\d[\w.-]*")
_YAML_MODEL = re.compile(r"^\s*(?:-\s*)?model:\s*['\"]?([\w./:-]+)", re.MULTILINE)
_CATCH_ALL = frozenset({"KeyError", "LookupError", "Exception", "BaseException"})
_OTHER_PREFIXES = {
    "google-gla": "gemini", "google_genai": "gemini", "google": "gemini",
    "google-vertex": "vertex_ai", "google_vertexai": "vertex_ai",
}  # fmt: skip
"""Providers as Pydantic AI and LangChain write them, with LiteLLM's names."""


def keys_of(model: str) -> tuple[str, ...]:
    """The variables that may hold the key of a model; empty if it needs no key."""
    model_name = models.parse_name(model)
    if model_name.client == "gemini":
        return () if model_name.vertex else GOOGLE_KEYS
    endpoint = ENDPOINTS.get(model_name.provider)
    return () if endpoint is None or "localhost" in endpoint.base_url else (endpoint.key,)


def is_google(model: str) -> bool:
    """True if google-genai calls the model, with a key or through Vertex AI."""
    return models.parse_name(model).client == "gemini"


@dataclass(slots=True, kw_only=True)
class AgentSource:
    """Facts in all modules of an agent.

    `needs`: variables that they read without a default. `sets`: variables that they set, with their
    texts, "" for any other value. `models`: names of models, as judges write them. `has_own_key`: a
    model gets its key from the source. `logs_in`: the source requests credentials of Google Cloud.
    `values`: those of its `.env`; `samples`: those of its `.env.example`."""

    needs: set[str] = field(default_factory=set)
    sets: dict[str, str] = field(default_factory=dict)
    models: set[str] = field(default_factory=set)
    has_own_key: bool = False
    logs_in: bool = False
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    samples: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def uses_vertex(self) -> bool:
        """True if google-genai uses Vertex AI, according to the `.env` or else the source; or
        according to the example."""
        flags = (
            self.values.get(VERTEX[0]) or self.sets.get(VERTEX[0], ""),
            self.samples.get(VERTEX[0], ""),
        )
        return any(flag.strip().lower() in TRUE_WORDS for flag in flags)


Imports: TypeAlias = tuple[tuple[int, str], ...]
"""Level and dotted name of each import."""

ReadText = Callable[[str], str | None]
"""Reads a file by its POSIX path below the root; None if it is missing."""


def of_agent(use: AgentUse, read: ReadText) -> AgentSource:
    """Read the source of an agent; empty if it is not Python code in the checkout."""
    graph = ImportGraph(read)
    files = _start_of(use, graph.read)
    if not files:
        return AgentSource()
    folder = str(PurePosixPath(files[0]).parent)
    source = AgentSource(
        values=_nearest((dotenv.NAME,), folder, graph.read),
        samples=_nearest(EXAMPLES, folder, graph.read),
    )
    for file in graph.reached(files):
        module = graph.parsed(file)
        if module is not None:
            _ModuleReader(module, source).read()
        elif not file.endswith(".py"):  # an agent's YAML
            names = _YAML_MODEL.findall(graph.read(file) or "")
            source.models |= set(map(_model_name, names)) - {""}
    return source


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
            return _in(folders[level - 1], names, self.read) if level <= len(folders) else []
        for base in folders:
            for start in (base, _join(base, "src")):
                if files := _in(start, names, self.read):
                    return files
        return []


def _start_of(use: AgentUse, read: ReadText) -> list[str]:
    """The modules that are imported first: the agent's own before its packages."""
    path = str(use.options.get("path", ".")).strip("/")
    if "call" in use.options:
        module = str(use.options["call"]).partition(":")[0]
        return [file for base in (path, ".", "src") for file in _in(base, module.split("."), read)][
            ::-1
        ]
    if "path" not in use.options:
        return []
    if path.endswith(".py"):
        return [path]
    names = ("__init__.py", "agent.py", "root_agent.yaml", "agent/__init__.py")
    files = (_join(path or ".", name) for name in names)
    return [file for file in files if read(file) is not None]


def _in(base: str, names: Iterable[str], read: ReadText) -> list[str]:
    """The modules named by `names` below a folder, including the packages on the way. The last part
    may be a name in a module."""
    files = []
    path = base
    for name in names:
        path = _join(path, name)
        files += [file for file in (f"{path}.py", f"{path}/__init__.py") if read(file) is not None]
    return files


def _join(folder: str, name: str) -> str:
    return name if folder in ("", ".") else f"{folder}/{name}"


def _nearest(names: Iterable[str], folder: str, read: ReadText) -> dict[str, str]:
    """The variables of the first of these files, from a folder up to the root."""
    places = (PurePosixPath(folder), *PurePosixPath(folder).parents)
    for path in (_join(str(place), name) for place in places for name in names):
        text = read(path)
        if text is not None:
            return dotenv.parse(text)
    return {}


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
        imports |= {(level, name): None for _, level, name in _imported_names(node)}
        if isinstance(node, ast.ImportFrom):
            imports[node.level, node.module or ""] = None
    return tuple(imports)


def _imported_names(node: ast.AST) -> Iterator[tuple[ast.alias, int, str]]:
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


_Pending: TypeAlias = tuple[ast.AST, bool]
"""A node, and True if its variables are optional: a missing variable is caught, or has a
substitute."""


_ENVIRON = "os.environ"


class _ModuleReader:
    """Walks a module with its own stack, because source may be nested more deeply than Python can
    recurse."""

    def __init__(self, module: ast.Module, source: AgentSource) -> None:
        self._module = module
        self._source = source
        self._aliases: dict[str, str] = {}
        self._constants = constants_of(module)
        self._needs: set[str] = set()
        self._tested: set[str] = set()

    def read(self) -> None:
        """Add the facts of the module to the source."""
        for node in walk_blocks(self._module):  # imports come first, because they give aliases
            for alias, level, name in _imported_names(node):
                if alias.asname or isinstance(node, ast.ImportFrom):
                    self._aliases[alias.asname or alias.name] = f"{'.' * level}{name}"
        pending: list[_Pending] = [(self._module, False)]
        while pending:
            node, is_optional = pending.pop()
            self._look(node, is_optional=is_optional)
            for name, value in _pairs(node):
                self._models_in(value, name)
            pending += _below(node, is_optional=is_optional)
        self._source.needs |= self._needs - self._tested

    def _look(self, node: ast.AST, *, is_optional: bool) -> None:
        match node:
            case ast.Subscript(value=value, slice=key, ctx=ast.Load()) if (
                self._dotted(value) == _ENVIRON
            ):
                self._needs |= set() if is_optional else self._key(key)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Subscript) and self._dotted(target.value) == _ENVIRON:
                        self._source.sets |= dict.fromkeys(
                            self._key(target.slice), _text(value) or ""
                        )
            case ast.Compare(left=left, comparators=[right], ops=[ast.In() | ast.NotIn()]):
                self._tested |= self._key(left) if self._dotted(right) == _ENVIRON else set()
            case ast.Call():
                self._call(node, is_optional=is_optional)
            case ast.ClassDef() if any(_name(base).endswith("BaseSettings") for base in node.bases):
                self._settings_class(node)
            case ast.keyword(arg="api_key"):
                self._source.has_own_key = True
            case ast.Constant(value=str(text)) if _GEMINI.fullmatch(text):
                self._model(text)

    def _call(self, node: ast.Call, *, is_optional: bool) -> None:
        function_name = self._dotted(node.func)
        arguments = node.args
        self._source.logs_in |= function_name == "google.auth.default"
        if not arguments or function_name not in _READING:
            # the first argument of LiteLlm and of Pydantic AI's Agent is the model
            if any(word in _name(node.func).lower() for word in ("model", "llm", "chat", "agent")):
                for argument in arguments[:1]:
                    self._models_in(argument, "model")
            return
        default = next(
            (keyword.value for keyword in node.keywords if keyword.arg == "default"), None
        )
        default = arguments[1] if len(arguments) > 1 else default
        key = self._key(arguments[0])
        if function_name == f"{_ENVIRON}.setdefault":
            self._source.sets |= dict.fromkeys(key, _text(default) or "")
        elif not is_optional:
            is_none = isinstance(default, ast.Constant) and default.value is None
            self._needs |= {name for name in key if is_none or _lacks(default, name)}
        if default is not None:
            self._models_in(default, "".join(key))

    def _settings_class(self, node: ast.ClassDef) -> None:
        """Add the fields of a pydantic-settings class as variables."""
        # also from a nested class Config
        options = {name: value for inner in ast.walk(node) for name, value in _pairs(inner)}
        prefix = _text(options.get("env_prefix")) or ""
        case_option = options.get("case_sensitive")
        is_case_sensitive = isinstance(case_option, ast.Constant) and case_option.value is True
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                annotation = {_name(part) for part in ast.walk(statement.annotation)}
                if statement.target.id == "model_config" or "ClassVar" in annotation:
                    continue
                alias, default = _field(statement.value)
                name = f"{prefix}{statement.target.id}"
                name = alias or (name if is_case_sensitive else name.upper())
                self._needs |= {name} if _lacks(default, name) else set()

    def _models_in(self, value: ast.expr, name: str) -> None:
        """Add the models in the value of a name."""
        for leaf in _leaves(value) if "model" in name.lower() else ():
            self._model(text_of(leaf, self._constants))

    def _model(self, text: str | None) -> None:
        self._source.models |= {name} if text and (name := _model_name(text)) else set()

    def _key(self, node: ast.expr) -> set[str]:
        """The variable that an expression names; empty if none."""
        text = text_of(node, self._constants)
        return {text} if text and re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII) else set()

    def _dotted(self, node: ast.expr) -> str:
        """The full dotted name of an expression, with import aliases resolved."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        return ".".join([self._aliases.get(_name(node), _name(node)), *reversed(names)])


def constants_of(module: ast.Module) -> dict[str, str]:
    """The names that a module's top level sets to texts, with their texts."""
    pairs = ((name, _text(value)) for name, value in _pairs_at_top(module))
    return {name: text for name, text in pairs if name and text is not None}


def text_of(node: ast.expr, constants: Mapping[str, str]) -> str | None:
    """The text of an expression, which may be the name of a constant; None if it is no text."""
    return constants.get(node.id) if isinstance(node, ast.Name) else _text(node)


def _pairs_at_top(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that a module's top level sets, with their values."""
    return itertools.chain.from_iterable(map(_pairs, module.body))


_READING = frozenset(
    {"os.getenv", *(f"{_ENVIRON}.{method}" for method in ("get", "pop", "setdefault"))}
)


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names with their values: in assignments, dictionaries and keyword arguments."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((getattr(target, "id", ""), value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield getattr(target, "id", ""), value
        case ast.Dict(keys=keys, values=values):
            yield from ((_text(key) or "", value) for key, value in zip(keys, values, strict=True))
        case ast.keyword(arg=str(name), value=value):
            yield name, value


def _below(node: ast.AST, *, is_optional: bool) -> Iterator[_Pending]:
    """The children of a node, without code that runs only in a script."""
    if _is_guard(node):
        yield from ((child, is_optional) for child in node.orelse)
        return
    optional_nodes: Iterable[ast.AST] = ()
    if isinstance(node, ast.Try) and any(_catches(handler.type) for handler in node.handlers):
        optional_nodes = node.body
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        optional_nodes = node.values[:-1]
    optional_ids = {id(child) for child in optional_nodes}
    yield from (
        (child, is_optional or id(child) in optional_ids) for child in ast.iter_child_nodes(node)
    )


def _is_guard(node: ast.AST) -> TypeGuard[ast.If]:
    """True for `if __name__ == "__main__"`."""
    return isinstance(node, ast.If) and "__name__" in map(_name, _leaves(node.test))


def _catches(exception_node: ast.expr | None) -> bool:
    kinds = exception_node.elts if isinstance(exception_node, ast.Tuple) else [exception_node]
    return any(kind is None or _name(kind) in _CATCH_ALL for kind in kinds)


def _leaves(value: ast.expr) -> Iterator[ast.Name | ast.Constant]:
    """The names and constants of an expression, without those in calls within it."""
    pending: list[ast.AST] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name | ast.Constant):
            yield node
        elif not isinstance(node, ast.Call | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def _field(value: ast.expr | None) -> tuple[str, ast.expr | None]:
    """The variable name that a settings field sets explicitly, and its default."""
    if not isinstance(value, ast.Call) or _name(value.func) != "Field":
        return "", value
    keywords = {keyword.arg: keyword.value for keyword in value.keywords}
    aliases = (_text(keywords.get(key)) for key in ("validation_alias", "alias", "env"))
    default = value.args[0] if value.args else keywords.get("default")
    return next(filter(None, aliases), ""), default or keywords.get("default_factory")


def _lacks(default: ast.expr | None, name: str) -> bool:
    """True if a variable has no default; an empty one is none for a secret."""
    if not isinstance(default, ast.Constant):
        return default is None
    return default.value is Ellipsis or (not default.value and redact.is_named(name))


def _name(node: ast.AST | None) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _model_name(text: str) -> str:
    """A model's name as judges write it; "" if the text is not a known model."""
    if not text or len(text) > 200 or any(character.isspace() for character in text):
        return ""
    prefix, colon, name = text.partition(":")
    if colon and "/" not in prefix:  # openai:gpt-4o
        text = f"{_OTHER_PREFIXES.get(prefix, prefix)}/{name}"
    return text if models.parse_name(text).client else ""


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
    return {name: value for name, value in _pairs_at_top(module) if name and _makes(value, makers)}


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_BUILT_BY_NOBODY = frozenset({
    "Any", "Callable", "Dict", "Iterable", "List", "Literal", "Mapping", "Optional", "Path", "Sequence", "Tuple", "Type",
    "Union",
})  # fmt: skip
"""Capitalized annotations that are no classes with a constructor of their own."""


def _needs_nothing(function: Function, *, after: int = 0) -> bool:
    """True if all parameters after the first `after` have defaults, or a class that may be made
    without arguments."""
    names = [_name(parameter.annotation) for parameter in _required(function)[after:]]
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
    kinds = [_name(parameter.annotation) for parameter in _required(function)[after:]]
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
    if _name(getattr(function, "value", None)) == "re":  # `re.compile` is not a maker
        return False
    return _name(function.value if isinstance(function, ast.Subscript) else function) in makers


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
        _name(call.func)
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
        elif any(_name(mark) in makers for mark in statement.decorator_list):  # as `@CrewBase`
            yield statement.name
        elif _is_made_alone(statement):
            yield from (
                f"{statement.name}.{name}" for name in _agents_of_class(statement, known_makers)
            )


def _returns_agent(function: Function, makers: Collection[str]) -> bool:
    """True if a function returns the result of a maker: alone, in a tuple, or given to a class."""
    made_names = {
        name for node in ast.walk(function) for name, value in _pairs(node) if _makes(value, makers)
    }

    def is_agent(value: ast.expr | None) -> bool:
        return _makes(value, makers) or (isinstance(value, ast.Name) and value.id in made_names)

    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.Tuple(elts=parts)) if any(map(is_agent, parts)):
                return True
            case ast.Return(value=ast.Call(func=func, args=args, keywords=keywords)) if _name(func)[
                :1
            ].isupper() and any(map(is_agent, [*args, *(keyword.value for keyword in keywords)])):
                return True
            case ast.Return(value=value) if is_agent(value):
                return True
    return _name(function.returns) in makers


def _is_made_alone(owner: ast.ClassDef) -> bool:
    """True for a public class whose objects are made without arguments."""
    init = _functions_of(owner).get("__init__")
    is_abstract = any(_name(node) == "abstractmethod" for node in ast.walk(owner))
    is_made = not owner.bases if init is None else _needs_nothing(init, after=1)
    return is_made and not is_abstract and not owner.name.startswith("_")


def _agents_of_class(owner: ast.ClassDef, makers: Collection[str]) -> Iterator[str]:
    """The attributes that keep an agent; else the public methods that make one."""
    attributes = [
        target.attr
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign | ast.AnnAssign) and _makes(node.value, makers)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and _name(target.value) == "self"
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


def find_programs(files: Iterable[str], graph: ImportGraph) -> Iterator[AgentUse]:
    """The programs that make an agent of a framework, or import a module that does, those near the
    root first. Tests are left out."""
    drivers_by_file: dict[str, str] = {}
    files = _nearest_first(files)
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
    for file in _programs(_nearest_first(files), graph, _TERMINAL):
        if any(graph.packages(place) & CLIENTS for place in graph.reached([file])):
            found_by = "a program at the terminal"
            yield _use_of(file, PROGRAM, graph, driver=agents.OF_FUNCTIONS, found_by=found_by)


CLIENTS = frozenset({
    "anthropic", "cohere", "google", "groq", "huggingface_hub", "litellm", "mistralai", "ollama", "openai", "together",
})  # fmt: skip
"""Packages that call models."""

_TERMINAL = re.compile(r"\binput\(|\bparse_args\(|\bargv\[1|\b(click|typer)\b")


def _nearest_first(files: Iterable[str]) -> list[str]:
    return sorted(files, key=lambda file: (file.count("/"), not file.endswith("main.py")))


def _programs(files: Iterable[str], graph: ImportGraph, words: re.Pattern[str]) -> Iterator[str]:
    """The first programs among these files that contain one of the words."""
    programs = (
        file
        for file, module in _parsed(files, graph, words)
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
        if (_name(getattr(function, "value", None)), _name(function)) in _RUNNING_CALLS:
            return True
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            pending += (child for child, _ in _below(node, is_optional=False))
    return False


_RUNNING_CALLS = (("asyncio", "run"), ("loop", "run_until_complete"), ("", "input"))
_RUNNING = re.compile(rf"{PROGRAM}|\b(run|main|run_until_complete|input)\(")


def _runs(statement: ast.stmt) -> bool:
    """True for a statement that runs a program: under `if __name__ == "__main__"`, or a call."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    is_main = isinstance(call, ast.Call) and _name(call.func) in (
        "run",
        "main",
        "run_until_complete",
    )
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
            case ast.Assign(value=ast.Call(func=func, keywords=keywords)) if _name(func) == "Task":
                helper_names |= {
                    _name(keyword.value) for keyword in keywords if keyword.arg == "agent"
                }
        if isinstance(statement, FUNCTIONS):
            marks = {
                _name(leaf) for mark in statement.decorator_list for leaf in ast.walk(mark)
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
    made_values = (value for name, value in _pairs_at_top(module) if name in own_names)
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
            _in(str(base), names, graph.read)
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
