"""The verdict for a terminal or a log: broken cases with their differences first, the verdict
last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from evalgate.model import (
    Change,
    CriterionVerdict,
    Report,
    VerdictKind,
    call_diff,
)
from evalgate.text import diff, plain, words
from evalgate.values import grouped
from . import agent_changes, cases, edits, turns, view, wording
from .cases import CaseView
from .phrases import phrase
from .turns import Turn
from .view import Fall, View

GROUPS = 50
"""Entries of broken cases and of broken files."""
FULL_DIFFERENCES = 10
"""Cases that are shown with their difference."""
NAMED_CASES = 8
"""Cases with one message that are named."""
CAUSES = 20
"""Shared causes that are listed."""
NAME_WIDTH = 60
"""Characters of a name."""
WHY_WIDTH = 200
"""Characters of a finding."""
WHY_LIMIT = 400
"""Characters of a case's reason."""
REASON_LIMIT = 1_000
"""Characters of the verdict's reason, and of a note on the base."""
LOG_WIDTH = 120
"""Columns of a difference if the width is unlimited."""
CALL_LINES = 12
"""Lines of a difference of calls."""
ANSWER_LINES = 4
"""Lines of each answer."""
FINDINGS = 3
"""Findings below a difference."""
FALLS = 5
"""Criteria that fell."""
MOVED = 3
"""Cases for each criterion that fell."""

Style: TypeAlias = Literal["", "bold", "dim", "red", "green", "yellow"]
CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
"""The numbers of ANSI's SGR sequences."""
KINDS: dict[VerdictKind | None, Style] = {
    None: "",
    VerdictKind.PASS: "green",
    VerdictKind.FAIL: "red",
    VerdictKind.INCONCLUSIVE: "yellow",
    VerdictKind.NOT_MEASURED: "yellow",
}
"""The color of a verdict; None: there is none."""
MET: dict[bool | None, Style] = {None: "", True: "green", False: "red"}
"""The color of a criterion by `CriterionTotals.met`."""
MARKS: dict[str, Style] = {"-": "red", "+": "green", "=": "dim", " ": ""}
"""The color of a line by the mark that it begins with; `=`: the base's."""


class Line(NamedTuple):
    """A line of text."""

    text: str
    """Not yet safe for a runner, see `_render_lines`."""
    style: Style = ""
    """"" for the terminal's own color."""
    file: str = ""
    """The file name in it, which links to the file if the terminal supports that."""
    hang: int = 0
    """The column of its further rows; 0: where its text begins."""


BLANK = Line("")
"""Between sections."""


def render(
    report: Report,
    *,
    width: int = 0,
    color: bool = False,
    all_criteria: bool = False,
    folder: str = "",
) -> str:
    """Lines: the broken cases with the reason and the difference, the criteria, and the verdict
    last.

    `width`: that of the terminal; 0 for a log, which breaks no sentence. `all_criteria`:
    informational criteria too. `folder`: the folder of the files that lines link to; "" for no
    links. No line can be taken for a workflow command."""
    v = view.view_of(report)
    sections = (
        [Line(v.unscored and phrase("warning", v.unscored), "yellow")],
        [
            Line(
                phrase("broken_file", _label(suite.suite), plain.one_line(str(suite.reason))),
                "yellow",
            )
            for suite in v.broken[:GROUPS]
        ],
        _broken_cases(v, width) if v.by_group.keys() - {"pass"} else (),
        _causes(v) if v.shared_causes else (),
        _criteria(v, width, all_criteria=all_criteria),
        _comparison_lines(v, width, all_criteria=all_criteria),
        _verdict_lines(v),
    )
    lines: list[Line] = []
    for section in sections:
        section_lines = [row for line in section if line.text for row in _wrap(line, width)]
        lines += [BLANK, *section_lines] if lines and section_lines else section_lines
    return _render_lines(lines, color=color, folder=folder)


def render_case(report: Report, key: tuple[str, str]) -> str:
    """Why one case (its suite and its name) did not pass, and what differed; "" if it passed or is
    unknown."""
    case = next((case for case in view.view_of(report).cases if case.key == key), None)
    if case is None:
        return ""
    reason = case.reason(NAME_WIDTH)
    lines = [Line(reason), *_difference(case, LOG_WIDTH)] if reason else []
    lines += [Line(f"    | {line}") for line in case.output.splitlines()]
    return _render_lines(lines).rstrip("\n")


