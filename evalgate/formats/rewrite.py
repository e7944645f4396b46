"""Changes a JSON file at one place: every other character of it stays as it was.

`replaced`, `inserted`, `appended` and `removed` are pure; `save` puts the file in place of the old
one at once, so that whoever is killed leaves one of the two."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Any

from evalgate.errors import ConfigError, Place, Problem, UnavailableError
from evalgate.formats.json_source import JsonFault, JsonText, Path
from evalgate.text import plain
from evalgate.text.plain import BYTE_ORDER_MARK
from evalgate.values import frozen_dataclass

_UTF_16 = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


@frozen_dataclass
class Source:
    """A file as it was read: its bytes, its text, and how the one is the other."""

    path: FilePath
    data: bytes
    text: str
    encoding: str = "utf-8"


@frozen_dataclass
class ValueSpan:
    """A value in a text: its start and its end."""

    value: Any
    start: int
    end: int


def read(path: FilePath, *, shown_as: str) -> Source:
    """Read a file. Raises ConfigError if it is not text, UnavailableError if unreadable."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnavailableError(f"{shown_as} cannot be read: {error.strerror or error}") from error
    text = plain.decode(data, file=shown_as)
    if isinstance(text, Problem):
        raise ConfigError(text.message, place=Place(file=shown_as), hint=text.hint)
    encoding = next((name for mark, name in _UTF_16 if data.startswith(mark)), "utf-8")
    if encoding != "utf-8":  # the decoder gives the mark twice: as its own, and as that of UTF-8
        text = BYTE_ORDER_MARK + text.lstrip(BYTE_ORDER_MARK)
    return Source(path=path, data=data, text=text, encoding=encoding)


