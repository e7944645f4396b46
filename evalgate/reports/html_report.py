"""report.html: one self-contained page. The verdict, the criteria and the causes are in it as text;
its script opens the cases."""

from __future__ import annotations

import functools
from typing import Any

from evalgate.model import Report, call_diff
from evalgate.reports import (
    agent_changes,
    bets,
    cases,
    edits,
    moved,
    page_data,
    turns,
    view,
    wording,
)
from evalgate.reports.phrases import phrase
from evalgate.text import diff, plain, templates, words
from evalgate.text.templates import Safe

LIMIT = 48 * 1000 * 1000
"""Characters of conversations, packed."""
EDITS_ROOM = 1_000_000
"""Characters: thousands of rules."""
NAME = 200
SCRIPTS = ("vendor/htm-preact.js", "vendor/diff.js", "report.js")


def render(report: Report) -> str:
    """The page. It omits conversations of passing cases that do not fit, and says so."""
    style, script = _source("report.css"), Safe("\n;").join(_source(name) for name in SCRIPTS)
    return _render_page(report, style, script, templates.html_policy(style=style, script=script))


def render_live(report: Report, *, style: Safe, script: Safe) -> tuple[str, str]:
    """The page for a live server, and its Content-Security-Policy. `script` runs before the page's
    own script and configures it (`evalgateLive`)."""
    *libraries, page_script = SCRIPTS
    code = Safe("\n;").join([*map(_source, libraries), script, _source(page_script)])
    styles = Safe("\n").join([_source("report.css"), style])
    policy = templates.html_policy(style=styles, script=code, connects=True)
    return _render_page(report, styles, code, policy), policy


def _render_page(report: Report, style: Safe, script: Safe, policy: str) -> str:
    v = view.view_of(report)
    edit_summary = edits.summarize(
        report.edits, mark=lambda text: plain.label(text, NAME), room=EDITS_ROOM, size=len
    )
    packed_parts = map(Safe, page_data.pack_cases(v, room=LIMIT))  # base64
    page = _page().page(v, packed_parts, edit_summary, style, script, policy)
    return str(page).strip("\n") + "\n"


@functools.cache
def _source(name: str) -> Safe:
    return templates.source(name, package=__package__)


@functools.cache
def _page() -> Any:
    return templates.load("report.html.j2", package=__package__, template_globals=_TEMPLATE_GLOBALS)


_TEMPLATE_GLOBALS = {
    "agent_changes": agent_changes,
    "bets": bets,
    "call_diff": call_diff,
    "cases": cases,
    "diff": diff,
    "moved_cases": moved,
    "phrase": phrase,
    "plain": plain,
    "turns": turns,
    "view": view,
    "wording": wording,
    "words": words,
}
