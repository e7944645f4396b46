"""What stands above the cases (verdict, figures, criteria) and below them (warnings, how to run it again)."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate import words
from evalgate.errors import Problem
from evalgate.exhibits import fingerprint, guidance, judge_use, sentences
from evalgate.exhibits.fingerprint import Fact
from evalgate.exhibits.guidance import Answer
from evalgate.exhibits.totals import CriterionTotals, Totals
from evalgate.markup import github, plain
from evalgate.model import Report, VerdictKind

DASH = "\N{EN DASH}"
SUITE_WIDTH = 80
REASON_LIMIT = 600
FACT_WIDTH = 200


def render_verdict(report: Report) -> str:
    """The alert: may this be merged, why (not), what to do. Where there are two gates, the answer of each."""
    head = f"**{github.prose(plain.label(report.title, 100))}: {sentences.headline(report.verdict).lower()}.**"
    interrupted = "" if report.run.complete else "The run was interrupted: what did not run counts as not measured."
    answers = guidance.answers(report)
    if answers:
        paragraphs = [head, "\n".join(_answer(each) for each in answers)]
    else:
        paragraphs = [f"{head} {github.prose(plain.clip(report.verdict.reason, REASON_LIMIT))}".rstrip()]
    paragraphs.append(" ".join(each for each in (interrupted, guidance.next_step(report)) if each))
    return github.alert(_alert_kind(report), "\n\n".join(each for each in paragraphs if each))


def _answer(answer: Answer) -> str:
    return f"- {sentences.answer_mark(answer.kind)} **{answer.question}**: {github.prose(answer.reason)}"


def render_figures(report: Report, totals: Totals) -> str:
    """The strip: counts of cases, pass rate, repeats, tokens, seconds, judge, commit; only what is known."""
    figures = [
        f"**{totals.passed:,}** passed",
        f"**{totals.failed:,}** failed",
        f"**{totals.inconclusive:,}** inconclusive" if totals.inconclusive else "",
        f"**{totals.not_measured:,}** not measured",
        "" if totals.pass_rate is None else f"pass rate {words.percent(totals.pass_rate)}{_of_measured(totals)}",
        words.counted(report.run.repeats, "run") + " per case",
        *costs(report, totals),
        commit(report),
    ]
    return " \N{MIDDLE DOT} ".join(figure for figure in figures if figure)


def costs(report: Report, totals: Totals) -> list[str]:
    """What the run took, as far as it is known: tokens, seconds, the judge."""
    judge = judge_use.figure(report.run.judges)
    return [
        "" if totals.tokens is None else f"{words.tokens(totals.tokens)} tokens",
        f"agent time {words.seconds(totals.agent_s)}",
        f"judge: {judge}" if judge else "",
    ]


def render_criteria(rows: Sequence[CriterionTotals], *, limit: int) -> str:
    """The criteria that decide as a table, those that only inform folded under it; "" without any.

    Of more than `limit` the failing ones come first.
    """
    deciding = [row for row in rows if row.threshold is not None]
    others = [row for row in rows if row.threshold is None]
    parts = [_criteria_table(deciding, limit=limit)] if deciding else []
    if others:
        title = f"{words.counted(len(others), 'criterion', 'criteria')} without a threshold"
        parts.append(github.details(title, _criteria_table(others, limit=limit)))
    return "\n\n".join(parts)


def _criteria_table(rows: Sequence[CriterionTotals], *, limit: int) -> str:
    several = len({row.suite for row in rows}) > 1
    kept = sorted(rows, key=lambda row: -row.failed)[:limit] if len(rows) > limit else rows
    header = [*(["Suite"] if several else []), "Criterion", "Mean", "Threshold", "Passed", "Not evaluated"]
    first = 2 if several else 1
    cells = [_criterion_cells(row, several=several) for row in kept]
    rest = len(rows) - len(kept)
    below = [f"{words.counted(rest, 'more row')} in report.html."] if rest else []
    return "\n\n".join([github.table(header, cells, right=range(first, len(header))), *below])


def render_judges(report: Report, *, limit: int) -> str:
    """What judging took by criterion, folded; "" where no judge was asked."""
    uses = report.run.judges
    if not uses:
        return ""
    rows = [
        [
            github.cell_code(plain.label(judge_use.asker(use), SUITE_WIDTH)),
            github.cell_code(plain.label(use.model, SUITE_WIDTH)),
            *judge_use.amounts(use),
        ]
        for use in uses[:limit]
    ]
    table = github.table(judge_use.HEADER, rows, right=range(2, len(judge_use.HEADER)))
    rest = len(uses) - len(rows)
    more = f"\n\n{words.counted(rest, 'more row')} in report.html." if rest > 0 else ""
    return github.details(f"Judges: {judge_use.figure(uses)}", table + more)


def render_problems(problems: Sequence[Problem], *, limit: int) -> str:
    """What validation found in the user's files, folded, at most `limit` of them; "" without any."""
    if not problems:
        return ""
    lines = [_problem(problem) for problem in problems[:limit]]
    if len(problems) > limit:
        lines.append(f"- ...and {words.counted(len(problems) - limit, 'more', 'more')}: `evalgate validate` shows all.")
    title = f"{words.counted(len(problems), 'warning')} about the evaluation files"
    return github.details(title, "\n".join(lines))


