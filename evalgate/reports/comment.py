"""comment.md: the pull-request comment, understood in ten seconds, within GitHub's 65,536 characters."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate import words
from evalgate.exhibits import cases, totals
from evalgate.exhibits.cases import CaseExhibit
from evalgate.exhibits.gfm import compared, lists, overview
from evalgate.exhibits.gfm.lists import Depth
from evalgate.markup import budget
from evalgate.model import Report, VerdictKind

LIMIT = 65_536
RESERVED = 1_536
"""Kept free for what a publisher adds (a hidden marker, a note on where files are)."""
HEAD_ROOM = 24_000
LOOSENED_ROOM = 12_000
FOOT_ROOM = 16_000
CRITERIA = 20
PROBLEMS = 10
FLAKY = 20
FAILED = Depth(cases=25, turns=3)
UNKNOWN = Depth(cases=10, turns=1)
LATER_SHARE = 0.2


def render(report: Report) -> str:
    """The comment. What must be said comes first and is bounded; failing cases get the room that is left, then cases
    that could not be measured; what finds no room is counted, with the place where it can be read."""
    return "\n\n".join(part for part in (render_head(report), render_rest(report)) if part) + "\n"


def render_head(report: Report) -> str:
    """What is always said: the verdict, what the change weakens, the figures, the criteria."""
    return _head(report)


def render_rest(report: Report) -> str:
    """What is said where there is room: the cases, and what stands below them."""
    foot = _foot(report)
    room = LIMIT - RESERVED - budget.length(_head(report)) - budget.length(foot) - 100
    return "\n\n".join(part for part in (*_cases(report, room=room), foot) if part)


def _head(report: Report) -> str:
    found = totals.count(report)
    comparison = report.comparison
    parts = [overview.render_verdict(report)]
    if comparison is not None:
        parts.append(compared.render_rules(comparison, room=LOOSENED_ROOM))
    parts.append(compared.render_strip(report, found) or overview.render_figures(report, found))
    if comparison is not None and comparison.criteria:
        parts.append(compared.render_criteria(comparison, limit=CRITERIA))
    else:
        parts.append(overview.render_criteria(totals.by_criterion(report), limit=CRITERIA))
    return "\n\n".join(budget.keep([part for part in parts if part], room=HEAD_ROOM))


def _foot(report: Report) -> str:
    again = overview.render_reproduce(report)
    flaky = [exhibit for exhibit in cases.collect(report) if exhibit.flaky]
    asides = [
        *_apart(report),
        lists.render_flaky(flaky, limit=FLAKY),
        overview.render_problems(report.problems, limit=PROBLEMS),
    ]
    kept = budget.keep(asides, room=FOOT_ROOM - budget.length(again))
    return "\n\n".join(part for part in (*kept, again, overview.render_footer(report)) if part)


def _apart(report: Report) -> list[str]:
    comparison = report.comparison
    if comparison is None or comparison.problem:
        return []
    parts = [compared.render_fixed(comparison), compared.render_apart(comparison)]
    return [part for part in parts if part]


def _cases(report: Report, *, room: int) -> tuple[str, ...]:
    """Failing, undecided and unmeasured cases; the latter two may take a share each, what they leave the first has."""
    exhibits = cases.collect(report)
    failing = cases.worst_first(cases.of_kind(exhibits, VerdictKind.FAIL))
    share = int(room * LATER_SHARE)
    undecided, unknown = _undecided(exhibits, report, room=share), _unknown(exhibits, report, room=share)
    title = f"{words.counted(len(failing), 'case')} failed"
    left = room - budget.length(undecided) - budget.length(unknown)
    first = lists.render_cases(title, failing, report, room=left, depth=FAILED, where=_WHERE)
    left -= budget.length(first)
    undecided = _undecided(exhibits, report, room=left + budget.length(undecided))
    left = room - budget.length(first) - budget.length(undecided)
    return first, undecided, _unknown(exhibits, report, room=left)


def _undecided(exhibits: Sequence[CaseExhibit], report: Report, *, room: int) -> str:
    found = cases.of_kind(exhibits, VerdictKind.INCONCLUSIVE)
    title = f"{words.counted(len(found), 'case')} inconclusive"
    return lists.render_cases(title, found, report, room=room, depth=FAILED, where=_WHERE)


def _unknown(exhibits: Sequence[CaseExhibit], report: Report, *, room: int) -> str:
    found = cases.of_kind(exhibits, VerdictKind.NOT_MEASURED)
    title = f"{words.counted(len(found), 'case')} could not be measured"
    return lists.render_unmeasured(title, found, report, room=room, depth=UNKNOWN, where=_WHERE)


_WHERE = "the job summary lists every case, `report.html` has every conversation"
