"""One case in GitHub's Markdown: a line in a list, or a folded section with its turns."""

from __future__ import annotations

from collections.abc import Iterator

from evalgate import words
from evalgate.exhibits import cases, sentences
from evalgate.exhibits.cases import CaseExhibit, Turn
from evalgate.exhibits.gfm import differences
from evalgate.markup import github, plain
from evalgate.model import AgentFailure, CriterionVerdict, Finding, Report, VerdictKind

ID_WIDTH = 100
USER_LIMIT = 500
FINDING_LIMIT = 300
FINDINGS = 5
DOT = " \N{MIDDLE DOT} "


def render_line(exhibit: CaseExhibit, report: Report) -> str:
    """The case as one list item: what it is, what is wrong, where it stands."""
    mark = sentences.kind_mark(exhibit.verdict.kind)
    name = github.code(plain.label(exhibit.verdict.case_id, ID_WIDTH))
    why = "" if exhibit.failing else github.prose(plain.clip_end(sentences.why_unmeasured(exhibit), 160))
    wrong = ", ".join(f"{github.code(plain.label(each.name, ID_WIDTH))} {_against(each)}" for each in exhibit.failing)
    return f"- {mark} {github.link(name, _address(exhibit, report))}: {wrong or why}"


def render_details(exhibit: CaseExhibit, report: Report, *, turns: int) -> str:
    """The case as a folded section with at most `turns` of its turns, those that broke first of all."""
    paragraphs = [
        f"{_place(exhibit, report)}{_which_run(exhibit, report)}",
        *_criteria(exhibit),
        *_failures(exhibit),
        *_turns(exhibit, report, limit=turns),
    ]
    return github.details(_summary(exhibit), "\n\n".join(each for each in paragraphs if each))


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
        what = github.raw_prose(plain.clip_end(sentences.why_unmeasured(exhibit), 200))
    return f"{mark} {name}{DOT}{what}"


def _against(verdict: CriterionVerdict) -> str:
    met = verdict.kind is VerdictKind.PASS
    return words.against(verdict.value, verdict.threshold, met=met).replace("<", "&lt;").replace(">", "&gt;")


def _place(exhibit: CaseExhibit, report: Report) -> str:
    shown = plain.label(exhibit.file, 200) + (f":{exhibit.line}" if exhibit.line is not None else "")
    return github.link(github.code(shown), _address(exhibit, report))


def _address(exhibit: CaseExhibit, report: Report) -> str:
    return github.file_address(
        repository=report.links.repository, commit=report.links.commit, path=exhibit.file, line=exhibit.line
    )


def _which_run(exhibit: CaseExhibit, report: Report) -> str:
    if report.run.repeats <= 1 or exhibit.shown is None:
        return ""
    return f"{DOT}run {exhibit.shown.key.repeat + 1} of {report.run.repeats} is shown"


def _criteria(exhibit: CaseExhibit) -> Iterator[str]:
    """What the summary line does not say: every repeat's value, and criteria without a score."""
    lines = []
    for verdict in exhibit.verdict.criteria:
        if verdict.kind is VerdictKind.FAIL and len(verdict.values) > 1:
            lines.append(
                f"- {github.code(plain.label(verdict.name, ID_WIDTH))}: {render_values(verdict)} over its runs"
            )
        elif verdict.kind is VerdictKind.NOT_MEASURED and not exhibit.agent_failed:
            why = github.prose(sentences.unmeasured_sentence(verdict))
            lines.append(f"- {github.code(plain.label(verdict.name, ID_WIDTH))} was not measured: {why}")
    if lines:
        yield "\n".join(lines)


def _failures(exhibit: CaseExhibit) -> Iterator[str]:
    failed = [trial.failure for trial in exhibit.trials if trial.failure is not None]
    if not failed:
        return
    others = len(failed) - 1
    more = f" ({words.counted(others, 'more run')} of this case failed too)" if others else ""
    yield f"**{github.prose(sentences.failure_sentence(failed[0]))}**{more}"
    yield from _detail(failed[0])


def _detail(failure: AgentFailure) -> Iterator[str]:
    shown = plain.tail(plain.visible(plain.clip(failure.detail, 20_000)), lines=12, limit=1_500)
    if shown.strip():
        yield github.fence(shown, language="text")


def _turns(exhibit: CaseExhibit, report: Report, *, limit: int) -> Iterator[str]:
    known = cases.turns(exhibit, report.run.transcripts)
    chosen = [turn for turn in known if turn.broken] or list(known)
    if exhibit.agent_failed:
        chosen = chosen[-1:]
    yield from _findings(cases.conversation_findings(exhibit))
    for turn in chosen[:limit]:
        yield from _turn(turn, of=len(known))
    if len(chosen) > limit:
        yield f"{words.counted(len(chosen) - limit, 'more turn')} in `report.html`."


def _turn(turn: Turn, *, of: int) -> Iterator[str]:
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
    yield from _calls(turn)
    yield from _answers(turn)
    yield from _findings(turn.findings)


def _calls(turn: Turn) -> Iterator[str]:
    expected, actual = turn.expected_calls or (), turn.actual_calls or ()
    if not turn.happened:
        yield "The agent gave no such turn."
    elif turn.expected_calls is not None and expected != actual:
        yield f"Tool calls, `-` expected, `+` actual:\n{differences.render_calls(expected, actual)}"


def _answers(turn: Turn) -> Iterator[str]:
    if not turn.happened or turn.expected_answer is None or turn.expected_answer == turn.actual_answer:
        return
    below = [score.name for score in turn.scores if score.met is False]
    if below and all("tool" in name for name in below):
        return  # an answer is never word for word the same: where nobody asks for its words, it is noise
    if turn.actual_answer is None:
        yield "The agent gave no answer; expected:\n" + github.fence(
            "\n".join(plain.wrap(plain.clip(turn.expected_answer, USER_LIMIT), differences.WIDTH)), language="text"
        )
        return
    yield "Answer, `-` expected, `+` actual:\n" + differences.render_answers(turn.expected_answer, turn.actual_answer)


def _findings(findings: tuple[tuple[str, Finding], ...]) -> Iterator[str]:
    lines = [_finding(name, finding) for name, finding in findings[:FINDINGS] if finding.text.strip()]
    if lines:
        yield "\n".join(lines)


def _finding(name: str, finding: Finding) -> str:
    label = f" {github.code(plain.label(finding.label, ID_WIDTH))}" if finding.label else ""
    text = github.prose(plain.clip(finding.text, FINDING_LIMIT))
    return f"- {github.code(plain.label(name, ID_WIDTH))}{label}: {text}"