def link(label: str, path: str) -> str:
    """A name that links to a file (OSC 8). Terminals without links show the name alone."""
    return f"\x1b]8;;file://{quote(path)}\x1b\\{label}\x1b]8;;\x1b\\"


def _render_lines(lines: Iterable[Line], *, color: bool = False, folder: str = "") -> str:
    """The lines as text that runners take for no commands, with colors and links if they are
    wanted."""
    texts = []
    for line in lines:
        text = plain.disarm(line.text)
        if folder and line.file and line.file in text:
            path, _, number = line.file.rpartition(":")
            path = f"{folder}/{path if number.isdecimal() else line.file}"
            start, _, end = text.rpartition(line.file)
            text = f"{start}{link(line.file, path)}{end}"
        if color and line.style and text:
            text = f"\x1b[{CODES[line.style]}m{text}\x1b[0m"
        texts.append(f"{text}\n")
    return "".join(texts)


def _label(text: str) -> str:
    """A name, limited in length."""
    return plain.label(text, NAME_WIDTH)


def _broken_cases(v: View, width: int) -> Iterator[Line]:
    """The cases that did not pass: failures first, beginning with the worst. Cases with the same
    message share an entry. `width`: columns of the terminal, 0 if unlimited."""
    decided_kinds = (VerdictKind.PASS, VerdictKind.FAIL)
    broken_cases = [
        *cases.worst_first([case for case in v.cases if case.kind is VerdictKind.FAIL]),
        *(case for case in v.cases if case.kind not in decided_kinds),
    ]
    groups = grouped(
        (
            (
                case.word,
                case.reason(NAME_WIDTH),
                tuple(_difference(case, width or LOG_WIDTH)) if index < FULL_DIFFERENCES else (),
            ),
            case,
        )
        for index, case in enumerate(broken_cases)
    )
    # the signs that begin the shown lines: the legend explains them
    signs = {
        line.text.lstrip()[:2] for _, _, difference_lines in groups for line in difference_lines
    }
    if signs & {"- ", "+ "}:
        yield Line(phrase("legend", "= " in signs), "dim")
    quoted_texts: set[str] = set()
    shown_groups = list(groups.items())[:GROUPS]
    for (word, reason, difference_lines), group_cases in shown_groups:
        case = group_cases[0]
        case_names, file = _case_names(group_cases, width)
        yield Line(
            f"{word}: {case_names}", "yellow" if case.is_allowed_failure else KINDS[case.kind], file
        )
        yield Line(f"    {plain.keep_advice(reason, WHY_LIMIT)}")
        yield from difference_lines
        output = case.output
        if output not in quoted_texts:
            quoted_texts.add(output)
            yield from (Line(f"    | {line}", "dim", hang=6) for line in output.splitlines())
    omitted_count = len(broken_cases) - sum(len(group_cases) for _, group_cases in shown_groups)
    if omitted_count:
        report_file = "report.html" if "html" in v.report.files else ""
        yield Line(phrase("more_cases", omitted_count, report_file))


def _causes(v: View) -> Iterator[Line]:
    """The causes that several cases share, with the number of cases for each."""
    top_causes = v.shared_causes[:CAUSES]
    yield Line(phrase("causes_title"), "bold")
    table = [(f"  {len(cause.cases):,}", cause.status, cause.cause) for cause in top_causes]
    for cause, row in zip(top_causes, plain.table(table, right_columns=range(1)), strict=True):
        yield Line(row, hang=len(row) - len(cause.cause))
    if len(v.shared_causes) > CAUSES:
        yield Line(f"  {phrase('more_causes', len(v.shared_causes) - CAUSES)}", "dim")


def _case_names(case_views: Sequence[CaseView], width: int) -> tuple[str, str]:
    """The names of cases, a single case with its place; and that place if it is shown in full."""
    names = [_label(case.case_id) for case in case_views]
    if len(case_views) > 1:
        return phrase("cases_line", len(case_views), words.listed(names, limit=NAMED_CASES)), ""
    room = max(width - plain.columns(names[0]) - 20, 20) if width else NAME_WIDTH * 2
    place = str(case_views[0].place)
    label = plain.label(place, room)
    return f"{names[0]} ({label})", place if label == place else ""


