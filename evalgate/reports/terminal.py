"""The verdict for a terminal or a log: what broke first, with what differed, the verdict last, where eyes are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from evalgate.model import Report, ToolCall, VerdictKind, call_diff
from evalgate.reports import cases, moved, turns, view, wording
from evalgate.reports.cases import CaseView
from evalgate.reports.moved import Fall
from evalgate.reports.turns import Turn
from evalgate.reports.view import View
from evalgate.text import plain, words, workflow_commands

GROUPS, TOLD_WHOLE, NAMED_CASES = 50, 10, 8
RELAXED_ROOM = 200
NAMED = 12
NAME_WIDTH = 60
WHY_WIDTH = 200
WHY_LIMIT = 400
REASON_LIMIT = 1_000
LOG_WIDTH = 120
CALL_LINES, ANSWER_LINES, FINDINGS = 12, 4, 3
FALLS, MOVED = 5, 3

Style: TypeAlias = Literal["", "bold", "dim", "red", "green", "yellow"]
CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
KINDS: Final[dict[VerdictKind, Style]] = {
    VerdictKind.PASS: "green",
    VerdictKind.FAIL: "red",
    VerdictKind.INCONCLUSIVE: "yellow",
    VerdictKind.NOT_MEASURED: "yellow",
}
MARKS: Final[dict[str, Style]] = {"-": "red", "+": "green", " ": ""}


class Line(NamedTuple):
    """A line and its color."""

    text: str
    style: Style = ""


BLANK: Final = Line("")


def render(report: Report, *, width: int = 0, color: bool = False) -> str:
    """Lines: the cases that broke with the reason and what differed, the criteria, and the verdict last.

    `width`: that of the terminal; 0 for a log, which breaks no sentence. No line can be taken for a workflow command.
    """
    v = view.of(report)
    where = "report.html" if "html" in report.files else ""
    broken, compared = _broken(v.cases, width, where=where), _compared(report, width, where=where)
    unscored = wording.passed_unscored(report)
    warned = (
        Line(line, "yellow")
        for line in (plain.wrap(f"warning: {unscored}", width or len(unscored) + 9) if unscored else [])
    )
    parts = (warned, _broken_files(v), broken, _criteria(v, width), compared, _verdict(v, width))
    lines: list[Line] = []
    for part in parts:
        made = list(part)
        lines += [BLANK, *made] if lines and made else made
    return "\n".join(_painted(line, color=color) for line in lines) + "\n"


def render_case(report: Report, key: tuple[str, str], *, width: int = 0) -> str:
    """Why one case (its suite and its name) did not pass, and what differed; "" where it did or is not there."""
    found = next((case for case in view.of(report).cases if case.verdict.key == key), None)
    if found is None:
        return ""
    why = wording.why(found, width=NAME_WIDTH)
    lines = [Line(why), *_difference(found, width or LOG_WIDTH)] if why else []
    if found.failure is not None and not found.failing:
        lines += [Line(f"    | {line}") for line in wording.last_words(found.failure).splitlines()]
    return "\n".join(_painted(line, color=False) for line in lines)


def _painted(line: Line, *, color: bool) -> str:
    text = workflow_commands.disarm(line.text)
    return f"\x1b[{CODES[line.style]}m{text}\x1b[0m" if color and line.style and text else text


def _name(text: str) -> str:
    return plain.label(text, NAME_WIDTH)


def _broken_files(v: View) -> Iterator[Line]:
    for each in v.broken[:GROUPS]:
        yield Line(f"not measured: {_name(each.suite)}: {plain.one_line(each.reason)}", "yellow")


def _broken(found: Sequence[CaseView], width: int, *, where: str) -> Iterator[Line]:
    """Failures first, the worst of them on top; cases that say the same are one. `where`: a file with all of them."""
    broken = [*cases.worst_first([case for case in found if case.kind is VerdictKind.FAIL])]
    broken += [case for case in found if case.kind in (VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE)]
    groups: dict[tuple[str, str, tuple[Line, ...]], list[CaseView]] = {}
    for at, case in enumerate(broken):
        differs = tuple(_difference(case, width or LOG_WIDTH)) if at < TOLD_WHOLE else ()
        groups.setdefault((wording.case_word(case), wording.why(case, width=NAME_WIDTH), differs), []).append(case)
    if any(line.text.lstrip()[:2] in ("- ", "+ ") for _, _, differs in groups for line in differs):
        yield Line("- expected, + actual", "dim")
    quoted: set[str] = set()
    for (word, why, differs), own in list(groups.items())[:GROUPS]:
        is_shown_only = own[0].kind is VerdictKind.FAIL and own[0].allowed is not None
        yield Line(f"{word}: {_who(own, width)}", "yellow" if is_shown_only else KINDS[own[0].kind])
        told = plain.keep_advice(why, WHY_LIMIT)
        yield from (Line(f"    {line}") for line in (plain.wrap(told, width - 4) if width else [told]))
        yield from differs
        last = "" if own[0].failure is None or own[0].failing else wording.last_words(own[0].failure)
        if last not in quoted:
            quoted.add(last)
            yield from (Line(f"    | {line}", "dim") for line in last.splitlines())
    left_out = len(broken) - sum(len(own) for own in list(groups.values())[:GROUPS])
    if left_out:
        yield Line(f"...and {words.counted(left_out, 'more case')}{where and f': see {where}'}")


def _who(own: Sequence[CaseView], width: int) -> str:
    names = [_name(case.case_id) for case in own]
    if len(own) > 1:
        return f"{words.counted(len(own), 'case')}: {words.listed(names, limit=NAMED_CASES)}"
    room = max(width - plain.columns(names[0]) - 20, 20) if width else NAME_WIDTH * 2
    return f"{names[0]} ({plain.label(own[0].place, room)})"


def _difference(case: CaseView, width: int) -> Iterator[Line]:
    """The first turn that went wrong: expected (`-`) beside actual (`+`), and what criteria found in it."""
    known = turns.of(case).turns
    broken = [turn for turn in known if turn.broken] or list(known)
    if case.agent_failed or not case.failing or not broken:
        return
    turn = broken[0]
    if len(known) > 1:
        user = plain.label(turn.user, max(width - 24, 20)) if turn.user.strip() else ""
        yield Line(f"    turn {turn.number} of {len(known)}{': ' if user else ''}{user}", "dim")
    if turn.actual is None:
        yield Line("    The agent did not reach this turn.")
        return
    yield from _calls(turn, width - 6)
    yield from _answers(turn, width - 6)
    for name, finding in turns.shown_findings(turn.findings)[:FINDINGS]:
        said = ": ".join(each for each in (_name(name), finding.label, finding.subject, finding.text) if each)
        yield Line(f"    {plain.clip_end(plain.one_line(said), WHY_WIDTH)}", "dim")
    if len(broken) > 1:
        yield Line(f"    ...and {words.counted(len(broken) - 1, 'more turn')}", "dim")


def _calls(turn: Turn, width: int) -> Iterator[Line]:
    if turn.expected_calls is None or call_diff.same(turn.expected_calls, turn.actual_calls):
        return
    yield from _call_lines(turn.expected_calls, turn.actual_calls or (), width)


def _call_lines(left: Sequence[ToolCall], right: Sequence[ToolCall], width: int) -> Iterator[Line]:
    rows = [
        Line(f"    {line.mark} {text}", MARKS[line.mark])
        for line in call_diff.difference(call_diff.pair(left, right))
        for text in plain.wrap(plain.flat(line.text), width)
    ]
    yield from rows[:CALL_LINES]
    if len(rows) > CALL_LINES:
        yield Line(f"      ...{words.counted(len(rows) - CALL_LINES, 'more line')}", "dim")


def _answers(turn: Turn, width: int) -> Iterator[Line]:
    expected, actual = turn.expected_answer, turn.actual_answer
    if not turn.compares_answers or expected is None or expected == actual:
        return
    yield from _said("-", expected, width)
    if actual is not None:
        yield from _said("+", actual, width)
    elif turn.has_no_final_answer:
        yield Line(f"    The agent produced {wording.UNMARKED}, so it gave no answer.")
    else:
        yield Line("    The agent gave no answer.")


def _said(mark: str, text: str, width: int) -> Iterator[Line]:
    rows = plain.wrap(plain.flat(plain.clip(text.strip(), width * ANSWER_LINES)), width)
    yield from (Line(f"    {mark} {row}", MARKS[mark]) for row in rows[: ANSWER_LINES + 1])


def _criteria(v: View, width: int) -> Iterator[Line]:
    """A row per criterion below its suite; a column of zeros is left out."""
    name_width = min(NAME_WIDTH, max(width - 50, 20)) if width else NAME_WIDTH
    gaps = any(row.not_evaluated for row in v.criteria)
    table = [("criterion", "mean", "threshold", "passed", *(["not evaluated"] if gaps else []))]
    for row in v.criteria:
        passed = "-" if row.threshold is None else f"{row.passed}/{row.total}"
        cells = (f"  {plain.label(row.name, name_width)}", row.shown, words.threshold(row.threshold), passed)
        table.append((*cells, *([str(row.not_evaluated)] if gaps else [])))
    head, *lines = plain.table(table, right=range(1, 5))
    suite = ""
    yield Line(head, "bold")
    for row, line in zip(v.criteria, lines, strict=True):
        if row.suite != suite:
            suite = row.suite
            yield Line(plain.label(suite, width or LOG_WIDTH))
        yield Line(line, "" if row.met is not False else "red")


def _compared(report: Report, width: int, *, where: str) -> Iterator[Line]:
    """Head beside base: what head weakens, a row per criterion that decides, where the base's results come from."""
    comparison = report.comparison
    if comparison is None:
        return
    relaxed = view.relaxed(comparison.relaxed, mark=_name, named=NAMED, room=RELAXED_ROOM, size=lambda _: 1)
    if relaxed is not None:
        yield from (Line(f"relaxed rule: {line}", "yellow") for line in relaxed.lines)
        if relaxed.rest:
            yield Line(f"relaxed rules: ...and {relaxed.rest}{where and f', in {where}'}")
    if comparison.by_base:
        yield Line("The base branch's rules apply (`policy: base`), not this change's.")
    if comparison.problem:
        return
    rows, _ = cases.rows(comparison)
    cells = [("criterion", "base", "head", "change", "95% interval", "p", "")]
    cells += [
        (_name(row.name), *words.compared(row.base, row.head), cases.between(row), cases.p_value(row), cases.said(row))
        for row in rows
    ]
    head, *lines = plain.table(cells, right=range(1, 6))
    yield Line(head, "bold")
    for row, line in zip(rows, lines, strict=True):
        kind = cases.KINDS[row.change]
        yield Line(line, KINDS[kind] if row.rule.gating and kind is not VerdictKind.INCONCLUSIVE else "")
    origin = comparison.origin
    sha = f" {plain.one_line(origin.commit[:7])}" if origin.commit else ""
    yield Line(f"base{sha}: {cases.origin_words(origin)}")
    for fall in moved.falls(view.of(report))[:FALLS]:
        yield from _fallen(fall, width or LOG_WIDTH)
    for note in origin.notes:
        yield Line(plain.clip_end(plain.one_line(plain.clip(note, REASON_LIMIT)), REASON_LIMIT))
    certainty = cases.certainty(comparison)
    if certainty:
        yield Line(certainty, "dim")


