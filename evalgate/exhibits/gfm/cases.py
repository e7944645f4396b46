"""One case in GitHub's Markdown: a line in a list, or a folded section with its turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalgate import words
from evalgate.exhibits import base_side, calls, conversation, opinions, parted, sentences
from evalgate.exhibits.base_side import BaseTurn
from evalgate.exhibits.cases import CaseExhibit
from evalgate.exhibits.conversation import Turn
from evalgate.exhibits.gfm import differences
from evalgate.markup import github, plain
from evalgate.model import AgentFailure, CriterionVerdict, Finding, Report, VerdictKind

ID_WIDTH = 100
WHY_WIDTH = 200
LINE_WHY_WIDTH = 160
GROUP_NAMES = 30
USER_LIMIT = 500
FINDING_LIMIT = 300
FINDINGS = 5
DOT = " \N{MIDDLE DOT} "


def render_line(exhibit: CaseExhibit, report: Report) -> str:
    """The case as one list item: what it is, what is wrong, where it stands."""
    mark = sentences.kind_mark(exhibit.verdict.kind)
    why = "" if exhibit.failing else github.prose(plain.clip_end(sentences.why_unmeasured(exhibit), LINE_WHY_WIDTH))
    wrong = ", ".join(f"{github.code(plain.label(each.name, ID_WIDTH))} {_against(each)}" for each in exhibit.failing)
    return f"- {mark} {_linked_name(exhibit, report)}: {wrong or why}{_whose(exhibit)}"


def render_details(exhibit: CaseExhibit, report: Report, *, turns: int) -> str:
    """The case as a folded section with at most `turns` of its turns, those that broke first of all."""
    paragraphs = [
        f"{_place(exhibit, report)}{_which_run(exhibit, report)}",
        *_criteria(exhibit),
        *_failures(exhibit),
        *_turns(exhibit, report, limit=turns),
    ]
    return github.details(_summary(exhibit), "\n\n".join(each for each in paragraphs if each))


def render_group(exhibits: Sequence[CaseExhibit], report: Report) -> str:
    """Several cases that could not be measured for one and the same reason, as a folded section."""
    first = exhibits[0]
    why = github.raw_prose(plain.clip_end(sentences.why_unmeasured(first), WHY_WIDTH))
    mark = sentences.kind_mark(first.verdict.kind)
    names = [_linked_name(exhibit, report) for exhibit in exhibits[:GROUP_NAMES]]
    if len(exhibits) > GROUP_NAMES:
        names.append(f"{len(exhibits) - GROUP_NAMES:,} more")
    body = [*_failures(first), f"Cases: {', '.join(names)}"]
    return github.details(f"{mark} <b>{words.counted(len(exhibits), 'case')}</b>{DOT}{why}", "\n\n".join(body))


def render_group_line(exhibits: Sequence[CaseExhibit]) -> str:
    """The same as one list item."""
    why = github.prose(plain.clip_end(sentences.why_unmeasured(exhibits[0]), LINE_WHY_WIDTH))
    mark = sentences.kind_mark(exhibits[0].verdict.kind)
    return f"- {mark} **{words.counted(len(exhibits), 'case')}**: {why}"


def _linked_name(exhibit: CaseExhibit, report: Report) -> str:
    return github.link(github.code(plain.label(exhibit.verdict.case_id, ID_WIDTH)), _address(exhibit, report))


def render_values(verdict: CriterionVerdict) -> str:
    """The value of every repeat: `1.00, 0.50, -`."""
    return ", ".join(words.score(value, beside=verdict.threshold) for value in verdict.values)


def _summary(exhibit: CaseExhibit) -> str:
    mark = sentences.kind_mark(exhibit.verdict.kind)
    name = github.raw_code(plain.label(exhibit.verdict.case_id, ID_WIDTH))
    if exhibit.failing:
        what = DOT.join(
            f"{github.raw_code(plain.label(each.name, ID_WIDTH))} {_against(each)}" for each in exhibit.failing
        )
    else:
        what = github.raw_prose(plain.clip_end(sentences.why_unmeasured(exhibit), WHY_WIDTH))
    return f"{mark} {name}{DOT}{what}{_whose(exhibit)}"


def _whose(exhibit: CaseExhibit) -> str:
    return f"{DOT}{exhibit.whose}" if exhibit.whose else ""


def _against(verdict: CriterionVerdict) -> str:
    met = verdict.kind is VerdictKind.PASS
    return words.against(verdict.value, verdict.threshold, met=met).replace("<", "&lt;").replace(">", "&gt;")


def _place(exhibit: CaseExhibit, report: Report) -> str:
    shown = plain.label(exhibit.file, 200) + (f":{exhibit.line}" if exhibit.line is not None else "")
    return github.link(github.code(shown), _address(exhibit, report))


def _address(exhibit: CaseExhibit, report: Report) -> str:
    return github.file_address(
        repository=report.links.repository,
        commit=report.links.commit,
        path=report.links.place(exhibit.file),
        line=exhibit.line,
    )


def _which_run(exhibit: CaseExhibit, report: Report) -> str:
    runs = report.run.expected(exhibit.verdict.suite, exhibit.verdict.case_id)
    if runs <= 1 or exhibit.shown is None:
        return ""
    return f"{DOT}run {exhibit.shown.key.repeat + 1} of {runs} is shown"


def _criteria(exhibit: CaseExhibit) -> Iterator[str]:
    """What the summary line does not say: every repeat's value, and criteria without a score."""
    lines = []
    for verdict in exhibit.verdict.criteria:
        name = github.code(plain.label(verdict.name, ID_WIDTH))
        if len(set(verdict.values)) > 1 and verdict.kind in (VerdictKind.FAIL, VerdictKind.INCONCLUSIVE):
            lines.append(f"- {name}: {render_values(verdict)} in its runs")
        elif verdict.kind is VerdictKind.NOT_MEASURED and exhibit.trials and not exhibit.agent_failed:
            lines.append(f"- {name} was not measured: {github.prose(sentences.unmeasured_sentence(verdict))}")
    if lines:
        yield "\n".join(lines)


