"""Lines that the worker writes and reads."""

from __future__ import annotations

import io
import json
import math
import os
from typing import Any

import pytest
from hypothesis import given, strategies as st

from evalgate.worker import pipe
from evalgate.worker.pipe import Pipe

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers() | st.floats(), inner)
        | st.tuples(inner)
    ),
    max_leaves=10,
)


def refuse(token: str) -> None:
    raise AssertionError(token)


@given(ANYTHING)
def test_everything_becomes_one_line_of_strict_json(value: Any) -> None:
    line = pipe.encode({"type": "event", "value": value})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line.decode("utf-8"), parse_constant=refuse)["type"] == "event"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_json_passes_unchanged(value: Any) -> None:
    assert json.loads(pipe.encode({"value": value})) == {"value": value}


def test_a_lone_surrogate_is_escaped() -> None:
    assert json.loads(pipe.encode({"x": "a\ud83d"}))["x"] == "a\ud83d"


def test_circles_and_depth_end() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert set(json.loads(pipe.encode({"x": circle}))) == {"x"}
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert set(json.loads(pipe.encode({"x": deep}))) == {"x"}


class Odd:
    def __repr__(self) -> str:
        raise ValueError

    model_dump = 7


def test_what_has_no_repr_has_its_type() -> None:
    assert json.loads(pipe.encode({"x": Odd(), "y": math.inf}))["x"] == "<Odd>"


def test_messages_are_read_line_by_line() -> None:
    source = io.BufferedReader(io.BytesIO(b'{"type": "hello"}\n\n  \n{"type": "bye"}'))
    assert [message["type"] for message in Pipe(source, -1).messages()] == ["hello", "bye"]


@pytest.mark.parametrize("line", [b"[1]\n", b"nonsense\n", b"\xff\xfe\n"])
def test_what_is_no_message_raises(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the kinds of json's errors differ
        list(Pipe(io.BufferedReader(io.BytesIO(line)), -1).messages())


def test_large_messages_are_written_whole(tmp_path: Any) -> None:
    descriptor = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)
    Pipe(io.BufferedReader(io.BytesIO()), descriptor).send({"x": "y" * 3_000_000})
    os.close(descriptor)
    assert len(json.loads((tmp_path / "out").read_bytes())["x"]) == 3_000_000


def test_what_is_held_is_written_with_the_next_message_and_in_order(tmp_path: Any) -> None:
    out = tmp_path / "out"
    descriptor = os.open(out, os.O_CREAT | os.O_WRONLY)
    held = Pipe(io.BufferedReader(io.BytesIO()), descriptor)
    held.keep({"n": 1})
    held.keep({"n": 2})
    assert out.read_bytes() == b""
    held.send({"n": 3})
    held.send({"n": 4})
    held.keep(
        {"n": 5, "x": "y" * pipe.BUFFER_BYTES}
    )  # so much is not held: a flood must be noticed
    os.close(descriptor)
    assert [json.loads(line)["n"] for line in out.read_bytes().splitlines()] == [1, 2, 3, 4, 5]
