"""The cases of report.html as its script reads them: an index of all cases, and parts with their
conversations, which the page unpacks when a reader opens a case. `v` is the view of the report."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from evalgate.comparison import pairing
from evalgate.formats import adk_shapes
from evalgate.model import (
    AgentFailure,
    CriterionUse,
    CriterionVerdict,
    Event,
    Finding,
    GradedTrial,
    Invocation,
    Run,
    Score,
    Suite,
    Text,
    Transcript,
    VerdictKind,
)
from evalgate.results.labels import CaseLabel
from evalgate.text import plain, words
from evalgate.values import JsonObject, mapped_texts
from . import cases, causes, turns
from .cases import CaseView
from .phrases import phrase
from .view import View, causes_of

PART_BYTES = 512 * 1024
"""Conversations per part: fast to unpack, large enough to compress well."""
MAX_TEXT = 500_000
"""Characters of one text."""
QUERY_WIDTH = 300
"""Characters of each user message that the search covers."""
DEFLATE_LEVEL = 6
"""zlib's default: higher levels take much longer for little."""
NO_CAUSE = -1
"""In place of the index of a cause, for cases that passed."""


def pack_cases(v: View, *, room: int) -> Iterator[str]:
    """The index, the search text (a line per case), the parts with the cases, then their traces.
    All are deflated, in base64; all except the search text are JSON. They have about `room`
    characters at most: passing cases lose their conversations first."""
    all_causes = causes_of(v.cases)
    causes_by_case = {key: index for index, cause in enumerate(all_causes) for key in cause.cases}
    ordered_cases = sorted(
        v.cases,
        key=lambda case: (
            causes_by_case.get(case.key, len(all_causes)),
            case.label is not CaseLabel.FIXED,
        ),
    )
    rows: list[JsonObject] = []
    search_lines: list[str] = []
    suites = {suite.key: index for index, suite in enumerate(v.report.run.suites)}
    criteria = _deciding_criteria(v)
    criterion_numbers = {name: index for index, name in enumerate(criteria)}
    packer = _CasePacker()
    for case in ordered_cases:
        cause_index = causes_by_case.get(case.key, NO_CAUSE)
        row = _row(case, cause=cause_index, suites=suites, criteria=criterion_numbers)
        if _follows_adk(v, case.suite) and any(trial.failure is not None for trial in case.trials):
            row["crashed"] = True
        if packer.used < room:
            row |= packer.add(*_case_and_traces(v, case))
        rows.append(row)
        cause_text = "" if cause_index == NO_CAUSE else all_causes[cause_index].cause
        search_lines.append(" ".join(_search_words(case, row["why"], cause_text)))
    packer.close_part()
    index = {
        "cases": rows,
        # what rows refer to by index
        "suites": [*suites],
        "traces": len(packer.parts),  # the first part with a trace
        "statuses": [phrase("label_word", label) for label in causes.STATUSES],
        "causes": [{"text": cause.cause, "status": cause.status} for cause in all_causes],
        "criteria": [*criteria.values()],
        "head": v.report.head_commit[:12],
        "base": v.comparison.origin.commit[:12] if v.comparison else "",
    }
    yield _pack(_json(index))
    yield _pack("\n".join(search_lines).encode("utf-8", "replace"))
    yield from packer.parts
    yield from packer.traces


