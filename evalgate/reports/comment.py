"""comment.md and summary.md: the parts of their templates that fit into GitHub's 65,536 characters
and 1 MiB."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from evalgate.errors import Problem
from evalgate.model import CaseKey, Report, ToolCall, call_diff
from evalgate.results.labels import CaseLabel
from evalgate.text import diff, markdown, plain, templates, words
from evalgate.text.diff import DiffPiece
from evalgate.text.markdown import Item
from evalgate.text.templates import Safe
from evalgate.values import frozen_dataclass, grouped
from . import (
    agent_changes,
    cases as reports_cases,
    edits,
    turns as reports_turns,
    view,
    wording,
)
from .cases import CaseView
from .phrases import phrase
from .view import View

COMMENT_LIMIT = 65_536
"""GitHub's limit, in characters that it may count as UTF-16 units."""
RESERVED = 1_536
"""Kept free for what a publisher adds (a hidden marker, a note on where files are)."""
HEAD_ROOM = 16_000
"""UTF-16 units, as all rooms here: for the parts that check runs have as well."""
FOLD_ROOM = 100
"""For the tags and the title of a folded part."""
EDITS_ROOM = 12_000
"""For the rules, files and cases that the change edits."""
FALLS_ROOM = 8_000
"""For the criteria that fell, with their cases."""
LATER_SHARE = 0.2
"""The most that each group of cases after the first takes of their room."""
CRITERIA = 20
"""Rows of the table of criteria."""
PROBLEMS = 10
"""Problems, and evaluation files that could not be measured."""
MIXED = 20
"""Cases whose runs differ."""
CAUSES = 3
"""Shared causes."""
FALLS = 3
"""Criteria that fell, each with its cases."""
MOVED = 5
"""Cases for each of these criteria."""

SUMMARY_LIMIT = 1024 * 1024
"""GitHub's limit for the summary of a step, in bytes."""
BYTES_A_UNIT = 3
"""GitHub counts bytes of UTF-8 in a summary; a UTF-16 unit takes three at most."""
SUMMARY_RESERVED = 64 * 1024
"""Bytes kept free for what else is written to it."""
SUMMARY_EDITS_ROOM = 60_000
"""As EDITS_ROOM, for the summary."""
SUMMARY_FALLS_ROOM = 20_000
"""As FALLS_ROOM, for the summary."""
TABLE_SHARE = 0.5
"""The most that the table of all cases takes of the summary's room."""

NAME = 80
"""Characters of a name."""
FOLD_FROM = 10
"""As many lines below full cases are folded."""
GROUP_FROM = 4
"""As many unmeasured cases with one reason share an entry."""
WIDTH = 96
"""Columns of a code block, in which GitHub wraps nothing."""
ANSWER_LIMIT = 1_200
"""Characters of each answer, around the first difference."""
CALL_LINES = 40
"""Lines of a difference of calls."""
BRIEF_ANSWER = 240
"""As ANSWER_LIMIT, for the case that is open."""
BRIEF_LINES = 8
"""As CALL_LINES, for the case that is open."""
SHORT_LINES = 3
"""Answers of at most so many lines are compared by line."""
LEAST_LIKENESS = 0.35
"""From 0 to 1: answers less alike are compared by line, not by word."""
LONG_STRETCH = 160
"""Characters: of longer common text only the ends are shown."""


GROUPS = {
    "fail": (25, 3),
    "flaky": (10, 1),
    "inconclusive": (25, 3),
    "not_measured": (10, 1),
    CaseLabel.LISTED.value: (10, 1),
}
"""The groups of cases that did not pass, and the most to show of each, regardless of room: full
cases, and turns of each case."""
SUMMARY_MOST = (200, 10)
"""The same for every group in the summary."""
OPEN_GROUPS = ("fail", "inconclusive", "not_measured")
"""The groups whose first case is open, the first group that has one."""


