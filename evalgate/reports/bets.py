"""The drawing of the purse in report.html: its worth after each bet, and the cases that fell."""

from __future__ import annotations

import math
from collections.abc import Mapping

from evalgate.model import Book, CaseKey, Cell
from evalgate.reports.phrases import phrase
from evalgate.text import plain, words
from evalgate.values import frozen_dataclass

WIDTH = 640
HEIGHT = 120
MARGIN = 8
LEAST = 0.1
MOST = 1e4
"""The range of worths that is drawn."""
MOST_POINTS = 400
MOST_FALLS = 20
NAME_WIDTH = 60


@frozen_dataclass
class Drawing:
    """The line, in units of the picture. `line`, `one`: the heights of what is needed and of 1.
    `falls`: the bets that head lost, each with its case."""

    points: str
    line: str
    one: str
    needed: str
    label: str
    falls: tuple[tuple[str, str], ...]


def drawing_of(book: Book) -> Drawing | None:
    """The drawing of a book; None if no bet moved the purse."""
    worths = [1.0, *(bet.worth for bet in book.bets)]
    if len(worths) < 2 or max(worths) == min(worths):
        return None
    step = max(1, math.ceil(len(worths) / MOST_POINTS))
    positions = [*range(0, len(worths) - 1, step), len(worths) - 1]
    step_width = (WIDTH - 2 * MARGIN) / (len(worths) - 1)
    points = " ".join(
        f"{MARGIN + index * step_width:.1f},{_down(worths[index])}" for index in positions
    )
    falls = [
        (plain.label(bet.key[1], NAME_WIDTH), phrase("bet_fell", bet.worth))
        for bet in book.bets
        if bet.cell is Cell.FELL
    ]
    return Drawing(
        points=points,
        line=_down(book.needed),
        one=_down(1.0),
        needed=words.odds(book.needed),
        label=phrase("purse", len(book.bets), book.worse),
        falls=tuple(falls[:MOST_FALLS]),
    )


def _down(worth: float) -> str:
    height = math.log(min(max(worth, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return f"{HEIGHT - MARGIN - height * (HEIGHT - 2 * MARGIN):.1f}"


def certainly_broken(factors: Mapping[CaseKey, float], *, needed: float) -> tuple[CaseKey, ...]:
    """The cases that may be called broken by name: with a chance of at most 1 in `needed`, one of
    them did not change (closed testing)."""
    loss_factor = math.prod(min(1.0, factor) for factor in factors.values())
    return tuple(
        key for key, factor in factors.items() if factor > 1 and factor * loss_factor >= needed
    )