class _CasePacker:
    """Packs cases together in parts, and the trace of each case by itself. `used`: the packed
    characters."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        """Base64, each with as many cases as fit in PART_BYTES."""
        self.traces: list[str] = []
        """Base64, one per case that has a trace."""
        self.used = 0
        self._cases: list[bytes] = []
        """JSON of the cases that are in no part yet."""
        self._size = 0
        """Their bytes."""

    def add(self, case: JsonObject, trace: JsonObject) -> JsonObject:
        """Pack a case and its trace, if it has one; return the indexes of its part and of the case
        there."""
        if trace:
            case["trace"] = len(self.traces)
            self.traces.append(_pack(_json(trace)))
            self.used += len(self.traces[-1])
        text = _json(case)
        if len(text) > MAX_TEXT:
            text = _json(mapped_texts(case, partial(plain.clip, limit=MAX_TEXT)))
        place = {"part": len(self.parts), "at": len(self._cases)}
        self._cases.append(text)
        self._size += len(text)
        if self._size >= PART_BYTES:
            self.close_part()
        return place

    def close_part(self) -> None:
        """Pack the cases that are in no part yet."""
        if self._cases:
            self.parts.append(_pack(b"[%b]" % b",".join(self._cases)))
            self.used += len(self.parts[-1])
            self._cases = []
            self._size = 0


def _json(document: Any) -> bytes:
    """Compact JSON; half an emoji becomes `?`."""
    try:
        return to_json(document, fallback=str)
    except PydanticSerializationError:  # half an emoji, or hundreds of levels
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.encode("utf-8", "replace")


def _pack(text: bytes) -> str:
    """The text deflated without a header, as the browser's "deflate-raw" expects, in base64."""
    # -15: without a header, as the browser's "deflate-raw" expects
    packer = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, -15)
    return base64.b64encode(packer.compress(text) + packer.flush()).decode()


PACKED_TEXT = re.compile(r'(<script type="text/plain">)([A-Za-z0-9+/=]*)(</script>)')
"""An element of the page with packed text: its start, the text, its end."""


def rewrite_texts(page: str, rewrite: Callable[[str], str]) -> str:
    """A page with `rewrite` applied to all of its texts, also packed ones. It removes secrets."""

    def repack(match: re.Match[str]) -> str:
        """The element with its text rewritten; unchanged if the text is."""
        text = zlib.decompress(base64.b64decode(match[2]), -15).decode()
        clean_text = rewrite(text)
        return (
            match[0] if clean_text == text else f"{match[1]}{_pack(clean_text.encode())}{match[3]}"
        )

    return PACKED_TEXT.sub(repack, rewrite(page))


def _row(
    case: CaseView,
    *,
    cause: int,
    suites: Mapping[str, int],
    criteria: Mapping[tuple[str, str], int],
) -> JsonObject:
    """A case's row in the index. `head`, `base`: a sign for each run, see `_run_sign`; `why`: the
    reason in few words; `cause`, `suite`: indexes in the lists beside the rows; `values`: of each
    criterion that decides, its index and its value in each run."""
    suite = case.suite.key
    uses = case.suite.criteria
    return {
        "id": case.case_id,
        "suite": suites[suite],
        "kind": "allowed"
        if case.kind is VerdictKind.FAIL and case.allowed is not None
        else case.kind.value,
        "status": phrase("label_word", case.label),
        "cause": cause,
        "why": case.reason(60),
        "place": str(case.place),
        "head": "".join(_run_sign(trial, uses) for trial in case.trials),
        "base": "".join(_run_sign(trial, uses) for trial in case.base.trials) if case.base else "",
        "values": [
            [criteria[suite, verdict.name], *verdict.values]
            for verdict in case.verdict.criteria
            if verdict.threshold is not None and (suite, verdict.name) in criteria
        ],
    }


def _search_words(case: CaseView, *extra_texts: str) -> list[str]:
    """The words that the search matches: the id, file, user messages and expected tools of a case,
    and `extra_texts`."""
    conversation = case.eval_case.turns
    questions = [turns.answer_text(turn.user_content) or "" for turn in conversation[:10]]
    if case.eval_case.scenario is not None:
        questions.append(case.eval_case.scenario.starting_prompt)
    tools = dict.fromkeys(call.name for turn in conversation for call in turn.tool_calls)
    texts = (
        case.case_id,
        case.suite.key,
        *extra_texts,
        *(plain.clip(text, QUERY_WIDTH) for text in questions),
        *tools,
    )
    return [word for text in texts for word in text.split()]


