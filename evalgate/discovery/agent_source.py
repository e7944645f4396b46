"""What an agent's source says of its surroundings: variables that it reads, models that it names, keys of its `.env`.

Nothing is imported or run. Modules are followed from the agent's own by their import statements, within the checkout.
Agents of other frameworks than ADK are objects that a module makes at its own level.
"""

from __future__ import annotations

import ast
import enum
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from evalgate.discovery import dotenv
from evalgate.judges import models
from evalgate.judges.clients import GOOGLE_KEYS, TRUE_WORDS
from evalgate.judges.models import ENDPOINTS
from evalgate.model import AgentUse
from evalgate.values import Environ, frozen_dataclass

MOST_FILES = 1000
EXAMPLES = (".env.example", ".env-example", ".env.sample", ".env.template", "env.example", "example.env")
VERTEX = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
"""What google-genai asks Vertex AI with, besides credentials."""

_GEMINI = re.compile(r"gemini-\d[\w.-]*")
_YAML_MODEL = re.compile(r"^\s*(?:-\s*)?model:\s*['\"]?([\w./:-]+)", re.MULTILINE)
_CATCH_ALL = frozenset({"KeyError", "LookupError", "Exception", "BaseException"})
_OTHER_PREFIXES = {
    "google-gla": "gemini", "google_genai": "gemini", "google": "gemini",
    "google-vertex": "vertex_ai", "google_vertexai": "vertex_ai",
}  # fmt: skip
"""How Pydantic AI and LangChain write providers, as LiteLLM does."""


class Need(enum.IntEnum):
    """How much source needs a variable."""

    OPTIONAL = 0  # it has a default, or asks first whether it is set
    WANTED = 1  # read without a default: None where it is not set
    REQUIRED = 2  # it raises where it is not set


@frozen_dataclass
class Read:
    """A variable that source reads, and where it needs it most."""

    name: str
    need: Need
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"


@frozen_dataclass
class NamedModel:
    """A model that source names, as judges write it."""

    name: str
    file: str
    line: int

    @property
    def keys(self) -> tuple[str, ...]:
        """The variables of which one holds the key that it is asked with; none where it takes no key."""
        named = models.parse_name(self.name)
        if named.client == "gemini":
            return () if named.vertex else GOOGLE_KEYS
        endpoint = ENDPOINTS.get(named.provider)
        is_local = endpoint is None or "localhost" in endpoint.base_url
        return () if endpoint is None or is_local else (endpoint.key,)

    @property
    def is_google(self) -> bool:
        """Whether google-genai asks it, by a key or by way of Vertex AI."""
        return models.parse_name(self.name).client == "gemini"


@frozen_dataclass
class Source:
    """What one module says. `sets`: variables that it sets itself, and the text that it sets them to, "" for
    any other value; `imports`: level and dotted name of each import."""

    reads: tuple[Read, ...] = ()
    sets: Mapping[str, str] = field(default_factory=dict)
    models: tuple[NamedModel, ...] = ()
    imports: tuple[tuple[int, str], ...] = ()
    has_own_key: bool = False
    logs_in: bool = False


@frozen_dataclass
class AgentSource:
    """What all modules of an agent say; each variable and each model once.

    `dotenv`: the `.env` that is read before the agent is imported, "" for none, and `values` in it; `example`: a file
    like `.env.example` near the agent, with its `samples`. `has_own_key`: some model is given its key by the source.
    `logs_in`: it asks for credentials of Google Cloud itself.
    """

    reads: tuple[Read, ...] = ()
    sets: Mapping[str, str] = field(default_factory=dict)
    models: tuple[NamedModel, ...] = ()
    files: tuple[str, ...] = ()
    has_own_key: bool = False
    logs_in: bool = False
    dotenv: str = ""
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    example: str = ""
    samples: Mapping[str, str] = field(default_factory=dict, repr=False)

    def uses_vertex(self, environment: Environ) -> bool:
        """Whether google-genai asks Vertex AI: as the environment says, else the `.env`, else the source."""
        said = environment.get(VERTEX[0]) or self.values.get(VERTEX[0]) or self.sets.get(VERTEX[0], "")
        return said.strip().lower() in TRUE_WORDS

    @property
    def suggests_vertex(self) -> bool:
        """Whether the example says so, which nothing reads."""
        return self.samples.get(VERTEX[0], "").strip().lower() in TRUE_WORDS


