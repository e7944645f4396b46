"""A YAML document with the places of its values, explained errors, and warnings about duplicate
keys."""

from __future__ import annotations

import re
from typing import Any

import yaml

from evalgate import errors
from evalgate.errors import Place, Problem
from evalgate.values import frozen_dataclass

MOST_LEVELS = 100
MOST_VALUES = 1_000_000
"""The most values, with every alias expanded."""

MOST_NUMBER = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")
_MERGE = "tag:yaml.org,2002:merge"


@frozen_dataclass
class YamlDocument:
    """The content of a text."""

    raw: Any
    places: Locator
    """Finds the position of a path in it."""
    warnings: tuple[Problem, ...] = ()
    """Of duplicate keys."""


class Loader(yaml.SafeLoader):
    """PyYAML's loader, which stops at deep nesting, because it would take quadratic time, and at a
    value that contains itself. Raises RecursionError.

    `size`: the number of composed values, with every alias expanded. `duplicates`: repeated keys of
    mappings, each with the line of the key before it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.levels = 0
        self.size = 0
        self.duplicates: list[tuple[yaml.ScalarNode, int]] = []
        self._sizes: dict[yaml.Node | None, int] = {}

    def fetch_flow_collection_start(self, token_class: Any) -> None:
        """As in PyYAML."""
        if self.flow_level >= MOST_LEVELS:
            raise RecursionError
        super().fetch_flow_collection_start(token_class)

    def compose_node(self, parent: Any, index: Any) -> Any:
        """As in PyYAML."""
        self.levels += 1
        if self.levels > MOST_LEVELS:
            raise RecursionError
        is_alias = self.check_event(yaml.AliasEvent)
        start = self.size
        node = super().compose_node(parent, index)
        self.levels -= 1
        if not is_alias:
            self.size += 1
            self._sizes[node] = self.size - start
        elif node in self._sizes:
            self.size += self._sizes[node]
        else:
            raise RecursionError
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        """As in PyYAML."""
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                name = (key.tag, key.value)
                if name in lines:
                    self.duplicates.append((key, lines[name]))
                lines[name] = key.start_mark.line + 1
        return node


class JsonLoader(Loader):
    """Reads only JSON's types: a date remains text."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """As in PyYAML, without dates."""
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return (
            "tag:yaml.org,2002:str" if tag == "tag:yaml.org,2002:timestamp" and implicit[0] else tag
        )


def load(text: str, *, file: str, loader_type: type[Loader] = Loader) -> YamlDocument | Problem:
    """The document of a text, or the error that prevents it."""
    try:
        loader = loader_type(text)
        node = loader.get_single_node()
        places = Locator(node, file)
        if node is None:
            return YamlDocument(raw=None, places=places)
        if loader.size > MOST_VALUES:
            return errors.error(
                "yaml-too-deep", "its aliases expand to too many values", Place(file, 1)
            )
        warnings = tuple(
            errors.warning(
                "duplicate-key",
                f"duplicate key `{key.value[:60]}` (first on line {line}); the last value is used",
                _place_of(key.start_mark, file),
                "Delete one.",
            )
            # a mapping ends after those in it
            for key, line in sorted(
                loader.duplicates, key=lambda repetition: repetition[0].start_mark.index
            )
        )
        raw = loader.construct_document(node)
        return YamlDocument(raw=raw, places=places, warnings=warnings)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = _place_of(mark, file) if mark else Place(file)
        return errors.error(
            "yaml-syntax", f"not valid YAML: {getattr(error, 'problem', None) or error}", place
        )
    except RecursionError:
        return errors.error("yaml-too-deep", "the values are nested too deeply", Place(file, 1))
    except ValueError as error:  # invalid dates and infinite numbers
        return errors.error("yaml-syntax", f"not valid YAML: {error}", Place(file))


def quoted(text: str) -> str:
    """A text as a double-quoted scalar on one line."""
    scalar: str = yaml.safe_dump(text, default_style='"', width=float("inf"))
    return scalar.rstrip("\n")


def unusable(value: Any) -> str:
    """The flaw, at any depth, that makes a setting unusable in a file, process or report; "" if
    there is none."""
    level = [value]
    for _ in range(MOST_LEVELS):
        texts = [member for member in level if isinstance(member, str)]
        if any("\0" in text for text in texts):
            return "contains the character U+0000"
        if any(_SURROGATE.search(text) for text in texts):
            return "contains half a character (a lone surrogate)"
        if any(isinstance(member, int) and abs(member) > MOST_NUMBER for member in level):
            return "contains a number that is too large"
        parents, level = level, []
        for parent in parents:
            if isinstance(parent, dict):
                level += (*parent, *parent.values())
            elif isinstance(parent, list | tuple | set | frozenset):
                level += parent
    return "is nested too deeply" if level else ""


def _place_of(mark: yaml.Mark, file: str, json_path: str = "") -> Place:
    return Place(file, mark.line + 1, column=mark.column + 1, json_path=json_path)


class Locator:
    """Finds the line of a path in a composed YAML document."""

    def __init__(self, node: Any, file: str) -> None:
        self.node = node
        self.file = file

    def __call__(self, *path: Any) -> Place:
        """The place of a path, or of its longest part that exists."""
        node = self.node
        if node is None:
            return Place(self.file, 1)
        mark = node.start_mark
        json_path = "$"
        for step in path:
            if isinstance(node, yaml.MappingNode):
                member = next((pair for pair in node.value if pair[0].value == str(step)), None)
                if member is None:
                    break
                mark = member[0].start_mark
                node = member[1]
                json_path += f".{step}"
            elif (
                isinstance(node, yaml.SequenceNode)
                and isinstance(step, int)
                and step < len(node.value)
            ):
                node = node.value[step]
                mark = node.start_mark
                json_path += f"[{step}]"
            else:
                break
        return _place_of(mark, self.file, json_path)
