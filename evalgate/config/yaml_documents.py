"""A YAML document with its places: read whole, its faults explained, keys that stand twice found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from evalgate.config import yaml_places
from evalgate.errors import Place, Problem, Severity

MOST_VALUES = 1_000_000
"""With every alias written out."""

_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a text holds; `node`: the same with its marks, for a Locator. `warnings`: keys that stand twice."""

    raw: Any
    node: Any
    warnings: tuple[Problem, ...] = ()


def load(text: str, *, file: str) -> Document | Problem:
    """The document of a text, or the error that says why there is none."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return Document(raw=None, node=None)
        if _size(node, {}, set()) > MOST_VALUES:
            return _too_deep("its aliases expand to too many values", file)
        return Document(raw=yaml.safe_load(text), node=node, warnings=tuple(_repeated(node, file)))
    except yaml.YAMLError as error:
        message, place = yaml_places.syntax_fault(error, file=file)
        return _problem("yaml-syntax", message, place)
    except RecursionError:
        return _too_deep("the values are nested too deeply", file)
    except ValueError as error:  # impossible dates and endless numbers
        return _problem("yaml-syntax", f"not valid YAML: {error}", Place(file=file))


def _size(node: Any, known: dict[int, int], above: set[int]) -> int:
    """How many values a node holds, those of aliases counted each time. Raises RecursionError for one within itself."""
    if id(node) in above:
        raise RecursionError
    if id(node) not in known:
        above.add(id(node))
        known[id(node)] = 1 + sum(_size(child, known, above) for child in _children(node))
        above.discard(id(node))
    return known[id(node)]


def _children(node: Any) -> Iterator[Any]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _repeated(top: Any, file: str) -> Iterator[Problem]:
    """A warning for each key that stands twice in one mapping, at its second place."""
    pending, done = [top], set[int]()
    while pending:
        node = pending.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        pending.extend(_children(node))
        seen: dict[tuple[str, str], int] = {}
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            mark, name = key.start_mark, (key.tag, key.value)
            if name in seen:
                yield Problem(
                    severity=Severity.WARNING,
                    code="duplicate-key",
                    message=f"duplicate key `{key.value[:60]}` (first on line {seen[name]}); the last value is used",
                    place=Place(file=file, line=mark.line + 1, column=mark.column + 1),
                    hint="Delete one.",
                )
            seen[name] = mark.line + 1


def _problem(code: str, message: str, place: Place) -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, place=place)


def _too_deep(message: str, file: str) -> Problem:
    return _problem("yaml-too-deep", message, Place(file=file, line=1))