def _fallen(fall: Fall, width: int) -> Iterator[Line]:
    """A criterion that fell, the cases that moved most, and the calls of the first of them that still passes."""
    yield Line(f"{_name(fall.row.name)} {fall.told}", "yellow")
    shown = fall.moved[:MOVED]
    for each in shown:
        origin = f" ({each.case.failure_origin})" if each.case.failure_origin else ""
        yield Line(f"  {_name(each.case.case_id)} {each.told}{origin}")
    if len(fall.moved) > len(shown):
        yield Line(f"  ...and {words.counted(len(fall.moved) - len(shown), 'more case')}", "dim")
    turn = shown[0].turn
    if shown[0].case.kind is VerdictKind.PASS and turn is not None and turn.calls_differ:
        yield Line(f"    {_name(shown[0].case.case_id)}: - base, + head", "dim")
        yield from _call_lines(turn.base_calls, turn.head_calls, width - 6)


def _verdict(v: View, width: int) -> Iterator[Line]:
    for text, style in _decided(v):
        yield from (Line(line, style) for line in (plain.wrap(text, width) if width else [text]))


def _decided(v: View) -> Iterator[Line]:
    report, counts, run = v.report, v.totals, v.report.run
    judge = view.judges_summary(run.judges)
    of_cases = wording.counts(counts.cases)
    figures = [
        *(f"{number:,} {word}{f' ({more})' if more else ''}" for word, number, more in of_cases),
        words.counted(run.repeats, "run") + " per case",
        "" if counts.tokens is None else f"{words.tokens(counts.tokens)} tokens",
        f"agent time {words.seconds(counts.agent_s)}",
        f"judge: {judge}" if judge else "",
    ]
    total = words.counted(counts.cases.total, "case")
    yield Line(f"{total}: {', '.join(figure for figure in figures if figure)}")
    for notice in wording.notices(report, v.cases):
        yield Line(plain.one_line(f"{notice.title}: {notice.text}"))
    answers = wording.answers(report)
    for each in answers:
        word_of = "" if each.kind is None else f"{wording.kind_word(each.kind)}. "
        yield Line(f"{each.question}: {word_of}{each.reason}", "" if each.kind is None else KINDS[each.kind])
    reason = wording.bounded(report.verdict.reason, REASON_LIMIT)
    word = wording.kind_word(report.verdict.kind).upper()
    shown = wording.headline(report.verdict).upper() if answers else f"{word}: {reason}"
    yield Line(shown, KINDS[report.verdict.kind])
    fell = moved.notable(v)
    for told in (wording.next_step(report, lies="above"), "" if fell is None else moved.sentence(fell)):
        if told:
            yield Line(told)
