"""What `evalgate list` says of an agent, so that two of one driver are told apart."""

from __future__ import annotations

from typing import Any

import pytest

from evalgate import agents


@pytest.mark.parametrize(
    ("driver", "options", "shown"),
    [
        ("adk", {"path": "agents/weather"}, "agents/weather"),
        ("adk", {}, "."),
        (
            "command",
            {"command": "node agent.mjs", "cwd": "agents/desk"},
            "node agent.mjs in agents/desk",
        ),
        ("command", {"command": ["sh", "-c", "my agent"]}, "sh -c 'my agent'"),
        ("command", {"command": "node " + "x" * 500}, "node " + "x" * 44 + "..." + "x" * 48),
        ("command", {"command": 7}, "7"),  # refused elsewhere, and listed all the same
        ("command", {"command": ["a", {}]}, "a '{}'"),
        ("python", {"call": "pkg.mod:answer", "path": "src"}, "src/pkg.mod:answer"),
        ("http", {"url": "https://me:secret@host:8000/chat?key=secret"}, "https://host:8000/chat"),
        ("http", {"url": "https://me:se@cret@host/?at=me@x/"}, "https://host/"),
        ("http", {"url": "http://[::"}, "http://[::"),  # no address that can be taken apart
        ("replay", {"path": "recorded/*.json"}, "recorded/*.json"),
    ],
)
def test_an_agent_is_named_by_what_tells_it_from_others(
    driver: str, options: dict[str, Any], shown: str
) -> None:
    assert agents.DRIVERS[driver].label(options) == shown


def test_every_driver_has_something_to_be_named_by() -> None:
    options = {
        "path": "P",
        "command": "C",
        "call": "F",
        "url": "http://u",
        "app": "projects/p/locations/l/apps/a",
    }
    for driver in agents.DRIVERS:
        fields = {
            name: value
            for name, value in options.items()
            if name in agents.DRIVERS[driver].options.model_fields
        }
        label = agents.DRIVERS[driver].label(fields)
        assert label in (*fields.values(), "P/F"), driver
