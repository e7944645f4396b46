"""The verdict for a terminal or a log: plain lines, color is the door's business."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalgate.model import Report, VerdictKind
from evalgate.reports import cases, view, wording
from evalgate.reports.cases import CaseView
from evalgate.text import plain, words, workflow_commands

CASES = 50
RELAXED_ROOM = 200
NAMED = 12
NAME_WIDTH = 60
WHY_WIDTH = 200
REASON_LIMIT = 1_000


def render(report: Report) -> str:
    """Lines: a row per criterion, the cases that broke with the reason, and the verdict last, where eyes are.

    No line of it can be taken for a workflow command.
    """
    v = view.of(report)
    counts, run = v.totals, report.run
    judge = view.judges_summary(run.judges)
    figures = [
        f"{counts.passed:,} passed",
        f"{counts.failed:,} failed",
        f"{counts.inconclusive:,} inconclusive" if counts.inconclusive else "",
        f"{counts.not_measured:,} not measured",
        words.counted(run.repeats, "run") + " per case",
        "" if counts.tokens is None else f"{words.tokens(counts.tokens)} tokens",
        f"agent time {words.seconds(counts.agent_s)}",
        f"judge: {judge}" if judge else "",
    ]
    rows = [("suite", "criterion", "mean", "threshold", "passed", "not evaluated")]
    for row in v.criteria:
        passed = "-" if row.threshold is None else f"{row.passed}/{row.total}"
        limit = words.threshold(row.threshold)
        rows.append((_name(row.suite), _name(row.name), row.shown, limit, passed, str(row.not_evaluated)))
    files = [f"not measured: {_name(each.suite)}: {plain.one_line(each.reason)}" for each in v.broken[:CASES]]
    lines = [
        *plain.table(rows, right=range(2, 6)),
        "",
        *files,
        *([""] if files else []),
        *_broken(v.cases),
        *_beside(report),
    ]
    lines.append(", ".join(figure for figure in figures if figure))
    answers = wording.answers(report)
    for each in answers:
        word_of = "" if each.kind is None else f"{wording.kind_word(each.kind)}. "
        lines.append(f"{each.question}: {word_of}{each.reason}")
    reason = plain.one_line(plain.clip(report.verdict.reason, REASON_LIMIT))
    word = wording.kind_word(report.verdict.kind).upper()
    lines.append(wording.headline(report.verdict).upper() if answers else f"{word}: {reason}")
    step = wording.next_step(report, lies="above")
    return workflow_commands.disarm("\n".join([*lines, *([step] if step else [])])) + "\n"


def _name(text: str) -> str:
    return plain.label(text, NAME_WIDTH)


def _beside(report: Report) -> Iterator[str]:
    """Head beside base: what head weakens, a row per criterion that decides, where the base's results come from."""
    comparison = report.comparison
    if comparison is None:
        return
    relaxed = view.relaxed(comparison.relaxed, mark=_name, named=NAMED, room=RELAXED_ROOM, size=lambda _: 1)
    if relaxed is not None:
        yield from (f"relaxed rule: {line}" for line in relaxed.lines)
        if relaxed.rest:
            yield f"relaxed rules: ...and {relaxed.rest}, in report.html"
    if comparison.by_base:
        yield "The base branch's rules apply (`policy: base`), not this change's."
    if comparison.problem:
        return
    rows, _ = cases.rows(comparison)
    cells = [("criterion", "base", "head", "change", "95% interval", "p", "")]
    cells += [
        (_name(row.name), *words.compared(row.base, row.head), cases.between(row), cases.p_value(row), cases.said(row))
        for row in rows
    ]
    yield from plain.table(cells, right=range(1, 6))
    broken, fixed, flaky = (
        sum(getattr(case, how) for case in comparison.cases) for how in ("broken", "fixed", "flaky")
    )
    origin = comparison.origin
    sha = f" {plain.one_line(origin.commit[:7])}" if origin.commit else ""
    yield f"{broken:,} broken, {fixed:,} fixed, {flaky:,} flaky; base{sha}: {cases.origin_words(origin)}"
    yield from (plain.clip_end(plain.one_line(plain.clip(note, REASON_LIMIT)), REASON_LIMIT) for note in origin.notes)
    yield cases.certainty(comparison)
    yield ""


def _broken(found: Sequence[CaseView]) -> Iterator[str]:
    broken = [*cases.worst_first([case for case in found if case.kind is VerdictKind.FAIL])]
    broken += [case for case in found if case.kind in (VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE)]
    told: set[str] = set()
    for case in broken[:CASES]:
        kind = wording.kind_word(case.verdict.kind)
        name = plain.label(case.verdict.case_id, NAME_WIDTH)
        yield f"{kind}: {name} ({plain.label(case.place, NAME_WIDTH * 2)})"
        why = wording.why(case, width=NAME_WIDTH)
        yield f"    {plain.clip_end(why, WHY_WIDTH)}"
        if case.failure is not None and not case.failing and why not in told:
            told.add(why)  # an agent that does not start says the same of every case
            yield from (f"    | {line}" for line in wording.last_words(case.failure).splitlines())
    if len(broken) > CASES:
        yield f"...and {words.counted(len(broken) - CASES, 'more case')}: see report.html"
    if broken:
        yield ""
