"""How many pull requests are simulated to say what a green could have missed: fewer than users get,
in all tests.

It is half of the time of a small comparison, and no test reads its figure but those of the sentence
that tells it."""

from __future__ import annotations

from typing import Final

from evalgate.comparison import compare

TRIES: Final = compare.FEWEST_TRIES


def few(tries: int = TRIES) -> None:
    """For this process and its forks."""
    compare.TRIES = tries