ReadText = Callable[[str], str | None]
"""The text of a file by its posix path below the root; None where there is none."""


def of_agent(use: AgentUse, read: ReadText) -> AgentSource:
    """What the source of an agent says; nothing where it is not Python of the checkout."""
    start = _start_of(use, read)
    if start is None:
        return AgentSource()
    folder, files = start
    seen = followed(files, read)
    reads: dict[str, Read] = {}
    for each in (each for source in seen.values() for each in source.reads):
        if each.name not in reads or each.need > reads[each.name].need:
            reads[each.name] = each
    named = {each.name: each for source in reversed(seen.values()) for each in reversed(source.models)}
    file, values = _nearest((dotenv.NAME,), folder, read)
    example, samples = _nearest(EXAMPLES, folder, read)
    return AgentSource(
        reads=tuple(reads[name] for name in sorted(reads)),
        sets={name: value for source in seen.values() for name, value in source.sets.items()},
        models=tuple(named[name] for name in sorted(named)),
        files=tuple(seen),
        has_own_key=any(source.has_own_key for source in seen.values()),
        logs_in=any(source.logs_in for source in seen.values()),
        dotenv=file,
        values=values,
        example=example,
        samples=samples,
    )


def followed(files: Iterable[str], read: ReadText) -> dict[str, Source]:
    """What these files say, and all of the checkout that they import, MOST_FILES at most."""
    queue = list(files)
    seen: dict[str, Source] = {}
    while queue and len(seen) < MOST_FILES:
        file = queue.pop(0)
        text = None if file in seen else read(file)
        if text is None:
            continue
        seen[file] = read_module(text, file=file) if file.endswith(".py") else _of_yaml(text, file)
        for level, name in seen[file].imports:
            queue += _modules(file, level, name, read)
    return seen


def _start_of(use: AgentUse, read: ReadText) -> tuple[str, list[str]] | None:
    """The agent's folder, and the modules that are imported first."""
    path = str(use.options.get("path", ".")).strip("/")
    if "call" in use.options:
        module = str(use.options["call"]).partition(":")[0]
        files = [file for base in (path, ".", "src") for file in _in(base, module.split("."), read)]
        return (str(PurePosixPath(files[-1]).parent), files) if files else None
    if "path" not in use.options:
        return None
    if path.endswith(".py"):
        return str(PurePosixPath(path).parent), [path]
    for folder in dict.fromkeys((path, path.replace(".", "/") or ".")):
        files = [_join(folder, name) for name in ("__init__.py", "agent.py", "root_agent.yaml", "agent/__init__.py")]
        files = [file for file in (*files, f"{folder}.py") if read(file) is not None]
        if files:
            return folder, files
    return None


def _modules(file: str, level: int, name: str, read: ReadText) -> list[str]:
    """The files of the checkout that an import in `file` may load."""
    here = PurePosixPath(file).parent
    parts = name.split(".") if name else []
    if level:
        above = [here, *here.parents]
        return _in(str(above[level - 1]), parts, read) if level <= len(above) else []
    for base in (here, *here.parents):
        for start in (str(base), _join(str(base), "src")):
            if found := _in(start, parts, read):
                return found
    return []


def _in(base: str, parts: Iterable[str], read: ReadText) -> list[str]:
    """The modules that `parts` name below a folder, the packages on the way with them; a last part may be a name in a
    module."""
    found, at = [], base
    for part in parts:
        at = _join(at, part)
        here = [file for file in (f"{at}.py", f"{at}/__init__.py") if read(file) is not None]
        found += here
    return found


def _join(folder: str, name: str) -> str:
    return name if folder in ("", ".") else f"{folder}/{name}"


def _nearest(names: Iterable[str], folder: str, read: ReadText) -> tuple[str, dict[str, str]]:
    """The first file of these names from a folder up to the root, and what stands in it."""
    for place in (PurePosixPath(folder), *PurePosixPath(folder).parents):
        for name in names:
            text = read(_join(str(place), name))
            if text is not None:
                return _join(str(place), name), dotenv.parse(text)
    return "", {}


