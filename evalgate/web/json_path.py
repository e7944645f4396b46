"""Small paths into JSON: `$.answer.parts[0].text`, `$.steps[*].tool`, `$['odd key'][-1]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]\s'"]+)|\[(?P<index>-?\d+)\]|\[(?P<all>\*)\]|\[(?P<q>['"])(?P<quoted>.*?)(?P=q)\]"""
)


class Missing:
    """There is nothing at the path; apart from null, which is something."""


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path that was read. A step is a key, an index, or None for every item (then the result is a list)."""

    text: str
    steps: tuple[str | int | None, ...]

    def find(self, value: Any) -> Any:
        """What stands at the path, or MISSING; items without it are left out behind `[*]`."""
        return _find(value, self.steps)


def parse_json_path(text: str) -> JsonPath:
    """Read a path; the `$` in front may be left out. Raises ValueError that says where it stops making sense."""
    rest = text.strip().removeprefix("$")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[str | int | None] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            raise ValueError(f"{text!r} is no path: cannot read {rest[at:]!r} (like $.answer.parts[0].text)")
        if found["all"]:
            steps.append(None)
        elif found["index"]:
            steps.append(int(found["index"]))
        else:
            steps.append(found["quoted"] if found["name"] is None else found["name"])
        at = found.end()
    return JsonPath(text, tuple(steps))


def _find(value: Any, steps: tuple[str | int | None, ...]) -> Any:
    for number, step in enumerate(steps):
        if step is None:
            if not isinstance(value, list):
                return MISSING
            found = [_find(item, steps[number + 1 :]) for item in value]
            return [item for item in found if item is not MISSING]
        value = _at(value, step)
        if value is MISSING:
            return MISSING
    return value


def _at(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and -len(value) <= step < len(value) else MISSING
    return value[step] if isinstance(value, dict) and step in value else MISSING