def _difference(case: CaseView, width: int) -> Iterator[Line]:
    """The first turn that went wrong: expected (`-`) beside actual (`+`), with the findings of
    criteria."""
    conversation = turns.conversation_of(case)
    if not case.failing or not conversation.turns:
        return
    turn, *other_turns = conversation.notable
    if len(conversation.turns) > 1:
        user = plain.label(turn.user, max(width - 24, 20)) if turn.user.strip() else ""
        yield Line(f"    {phrase('turn', turn.number, len(conversation.turns), user)}", "dim")
    if turn.actual is None:
        yield Line(f"    {phrase('turn_not_reached')}")
        return
    yield from _calls(turn, width - 6)
    if turn.compares_answers:
        yield from _answers(turn, width - 6)
    if case.is_new:
        yield from _base(turn, width - 6)
    for finding in _findings(turn)[:FINDINGS]:
        yield Line(f"    {plain.clip_end(finding, WHY_WIDTH)}", "dim")
    if other_turns:
        yield Line(f"    {phrase('more_turns', len(other_turns))}", "dim")


def _findings(turn: Turn) -> list[str]:
    """A line for each finding of a turn: criterion, label, subject and text."""
    rows = (
        (_label(name), finding.label, finding.subject, finding.text)
        for name, finding in turns.visible_findings(turn.findings)
    )
    return [plain.one_line(": ".join(str(part) for part in parts if part)) for parts in rows]


def _calls(turn: Turn, width: int) -> Iterator[Line]:
    """The calls of a turn as a difference; nothing if they are equal."""
    if not turn.calls_differ:
        return
    diff_lines, omitted_count = turns.call_lines(
        turn.expected_calls or (), turn.actual_calls or (), width=width, most=CALL_LINES
    )
    yield from (Line(f"    {line.mark} {line.text}", MARKS[line.mark]) for line in diff_lines)
    if omitted_count:
        yield Line(f"      {phrase('more_lines', omitted_count)}", "dim")


def _answers(turn: Turn, width: int) -> Iterator[Line]:
    """The expected answer above the actual one; nothing if they are equal."""
    expected_answer = turn.expected_answer
    actual_answer = turn.actual_answer
    if expected_answer == actual_answer:
        return
    if expected_answer is None:
        yield from _answer_lines("+", (actual_answer or "").strip(), width)
        return
    expected_excerpt, actual_excerpt = diff.excerpts(
        expected_answer.strip(), (actual_answer or "").strip(), width * ANSWER_LINES
    )
    yield from _answer_lines("-", expected_excerpt, width)
    if actual_answer is not None:
        yield from _answer_lines("+", actual_excerpt, width)
    elif turn.has_no_final_answer:
        yield Line(f"    {phrase('no_final_answer')}")
    else:
        yield Line(f"    {phrase('no_answer', turn.model_error)}")


def _answer_lines(mark: str, text: str, width: int) -> Iterator[Line]:
    """A text in the color of its mark, wrapped, its first lines only."""
    rows = plain.wrap(plain.flat(text), width)
    yield from (Line(f"    {mark} {row}".rstrip(), MARKS[mark]) for row in rows[: ANSWER_LINES + 1])


def _base(turn: Turn, width: int) -> Iterator[Line]:
    """The base's calls and answer in a turn that head got wrong."""
    if turn.base is None:
        yield Line(f"    {phrase('base_forgotten')}", "dim")
        return
    calls = turn.base.tool_calls
    answer = turn.base_answer
    if turn.calls_differ:
        calls_text = plain.clip("; ".join(call_diff.spell(call) for call in calls), width * 2)
        yield from _answer_lines(
            "=", phrase("base_calls", call_diff.same(turn.expected_calls, calls), calls_text), width
        )
    if turn.compares_answers and answer != turn.actual_answer:
        is_expected = answer is not None and answer == turn.expected_answer
        if answer is not None:
            answer = diff.excerpts(answer.strip(), turn.actual_answer or "", width * 2)[0]
        yield from _answer_lines("=", phrase("base_answer", is_expected, answer), width)


def render_whole_case(case: CaseView, *, width: int, folder: str) -> str:
    """One case in full: its criteria, and each turn of the shown run with its expectations."""
    who, file = _case_names([case], width)
    lines = [Line(f"{case.word}: {who}", KINDS[case.kind], file)]
    lines.append(Line(case.reason(NAME_WIDTH)))
    cells = [
        (
            _label(verdict.name),
            cases.number(verdict.value, verdict.threshold),
            words.threshold(verdict.threshold),
            plain.flat(_kind_and_reason(verdict)),
        )
        for verdict in case.verdict.criteria
    ]
    styles = [KINDS[verdict.kind] for verdict in case.verdict.criteria]
    lines += [BLANK, *_table(phrase("case_columns"), cells, styles)]
    lines += [BLANK, Line(case.run_label)] if case.run_label else []
    for turn in turns.conversation_of(case).turns:
        lines += [BLANK, *_turn(turn, width or LOG_WIDTH)]
    if case.failure is not None:
        output_lines = cases.last_output(case.failure).splitlines()
        lines += [BLANK, *(Line(f"| {line}", "dim", hang=2) for line in output_lines)]
    rows = [row for line in lines for row in _wrap(line, width)]
    return _render_lines(rows, color=True, folder=folder)


