"""What an agent's source says of its needs: variables that it reads, models that it names, keys in
its `.env`. Nothing is imported or run; imports are followed within the checkout."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeAlias

from evalgate.discovery import agent_source, dotenv
from evalgate.discovery.agent_source import ImportGraph, ReadText, leaves, name_of, pairs, text_of
from evalgate.gate.doctor import VERTEX
from evalgate.judges import models
from evalgate.judges.clients import TRUE_WORDS
from evalgate.model import AgentUse
from evalgate.system import redact
from evalgate.values import Json, without

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

_GEMINI = re.compile(r"gemini-\d[\w.-]*")
_CATCH_ALL = ("KeyError", "LookupError", "Exception", "BaseException")
_OTHER_PREFIXES = {
    "google-gla": "gemini", "google_genai": "gemini", "google": "gemini",
    "google-vertex": "vertex_ai", "google_vertexai": "vertex_ai",
}  # fmt: skip
"""Providers as Pydantic AI and LangChain write them, with LiteLLM's names."""


@dataclass(slots=True, kw_only=True)
class AgentSource:
    """Facts in all modules of an agent."""

    needs: set[str] = field(default_factory=set)
    """Variables that they read without a default."""
    sets: dict[str, str] = field(default_factory=dict)
    """Variables that they set, with their texts, "" for any other value."""
    models: set[str] = field(default_factory=set)
    """Names of models, as judges write them."""
    has_own_key: bool = False
    """A model gets its key from the source."""
    logs_in: bool = False
    """The source requests credentials of Google Cloud."""
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of its `.env`."""
    samples: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of its `.env.example`."""

    @property
    def uses_vertex(self) -> bool:
        """True if google-genai uses Vertex AI, according to the `.env` or else the source; or
        according to the example."""
        flags = (
            self.values.get(VERTEX[0]) or self.sets.get(VERTEX[0], ""),
            self.samples.get(VERTEX[0], ""),
        )
        return any(flag.strip().lower() in TRUE_WORDS for flag in flags)


def of_agent(use: AgentUse, read: ReadText, *, ignored_samples: Container[str] = ()) -> AgentSource:
    """Read the source of an agent; empty if it is not Python code in the checkout.
    `ignored_samples`: variables of which a `.env.example` says nothing."""
    graph = ImportGraph(read)
    files = _start_of(use.options, graph)
    if not files:
        return AgentSource()
    folder = PurePosixPath(files[0]).parent
    source = AgentSource(
        values=_nearest((dotenv.NAME,), folder, graph.read),
        samples=without(_nearest(EXAMPLES, folder, graph.read), ignored_samples),
    )
    for file in graph.reached(files):
        module = graph.parsed(file)
        if module is not None:
            _ModuleReader(module, source).read()
        elif not file.endswith(".py"):  # an agent's YAML
            text = graph.read(file) or ""
            names = re.findall(r"(?m)^\s*(?:-\s*)?model:\s*['\"]?([\w./:-]+)", text)
            source.models |= set(map(_model_name, names)) - {""}
    return source


def _start_of(options: Json, graph: ImportGraph) -> list[str]:
    """The modules that are imported first: the agent's own before its packages."""
    path = str(options.get("path", ".")).strip("/")
    if "call" in options:
        names = str(options["call"]).partition(":")[0].split(".")
        files = [file for base in (path, ".", "src") for file in graph.below(base, names)]
        return files[::-1]
    if "path" not in options:
        return []
    if path.endswith(".py"):
        return [path]
    names = ["__init__.py", "agent.py", "root_agent.yaml", "agent/__init__.py"]
    files = [str(PurePosixPath(path, name)) for name in names]
    return [file for file in files if graph.read(file) is not None]


