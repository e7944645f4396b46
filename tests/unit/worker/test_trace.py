"""What a trace of ADK's objects leaves out."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

from evalgate.worker import trace


class Told:
    """What was told, entry by entry."""

    def __init__(self) -> None:
        self._entries: dict[int, dict[str, Any]] = {}

    def __call__(self, message: dict[str, Any]) -> None:
        json.dumps(message)
        self._entries.setdefault(message["number"], {}).update(message["entry"])

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [entry for _, entry in sorted(self._entries.items())]


def request(*texts: str, **config: str) -> Any:
    made = type("Config", (SimpleNamespace,), {"model_fields": dict.fromkeys(config)})(
        tools=None, **config
    )
    return SimpleNamespace(model="m", config=made, contents=list(texts))


class Model(SimpleNamespace):
    def model_dump(self, **_: Any) -> dict[str, Any]:
        return dict(self.__dict__)


def test_credentials_that_an_agent_asks_for_are_not_recorded() -> None:
    secret = {"call-1": {"oauth2": {"client_secret": "c-1", "access_token": "t-1"}}}
    actions = Model(requested_auth_configs=secret, state_delta={"paid": True})
    told = Told()
    recorder = trace.Recorder(0.0, told)
    recorder.event(
        SimpleNamespace(author="desk", id="e", content=Model(parts=[]), actions=actions), at=0.1
    )
    assert told.entries[0]["actions"] == {
        "requested_auth_configs": "***",
        "state_delta": {"paid": True},
    }


def test_a_request_is_told_at_once_and_again_as_it_was_sent() -> None:
    """What callbacks and google-adk change in each request after it was told is no news of the next
    one."""
    told = Told()
    recorder = trace.Recorder(0.0, told)
    for texts in (("hello",), ("hello", "five")):
        asked = request(*texts, instruction="be brief")
        recorder.begin("model", "key", agent="desk", request=asked)
        assert told.entries[-1]["request"]["contents"] == [texts[-1]]
        asked.config.instruction = "be brief, labelled"
        recorder.end("model", "key", response="yes")
    first, second = (entry["request"] for entry in told.entries)
    assert first == {
        "model": "m",
        "config": {"instruction": "be brief, labelled"},
        "contents": ["hello"],
    }
    assert second == {"same": 1, "contents": ["five"]}


def test_requests_of_one_agent_side_by_side_are_each_told_by_the_one_before() -> None:
    told = Told()
    recorder = trace.Recorder(0.0, told)
    both = [request("hello", name) for name in ("one", "two")]
    for name, asked in zip("ab", both, strict=True):
        recorder.begin("model", name, agent="desk", request=asked)
    both[0].contents[0] = "changed"
    for name in "ab":
        recorder.end("model", name, response=name)
    first, second = told.entries
    assert [
        *first["request"]["contents"][: second["request"]["same"]],
        *second["request"]["contents"],
    ] == [
        "hello",
        "two",
    ]
    assert [entry["response"] for entry in told.entries] == ["a", "b"]


def test_what_finds_no_room_is_counted_and_what_is_told_anew_takes_none() -> None:
    told = Told()
    recorder = trace.Recorder(0.0, told)
    recorder.begin("model", "key", agent="desk")
    for number in range(2 * trace.ROOM // trace.TEXT):
        recorder.end("model", "key", response=f"chunk {number}" + "x" * trace.TEXT)
    for number in range(trace.ROOM // trace.TEXT + 10):
        recorder.begin("tool", number, agent="desk", text="y" * trace.TEXT)
    recorder.end("model", "key", response="short")
    recorder.begin("tool", "late", agent="desk", text="y")
    assert [entry["kind"] for entry in told.entries].count("tool") == trace.ROOM // trace.TEXT - 1
    assert told.entries[-1] == {"kind": "left_out", "count": 12}


def test_values_that_share_their_parts_are_told_as_far_as_there_is_room() -> None:
    shared: list[object] = []
    for _ in range(45):
        shared = [shared, shared]
    started = time.monotonic()
    told = json.dumps(trace.clip_values({"shared": shared, "texts": ["x" * trace.TEXT] * 1000}))
    assert len(told) < 4 * trace.ROOM
    assert time.monotonic() - started < 10
