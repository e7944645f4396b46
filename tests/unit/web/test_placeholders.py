"""Filling in requests and headers."""

from typing import Any

import pytest

from evalgate.web import placeholders

VALUES = {"text": 'say "hi" {state}', "state": {"a": [1, None]}, "turn": 2, "messages": [{"role": "user"}]}


@pytest.mark.parametrize(
    ("shape", "filled"),
    [
        ("{text}", 'say "hi" {state}'),  # a value is not filled in again
        ("{state}", {"a": [1, None]}),  # alone: the value itself
        ("turn {turn}: {state}", 'turn 2: {"a": [1, null]}'),  # within a text: as JSON
        ({"q": "{text}", "n": "{turn}", "deep": [{"s": "{state}"}]}, None),
        ("{unknown} { text } {}", "{unknown} { text } {}"),  # the user's own braces
        (5, 5),
        (None, None),
        ({"{turn}": True}, {"2": True}),
    ],
)
def test_a_shape_is_filled_in(shape: Any, filled: Any) -> None:
    if isinstance(shape, dict) and filled is None:
        filled = {"q": 'say "hi" {state}', "n": 2, "deep": [{"s": {"a": [1, None]}}]}
    assert placeholders.fill(shape, VALUES) == filled


def test_every_name_in_a_shape_is_found() -> None:
    assert placeholders.names_in({"{a}": ["{b} {c}", {"x": "{d}"}], "e": 1}) == {"a", "b", "c", "d"}


def test_variables_are_expanded_once() -> None:
    assert placeholders.expand("Bearer ${KEY}!", {"KEY": "${OTHER}"}) == "Bearer ${OTHER}!"


def test_an_absent_variable_is_named() -> None:
    with pytest.raises(KeyError, match="NOPE"):
        placeholders.expand("${NOPE}", {"HOME": "/"})