def _nearest(names: Iterable[str], folder: PurePosixPath, read: ReadText) -> dict[str, str]:
    """The variables of the first of these files, from a folder up to the root."""
    for path in (str(place / name) for place in (folder, *folder.parents) for name in names):
        text = read(path)
        if text is not None:
            return dotenv.parse(text)
    return {}


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
        self._constants = agent_source.constants_of(module)
        self._needs: set[str] = set()
        self._tested: set[str] = set()
        self._sets: dict[str, str] = {}

    def read(self) -> None:
        """Add the facts of the module to the source."""
        for node in agent_source.walk_blocks(
            self._module
        ):  # imports come first, because they give aliases
            for alias, level, name in agent_source.imported_names(node):
                if alias.asname or isinstance(node, ast.ImportFrom):
                    self._aliases[alias.asname or alias.name] = f"{'.' * level}{name}"
        pending: list[_Pending] = [(self._module, False)]
        while pending:
            node, is_optional = pending.pop()
            self._look(node, is_optional=is_optional)
            for name, value in pairs(node):
                self._models_in(value, name)
            pending += _below(node, is_optional=is_optional)
        self._source.needs |= self._needs - self._tested
        # a module that sets what it reads only passes it on, or asks a person for it
        self._source.sets |= {
            name: text
            for name, text in self._sets.items()
            if text or name not in self._needs | self._tested
        }

    def _look(self, node: ast.AST, *, is_optional: bool) -> None:
        match node:
            case ast.Subscript(value=value, slice=key, ctx=ast.Load()) if (
                self._dotted(value) == _ENVIRON
            ):
                self._needs |= set() if is_optional else self._key(key)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Subscript) and self._dotted(target.value) == _ENVIRON:
                        self._sets |= dict.fromkeys(self._key(target.slice), text_of(value) or "")
            case ast.Compare(left=left, comparators=[right], ops=[ast.In() | ast.NotIn()]):
                self._tested |= self._key(left) if self._dotted(right) == _ENVIRON else set()
            case ast.Call():
                self._call(node, is_optional=is_optional)
            case ast.ClassDef() if any(
                name_of(base).endswith("BaseSettings") for base in node.bases
            ):
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
            if any(
                word in name_of(node.func).lower() for word in ("model", "llm", "chat", "agent")
            ):
                for argument in arguments[:1]:
                    self._models_in(argument, "model")
            return
        default = next(
            (keyword.value for keyword in node.keywords if keyword.arg == "default"), None
        )
        default = arguments[1] if len(arguments) > 1 else default
        key = self._key(arguments[0])
        if function_name == f"{_ENVIRON}.setdefault":
            self._sets |= dict.fromkeys(key, text_of(default) or "")
        elif not is_optional:
            is_none = isinstance(default, ast.Constant) and default.value is None
            self._needs |= {name for name in key if is_none or _lacks(default, name)}
        if default is not None:
            self._models_in(default, "".join(key))

    def _settings_class(self, node: ast.ClassDef) -> None:
        """Add the fields of a pydantic-settings class as variables."""
        # also from a nested class Config
        options = {name: value for inner in ast.walk(node) for name, value in pairs(inner)}
        prefix = text_of(options.get("env_prefix")) or ""
        case_option = options.get("case_sensitive")
        is_case_sensitive = isinstance(case_option, ast.Constant) and case_option.value is True
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                annotation = {name_of(part) for part in ast.walk(statement.annotation)}
                if statement.target.id == "model_config" or "ClassVar" in annotation:
                    continue
                alias, default = _field(statement.value)
                name = f"{prefix}{statement.target.id}"
                name = alias or (name if is_case_sensitive else name.upper())
                self._needs |= {name} if _lacks(default, name) else set()

    def _models_in(self, value: ast.expr, name: str) -> None:
        """Add the models in the value of a name."""
        for leaf in leaves(value) if "model" in name.lower() else ():
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
        return ".".join([self._aliases.get(name_of(node), name_of(node)), *reversed(names)])


_READING = ("os.getenv", *(f"{_ENVIRON}.{method}" for method in ("get", "pop", "setdefault")))


def _below(node: ast.AST, *, is_optional: bool) -> Iterator[_Pending]:
    """The children of a node, without code that runs only in a script."""
    optional_nodes: Iterable[ast.AST] = ()
    if isinstance(node, ast.Try):
        kinds = [
            kind
            for handler in node.handlers
            for kind in (
                handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            )
        ]
        if any(kind is None or name_of(kind) in _CATCH_ALL for kind in kinds):
            optional_nodes = node.body
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        optional_nodes = node.values[:-1]
    optional_ids = {id(child) for child in optional_nodes}
    for child in agent_source.children(node):
        yield child, is_optional or id(child) in optional_ids


def _field(value: ast.expr | None) -> tuple[str, ast.expr | None]:
    """The variable name that a settings field sets explicitly, and its default."""
    if not isinstance(value, ast.Call) or name_of(value.func) != "Field":
        return "", value
    keywords = {keyword.arg: keyword.value for keyword in value.keywords}
    aliases = (text_of(keywords.get(key)) for key in ("validation_alias", "alias", "env"))
    default = value.args[0] if value.args else keywords.get("default")
    return next(filter(None, aliases), ""), default or keywords.get("default_factory")


def _lacks(default: ast.expr | None, name: str) -> bool:
    """True if a variable has no default; an empty one is none for a secret."""
    if not isinstance(default, ast.Constant):
        return default is None
    return default.value is Ellipsis or (not default.value and redact.is_named(name))


def _model_name(text: str) -> str:
    """A model's name as judges write it; "" if the text is not a known model."""
    if not text or len(text) > 200 or any(character.isspace() for character in text):
        return ""
    prefix, colon, name = text.partition(":")
    if colon and "/" not in prefix:  # openai:gpt-4o
        text = f"{_OTHER_PREFIXES.get(prefix, prefix)}/{name}"
    return text if models.parse_name(text).client else ""
