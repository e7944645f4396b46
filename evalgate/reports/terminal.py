"""The verdict for a terminal or a log: what broke first, with what differed, the verdict last, where eyes are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from evalgate.model import CriterionComparison, Invocation, Report, ToolCall, VerdictKind, call_diff
from evalgate.reports import agent_changes, cases, causes, edits, moved, turns, view, wording
from evalgate.reports.cases import CaseView
from evalgate.reports.moved import Fall
from evalgate.reports.phrases import phrase
from evalgate.reports.turns import Turn
from evalgate.reports.view import View
from evalgate.text import diff, plain, words, workflow_commands

GROUPS, TOLD_WHOLE, NAMED_CASES, CAUSES = 50, 10, 8, 20
EDITS_ROOM = 20
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
MARKS: Final[dict[str, Style]] = {"-": "red", "+": "green", "=": "dim", " ": ""}


class Line(NamedTuple):
    """A line and its color; `file`: what of it is the name of a file, and leads there where the terminal knows how."""

    text: str
    style: Style = ""
    file: str = ""


BLANK: Final = Line("")


def render(report: Report, *, width: int = 0, color: bool = False, everything: bool = False, folder: str = "") -> str:
    """Lines: the cases that broke with the reason and what differed, the criteria, and the verdict last.

    `width`: that of the terminal; 0 for a log, which breaks no sentence. `everything`: informational criteria too.
    `folder`: where the files are that lines lead to; "": they lead nowhere. No line can be taken for a workflow
    command.
    """
    v = view.of(report)
    where = "report.html" if "html" in report.files else ""
    unscored = wording.passed_unscored(report)
    warned = _wrapped(Line(unscored and phrase("warning", unscored), "yellow"), width)
    broken = _broken(v.cases, width, where=where)
    criteria = _criteria(v, width, everything=everything)
    compared = _compared(v, width, everything=everything)
    verdict = (each for line in _decided(v) for each in _wrapped(line, width))
    lines: list[Line] = []
    for part in (warned, _broken_files(v), broken, _causes(v, width), criteria, compared, verdict):
        made = list(part)
        lines += [BLANK, *made] if lines and made else made
    return _shown(lines, color=color, folder=folder)


def render_case(report: Report, key: tuple[str, str], *, width: int = 0) -> str:
    """Why one case (its suite and its name) did not pass, and what differed; "" where it did or is not there."""
    found = next((case for case in view.of(report).cases if case.verdict.key == key), None)
    if found is None:
        return ""
    why = wording.why(found, width=NAME_WIDTH)
    lines = [Line(why), *_difference(found, width or LOG_WIDTH)] if why else []
    if found.failure is not None and not found.failing:
        lines += [Line(f"    | {line}") for line in wording.last_words(found.failure).splitlines()]
    return _shown(lines).rstrip("\n")


def link(shown: str, path: str) -> str:
    """A name that leads to a file, at terminals that know of links (OSC 8); others show the name."""
    return f"\x1b]8;;file://{quote(path)}\x1b\\{shown}\x1b]8;;\x1b\\"


def _shown(lines: Iterable[Line], *, color: bool = False, folder: str = "") -> str:
    return "".join(f"{_painted(line, color=color, folder=folder)}\n" for line in lines)


def _painted(line: Line, *, color: bool, folder: str) -> str:
    text = workflow_commands.disarm(line.text)
    if folder and line.file:
        shown = text.rfind(line.file)
        if shown >= 0:
            path, _, number = line.file.rpartition(":")
            path = f"{folder}/{path if number.isdecimal() else line.file}"
            text = text[:shown] + link(line.file, path) + text[shown + len(line.file) :]
    return f"\x1b[{CODES[line.style]}m{text}\x1b[0m" if color and line.style and text else text


def _name(text: str) -> str:
    return plain.label(text, NAME_WIDTH)


def _broken_files(v: View) -> Iterator[Line]:
    for each in v.broken[:GROUPS]:
        yield Line(phrase("broken_file", _name(each.suite), plain.one_line(each.reason)), "yellow")


def _broken(found: Sequence[CaseView], width: int, *, where: str) -> Iterator[Line]:
    """Failures first, the worst of them on top; cases that say the same are one. `where`: a file with all of them."""
    broken = [*cases.worst_first([case for case in found if case.kind is VerdictKind.FAIL])]
    broken += [case for case in found if case.kind in (VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE)]
    groups: dict[tuple[str, str, tuple[Line, ...]], list[CaseView]] = {}
    for at, case in enumerate(broken):
        differs = tuple(_difference(case, width or LOG_WIDTH)) if at < TOLD_WHOLE else ()
        groups.setdefault((wording.case_word(case), wording.why(case, width=NAME_WIDTH), differs), []).append(case)
    signs = {line.text.lstrip()[:2] for _, _, differs in groups for line in differs}
    if signs & {"- ", "+ "}:
        yield Line(phrase("legend", "= " in signs), "dim")
    quoted: set[str] = set()
    for (word, why, differs), own in list(groups.items())[:GROUPS]:
        who, file = _who(own, width)
        yield Line(f"{word}: {who}", "yellow" if own[0].is_let_pass else KINDS[own[0].kind], file)
        told = plain.keep_advice(why, WHY_LIMIT)
        yield from (Line(f"    {line}") for line in (plain.wrap(told, width - 4) if width else [told]))
        yield from differs
        last = "" if own[0].failure is None or own[0].failing else wording.last_words(own[0].failure)
        if last not in quoted:
            quoted.add(last)
            yield from (Line(f"    | {line}", "dim") for line in last.splitlines())
    left_out = len(broken) - sum(len(own) for own in list(groups.values())[:GROUPS])
    if left_out:
        yield Line(phrase("more_cases", left_out, where))


def _causes(v: View, width: int) -> Iterator[Line]:
    """Why cases do not pass, and how many of them, where several share a cause."""
    if not causes.worth_a_list(v.causes):
        return
    yield Line(phrase("causes_title"), "bold")
    shown = v.causes[:CAUSES]
    widths = max(len(f"{len(each.cases):,}") for each in shown), max(len(each.status) for each in shown)
    for each in shown:
        start = f"  {len(each.cases):>{widths[0]},}  {each.status:<{widths[1]}}  "
        first, *rest = plain.wrap(each.text, max(width - len(start), 20)) if width else [each.text]
        yield Line(start + first)
        yield from (Line(" " * len(start) + line) for line in rest)
    if len(v.causes) > CAUSES:
        yield Line(f"  {phrase('more_causes', len(v.causes) - CAUSES)}", "dim")


def _who(own: Sequence[CaseView], width: int) -> tuple[str, str]:
    """The names of cases; the place of a single one, and that place where it is shown whole."""
    names = [_name(case.case_id) for case in own]
    if len(own) > 1:
        return phrase("cases_line", len(own), words.listed(names, limit=NAMED_CASES)), ""
    room = max(width - plain.columns(names[0]) - 20, 20) if width else NAME_WIDTH * 2
    place = own[0].place
    shown = plain.label(place, room)
    return f"{names[0]} ({shown})", place if shown == place else ""


def _difference(case: CaseView, width: int) -> Iterator[Line]:
    """The first turn that went wrong: expected (`-`) beside actual (`+`), and what criteria found in it."""
    known = turns.of(case)
    if case.agent_failed or not case.failing or not known.turns:
        return
    turn, *others = known.notable
    if len(known.turns) > 1:
        user = plain.label(turn.user, max(width - 24, 20)) if turn.user.strip() else ""
        yield Line(f"    {phrase('turn', turn.number, len(known.turns), user)}", "dim")
    if turn.actual is None:
        yield Line(f"    {phrase('turn_not_reached')}")
        return
    yield from _calls(turn, width - 6)
    yield from _answers(turn, width - 6)
    if case.is_new:
        yield from _base(turn, width - 6)
    for said in _findings(turn)[:FINDINGS]:
        yield Line(f"    {plain.clip_end(said, WHY_WIDTH)}", "dim")
    if others:
        yield Line(f"    {phrase('more_turns', len(others))}", "dim")


def _findings(turn: Turn) -> list[str]:
    found = ((_name(name), each.label, each.subject, each.text) for name, each in turns.shown_findings(turn.findings))
    return [plain.one_line(": ".join(filter(None, parts))) for parts in found]


def _calls(turn: Turn, width: int) -> Iterator[Line]:
    if _differ_in_calls(turn):
        yield from _call_lines(turn.expected_calls or (), turn.actual_calls or (), width)


def _call_lines(left: Sequence[ToolCall], right: Sequence[ToolCall], width: int) -> Iterator[Line]:
    shown, left_out = turns.call_lines(left, right, width=width, most=CALL_LINES)
    yield from (Line(f"    {line.mark} {line.text}", MARKS[line.mark]) for line in shown)
    if left_out:
        yield Line(f"      {phrase('more_lines', left_out)}", "dim")


def _differ_in_calls(turn: Turn) -> bool:
    return turn.expected_calls is not None and not call_diff.same(turn.expected_calls, turn.actual_calls)


def _answers(turn: Turn, width: int) -> Iterator[Line]:
    expected, actual = turn.expected_answer, turn.actual_answer
    if not turn.compares_answers or expected is None or expected == actual:
        return
    one, other = diff.excerpts(expected.strip(), (actual or "").strip(), width * ANSWER_LINES)
    yield from _said("-", one, width)
    if actual is not None:
        yield from _said("+", other, width)
    elif turn.has_no_final_answer:
        yield Line(f"    {phrase('no_final_answer')}")
    else:
        yield Line(f"    {phrase('no_answer')}")


def _said(mark: str, text: str, width: int) -> Iterator[Line]:
    rows = plain.wrap(plain.flat(text), width)
    yield from (Line(f"    {mark} {row}".rstrip(), MARKS[mark]) for row in rows[: ANSWER_LINES + 1])


def _base(turn: Turn, width: int) -> Iterator[Line]:
    """What the base did where head went wrong."""
    if turn.base is None:
        yield Line(f"    {phrase('base_forgotten')}", "dim")
        return
    calls, answer = turn.base.tool_calls, turn.base_answer
    if _differ_in_calls(turn):
        spelled = plain.clip("; ".join(call_diff.spell(call) for call in calls), width * 2)
        yield from _said("=", phrase("base_calls", call_diff.same(turn.expected_calls, calls), spelled), width)
    if turn.compares_answers and answer != turn.actual_answer:
        is_expected = answer is not None and answer == turn.expected_answer
        if answer is not None:
            answer = diff.excerpts(answer.strip(), turn.actual_answer or "", width * 2)[0]
        yield from _said("=", phrase("base_answer", is_expected, answer), width)


def render_whole_case(case: CaseView, *, width: int = 0, color: bool = False, folder: str = "") -> str:
    """One case whole: its criteria, and each turn of the run that is shown, with what was expected of it."""
    who, file = _who([case], width)
    lines = [Line(f"{wording.kind_word(case.kind)}: {who}", KINDS[case.kind], file)]
    lines += _wrapped(Line(wording.why(case, width=NAME_WIDTH)), width)
    table = [_columns("case_columns")]
    for each in case.verdict.criteria:
        kind = phrase("informational") if each.kind is None else wording.kind_word(each.kind)
        said = f"{kind}: {wording.unmeasured_sentence(each)}" if each.value is None else kind
        shown = (_name(each.name), cases.number(each.value, each), words.threshold(each.threshold), plain.flat(said))
        table.append(shown)
    head, *rows = plain.table(table, right=range(1, 3))
    lines += [BLANK, Line(head, "bold")]
    for each, row in zip(case.verdict.criteria, rows, strict=True):
        lines.append(Line(row, "" if each.kind is None else KINDS[each.kind]))
    known = turns.of(case)
    lines += [BLANK, Line(case.run_shown)] if case.run_shown else []
    for turn in known.turns:
        lines += [BLANK, *_turn(turn, width or LOG_WIDTH)]
    if case.failure is not None:
        lines += [BLANK, *(Line(f"| {line}", "dim") for line in wording.last_words(case.failure).splitlines())]
    return _shown(lines, color=color, folder=folder)


def _turn(turn: Turn, width: int) -> Iterator[Line]:
    yield from _wrapped(Line(phrase("turn", turn.number, 0, plain.flat(turn.user)), "bold"), width)
    if turn.actual is None:
        yield Line(f"    {phrase('turn_not_reached')}")
        return
    if _differ_in_calls(turn):
        yield from _calls(turn, width - 6)
    else:
        for call in turn.actual_calls or ():
            yield from _said(" ", call_diff.spell(call), width - 6)
    if turn.expected_answer is not None and turn.expected_answer != turn.actual_answer:
        yield from _answers(replace(turn, scores=()), width - 6)
    else:
        answer = phrase("nothing_answered") if turn.actual_answer is None else turn.actual_answer
        yield from (Line(f"      {row}") for row in plain.wrap(plain.flat(answer), width - 6))
    for said in _findings(turn):
        yield from (Line(f"    {row}", "dim") for row in plain.wrap(said, width - 4))


def render_change(
    expected: Invocation, actual: Invocation, *, calls: bool, answer: bool, width: int = 0, color: bool = False
) -> str:
    """What differs between what a turn expects and what the agent did, of calls, of the answer."""
    turn, room = Turn(number=1, expected=expected, actual=actual, asked=True), (width or LOG_WIDTH) - 6
    lines = [*(_calls(turn, room) if calls else ()), *(_answers(turn, room) if answer else ())]
    if calls and expected.events is None:
        spelled = [call_diff.spell(call) for call in actual.tool_calls] or [phrase("nothing_called")]
        lines = [*(line for each in spelled for line in _said("+", each, room)), *lines]
    elif answer and turn.expected_answer is None:
        lines += _said("+", turn.actual_answer or "", room)
    return _shown(lines, color=color)


def _criteria(v: View, width: int, *, everything: bool) -> Iterator[Line]:
    """A row per criterion below its suite; a column of zeros is left out."""
    rows = [row for row in v.criteria if everything or row.threshold is not None]
    name_width = min(NAME_WIDTH, max(width - 50, 20)) if width else NAME_WIDTH
    gaps = any(row.not_evaluated for row in rows)
    table = [_columns("criteria_columns", gaps)]
    for row in rows:
        passed = "-" if row.threshold is None else f"{row.passed}/{row.total}"
        cells = (f"  {plain.label(row.name, name_width)}", row.shown, words.threshold(row.threshold), passed)
        table.append((*cells, *([str(row.not_evaluated)] if gaps else [])))
    head, *lines = plain.table(table, right=range(1, 5))
    suite = ""
    if rows:
        yield Line(head, "bold")
    for row, line in zip(rows, lines, strict=True):
        if row.suite != suite:
            suite = row.suite
            yield Line(plain.label(suite, width or LOG_WIDTH), "", suite)
        yield Line(line, "" if row.met is None else "green" if row.met else "red")
    hidden = len({row.name for row in v.criteria} - {row.name for row in rows})
    if hidden:
        yield Line(phrase("more_informational", hidden), "dim")


def _columns(name: str, *values: object) -> tuple[str, ...]:
    return tuple(phrase(name, *values).split("|"))


def _compared(v: View, width: int, *, everything: bool) -> Iterator[Line]:
    """Head beside base: a row per criterion that decides, where the base's results come from."""
    comparison = v.comparison
    if comparison is None:
        return
    deciding, *others = cases.rows(comparison)
    yield from _changes([*deciding, *(row for rows in others for row in rows if everything)], width)
    origin = comparison.origin
    base = phrase("base_line", plain.one_line(origin.commit[:7]), cases.base_words(comparison))
    yield from _wrapped(Line(base), width)
    changed = agent_changes.sentence(agent_changes.of(v.report))
    yield from _wrapped(Line(changed and phrase("agent_changed", changed)), width)
    for fall in moved.falls(v)[:FALLS]:
        yield from _fallen(fall, width)
    for note in origin.notes:
        yield from _wrapped(Line(plain.clip_end(plain.one_line(plain.clip(note, REASON_LIMIT)), REASON_LIMIT)), width)
    yield from _wrapped(Line(cases.certainty(comparison), "dim"), width)


