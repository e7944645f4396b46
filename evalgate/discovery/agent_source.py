"""What an agent's source says of its surroundings: variables that it reads, models that it names,
keys of its `.env`.

Nothing is imported or run. Modules are followed from the agent's own by their import statements,
within the checkout. Agents of other frameworks than ADK are objects that a module makes at its own
level."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any, TypeAlias, TypeGuard

from evalgate import agents
from evalgate.discovery import dotenv
from evalgate.judges import models
from evalgate.judges.clients import GOOGLE_KEYS, TRUE_WORDS
from evalgate.judges.models import ENDPOINTS
from evalgate.model import AgentUse
from evalgate.values import frozen_dataclass

MOST_FILES = 1000
EXAMPLES = (
    ".env.example",
    ".env-example",
    ".env.sample",
    ".env.template",
    "env.example",
    "example.env",
)
VERTEX = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
"""What google-genai asks Vertex AI with, besides credentials."""

_TOOLSET = re.compile(r"Toolset$|^MCPServer|^MultiServerMCPClient$|^MCPClient$")
_GEMINI = re.compile(r"gemini-\d[\w.-]*")
_YAML_MODEL = re.compile(r"^\s*(?:-\s*)?model:\s*['\"]?([\w./:-]+)", re.MULTILINE)
_CATCH_ALL = frozenset({"KeyError", "LookupError", "Exception", "BaseException"})
_OTHER_PREFIXES = {
    "google-gla": "gemini", "google_genai": "gemini", "google": "gemini",
    "google-vertex": "vertex_ai", "google_vertexai": "vertex_ai",
}  # fmt: skip
"""How Pydantic AI and LangChain write providers, as LiteLLM does."""


def keys_of(model: str) -> tuple[str, ...]:
    """The variables that may hold the key of a model; empty if it needs no key."""
    model_name = models.parse_name(model)
    if model_name.client == "gemini":
        return () if model_name.vertex else GOOGLE_KEYS
    endpoint = ENDPOINTS.get(model_name.provider)
    is_local = endpoint is None or "localhost" in endpoint.base_url
    return () if endpoint is None or is_local else (endpoint.key,)


def is_google(model: str) -> bool:
    """True if google-genai asks a model, by a key or through Vertex AI."""
    return models.parse_name(model).client == "gemini"


@frozen_dataclass
class ModuleSource:
    """What modules say.

    `needs`: variables that they read without a default. `sets`: variables that they set, and the
    text that they set them to, "" for any other value. `models`: names of models, as judges write
    them. `imports`: level and dotted name of each import. `has_own_key`: some model gets its key
    from the source. `logs_in`: the source asks for credentials of Google Cloud. `toolsets`: classes
    of tools that a server has. `contexts`: types of what tools are given (`deps_type`)."""

    needs: frozenset[str] = frozenset()
    sets: Mapping[str, str] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    imports: tuple[tuple[int, str], ...] = ()
    has_own_key: bool = False
    logs_in: bool = False
    toolsets: frozenset[str] = frozenset()
    contexts: frozenset[str] = frozenset()


@frozen_dataclass
class AgentSource(ModuleSource):
    """What all modules of an agent say; the `values` of its `.env`, and the `samples` in the file
    `example`, such as `.env.example`."""

    example: str = ""
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    samples: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def uses_vertex(self) -> bool:
        """True if google-genai asks Vertex AI, by the `.env` or else the source; or by the
        example."""
        flags = (
            self.values.get(VERTEX[0]) or self.sets.get(VERTEX[0], ""),
            self.samples.get(VERTEX[0], ""),
        )
        return any(flag.strip().lower() in TRUE_WORDS for flag in flags)


ReadText = Callable[[str], str | None]
"""The text of a file by its posix path below the root; None if it is missing."""


def of_agent(use: AgentUse, read: ReadText) -> AgentSource:
    """Read the source of an agent; empty if it is not Python of the checkout."""
    files = _start_of(use, read)
    if not files:
        return AgentSource()
    folder = str(PurePosixPath(files[0]).parent)
    sources = followed(files, read).values()
    example, samples = _nearest(EXAMPLES, folder, read)
    return AgentSource(
        imports=tuple({found for source in sources for found in source.imports}),
        toolsets=frozenset().union(*(source.toolsets for source in sources)),
        contexts=frozenset().union(*(source.contexts for source in sources)),
        example=example,
        needs=frozenset().union(*(source.needs for source in sources)),
        sets={name: value for source in sources for name, value in source.sets.items()},
        models=frozenset().union(*(source.models for source in sources)),
        has_own_key=any(source.has_own_key for source in sources),
        logs_in=any(source.logs_in for source in sources),
        values=_nearest((dotenv.NAME,), folder, read)[1],
        samples=samples,
    )


def followed(files: Iterable[str], read: ReadText) -> dict[str, ModuleSource]:
    """What these files say, and all of the checkout that they import, MOST_FILES at most."""
    queue = list(files)
    sources: dict[str, ModuleSource] = {}
    while queue and len(sources) < MOST_FILES:
        file = queue.pop(0)
        text = None if file in sources else read(file)
        if text is None:
            continue
        sources[file] = read_module(text) if file.endswith(".py") else _of_yaml(text)
        for level, name in sources[file].imports:
            queue += _modules(file, level, name, read)
    return sources


def _start_of(use: AgentUse, read: ReadText) -> list[str]:
    """The modules that are imported first, the one with the agent before packages that it is in."""
    path = str(use.options.get("path", ".")).strip("/")
    if "call" in use.options:
        module = str(use.options["call"]).partition(":")[0]
        return [file for base in (path, ".", "src") for file in _in(base, module.split("."), read)][
            ::-1
        ]
    if "path" not in use.options or path.endswith(".py"):
        return [path] if "path" in use.options else []
    names = ("__init__.py", "agent.py", "root_agent.yaml", "agent/__init__.py")
    for folder in (path, path.replace(".", "/") or "."):
        files = [*(_join(folder, name) for name in names), f"{folder}.py"]
        if there := [file for file in files if read(file) is not None]:
            return there
    return []


def _modules(file: str, level: int, name: str, read: ReadText) -> list[str]:
    """The files of the checkout that an import in `file` may load."""
    here = PurePosixPath(file).parent
    parts = name.split(".") if name else []
    if level:
        above = [here, *here.parents]
        return _in(str(above[level - 1]), parts, read) if level <= len(above) else []
    for base in (here, *here.parents):
        for start in (str(base), _join(str(base), "src")):
            if files := _in(start, parts, read):
                return files
    return []


def _in(base: str, parts: Iterable[str], read: ReadText) -> list[str]:
    """The modules that `parts` name below a folder, the packages on the way with them; a last part
    may be a name in a module."""
    files = []
    at = base
    for part in parts:
        at = _join(at, part)
        here = [file for file in (f"{at}.py", f"{at}/__init__.py") if read(file) is not None]
        files += here
    return files


def _join(folder: str, name: str) -> str:
    return name if folder in ("", ".") else f"{folder}/{name}"


def _nearest(names: Iterable[str], folder: str, read: ReadText) -> tuple[str, dict[str, str]]:
    """The first of these files, from a folder up to the root, and its variables."""
    places = (PurePosixPath(folder), *PurePosixPath(folder).parents)
    for path in (_join(str(place), name) for place in places for name in names):
        text = read(path)
        if text is not None:
            return path, dotenv.parse(text)
    return "", {}


def _of_yaml(text: str) -> ModuleSource:
    return ModuleSource(models=frozenset(filter(None, map(_model_name, _YAML_MODEL.findall(text)))))


# --- one module -----------------------------------------------------------------------------------


def read_module(text: str) -> ModuleSource:
    """Read a Python module; the result is empty if it cannot be parsed, which its importer
    reports."""
    module = parse(text)
    return ModuleSource() if module is None else _ModuleReader(module).source()


def parse(text: str) -> ast.Module | None:
    """The syntax tree of a module; None if this Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_Pending: TypeAlias = tuple[ast.AST, bool]