def _problem(problem: Problem) -> str:
    where = f" {github.code(plain.label(str(problem.place), 200))}" if problem.place else ""
    hint = f" *{github.prose(plain.clip(problem.hint, 300))}*" if problem.hint.strip() else ""
    message = github.prose(plain.clip(problem.message, REASON_LIMIT))
    return f"- **{problem.severity.value}**{where}: {message}{hint}"


def render_reproduce(report: Report) -> str:
    """The command that repeats this at a desk, and what the numbers depend on, folded; "" where neither is known."""
    command, known = guidance.reproduce(report), _fingerprint(report)
    if not command:
        return github.details("What was measured", known) if known else ""
    shown = github.fence(plain.clip(command, 2_000), language="sh")
    return github.details("Run it at your desk", f"{shown}\n\n{known}" if known else shown)


def _fingerprint(report: Report) -> str:
    """What the numbers depend on, both sides beside each other; "" where nothing is known."""
    facts = fingerprint.facts(report)
    if not facts:
        return ""
    beside = any(fact.base for fact in facts)
    rows = [[_name(fact), _value(fact.head), *([_value(fact.base)] if beside else [])] for fact in facts]
    return github.table(["What was measured", "Head", *(["Base"] if beside else [])], rows)


def _value(text: str) -> str:
    if text in ("", fingerprint.SAME, fingerprint.UNKNOWN):
        return text
    return github.cell_code(plain.label(text, FACT_WIDTH))


def _name(fact: Fact) -> str:
    return f"{fact.name} of {github.cell_code(plain.label(fact.of, SUITE_WIDTH))}" if fact.of else fact.name


def render_footer(report: Report) -> str:
    """Who says so: the version, and the workflow run with its files."""
    made_by = f"evalgate {github.prose(plain.label(report.version, 40))}".strip()
    where = "`report.html` has every conversation"
    if report.links.workflow_run:
        where = f"{where}, among the files of {github.link('this workflow run', report.links.workflow_run)}"
    return f"<sub>{made_by} \N{MIDDLE DOT} {where}.</sub>"


def _alert_kind(report: Report) -> str:
    match report.verdict.kind:
        case VerdictKind.PASS:
            return "TIP"
        case VerdictKind.FAIL:
            return "CAUTION" if report.verdict.blocks else "WARNING"
        case VerdictKind.INCONCLUSIVE:
            return "IMPORTANT"
        case VerdictKind.NOT_MEASURED:
            return "WARNING"


def _criterion_cells(row: CriterionTotals, *, several: bool) -> list[str]:
    mean = words.amount(row.mean) if row.threshold is None else words.score(row.mean, beside=row.threshold)
    return [
        *([github.cell_code(plain.label(row.suite, SUITE_WIDTH))] if several else []),
        github.cell_code(plain.label(row.name, SUITE_WIDTH)),
        f"**{mean}**" if row.met is False else mean,
        "*informational*" if row.threshold is None else words.threshold(row.threshold),
        DASH if row.threshold is None else f"{row.passed:,}/{row.total:,}",
        f"{row.not_evaluated:,}",
    ]


def _of_measured(totals: Totals) -> str:
    return f" of {totals.total - totals.not_measured:,} measured" if totals.not_measured else ""


def commit(report: Report) -> str:
    """Head's commit, linked where its page is known; "" where it is not known."""
    sha = report.links.commit or report.run.commit
    if not sha:
        return ""
    label = github.code(sha[:7])
    known = report.links.repository and report.links.commit
    return github.link(label, f"{report.links.repository}/commit/{sha}") if known else label