def _run_sign(trial: GradedTrial, uses: Sequence[CriterionUse]) -> str:
    """`p` if a run passed, `f` if it failed, `u` if it was not measured."""
    if trial.failure is not None:
        return "u"
    deciding_uses = [use for use in pairing.deciding(uses) if use.name in trial.grades]
    is_passed = pairing.passes(pairing.pattern_of(trial, deciding_uses))
    return "u" if is_passed is None else "p" if is_passed else "f"


def _deciding_criteria(v: View) -> dict[tuple[str, str], JsonObject]:
    """The deciding criteria by suite and name, with the facts that the page needs to try other
    thresholds. `low`: lower scores are better; `test`: the criterion scores the test, not the
    agent; `adk`: see `_follows_adk`; `object`: the file has an object, not only a threshold."""
    criteria = {}
    for suite in v.report.run.suites:
        for use in suite.criteria:
            if not use.informational and use.threshold is not None:
                best = use.scale.lowest if use.lower_is_better else use.scale.highest
                criteria[suite.key, use.name] = {
                    "name": use.name,
                    "suite": suite.key,
                    "file": suite.criteria_source.file,
                    "threshold": use.threshold,
                    "low": use.lower_is_better,
                    "best": best,
                    "test": use.on_the_test,
                    "adk": _follows_adk(v, suite),
                    "object": bool(use.options),
                }
    return criteria


def _follows_adk(v: View, suite: Suite) -> bool:
    """True if ADK's rules decide cases without a score (comparison/threshold.py)."""
    return not v.report.policy.deviations.criterion_unscored and not any(
        use.is_of_ces for use in suite.criteria
    )


def _case_and_traces(
    v: View, case: CaseView
) -> tuple[JsonObject, dict[str, list[list[Any] | None]]]:
    """One case for its page, and the traces of its turns by side and run, if there are any. The
    case has its expectations, the runs of both sides, and the values of its criteria."""
    uses = {use.name: use for use in case.suite.criteria}
    base_values = pairing.means(case.base.trials if case.base else ())
    exemption = case.verdict.listing
    # if the file does not mention calls, a criterion of calls expects none
    use = uses.get(turns.TRAJECTORY)
    expects_no_calls = use is not None and not use.informational
    runs = {
        name: [_run(side.run, trial, uses) for trial in (*side.trials, *side.confirmations)]
        if side
        else []
        for name, side in (("head", case.head), ("base", case.base))
    }
    traces = {side: [run.pop("traces") for run in side_runs] for side, side_runs in runs.items()}
    document = {
        "expected": [
            _turn(turn, () if turn.events is None and expects_no_calls else turn.events)
            for turn in case.eval_case.turns
        ],
        "about": adk_shapes.case_fields_json(case.eval_case),
        "difference": "" if case.kind is VerdictKind.PASS else causes.difference(case),
        "shown": next(
            (index for index, trial in enumerate(case.trials) if trial is case.main_trial), 0
        ),
        "origin": case.failure_origin,
        "reason": case.verdict.reason,
        "exemption": exemption and [exemption.owner, exemption.expires, exemption.reason],
        "past": v.report.facts.past.get(case.key, ()),
        "file": v.file_page(case),
        "note": turns.conversation_of(case).divergence if case.kind is not VerdictKind.PASS else "",
        "criteria": [_criterion(verdict, base_values) for verdict in case.verdict.criteria],
        "runs": runs,
    }
    return document, {side: side_traces for side, side_traces in traces.items() if any(side_traces)}


def _criterion(verdict: CriterionVerdict, base: Mapping[str, float]) -> JsonObject:
    """A criterion of a case: the means of both sides as text, "-" for none."""
    return {
        "name": verdict.name,
        "kind": verdict.kind.value if verdict.kind else "",
        "head": cases.number(verdict.value, verdict.threshold),
        "base": cases.number(base.get(verdict.name), verdict.threshold),
        "threshold": words.threshold(verdict.threshold),
        "why": cases.unmeasured_sentence(verdict) if verdict.value is None else "",
    }


