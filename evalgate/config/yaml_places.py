"""Where in a YAML document something stands."""

from __future__ import annotations

from typing import Any

import yaml

from evalgate.errors import Place


class Locator:
    """Finds the line of a path in a composed YAML document."""

    def __init__(self, node: Any, file: str) -> None:
        self._node = node
        self._file = file

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
        return Place(file=self._file, line=mark.line + 1, column=mark.column + 1, json_path=shown)


def syntax_fault(error: yaml.YAMLError, *, file: str) -> tuple[str, Place]:
    """What is wrong with a text that is no YAML, and where."""
    mark = getattr(error, "problem_mark", None)
    place = Place(file=file, line=mark.line + 1, column=mark.column + 1) if mark else Place(file=file)
    what = getattr(error, "problem", None) or str(error)
    return f"not valid YAML: {what}", place