def _kind_and_reason(verdict: CriterionVerdict) -> str:
    """A criterion's verdict, and why it has no value."""
    text = phrase("kind_word", verdict.kind) if verdict.kind else phrase("informational")
    return f"{text}: {cases.unmeasured_sentence(verdict)}" if verdict.value is None else text


def _turn(turn: Turn, width: int) -> Iterator[Line]:
    """A turn in full: the message, the calls, the answer, the findings."""
    yield Line(phrase("turn", turn.number, 0, plain.flat(turn.user)), "bold")
    if turn.actual is None:
        yield Line(f"    {phrase('turn_not_reached')}")
        return
    if turn.calls_differ:
        yield from _calls(turn, width - 6)
    else:
        for call in turn.actual_calls or ():
            yield from _answer_lines(" ", call_diff.spell(call), width - 6)
    if turn.expected_answer is not None and turn.expected_answer != turn.actual_answer:
        yield from _answers(turn, width - 6)
    else:
        answer = phrase("nothing_answered") if turn.actual_answer is None else turn.actual_answer
        yield from (Line(f"      {row}") for row in plain.wrap(plain.flat(answer), width - 6))
    yield from (Line(f"    {finding}", "dim") for finding in _findings(turn))


def render_change(turn: Turn, *, calls: bool, answer: bool, width: int = 0) -> str:
    """The difference between a turn's expectations and the agent's calls or answer."""
    room = (width or LOG_WIDTH) - 6
    lines: list[Line] = []
    if calls and turn.expected_calls is not None:
        lines += _calls(turn, room)
    elif calls:
        call_texts = map(call_diff.spell, turn.actual_calls or ())
        for call_text in [*call_texts] or [phrase("nothing_called")]:
            lines += _answer_lines("+", call_text, room)
    if answer:
        lines += _answers(turn, room)
    return _render_lines(lines, color=True)


def _criteria(v: View, width: int, *, all_criteria: bool) -> Iterator[Line]:
    """A row per criterion below its suite; a column of zeros is left out."""
    rows = [row for row in v.criteria if all_criteria or not row.use.informational]
    name_width = min(NAME_WIDTH, max(width - 50, 20)) if width else NAME_WIDTH
    has_gaps = any(row.not_evaluated for row in rows)
    cells = [
        (
            f"  {plain.label(row.use.name, name_width)}",
            cases.number(row.mean, row.threshold),
            words.threshold(row.threshold),
            "-" if row.threshold is None else f"{row.passed}/{row.total}",
            *([str(row.not_evaluated)] if has_gaps else []),
        )
        for row in rows
    ]
    styles = [MET[row.met] for row in rows]
    header, *lines = _table(phrase("criteria_columns", has_gaps), cells, styles)
    if rows:
        yield header
    suite = ""
    for row, line in zip(rows, lines, strict=True):
        if row.suite != suite:
            suite = row.suite
            yield Line(plain.label(suite, width or LOG_WIDTH), "", suite)
        yield line
    hidden_count = len({row.use.name for row in v.criteria} - {row.use.name for row in rows})
    if hidden_count:
        yield Line(phrase("more_informational", hidden_count), "dim")


def _table(
    columns: str, cells: Sequence[Sequence[str]], styles: Sequence[Style], *, hang: int = 0
) -> Iterator[Line]:
    """A bold row of the `columns`, which are parted by `|`, and the rows of cells in their
    colors. Numbers are in the columns after the first; text is in the last one."""
    names = columns.split("|")
    is_text = not names[-1]
    header, *lines = plain.table([names, *cells], right_columns=range(1, len(names) - is_text))
    yield Line(header, "bold")
    yield from (Line(line, style, hang=hang) for line, style in zip(lines, styles, strict=True))


