"""The cases of report.html as its script reads them: an index of all, and the conversations in parts that are unpacked
when somebody opens one."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from evalgate.comparison import threshold
from evalgate.comparison.labels import CaseLabel
from evalgate.model import (
    AgentFailure,
    CriterionUse,
    Finding,
    GradedTrial,
    Invocation,
    NotEvaluated,
    Run,
    Score,
    TrialKey,
    VerdictKind,
)
from evalgate.reports import cases, causes, turns, wording
from evalgate.reports.cases import CaseView
from evalgate.reports.view import View
from evalgate.text import plain

PART_BYTES: Final = 512 * 1024
"""Of conversations, packed together: small enough to unpack at once, large enough to pack well."""
TEXT: Final = 500_000
"""Characters of one text at most."""
WORDS: Final = 300
"""Characters of each user text that the search knows."""
LEVEL: Final = 6
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


def parts(v: View, *, room: int) -> Iterator[str]:
    """The index first, then the parts; each is JSON, deflated, in base64. At most about `room` characters: passing
    cases lose their conversations first."""
    ordered = [*(case for cause in v.causes for case in cause.cases), *_passed(v.cases)]
    rows: list[dict[str, Any]] = []
    packed: list[str] = []
    of_case = {id(case): at for at, cause in enumerate(v.causes) for case in cause.cases}
    suites = {suite.key: at for at, suite in enumerate(v.report.run.suites)}
    held: list[str] = []
    size = used = 0
    for case in ordered:
        row = _row(case, cause=of_case.get(id(case), -1), suites=suites)
        if used < room:
            whole = _JSON.encode(_case(v, case))
            row["part"], row["at"] = len(packed), len(held)
            held.append(whole)
            size += len(whole)
        rows.append(row)
        if size >= PART_BYTES:
            packed.append(_packed(f"[{','.join(held)}]"))
            used += len(packed[-1])
            held, size = [], 0
    if held:
        packed.append(_packed(f"[{','.join(held)}]"))
    index = {
        "cases": rows,
        "suites": list(suites),
        "statuses": list(causes.STATUS.values()),
        "causes": [{"text": each.text, "status": each.status} for each in v.causes],
        "head": v.head_commit[:12],
        "base": v.report.comparison.origin.commit[:12] if v.comparison and v.report.comparison else "",
    }
    yield _packed(_JSON.encode(index))
    yield from packed


def _passed(found: Sequence[CaseView]) -> Iterator[CaseView]:
    """Fixed ones first."""
    passed = [case for case in found if case.kind is VerdictKind.PASS]
    yield from sorted(passed, key=lambda case: case.label is not CaseLabel.FIXED)


def _packed(text: str) -> str:
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -15)  # without a header: what a browser calls deflate-raw
    return base64.b64encode(packer.compress(text.encode("utf-8", "replace")) + packer.flush()).decode()


PART: Final = re.compile(r'(<script type="text/plain">)([A-Za-z0-9+/=]*)(</script>)')


def changed(page: str, change: Callable[[str], str]) -> str:
    """A page with `change` made to all of its texts, packed ones too: to take secrets out."""

    def repacked(found: re.Match[str]) -> str:
        text = zlib.decompress(base64.b64decode(found[2]), -15).decode()
        return f"{found[1]}{_packed(change(text))}{found[3]}"

    return PART.sub(repacked, change(page))


def _row(case: CaseView, *, cause: int, suites: dict[str, int]) -> dict[str, Any]:
    uses = case.suite.criteria
    asked = (case.case.conversation if case.case else None) or ()
    said = [turns.answer_text(turn.user_content) or "" for turn in asked[:10]]
    tools = dict.fromkeys(call.name for turn in asked for call in turn.tool_calls)
    if case.case is not None and case.case.scenario is not None:
        said.append(case.case.scenario.starting_prompt)
    return {
        "id": case.case_id,
        "suite": suites[case.suite.key],
        "kind": "allowed" if case.kind is VerdictKind.FAIL and case.allowed is not None else case.kind.value,
        "status": causes.STATUS[case.label],
        "cause": cause,
        "why": wording.why(case, width=60),
        "place": case.place,
        "head": "".join(_sign(trial, uses) for trial in case.trials),
        "base": "".join(_sign(trial, uses) for trial in _base_trials(case)),
        "words": " ".join([*(plain.clip(text, WORDS) for text in said), *tools]),
    }


def _sign(trial: GradedTrial, uses: Sequence[CriterionUse]) -> str:
    """`p`, `f`, or `u` for a run that was not measured."""
    if trial.failure is not None:
        return "u"
    grades = [(use, trial.grades.get(use.name)) for use in uses if not use.informational and use.name in trial.grades]
    if any(isinstance(grade, Score) and not threshold.reaches(grade.value, use) for use, grade in grades):
        return "f"
    return "p" if all(isinstance(grade, Score) for _, grade in grades) else "u"


def _base_trials(case: CaseView) -> Sequence[GradedTrial]:
    """Of the same case on the base."""
    comparison = case.report.comparison
    if comparison is None or comparison.base is None:
        return ()
    return _by_case(comparison.base).get(case.verdict.key, ())


_last: tuple[Run, dict[tuple[str, str], list[GradedTrial]]] | None = None


def _by_case(run: Run) -> dict[tuple[str, str], list[GradedTrial]]:
    """The trials of a run by case; the last run's are kept: cases ask one by one."""
    global _last  # noqa: PLW0603 - one value, replaced whole
    if _last is None or _last[0] is not run:
        made: dict[tuple[str, str], list[GradedTrial]] = {}
        for trial in run.trials:
            made.setdefault((trial.key.suite, trial.key.case_id), []).append(trial)
        _last = (run, made)
    return _last[1]


