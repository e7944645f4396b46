"""One case in HTML: a row that opens, with every turn, expected beside actual."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from evalgate import words
from evalgate.exhibits import base_side, calls, conversation, opinions, parted, sentences, wording
from evalgate.exhibits.base_side import BaseTurn
from evalgate.exhibits.cases import CaseExhibit
from evalgate.exhibits.conversation import Turn
from evalgate.exhibits.web import overview
from evalgate.markup import github, html, page, plain
from evalgate.markup.html import Html, element
from evalgate.model import CriterionVerdict, Finding, Report, ToolCall, VerdictKind

TEXT_LIMIT = 20_000
DETAIL_LIMIT = 20_000
TURNS = 50
LEFT_OUT = "The conversation is left out for size."
CALL_MARKS = {" ": None, "-": "gone", "+": "come"}


def render_case(exhibit: CaseExhibit, report: Report, *, number: int, whole: bool) -> Html:
    """The case as a `<details>`: `whole` with its conversation, else in a few lines."""
    if whole:
        body = [
            _where(exhibit, report),
            _values(exhibit.verdict.criteria),
            *_failures(exhibit),
            *_conversation(exhibit, report),
        ]
    else:
        body = [_where(exhibit, report), _brief(exhibit.verdict.criteria), element("p", LEFT_OUT, class_="label")]
    kind = exhibit.verdict.kind
    return element(
        "details", _summary(exhibit), element("div", *body), class_=f"case {kind.value}", id=f"case-{number}"
    )


@functools.lru_cache(maxsize=1024)
def _brief(criteria: tuple[CriterionVerdict, ...]) -> Html:
    values = [f"{plain.label(each.name, 100)} {_number(each.value, each)}" for each in criteria]
    return element("p", ", ".join(values))


def _summary(exhibit: CaseExhibit) -> Html:
    kind = exhibit.verdict.kind
    # In ASCII: one wide character would make every copy of a page of megabytes twice as large in memory.
    sign = Html(sentences.kind_mark(kind).encode("ascii", "xmlcharrefreplace").decode())
    mark = element("span", sign, f" {sentences.kind_word(kind)}", class_=f"badge {kind.value}")
    why = element("span", plain.clip_end(_why(exhibit), 300), class_="why")
    name = element("bdi", plain.label(exhibit.verdict.case_id, 300))
    return element("summary", mark, " ", element("code", name), " ", why)


def _why(exhibit: CaseExhibit) -> str:
    if exhibit.failing:
        below = [
            f"{plain.label(each.name, 100)} {words.against(each.value, each.threshold, met=False)}"
            for each in exhibit.failing
        ]
        return ", ".join(each for each in (*below, exhibit.whose) if each)
    return "" if exhibit.verdict.kind is VerdictKind.PASS else sentences.why_unmeasured(exhibit)


def _where(exhibit: CaseExhibit, report: Report) -> Html:
    shown = exhibit.file + (f":{exhibit.line}" if exhibit.line is not None else "")
    address = github.file_address(
        repository=report.links.repository,
        commit=report.links.commit,
        path=report.links.place(exhibit.file),
        line=exhibit.line,
    )
    which = ""
    runs = report.run.expected(exhibit.verdict.suite, exhibit.verdict.case_id)
    if runs > 1 and exhibit.shown is not None:
        which = f", run {exhibit.shown.key.repeat + 1} of {runs} is shown"
    time = f", {words.seconds(exhibit.verdict.seconds)}"
    return element("p", overview.link(element("code", shown), address), which, time)


@functools.lru_cache(maxsize=1024)
def _values(criteria: tuple[CriterionVerdict, ...]) -> Html:
    """The table of values; thousands of cases have the same."""
    if not criteria:
        return Html("")
    rows = [_value_cells(verdict) for verdict in criteria]
    return page.table(["Criterion", "Verdict", "Value", "Threshold", "Runs"], rows, label="Values", numeric=range(2, 5))


def _value_cells(verdict: CriterionVerdict) -> list[Html | str]:
    kind = verdict.kind
    word: Html | str = "informational"
    if kind is not None:
        word = element("span", sentences.kind_word(kind), class_=f"badge {kind.value}")
    if verdict.value is None:
        word = html.join([word, f": {sentences.unmeasured_sentence(verdict)}"])
    runs = [_number(value, verdict) for value in verdict.values]
    return [
        element("code", verdict.name),
        word,
        _number(verdict.value, verdict),
        words.threshold(verdict.threshold),
        ", ".join(runs) if len(runs) > 1 else "",
    ]


def _number(value: float | None, verdict: CriterionVerdict) -> str:
    return words.amount(value) if verdict.threshold is None else words.score(value, beside=verdict.threshold)


def _failures(exhibit: CaseExhibit) -> Iterator[Html]:
    for trial in exhibit.trials:
        if trial.failure is not None:
            run = f"Run {trial.key.repeat + 1}: " if len(exhibit.trials) > 1 else ""
            yield element("p", element("strong", f"{run}{sentences.failure_sentence(trial.failure)}"))
            if trial.failure.detail.strip():
                detail = plain.visible(plain.clip(trial.failure.detail, DETAIL_LIMIT))
                yield _pre(plain.ends(detail, lines=200, limit=DETAIL_LIMIT))


def _conversation(exhibit: CaseExhibit, report: Report) -> Iterator[Html]:
    known = conversation.turns(exhibit, report.run.transcripts)
    yield from findings_list(conversation.findings(exhibit))
    where = parted.sentence(exhibit, report)
    if where:
        yield element("p", where)
    base = base_side.turns(exhibit, report)
    for turn in known[:TURNS]:
        beside = _base(base[turn.number - 1], turn) if turn.number <= len(base) else ()
        yield element("div", *_turn(turn), *beside, class_="turn")
    if len(known) > TURNS:
        yield element("p", f"{words.counted(len(known) - TURNS, 'more turn')}: see results.json.", class_="label")


def _turn(turn: Turn) -> Iterator[Html]:
    scores = [
        f"{plain.label(score.name, 100)} {words.score(score.value, beside=score.threshold)}"
        + ("" if score.met is not False else " (below)")
        for score in turn.scores
    ]
    yield element("h3", f"Turn {turn.number}", element("span", ", ".join(scores), class_="why") if scores else "")
    yield element("div", plain.clip(turn.user, TEXT_LIMIT), class_="user", dir="auto")
    if not turn.happened:
        yield element("p", element("strong", "The agent gave no such turn."))
    if not turn.asked:
        yield element("p", element("strong", "The evaluation file has no such turn."))
    yield from _calls(turn)
    yield from _answers(turn)
    yield from findings_list(turn.findings)


def _base(base: BaseTurn, turn: Turn) -> Iterator[Html]:
    """What the base did in this turn, folded; nothing where it did and said the same."""
    parts: list[Html] = []
    if not calls.same(base.calls, turn.actual_calls):
        parts.append(_call_rows(base.calls, turn.actual_calls or (), label="Tool calls: - base, + head"))
    if base.answer is not None and base.answer != turn.actual_answer:
        parts += [element("p", "The base's answer", class_="label"), _pre(plain.clip(base.answer, TEXT_LIMIT))]
    if parts:
        yield element("details", element("summary", "What the base did here"), *parts)


def _calls(turn: Turn) -> Iterator[Html]:
    expected, actual = turn.expected_calls, turn.actual_calls
    if expected is None or actual is None:
        listed = [plain.flat(calls.spell(call)) for call in actual or expected or ()]
        if listed:
            yield element("p", f"Tool calls ({'actual' if actual else 'expected'})", class_="label")
            yield _pre("\n".join(listed))
    elif expected or actual:
        yield from _call_difference(expected, actual)


def _call_difference(expected: tuple[ToolCall, ...], actual: tuple[ToolCall, ...]) -> Iterator[Html]:
    same = all(line.mark == " " for line in calls.difference(calls.pair(expected, actual)))
    yield _call_rows(expected, actual, label="Tool calls, as expected" if same else "Tool calls: - expected, + actual")


def _call_rows(left: tuple[ToolCall, ...], right: tuple[ToolCall, ...], *, label: str) -> Html:
    lines = calls.difference(calls.pair(left, right))
    rows = [
        element("span", plain.flat(f"{line.mark} {line.text}"), class_=f"row {CALL_MARKS[line.mark] or ''}".strip())
        for line in lines
    ]
    return html.join([element("p", label, class_="label"), _pre(html.join(rows))])


def _answers(turn: Turn) -> Iterator[Html]:
    expected, actual = turn.expected_answer, turn.actual_answer
    if expected is not None and actual is not None and expected != actual:
        yield element("p", "Expected answer struck out, actual answer underlined", class_="label")
        yield _pre(html.join(_piece(piece) for piece in wording.compare(expected, actual).pieces))
    else:
        for name, answer in (("Expected answer", expected), ("Answer, as expected", actual)):
            if answer is not None and not (name == "Expected answer" and actual is not None):
                yield element("p", name if expected is not None else "Answer", class_="label")
                yield _pre(plain.clip(answer, TEXT_LIMIT))
    if actual is None and turn.happened:
        yield element("p", element("strong", f"{sentences.no_answer(turn)}."))


def _piece(piece: wording.Piece) -> Html:
    if piece.mark == "=":
        return html.text(piece.text)
    return element("del" if piece.mark == "-" else "ins", piece.text)


def findings_list(findings: tuple[tuple[str, Finding], ...]) -> Iterator[Html]:
    """What criteria found, the samples of a judge folded below it."""
    shown = [(name, finding) for name, finding in findings if opinions.worth_showing(finding)][:100]
    if shown:
        yield element("ul", *(_finding(name, finding) for name, finding in shown))


def _finding(name: str, finding: Finding) -> Html:
    head = element("code", name), f" {finding.label}: " if finding.label else ": "
    subject = (element("q", _clipped(finding.subject)), " ") if finding.subject else ()
    said = [
        element("li", element("code", opinion.label or opinions.UNREAD), ": ", _clipped(opinion.text))
        for opinion in finding.opinions
    ]
    folded = element("details", element("summary", opinions.tally(finding)), element("ul", *said)) if said else ""
    return element("li", *head, *subject, _clipped(finding.text), folded)


def _clipped(text: str) -> str:
    return plain.clip(text, 2_000)


def _pre(content: Html | str) -> Html:
    return element("pre", content, dir="auto", tabindex=0)
