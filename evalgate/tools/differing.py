"""In words: a call that nothing answers, beside the recorded call that is nearest to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalgate.model import Json, ToolCall, call_diff
from evalgate.text import words
from evalgate.tools import canonical

MOST_NAMED = 4


def spell(tool: str, args: Json) -> str:
    """`get_weather(city="Paris")` in backticks."""
    return f"`{call_diff.spell(ToolCall(name=tool, args=args))}`"


def nearest(args: Json, recorded: Iterable[Json]) -> Json | None:
    """The recorded arguments with the fewest differences; of several the first."""
    return min(recorded, key=lambda each: len(paths(args, each)), default=None)


def paths(actual: Json, recorded: Json) -> tuple[tuple[str, str], ...]:
    """Where two calls differ, as (`differs` | `is new` | `is missing`, dotted path); objects are looked into."""
    return tuple(_paths(actual, recorded, ""))


def sentence(actual: Json, recorded: Json) -> str:
    """``argument `unit` differs``, ``arguments `a` and `b.c` differ; argument `d` is new``."""
    found = paths(actual, recorded)
    parts = []
    for what, plural in (("differs", "differ"), ("is new", "are new"), ("is missing", "are missing")):
        names = [f"`{path}`" for each, path in found if each == what]
        if names:
            noun, verb = ("argument", what) if len(names) == 1 else ("arguments", plural)
            parts.append(f"{noun} {words.listed(names, limit=MOST_NAMED)} {verb}")
    return "; ".join(parts)


def unknown_tool(tool: str, known: Sequence[str], *, verb: str) -> str:
    """``no call of `x` was recorded (recorded: `a` and `b`)``, with the nearest name where there is one."""
    if not known:
        return f"no tool call was {verb} for this case"
    close = words.nearest(tool, known, cutoff=0.75)
    names = words.listed([f"`{name}`" for name in known], limit=MOST_NAMED)
    hint = f"; did it mean `{close}`?" if close else ""
    return f"no call of `{tool}` was {verb} ({verb}: {names}){hint}"


def _paths(actual: Mapping[str, Any], recorded: Mapping[str, Any], above: str) -> Iterable[tuple[str, str]]:
    for name in dict.fromkeys([*recorded, *actual]):
        path = f"{above}{name}"
        if name not in actual:
            yield "is missing", path
        elif name not in recorded:
            yield "is new", path
        elif isinstance(recorded[name], Mapping) and isinstance(actual[name], Mapping):
            yield from _paths(actual[name], recorded[name], f"{path}.")
        elif not canonical.covers(recorded[name], actual[name]):
            yield "differs", path