def _changes(rows: Sequence[CriterionComparison], width: int) -> Iterator[Line]:
    """A row per criterion; where it would be too wide, without the evidence, and what is said of it below."""
    name_width = min(NAME_WIDTH, max(width // 2, 20)) if width else NAME_WIDTH
    cells = [_columns("compared_columns")]
    cells += [
        (
            plain.label(row.name, name_width),
            *words.compared(row.base, row.head),
            cases.evidence(row),
            cases.said(row),
        )
        for row in rows
    ]
    lines: list[str] = []
    kept: tuple[int, ...]
    for kept in ((0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 5), (0, 1, 2, 3)):
        lines = list(plain.table([[row[at] for at in kept] for row in cells], right=range(1, min(len(kept), 5))))
        if not width or max(map(plain.columns, lines)) <= width:
            break
    if 5 not in kept:
        lines = [lines[0], *(f"{line}\n  {row[5]}" for line, row in zip(lines[1:], cells[1:], strict=True))]
    yield Line(lines[0], "bold")
    for row, line in zip(rows, lines[1:], strict=True):
        kind = cases.KINDS[row.change]
        style = KINDS[kind] if row.rule.gating and kind is not VerdictKind.INCONCLUSIVE else ""
        yield from (Line(each, style) for each in line.splitlines())


def _wrapped(line: Line, width: int) -> Iterator[Line]:
    if line.text:
        yield from (line._replace(text=text) for text in (plain.wrap(line.text, width) if width else [line.text]))


def _fallen(fall: Fall, width: int) -> Iterator[Line]:
    """A criterion that fell, the cases that moved most, and the calls of the first of them that still passes."""
    yield from _wrapped(Line(f"{_name(fall.row.name)} {fall.told}", "yellow"), width)
    shown = fall.moved[:MOVED]
    for each in shown:
        origin = f" ({each.case.failure_origin})" if each.case.failure_origin else ""
        yield from _wrapped(Line(f"  {_name(each.case.case_id)} {each.told}{origin}"), width)
    if len(fall.moved) > len(shown):
        yield Line(f"  {phrase('more_cases', len(fall.moved) - len(shown), '')}", "dim")
    turn = shown[0].turn
    if shown[0].case.kind is VerdictKind.PASS and turn is not None and turn.calls_differ:
        yield Line(f"    {_name(shown[0].case.case_id)}: {phrase('legend_base')}", "dim")
        yield from _call_lines(turn.base.tool_calls, turn.head.tool_calls, (width or LOG_WIDTH) - 6)


def _decided(v: View) -> Iterator[Line]:
    report, counts, run = v.report, v.totals, v.report.run
    yield Line(phrase("figures", counts, run.repeats, wording.counts(counts.cases), view.judges_summary(run.judges)))
    for notice in wording.notices(report, v.cases):
        yield Line(plain.one_line(f"{notice.title}: {notice.text}"))
    answers = wording.answers(report)
    for each in answers:
        word_of = "" if each.kind is None else f"{wording.kind_word(each.kind)}. "
        yield Line(f"{each.question}: {word_of}{each.reason}", "" if each.kind is None else KINDS[each.kind])
    reason = wording.bounded(report.verdict.reason, REASON_LIMIT)
    word = wording.kind_word(report.verdict.kind).upper()
    shown = wording.headline(report).upper() if answers else f"{word}: {reason}"
    yield Line(shown, KINDS[report.verdict.kind])
    if report.edits.decide and not report.verdict.blocks:
        yield Line(edits.rules(report.edits, mark=_name), "yellow")
    fell = moved.notable(v)
    yield Line(wording.next_step(report, lies="above"))
    yield Line("" if fell is None else moved.sentence(fell))
