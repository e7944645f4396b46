"""Changes a JSON file at one place; every other character is unchanged.

`replaced`, `inserted`, `appended` and `removed` are pure; `save` replaces the file in one step, so
that an interruption leaves the old or the new one."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path as FilePath
from typing import Any

from evalgate import errors
from evalgate.errors import ConfigError, Place, Problem, UnavailableError
from evalgate.system.files import new_file
from evalgate.text import plain
from evalgate.text.plain import BYTE_ORDER_MARK
from evalgate.values import frozen_dataclass
from .json_source import JsonFault, JsonText, Path

_UTF_16 = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


@frozen_dataclass
class Source:
    """A file: its bytes, its text, and the encoding between them."""

    path: FilePath
    data: bytes
    text: str
    encoding: str = "utf-8"


@frozen_dataclass
class ValueSpan:
    """A value in a text, with its start and end."""

    value: Any
    start: int
    end: int


def read(path: FilePath, *, shown_as: str) -> Source:
    """Read a file. Raises ConfigError if it is not text, UnavailableError if unreadable."""
    with errors.unavailable(f"{shown_as} cannot be read"):
        content = path.read_bytes()
    text = plain.decode(content, file=shown_as)
    if isinstance(text, Problem):
        raise ConfigError(str(text.message), place=Place(shown_as), hint=str(text.hint))
    encoding = next((name for mark, name in _UTF_16 if content.startswith(mark)), "utf-8")
    if encoding != "utf-8":  # the decoder returns the mark twice: as its own, and as that of UTF-8
        text = BYTE_ORDER_MARK + text.lstrip(BYTE_ORDER_MARK)
    return Source(path=path, data=content, text=text, encoding=encoding)


def save(source: Source, text: str) -> None:
    """Replace the file's content by `text`, completely or not at all, and keep its permissions.

    Raises ConfigError if the file changed since it was read, UnavailableError if it cannot be
    written or is read-only: replacing a file needs no permission to write into it."""
    # replace the target of a link, not the link
    path = FilePath(os.path.realpath(source.path))
    with errors.unavailable(f"{source.path} cannot be written"), new_file(path) as draft:
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            raise UnavailableError(f"{source.path} is read-only")
        with draft.open("xb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text.encode(source.encoding))
            file.flush()
            os.fsync(file.fileno())
        if path.read_bytes() != source.data:
            raise ConfigError(
                "was changed meanwhile", place=Place(str(source.path)), hint="Try again."
            )


def create(path: FilePath, text: str, *, root: FilePath) -> None:
    """Write a new file. Raises ConfigError if it exists already, UnavailableError if it cannot be
    created."""
    content = text.encode()
    with errors.unavailable(f"{path} cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("xb")
        except FileExistsError:
            label = path.relative_to(root) if path.is_relative_to(root) else path
            raise ConfigError(f"{label} exists already") from None
        with file:
            file.write(content)


def find(text: str, path: Path) -> ValueSpan | None:
    """The value at a path of keys and positions; for a duplicate key the last one, as in JSON
    parsers. None if there is no value, or the text is not JSON."""
    reader = JsonText(text)
    try:
        offset = reader.start()
        for step in path:
            member_offsets = reader.within(offset, step)
            if member_offsets is None:
                return None
            offset = member_offsets[1]
        return ValueSpan(value=reader.value(offset), start=offset, end=reader.end)
    except JsonFault:
        return None


def replaced(text: str, path: Path, value: Any) -> str | None:
    """The text with another value at `path`; None if it is missing."""
    span = find(text, path)
    if span is None:
        return None
    value_text = _written(text, value, start=span.start, old=text[span.start : span.end])
    return f"{text[: span.start]}{value_text}{text[span.end :]}"


def inserted(text: str, path: Path, value: Any) -> str | None:
    """The text with one more member at `path`, the last of its object. None if there is no such
    object, or if it already has that key."""
    span = find(text, path[:-1])
    key = path[-1]
    if span is None or not isinstance(span.value, dict) or key in span.value:
        return None
    name = f"{_dumps(text, key)}: "
    if not span.value:
        return f"{text[: span.start]}{{{name}{_written(text, value, start=span.start, old='')}}}{text[span.end :]}"
    last_key = list(span.value)[-1]
    last_span = find(text, (*path[:-1], last_key))
    assert last_span is not None
    indentation = _blanks_before(text, last_span.start)
    gap = f"{_newline(text)}{indentation}" if _is_on_lines(text, span.start) else " "
    value_text = _written(text, value, start=last_span.start, old="")
    return f"{text[: last_span.end]},{gap}{name}{value_text}{text[last_span.end :]}"


def put(text: str, path: Path, value: Any) -> str | None:
    """The text with this value at `path`, replaced or inserted; None if neither is possible."""
    return replaced(text, path, value) or inserted(text, path, value)


def appended(text: str, path: Path, value: Any) -> str | None:
    """The text with one more element at the end of the list at `path`; None if there is no such
    list."""
    span = find(text, path)
    if span is None or not isinstance(span.value, list):
        return None
    if not span.value:
        return f"{text[: span.start]}{_written(text, [value], start=span.start, old='')}{text[span.end :]}"
    last_span = find(text, (*path, len(span.value) - 1))
    assert last_span is not None
    on_lines = "\n" in text[span.start : last_span.start]
    gap = f"{_newline(text)}{_blanks_before(text, last_span.start)}" if on_lines else " "
    value_text = _written(
        text, value, start=last_span.start, old=text[last_span.start : last_span.end]
    )
    return f"{text[: last_span.end]},{gap}{value_text}{text[last_span.end :]}"


def removed(text: str, path: Path) -> str | None:
    """The text without the list element at `path` and its comma. None if it is missing."""
    span = find(text, path)
    number = path[-1] if path else ""
    if span is None or not isinstance(number, int):
        return None
    list_span = find(text, path[:-1])
    assert list_span is not None
    previous_span = find(text, (*path[:-1], number - 1))
    next_span = find(text, (*path[:-1], number + 1))
    if previous_span is not None:
        return f"{text[: previous_span.end]}{text[span.end :]}"
    if next_span is not None:
        return f"{text[: span.start]}{text[next_span.start :]}"
    return f"{text[: list_span.start]}[]{text[list_span.end :]}"


# --- the style of the file -----------------------------------------------------------------------


def _written(text: str, value: Any, *, start: int, old: str) -> str:
    """A value in the style of its surroundings: on one line or on several, with the same
    indentation."""
    is_long = isinstance(value, dict | list) and bool(value)
    on_lines = "\n" in old or (not old.strip("[]{} \t") and _is_on_lines(text, start))
    if not is_long or not on_lines:
        return _dumps(text, value)
    first_indent = re.search(r"\n([ \t]+)\S", text)
    indent = first_indent[1] if first_indent else "  "
    lines = _dumps(text, value, indent=indent).split("\n")
    return f"{_newline(text)}{_blanks_before(text, start)}".join(lines)


def _dumps(text: str, value: Any, *, indent: str | None = None) -> str:
    """JSON, with escapes if the file is pure ASCII and uses escapes."""
    is_escaped = text.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", text) is not None
    compact = indent is None and '": ' not in text and '":' in text
    return json.dumps(
        value, ensure_ascii=is_escaped, indent=indent, separators=(",", ":") if compact else None
    )


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _blanks_before(text: str, at: int) -> str:
    """The blanks at the beginning of the line with an offset."""
    line = text.rfind("\n", 0, at) + 1
    blanks = re.compile(r"[ \t]*").match(text, line)
    return blanks[0] if blanks else ""


def _is_on_lines(text: str, at: int) -> bool:
    """True if the object or list at an offset has its members on separate lines."""
    match = re.compile(r"[\[{][ \t]*\r?\n").match(text, at)
    return match is not None or (
        text[text.rfind("\n", 0, at) + 1 : at].count("{") == 0 and "\n" in text
    )
