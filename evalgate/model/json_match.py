"""Tolerant comparison of JSON values: subsets, matchers, and partners among two lists."""

from __future__ import annotations

import enum
import fnmatch
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, Self

import regex
from pydantic import Field, field_validator, model_validator
from pydantic_core import SchemaError, SchemaValidator, core_schema

from evalgate.model.shapes import Wire
from evalgate.values import Json


class Absence(enum.Enum):
    """The value of a key that is not there; null is a value."""

    MISSING = "missing"


MISSING: Final = Absence.MISSING


class Matcher(Wire):
    """How one value is judged; exactly one of the keys is given.

    `exact`: equals this. `regex`: found in the text, as by Python's `re.search`. `contains`: a text
    within the text, or an item of the list. `number_tolerance`: no farther than this from the
    expected number. `ignore`: not looked at, may be absent. `any`: present, whatever it is."""

    exact: Any = None
    regex: str | None = None
    contains: Any = None
    number_tolerance: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    ignore: bool | None = None
    any: bool | None = None

    @field_validator("regex")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
            regex.compile(value or "")
        except (re.error, regex.error) as error:
            raise ValueError(f"a regular expression ({error})") from None
        return value

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        keys = self.model_fields_set
        if len(keys) != 1 or (keys & {"ignore", "any"} and not (self.ignore or self.any)):
            names = ", ".join(type(self).model_fields)
            raise ValueError(f"exactly one of {names}, the last two only as true")
        return self


LONGEST_SEARCH_S: Final = 2.0
"""An engine that is not linear may try every way to match a text; after so long nobody waits for
it."""


class SearchFailed(Exception):  # noqa: N818 - it says what happened
    """It is not known whether a pattern is found in a text."""


@lru_cache(maxsize=256)
def _linear(pattern: str) -> SchemaValidator | None:
    """The pattern in a linear-time engine; None if it needs lookahead, backreferences or the
    like."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None


def _is_found(pattern: str, text: str) -> bool:
    """True if the pattern is found in the text; both are untrusted. Raises SearchFailed."""
    text = text.encode("utf-8", "replace").decode()  # half characters
    linear = _linear(pattern)
    if linear is not None:
        shorter = text.removesuffix("\n")  # for Python's `$`
        return linear.isinstance_python(text) or (
            "$" in pattern and linear.isinstance_python(shorter)
        )
    try:
        return regex.search(pattern, text, timeout=LONGEST_SEARCH_S, concurrent=True) is not None
    except TimeoutError:
        length = len(text)
        most = LONGEST_SEARCH_S
        message = f"looking for the pattern {pattern[:200]!r} in {length:,} characters took longer than {most:g} s"
        raise SearchFailed(f"{message}: write it without nested repetitions") from None


def holds(matcher: Matcher, actual: Any, expected: Any) -> bool:
    """True if `actual` satisfies the matcher; MISSING means that the key is absent on that side.
    Raises SearchFailed."""
    (key,) = matcher.model_fields_set
    if actual is MISSING:
        return key == "ignore"
    agrees = True  # any, ignore
    match key:
        case "exact":
            agrees = actual == matcher.exact
        case "regex":
            agrees = isinstance(actual, str) and _is_found(matcher.regex or "", actual)
        case "contains":
            holds_items = isinstance(actual, list | tuple)
            agrees = holds_items or (isinstance(actual, str) and isinstance(matcher.contains, str))
            agrees = agrees and matcher.contains in actual
        case "number_tolerance":
            agrees = _is_number(actual) and _is_number(expected)
            if agrees:  # in decimal, as people read them: 0.3 is no farther than 0.1 from 0.2
                farthest = Decimal(repr(matcher.number_tolerance or 0.0))
                agrees = abs(Decimal(repr(actual)) - Decimal(repr(expected))) <= farthest
    return bool(agrees)


def entries_differing(
    actual: Json, expected: Json, *, matchers: Mapping[str, Matcher], subset: bool
) -> list[str]:
    """The keys whose values do not agree, expected ones first.

    A key with a matcher is judged by it. The others must be equal; with `subset`, what the expected
    side does not name is free, at every depth."""
    differing = []
    for key in dict.fromkeys([*expected, *matchers]):
        actual_value = actual.get(key, MISSING)
        expected_value = expected.get(key, MISSING)
        if (matcher := matchers.get(key)) is not None:
            agrees = holds(matcher, actual_value, expected_value)
        else:
            agrees = (
                includes(actual_value, expected_value) if subset else actual_value == expected_value
            )
        if not agrees:
            differing.append(key)
    if not subset:
        differing.extend(key for key in actual if key not in expected and key not in matchers)
    return differing


def includes(actual: Any, expected: Any) -> bool:
    """True if `actual` has all that `expected` names: mappings by key, lists item by item, others
    by equality."""
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            key in actual and includes(actual[key], value) for key, value in expected.items()
        )
    if isinstance(expected, list | tuple):
        return (
            isinstance(actual, list | tuple)
            and len(actual) == len(expected)
            and all(
                includes(actual_element, expected_element)
                for actual_element, expected_element in zip(actual, expected, strict=True)
            )
        )
    return bool(actual == expected)


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """True if the name matches a pattern; `*` and `?` are wildcards, and case matters."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def first_without_partner(choices: Sequence[Sequence[int]]) -> int | None:
    """The first item without a partner in a maximum matching; None if every item has one.

    `choices[i]` lists the partners that item i can take. Augmenting paths (Kuhn 1955), breadth
    first."""
    taken_by: dict[int, int] = {}
    partner: dict[int, int] = {}
    for start in range(len(choices)):
        reached_from: dict[int, int] = {}
        free = _free_partner(start, choices=choices, taken_by=taken_by, reached_from=reached_from)
        if free is None:
            return start
        while True:
            item = reached_from[free]
            given_up = partner.get(item)
            partner[item] = free
            taken_by[free] = item
            if given_up is None:
                break
            free = given_up
    return None


def _free_partner(
    start: int,
    *,
    choices: Sequence[Sequence[int]],
    taken_by: Mapping[int, int],
    reached_from: dict[int, int],
) -> int | None:
    queue = [start]
    for item in queue:  # it grows while it is walked
        for settings in choices[item]:
            if settings in reached_from:
                continue
            reached_from[settings] = item
            if settings not in taken_by:
                return settings
            queue.append(taken_by[settings])
    return None


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
