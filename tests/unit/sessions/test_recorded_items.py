"""Where the cases of a large file stand."""

import io
import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.agents import replay


def scan(data: bytes, chunk: int = 1024) -> replay.Scan | None:
    with mock.patch.object(replay, "CHUNK_BYTES", chunk):
        return replay.scan(io.BytesIO(data))


cases = st.lists(
    st.fixed_dictionaries({"eval_id": st.text(min_size=1), "x": st.lists(st.text() | st.floats(allow_nan=False))}),
    max_size=6,
)


@given(cases, st.booleans(), st.sampled_from([None, 2]), st.integers(min_value=1, max_value=60))
def test_each_case_is_found_byte_for_byte_however_the_file_is_read(
    written: list[dict[str, Any]], ascii_only: bool, indent: int | None, chunk: int
) -> None:
    document = {"before": [1, {"eval_cases": []}], "eval_set_id": "s\u00fc", "eval_cases": written, "after": "\u00e9"}
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    data = text.encode("utf-8", "surrogatepass")
    found = scan(data, chunk)
    assert found is not None
    assert (found.key, found.eval_set_id) == ("eval_cases", "s\u00fc")
    assert [json.loads(data[item.start : item.end]) for item in found.items] == written
    assert [item.case_id for item in found.items] == [case["eval_id"] for case in written]


def test_the_other_spelling_and_a_byte_order_mark_are_taken() -> None:
    data = b'\xef\xbb\xbf{"evalSetId":"s","evalCaseResults":[{"evalId":"a"} , {"evalId":"b"}]}\r\n'
    found = scan(data)
    assert found is not None
    assert (found.key, found.eval_set_id) == ("evalCaseResults", "s")
    assert [data[item.start : item.end] for item in found.items] == [b'{"evalId":"a"}', b'{"evalId":"b"}']


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",  # a list of turns or events
        b'{"events": []}',  # a session
        b'"{}"',  # JSON in a text
        b'{"eval_cases": [{"eval_id": 1}]}',  # unusual: who reads it in whole has more to say
        b'{"eval_cases": [{}]}',
        b'{"eval_cases": {}}',
        b'{"eval_cases": [], "eval_cases": []}',
        b'{"eval_cases": []',
        b'{"eval_cases": []} x',
        b'{"eval_cases": [{"eval_id": "a"}',
        b'{"eval_cases": [\xff]}',
        b"{1: 2}",
        b'{"type":"start"}\n{"type":"turn"}',  # one message a line
    ],
)
def test_every_other_file_is_left_to_be_read_in_whole(data: bytes) -> None:
    assert scan(data) is None
    assert scan(data, chunk=3) is None
