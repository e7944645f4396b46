"""A cassette: the tool calls of one case and what they came to, as a file that people review."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evalgate.model import Json
from evalgate.plugins import ToolError, ToolReply
from evalgate.tools import canonical

VERSION = 1
NAME_LENGTH = 80
SUFFIXES = (".evalset.json", ".test.json", ".json", ".jsonl", ".yaml", ".yml")
TAKEN = frozenset({"test_config", "test-config"})
"""Names that mean something else beside evaluation files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded call: the `nth` (from 1) of this tool with these arguments."""

    tool: str
    args: Json
    nth: int
    reply: ToolReply

    @property
    def address(self) -> tuple[str, str, int]:
        """What a call has to equal to get this answer."""
        return self.tool, canonical.text(self.args), self.nth


class CassetteError(ValueError):
    """A file is no cassette; says why."""


class ErrorWire(BaseModel):
    """What a tool raised."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str
    message: str = ""


class CallWire(BaseModel):
    """One call in the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str
    args: dict[str, Any] = Field(default_factory=dict)
    nth: int = Field(default=1, ge=1)
    response: Any = None
    error: ErrorWire | None = None
    effects: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _response_or_error(self) -> Self:
        if ("response" in self.model_fields_set) == (self.error is not None):
            raise ValueError("a call has either `response` (which may be null) or `error`")
        return self


class CassetteWire(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    evalgate_cassette: Literal[1]
    suite: str = ""
    case: str = ""
    calls: list[CallWire]


def parse_cassette(text: str) -> tuple[Entry, ...]:
    """The entries of a cassette's text. Raises CassetteError."""
    try:
        wire = CassetteWire.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(step) for step in first["loc"])
        raise CassetteError(f"{path}: {first['msg']}" if path else first["msg"]) from None
    except (ValueError, RecursionError) as error:
        raise CassetteError(f"not JSON: {error}") from None
    entries = tuple(Entry(tool=call.tool, args=call.args, nth=call.nth, reply=_reply(call)) for call in wire.calls)
    seen: set[tuple[str, str, int]] = set()
    for number, entry in enumerate(entries):
        if entry.address in seen:
            raise CassetteError(
                f"calls.{number}: call {entry.nth} of `{entry.tool}` with these arguments is a duplicate"
            )
        seen.add(entry.address)
    return entries


def render_cassette(entries: Iterable[Entry], *, suite: str, case: str) -> str:
    """The file's text: equal entries give equal bytes, in whatever order the calls were made.

    The keys of arguments are ordered, since only their values count; those of a response stay as the tool gave them,
    since a model reads them in that order.
    """
    calls = [_json(entry) for entry in sorted(entries, key=lambda entry: entry.address)]
    return (
        json.dumps(
            {"evalgate_cassette": VERSION, "suite": suite, "case": case, "calls": calls}, ensure_ascii=False, indent=2
        )
        + "\n"
    )


def merge(first: Iterable[Entry], *others: Iterable[Entry]) -> tuple[Entry, ...]:
    """All entries; of several for one call the earliest given."""
    merged: dict[tuple[str, str, int], Entry] = {}
    for entries in (first, *others):
        for entry in entries:
            merged.setdefault(entry.address, entry)
    return tuple(merged.values())


def file_name(suite: str, case_id: str) -> str:
    """`<suite slug>/<case id>.json`: two cases never share a file, and a plain case id is its file's name."""
    stem = next((suite[: -len(suffix)] for suffix in SUFFIXES if suite.endswith(suffix)), suite)
    slug = f"{_safe(stem)[:NAME_LENGTH]}-{_digest(suite, 6)}"
    name = _safe(case_id)[:NAME_LENGTH]
    if name != case_id or name.lower() in TAKEN:
        name = f"{name}-{_digest(case_id, 8)}"
    return f"{slug}/{name}.json"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-") or "case"


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _reply(call: CallWire) -> ToolReply:
    error = ToolError(type=call.error.type, message=call.error.message) if call.error else None
    return ToolReply(response=call.response, error=error, effects=call.effects)


def _json(entry: Entry) -> Mapping[str, Any]:
    reply = entry.reply
    told: dict[str, Any] = {"tool": entry.tool, "args": canonical.ordered(entry.args), "nth": entry.nth}
    if reply.error is not None:
        told["error"] = {"type": reply.error.type, "message": reply.error.message}
    else:
        told["response"] = reply.response
    return told if not reply.effects else {**told, "effects": dict(reply.effects)}