"""A node, and whether what it reads is asked for gently: a missing variable is caught, or has a
substitute."""


_ENVIRON = "os.environ"


class _ModuleReader:
    """Walks a module with a stack of its own, since source may be nested more deeply than Python
    recurses."""

    def __init__(self, module: ast.Module) -> None:
        self._module = module
        self._aliases: dict[str, str] = {}
        self._constants: dict[str, str] = {}
        self._needs: set[str] = set()
        self._sets: dict[str, str] = {}
        self._tested: set[str] = set()
        self._models: set[str] = set()
        self._imports: list[tuple[int, str]] = []
        self._has_own_key = False
        self._logs_in = False
        self._toolsets: set[str] = set()
        self._contexts: set[str] = set()

    def source(self) -> ModuleSource:
        """All of it."""
        self._constants = constants_of(self._module)
        for node in ast.walk(self._module):  # first: they give names to what is looked for
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        pending: list[_Pending] = [(self._module, False)]
        while pending:
            node, gently = pending.pop()
            self._look(node, gently=gently)
            for name, value in _pairs(node):
                self._models_in(value, name)
            pending += _below(node, gently)
        return ModuleSource(
            needs=frozenset(self._needs - self._tested),
            sets=self._sets,
            models=frozenset(self._models),
            imports=tuple(dict.fromkeys(self._imports)),
            has_own_key=self._has_own_key,
            logs_in=self._logs_in,
            toolsets=frozenset(self._toolsets),
            contexts=frozenset(self._contexts),
        )

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        level, module = (
            (node.level, node.module or "") if isinstance(node, ast.ImportFrom) else (0, "")
        )
        for alias in node.names:
            name = f"{module}.{alias.name}".strip(".*")
            self._imports.append((level, name))
            if alias.asname or isinstance(node, ast.ImportFrom):
                self._aliases[alias.asname or alias.name] = f"{'.' * level}{name}"
        if isinstance(node, ast.ImportFrom):
            self._imports.append((level, module))

    def _look(self, node: ast.AST, *, gently: bool) -> None:
        match node:
            case ast.Subscript(value=value, slice=key, ctx=ast.Load()) if (
                self._dotted(value) == _ENVIRON
            ):
                self._needs |= set() if gently else self._key(key)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Subscript) and self._dotted(target.value) == _ENVIRON:
                        self._sets |= dict.fromkeys(self._key(target.slice), _text(value) or "")
            case ast.Compare(left=left, comparators=[right], ops=[ast.In() | ast.NotIn()]):
                self._tested |= self._key(left) if self._dotted(right) == _ENVIRON else set()
            case ast.Call():
                self._call(node, gently=gently)
            case ast.ClassDef() if any(_name(base).endswith("BaseSettings") for base in node.bases):
                self._settings_class(node)
            case ast.keyword(arg="api_key"):
                self._has_own_key = True
            case ast.keyword(arg="deps_type" | "context_schema", value=value):
                self._contexts |= {_name(value)} - {"", "str", "dict"}
            case ast.Constant(value=str(text)) if _GEMINI.fullmatch(text):
                self._model(text)
            case _:
                pass

    def _call(self, node: ast.Call, *, gently: bool) -> None:
        called = self._dotted(node.func)
        arguments = node.args
        self._logs_in |= called == "google.auth.default"
        if _TOOLSET.search(_name(node.func)):
            self._toolsets.add(_name(node.func))
        if not arguments or called not in _READING:
            # LiteLlm and Agent of Pydantic AI take the name first
            if any(word in _name(node.func).lower() for word in ("model", "llm", "chat", "agent")):
                for argument in arguments[:1]:
                    self._models_in(argument, "model")
            return
        default = next(
            (keyword.value for keyword in node.keywords if keyword.arg == "default"), None
        )
        default = arguments[1] if len(arguments) > 1 else default
        has_default = default is not None and not (
            isinstance(default, ast.Constant) and default.value is None
        )
        key = self._key(arguments[0])
        if called == f"{_ENVIRON}.setdefault":
            self._sets |= dict.fromkeys(key, _text(default) or "")
        elif not (has_default or gently):
            self._needs |= key
        if default is not None:
            self._models_in(default, "".join(key))

    def _settings_class(self, node: ast.ClassDef) -> None:
        """The fields of a class of pydantic-settings are variables."""
        # also of a class Config
        options = {name: value for inner in ast.walk(node) for name, value in _pairs(inner)}
        prefix = _text(options.get("env_prefix")) or ""
        cases = options.get("case_sensitive")
        as_written = isinstance(cases, ast.Constant) and cases.value is True
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                annotation = {_name(part) for part in ast.walk(statement.annotation)}
                if statement.target.id == "model_config" or "ClassVar" in annotation:
                    continue
                alias, has_default = _field(statement.value)
                name = f"{prefix}{statement.target.id}"
                self._needs |= (
                    set() if has_default else {alias or (name if as_written else name.upper())}
                )

    def _models_in(self, value: ast.expr, name: str) -> None:
        """The models in what something of this name is set to."""
        for leaf in _leaves(value) if "model" in name.lower() else ():
            self._model(self._constants.get(leaf.id) if isinstance(leaf, ast.Name) else _text(leaf))

    def _model(self, text: str | None) -> None:
        self._models |= {name} if text and (name := _model_name(text)) else set()

    def _key(self, node: ast.expr) -> set[str]:
        """The variable that an expression names, if it does."""
        text = self._constants.get(node.id) if isinstance(node, ast.Name) else _text(node)
        return {text} if text and re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII) else set()

    def _dotted(self, node: ast.expr) -> str:
        """What an expression of names and dots means, whatever the imports call it."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        return ".".join([self._aliases.get(_name(node), _name(node)), *reversed(parts)])


def constants_of(module: ast.Module) -> dict[str, str]:
    """The names that a module's own level sets to texts."""
    pairs = (pair for statement in module.body for pair in _pairs(statement))
    return {name: text for name, value in pairs if name and (text := _text(value)) is not None}


