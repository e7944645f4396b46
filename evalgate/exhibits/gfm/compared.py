"""A comparison in GitHub's Markdown: the strip, the criteria of both sides, what stands apart, what it could tell."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate import words
from evalgate.exhibits import compared
from evalgate.markup import github, plain
from evalgate.model import CaseComparison, Comparison, CriterionComparison, Loosening, Report, Standing

WIDTH = 80
DOT = " \N{MIDDLE DOT} "
LOOSENED = 12
LISTED = 40
ARROW = "\N{RIGHTWARDS ARROW}"


def render_loosened(loosened: Sequence[Loosening]) -> str:
    """What this change weakens of the gate itself; "" where nothing."""
    if not loosened:
        return ""
    lines = [f"- {_loosening(each)}" for each in loosened[:LOOSENED]]
    if len(loosened) > LOOSENED:
        lines.append(f"- ...and {words.counted(len(loosened) - LOOSENED, 'more', 'more')}: `results.json` lists all.")
    title = f"**This change lowers its own bar** ({words.counted(len(loosened), 'rule')}), compared with the base:"
    return github.alert("WARNING", "\n".join([title, *lines]))


def render_strip(report: Report) -> str:
    """Pass rate base to head, cases that turned, runs, and which base; "" without a comparison."""
    comparison = report.comparison
    if comparison is None:
        return ""
    figures = [*_rate(comparison.overall), *_counts(comparison), _runs(report), _base(report)]
    return DOT.join(figure for figure in figures if figure)


def render_problem(comparison: Comparison) -> str:
    """Why there is nothing to compare with; "" where there is."""
    if not comparison.problem:
        return ""
    return f"**No comparison with the base**: {github.prose(plain.clip(comparison.problem, 600))}"


def render_criteria(comparison: Comparison, *, limit: int) -> str:
    """The criteria base beside head: those that decide as a table, the others folded."""
    deciding, others = compared.changed_rows(comparison)
    parts = [_table(deciding, limit=limit)] if deciding else []
    if others:
        title = f"{words.counted(len(others), 'criterion', 'criteria')} that decide nothing"
        parts.append(github.details(title, _table(others, limit=limit)))
    return "\n\n".join(parts)


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


def render_small_print(comparison: Comparison) -> str:
    """What the runs could have told, where the base's results come from, and what to know about them."""
    origin = comparison.origin
    lines = [compared.power_sentence(comparison.power), *(f"{note}." for note in origin.notes)]
    if comparison.draws:
        lines.append(f"Seed {comparison.seed}, {comparison.draws:,} permutations, alpha {comparison.alpha:g}.")
    said = [github.prose(plain.clip(line, 600)) for line in lines if line]
    return "<sub>" + "<br>".join(said) + "</sub>" if said else ""


def _loosening(each: Loosening) -> str:
    sentence = compared.loosening_sentence(each, mark=lambda text: github.code(plain.label(text, WIDTH)))
    return f"{sentence} in {github.code(plain.label(each.suite, WIDTH))}" if each.suite else sentence


def _rate(overall: CriterionComparison | None) -> list[str]:
    if overall is None or overall.base is None or overall.head is None:
        return []
    interval = f" ({compared.between(overall, share=True)})" if overall.interval is not None or overall.fact else ""
    delta = compared.signed(overall.delta, share=True)
    base, head = words.percent(overall.base), words.percent(overall.head)
    return [f"pass rate {base} {ARROW} **{head}**, **{delta}**{interval}"]


def _counts(comparison: Comparison) -> list[str]:
    if comparison.problem:
        return []
    counts = compared.count(comparison)
    return [
        f"**{counts.broken:,}** broken",
        f"**{counts.fixed:,}** fixed",
        f"**{counts.flaky:,}** flaky" if counts.flaky else "",
    ]


def _runs(report: Report) -> str:
    run = report.run
    further = f" and {run.more} more of {words.counted(len(run.repeated), 'case')}" if run.repeated else ""
    return f"{words.counted(run.repeats, 'run')} a side{further}"


def _base(report: Report) -> str:
    comparison = report.comparison
    if comparison is None:
        return ""
    origin = comparison.origin
    how = compared.origin_words(origin)
    if not origin.commit:
        return f"base: {how}"
    sha = github.code(origin.commit[:7])
    address = f"{report.links.repository}/commit/{origin.commit}" if report.links.repository else ""
    return f"base {github.link(sha, address)} ({how})"


def _table(rows: Sequence[CriterionComparison], *, limit: int) -> str:
    header = ["Criterion", "Base", "Head", "Change", "95 % interval", "p", ""]
    table = github.table(header, (_cells(row) for row in rows[:limit]), right=range(1, 6))
    rest = len(rows) - limit
    return f"{table}\n\n{words.counted(rest, 'more row')} in report.html." if rest > 0 else table


def _cells(row: CriterionComparison) -> list[str]:
    delta = compared.signed(row.delta)
    strong = row.gating and row.change.value in ("regressed", "improved")
    return [
        github.cell_code(plain.label(row.name, WIDTH)),
        words.amount(row.base) if row.base is not None else "-",
        words.amount(row.head) if row.head is not None else "-",
        f"**{delta}**" if strong else delta,
        compared.between(row),
        compared.p_value(row),
        f"{compared.MARKS[row.change]} {compared.CHANGES[row.change]}" if row.gating else compared.CHANGES[row.change],
    ]


def _names(cases: Sequence[CaseComparison]) -> str:
    names = [github.code(plain.label(case.case_id, WIDTH)) for case in cases[:LISTED]]
    if len(cases) > LISTED:
        names.append(f"{len(cases) - LISTED:,} more")
    return ", ".join(names)