def _run(run: Run, trial: GradedTrial, uses: dict[str, CriterionUse]) -> JsonObject:
    """A run, also of a broken agent. `traces`: of its turns; None without any."""
    transcript = run.transcripts(trial.key) or Transcript(invocations=())
    turns_done = transcript.invocations
    if trial.failure is not None and not turns_done:
        turns_done = trial.failure.partial
    traces = [turn.trace for turn in turns_done]
    if trial.failure is not None and trial.failure.trace:
        traces.append(trial.failure.trace)
    breakdowns = {
        name: grade.breakdown for name, grade in trial.grades.items() if isinstance(grade, Score)
    }
    return {
        "traces": traces if any(traces) else None,
        "sign": _run_sign(trial, list(uses.values())),
        "is_rerun": not trial.key.is_first,
        "failure": _failure(trial.failure) if trial.failure else None,
        "seconds": trial.seconds,
        "tokens": trial.tokens,
        "grades": {
            name: grade.value
            if isinstance(grade, Score)
            else [grade.reason.value, str(grade.message)]
            for name, grade in trial.grades.items()
        },
        "parts": {name: breakdown for name, breakdown in breakdowns.items() if breakdown},
        "findings": [
            _finding(name, finding)
            for name, grade in trial.grades.items()
            for finding in grade.findings
        ],
        "turns": [
            {
                **_turn(turn, turn.events),
                "scores": [
                    [score.name, score.value, score.kind and score.kind is VerdictKind.PASS]
                    for score in turns.scores(index, trial=trial, uses=uses.values())
                ],
            }
            for index, turn in enumerate(turns_done)
        ],
        "state": transcript.final_state,
        "ended": transcript.ended_by or "",
    }


def _failure(failure: AgentFailure) -> list[Any]:
    """Of a failure: the sentence for people, the message, its detail, the kind, and the turn."""
    return [
        cases.failure_sentence(failure),
        failure.message,
        failure.detail,
        failure.kind.value,
        failure.turn,
    ]


def _turn(turn: Invocation, events: Sequence[Event] | None) -> JsonObject:
    """The user's message, the steps in order, and the answer. `asked`, `more`: the parts of message
    and answer that are not text."""
    user, answer = (
        turns.answer_text(content) for content in (turn.user_content, turn.final_response)
    )
    document: JsonObject = {"user": user or "", "answer": answer}
    if events is not None:
        document["events"] = [
            adk_shapes.event_json(event) | ({} if event.at is None else {"at": event.at})
            for event in events
        ]
        if turn.stop is not None:
            document["note"] = phrase("no_answer", turn.stop.error)
        elif answer is None and any(turns.answer_text(event.content) for event in events):
            document["note"] = phrase("no_final_answer")
    for name, content in (("asked", turn.user_content), ("more", turn.final_response)):
        parts = [
            adk_shapes.part_json(part)
            for part in (content.parts if content else ())
            if not isinstance(part, Text) or part.thought
        ]
        if parts:
            document[name] = parts
    if turn.rubrics:
        document["rubrics"] = [adk_shapes.rubric_json(rubric) for rubric in turn.rubrics]
    if turn.timings is not None:
        document["seconds"] = [turn.timings.total_s, turn.timings.model_s, turn.timings.tool_s]
    return document


def _finding(name: str, finding: Finding) -> JsonObject:
    """A finding with its judge's samples, each a label and its explanation."""
    return {
        "criterion": name,
        "turn": finding.turn,
        "label": finding.label,
        "score": finding.score,
        "subject": finding.subject,
        "text": finding.text,
        "tally": turns.tally(finding),
        "samples": [
            [opinion.label or phrase("no_verdict"), opinion.text] for opinion in finding.opinions
        ],
    }
