"""What `evalgate list` says may come on top of the first runs of head."""

from __future__ import annotations

from typing import Any

import pytest

from evalgate.cli import commands
from evalgate.config.settings import Settings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, None),  # at a desk nothing is compared, and nothing rerun
        ({"confirm": True}, ["about 10 runs, at most 20"]),
        ({"baseline": "none", "base": "main"}, None),
        ({"base": "main"}, ["24 trials in total", "about 12 runs, at most 52"]),
        ({"baseline": "rerun", "runs": 5}, ["24 trials in total", "at most 52"]),
        ({"baseline": "store", "base": "main"}, None),  # nothing runs on the base's side
        ({"base": "main", "threshold": "new"}, ["24 trials in total", "at most 52"]),
        ({"base": "main", "threshold": "all"}, ["24 trials in total"]),
        ({"base": "main", "adk_compat": True}, ["24 trials in total"]),
        ({"budget": "agent_calls=20, usd=2"}, ["both sides together: agent_calls=20, usd=2"]),
    ],
)
def test_the_lines(given: dict[str, Any], words: list[str] | None) -> None:
    lines, words = commands.more_lines(Settings.model_validate(given), trials=12), words or []
    assert len(lines) == len(words)
    for line, said in zip(lines, words, strict=True):
        assert said in line
