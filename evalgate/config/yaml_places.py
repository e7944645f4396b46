"""Where in a YAML document something stands."""

from __future__ import annotations

import re
from typing import Any

import yaml

from evalgate.errors import Place

_INDEX = re.compile(r"\[(\d+)\]")


class Locator:
    """Finds the line of a path in a composed YAML document."""

    def __init__(self, node: Any, file: str) -> None:
        self._node = node
        self.file = file

    def __call__(self, *path: Any) -> Place:
        """The place of a path, or of the longest part of it that is there."""
        node, mark, shown = self._node, self._node.start_mark, "$"
        for step in path:
            if isinstance(node, yaml.MappingNode):
                found = next((pair for pair in node.value if pair[0].value == str(step)), None)
                if found is None:
                    break
                mark, node = found[0].start_mark, found[1]
                shown += f".{step}"
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                mark = node.start_mark
                shown += f"[{step}]"
            else:
                break
        return Place(file=self.file, line=mark.line + 1, column=mark.column + 1, json_path=shown)

    def find(self, json_path: str) -> Place:
        """The place of a path in words, `$.suites[0].criteria.safety_v1`; keys that hold dots are tried whole."""
        node, rest, steps = self._node, json_path.removeprefix("$"), list[str | int]()
        while rest:
            step = _next_step(node, rest)
            if step is None:
                break
            value, node, rest = step
            steps.append(value)
        return self(*steps)


def _next_step(node: Any, rest: str) -> tuple[str | int, Any, str] | None:
    """The first step of the words, where it leads, and the words after it; the longest key that fits."""
    if isinstance(node, yaml.SequenceNode) and (found := _INDEX.match(rest)) and int(found[1]) < len(node.value):
        return int(found[1]), node.value[int(found[1])], rest[found.end() :]
    if not isinstance(node, yaml.MappingNode):
        return None
    pairs = [(str(key.value), value) for key, value in node.value if rest.startswith(f".{key.value}")]
    fitting = [(key, value) for key, value in pairs if rest[len(key) + 1 :][:1] in ("", ".", "[")]
    if not fitting:
        return None
    key, value = max(fitting, key=lambda pair: len(pair[0]))
    return key, value, rest[len(key) + 1 :]


def syntax_fault(error: yaml.YAMLError, *, file: str) -> tuple[str, Place]:
    """What is wrong with a text that is no YAML, and where."""
    mark = getattr(error, "problem_mark", None)
    place = Place(file=file, line=mark.line + 1, column=mark.column + 1) if mark else Place(file=file)
    what = getattr(error, "problem", None) or str(error)
    return f"not valid YAML: {what}", place