def _case(v: View, case: CaseView) -> dict[str, Any]:
    """All of one case: what was asked and expected, every run of either side, the values of its criteria."""
    comparison = case.report.comparison
    conversation = (case.case.conversation if case.case else None) or ()
    scenario = case.case.scenario if case.case else None
    uses = {use.name: use for use in case.suite.criteria}
    base = comparison.base if comparison is not None else None
    base_values = _means(_base_trials(case))
    return {
        "expected": [_turn(turn) for turn in conversation],
        "scenario": None if scenario is None else [scenario.starting_prompt, scenario.conversation_plan],
        "origin": case.failure_origin,
        "file": v.file_page(case),
        "note": turns.of(case).divergence if case.kind is not VerdictKind.PASS else "",
        "criteria": [
            {
                "name": each.name,
                "kind": each.kind.value if each.kind else "",
                "value": each.value,
                "shown": cases.number(each.value, each),
                "threshold": each.threshold,
                "base": base_values.get(each.name),
                "why": wording.unmeasured_sentence(each) if each.value is None else "",
                "low": bool(uses[each.name].lower_is_better) if each.name in uses else False,
            }
            for each in case.verdict.criteria
        ],
        "runs": {
            "head": [_run(case.report.run, trial, uses) for trial in case.trials],
            "base": [] if base is None else [_run(base, trial, uses) for trial in _base_trials(case)],
        },
    }


def _means(trials: Sequence[GradedTrial]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for trial in trials:
        for name, grade in trial.grades.items():
            if isinstance(grade, Score):
                found.setdefault(name, []).append(grade.value)
    return {name: sum(values) / len(values) for name, values in found.items()}


def _run(run: Run, trial: GradedTrial, uses: dict[str, CriterionUse]) -> dict[str, Any]:
    transcript = run.transcripts.find(
        TrialKey(suite=trial.key.suite, case_id=trial.key.case_id, repeat=trial.key.repeat)
    )
    done = transcript.invocations if transcript is not None else ()
    if trial.failure is not None and not done:
        done = trial.failure.partial
    return {
        "sign": _sign(trial, list(uses.values())),
        "failure": None if trial.failure is None else _failure(trial.failure),
        "seconds": trial.seconds,
        "tokens": trial.tokens,
        "grades": {name: _grade(grade) for name, grade in trial.grades.items()},
        "found": [_finding(name, each) for name, grade in trial.grades.items() for each in grade.findings],
        "turns": [{**_turn(turn), "scores": _scores(trial, at, uses)} for at, turn in enumerate(done)],
        "state": transcript.final_state if transcript is not None else None,
    }


def _failure(failure: AgentFailure) -> list[str]:
    return [wording.failure_sentence(failure), plain.clip(failure.message, TEXT), plain.clip(failure.detail, TEXT)]


def _grade(grade: Score | NotEvaluated) -> Any:
    return grade.value if isinstance(grade, Score) else [grade.reason.value, grade.message]


def _scores(trial: GradedTrial, at: int, uses: dict[str, CriterionUse]) -> list[list[Any]]:
    found = []
    for name, grade in trial.grades.items():
        value = grade.turns[at] if at < len(grade.turns) else None
        if value is not None and name in uses:
            use = uses[name]
            decides = not use.informational and use.threshold is not None
            found.append([name, value, threshold.reaches(value, use) if decides else None])
    return found


def _turn(turn: Invocation) -> dict[str, Any]:
    """What the user said, the calls with what they returned, what was said on the way, the answer."""
    user, answer = (_text(turns.answer_text(each)) for each in (turn.user_content, turn.final_response))
    made: dict[str, Any] = {"user": user or "", "answer": answer}
    if turn.events is not None:
        made["calls"] = _calls(turn)
        said = ((each.author, turns.answer_text(each.content)) for each in turn.events)
        made["said"] = [[author, _text(text)] for author, text in said if text]
    if answer is None and made.get("said"):
        made["note"] = f"The agent produced {wording.UNMARKED}, so it gave no answer."
    if turn.timings is not None:
        made["s"] = [turn.timings.total_s, turn.timings.model_s, turn.timings.tool_s]
    return made


def _text(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT else plain.clip(text, TEXT)


def _value(value: Any) -> Any:
    """Arguments or a response; what is huge, as clipped JSON."""
    written = _JSON.encode(value)
    return value if len(written) <= TEXT else plain.clip(written, TEXT)


def _calls(turn: Invocation) -> list[list[Any]]:
    """`[name, args, response]`: a response by its id, else the next one of that name."""
    waiting = list(turn.tool_responses)
    made = []
    for call in turn.tool_calls:
        found = next((each for each in waiting if call.id and each.id == call.id), None)
        found = found or next((each for each in waiting if each.name == call.name), None)
        if found is not None:
            waiting.remove(found)
        made.append([call.name, _value(call.args or {}), None if found is None else _value(found.response)])
    return made


def _finding(name: str, finding: Finding) -> dict[str, Any]:
    return {
        "of": name,
        "turn": finding.turn,
        "label": finding.label,
        "score": finding.score,
        "subject": finding.subject,
        "text": _text(finding.text),
        "tally": turns.tally(finding),
        "samples": [[each.label or turns.UNREAD, _text(each.text)] for each in finding.opinions],
    }
