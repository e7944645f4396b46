"""Small paths into JSON."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.web.json_path import MISSING, parse_json_path

ANSWER = {
    "answer": {"parts": [{"text": "a"}, {"text": "b"}, {"image": 1}]},
    "odd key.": [1, [2, 3]],
    "none": None,
    "0": "a key, not an index",
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", ANSWER),
        ("", ANSWER),
        ("$.answer.parts[0].text", "a"),
        ("answer.parts[0].text", "a"),  # the $ may be left out
        ("$.answer.parts[-2].text", "b"),  # from the end
        ("$.answer.parts[*].text", ["a", "b"]),  # items without it are left out
        ("$.answer.parts[*]", ANSWER["answer"]["parts"]),  # type: ignore[index]  # the value is of many types
        ("$['odd key.'][1][0]", 2),
        ('$["odd key."][0]', 1),
        ("$['answer'].parts[2]['image']", 1),
        ("$.none", None),  # null is something
        ("$.0", "a key, not an index"),
        ("$.nothing", MISSING),
        ("$.answer.parts[7]", MISSING),
        ("$.answer.parts[-7]", MISSING),
        ("$.answer.parts.text", MISSING),  # a list has no keys
        ("$.answer[0]", MISSING),  # an object has no items
        ("$.answer[*]", MISSING),
        ("$.none.more", MISSING),
    ],
)
def test_what_stands_at_a_path(path: str, value: Any) -> None:
    assert parse_json_path(path).find(ANSWER) == value


@pytest.mark.parametrize("path", ["$..text", "$.a[", "$.a[x]", "$.a b", "$a[?(@.x)]", "$.a[1:2]", "$.", "$['a]"])
def test_what_is_no_path_is_refused_by_name(path: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        parse_json_path(path)


@given(
    st.lists(st.text(min_size=1).filter(lambda key: not set(key) & set("'\n")), min_size=1, max_size=4), st.integers()
)
def test_quoted_keys_reach_everything(keys: list[str], leaf: int) -> None:
    value: Any = leaf
    for key in reversed(keys):
        value = {key: value}
    assert parse_json_path("$" + "".join(f"['{key}']" for key in keys)).find(value) == leaf