def _failures(exhibit: CaseExhibit) -> Iterator[str]:
    """The first failure of the agent; its sentence only where the summary line does not say it."""
    failed = [(trial.key.repeat, trial.failure) for trial in exhibit.trials if trial.failure is not None]
    if not failed:
        return
    repeat, failure = failed[0]
    sentence = sentences.failure_sentence(failure)
    if not exhibit.agent_failed or len(exhibit.trials) > 1 or len(sentence) > WHY_WIDTH:
        run = f"Run {repeat + 1}: " if len(exhibit.trials) > 1 else ""
        yield f"**{run}{github.prose(sentence)}**"
    yield from _detail(failure)
    if len(failed) > 1:
        yield f"It failed in {words.counted(len(failed) - 1, 'more run')} of this case."


def _detail(failure: AgentFailure) -> Iterator[str]:
    shown = sentences.last_words(failure)
    if shown.strip():
        yield github.fence(shown, language="text")


def _turns(exhibit: CaseExhibit, report: Report, *, limit: int) -> Iterator[str]:
    known = conversation.turns(exhibit, report.run.transcripts)
    chosen = [turn for turn in known if turn.broken]
    if exhibit.agent_failed:
        chosen = chosen[:1]
    elif exhibit.failing:
        chosen = chosen or list(known)
    elif exhibit.trials == ():
        chosen = []
    yield from _findings(conversation.findings(exhibit))
    where = parted.sentence(exhibit, report)
    if where:
        yield github.prose(where)
    base = base_side.turns(exhibit, report)
    led = exhibit.case is not None and exhibit.case.scenario is not None
    for turn in chosen[:limit]:
        yield from _turn(turn, of=len(known), explained=exhibit.agent_failed)
        yield from _said(turn) if led else ()
        if turn.number <= len(base):
            yield from _base(base[turn.number - 1], turn)
    if len(chosen) > limit:
        yield f"{words.counted(len(chosen) - limit, 'more turn')} in `report.html`."


