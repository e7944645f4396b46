"""summary.md: the job summary, the comment's story with every case in a table, within GitHub's 1 MiB."""

from __future__ import annotations

from collections.abc import Iterator

from evalgate import words
from evalgate.exhibits import cases, sentences, totals
from evalgate.exhibits.cases import CaseExhibit
from evalgate.exhibits.gfm import compared, forest, lists, overview, trends
from evalgate.exhibits.gfm.lists import Depth
from evalgate.markup import budget, github, plain
from evalgate.model import Report, VerdictKind

LIMIT = 1024 * 1024
BYTES_A_UNIT = 3
"""GitHub counts bytes of UTF-8 here; a UTF-16 unit takes three at most."""
RESERVED = 64 * 1024
TABLE_SHARE = 0.5
LOOSENED_ROOM = 60_000
DEPTH = Depth(cases=200, turns=10)
ID_WIDTH = 100
WHERE = "`report.html` has them"


def render(report: Report) -> str:
    """The summary: verdict, figures, criteria, what broke in full, and the table of all cases.

    Bounded in bytes: the table of cases may take half, what broke takes what is left; the rest is counted.
    """
    exhibits, found = cases.collect(report), totals.count(report)
    head = [
        overview.render_verdict(report),
        *_rules(report),
        compared.render_strip(report, found) or overview.render_figures(report, found),
        *_beside(report),
        overview.render_criteria(totals.by_criterion(report), limit=200),
        trends.render_trends(report.trends, limit=50),
    ]
    room = (LIMIT - RESERVED) // BYTES_A_UNIT - sum(budget.length(part) for part in head)
    table = _table(exhibits, room=int(room * TABLE_SHARE))
    foot = [
        lists.render_flaky([each for each in exhibits if each.flaky], limit=100),
        overview.render_judges(report, limit=100),
        overview.render_problems(report.problems, limit=50),
        overview.render_reproduce(report),
        overview.render_footer(report),
    ]
    room -= budget.length(table) + sum(budget.length(part) for part in foot)
    return "\n\n".join(part for part in (*head, *_broken(exhibits, report, room=room), table, *foot) if part) + "\n"


def _rules(report: Report) -> list[str]:
    comparison = report.comparison
    return [] if comparison is None else [compared.render_rules(comparison, room=LOOSENED_ROOM)]


def _beside(report: Report) -> list[str]:
    """How head stands beside the base, whole."""
    comparison = report.comparison
    if comparison is None or comparison.problem:
        return []
    return [
        forest.render_chart(comparison.criteria, limit=20),
        compared.render_criteria(comparison, limit=200),
        compared.render_fixed(comparison),
        compared.render_apart(comparison),
    ]


def _broken(exhibits: tuple[CaseExhibit, ...], report: Report, *, room: int) -> Iterator[str]:
    failing = cases.worst_first(cases.of_kind(exhibits, VerdictKind.FAIL))
    undecided = cases.of_kind(exhibits, VerdictKind.INCONCLUSIVE)
    unknown = cases.of_kind(exhibits, VerdictKind.NOT_MEASURED)
    share = room // (len([each for each in (failing, undecided, unknown) if each]) or 1)
    for what, chosen in (("failed", failing), ("inconclusive", undecided)):
        title = f"{words.counted(len(chosen), 'case')} {what}"
        yield lists.render_cases(title, chosen, report, room=share, depth=DEPTH, where=WHERE)
    title = f"{words.counted(len(unknown), 'case')} could not be measured"
    yield lists.render_unmeasured(title, unknown, report, room=share, depth=DEPTH, where=WHERE)


def _table(exhibits: tuple[CaseExhibit, ...], *, room: int) -> str:
    if not exhibits:
        return ""
    several = len({each.suite.key for each in exhibits}) > 1
    header = ["", *(["Suite"] if several else []), "Case", "Criteria", "Agent time"]
    rows: list[list[str]] = []
    for exhibit in exhibits:
        cells = _cells(exhibit, several=several)
        room -= sum(budget.length(cell) + 3 for cell in cells) + 2
        if room < 0:
            break
        rows.append(cells)
    shown = github.table(header, rows, right=[len(header) - 1])
    if len(rows) < len(exhibits):
        shown += f"\n\n...and {words.counted(len(exhibits) - len(rows), 'more case')}: {WHERE}."
    return github.details(f"All {words.counted(len(exhibits), 'case')}", shown)


def _cells(exhibit: CaseExhibit, *, several: bool) -> list[str]:
    values = [
        f"{github.cell_code(plain.label(each.name, ID_WIDTH))} "
        + (words.amount(each.value) if each.threshold is None else words.score(each.value, beside=each.threshold))
        for each in exhibit.verdict.criteria
    ]
    return [
        f"{sentences.kind_mark(exhibit.verdict.kind)} {sentences.kind_word(exhibit.verdict.kind)}",
        *([github.cell_code(plain.label(exhibit.suite.key, ID_WIDTH))] if several else []),
        github.cell_code(plain.label(exhibit.verdict.case_id, ID_WIDTH)),
        ", ".join(values) or "-",
        words.seconds(exhibit.verdict.seconds),
    ]
