"""What a trace of ADK's objects leaves out."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

from evalgate.worker import trace


class Model(SimpleNamespace):
    def model_dump(self, **_: Any) -> dict[str, Any]:
        return dict(self.__dict__)


def test_credentials_that_an_agent_asks_for_are_not_recorded() -> None:
    secret = {"call-1": {"oauth2": {"client_secret": "c-1", "access_token": "t-1"}}}
    actions = Model(requested_auth_configs=secret, state_delta={"paid": True})
    recorder = trace.Recorder(0.0)
    recorder.event(SimpleNamespace(author="desk", id="e", content=Model(parts=[]), actions=actions), at=0.1)
    (told,) = recorder.finish()
    assert told["actions"] == {"requested_auth_configs": "***", "state_delta": {"paid": True}}


def test_values_that_share_their_parts_are_told_as_far_as_there_is_room() -> None:
    shared: list[object] = []
    for _ in range(45):
        shared = [shared, shared]
    started = time.monotonic()
    told = json.dumps(trace.clipped({"shared": shared, "texts": ["x" * trace.TEXT] * 1000}))
    assert len(told) < 4 * trace.ROOM
    assert time.monotonic() - started < 10