def _comparison_lines(v: View, width: int, *, all_criteria: bool) -> Iterator[Line]:
    """Head beside base: a row per deciding criterion, and the source of the base's results."""
    comparison = v.comparison
    if comparison is None:
        return
    deciding_rows, *other_rows = cases.rows(comparison)
    rows = [*deciding_rows, *(row for rows in other_rows for row in rows if all_criteria)]
    name_width = min(NAME_WIDTH, max(width // 2, 20)) if width else NAME_WIDTH
    cells = [
        (
            plain.label(row.name, name_width),
            *words.compared(row.base, row.head),
            cases.evidence(row),
            phrase("criterion_word", row),
        )
        for row in rows
    ]
    styles = [
        ""
        if not row.rule.gating or row.change is Change.INCONCLUSIVE
        else KINDS[cases.KINDS[row.change]]
        for row in rows
    ]
    yield from _table(phrase("compared_columns"), cells, styles, hang=2)
    origin = comparison.origin
    base_text = phrase("base_line", plain.one_line(origin.commit[:7]), cases.base_words(comparison))
    yield Line(base_text)
    changes_text = agent_changes.sentence(agent_changes.changes_of(v.report))
    yield Line(changes_text and phrase("agent_changed", changes_text))
    for fall in view.falls(v)[:FALLS]:
        yield from _fall_lines(fall, (width or LOG_WIDTH) - 6)
    for note in origin.notes:
        text = plain.one_line(plain.clip(str(note), REASON_LIMIT))
        yield Line(plain.clip_end(text, REASON_LIMIT))
    yield Line(cases.certainty(v.report), "dim")


def _wrap(line: Line, width: int) -> Iterator[Line]:
    """The rows of a line, which are at most `width` columns wide; 0: without a limit."""
    if not width or plain.columns(line.text) <= width:
        yield line
        return
    hang = line.hang or len(line.text) - len(line.text.lstrip())
    start = line.text[:hang]
    for row in plain.wrap(line.text[hang:], max(width - hang, 20)):
        yield line._replace(text=start + row)
        start = " " * hang


def _fall_lines(fall: Fall, width: int) -> Iterator[Line]:
    """A criterion that fell, the cases that moved most, and the calls of the first one if it still
    passes."""
    yield Line(f"{_label(fall.row.name)} {phrase('fall', fall)}", "yellow")
    moved_cases = fall.case_falls[:MOVED]
    for moved_case in moved_cases:
        case = moved_case.case
        origin = f" ({case.failure_origin})" if case.failure_origin else ""
        yield Line(f"  {_label(case.case_id)} {phrase('moved', moved_case)}{origin}")
    if len(fall.case_falls) > len(moved_cases):
        yield Line(f"  {phrase('more_cases', len(fall.case_falls) - len(moved_cases), '')}", "dim")
    turn = moved_cases[0].turn
    if moved_cases[0].case.kind is VerdictKind.PASS and turn is not None and turn.calls_differ:
        yield Line(f"    {_label(moved_cases[0].case.case_id)}: {phrase('legend_base')}", "dim")
        yield from _calls(turn, width)


def _verdict_lines(v: View) -> Iterator[Line]:
    """The counts, the notices, the verdict with its reasons, and what to do next."""
    report = v.report
    counts = wording.counts(v.counts)
    judges = view.judges_summary(report.run.judges) if report.run.judges else ""
    yield Line(phrase("figures", v, report.run.repeats, counts, judges))
    for title, text in wording.notices(report, v.cases):
        yield Line(plain.one_line(f"{title}: {text}"))
    answers = wording.answers(report)
    for question, kind, reason in answers:
        prefix = "" if kind is None else f"{phrase('kind_word', kind)}. "
        yield Line(f"{question}: {prefix}{reason}", KINDS[kind])
    reason = plain.bounded(report.verdict.reason, REASON_LIMIT)
    word = phrase("kind_word", report.verdict.kind).upper()
    headline = wording.headline(report).upper() if answers else f"{word}: {reason}"
    yield Line(headline, KINDS[report.verdict.kind])
    if report.is_relaxed:
        yield Line(edits.rules(report.edits, mark=_label), "yellow")
    yield Line(phrase("by_base") if report.edits.by_base else "", "yellow")
    case_fall = view.notable(v)
    yield Line(wording.next_step(report, placement="above"))
    yield Line("" if case_fall is None else phrase("still_passing", case_fall))
    rows = wording.commands(report, v.cases, is_local=True)
    table = [(f"  {command}", purpose) for command, purpose in rows]
    yield from (Line(line, "dim") for line in (plain.table(table) if table else ()))
