"""Criteria of Google Cloud's evaluation service: what it is sent, what its replies say, and which judge stands in.

The service is one more judge: its questions are bodies of `:evaluateInstances`, so that they are cached, paced and
paid for like any other.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evalgate import turns
from evalgate.judged import asking, concluding
from evalgate.judged.asking import Asking, Lack
from evalgate.judged.concluding import JudgedTurn
from evalgate.judged.options import JudgedOptions
from evalgate.model import Finding, Grade, Invocation, Json, NotEvaluated, Reason, Score
from evalgate.plugins import Ballot, JudgeRequest, Sample, Vote
from evalgate.prompts import shown
from evalgate.wire import writing

MODEL: Final = "vertex_evaluation/"
VERSION: Final = "1"


class Source(enum.StrEnum):
    """Who judges."""

    VERTEX = "vertex"  # Google Cloud's evaluation service, as in ADK
    LLM = "llm"  # the judge model, with a prompt of ours


class VertexOptions(JudgedOptions):
    """The object form without its threshold. `judge` is ours; the judge's own options count with `llm` alone."""

    judge: Source = Source.VERTEX
    include_intermediate_responses_in_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the service says of one instance; `score` None: it has none."""

    score: float | None
    findings: tuple[Finding, ...] = ()


# --- questions ------------------------------------------------------------------------------------


def predefined(metric: str, instance: Json) -> Json:
    """The body that asks for a predefined metric."""
    return {"instance": dict(instance), "metrics": [{"predefinedMetricSpec": {"metricSpecName": metric}}]}


def single_turn(invocation: Invocation, reference: Invocation | None) -> Json:
    """One turn as the service takes it, thoughts among the texts as in ADK."""
    texts = {
        "prompt": shown.text_of(invocation.user_content, with_thoughts=True),
        "response": shown.answer(invocation, with_thoughts=True),
    }
    if reference is not None:
        texts["reference"] = shown.answer(reference, with_thoughts=True)
    return {name: {"text": text} for name, text in texts.items()}


def conversation(invocations: Sequence[Invocation]) -> Json:
    """A whole conversation as the service takes it: agents, and events by turn. It knows no tools but objects."""
    agents: dict[str, Any] = {}
    for agent in (agent for each in invocations for agent in each.agents):
        tools = [tool for tool in shown.declared(agent) if isinstance(tool, dict)]
        agents.setdefault(agent.name, {"agentId": agent.name, "instruction": agent.instructions, "tools": tools})
    return {"agentData": {"agents": agents, "turns": [_turn(index, each) for index, each in enumerate(invocations)]}}


def _turn(index: int, invocation: Invocation) -> Json:
    contents = [("user", invocation.user_content)]
    contents += [(event.author or "agent", event.content) for event in invocation.events or () if event.content]
    contents += [("agent", invocation.final_response)] if invocation.final_response else []
    events = [{"author": author, "content": writing.content_json(content)} for author, content in contents]
    return {"turnIndex": index, "turnId": invocation.invocation_id, "events": events}


def ballot(ask: Asking, body: Json, metric: str) -> Ballot:
    """The body as a question to the service; one sample, since it samples by itself."""
    text = json.dumps(body, ensure_ascii=False, sort_keys=True, default=str)
    request = JudgeRequest(model=MODEL + metric, prompt=text, criterion=ask.criterion, version=VERSION)
    return Ballot(request=request, parse=lambda reply: _vote(reply.text), num_samples=1)


def _vote(text: str) -> Mapping[str, Vote]:
    return {} if parse(text).score is None else {"": Vote(passed=True)}


def parse(text: str, *, turn: int | None = None) -> Said:
    """Score, explanation and rubric verdicts of a reply. Not a number, and no number, are no score."""
    try:
        raw = json.loads(text)
    except ValueError:
        return Said(score=None)
    results = raw.get("metricResults") if isinstance(raw, dict) else None
    result = results[0] if isinstance(results, list) and results else raw.get("coherenceResult")
    if not isinstance(result, dict):
        return Said(score=None)
    score = _number(result.get("score"))
    explanation = result.get("explanation") or (result.get("error") or {}).get("message") or ""
    overall = (Finding(text=str(explanation), turn=turn, score=score),) if explanation else ()
    verdicts = result.get("rubricVerdicts") or []
    return Said(score=score, findings=(*(_rubric(each, turn) for each in verdicts), *overall))


def _number(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if number else None


def _rubric(verdict: Mapping[str, Any], turn: int | None) -> Finding:
    content = (verdict.get("evaluatedRubric") or {}).get("content") or {}
    subject = (content.get("property") or {}).get("description") or ""
    holds = bool(verdict.get("verdict"))  # the service leaves the field out where it is false
    text = str(verdict.get("reasoning") or "")
    return Finding(text=text, turn=turn, label="yes" if holds else "no", score=float(holds), subject=str(subject))


# --- grades ---------------------------------------------------------------------------------------


def grade_turns(ask: Asking, bodies: Sequence[Json], metric: str) -> Grade:
    """The mean over turns; unknown as soon as one turn is. ADK leaves out turns without a score."""
    ballots = [ballot(ask, body, metric) for body in bodies]
    samples = [result.samples for result in ask.panel.vote_all(ballots)]
    judged = [_judged(each, number) for number, each in enumerate(samples, start=1)]
    if not ask.adk_compat:
        return concluding.conclude(judged, nothing=_NOTHING)
    failed = any(each.failure for group in samples for each in group)  # one that raises ends ADK's criterion
    values = tuple(None if failed else turn.value for turn in judged)
    known = [value for value in values if value is not None]
    return concluding.conclude_as_adk(judged, turns.running_mean(known) if known else None, values)


def grade_whole(ask: Asking, body: Json, metric: str, *, turns_before: int) -> Grade:
    """One question on a conversation; its value stands at the last turn."""
    samples = ask.panel.vote(ballot(ask, body, metric)).samples
    grade = concluding.conclude([_judged(samples, None)], nothing=_NOTHING)
    return concluding.at_the_end(grade, turns_before=turns_before)


_NOTHING: Final = Lack(reason=Reason.NOTHING_RECORDED, message="there is nothing to judge")


def _judged(samples: Sequence[Sample], turn: int | None) -> JudgedTurn:
    reply = samples[0].reply if samples else None
    said = parse(reply.text, turn=turn) if reply else Said(score=None)
    if said.score is None:
        lack = asking.lack_of_samples(samples) if reply is None else _without_score(said)
        return JudgedTurn(findings=said.findings, lack=lack)
    return JudgedTurn(scores=(said.score,), findings=said.findings)


def _without_score(said: Said) -> Lack:
    why = next((f": {finding.text}" for finding in said.findings if finding.text), "")
    message = f"Google Cloud's evaluation service gave no score{why}"
    return Lack(reason=Reason.JUDGE_UNREADABLE, message=message)


# --- the judge that stands in ---------------------------------------------------------------------


def grade_by_model(
    ask: Asking,
    ballots: Mapping[int, Ballot],
    *,
    turn_count: int,
    score: Callable[[Sequence[Sample], bool], float],
) -> Grade:
    """The mean over the turns with a ballot, by the judge model; `score(samples, passed)` is a turn's.

    The grade says that it is not the service's.
    """
    results = dict(zip(ballots, ask.panel.vote_all(list(ballots.values())), strict=True))
    judged = []
    for number in range(1, turn_count + 1):
        result = results.get(number)
        if result is None:
            judged.append(JudgedTurn(findings=(Finding(text="no answer: the turn is left out", turn=number),)))
            continue
        verdict = result.items[""]
        value = None if verdict.passed is None else score(result.samples, verdict.passed)
        judged.append(
            JudgedTurn(
                scores=() if value is None else (value,),
                findings=(asking.finding(result, ballots[number], turn=number),),
                lack=asking.lack(verdict, result.samples),
            )
        )
    return labelled(concluding.conclude(judged, nothing=_NOTHING), ask)


def labelled(grade: Grade, ask: Asking) -> Grade:
    """The grade with a finding which judge it is from."""
    model = ask.options.judge_model_options.judge_model
    text = f"judged by `{model}` with a prompt of evalgate's, not by Google Cloud's evaluation service"
    note = Finding(text=text, label="stand-in")
    match grade:
        case Score():
            return Score(
                value=grade.value, turns=grade.turns, breakdown=grade.breakdown, findings=(note, *grade.findings)
            )
        case NotEvaluated():
            return NotEvaluated(
                reason=grade.reason, message=grade.message, turns=grade.turns, findings=(note, *grade.findings)
            )
