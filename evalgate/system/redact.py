"""Secrets removed from a child's output, before anybody reads it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Iterable, Iterator
from urllib.parse import quote

from evalgate.values import Environ, Redactor

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
"""A variable with one of them in its name holds a secret, in upper or lower case."""
SHORTEST_SECRET = 8
"""In characters: shorter values would hide ordinary words."""
SHORTEST_PART = 12
"""The length of a part of a secret that distinguishes it from other words; shorter parts are
useless."""
MARK = "***"
"""Replaces a secret."""
PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
"""In an address, as for databases and brokers."""
_ADDRESS_START = re.compile(r"~|\.{0,2}/|[A-Za-z][\w+.-]*://|[A-Za-z]:\\")
"""The beginning of a path or an address is not specific."""
_CUT_AFTER = re.compile(r"\s*(?:\[?\.\.\.|\u2026|[\"'\\<]|\Z)")
"""Follows the beginning of a secret that is cut off."""
_CUT_BEFORE = re.compile(r"(?:\.\.\.\]?|\u2026|[\"'>])\s*\Z")
"""Precedes the end of a secret whose beginning is cut off."""


def is_named(name: str) -> bool:
    """True if a variable has the name of a secret."""
    return any(word in name.upper() for word in SECRET_WORDS)


def redactor_of_files(environment: Environ) -> Redactor:
    """`redactor` for other programs' texts, which may spell a secret as in JSON, HTML, an address
    or Markdown."""
    spellings = (
        lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
        lambda secret: json.dumps(secret)[1:-1],
        html.escape,
        quote,
    )
    secrets = _secrets(environment)
    redact_plain = _redactor(secrets | {spell(secret) for secret in secrets for spell in spellings})
    if not secrets:
        return redact_plain
    markdown_pattern = re.compile(
        "|".join(_in_markdown(secret) for secret in sorted(secrets, key=len, reverse=True))
    )
    plain_secrets = {_without_markup(secret) for secret in secrets}

    def redact(text: str) -> str:
        """The text without secrets in any spelling."""
        text = redact_plain(text)
        plain = _without_markup(text)  # the pattern is slow, and a report long
        if any(secret in plain for secret in plain_secrets):
            return markdown_pattern.sub(MARK, text)
        return text

    return redact


def redactor(environment: Environ, secrets: Iterable[str] = ()) -> Redactor:
    """A function that replaces the values of variables with names of secrets, and passwords in
    addresses, by `***`; also each line of a long value, and parts at a cut. Short values would hide
    ordinary words. `secrets`: more secrets."""
    named_secrets = {f"SECRET_{number}": secret for number, secret in enumerate(secrets)}
    return _redactor(_secrets(environment) | _secrets(named_secrets))


_BETWEEN = "[\\\\\u200b]*"
"""Characters that our Markdown puts before and between characters, so that nothing is a mark, a
link or a mention."""


def _without_markup(text: str) -> str:
    """The text without the characters that Markdown and HTML put around others."""
    for mark in ("\\", "\u200b", "<span>", "</span>"):
        text = text.replace(mark, "")
    return html.unescape(text)


def _in_markdown(text: str) -> str:
    """A pattern for a text in our Markdown: each character as it is, as HTML, or in a span."""
    spellings = (
        {character, html.escape(character), f"<span>{character}</span>"} for character in text
    )
    return _BETWEEN.join(
        f"(?:{'|'.join(map(re.escape, sorted(spelling)))})" for spelling in spellings
    )


def _secrets(environment: Environ) -> set[str]:
    """The values that are secrets, and their lines, without short ones."""
    secrets = [text for name, text in environment.items() if is_named(name)]
    # the lines of a service account's key, which only exist after parsing
    secrets += [secret for text in secrets for secret in _secrets_in_json(text)]
    passwords = (password for text in environment.values() for password in PASSWORD.findall(text))
    # `postgres` is a word
    secrets += [password for password in passwords if not password.isalpha()]
    lines = {line.strip() for secret in secrets for line in (secret, *secret.splitlines())}
    return {line for line in lines if len(line) >= SHORTEST_SECRET}


def _secrets_in_json(text: str) -> Iterator[str]:
    """The texts of a JSON object under names of secrets."""
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return
    if isinstance(document, dict):
        yield from (
            secret
            for name, secret in document.items()
            if is_named(name) and isinstance(secret, str)
        )


def _redactor(secrets: Collection[str]) -> Redactor:
    """The function that removes these secrets, and parts of long ones at cuts."""
    if not secrets:
        return str
    longest_first = sorted(secrets, key=lambda secret: (-len(secret), secret))
    pattern = re.compile("|".join(re.escape(secret) for secret in longest_first))
    long_secrets = [
        secret
        for secret in longest_first
        if len(secret) > SHORTEST_PART and not _ADDRESS_START.match(secret)
    ]
    return lambda text: _without_parts(pattern.sub(MARK, text), long_secrets)


def _without_parts(text: str, secrets: Collection[str]) -> str:
    """Remove the beginnings and ends of secrets at cuts."""
    for secret in secrets:
        pieces = list[str]()
        position = 0
        for start, end in sorted([*_cut_starts(text, secret), *_cut_ends(text, secret)]):
            if start >= position:
                pieces += (text[position:start], MARK)
                position = end
        text = "".join((*pieces, text[position:])) if pieces else text
    return text


def _cut_starts(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Where a text has the beginning of a secret that is cut off: start and end."""
    end = 0
    while (start := text.find(secret[:SHORTEST_PART], end)) >= 0:
        end = start + SHORTEST_PART
        while text[end : end + 1] == secret[end - start : end - start + 1] != "":
            end += 1
        if _CUT_AFTER.match(text, end):
            yield start, end


def _cut_ends(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Where a text has the end of a secret whose beginning is cut off: start and end."""
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
