"""report.html: one self-contained page. The verdict, the criteria and the causes are in it as text;
its script opens the cases."""

from __future__ import annotations

import functools
import math

from evalgate.model import Book, Cell, Report, call_diff
from evalgate.text import diff, plain, templates, words
from evalgate.text.templates import Safe
from evalgate.values import JsonObject
from . import (
    agent_changes,
    cases,
    edits,
    page_data,
    turns,
    view,
    wording,
)
from .phrases import phrase

LIMIT = 48 * 1000 * 1000
"""Characters of conversations, packed."""
EDITS_ROOM = 1_000_000
"""Characters: thousands of rules."""
NAME = 200
"""Characters of a name."""
WIDTH = 640
"""Of the drawing of the purse, in units of its SVG."""
HEIGHT = 120
"""The same from top to bottom."""
MARGIN = 8
"""Free on all sides of the drawing."""
LEAST = 0.1
"""The lowest worth that the drawing shows; lower ones are at its edge."""
MOST = 1e4
"""The highest worth that the drawing shows."""
MOST_POINTS = 400
"""Bets that are drawn; of more, every nth."""
MOST_FALLS = 20
"""Lost bets that are listed."""
NAME_WIDTH = 60
"""Characters of a case's name beside its bet."""
SCRIPTS = ("vendor/htm-preact.js", "vendor/diff.js", "report.js")
"""In the order in which they run."""


def render(report: Report) -> str:
    """The page. It omits conversations of passing cases that do not fit, and says so."""
    script = Safe("\n;").join(map(_source, SCRIPTS))
    page, _ = _render_page(report, _source("report.css"), script)
    return page


def render_live(report: Report, *, style: Safe, script: Safe) -> tuple[str, str]:
    """The page for a live server, and its Content-Security-Policy. `script` runs before the page's
    own script and configures it (`evalgateLive`)."""
    *libraries, page_script = SCRIPTS
    code = Safe("\n;").join([*map(_source, libraries), script, _source(page_script)])
    styles = Safe("\n").join([_source("report.css"), style])
    return _render_page(report, styles, code, connects=True)


def _render_page(
    report: Report, style: Safe, script: Safe, *, connects: bool = False
) -> tuple[str, str]:
    """The page and its Content-Security-Policy."""
    policy = templates.html_policy(style=style, script=script, connects=connects)
    v = view.view_of(report)
    edit_summary = (
        edits.summarize(
            report.edits, mark=lambda text: plain.label(text, NAME), room=EDITS_ROOM, size=len
        )
        if report.edits.edits
        else {}
    )
    packed_parts = map(Safe, page_data.pack_cases(v, room=LIMIT))  # base64
    page = _TEMPLATE.macros.page(v, packed_parts, edit_summary, style, script, policy)
    return str(page).strip("\n") + "\n", policy


def drawing_of(book: Book) -> JsonObject | None:
    """The worth of the purse after each bet, in units of the picture; None if no bet moved it.
    `line`, `one`: the heights of what is needed and of 1. `falls`: the bets that head lost, each
    with its case."""
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
    return {
        "points": points,
        "line": _down(book.needed),
        "one": _down(1.0),
        "needed": words.odds(book.needed),
        "label": phrase("purse", len(book.bets), book.worse),
        "falls": falls[:MOST_FALLS],
    }


def _down(worth: float) -> str:
    """The distance of a worth from the top of the drawing, on a logarithmic scale."""
    height = math.log(min(max(worth, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return f"{HEIGHT - MARGIN - height * (HEIGHT - 2 * MARGIN):.1f}"


@functools.cache
def _source(name: str) -> Safe:
    """A file among the templates, read once."""
    return templates.source(name, package=__package__)


_NAMES = {
    "agent_changes": agent_changes,
    "drawing_of": drawing_of,
    "drawing_size": (WIDTH, HEIGHT),
    "call_diff": call_diff,
    "cases": cases,
    "diff": diff,
    "phrase": phrase,
    "plain": plain,
    "turns": turns,
    "view": view,
    "wording": wording,
    "words": words,
}
"""What the template may use."""
_TEMPLATE = templates.Template("report.html.j2", package=__package__, names=_NAMES)
