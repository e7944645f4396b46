"""What `evalgate list` says may come on top of the first runs of head."""

from __future__ import annotations

from typing import Any

import pytest

from evalgate.cli import listing
from evalgate.config.settings import Settings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, []),  # at a desk nothing is compared
        ({"baseline": "none", "base": "main"}, []),
        ({"base": "main"}, ["24 trials in total", "does not have like this: 5 runs"]),
        ({"base": "main", "burn_in": 1}, ["24 trials in total"]),
        ({"baseline": "rerun", "runs": 5}, ["24 trials in total"]),
        ({"baseline": "store", "base": "main"}, []),  # nothing runs on the base's side
        ({"runs": "2+3"}, ["3 more runs each, at most 30 trials in total"]),
        (
            {"runs": "2+3", "base": "main"},
            ["24 trials in total", "on both sides, at most 60 trials in total", "5 runs"],
        ),
        ({"threshold": "new"}, []),
        ({"threshold": "all"}, None),
        ({"adk_compat": True}, None),
        ({"budget": "agent_calls=20, usd=2"}, ["both sides together: agent_calls=20, usd=2"]),
    ],
)
def test_the_lines(given: dict[str, Any], words: list[str] | None) -> None:
    """`words` None: nothing is run again, and nothing is said."""
    lines = listing.more_lines(Settings.model_validate(given), trials=12)
    assert any("each failure" in line for line in lines) is (words is not None)
    lines, words = [line for line in lines if "each failure" not in line], words or []
    assert len(lines) == len(words)
    for line, said in zip(lines, words, strict=True):
        assert said in line
