"""The verdict for a terminal or a log: plain lines, colour is the door's business."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalgate import words
from evalgate.exhibits import cases, compared, guidance, judge_use, sentences, totals, weakened
from evalgate.exhibits.cases import CaseExhibit
from evalgate.markup import commands, plain
from evalgate.model import Report, VerdictKind

CASES = 50
LOOSENED = 200
NAMED = 12
NAME_WIDTH = 60
WHY_WIDTH = 200
REASON_LIMIT = 1_000


def render(report: Report) -> str:
    """Lines: a row per criterion, the cases that broke with the reason, and the verdict last, where eyes are.

    No line of it can be taken for a workflow command.
    """
    exhibits = cases.collect(report)
    counts = totals.count(report)
    lines = [
        *_table(totals.by_criterion(report)),
        "",
        *_broken(exhibits),
        *_beside(report),
        _figures(report, counts),
        *_verdict(report),
    ]
    step = guidance.next_step(report, lies="above")
    return commands.disarm("\n".join([*lines, *([step] if step else [])])) + "\n"


def _name(text: str) -> str:
    return plain.label(text, NAME_WIDTH)


def _verdict(report: Report) -> Iterator[str]:
    """The verdict with its reason; where there are two gates, the answer of each above it."""
    word = sentences.kind_word(report.verdict.kind).upper()
    answers = guidance.answers(report)
    for each in answers:
        word_of = "" if each.kind is None else f"{sentences.kind_word(each.kind)}. "
        yield f"{each.question}: {word_of}{each.reason}"
    reason = plain.one_line(plain.clip(report.verdict.reason, REASON_LIMIT))
    yield sentences.headline(report.verdict).upper() if answers else f"{word}: {reason}"


def _beside(report: Report) -> Iterator[str]:
    """Head beside base: what head weakens, a row per criterion that decides, where the base's results come from."""
    comparison = report.comparison
    if comparison is None:
        return
    found = weakened.lines(comparison.loosened, mark=_name, named=NAMED)
    shown = weakened.within(found, room=LOOSENED, size=lambda _: 1)
    yield from (f"weaker than the base: {line.text}" for line in shown)
    rest = weakened.left_out(found, shown)
    if rest:
        yield f"weaker than the base: {rest}, in report.html"
    if comparison.by_base:
        yield weakened.by_whose_rules(comparison)
    if comparison.problem:
        return
    rows, _ = compared.changed_rows(comparison)
    cells = [("criterion", "base", "head", "change", "95 % interval", "p", "")]
    cells += [
        (
            plain.label(row.name, NAME_WIDTH),
            *compared.means(row),
            compared.moved(row),
            compared.between(row),
            compared.p_value(row),
            compared.said_of(row),
        )
        for row in rows
    ]
    yield from _columns(cells, right=range(1, 6))
    counts = compared.count(comparison)
    origin = comparison.origin
    sha = f" {compared.short_sha(origin.commit)}" if origin.commit else ""
    yield (
        f"{counts.broken:,} broken, {counts.fixed:,} fixed, {counts.flaky:,} flaky; base{sha}: "
        + compared.origin_words(origin)
    )
    yield from (plain.clip_end(plain.one_line(plain.clip(note, REASON_LIMIT)), REASON_LIMIT) for note in origin.notes)
    yield compared.certainty(comparison)
    yield ""


def _figures(report: Report, counts: totals.Totals) -> str:
    judge = judge_use.figure(report.run.judges)
    figures = [
        f"{counts.passed:,} passed",
        f"{counts.failed:,} failed",
        f"{counts.inconclusive:,} inconclusive" if counts.inconclusive else "",
        f"{counts.not_measured:,} not measured",
        words.counted(report.run.repeats, "run") + " per case",
        "" if counts.tokens is None else f"{words.tokens(counts.tokens)} tokens",
        f"agent time {words.seconds(counts.agent_s)}",
        f"judge: {judge}" if judge else "",
    ]
    return ", ".join(figure for figure in figures if figure)


def _table(rows: Sequence[totals.CriterionTotals]) -> Iterator[str]:
    cells = [("suite", "criterion", "mean", "threshold", "passed", "not evaluated")]
    cells += [
        (
            plain.label(row.suite, NAME_WIDTH),
            plain.label(row.name, NAME_WIDTH),
            words.amount(row.mean) if row.threshold is None else words.score(row.mean, beside=row.threshold),
            words.threshold(row.threshold),
            "-" if row.threshold is None else f"{row.passed}/{row.total}",
            str(row.not_evaluated),
        )
        for row in rows
    ]
    yield from _columns(cells, right=range(2, len(cells[0])))


def _columns(cells: Sequence[Sequence[str]], *, right: range) -> Iterator[str]:
    widths = [max(plain.columns(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        shown = [
            _padded(cell, width, right=at in right) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(shown).rstrip()


def _padded(cell: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - plain.columns(cell))
    return blanks + cell if right else cell + blanks


def _broken(exhibits: Sequence[CaseExhibit]) -> Iterator[str]:
    failing = cases.worst_first(cases.of_kind(exhibits, VerdictKind.FAIL))
    unknown = cases.of_kind(exhibits, VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE)
    broken = [*failing, *unknown]
    told: set[str] = set()
    for exhibit in broken[:CASES]:
        where = f"{exhibit.file}:{exhibit.line}" if exhibit.line is not None else exhibit.file
        kind = sentences.kind_word(exhibit.verdict.kind)
        name = plain.label(exhibit.verdict.case_id, NAME_WIDTH)
        yield f"{kind}: {name} ({plain.label(where, NAME_WIDTH * 2)})"
        yield f"    {plain.clip_end(_why(exhibit), WHY_WIDTH)}"
        if exhibit.failure is not None and not exhibit.failing and _why(exhibit) not in told:
            told.add(_why(exhibit))  # an agent that does not start says the same of every case
            yield from (f"    | {line}" for line in sentences.last_words(exhibit.failure).splitlines())
    if len(broken) > CASES:
        yield f"...and {words.counted(len(broken) - CASES, 'more case')}: see report.html"
    if broken:
        yield ""


def _why(exhibit: CaseExhibit) -> str:
    if not exhibit.failing:
        return sentences.why_unmeasured(exhibit)
    below = (
        f"{plain.label(each.name, NAME_WIDTH)} {words.against(each.value, each.threshold, met=False)}"
        for each in exhibit.failing
    )
    return ", ".join(each for each in (*below, exhibit.whose) if each)
