"""The cassette as a file: what is written is read back, and equal recordings are equal bytes."""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.agents import toolbox
from evalgate.agents.base import ToolError
from evalgate.agents.toolbox import CassetteError, RecordedCall

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ANSWERED = partial(
    st.builds,
    RecordedCall,
    tool=st.text(min_size=1, max_size=5),
    args=st.dictionaries(st.text(), JSON, max_size=3),
    nth=st.integers(min_value=1, max_value=3),
)
ENTRIES = st.lists(
    ANSWERED(response=JSON)
    | ANSWERED(
        error=st.builds(ToolError, type=st.text(min_size=1), message=st.text()),
        effects=st.none() | st.dictionaries(st.text(), JSON, min_size=1, max_size=2),
    ),
    max_size=6,
    unique_by=lambda entry: entry.key,
)


def call(city: str, nth: int = 1, response: Any = None) -> RecordedCall:
    return RecordedCall(tool="weather", args={"city": city}, nth=nth, response=response)


@settings(max_examples=40, deadline=None)
@given(ENTRIES)
def test_what_is_written_is_read_back(entries: list[RecordedCall]) -> None:
    text = toolbox.render_cassette(entries, suite="s", case="c")
    again = toolbox.parse_cassette(text)
    assert {entry.key: entry for entry in again} == {entry.key: entry for entry in entries}


@settings(max_examples=40, deadline=None)
@given(ENTRIES, st.randoms(use_true_random=False))
def test_the_order_of_calls_does_not_change_the_file(
    entries: list[RecordedCall], shuffle: random.Random
) -> None:
    text = toolbox.render_cassette(entries, suite="s", case="c")
    shuffled = list(entries)
    shuffle.shuffle(shuffled)
    assert toolbox.render_cassette(shuffled, suite="s", case="c") == text
    assert toolbox.render_cassette(toolbox.parse_cassette(text), suite="s", case="c") == text


def test_a_file_for_people() -> None:
    entry = RecordedCall(
        tool="weather",
        args={"unit": "C", "city": "Köln"},
        nth=1,
        response={"t": 1, "a": 2},
    )
    text = toolbox.render_cassette([entry], suite="w.evalset.json", case="rain")
    assert "Köln" in text
    assert text.endswith("}\n")
    told = json.loads(text)["calls"][0]
    assert list(told["args"]) == ["city", "unit"]  # ordered: only their values count
    # as the tool gave them: a model reads them in this order
    assert list(told["response"]) == ["t", "a"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "dictionary"),
        ('{"calls": []}', "evalgate_cassette"),
        ('{"evalgate_cassette": 2, "calls": []}', "evalgate_cassette"),
        ('{"evalgate_cassette": 1, "calls": [{"args": {}, "response": 1}]}', "calls.0.tool"),
        # an answer that is missing is no null
        ('{"evalgate_cassette": 1, "calls": [{"tool": "t"}]}', "either `response`"),
        (
            '{"evalgate_cassette": 1, "calls": [{"tool": "t", "response": 1, "error": {"type": "E"}}]}',
            "either",
        ),
        (
            '{"evalgate_cassette": 1, "calls": [{"tool": "t", "response": 1, "reponse": 2}]}',
            "reponse",
        ),
        # two answers for one call
        (
            (
                '{"evalgate_cassette": 1, "calls": [{"tool": "t", "args": {"n": 1}, "response": 1},'
                ' {"tool": "t", "args": {"n": 1.0}, "response": 2}]}'
            ),
            "calls.1: call 1 of `t`",
        ),
    ],
)
def test_what_is_no_cassette_says_why(text: str, words: str) -> None:
    with pytest.raises(CassetteError) as error:
        toolbox.parse_cassette(text)
    assert words in str(error.value)


def test_of_two_recordings_of_a_call_the_first_given_counts() -> None:
    merged = toolbox.merge(
        [call("Oslo", response=1)], [call("Oslo", response=2), call("Oslo", 2, 3)]
    )
    assert [entry.response for entry in merged] == [1, 3]


@pytest.mark.parametrize(
    ("case_id", "name"),
    [
        ("renew_loan-2", "renew_loan-2.json"),  # a plain id is its file's name
        ("a/b", "a-b-c14cddc0.json"),
        ("", "case-e3b0c442.json"),
        # names that mean something else to ADK and to the discovery
        ("test_config", "test_config-"),
        ("x.test", "x-test-"),
        ("../../etc/passwd", "etc-passwd-"),
    ],
)
def test_a_case_has_a_file_of_its_own(case_id: str, name: str) -> None:
    folder, file = toolbox.file_name("evals/loans.evalset.json", case_id).split("/")
    assert folder.startswith("evals-loans-")
    assert file.startswith(name.removesuffix(".json"))
    assert file.endswith(".json")
    assert not file.endswith(".test.json")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(), st.text()), min_size=2, max_size=2, unique=True))
def test_two_cases_never_share_a_file(cases: list[tuple[str, str]]) -> None:
    one, other = (toolbox.file_name(suite, case_id) for suite, case_id in cases)
    assert one != other
    assert one.count("/") == 1


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=3))
def test_an_address_is_found_again_by_equal_arguments(args: dict[str, Any]) -> None:
    entry = RecordedCall(tool="t", args=args, nth=1, response=None)
    assert entry.key[1] == toolbox.args_text(json.loads(json.dumps(args)))