def render_summary(report: Report) -> str:
    """The job summary: verdict, figures, criteria, what broke in full, and the table of all cases.

    Its bytes are bounded: the table takes at most half, broken cases the remaining room.
    Cases without room are counted."""
    v = view.view_of(report)
    comparison_parts = (
        [
            _draw("compared", report, 200),
            _draw("fixed", v.counts["fixed"], v),
            _draw("excluded", v.comparison),
        ]
        if v.comparison is not None
        else []
    )
    top_parts = [
        _draw("verdict", v),
        _rules(report, room=SUMMARY_EDITS_ROOM),
        _draw("notices", [*wording.notices(report, v.cases)]),
        _draw("counted", v),
        _draw("measured", v),
        _draw("agent_changed", agent_changes.changes_of(report)),
        _draw("causes", v.shared_causes, 200),
        *comparison_parts,
        _draw("broken", v.broken, report, 50),
        _draw("criteria", v.criteria, 200),
        _draw("trend_table", report.facts.trends, 50),
    ]
    room = (
        (SUMMARY_LIMIT - SUMMARY_RESERVED) // BYTES_A_UNIT
        - sum(map(markdown.length, top_parts))
        - SUMMARY_FALLS_ROOM
    )
    table = _table(v, room=int(room * TABLE_SHARE))
    bottom_parts = [
        _mixed(v, limit=100),
        _draw("judges", report.run.judges, 100),
        _draw("problems", report, 50),
        _draw("fold", _draw("environment", v), phrase("environment_title")),
        _draw("footer", v),
    ]
    room -= markdown.length(table) + sum(map(markdown.length, bottom_parts))
    room //= len(v.by_group.keys() - {"pass"}) or 1
    for group in GROUPS:
        if case_views := v.by_group.get(group):
            top_parts += [
                f"### {_draw('heading', group, len(case_views))}",
                _section(group, v, case_views, room=room, most=SUMMARY_MOST),
            ]
    falls = _falls(v, room=SUMMARY_FALLS_ROOM, criteria=20)
    return _join_parts((*top_parts, falls, table, *bottom_parts)) + "\n"


def _rules(report: Report, *, room: int) -> str:
    """The edits of the change to its own gate that fit; "" if it has none."""
    if not (report.edits.edits or report.edits.by_base):
        return ""
    edit_summary = edits.summarize(
        report.edits, mark=_mark, room=room, size=lambda text: markdown.length(text) + len("- \n")
    )
    return _draw("rules", report.edits, edit_summary)


def _mark(text: str) -> str:
    """A name as code."""
    return markdown.code(plain.label(text, NAME))


def _cases(v: View, *, room: int) -> str:
    """The groups of cases that did not pass, except open cases. Each later group takes at most its
    share of the room; the first group gets the remaining room and leaves what it does not need."""
    share = int(room * LATER_SHARE)
    groups = [group for group in GROUPS if group in v.by_group]
    sections = dict.fromkeys(groups, "")
    for group in groups[1:]:
        sections[group] = _fold_group(group, v, room=share)
    remaining_room = room - sum(map(markdown.length, sections.values()))
    for group in groups:
        remaining_room += markdown.length(sections[group])
        sections[group] = _fold_group(group, v, room=remaining_room)
        remaining_room -= markdown.length(sections[group])
    return _join_parts(sections.values())


def _fold_group(group: str, v: View, *, room: int) -> str:
    """A folded group of cases without the open one; "" if no other is left."""
    group_cases = v.by_group[group]
    open_cases = set(_open_cases(v))
    case_views = [case for case in group_cases if case not in open_cases]
    if not case_views:
        return ""
    is_more = len(case_views) < len(group_cases)
    text = _section(group, v, case_views, room=room - 2 * FOLD_ROOM, most=GROUPS[group])
    return _draw("fold", text, _draw("heading", group, len(case_views), is_more))


