"""What stands above and below the cases of the page: verdict, figures, criteria; warnings, how to run it again."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate import words
from evalgate.errors import Problem
from evalgate.exhibits import compared, fingerprint, guidance, judge_use, sentences
from evalgate.exhibits.fingerprint import Fact
from evalgate.exhibits.totals import CriterionTotals, Totals
from evalgate.markup import html, page, plain
from evalgate.markup.html import Html, element
from evalgate.model import Report, VerdictKind

PROBLEMS = 500
REASON_LIMIT = 2_000
COMMAND_LIMIT = 20_000


def render_header(report: Report, totals: Totals) -> Html:
    """The verdict with its reason (of each gate, where there are two) and the next step, and the figures."""
    verdict = report.verdict
    title = (
        f"{sentences.kind_mark(verdict.kind)} {plain.label(report.title, 100)}: {sentences.headline(verdict).lower()}"
    )
    interrupted = "" if report.run.complete else "The run was interrupted: what did not run counts as not measured."
    after = [element("p", coded(line)) for line in (interrupted, guidance.next_step(report)) if line]
    box = element("div", element("h1", title), _reason(report), *after, class_=f"verdict {verdict.kind.value}")
    return element("header", box, _figures(report, totals))


def _reason(report: Report) -> Html:
    answers = guidance.answers(report)
    if not answers:
        return element("p", coded(plain.one_line(plain.clip(report.verdict.reason, REASON_LIMIT))))
    items = [
        element("li", sentences.answer_mark(each.kind), " ", element("strong", each.question), ": ", coded(each.reason))
        for each in answers
    ]
    return element("ul", *items, class_="answers")


def coded(text: str) -> Html:
    """Text in which names stand between backticks, the names as code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return html.text(text)
    return html.join([element("code", piece) if at % 2 else piece for at, piece in enumerate(pieces)])


def render_criteria(rows: Sequence[CriterionTotals]) -> Html:
    """The criteria over all their cases, as a table."""
    if not rows:
        return Html("")
    header = ["Suite", "Criterion", "Mean", "Threshold", "Passed", "Not evaluated"]
    cells = [_criterion_cells(row) for row in rows]
    shown = page.table(header, cells, label="Criteria", numeric=range(2, len(header)))
    return element("section", element("h2", "Criteria"), shown)


def render_judges(report: Report) -> Html:
    """What judging took by criterion, folded; nothing where no judge was asked."""
    uses = report.run.judges
    if not uses:
        return Html("")
    rows = [
        [element("code", judge_use.asker(use)), element("code", use.model), *judge_use.amounts(use)] for use in uses
    ]
    header = list(judge_use.HEADER)
    shown = page.table(header, rows, label="Judges", numeric=range(2, len(header)))
    summary = element("summary", f"Judges: {judge_use.figure(uses)}")
    return element("section", element("h2", "Judges"), element("details", summary, shown))


def render_problems(problems: Sequence[Problem]) -> Html:
    """What validation found in the user's files; nothing without any."""
    if not problems:
        return Html("")
    items = [element("li", _problem(problem)) for problem in problems[:PROBLEMS]]
    rest = len(problems) - PROBLEMS
    more = element("p", f"...and {rest} more: evalgate validate shows all.") if rest > 0 else ""
    title = f"{words.counted(len(problems), 'warning')} about the evaluation files"
    return element("section", element("h2", title), element("ul", *items), more)


def render_footer(report: Report) -> Html:
    """When, with what, and the command that repeats it."""
    command = plain.clip(guidance.reproduce(report), COMMAND_LIMIT)
    about = [
        f"evalgate {report.version}" if report.version else "",
        f"started {report.run.started_at}" if report.run.started_at else "",
    ]
    again = [element("h2", "Run it at your desk"), element("pre", command)] if command else []
    shown = [element("p", each) for each in about if each]
    return element("footer", *again, *_fingerprint(report), *shown, _run_link(report))


def _fingerprint(report: Report) -> list[Html]:
    """What the numbers depend on, both sides beside each other."""
    facts = fingerprint.facts(report)
    if not facts:
        return []
    beside = any(fact.base for fact in facts)
    rows: list[list[Html | str]] = [[_name(fact), fact.head, *([fact.base] if beside else [])] for fact in facts]
    header = ["What was measured", "Head", *(["Base"] if beside else [])]
    return [page.table(header, rows, label="What was measured", numeric=range(0))]


def _name(fact: Fact) -> Html | str:
    return html.join([f"{fact.name} of ", element("code", fact.of)]) if fact.of else fact.name


def _run_link(report: Report) -> Html:
    return element("p", link("The workflow run", report.links.workflow_run)) if report.links.workflow_run else Html("")


def link(label: Html | str, address: str) -> Html:
    """A link to an http(s) address; the label alone for any other."""
    if not address.startswith(("https://", "http://")):
        return label if isinstance(label, Html) else html.text(label)
    return element("a", label, href=address, rel="noreferrer noopener")


def _figures(report: Report, totals: Totals) -> Html:
    commit = report.links.commit or report.run.commit
    figures = [
        ("passed", f"{totals.passed:,}"),
        ("failed", f"{totals.failed:,}"),
        ("inconclusive", f"{totals.inconclusive:,}" if totals.inconclusive else ""),
        ("not measured", f"{totals.not_measured:,}"),
        *_turned(report),
        (f"pass rate{_of_measured(totals)}", "" if totals.pass_rate is None else words.percent(totals.pass_rate)),
        ("runs per case", _runs(report)),
        ("tokens", "" if totals.tokens is None else words.tokens(totals.tokens)),
        ("agent time", words.seconds(totals.agent_s)),
        ("judge", judge_use.figure(report.run.judges)),
        ("commit", commit[:7]),
    ]
    shown = [element("div", element("dt", name), element("dd", value)) for name, value in figures if value]
    return element("dl", *shown, class_="figures")


def _of_measured(totals: Totals) -> str:
    """What the rate is of, where that is not all cases."""
    return f" of {totals.total - totals.not_measured:,} measured" if totals.not_measured else ""


def _turned(report: Report) -> list[tuple[str, str]]:
    comparison = report.comparison
    if comparison is None or comparison.problem:
        return []
    counts = compared.count(comparison)
    overall = comparison.overall
    moved = "" if overall is None else compared.signed(overall.delta, share=True)
    return [
        ("broken", f"{counts.broken:,}"),
        ("fixed", f"{counts.fixed:,}"),
        ("flaky", f"{counts.flaky:,}"),
        ("against the base", moved),
    ]


def _runs(report: Report) -> str:
    run = report.run
    return f"{run.repeats:,}" if not run.repeated else f"{run.repeats:,} and {run.more:,} more"


def _criterion_cells(row: CriterionTotals) -> list[Html | str]:
    mean = words.amount(row.mean) if row.threshold is None else words.score(row.mean, beside=row.threshold)
    kind = VerdictKind.FAIL if row.met is False else VerdictKind.PASS
    return [
        element("code", row.suite),
        element("code", row.name),
        element("span", mean, class_=f"badge {kind.value}") if row.met is not None else mean,
        "informational" if row.threshold is None else words.threshold(row.threshold),
        "" if row.threshold is None else f"{row.passed:,}/{row.total:,}",
        f"{row.not_evaluated:,}",
    ]


def _problem(problem: Problem) -> Html:
    where = element("code", str(problem.place)) if problem.place else Html("")
    severity = element("strong", problem.severity.value)
    hint = element("em", problem.hint) if problem.hint else Html("")
    return html.join([severity, " ", where, ": " if problem.place else " ", problem.message, " ", hint])