def save(source: Source, text: str) -> None:
    """Replace the file by `text`, whole or not at all, with the permissions that it has.

    Raises ConfigError if the file was changed since it was read, UnavailableError if it cannot be
    written or is read-only: replacing a file needs no right to write into it."""
    # what a link leads to is changed, and the link stays
    path = FilePath(os.path.realpath(source.path))
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            raise UnavailableError(f"{source.path} is read-only")
        with beside.open("xb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text.encode(source.encoding))
            file.flush()
            os.fsync(file.fileno())
        if path.read_bytes() != source.data:
            raise ConfigError(
                "was changed meanwhile", place=Place(file=str(source.path)), hint="Try again."
            )
        beside.replace(path)
    except OSError as error:
        raise UnavailableError(
            f"{source.path} cannot be written: {error.strerror or error}"
        ) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def create(path: FilePath, text: str, *, root: FilePath) -> None:
    """Write a new file. Raises ConfigError if it exists already, UnavailableError if it cannot be
    made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        label = path.relative_to(root) if path.is_relative_to(root) else path
        raise ConfigError(f"{label} exists already") from None
    except OSError as error:
        raise UnavailableError(f"{path} cannot be written: {error.strerror or error}") from error


def find(text: str, path: Path) -> ValueSpan | None:
    """The value at a path of keys and positions; for a duplicate key the last one, which counts.
    None if there is no value, or the text is not JSON."""
    reader = JsonText(text)
    try:
        at = reader.start()
        for part in path:
            inside = reader.within(at, part)
            if inside is None:
                return None
            at = inside[1]
        return ValueSpan(value=reader.value(at), start=at, end=reader.end)
    except JsonFault:
        return None


def replaced(text: str, path: Path, value: Any) -> str | None:
    """The text with another value at `path`; None if it is missing."""
    span = find(text, path)
    if span is None:
        return None
    spelled = _spelled(text, value, start=span.start, old=text[span.start : span.end])
    return f"{text[: span.start]}{spelled}{text[span.end :]}"


def inserted(text: str, path: Path, value: Any) -> str | None:
    """The text with one more member at `path`, the last of its object. None if there is no such
    object, or it has that key."""
    span = find(text, path[:-1])
    key = path[-1]
    if span is None or not isinstance(span.value, dict) or key in span.value:
        return None
    name = f"{_dumps(text, key)}: "
    if not span.value:
        return f"{text[: span.start]}{{{name}{_spelled(text, value, start=span.start, old='')}}}{text[span.end :]}"
    last = list(span.value)[-1]
    last_span = find(text, (*path[:-1], last))
    assert last_span is not None
    lead = _lead(text, last_span.start)
    gap = f"{_newline(text)}{lead}" if _is_on_lines(text, span.start) else " "
    spelled = _spelled(text, value, start=last_span.start, old="")
    return f"{text[: last_span.end]},{gap}{name}{spelled}{text[last_span.end :]}"


def put(text: str, path: Path, value: Any) -> str | None:
    """The text with this value at `path`, replaced or inserted; None where neither is possible."""
    return replaced(text, path, value) or inserted(text, path, value)


def appended(text: str, path: Path, value: Any) -> str | None:
    """The text with one more item, the last, in the list at `path`; None if there is no such
    list."""
    span = find(text, path)
    if span is None or not isinstance(span.value, list):
        return None
    if not span.value:
        return f"{text[: span.start]}{_spelled(text, [value], start=span.start, old='')}{text[span.end :]}"
    last = find(text, (*path, len(span.value) - 1))
    assert last is not None
    on_lines = "\n" in text[span.start : last.start]
    gap = f"{_newline(text)}{_lead(text, last.start)}" if on_lines else " "
    spelled = _spelled(text, value, start=last.start, old=text[last.start : last.end])
    return f"{text[: last.end]},{gap}{spelled}{text[last.end :]}"


def removed(text: str, path: Path) -> str | None:
    """The text without the item of a list at `path`, and without the comma that it no longer needs.
    None if it is missing."""
    span = find(text, path)
    number = path[-1] if path else ""
    if span is None or not isinstance(number, int):
        return None
    items = find(text, path[:-1])
    assert items is not None
    previous_span = find(text, (*path[:-1], number - 1)) if number else None
    next_span = find(text, (*path[:-1], number + 1))
    if previous_span is not None:
        return f"{text[: previous_span.end]}{text[span.end :]}"
    if next_span is not None:
        return f"{text[: span.start]}{text[next_span.start :]}"
    return f"{text[: items.start]}[]{text[items.end :]}"


# --- as the file is written ----------------------------------------------------------------------


def _spelled(text: str, value: Any, *, start: int, old: str) -> str:
    """A value as its surroundings are written: on one line or on several, indented alike."""
    is_long = isinstance(value, dict | list) and bool(value)
    on_lines = "\n" in old or (not old.strip("[]{} \t") and _is_on_lines(text, start))
    if not is_long or not on_lines:
        return _dumps(text, value)
    lines = _dumps(text, value, indent=_unit(text)).split("\n")
    return f"{_newline(text)}{_lead(text, start)}".join(lines)


def _dumps(text: str, value: Any, *, indent: str | None = None) -> str:
    """JSON, with escapes if the file is pure ASCII and uses escapes."""
    is_escaped = text.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", text) is not None
    compact = indent is None and '": ' not in text and '":' in text
    return json.dumps(
        value, ensure_ascii=is_escaped, indent=indent, separators=(",", ":") if compact else None
    )


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _lead(text: str, at: int) -> str:
    """The blanks at the beginning of the line of a place."""
    line = text.rfind("\n", 0, at) + 1
    blanks = re.compile(r"[ \t]*").match(text, line)
    return blanks[0] if blanks else ""


def _unit(text: str) -> str:
    """By how much the file is indented: what its first indented line begins with."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _is_on_lines(text: str, at: int) -> bool:
    """True if the object or list around a place has its members on separate lines."""
    match = re.compile(r"[\[{][ \t]*\r?\n").match(text, at)
    return match is not None or (
        text[text.rfind("\n", 0, at) + 1 : at].count("{") == 0 and "\n" in text
    )


def pointer(path: Sequence[str | int]) -> str:
    """A path as a JSON pointer (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
