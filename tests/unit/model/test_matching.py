"""Matchers, subsets, and partners among two lists."""

import re
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, strategies as st

from evalgate.model import json_match
from evalgate.model.json_match import MISSING, Matcher
from evalgate.system import patterns
from evalgate.values import matches_any


@pytest.mark.parametrize(
    ("matcher", "actual", "expected", "holds"),
    [
        ({"exact": 1}, 1.0, 2, True),
        ({"exact": 1}, "1", 1, False),
        ({"exact": None}, None, 1, True),
        ({"exact": None}, MISSING, 1, False),
        ({"regex": "^Par"}, "Paris", "x", True),
        ({"regex": "ris$"}, "Paris", "x", True),
        ({"regex": "par"}, "Paris", "x", False),
        ({"regex": "1"}, 1, "x", False),  # a number is no text
        ({"regex": "ris$"}, "Paris\n", "x", True),  # as in Python
        ({"regex": "(?=P)Par"}, "Paris", "x", True),
        ({"regex": "(?=e)end$"}, "x" * 5000 + "end", "x", True),  # the whole text is looked at
        ({"regex": "ab"}, "\ud800ab", "x", True),  # half a character
        ({"contains": "ari"}, "Paris", "x", True),
        ({"contains": 1}, [0, 1], "x", True),
        ({"contains": "a"}, {"a": 1}, "x", False),
        ({"contains": 1}, "1", "x", False),
        # in floats the distance is 0.09999999999999998 or the like
        ({"number_tolerance": 0.1}, 0.3, 0.2, True),
        ({"number_tolerance": 0.1}, 0.8, 0.7, True),  # and here 0.10000000000000009
        ({"number_tolerance": 0.1}, 0.31, 0.2, False),
        ({"number_tolerance": 0}, 10**400, 10**400, True),
        ({"number_tolerance": 1}, True, 1, False),  # true is no number
        ({"number_tolerance": 1}, float("nan"), 1, False),
        ({"number_tolerance": 1}, 1, MISSING, False),
        ({"any": True}, None, 1, True),
        ({"any": True}, MISSING, 1, False),
        ({"ignore": True}, MISSING, 1, True),
        ({"ignore": True}, 5, MISSING, True),
    ],
)
def test_matchers(matcher: dict[str, Any], actual: Any, expected: Any, holds: bool) -> None:
    assert json_match.holds(Matcher.model_validate(matcher), actual, expected) is holds


@pytest.mark.parametrize(
    "regex",
    [
        "(",
        "(" * 5000 + ")" * 5000,  # deeper than a stack
        "[\0-\uffff]" * 20_000,  # each set takes hundredths of a second
    ],
)
def test_what_is_no_expression_is_told(regex: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "LONGEST_SEARCH_S", 0.2)
    with pytest.raises(ValueError, match="a regular expression"):
        Matcher(regex=regex)


LETTERS = st.text("abc. \n", max_size=12)
PATTERNS = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            ".",
            "\\s",
            "[ab]",
            "[^a]",
            "(a|b)",
            "(?:ab)?",
            "a+?",
            "b*",
            "^",
            "$",
            "\\b",
            "(?=a)",
            "(?!b)",
        ]
    ),
    max_size=5,
).map("".join)


@given(PATTERNS, LETTERS)
def test_patterns_are_those_of_python(pattern: str, text: str) -> None:
    assert json_match.holds(Matcher(regex=pattern), text, "x") is (
        re.search(pattern, text) is not None
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from("ab"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(JSON)
def test_everything_includes_itself(value: Any) -> None:
    assert json_match.includes(value, value)


@given(st.dictionaries(st.sampled_from("xyz"), JSON), st.dictionaries(st.sampled_from("uvw"), JSON))
def test_more_keys_never_hurt_a_subset_and_always_hurt_equality(expected: Any, more: Any) -> None:
    both = expected | more
    assert json_match.includes({"in": both}, {"in": expected})
    assert json_match.entries_differing(both, expected, matchers={}, subset=True) == []
    assert json_match.entries_differing(both, expected, matchers={}, subset=False) == list(more)


@given(st.dictionaries(st.sampled_from("xyz"), JSON), st.dictionaries(st.sampled_from("xyz"), JSON))
def test_without_tolerance_entries_differ_exactly_where_python_says_so(
    actual: Any, expected: Any
) -> None:
    differing = json_match.entries_differing(actual, expected, matchers={}, subset=False)
    assert (not differing) == (actual == expected)
    assert len(set(differing)) == len(differing)


@given(st.lists(st.lists(st.integers(0, 4), unique=True), max_size=5))
def test_partners_are_found_whenever_there_are_any(choices: list[list[int]]) -> None:
    possible = any(
        all(chosen in own for chosen, own in zip(order, choices, strict=False))
        for order in permutations(range(5), len(choices))
    )
    assert (json_match.first_without_partner(choices) is None) == possible


def test_many_partners_need_no_deep_stack() -> None:
    count = 1500
    assert (
        json_match.first_without_partner([[place, (place + 1) % count] for place in range(count)])
        is None
    )
    chain = [[place] for place in range(1, count)] + [list(range(count))]
    assert json_match.first_without_partner([*reversed(chain)]) is None


@pytest.mark.parametrize(
    ("name", "patterns", "named"),
    [
        ("a", ["a"], True),
        ("A", ["a"], False),
        ("delete_all", ["delete_*"], True),
        ("undelete_x", ["delete_*"], False),
    ],
)
def test_names(name: str, patterns: list[str], named: bool) -> None:
    assert matches_any(name, patterns) is named
