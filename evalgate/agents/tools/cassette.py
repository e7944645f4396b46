"""A cassette: the tool calls of one case and their results, as a file that people review."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias

from pydantic import Field, ValidationError, model_validator

from evalgate.agents.base import ToolFile, ToolReply
from evalgate.model import ToolCall, call_diff, shapes
from evalgate.text import words
from evalgate.values import Json, JsonObject, canonical_text, digest_of, mapped_json

VERSION = 1
MAX_EXACT_FLOAT = 2.0**53
"""Below it a float represents every whole number exactly."""
MAX_LEVELS = 150
"""Levels of nested objects and lists in a cassette."""
MAX_LISTED = 4
"""Names in a message."""
NAME_LENGTH = 80
SUFFIXES = (".evalset.json", ".test.json", ".json", ".jsonl", ".yaml", ".yml")
RESERVED_NAMES = frozenset({"test_config", "test-config"})
"""File names that mean something else in a folder of evaluation files."""
REDACTED = "***"


def args_text(args: Json) -> str:
    """Arguments as one text, with sorted keys. Whole numbers are equal however they are written
    (2.0 is 2)."""
    return canonical_text(mapped_json(args, _whole_as_integer))


def matches(recorded: Any, actual: Any) -> bool:
    """True if two values are equal. `***` in a recorded text matches any removed text."""
    if isinstance(recorded, str) and REDACTED in recorded:
        return isinstance(actual, str) and _has_pieces(recorded.split(REDACTED), actual)
    if isinstance(recorded, Mapping):
        return (
            isinstance(actual, Mapping)
            and recorded.keys() == actual.keys()
            and all(matches(member, actual[key]) for key, member in recorded.items())
        )
    if isinstance(recorded, list | tuple):
        return (
            isinstance(actual, list | tuple)
            and len(recorded) == len(actual)
            and all(
                matches(recorded_member, member)
                for recorded_member, member in zip(recorded, actual, strict=True)
            )
        )
    # as arguments, so that 2 equals 2.0
    return args_text({"": recorded}) == args_text({"": actual})


def _has_pieces(pieces: Sequence[str], text: str) -> bool:
    """True if a text consists of the pieces in this order, with any text between them."""
    prefix, *inner_pieces, suffix = map(re.escape, pieces)
    # the first place of a piece leaves the most room for the others: no other place is tried
    inner_patterns = (f"(?>.*?{piece})" for piece in inner_pieces)
    pattern = "".join((prefix, *inner_patterns, ".*", suffix))
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _whole_as_integer(value: Any) -> Any:
    """A whole float as an integer; other values are unchanged."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT_FLOAT
    return int(value) if is_whole else value


def spell_call(tool: str, args: Json) -> str:
    """A call such as `get_weather(city="Paris")`, in backticks."""
    return f"`{call_diff.spell(ToolCall(name=tool, args=args))}`"


def nearest_args(args: Json, recorded: Iterable[Json]) -> Json | None:
    """The recorded arguments with the fewest differences; the first if several have the fewest."""
    return min(
        recorded, key=lambda candidate: len(list(changed_args(args, candidate))), default=None
    )


def difference(actual: Json, recorded: Json) -> str:
    """The differences in words, such as ``argument `unit` differs`` or ``arguments `a` and `b.c`
    differ; argument `d` is new``."""
    changes = list(changed_args(actual, recorded))
    phrases = []
    for kind, plural in (
        ("differs", "differ"),
        ("is new", "are new"),
        ("is missing", "are missing"),
    ):
        names = [f"`{path}`" for change, path in changes if change == kind]
        if names:
            noun, verb = ("argument", kind) if len(names) == 1 else ("arguments", plural)
            phrases.append(f"{noun} {words.listed(names, limit=MAX_LISTED)} {verb}")
    return "; ".join(phrases)


def unknown_tool_message(tool: str, tools: Sequence[str]) -> str:
    """The message ``no call of `x` was recorded (recorded: `a` and `b`)``, with the nearest name,
    if there is one."""
    if not tools:
        return "no tool call was recorded for this case"
    nearest_tool = words.nearest(tool, tools, cutoff=0.75)
    names = words.listed([f"`{name}`" for name in tools], limit=MAX_LISTED)
    hint = f", the nearest is `{nearest_tool}`" if nearest_tool else ""
    return f"no call of `{tool}` was recorded (recorded: {names}){hint}"