_READING = frozenset(
    {"os.getenv", *(f"{_ENVIRON}.{method}" for method in ("get", "pop", "setdefault"))}
)


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What names are set to: by assignments, in dictionaries, as arguments."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((getattr(target, "id", ""), value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield getattr(target, "id", ""), value
        case ast.Dict(keys=keys, values=values):
            yield from ((_text(key) or "", value) for key, value in zip(keys, values, strict=True))
        case ast.keyword(arg=str(name), value=value):
            yield name, value
        case _:
            pass


def _below(node: ast.AST, gently: bool) -> Iterator[_Pending]:  # noqa: FBT001 - private
    """The children of a node, without code that runs only if the module is a script."""
    if isinstance(node, ast.If) and "__name__" in {_name(leaf) for leaf in _leaves(node.test)}:
        yield from ((child, gently) for child in node.orelse)
        return
    softened: Iterable[ast.AST] = ()
    if isinstance(node, ast.Try) and any(_catches(handler.type) for handler in node.handlers):
        softened = node.body
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        softened = node.values[:-1]
    soft = {id(child) for child in softened}
    yield from ((child, gently or id(child) in soft) for child in ast.iter_child_nodes(node))


def _catches(caught: ast.expr | None) -> bool:
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(kind is None or _name(kind) in _CATCH_ALL for kind in kinds)


