"""Secrets taken out of what a child says, before anybody reads it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from urllib.parse import quote

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
SHORTEST_SECRET = 8
SHORTEST_PART = 12
"""Of a secret that was cut: so much tells it from other words, and less is of no use to anybody."""
MARK = "***"
PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
"""In an address, as databases and brokers have them."""
_PLACE = re.compile(r"~|\.{0,2}/|[A-Za-z][\w+.-]*://|[A-Za-z]:\\")
"""A path or an address begins like many others."""
_CUT_BEHIND = re.compile(r"\s*(?:\[?\.\.\.|\u2026|[\"'\\<]|\Z)")
_CUT_BEFORE = re.compile(r"(?:\.\.\.\]?|\u2026|[\"'>])\s*\Z")


def is_named(name: str) -> bool:
    """True if a variable is named like a secret."""
    return any(word in name.upper() for word in SECRET_WORDS)


def redactor_of_files(environment: Mapping[str, str]) -> Callable[[str], str]:
    """`redactor` for other programs' texts, which may spell a secret as in JSON, HTML, an address
    or Markdown."""
    ways: tuple[Callable[[str], str], ...] = (_in_json, html.escape, quote)
    secrets = _secrets(environment)
    take_out = _redactor(secrets | {way(secret) for secret in secrets for way in ways})
    if not secrets:
        return take_out
    escaped = re.compile(
        "|".join(_in_markdown(secret) for secret in sorted(secrets, key=len, reverse=True))
    )
    bare = {_bare(secret) for secret in secrets}

    def without(text: str) -> str:
        text = take_out(text)
        there = _bare(text)  # the pattern is slow, and a report long
        return escaped.sub(MARK, text) if any(secret in there for secret in bare) else text

    return without


def redactor(environment: Mapping[str, str]) -> Callable[[str], str]:
    """A function that writes `***` over the values of variables that are named like secrets, and
    over passwords in addresses; each line of a long one counts, and what a cut left of one. Short
    ones would hide innocent words."""
    return _redactor(_secrets(environment))


_BETWEEN = "[\\\\\u200b]*"
"""What our Markdown puts before and between characters, so that nothing is a mark, a link or a
mention."""


def _bare(text: str) -> str:
    """Without what Markdown and HTML put around characters."""
    for mark in ("\\", "\u200b", "<span>", "</span>"):
        text = text.replace(mark, "")
    return html.unescape(text)


def _in_markdown(text: str) -> str:
    """A pattern for a text in our Markdown: each character as it is, or as HTML or a span has
    it."""
    ways = ({character, html.escape(character), f"<span>{character}</span>"} for character in text)
    return _BETWEEN.join(f"(?:{'|'.join(map(re.escape, sorted(way)))})" for way in ways)


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _secrets(environment: Mapping[str, str]) -> set[str]:
    secrets = [value for name, value in environment.items() if is_named(name)]
    # a service account's key, whose lines nobody sees before it is read
    secrets += [secret for value in secrets for secret in _in_object(value)]
    passwords = (password for value in environment.values() for password in PASSWORD.findall(value))
    # `postgres` is a word
    secrets += [password for password in passwords if not password.isalpha()]
    lines = {line.strip() for secret in secrets for line in (secret, *secret.splitlines())}
    return {line for line in lines if len(line) >= SHORTEST_SECRET}


def _in_object(text: str) -> Iterator[str]:
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict):
        yield from (
            secret for name, secret in value.items() if is_named(name) and isinstance(secret, str)
        )


def _redactor(secrets: Collection[str]) -> Callable[[str], str]:
    if not secrets:
        return str
    longest_first = sorted(secrets, key=lambda value: (-len(value), value))
    pattern = re.compile("|".join(re.escape(value) for value in longest_first))
    long = [
        value for value in longest_first if len(value) > SHORTEST_PART and not _PLACE.match(value)
    ]
    return lambda text: _without_parts(pattern.sub(MARK, text), long)


def _without_parts(text: str, secrets: Collection[str]) -> str:
    """Remove the beginnings and ends of secrets at the places of a cut."""
    for secret in secrets:
        pieces = list[str]()
        position = 0
        for start, end in sorted([*_begun(text, secret), *_ended(text, secret)]):
            if start >= position:
                pieces += (text[position:start], MARK)
                position = end
        text = "".join((*pieces, text[position:])) if pieces else text
    return text


def _begun(text: str, secret: str) -> Iterator[tuple[int, int]]:
    end = 0
    while (start := text.find(secret[:SHORTEST_PART], end)) >= 0:
        end = start + SHORTEST_PART
        while text[end : end + 1] == secret[end - start : end - start + 1] != "":
            end += 1
        if _CUT_BEHIND.match(text, end):
            yield start, end


def _ended(text: str, secret: str) -> Iterator[tuple[int, int]]:
    end = 0
    while (position := text.find(secret[-SHORTEST_PART:], end)) >= 0:
        start = position
        end = position + SHORTEST_PART
        while (
            start > 0 and end - start < len(secret) and text[start - 1] == secret[start - 1 - end]
        ):
            start -= 1
        if start == 0 or _CUT_BEFORE.search(text[max(start - 5, 0) : start]):
            yield start, end
