"""Seconds and notes of one turn."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from evalgate.worker import server
from evalgate.worker.server import TurnWatch


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [
        ([], 0),
        ([(0, 2)], 2),
        # apart, touching, overlapping, one within another, in any order
        ([(0, 1), (2, 4)], 3),
        ([(0, 1), (1, 2)], 2),
        ([(1, 3), (0, 2)], 3),
        ([(0, 10), (2, 3), (4, 5)], 10),
    ],
)
def test_overlaps_count_once(intervals: list[tuple[float, float]], seconds: float) -> None:
    assert server.seconds_of(intervals) == seconds


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20))))
def test_the_union_counts_each_second_once(pairs: list[tuple[int, int]]) -> None:
    intervals = [(float(start), float(start + length)) for start, length in pairs]
    covered = {second for start, length in pairs for second in range(start, start + length)}
    assert server.seconds_of(intervals) == len(covered)


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(server, "time", clock)
    return clock


def test_a_model_within_a_tool_counts_as_the_model(clock: Clock) -> None:
    watch = TurnWatch()
    watch.begins("tool", "tool", name="look_up")
    clock.now = 1.0
    watch.begins("model", "inner", agent="inner", request=None)
    clock.now = 3.0
    watch.ends("model", "inner", name="m")
    clock.now = 4.0
    watch.ends("tool", "tool")
    clock.now = 5.0
    assert watch.timings() == {
        "total_s": 5.0,
        "model_s": 2.0,
        "tool_s": 2.0,
        "calls": [
            {"kind": "tool", "name": "look_up", "at": 0.0, "seconds": 4.0},
            {"kind": "model", "name": "m", "at": 1.0, "seconds": 2.0},
        ],
    }


def test_a_streamed_answer_is_one_call(clock: Clock) -> None:
    watch = TurnWatch()
    watch.begins("model", "k", agent="a", request=None)
    for moment in (1.0, 2.0, 3.0):
        clock.now = moment
        watch.ends("model", "k")
    clock.now = 9.0
    watch.begins("model", "k", agent="a", request=None)
    clock.now = 10.0
    watch.ends("model", "k")
    assert watch.timings()["model_s"] == 4.0
    assert [(each["at"], each["seconds"]) for each in watch.timings()["calls"]] == [
        (0.0, 3.0),
        (9.0, 1.0),
    ]


def test_an_end_without_a_beginning_is_nothing(clock: Clock) -> None:
    watch = TurnWatch()
    watch.ends("tool", "x")
    watch.ends("model", "x")
    watch.begins("tool", "never ended", name="look_up")
    assert watch.timings() == {"total_s": 0.0, "model_s": 0.0, "tool_s": 0.0, "calls": []}


class Tool:
    def model_dump(self, **_: object) -> dict[str, object]:
        return {"function_declarations": [{"name": "typed"}]}


def look_up(city: str) -> str:
    """Look a city up."""
    return city


class Client:
    """No tool, but something that a model's library takes for some."""


def test_tools_are_told_as_objects_whatever_they_are() -> None:
    watch = TurnWatch()
    config = SimpleNamespace(tools=[Tool(), {"google_search": {}}, look_up, Client()])
    watch.begins("model", "1", agent="root", request=SimpleNamespace(config=config))
    (told,) = watch.agents(["root"])
    assert told["tool_declarations"] == [
        {"function_declarations": [{"name": "typed"}]},
        {"google_search": {}},
        {"function_declarations": [{"name": "look_up", "description": "Look a city up."}]},
        {"function_declarations": [{"name": "Client"}]},
    ]


def test_the_first_request_of_each_author_is_told() -> None:
    watch = TurnWatch()

    def request(text: str) -> SimpleNamespace:
        return SimpleNamespace(
            config=SimpleNamespace(system_instruction=text, tools=[{"function_declarations": []}])
        )

    watch.begins("model", "1", agent="root", request=request("first"))
    watch.begins("model", "2", agent="root", request=request("second"))
    watch.begins("model", "3", agent="unheard", request=request("x"))
    assert watch.agents(["tool", "root", "root"]) == [
        {
            "name": "root",
            "instructions": "first",
            "tool_declarations": [{"function_declarations": []}],
        }
    ]