def _leaves(value: ast.expr) -> Iterator[ast.Name | ast.Constant]:
    """Names and constants of an expression; those of calls within it speak for themselves."""
    pending: list[ast.AST] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name | ast.Constant):
            yield node
        elif not isinstance(node, ast.Call | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def _field(value: ast.expr | None) -> tuple[str, bool]:
    """The variable that a field of settings names itself, and whether it has a default."""
    if not isinstance(value, ast.Call) or _name(value.func) != "Field":
        return "", value is not None
    keywords = {keyword.arg: keyword.value for keyword in value.keywords}
    aliases = (_text(keywords.get(key)) for key in ("validation_alias", "alias", "env"))
    alias = next((alias for alias in aliases if alias), "")
    first: Any = value.args[0] if value.args else keywords.get("default")
    has_default = first is not None and not (
        isinstance(first, ast.Constant) and first.value is Ellipsis
    )
    return alias, has_default or "default_factory" in keywords


def _name(node: ast.AST | None) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _model_name(text: str) -> str:
    """A model's name as judges write it; "" for what names none that is known."""
    if not text or len(text) > 200 or any(character.isspace() for character in text):
        return ""
    prefix, colon, name = text.partition(":")
    if colon and "/" not in prefix:  # openai:gpt-4o
        text = f"{_OTHER_PREFIXES.get(prefix, prefix)}/{name}"
    return text if models.parse_name(text).client else ""


# --- agents of other frameworks ------------------------------------------------------------------


_TESTS = ("test_", "conftest")
ASIDE = frozenset({"example", "examples", "sample", "samples", "demo", "demos", "test", "tests"})
"""Folders whose agents are seldom the one that a repository is about."""


def find_frameworks(files: Iterable[str], read: ReadText) -> Iterator[AgentUse]:
    """The agents that modules of these files make, by their driver and the options that name them.

    Left out: tests; agents that another one calls or that guard it; those of examples, if there
    are others."""
    names = {name for driver in agents.DRIVERS.values() for name in driver.modules}
    uses: dict[str, list[AgentUse]] = {}
    parts: set[str] = set()
    for file in files:
        name = PurePosixPath(file).name
        if not file.endswith(".py") or name.startswith(_TESTS) or "tests/" in file:
            continue
        text = read(file) or ""
        module = parse(text) if any(name in text for name in names) else None
        if module is not None:
            source = _ModuleReader(module).source()
            uses[file] = list(_made_in(module, source, _importable(file, source, read)))
            parts |= _agents_of_others(module, uses[file])
    main = [file for file in uses if uses[file] and not is_aside(file)]
    yield from (
        use
        for file in main or uses
        for use in uses[file]
        if not any(f".{use.options['call']}".endswith(f".{part}") for part in parts)
    )


def is_aside(place: str) -> bool:
    """True if a file, a folder or a module lies among examples or tests."""
    return not ASIDE.isdisjoint(re.split(r"[/.:]", place.lower()))


def _made_in(
    module: ast.Module, source: ModuleSource, place: tuple[str, str]
) -> Iterator[AgentUse]:
    imported = {name.partition(".")[0] for level, name in source.imports if not level}
    folder, dotted = place
    path = {} if folder == "." else {"path": folder}
    for driver in agents.DRIVERS.values():
        if imported.isdisjoint(driver.modules):
            continue
        made = {
            name: value
            for statement in module.body
            for name, value in _pairs(statement)
            if name and _makes(value, driver.makers)
        }
        helpers = _helpers(module, made)
        roots = [name for name in made if name not in helpers and "guardrail" not in name.lower()]
        roots = roots or [
            statement.name
            for statement in module.body
            if _is_factory(statement, driver.makers) or _is_marked(statement, driver.makers)
        ]
        for name in roots:
            yield AgentUse(driver=driver.name, options={"call": f"{dotted}:{name}", **path})


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _required(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """The parameters without a default."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [
        *positional[: len(positional) - len(arguments.defaults)],
        *(argument for argument, default in by_name if default is None),
    ]


_ANSWERING = re.compile(
    r"^(answer|ask|chat|respond|reply|query|handle|process|agent|run|invoke)(_|$)|"
    r"_(answer|response|reply)$"
)


def find_functions(files: Iterable[str], read: ReadText) -> Iterator[AgentUse]:
    """The functions and methods that take one text and are named like an answer, tests left out:
    `answer`, `run_agent`, `Desk.chat`."""
    for file in files:
        name = PurePosixPath(file).name
        if not file.endswith(".py") or name.startswith(_TESTS) or "tests/" in file:
            continue
        module = parse(read(file) or "")
        if module is not None:
            folder, dotted = _importable(file, _ModuleReader(module).source(), read)
            path = {} if folder == "." else {"path": folder}
            for call in _answering(module):
                yield AgentUse(
                    driver=agents.OF_FUNCTIONS, options={"call": f"{dotted}:{call}", **path}
                )


def _answering(module: ast.Module) -> Iterator[str]:
    for statement in module.body:
        if isinstance(statement, _FUNCTIONS) and _answers(statement):
            yield statement.name
        elif isinstance(statement, ast.ClassDef):
            yield from (f"{statement.name}.{name}" for name in _methods(statement))


def _answers(function: ast.FunctionDef | ast.AsyncFunctionDef, *, after: int = 0) -> bool:
    """True if a function is named like an answer and takes one text after so many parameters."""
    required = _required(function)[after:]
    kind = _name(required[0].annotation) if required else ""
    return bool(_ANSWERING.search(function.name)) and len(required) == 1 and kind in ("", "str")


def _methods(owner: ast.ClassDef) -> Iterator[str]:
    """The methods that answer, of a class that is made without arguments."""
    functions = [node for node in owner.body if isinstance(node, _FUNCTIONS)]
    by_name = {function.name: function for function in functions if not function.decorator_list}
    init = by_name.get("__init__")
    if owner.bases or (init is not None and len(_required(init)) > 1):
        return
    yield from (name for name, method in by_name.items() if _answers(method, after=1))


def _makes(value: ast.expr | None, makers: Collection[str]) -> bool:
    """True if an expression calls a maker, also as `Agent[Context](...)`."""
    called = value.func if isinstance(value, ast.Call) else None
    if _name(getattr(called, "value", None)) == "re":  # which compiles, too
        return False
    return _name(called.value if isinstance(called, ast.Subscript) else called) in makers


def _is_factory(statement: ast.stmt, makers: Collection[str]) -> TypeGuard[ast.FunctionDef]:
    """True for a function without required parameters that returns what a maker makes."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    given = statement.args
    needed = len(given.posonlyargs) + len(given.args) - len(given.defaults)
    needed += sum(default is None for default in given.kw_defaults)
    made = {
        name
        for inner in ast.walk(statement)
        for name, value in _pairs(inner)
        if _makes(value, makers)
    }
    answers = [inner.value for inner in ast.walk(statement) if isinstance(inner, ast.Return)]
    return not needed and any(
        _makes(answer, makers) or (isinstance(answer, ast.Name) and answer.id in made)
        for answer in answers
    )


def _is_marked(statement: ast.stmt, makers: Collection[str]) -> TypeGuard[ast.ClassDef]:
    """True for a class with a maker as its decorator, as CrewAI's `@CrewBase`."""
    return isinstance(statement, ast.ClassDef) and any(
        _name(decorator) in makers for decorator in statement.decorator_list
    )


def _helpers(module: ast.Module, made: Mapping[str, ast.expr]) -> set[str]:
    """The agents that other agents of the module name, or their tools and guards ask."""
    inner = {
        leaf.id
        for name, value in made.items()
        for leaf in ast.walk(value)
        if isinstance(leaf, ast.Name) and leaf.id != name
    }
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr="handoffs")], value=value):
                inner |= {leaf.id for leaf in ast.walk(value) if isinstance(leaf, ast.Name)}
            case ast.Assign(value=ast.Call(func=func, keywords=keywords)) if _name(func) == "Task":
                inner |= {_name(keyword.value) for keyword in keywords if keyword.arg == "agent"}
            case _:
                pass
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [
                leaf
                for decorator in statement.decorator_list
                for leaf in ast.walk(decorator)
                if isinstance(leaf, ast.Name | ast.Attribute)
            ]
            if any(
                _name(mark) in made or re.search("tool|guardrail", _name(mark)) for mark in marks
            ):
                asked = {leaf.id for leaf in ast.walk(statement) if isinstance(leaf, ast.Name)}
                inner |= asked - {_name(mark) for mark in marks}
    return inner & made.keys()