def _section(
    group: str, v: View, case_views: Sequence[CaseView], *, room: int, most: tuple[int, int]
) -> str:
    """Some cases in full, others in a line each, then a count. GROUP_FROM or more unmeasured cases
    with one reason share an entry. `most`: as in GROUPS."""
    most_cases, most_turns = most
    if group in ("fail", "flaky"):
        case_views = reports_cases.worst_first(case_views)
    *groups, single_cases = _by_reason(case_views) if group == "not_measured" else [case_views]
    items: list[Item] = [
        (_draw("group_line", case_group), partial(_draw, "group", case_group, v))
        for case_group in groups
    ]
    items += [
        (_line(v, case), partial(_draw, "case", v, case, most_turns)) for case in single_cases
    ]
    full, lines, dropped = markdown.fill(items, room=room - 300, most=most_cases)
    is_folded = bool(full) and len(lines) >= FOLD_FROM
    list_text = _draw("lines", lines, is_folded)
    remainder = _draw("left_out", dropped, v, most is SUMMARY_MOST)
    return _join_parts((*full, list_text, remainder))


def _falls(v: View, *, room: int, criteria: int) -> str:
    """The criteria that fell, each with the cases that changed most; "" if none fell."""
    falls = view.falls(v)
    parts: list[str] = []
    remaining_room = room - 200
    shown_turns = set[tuple[CaseKey, int]]()
    for fall in falls[:criteria]:
        items: list[Item] = []
        lines: list[str] = []
        for moved_case in fall.case_falls[:MOVED]:
            turn = moved_case.turn
            turn_key = (moved_case.case.key, turn.number if turn else 0)
            line = _draw("moved_line", v, moved_case)
            # failed cases show their conversation above, and one turn is shown once
            if moved_case.case.group in ("fail", "flaky") or turn_key in shown_turns:
                lines.append(line)
            else:
                items.append((line, partial(_draw, "moved", v, moved_case)))
            shown_turns.add(turn_key)
        heading = _draw("fall", fall)
        used_room = sum(map(markdown.length, (heading, *lines))) + 100
        full, item_lines, dropped = markdown.fill(
            items, room=remaining_room - used_room, most=MOVED
        )
        remaining_room -= used_room + sum(map(markdown.length, (*full, *item_lines)))
        remaining_count = len(fall.case_falls) - len(items) - len(lines) + dropped
        lines += item_lines
        if remaining_count:
            lines.append(_draw("more", remaining_count))
        parts += [heading, *full, "\n".join(lines)]
    if len(falls) > criteria:
        parts.append(_draw("more_criteria", len(falls) - criteria))
    return _draw("falls", len(falls), _join_parts(parts))


@functools.lru_cache(maxsize=20_000)
def _line(v: View, case: CaseView) -> str:
    """The line of a case, cached: the comment tries it twice, and the summary has it too."""
    return _draw("case_line", v, case)


def _draw(name: str, subject: object, *arguments: object, **options: object) -> str:
    """The text of a macro; "" for an empty list, the number 0 or an empty text."""
    if not subject:
        return ""
    return markdown.tidy(getattr(_TEMPLATE.macros, name)(subject, *arguments, **options))


def _mixed(v: View, *, limit: int) -> str:
    """The criteria and cases whose runs differ, the first `limit` of them."""
    return _draw("mixed", [(case, verdict) for case in v.cases for verdict in case.mixed], limit)


def _table(v: View, *, room: int) -> str:
    """The table of all cases, in the order of the verdict: as many rows as fit."""
    has_suites = len({case.suite.key for case in v.cases}) > 1
    rows: list[str] = []
    for case in v.cases:
        row = _draw("row", case, has_suites)
        room -= markdown.length(row) + 1
        if room < 0:
            break
        rows.append(row)
    return _draw("all_cases", len(v.cases), rows, has_suites)


def _join_parts(parts: Iterable[str]) -> str:
    """The parts that are not empty, with a blank line between them."""
    return "\n\n".join(part for part in parts if part)


@frozen_dataclass
class Part:
    """A part of the comment."""

    draw: Callable[[View, int], str]
    """The text of a report's view within so many UTF-16 units; "" for none."""
    room: int = 4_000
    """The most UTF-16 units that it takes; 0: what all others leave."""
    title: str = ""
    """The phrase that it is folded under; "" if it is open."""


