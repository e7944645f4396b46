"""Secrets taken out of what a child says, before anybody reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
SHORTEST_SECRET = 8


def is_named(name: str) -> bool:
    """Whether a variable is named like a secret."""
    return any(word in name.upper() for word in SECRET_WORDS)


def secrets_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that are named like secrets, longest first; short ones would hide innocent words."""
    found = {
        value.strip() for name, value in environment.items() if is_named(name) and len(value.strip()) >= SHORTEST_SECRET
    }
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def redactor(environment: Mapping[str, str]) -> Callable[[str], str]:
    """A function that writes `***` over every secret value of `environment`; each line of a long one counts."""
    values: set[str] = set()
    for secret in secrets_in(environment):
        values.add(secret)
        values.update(line.strip() for line in secret.splitlines() if len(line.strip()) >= SHORTEST_SECRET)
    if not values:
        return str
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    pattern = re.compile("|".join(re.escape(value) for value in longest_first))
    return lambda text: pattern.sub("***", text)
