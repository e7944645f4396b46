"""Tolerant comparison of JSON values: subsets, matchers, and partners between two lists."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from evalgate.system import patterns
from evalgate.values import Json
from .shapes import Wire

MISSING = object()
"""The value of a missing key; null is a value."""


class Matcher(Wire):
    """A rule for one value, with exactly one key.

    `exact`: equal to this. `regex`: found in the text, as by Python's `re.search`. `contains`: a
    text within the text, or a member of the list. `number_tolerance`: at most this far from the
    expected number. `ignore`: not compared, may be absent. `any`: present, with any value."""

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
            patterns.search(value or "", ())
        except (ValueError, patterns.SearchFailed) as error:
            raise ValueError(f"a regular expression ({error})") from None
        return value

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        keys = self.model_fields_set
        if len(keys) != 1 or (keys & {"ignore", "any"} and not (self.ignore or self.any)):
            names = ", ".join(type(self).model_fields)
            raise ValueError(f"exactly one of {names}, the last two only as true")
        return self


def holds(matcher: Matcher, actual: Any, expected: Any) -> bool:
    """True if `actual` satisfies the matcher. MISSING: the key is absent on that side. Raises
    patterns.SearchFailed."""
    (key,) = matcher.model_fields_set
    if actual is MISSING:
        return key == "ignore"
    is_match = True  # any, ignore
    match key:
        case "exact":
            is_match = actual == matcher.exact
        case "regex":
            is_match = isinstance(actual, str) and any(
                patterns.search(matcher.regex or "", [actual])
            )
        case "contains":
            is_list = isinstance(actual, list | tuple)
            is_match = is_list or (isinstance(actual, str) and isinstance(matcher.contains, str))
            is_match = is_match and matcher.contains in actual
        case "number_tolerance":
            is_match = _is_number(actual) and _is_number(expected)
            if is_match:  # compared as decimals: 0.3 is at most 0.1 away from 0.2
                tolerance = Decimal(repr(matcher.number_tolerance or 0.0))
                is_match = abs(Decimal(repr(actual)) - Decimal(repr(expected))) <= tolerance
    return bool(is_match)


def entries_differing(
    actual: Json, expected: Json, *, matchers: Mapping[str, Matcher], subset: bool
) -> list[str]:
    """The keys with different values, expected keys first.

    A key with a matcher is compared by it. Other values must be equal; with `subset`, keys that the
    expected side omits may have any value, at every depth."""
    keys = []
    for key in dict.fromkeys([*expected, *matchers]):
        actual_value = actual.get(key, MISSING)
        expected_value = expected.get(key, MISSING)
        if (matcher := matchers.get(key)) is not None:
            is_match = holds(matcher, actual_value, expected_value)
        else:
            is_match = (
                includes(actual_value, expected_value) if subset else actual_value == expected_value
            )
        if not is_match:
            keys.append(key)
    if not subset:
        keys.extend(key for key in actual if key not in expected and key not in matchers)
    return keys


def includes(
    actual: Any,
    expected: Any,
    *,
    is_equal: Callable[[Any, Any], bool] = operator.eq,
    subset: bool = True,
) -> bool:
    """True if `actual` has everything in `expected`: mappings by key, lists by position, other
    values by equality. Not `subset`: mappings have no other keys."""
    fits = partial(includes, is_equal=is_equal, subset=subset)
    if isinstance(expected, Mapping):
        return (
            isinstance(actual, Mapping)
            and (subset or actual.keys() == expected.keys())
            and all(key in actual and fits(actual[key], value) for key, value in expected.items())
        )
    if isinstance(expected, list | tuple):
        return (
            isinstance(actual, list | tuple)
            and len(actual) == len(expected)
            and all(map(fits, actual, expected))
        )
    return is_equal(actual, expected)


def first_without_partner(choices: Sequence[Sequence[int]]) -> int | None:
    """The first element without a partner in a maximum matching; None if every element has one.

    `choices[i]` lists the possible partners of element i. Augmenting paths (Kuhn 1955), breadth
    first."""
    owners: dict[int, int] = {}
    partners: dict[int, int] = {}
    for start in range(len(choices)):
        sources: dict[int, int] = {}
        free_partner = _free_partner(start, choices=choices, owners=owners, sources=sources)
        if free_partner is None:
            return start
        while True:
            element = sources[free_partner]
            earlier_partner = partners.get(element)
            partners[element] = free_partner
            owners[free_partner] = element
            if earlier_partner is None:
                break
            free_partner = earlier_partner
    return None


def _free_partner(
    start: int,
    *,
    choices: Sequence[Sequence[int]],
    owners: Mapping[int, int],
    sources: dict[int, int],
) -> int | None:
    """A partner without an owner that a path of exchanges reaches from `start`; `sources` then has
    the path."""
    queue = [start]
    for element in queue:  # the list grows during the loop
        for choice in choices[element]:
            if choice in sources:
                continue
            sources[choice] = element
            if choice not in owners:
                return choice
            queue.append(owners[choice])
    return None


def _is_number(value: Any) -> bool:
    """True for finite numbers; a boolean is none."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