def _of_yaml(text: str, file: str) -> Source:
    lines = [(found[1], text.count("\n", 0, found.start(1)) + 1) for found in _YAML_MODEL.finditer(text)]
    named = [(model, line) for name, line in lines if (model := _model_name(name))]
    return Source(models=tuple(NamedModel(name=name, file=file, line=line) for name, line in named))


# --- one module ---------------------------------------------------------------------------------------


def read_module(text: str, *, file: str) -> Source:
    """What a module of Python says; nothing where it cannot be parsed, which whoever imports it will tell."""
    module = parse(text)
    return Source() if module is None else _Reader(module, file).source()


def parse(text: str) -> ast.Module | None:
    """The syntax tree of a module; None where this Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_Pending: TypeAlias = tuple[ast.AST, bool]
"""A node, and whether what it reads is asked for gently: a missing variable is caught, or has a substitute."""


class _Reader:
    """Walks a module with a stack of its own, since source may be nested more deeply than Python recurses."""

    def __init__(self, module: ast.Module, file: str) -> None:
        self._module = module
        self._file = file
        self._os: set[str] = {"os"}
        self._environ: set[str] = set()
        self._getenv: set[str] = set()
        self._constants: dict[str, str] = {}
        self._reads: list[Read] = []
        self._sets: dict[str, str] = {}
        self._tested: set[str] = set()
        self._models: list[NamedModel] = []
        self._imports: list[tuple[int, str]] = []
        self._has_own_key = False
        self._logs_in = False

    def source(self) -> Source:
        """All of it."""
        for statement in self._module.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and _text(statement.value) is not None:
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                self._constants |= {each.id: _text(statement.value) or "" for each in _names(targets)}
        for node in ast.walk(self._module):  # first: they give names to what is looked for
            if isinstance(node, ast.Import):
                self._os |= {each.asname or each.name for each in node.names if each.name == "os"}
                self._imports += [(0, each.name) for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        pending: list[_Pending] = [(self._module, False)]
        while pending:
            node, gently = pending.pop()
            self._look(node, gently=gently)
            self._look_for_models(node)
            pending += _below(node, gently)
        gentle = (replace(each, need=Need.OPTIONAL) for each in self._reads if each.name in self._tested)
        reads = (*(each for each in self._reads if each.name not in self._tested), *gentle)
        return Source(
            reads=tuple(sorted(reads, key=lambda each: (each.line, each.name))),
            sets=self._sets,
            models=tuple(self._models),
            imports=tuple(dict.fromkeys(self._imports)),
            has_own_key=self._has_own_key,
            logs_in=self._logs_in,
        )

    def _look(self, node: ast.AST, *, gently: bool) -> None:
        match node:
            case ast.Subscript() if self._is_environ(node.value):
                if isinstance(node.ctx, ast.Load):
                    self._note(node.slice, Need.OPTIONAL if gently else Need.REQUIRED)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Subscript) and self._is_environ(target.value):
                        self._set(target.slice, value)
            case ast.Compare(left=left, comparators=[right], ops=[ast.In() | ast.NotIn()]) if self._is_environ(right):
                self._tested |= {name} if (name := self._key(left)) else set()
            case ast.Call():
                self._call(node, gently=gently)
            case ast.ClassDef() if any(_name(base).endswith("BaseSettings") for base in node.bases):
                self._settings_class(node)
            case _:
                pass

    def _look_for_models(self, node: ast.AST) -> None:
        match node:
            case ast.Constant(value=str(text)) if _GEMINI.fullmatch(text):
                self._model(node, text)
            case ast.Assign(targets=targets, value=value):
                self._models_in(value, named=any("model" in each.id.lower() for each in _names(targets)))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._models_in(value, named="model" in name.lower())
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    self._models_in(value, named="model" in (_text(key) or "").lower())
            case _:
                pass

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.module == "os" and not node.level:
            self._environ |= {each.asname or each.name for each in node.names if each.name == "environ"}
            self._getenv |= {each.asname or each.name for each in node.names if each.name == "getenv"}
        start = node.module or ""
        self._imports += [(node.level, f"{start}.{each.name}".strip(".")) for each in node.names if each.name != "*"]
        self._imports.append((node.level, start))

    def _call(self, node: ast.Call, *, gently: bool) -> None:
        func, arguments = node.func, node.args
        keywords = {each.arg: each.value for each in node.keywords if each.arg}
        self._has_own_key |= "api_key" in keywords
        if isinstance(func, ast.Attribute) and func.attr == "default" and _name(func.value) == "auth":
            self._logs_in |= any(name.startswith("google.auth") for _, name in self._imports)
        for keyword, value in keywords.items():
            self._models_in(value, named="model" in keyword.lower())
        method = func.attr if isinstance(func, ast.Attribute) and self._is_environ(func.value) else ""
        is_getenv = (isinstance(func, ast.Name) and func.id in self._getenv) or (
            isinstance(func, ast.Attribute) and func.attr == "getenv" and self._is_os(func.value)
        )
        if not (arguments and (is_getenv or method in ("get", "pop", "setdefault"))):
            # LiteLlm and Agent of Pydantic AI take the name first
            if any(word in _name(func).lower() for word in ("model", "llm", "chat", "agent")):
                for each in arguments[:1]:
                    self._models_in(each, named=True)
            return
        given = arguments[1] if len(arguments) > 1 else keywords.get("default")
        has_default = given is not None and not (isinstance(given, ast.Constant) and given.value is None)
        if method == "setdefault":
            self._set(arguments[0], given)
        need = Need.REQUIRED if method == "pop" and given is None else Need.WANTED
        self._note(arguments[0], Need.OPTIONAL if has_default or gently or method == "setdefault" else need)
        if has_default and given is not None:
            self._models_in(given, named="model" in (self._key(arguments[0]) or "").lower())

    def _settings_class(self, node: ast.ClassDef) -> None:
        """The fields of a class of pydantic-settings are variables."""
        prefix, as_written = "", False
        for inner in ast.walk(node):
            if isinstance(inner, ast.keyword):  # SettingsConfigDict(env_prefix=...)
                named = {inner.arg}
            elif isinstance(inner, ast.Assign):  # class Config: env_prefix = ...
                named = {each.id for each in _names(inner.targets)}
            else:
                continue
            if "env_prefix" in named:
                prefix = _text(inner.value) or ""
            elif "case_sensitive" in named:
                as_written = isinstance(inner.value, ast.Constant) and inner.value.value is True
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                annotated = {_name(each) for each in ast.walk(statement.annotation)}
                if statement.target.id == "model_config" or "ClassVar" in annotated:
                    continue
                alias, has_default = _field(statement.value)
                own = f"{prefix}{statement.target.id}"
                name = alias or (own if as_written else own.upper())
                need = Need.OPTIONAL if has_default else Need.REQUIRED
                self._reads.append(Read(name=name, need=need, file=self._file, line=statement.lineno))

    def _models_in(self, value: ast.expr, *, named: bool) -> None:
        if not named:
            return
        for each in _leaves(value):
            text = self._constants.get(each.id) if isinstance(each, ast.Name) else _text(each)
            if text:
                self._model(each, text)

    def _model(self, node: ast.expr, text: str) -> None:
        name = _model_name(text)
        if name:
            self._models.append(NamedModel(name=name, file=self._file, line=node.lineno))

    def _set(self, key: ast.expr, value: ast.expr | None) -> None:
        name = self._key(key)
        if name:
            self._sets[name] = _text(value) or ""

    def _note(self, key: ast.expr, need: Need) -> None:
        name = self._key(key)
        if name:
            self._reads.append(Read(name=name, need=need, file=self._file, line=key.lineno))

    def _key(self, node: ast.expr) -> str | None:
        text = self._constants.get(node.id) if isinstance(node, ast.Name) else _text(node)
        return text if text and re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII) else None

    def _is_os(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._os

    def _is_environ(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._environ
        return isinstance(node, ast.Attribute) and node.attr == "environ" and self._is_os(node.value)


def _below(node: ast.AST, gently: bool) -> Iterator[_Pending]:  # noqa: FBT001 - private
    """The children of a node; what runs only where the module is a script is left out."""
    if isinstance(node, ast.If) and "__name__" in {_name(each) for each in _leaves(node.test)}:
        yield from ((child, gently) for child in node.orelse)
        return
    softened: Iterable[ast.AST] = ()
    if isinstance(node, ast.Try) and any(_catches(handler.type) for handler in node.handlers):
        softened = node.body
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        softened = node.values[:-1]
    soft = {id(each) for each in softened}
    yield from ((child, gently or id(child) in soft) for child in ast.iter_child_nodes(node))


def _catches(caught: ast.expr | None) -> bool:
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(each is None or _name(each) in _CATCH_ALL for each in kinds)


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
    keywords = {each.arg: each.value for each in value.keywords}
    aliases = (_text(keywords.get(key)) for key in ("validation_alias", "alias", "env"))
    alias = next((each for each in aliases if each), "")
    first: Any = value.args[0] if value.args else keywords.get("default")
    has_default = first is not None and not (isinstance(first, ast.Constant) and first.value is Ellipsis)
    return alias, has_default or "default_factory" in keywords


def _names(targets: Iterable[ast.expr]) -> Iterator[ast.Name]:
    return (each for each in targets if isinstance(each, ast.Name))


def _name(node: ast.AST | None) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _model_name(text: str) -> str:
    """A model's name as judges write it; "" for what names none that is known."""
    if not text or len(text) > 200 or any(each.isspace() for each in text):
        return ""
    prefix, colon, rest = text.partition(":")
    if colon and "/" not in prefix:  # openai:gpt-4o
        text = f"{_OTHER_PREFIXES.get(prefix, prefix)}/{rest}"
    return text if models.parse_name(text).client else ""


