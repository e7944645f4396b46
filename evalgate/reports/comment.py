"""comment.md: the pull-request comment, understood in ten seconds, within GitHub's 65,536 characters."""

from __future__ import annotations

from evalgate import words
from evalgate.exhibits import cases, totals
from evalgate.exhibits.gfm import lists, overview
from evalgate.markup import budget
from evalgate.model import Report, VerdictKind

LIMIT = 65_536
RESERVED = 1_536
"""Kept free for what a publisher adds (a hidden marker, a note on where files are)."""
HEAD_ROOM = 24_000
FOOT_ROOM = 16_000
CRITERIA = 20
PROBLEMS = 10
FLAKY = 20
TURNS = 3
UNMEASURED_SHARE = 0.25


def render(report: Report) -> str:
    """The comment. What must be said comes first and is bounded; failing cases get the room that is left, then cases
    that could not be measured; what finds no room is counted, with the place where it can be read."""
    head, foot = _head(report), _foot(report)
    room = LIMIT - RESERVED - budget.length(head) - budget.length(foot) - 100
    return "\n\n".join(part for part in (head, *_cases(report, room=room), foot) if part) + "\n"


def _head(report: Report) -> str:
    criteria = overview.render_criteria(totals.by_criterion(report), limit=CRITERIA)
    parts = [overview.render_verdict(report), overview.render_figures(report, totals.count(report)), criteria]
    return "\n\n".join(budget.keep(parts, room=HEAD_ROOM))


def _foot(report: Report) -> str:
    flaky = [exhibit for exhibit in cases.collect(report) if exhibit.flaky]
    parts = budget.keep(
        [
            overview.render_reproduce(report),
            lists.render_flaky(flaky, limit=FLAKY),
            overview.render_problems(report.problems, limit=PROBLEMS),
        ],
        room=FOOT_ROOM,
    )
    return "\n\n".join([*parts, overview.render_footer(report)])


def _cases(report: Report, *, room: int) -> list[str]:
    exhibits = cases.collect(report)
    failing = cases.worst_first(cases.of_kind(exhibits, VerdictKind.FAIL))
    unknown = cases.of_kind(exhibits, VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE)
    kept = int(room * UNMEASURED_SHARE) if unknown and failing else 0
    first = lists.render_cases(
        f"{words.counted(len(failing), 'case')} failed", failing, report, room=room - kept, turns=TURNS, where=_WHERE
    )
    second = lists.render_cases(
        f"{words.counted(len(unknown), 'case')} could not be measured",
        unknown,
        report,
        room=room - budget.length(first),
        turns=1,
        where=_WHERE,
    )
    return [first, second]


_WHERE = "the job summary lists every case, `report.html` has every conversation"