def _turn(turn: Turn, *, of: int, explained: bool) -> Iterator[str]:
    """`explained`: the agent's failure has been told, and so why this turn has no end."""
    below = [score for score in turn.scores if score.met is False]
    scores = "".join(
        f"{DOT}{github.code(plain.label(score.name, ID_WIDTH))} {words.score(score.value, beside=score.threshold)}"
        for score in below
    )
    head = f"**Turn {turn.number}**" + (f" of {of}" if of > 1 else "")
    yield f"{head}{scores if of > 1 else ''}"
    if turn.user.strip():
        yield f"> {github.prose(plain.clip(turn.user, USER_LIMIT))}"
    if not turn.asked:
        yield "The evaluation file has no such turn."
    if turn.happened:
        yield from _calls(turn)
        yield from _answers(turn)
        yield from _findings(turn.findings)
    elif not explained:
        yield "The agent gave no such turn."


def _said(turn: Turn) -> Iterator[str]:
    """What the agent did in a turn of a simulated user, which has no reference to be beside."""
    if not turn.happened:
        return
    called = ", ".join(
        github.code(plain.clip_end(plain.flat(calls.spell(call)), WHY_WIDTH)) for call in turn.actual_calls or ()
    )
    did = f"called {called} and " if called else ""
    if turn.actual_answer is None:
        yield f"The agent {did}said {sentences.UNMARKED if turn.unmarked else 'nothing'}."
        return
    wrapped = plain.wrap(plain.visible(plain.clip(turn.actual_answer, USER_LIMIT)), differences.WIDTH)
    yield f"The agent {did}said:\n" + github.fence("\n".join(wrapped), language="text")


def _base(base: BaseTurn, turn: Turn) -> Iterator[str]:
    """What the base did in this turn: said in words where it did as expected, else folded; nothing where both sides
    did and said the same."""
    parts: list[str] = []
    right: list[str] = []
    if not calls.same(base.calls, turn.actual_calls):
        if turn.expected_calls is not None and calls.same(base.calls, turn.expected_calls):
            right.append("made the expected calls")
        else:
            shown = differences.render_calls(base.calls, turn.actual_calls or ())
            parts.append(f"Tool calls, `-` base, `+` head:\n{shown}")
    if base.answer is not None and base.answer != turn.actual_answer:
        if base.answer == turn.expected_answer:
            right.append("gave the expected answer")
        else:
            wrapped = plain.wrap(plain.visible(plain.clip(base.answer, USER_LIMIT)), differences.WIDTH)
            parts.append("The base's answer:\n" + github.fence("\n".join(wrapped), language="text"))
    if right:
        yield f"The base {' and '.join(right)}."
    if parts:
        yield github.details("What the base did here", "\n\n".join(parts))


def _calls(turn: Turn) -> Iterator[str]:
    expected, actual = turn.expected_calls or (), turn.actual_calls or ()
    if turn.expected_calls is not None and not calls.same(expected, actual):
        yield f"Tool calls, `-` expected, `+` actual:\n{differences.render_calls(expected, actual)}"


def _answers(turn: Turn) -> Iterator[str]:
    if turn.expected_answer is None or turn.expected_answer == turn.actual_answer:
        return
    below = [score.name for score in turn.scores if score.met is False]
    if below and all("tool" in name for name in below):
        return  # an answer is never word for word the same: where nobody asks for its words, it is noise
    if turn.actual_answer is None:
        yield f"{sentences.no_answer(turn)}; expected:\n" + github.fence(
            "\n".join(plain.wrap(plain.clip(turn.expected_answer, USER_LIMIT), differences.WIDTH)), language="text"
        )
        return
    yield differences.render_answers(turn.expected_answer, turn.actual_answer)


def _findings(findings: tuple[tuple[str, Finding], ...]) -> Iterator[str]:
    lines = [finding_line(name, finding) for name, finding in findings[:FINDINGS] if opinions.worth_showing(finding)]
    if lines:
        yield "\n".join(lines)


def finding_line(name: str, finding: Finding) -> str:
    """What a criterion found, with the votes of a judge's samples."""
    label = f" {github.code(plain.label(finding.label, ID_WIDTH))}" if finding.label else ""
    subject = f"{github.prose(plain.clip(finding.subject, FINDING_LIMIT))} " if finding.subject else ""
    text = github.prose(plain.clip(finding.text, FINDING_LIMIT))
    tally = opinions.tally(finding)
    votes = f" ({github.prose(plain.clip(tally, FINDING_LIMIT))})" if tally else ""
    return f"- {github.code(plain.label(name, ID_WIDTH))}{label}: {subject}{text}{votes}"
