"""When two calls are the same call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.agents import toolbox
from evalgate.values import mapped_texts

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ARGS = st.dictionaries(st.text(), JSON, max_size=4)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        # the order of keys says nothing, at any depth
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1}, True),
        # a model writes whole numbers as it likes
        ({"n": 2}, {"n": 2.0}, True),
        ({"n": -0.0}, {"n": 0}, True),
        ({"n": 2}, {"n": 2.5}, False),
        # but a flag is no number and a number no text
        ({"n": 1}, {"n": True}, False),
        ({"n": 1}, {"n": "1"}, False),
        # the order of a list is meant
        ({"l": [1, 2]}, {"l": [2, 1]}, False),
        # null is a value, absence is none
        ({"a": None}, {}, False),
        # larger than a float can say exactly: left as they are
        ({"n": 2**60}, {"n": float(2**60)}, False),
    ],
)
def test_which_arguments_are_the_same(one: Any, other: Any, same: bool) -> None:
    assert (toolbox.args_text(one) == toolbox.args_text(other)) is same
    assert toolbox.matches(one, other) is same


@settings(max_examples=40, deadline=None)
@given(ARGS)
def test_arguments_are_the_same_after_any_json(args: dict[str, Any]) -> None:
    again = json.loads(json.dumps(dict(reversed(args.items()))))
    assert toolbox.args_text(again) == toolbox.args_text(args)
    assert toolbox.matches(args, again)


@pytest.mark.parametrize(
    ("recorded", "actual", "covered"),
    [
        # what was taken out stands for anything, in its place
        ({"key": "***"}, {"key": "another secret"}, True),
        ({"url": "https://a/?key=***&x=1"}, {"url": "https://a/?key=s3cret&x=1"}, True),
        ({"url": "https://a/?key=***&x=1"}, {"url": "https://a/?key=s3cret&x=2"}, False),
        ({"key": "***"}, {"key": 7}, False),
        # text around it is no pattern
        ({"q": "a.c ***"}, {"q": "abc x"}, False),
        ({"deep": [{"key": "***"}]}, {"deep": [{"key": "x"}]}, True),
        ({"deep": [{"key": "***"}]}, {"deep": [{"key": "x", "more": 1}]}, False),
    ],
)
def test_what_was_redacted_stands_for_anything(recorded: Any, actual: Any, covered: bool) -> None:
    assert toolbox.matches(recorded, actual) is covered


def test_redaction_reaches_keys_and_values_at_every_depth() -> None:
    value = {"a": ["x secret y", {"secret": 1}], "n": 3, "none": None}
    hidden = mapped_texts(value, lambda text: text.replace("secret", "***"))
    assert hidden == {"a": ["x *** y", {"***": 1}], "n": 3, "none": None}