# --- agents of other frameworks ------------------------------------------------------------------


MADE_BY = {
    "langgraph": ("langgraph", "langchain"),
    "pydantic-ai": ("pydantic_ai",),
    "openai-agents": ("agents",),
    "smolagents": ("smolagents",),
}
"""The modules whose functions and classes make an agent, by driver."""

MAKERS = {
    "langgraph": frozenset({"compile", "create_react_agent", "create_agent", "create_supervisor"}),
    "pydantic-ai": frozenset({"Agent"}),
    "openai-agents": frozenset({"Agent"}),
    "smolagents": frozenset({"CodeAgent", "ToolCallingAgent", "MultiStepAgent"}),
}
_TESTS = ("test_", "conftest")


def find_frameworks(files: Iterable[str], read: ReadText) -> Iterator[AgentUse]:
    """The agents that modules of these files make, tests left out, by their driver and the options that name them."""
    for file in files:
        name = PurePosixPath(file).name
        if not file.endswith(".py") or name.startswith(_TESTS) or "tests/" in file:
            continue
        text = read(file) or ""
        if not any(module in text for modules in MADE_BY.values() for module in modules):
            continue
        module = parse(text)
        if module is not None:
            yield from _made_in(module, file)


def _made_in(module: ast.Module, file: str) -> Iterator[AgentUse]:
    imported = {
        name.partition(".")[0]
        for node in module.body
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }
    for driver, modules in MADE_BY.items():
        if imported.isdisjoint(modules):
            continue
        for statement in module.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                func, target = statement.value.func, statement.targets[0]
                maker = str(getattr(func, "attr", getattr(func, "id", "")))
                if maker in MAKERS[driver] and isinstance(target, ast.Name):
                    path, dotted = _importable(file)
                    options = {"call": f"{dotted}:{target.id}", **({} if path == "." else {"path": path})}
                    yield AgentUse(driver=driver, options=options)


def _importable(file: str) -> tuple[str, str]:
    """The folder to import a module from, and its name there: the root or `src`, unless a folder is no identifier."""
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    folder, parts = ("src", parts[1:]) if parts[0] == "src" and len(parts) > 1 else (".", parts)
    if all(part.isidentifier() for part in parts):
        return folder, ".".join(parts)
    return str(PurePosixPath(file).parent), PurePosixPath(file).stem