def render(report: Report) -> str:
    """The comment. Each part is bounded; the cases get the remaining room. Cases without room are
    counted, with the place to read them."""
    return _join_parts((render_head(report), render_body(report))) + "\n"


def render_head(report: Report) -> str:
    """The top of the comment: the verdict, the counts, the causes."""
    return _draw_parts(HEAD, view.view_of(report), room=HEAD_ROOM)


def render_failure(reason: str, problems: Sequence[Problem]) -> str:
    """The text in place of a report: why there is no verdict. `problems`: the errors that stopped
    the run."""
    return _draw("failure", PROBLEMS, plain.one_line(reason), problems)


def render_body(report: Report) -> str:
    """The parts below the top: one difference, the next commands, and folded sections."""
    room = COMMENT_LIMIT - RESERVED - markdown.length(render_head(report)) - 100
    return _draw_parts(BODY, view.view_of(report), room=room)


def _draw_parts(parts: Sequence[Part], v: View, *, room: int) -> str:
    """The parts as text, in order. The last part (the footer with its links) gets room first, the
    part without a bound gets room last."""
    texts = dict.fromkeys(parts, "")
    for part in (
        *reversed([part for part in parts if part.room]),
        *(part for part in parts if not part.room),
    ):
        text = part.draw(v, min(part.room or room, room) - FOLD_ROOM)
        if part.title:
            text = _draw("fold", text, phrase(part.title))
        (texts[part],) = markdown.keep([text], room=min(part.room or room, room)) or ("",)
        room -= markdown.length(texts[part]) + 2
    return _join_parts(texts.values())


@functools.lru_cache(maxsize=1)  # views are equal only to themselves
def _open_cases(v: View) -> Sequence[CaseView]:
    """The case to open, or all unmeasured cases that share a reason."""
    for group in OPEN_GROUPS:
        if case_views := v.by_group.get(group):
            *groups, _ = _by_reason(case_views) if group == "not_measured" else [case_views]
            return groups[0] if groups else reports_cases.worst_first(case_views)[:1]
    return ()


def _by_reason(case_views: Sequence[CaseView]) -> list[list[CaseView]]:
    """Groups of GROUP_FROM or more unmeasured cases with one reason, largest first; then the list
    of all other cases, which may be empty."""
    cases_by_reason = grouped((case.unmeasured_reason, case) for case in case_views)
    groups = sorted(
        (group for group in cases_by_reason.values() if len(group) >= GROUP_FROM),
        key=len,
        reverse=True,
    )
    other_cases = [
        case for group in cases_by_reason.values() if len(group) < GROUP_FROM for case in group
    ]
    return [*groups, other_cases]


def _evidence(v: View, room: int) -> str:
    """The criteria on both sides, what changed in the agent, which cases moved."""
    parts = [
        _draw("measured", v),
        _draw("agent_changed", agent_changes.changes_of(v.report)),
        _draw("compared", v.report, CRITERIA)
        if v.report.compared.criteria
        else _draw("criteria", v.criteria, CRITERIA),
        _falls(v, room=FALLS_ROOM, criteria=FALLS),
    ]
    if v.comparison is not None:
        parts += [_draw("fixed", v.counts["fixed"], v), _draw("excluded", v.comparison)]
    parts.append(_mixed(v, limit=MIXED))
    return _join_parts(markdown.keep(parts, room=room))


HEAD = (
    Part(draw=lambda v, _: _draw("verdict", v), room=8_000),
    Part(draw=lambda v, _: _draw("counted", v)),
    Part(draw=lambda v, _: _draw("causes", v.shared_causes, CAUSES)),
    Part(draw=lambda v, _: _draw("notices", [*wording.notices(v.report, v.cases)]), room=6_000),
)
"""The parts that check runs and short comments have as well."""
BODY = (
    Part(draw=lambda v, _: _draw("open_cases", _open_cases(v), v), room=6_000),
    Part(draw=lambda v, _: _draw("commands", wording.commands(v.report, v.cases))),
    Part(draw=lambda v, room: _cases(v, room=room), room=0),
    Part(
        draw=lambda v, _: _draw("broken", v.broken, v.report, PROBLEMS, not _open_cases(v)),
        room=8_000,
    ),
    Part(draw=lambda v, room: _rules(v.report, room=room), room=EDITS_ROOM),
    Part(draw=_evidence, room=16_000, title="evidence_title"),
    Part(draw=lambda v, _: _draw("problems", v.report, PROBLEMS), room=10_000),
    Part(draw=lambda v, _: _draw("environment", v), title="environment_title"),
    Part(draw=lambda v, _: _draw("footer", v)),
)
"""The parts below the top, in order. Cases, relaxed rules, notices and remarks fold themselves:
their titles are counts."""


