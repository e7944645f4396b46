"""How long to wait, and for how long in all."""

from __future__ import annotations

import json

import pytest

from evalgate.github import pacing
from evalgate.github.pacing import Patience, World
from evalgate.system.http import Answer

NOW = 1_800_000_000.0
SECONDARY = json.dumps({"message": "You have exceeded a secondary rate limit."}).encode()


@pytest.mark.parametrize(
    ("status", "headers", "body", "seconds"),
    [
        (429, {"retry-after": "7"}, b"", 7.0),
        (403, {"retry-after": "7"}, b"", 7.0),
        (403, {"retry-after": "0"}, b"", 0.0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 30:.0f}"}, b"", 31.0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW - 30:.0f}"}, b"", 1.0),  # over already
        (403, {"retry-after": "5", "x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 99:.0f}"}, b"", 5.0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, b"", 60.0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9" * 30}, b"", 60.0),
        (403, {"x-ratelimit-remaining": "4000"}, SECONDARY, 60.0),
        (429, {}, b"", 60.0),
        (422, {}, b'{"message": "Validation Failed", "errors": ["was submitted too quickly"]}', 60.0),
        (403, {"x-ratelimit-remaining": "4000"}, b'{"message": "Resource not accessible by integration"}', None),
        (403, {}, b"", None),
        (422, {"x-ratelimit-remaining": "0"}, b'{"message": "Validation Failed"}', None),  # the last one it allowed
        (200, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 30:.0f}"}, b"", None),
        (500, {"retry-after": "7"}, b"", None),
    ],
)
def test_limits(status, headers, body, seconds) -> None:
    assert pacing.limit_wait(Answer(status=status, headers=headers, body=body), now=NOW) == seconds


def test_backoff_doubles_up_to_a_bound_and_leaves_half_to_chance() -> None:
    assert [pacing.backoff(tries, chance=1.0) for tries in range(8)] == [0.5, 1, 2, 4, 8, 16, 20, 20]
    assert pacing.backoff(0, chance=0.0) == 0.25


def test_patience_ends() -> None:
    slept: list[float] = []
    patience = Patience(10, World(sleep=slept.append))
    assert [patience.wait(each) for each in (6, 5, 4, 0.1)] == [True, False, True, False]
    assert slept == [6, 4]
