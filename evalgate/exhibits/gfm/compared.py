"""A comparison in GitHub's Markdown: the strip, the criteria of both sides, what stands apart, what it could tell."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate import words
from evalgate.exhibits import compared, sensitivity, weakened
from evalgate.exhibits.gfm import overview
from evalgate.exhibits.totals import Totals
from evalgate.markup import budget, github, plain
from evalgate.model import CaseComparison, Change, Comparison, CriterionComparison, Loosening, Report, Standing

WIDTH = 80
DOT = " \N{MIDDLE DOT} "
NAMED = 12
LISTED = 40
ARROW = "\N{RIGHTWARDS ARROW}"


def render_rules(comparison: Comparison, *, room: int) -> str:
    """What this change weakens of the gate itself, in at most `room` UTF-16 units, and that the base's rules decide;
    "" where neither."""
    parts = (_loosened(comparison.loosened, room=room), weakened.by_whose_rules(comparison))
    return "\n\n".join(part for part in parts if part)


def _loosened(loosened: Sequence[Loosening], *, room: int) -> str:
    if not loosened:
        return ""
    found = weakened.lines(loosened, mark=lambda text: github.code(plain.label(text, WIDTH)), named=NAMED)
    shown = weakened.within(found, room=room, size=lambda line: budget.length(line.text) + len("> - \n"))
    lines = [f"- {line.text}" for line in shown]
    rest = weakened.left_out(found, shown)
    if rest:
        lines.append(f"- {rest}: `report.html` has them.")
    title = f"**This change lowers its own bar** ({weakened.counted(found)}), compared with the base:"
    return github.alert("WARNING", "\n".join([title, *lines]))


def render_strip(report: Report, totals: Totals) -> str:
    """What changed, and below it what it took and which base it is; "" without a comparison."""
    comparison = report.comparison
    if comparison is None or comparison.problem:
        return ""
    unmeasured = f"**{totals.not_measured:,}** not measured"
    changes = [*_rate(comparison.overall), *_counts(comparison), unmeasured]
    around = [_runs(report, comparison), *overview.costs(report, totals), _sides(report, comparison)]
    return "\n\n".join(DOT.join(figure for figure in line if figure) for line in (changes, around))


def render_criteria(comparison: Comparison, *, limit: int) -> str:
    """The criteria base beside head: those that decide as a table, the others folded, and what the runs could tell."""
    deciding, others = compared.changed_rows(comparison)
    parts = [_table(deciding, limit=limit)] if deciding else []
    if others:
        title = f"{words.counted(len(others), 'more criterion', 'more criteria')}, without a say"
        parts.append(github.details(title, _table(others, limit=limit)))
    return "\n\n".join([*parts, *_small_print(comparison)])


def _small_print(comparison: Comparison) -> list[str]:
    """What the runs could have told, and what is to be known about the base's results."""
    notes = (f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in comparison.origin.notes)
    lines = [compared.certainty(comparison), *notes]
    said = [github.prose(plain.clip(line, 600)) for line in lines if line]
    return [f"<sub>{'<br>'.join(said)}</sub>"] if said else []


def render_apart(comparison: Comparison) -> str:
    """New, changed and removed cases, folded; "" without any."""
    lines = []
    for standing, words_of in (
        (Standing.NEW, "new: the base does not have it, so it counts for no difference"),
        (Standing.CHANGED, "changed: the base was asked something else"),
        (Standing.REMOVED, "removed: only the base has it"),
    ):
        names = [case for case in comparison.cases if case.standing is standing]
        if names:
            lines.append(f"- **{len(names):,} {words_of}**: {_names(names)}")
    if not lines:
        return ""
    total = sum(1 for case in comparison.cases if case.standing is not Standing.PAIRED)
    return github.details(f"{words.counted(total, 'case')} left out of the comparison", "\n".join(lines))


def render_fixed(comparison: Comparison) -> str:
    """The cases that the base fails and head passes, folded; "" without any."""
    fixed = [case for case in comparison.cases if case.fixed]
    if not fixed:
        return ""
    return github.details(f"\N{WHITE HEAVY CHECK MARK} {words.counted(len(fixed), 'case')} fixed", _names(fixed))


def _rate(overall: CriterionComparison | None) -> list[str]:
    if overall is None or overall.base is None or overall.head is None:
        return []
    interval = "" if overall.interval is None else f" (95 % CI {compared.between(overall, share=True)})"
    interval = " (exact)" if overall.fact else interval.replace(" points", "")
    delta = compared.signed(overall.delta, share=True)
    base, head = words.percent(overall.base), words.percent(overall.head)
    return [f"pass rate {base} {ARROW} **{head}**, **{delta}**{interval}"]


def _counts(comparison: Comparison) -> list[str]:
    counts = compared.count(comparison)
    return [f"**{counts.broken:,}** broken", f"**{counts.fixed:,}** fixed", f"**{counts.flaky:,}** flaky"]


def _runs(report: Report, comparison: Comparison) -> str:
    run, power = report.run, comparison.power
    where = "" if power is None or power.more else " on head"
    further = f" and {run.more} more of {words.counted(len(run.repeated), 'case')}{where}" if run.repeated else ""
    return f"{sensitivity.runs_words(run, comparison.base)}{further}"


def _sides(report: Report, comparison: Comparison) -> str:
    """Both commits: `base 0f1e2d3 (run beside the head), head 6a57802`."""
    origin = comparison.origin
    sha = github.code(compared.short_sha(origin.commit))
    known = report.links.repository and origin.commit.isalnum()
    address = f"{report.links.repository}/commit/{origin.commit}" if known else ""
    base = f"base {github.link(sha, address)} " if origin.commit else "base "
    head = overview.commit(report)
    return f"{base}({compared.origin_words(origin)}){f', head {head}' if head else ''}"


def _table(rows: Sequence[CriterionComparison], *, limit: int) -> str:
    tested = any(compared.p_value(row) != "-" for row in rows[:limit])
    header = [
        "Criterion",
        "Base",
        "Head",
        "Change",
        _together("95 % interval"),
        *(["p"] if tested else []),
        "Against the base",
    ]
    cells = (_cells(row, tested=tested) for row in rows[:limit])
    table = github.table(header, cells, right=range(1, len(header) - 1))
    rest = len(rows) - limit
    return f"{table}\n\n{words.counted(rest, 'more row')} in report.html." if rest > 0 else table


def _cells(row: CriterionComparison, *, tested: bool) -> list[str]:
    base, head = compared.means(row)
    delta = compared.moved(row)
    strong = row.gating and row.change in (Change.REGRESSED, Change.IMPROVED)
    turned = compared.turned_words(row)
    said = f"{compared.said_of(row)}{f': {turned}' if turned else ''}"
    return [
        github.cell_code(plain.label(row.name, WIDTH)),
        base,
        head,
        f"**{delta}**" if strong else delta,
        _together(compared.between(row)),
        *([_together(compared.p_value(row))] if tested else []),
        f"{compared.MARKS[row.change]} {said}" if row.gating else said,
    ]


def _together(figure: str) -> str:
    """A figure that no line break parts."""
    return figure.replace(" ", "\N{NO-BREAK SPACE}")


def _names(cases: Sequence[CaseComparison]) -> str:
    names = [github.code(plain.label(case.case_id, WIDTH)) for case in cases[:LISTED]]
    if len(cases) > LISTED:
        names.append(f"{len(cases) - LISTED:,} more")
    return ", ".join(names)