def diff_calls(
    expected: Sequence[ToolCall] | None,
    actual: Sequence[ToolCall] | None,
    *,
    is_brief: bool = False,
) -> Safe:
    """The tool calls as a diff block: `-` expected, `+` actual, blank both; wrapped, at most
    CALL_LINES lines, or BRIEF_LINES."""
    diff_lines, omitted_count = reports_turns.call_lines(
        expected or (), actual or (), width=WIDTH, most=BRIEF_LINES if is_brief else CALL_LINES
    )
    rows = [f"{line.mark} {line.text}" for line in diff_lines]
    if omitted_count:
        rows.append(phrase("diff_left", omitted_count))
    return Safe(markdown.fence("\n".join(rows), "diff"))


def diff_answers(
    expected: str, actual: str, *, is_base: bool = False, is_brief: bool = False
) -> Safe:
    """The answers and a legend: short or unlike answers as a diff of lines, long and similar
    answers word by word. `is_brief`: the part that differs, as lines."""
    expected_lines, actual_lines = (
        plain.wrap(text, WIDTH)
        for text in diff.excerpts(
            expected.strip(), actual.strip(), BRIEF_ANSWER if is_brief else ANSWER_LIMIT
        )
    )
    pieces, likeness = diff.compare(expected, actual)
    shown_lines = max(len(expected_lines), len(actual_lines))
    if is_brief or shown_lines <= SHORT_LINES or likeness < LEAST_LIKENESS:
        rows = [*(f"- {line}" for line in expected_lines), *(f"+ {line}" for line in actual_lines)]
        block = markdown.fence("\n".join(rows), "diff")
        return Safe(f"{phrase('answer_lines', is_base)}\n{block}")
    word_diff = _word_difference(pieces)
    return Safe(f"{phrase('answer_words', is_base)}\n<pre>{word_diff}</pre>")


def _word_difference(pieces: Sequence[DiffPiece]) -> str:
    """HTML for `<pre>`. GitHub does not wrap it, so lines are wrapped here."""
    texts: list[str] = []
    column = 0
    for index, piece in enumerate(pieces):
        text = piece.text
        if piece.mark == "=" and len(text) > LONG_STRETCH:
            head = text[: LONG_STRETCH // 3] if index else ""
            tail = "" if piece is pieces[-1] else text[-LONG_STRETCH // 3 :]
            text = f"{head} [...] {tail}"
        rows = plain.wrap(text, WIDTH, start=column)
        column = plain.columns(rows[-1]) + (column if len(rows) == 1 else 0)
        escaped = markdown.escape_html("\n".join(rows))
        texts.append(
            {"=": escaped, "-": f"<del>{escaped}</del>", "+": f"<ins>{escaped}</ins>"}[piece.mark]
        )
    return "".join(texts)


_NAMES = {
    "agent_changes": agent_changes,
    "call_diff": call_diff,
    "cases": reports_cases,
    "diff_answers": diff_answers,
    "diff_calls": diff_calls,
    "edits": edits,
    "markdown": markdown,
    "phrase": phrase,
    "relaxed_rules": lambda report: Safe(edits.rules(report.edits, mark=_mark)),
    "turns": reports_turns,
    "view": view,
    "wording": wording,
    "words": words,
}
"""What the template may use."""
_TEMPLATE = templates.Template("comment.md.j2", package=__package__, names=_NAMES)