def changed_args(actual: Json, recorded: Json, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The differences of two calls, as (`differs` | `is new` | `is missing`, dotted path). Objects
    are compared by their keys."""
    for name in dict.fromkeys([*recorded, *actual]):
        path = f"{prefix}{name}"
        if name not in actual:
            yield "is missing", path
        elif name not in recorded:
            yield "is new", path
        elif isinstance(recorded[name], Mapping) and isinstance(actual[name], Mapping):
            yield from changed_args(actual[name], recorded[name], f"{path}.")
        elif not matches(recorded[name], actual[name]):
            yield "differs", path


class CassetteError(ValueError):
    """A file is not a valid cassette. The message is the reason."""


CallKey: TypeAlias = tuple[str, str, int]
"""A tool, the text of its arguments, and the number of the call among those that are equal."""


class RecordedCall(ToolReply, ToolFile):
    """One recorded call: the `nth` (from 1) of this tool with these arguments."""

    tool: str
    args: JsonObject = Field(default_factory=dict)
    nth: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _has_answer(self) -> Self:
        if ("response" in self.model_fields_set) == (self.error is not None):
            raise ValueError("a call has either `response` (which may be null) or `error`")
        return self

    @property
    def key(self) -> CallKey:
        """The key by which a call finds this answer."""
        return self.tool, args_text(self.args), self.nth


Calls: TypeAlias = tuple[RecordedCall, ...]


class CassetteWire(ToolFile):
    """The file."""

    evalgate_cassette: Literal[1]
    suite: str = ""
    case: str = ""
    calls: Calls


def parse_cassette(text: str) -> Calls:
    """The entries of a cassette's text. Raises CassetteError."""
    try:
        raw = json.loads(text)
        wire = CassetteWire.model_validate(raw)
    except ValidationError as error:
        raise CassetteError(words.fault_with_place(error.errors()[0])) from None
    except (ValueError, RecursionError) as error:
        raise CassetteError(f"not JSON: {error}") from None
    if shapes.is_deep(raw, levels=MAX_LEVELS):
        raise CassetteError("the values are nested too deeply")
    keys: set[CallKey] = set()
    for index, entry in enumerate(wire.calls):
        if entry.key in keys:
            raise CassetteError(
                f"calls.{index}: call {entry.nth} of `{entry.tool}` with these arguments is a duplicate"
            )
        keys.add(entry.key)
    return wire.calls


def render_cassette(entries: Iterable[RecordedCall], *, suite: str, case: str) -> str:
    """The file's text. Equal entries give equal bytes, whatever the order of the calls.

    The keys of arguments are sorted, because only their values count. Those of a response keep the
    tool's order, because a model reads them in that order."""
    calls = []
    for entry in sorted(entries, key=lambda entry: entry.key):
        args = json.loads(json.dumps(entry.args, sort_keys=True))
        call = {"tool": entry.tool, "args": args, "nth": entry.nth}
        calls.append(call | entry.outcome())
    file = {"evalgate_cassette": VERSION, "suite": suite, "case": case, "calls": calls}
    return json.dumps(file, ensure_ascii=False, indent=2) + "\n"


def merge(*groups: Iterable[RecordedCall]) -> Calls:
    """The entries of all groups. Of several entries for one call, the first counts."""
    merged: dict[CallKey, RecordedCall] = {}
    for entry in itertools.chain(*groups):
        merged.setdefault(entry.key, entry)
    return tuple(merged.values())


def file_name(suite: str, case_id: str) -> str:
    """The file `<suite slug>/<case id>.json`. Two cases never share a file, and a plain case id is
    the name of its file."""
    stem = next((suite[: -len(suffix)] for suffix in SUFFIXES if suite.endswith(suffix)), suite)
    slug = f"{_plain_name(stem)[:NAME_LENGTH]}-{digest_of(suite, 6)}"
    name = _plain_name(case_id)[:NAME_LENGTH]
    if name != case_id or name.lower() in RESERVED_NAMES:
        name = f"{name}-{digest_of(case_id, 8)}"
    return f"{slug}/{name}.json"


def _plain_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-") or "case"
