"""A comparison on the page: what head weakens, the criteria of both sides, cases that turned or stand apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalgate import words
from evalgate.exhibits import compared, sensitivity, weakened
from evalgate.exhibits.web import overview
from evalgate.markup import html, page, plain
from evalgate.markup.html import Html, element
from evalgate.model import CaseComparison, Change, Comparison, CriterionComparison, Report, Standing, VerdictKind

LISTED = 1_000
LOOSENED = 1_000_000
"""Characters: thousands of rules."""
NAME = 200
BADGES = {
    Change.REGRESSED: VerdictKind.FAIL,
    Change.IMPROVED: VerdictKind.PASS,
    Change.UNCHANGED: VerdictKind.PASS,
    Change.INCONCLUSIVE: VerdictKind.INCONCLUSIVE,
    Change.NOT_MEASURED: VerdictKind.NOT_MEASURED,
}


def render(report: Report) -> Html:
    """The section; nothing where no base was asked for."""
    comparison = report.comparison
    if comparison is None:
        return Html("")
    body = [_problem(comparison)] if comparison.problem else [*_measured(comparison, report)]
    return element("section", element("h2", "Head beside base"), _loosened(comparison), _whose(comparison), *body)


def _problem(comparison: Comparison) -> Html:
    return element("p", element("strong", "No comparison: "), plain.clip(comparison.problem, 2_000))


def _measured(comparison: Comparison, report: Report) -> Iterator[Html]:
    yield element("p", *_strip(comparison, report))
    deciding, others = compared.changed_rows(comparison)
    rows = [_cells(row) for row in (*deciding, *others)]
    header = ["Criterion", "Base", "Head", "Change", "95 % interval", "p", "Against the base"]
    yield page.table(header, rows, label="Criteria of both sides", numeric=range(1, 6))
    for title, chosen in (
        ("broken", [case for case in comparison.cases if case.broken]),
        ("fixed", [case for case in comparison.cases if case.fixed]),
        ("flaky", [case for case in comparison.cases if case.flaky]),
        ("left out: new, changed or removed", [c for c in comparison.cases if c.standing is not Standing.PAIRED]),
    ):
        if chosen:
            yield _cases(title, chosen)
    said = [compared.certainty(comparison), *(f"{note.rstrip('.')}." for note in comparison.origin.notes)]
    yield html.join([element("p", plain.clip(line, 1_000)) for line in said if line])


def _loosened(comparison: Comparison) -> Html:
    found = weakened.lines(comparison.loosened, mark=lambda text: plain.label(text, NAME), named=LISTED)
    if not found:
        return Html("")
    shown = weakened.within(found, room=LOOSENED, size=lambda line: len(line.text))
    rest = weakened.left_out(found, shown)
    items = [element("li", text) for text in (*(line.text for line in shown), *([f"{rest}."] if rest else []))]
    title = f"This change lowers its own bar ({weakened.counted(found)}), compared with the base:"
    lead = element("p", element("strong", title))
    return element("div", lead, element("ul", *items), class_="verdict not_measured")


def _whose(comparison: Comparison) -> Html:
    said = weakened.by_whose_rules(comparison)
    return element("p", overview.coded(said)) if said else Html("")


def _strip(comparison: Comparison, report: Report) -> list[Html | str]:
    overall = comparison.overall
    parts: list[Html | str] = []
    if overall is not None and overall.base is not None and overall.head is not None:
        base, head = words.percent(overall.base), words.percent(overall.head)
        delta = compared.signed(overall.delta, share=True)
        parts += [
            f"Pass rate {base} to ",
            element("strong", head),
            f" ({delta}; {compared.between(overall, share=True)}). ",
        ]
    origin = comparison.origin
    parts.append(f"Base: {compared.origin_words(origin)}")
    if origin.commit:
        known = report.links.repository and origin.commit.isalnum()
        address = f"{report.links.repository}/commit/{origin.commit}" if known else ""
        parts += [", ", overview.link(element("code", compared.short_sha(origin.commit)), address)]
    parts.append(f"; {sensitivity.runs_words(report.run, comparison.base)}.")
    return parts


def _cells(row: CriterionComparison) -> list[Html | str]:
    turned = compared.turned_words(row)
    told = f": {turned}" if turned else ""
    change = compared.said_of(row)
    badge = element("span", change, class_=f"badge {BADGES[row.change].value}")
    return [
        element("code", row.name),
        *compared.means(row),
        compared.moved(row),
        compared.between(row),
        compared.p_value(row),
        html.join([badge, told]) if row.gating else f"{change}{told}, without a say",
    ]


def _cases(title: str, chosen: Sequence[CaseComparison]) -> Html:
    header = ["Case", "Suite", "Base", "Head", ""]
    rows: list[list[Html | str]] = [
        [
            element("code", plain.label(case.case_id, NAME)),
            element("code", plain.label(case.suite, NAME)),
            _arm(case, base=True),
            _arm(case, base=False),
            compared.whose(case) or case.why,
        ]
        for case in chosen[:LISTED]
    ]
    summary = element("summary", f"{words.counted(len(chosen), 'case')} {title}")
    return element("details", summary, page.table(header, rows, label=title, numeric=range(2, 4)))


def _arm(case: CaseComparison, *, base: bool) -> str:
    arm = case.base if base else case.head
    if arm is None:
        return "-"
    rest = f", {arm.unmeasured} not measured" if arm.unmeasured else ""
    return f"{arm.passed}/{arm.passed + arm.failed} passed{rest}"
