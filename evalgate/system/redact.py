"""Secrets taken out of what a child says, before anybody reads it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
SHORTEST_SECRET = 8
PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
"""In an address, as databases and brokers have them."""


def is_named(name: str) -> bool:
    """Whether a variable is named like a secret."""
    return any(word in name.upper() for word in SECRET_WORDS)


def redactor_of_files(environment: Mapping[str, str]) -> Callable[[str], str]:
    """`redactor` for files of JSON and HTML, where a secret may be spelled otherwise."""
    ways: tuple[Callable[[str], str], ...] = (str, lambda text: json.dumps(text, ensure_ascii=False)[1:-1], html.escape)
    return redactor({f"{name} {at}": way(value) for name, value in environment.items() for at, way in enumerate(ways)})


def redactor(environment: Mapping[str, str]) -> Callable[[str], str]:
    """A function that writes `***` over the values of variables that are named like secrets, and over passwords in
    addresses; each line of a long one counts. Short ones would hide innocent words."""
    secrets = [value for name, value in environment.items() if is_named(name)]
    passwords = (found for value in environment.values() for found in PASSWORD.findall(value))
    secrets += [found for found in passwords if not found.isalpha()]  # `postgres` is a word
    lines = {line.strip() for secret in secrets for line in (secret, *secret.splitlines())}
    values = [line for line in lines if len(line) >= SHORTEST_SECRET]
    if not values:
        return str
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    pattern = re.compile("|".join(re.escape(value) for value in longest_first))
    return lambda text: pattern.sub("***", text)
