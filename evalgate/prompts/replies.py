"""Reading a judge's reply: JSON wherever it stands in the text, else `key: value` lines that it does not quote; labels
as words, whatever capitals, quotes, bold markers or code fences they came in."""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any

_MOST_STARTS = 500
_DECODER = json.JSONDecoder(strict=False)
_LINE = re.compile(r"^[\s>*_#`\-\u2022\"'{,\d.)]*(?P<key>[A-Za-z][A-Za-z _]{0,40}?)[\s*_`\"']*[:\uff1a](?P<value>.*)$")
_NO_WORDS = re.compile(r"[\W_]*(?:json)?[\W_]*", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_SEPARATORS = re.compile(r"[\s\-_]+")
_LEADING = re.compile(r"^[\W_]+")
_REASONED = re.compile(r"^([^,.;:(\u2013\u2014]*)[,.;:(\u2013\u2014]+(.*)$", re.DOTALL)
_REASON = frozenset({"", "as", "because", "since"})
_MARKUP = re.compile(r"[*`]+")


def objects(text: str) -> list[dict[str, Any]]:
    """Every outermost JSON object of a text, in order; Python's single-quoted form is read where JSON's is not."""
    found, place, starts = [], text.find("{"), 0
    while place >= 0 and starts < _MOST_STARTS:
        starts += 1
        value, end = _object_at(text, place)
        if value is not None:
            found.append(value)
        place = text.find("{", end)
    if not found and "{" in text:
        value, _ = _object_at(_in_json(text[text.index("{") :]), 0)
        found = [value] if value is not None else []
    return found


def entries(text: str, *, key: str) -> list[dict[str, Any]]:
    """Every object, however deep it stands, that has `key` (in any case); keys are lowered."""
    return [entry for value in objects(text) for entry in _holding(value, key)]


def rows(text: str) -> list[tuple[str, str]]:
    """The lines that have words, as key and value: keys lowered with `_` for spaces, list marks and bold taken off.

    The key of prose is "".
    """
    made = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if found:
            made.append((_SEPARATORS.sub("_", found["key"].strip().lower()), found["value"].strip()))
        elif not _NO_WORDS.fullmatch(line):
            made.append(("", line))
    return made


def outer_lines(text: str, *, keys: Collection[str]) -> list[str]:
    """What stands under one of the keys in the first and in the last line of a reply, of those with words.

    A line in the middle may be one that the judge quotes from what it judges.
    """
    found = rows(text)
    return [value for key, value in [*found[:1], *found[1:][-1:]] if key in keys]


def lines(text: str, *, known: Collection[str], label: str) -> list[tuple[str, str]]:
    """The `key: value` lines of a reply that speaks of several things.

    None where the line of a label is followed by one that has no `known` key: it is quoted, as far as anybody can tell.
    """
    found = rows(text)
    if any(key == label and after not in known for (key, _), (after, _) in itertools.pairwise(found)):
        return []
    return [row for row in found if row[0]]


def label(value: Any, labels: Collection[str]) -> str | None:
    """Which of the labels (lower case, `_` between words) a value is; None: none of them.

    A reason may follow it (`Yes, because ...`) that speaks of no other label. All else may take it back: `valid? no`,
    `yes, but ...` and `yes, were it not for ...` are no labels.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return None
    text = _MARKUP.sub(" ", unicodedata.normalize("NFKC", value)).casefold()
    alone, _, reason = _REASONED.sub(r"\1\n\2", _LEADING.sub("", text), count=1).partition("\n")
    word, spoken = ("_".join(_WORD.findall(each)) for each in (alone, reason))
    others = any(f"_{each}_" in f"_{spoken}_" for each in labels if each != word)
    return None if word not in labels or others or spoken.partition("_")[0] not in _REASON else word


def prose(entry: Mapping[str, Any], *keys: str) -> str:
    """The first text among the keys of an entry; empty where there is none."""
    return next((value.strip() for key in keys if isinstance(value := entry.get(key), str) and value.strip()), "")


def said(value: Any) -> str:
    """A value that is none of the labels, as it was written, short enough to be shown."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _object_at(text: str, place: int) -> tuple[dict[str, Any] | None, int]:
    """The JSON object at `place` and where it ends; None and the next place where there is none."""
    try:
        value, end = _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, place + 1
    return (value, end) if isinstance(value, dict) else (None, place + 1)


def _in_json(text: str) -> str:
    """JSON of Python's spelling: single quotes, True, None, a comma before a closing bracket."""
    return "".join(_respelt(token[0]) for token in _TOKEN.finditer(text))


def _respelt(token: str) -> str:
    if token.startswith("'") and len(token) > 1:
        inner = re.sub(r"\\.|\"", lambda found: _ESCAPES.get(found[0], found[0]), token[1:-1], flags=re.DOTALL)
        return f'"{inner}"'
    if token.startswith(("'", '"')):
        return token
    named = re.sub(r"\b(True|False|None)\b", lambda found: _PYTHON[found[0]], token)
    return re.sub(r",(\s*[}\]])", r"\1", named)


_TOKEN = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^\"']+|[\"']", re.DOTALL)
_ESCAPES = {"\\'": "'", '"': '\\"'}
_PYTHON = {"True": "true", "False": "false", "None": "null"}


def _holding(value: Any, key: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        lowered = {str(name).strip().lower(): each for name, each in value.items()}
        if key in lowered:
            yield lowered
        value = [each for name, each in lowered.items() if name != key]
    if isinstance(value, list):
        for each in value:
            yield from _holding(each, key)