def _agents_of_others(module: ast.Module, uses: Iterable[AgentUse]) -> set[str]:
    """What agents of a module are given that it imports: `module:name` of each."""
    own = {str(use.options["call"]).partition(":")[2] for use in uses}
    given = {
        leaf.id
        for statement in module.body
        for name, value in _pairs(statement)
        if name in own
        for leaf in ast.walk(value)
        if isinstance(leaf, ast.Name)
    }
    return {
        f"{statement.module.rpartition('.')[2]}:{alias.name}"
        for statement in module.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
        if (alias.asname or alias.name) in given
    }


def _importable(file: str, source: ModuleSource, read: ReadText) -> tuple[str, str]:
    """The folder to import a module from, and its name there: the root or `src`, or the deepest
    folder that is no identifier; a module that imports its neighbors by their bare names is
    imported as they are."""
    path = PurePosixPath(file.removesuffix("/__init__.py").removesuffix(".py"))
    here = path.parent
    bare = {name.partition(".")[0] for level, name in source.imports if not level}
    if any(read(str(here / f"{name}.py")) is not None for name in bare - {path.name}) and (
        read(str(here / "__init__.py")) is None
    ):
        return str(here), path.name
    parts = path.parts
    start = max(
        (at + 1 for at, part in enumerate(parts[:-1]) if not part.isidentifier()),
        default=int(parts[0] == "src" and len(parts) > 1),
    )
    is_package = any(level for level, _ in source.imports) or (
        read(str(here / "__init__.py")) is not None
    )
    if start and parts[0] != "src" and not is_package:
        return str(here), path.name
    return "/".join(parts[:start]) or ".", ".".join(parts[start:])
