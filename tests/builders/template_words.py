"""Templates whose every word is written in letters that nothing else uses, so that a test sees
which words of a report are theirs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import types
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any
from unittest import mock

from jinja2 import Environment, nodes

from evalgate.errors import Problem
from evalgate.model import AgentFailure
from evalgate.reports import comment, phrases
from evalgate.text import templates

UNITS = frozenset(["of", "and", "more", "to", "over", "min", "points"])
"""What text/words.py writes around numbers and between names."""
FULL_WIDTH = {
    ord(letter): ord(letter) + 0xFEE0 for letter in map(chr, range(0x41, 0x7B)) if letter.isalpha()
}
MARKUP = re.compile(r"`[^`]*`|\bevalgate \w+(?: --\w+)?|\]\([^)]*\)|</?\w+>|&#?\w+;")
"""Code, commands, addresses, tags and escaped characters."""
CODE = re.compile(r"(%[\d.]*[a-z]|\{[^{}]*\}|`[^`]*`)")
"""Placeholders, and names that stay what they are in every language."""
QUOTING = (AgentFailure, Problem)
"""Values whose messages quote what was seen."""
SENTENCES = frozenset({"message", "reason", "lacking", "why", "notes", "problem", "cause"})
"""Fields of all other values that say what came of a run."""


@contextlib.contextmanager
def marked() -> Iterator[None]:
    """Inside, all words of reports' templates are in full-width letters."""
    caches = (comment._line, phrases._constant)
    with mock.patch.object(templates.Template, "macros", property(functools.cache(_load))):
        for cache in caches:
            cache.cache_clear()
        yield
    for cache in caches:
        cache.cache_clear()


def latin(text: str) -> frozenset[str]:
    """Its words of two Latin letters and more in lower case, markup left out."""
    return frozenset(re.findall(r"[A-Za-z]{2,}", MARKUP.sub(" ", text).lower()))


def sentences() -> list[str]:
    """The names of all sentences: macros, texts and tables of words."""
    name = "sentences.txt.j2"
    return [
        node.name if isinstance(node, nodes.Macro) else node.target.name
        for node in _tree(_environment(name), name).body
        if isinstance(node, (nodes.Macro, nodes.Assign))
    ]


def data_of(value: object) -> frozenset[str]:
    """All words of two Latin letters and more in the texts of a value, without our sentences."""
    if isinstance(value, str):
        return frozenset(re.findall(r"[A-Za-z]{2,}", value))
    if dataclasses.is_dataclass(value):
        skipped = frozenset() if isinstance(value, QUOTING) else SENTENCES
        fields = (field.name for field in dataclasses.fields(value))
        parts: list[object] = [getattr(value, name) for name in fields if name not in skipped]
    elif isinstance(value, Mapping):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, types.BuiltinMethodType):  # transcripts: the `get` of a dictionary
        parts = [value.__self__]
    else:
        parts = list(value) if isinstance(value, (tuple, list, set, frozenset)) else []
    return frozenset().union(*map(data_of, parts))


def _environment(name: str) -> Environment:
    return templates._environment("evalgate.reports", name.split(".")[1])


def _tree(environment: Environment, name: str) -> nodes.Template:
    assert environment.loader is not None
    return environment.parse(environment.loader.get_source(environment, name)[0])


def _load(template: templates.Template) -> Any:
    environment = _environment(template.name)
    environment.globals.update(template.names)
    return environment.template_class.from_code(
        environment, _compiled(template.name), environment.globals
    ).module


@functools.cache
def _compiled(name: str) -> CodeType:
    """Compiling takes longer than all else that a report takes."""
    environment = _environment(name)
    tree = _tree(environment, name)
    _mark(tree)
    return environment.compile(tree)


def _mark(node: nodes.Node) -> None:
    if isinstance(node, nodes.TemplateData):
        node.data = _full_width(node.data)
    for child in node.iter_child_nodes():
        if (
            isinstance(child, nodes.Const)
            and isinstance(child.value, str)
            and _is_text(child, node)
        ):
            child.value = _full_width(child.value)
        _mark(child)


def _is_text(child: nodes.Const, parent: nodes.Node) -> bool:
    """Whether a string is shown, and not compared or looked up."""
    shows = (nodes.Assign, nodes.CondExpr, nodes.Concat, nodes.Or, nodes.Output)
    if isinstance(parent, nodes.Pair):
        return child is parent.value
    if isinstance(parent, nodes.Filter):
        return parent.name in ("counted", "format", "link")
    return isinstance(parent, (*shows, nodes.Getattr)) or bool(re.search(r"[ (]", child.value))


def _full_width(text: str) -> str:
    pieces = CODE.split(text)
    return "".join(
        piece if at % 2 else piece.translate(FULL_WIDTH) for at, piece in enumerate(pieces)
    )
