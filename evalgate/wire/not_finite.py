"""NaN and Infinity beside strict JSON, which has none: written as texts, with the places where they stand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import WithJsonSchema

Places: TypeAlias = list[list[str | int]]

NAMES: Final = ("NaN", "Infinity", "-Infinity")
"""How they are written: pydantic's words, which every float of a wire shape is read from."""

Number: TypeAlias = Annotated[float, WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": list(NAMES)}]})]
"""A number that may be none of them in memory; in a file it is a number or one of NAMES."""

_MARKS: Final = (b'"NaN"', b'Infinity"')

MOST_STEPS: Final = 100_000
"""Of all paths together that are kept for one value."""


class _Chain(NamedTuple):
    """A path whose beginning it shares with others."""

    above: _Chain | None
    step: str | int


def may_stand_in(encoded: bytes) -> bool:
    """Whether the encoding of a value (`lines.encode`) holds what may have been such a number; next to no work."""
    return any(mark in encoded for mark in _MARKS)


def places(value: Any) -> Places:
    """Paths of the numbers in a JSON-ready value that are not finite; of absurdly many only the first."""
    found: Places = []
    steps = 0
    waiting: list[tuple[_Chain | None, Any]] = [(None, value)]
    while waiting and steps < MOST_STEPS:  # no recursion: an agent's values are as deep as it likes
        chain, here = waiting.pop()
        if isinstance(here, float):
            if not math.isfinite(here):
                found.append(_path(chain))
                steps += len(found[-1])
        elif isinstance(here, Mapping):
            waiting.extend((_Chain(chain, key), each) for key, each in here.items())
        elif isinstance(here, list | tuple):
            waiting.extend((_Chain(chain, index), each) for index, each in enumerate(here))
    return found


def _path(chain: _Chain | None) -> list[str | int]:
    path: list[str | int] = []
    while chain is not None:
        path.append(chain.step)
        chain = chain.above
    return path[::-1]


def restored(value: dict[str, Any], at: Any) -> dict[str, Any]:
    """`value` with the numbers back in the places `at`; a place that holds no such text (anybody may have written the
    file) stays as it is. What changes is copied."""
    copies: dict[tuple[str | int, ...], Any] = {(): dict(value)}
    for path in at if isinstance(at, list) else ():
        if isinstance(path, list) and path and all(isinstance(step, str | int) for step in path):
            _restore(copies, path)
    made: dict[str, Any] = copies[()]
    return made


def _restore(copies: dict[tuple[str | int, ...], Any], path: list[str | int]) -> None:
    here = copies[()]
    for depth, step in enumerate(path[:-1], start=1):
        known = tuple(path[:depth])
        if known not in copies:
            below = _at(here, step)
            if not isinstance(below, dict | list):
                return
            copies[known] = here[step] = below.copy()
        here = copies[known]
    last = path[-1]
    if _at(here, last) in NAMES:
        here[last] = float(_at(here, last))


def _at(here: Any, step: str | int) -> Any:
    if isinstance(here, dict):
        return here.get(step) if isinstance(step, str) else None
    return here[step] if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < len(here) else None
