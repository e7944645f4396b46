"""Outcomes and grades as they stand in the journal and in results.json."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from pydantic import Field

from evalgate.model import (
    AgentDetails,
    AgentFailure,
    Ending,
    FailureKind,
    Finding,
    Grade,
    Invocation,
    NotEvaluated,
    Opinion,
    Outcome,
    Reason,
    Score,
    Transcript,
)
from evalgate.wire import lines, not_finite, writing
from evalgate.wire.invocations import AgentDetailsWire, AppDetailsWire, InvocationWire
from evalgate.wire.not_finite import Number, Places
from evalgate.wire.shapes import Wire

AgentsTable: TypeAlias = dict[str, tuple[AgentDetails, ...]]
Address: TypeAlias = Callable[[Any], str]

NOT_FINITE = "Paths of texts (`NaN`, `Infinity`, `-Infinity`) that stand for the numbers that JSON has not."


class TranscriptWire(Wire):
    """A transcript. `agents` holds, for each invocation, the address of its agents in the table beside it."""

    kind: Literal["transcript"] = "transcript"
    invocations: list[InvocationWire]
    final_state: dict[str, Any] | None = None
    ended_by: Ending | None = Field(default=None, description="How a conversation with a simulated user ended.")
    agents: list[str] | None = None
    not_finite: Places = Field(default_factory=list, description=NOT_FINITE)


class FailureWire(Wire):
    """An agent failure, with the turns that came before it."""

    kind: FailureKind
    message: str
    turn: int | None = None
    detail: str = ""
    partial: list[InvocationWire] = Field(default_factory=list)
    not_finite: Places = Field(default_factory=list, description=NOT_FINITE)

    def noun(self) -> AgentFailure:
        """The failure."""
        return AgentFailure(
            kind=self.kind,
            message=self.message,
            turn=self.turn,
            detail=self.detail,
            partial=tuple(invocation.noun() for invocation in self.partial),
        )


class OpinionWire(Wire):
    """What one sample of a judge said."""

    sample: int
    label: str = ""
    text: str = ""
    cached: bool = False


class FindingWire(Wire):
    """One explanation behind a score; `opinions` and `spared` where a judge was asked."""

    text: str
    turn: int | None = None
    label: str = ""
    score: Number | None = None
    subject: str = ""
    opinions: list[OpinionWire] = Field(default_factory=list)
    spared: int = 0

    def noun(self) -> Finding:
        """The finding."""
        return Finding(
            text=self.text,
            turn=self.turn,
            label=self.label,
            score=self.score,
            subject=self.subject,
            opinions=tuple(
                Opinion(sample=each.sample, label=each.label, text=each.text, cached=each.cached)
                for each in self.opinions
            ),
            spared=self.spared,
        )


class GradeWire(Wire):
    """A score, or the reason why there is none; exactly one of `score` and `reason` is given."""

    score: float | None = None
    reason: Reason | None = None
    message: str = ""
    turns: list[Number | None] = Field(default_factory=list)
    breakdown: dict[str, Number] = Field(default_factory=dict)
    findings: list[FindingWire] = Field(default_factory=list)

    def noun(self) -> Grade:
        """The grade."""
        findings = tuple(each.noun() for each in self.findings)
        if self.score is None:
            reason = self.reason or Reason.CRITERION_FAILED
            return NotEvaluated(reason=reason, message=self.message, turns=tuple(self.turns), findings=findings)
        score = Score(value=self.score, turns=tuple(self.turns), breakdown=self.breakdown, findings=findings)
        if not score.is_number:
            message = f"{self.score} is not a valid score"
            return NotEvaluated(reason=Reason.CRITERION_FAILED, message=message, findings=findings)
        return score


def grade_json(grade: Grade) -> dict[str, Any]:
    """A grade as compact JSON-ready values; the turns of a score that has one turn, equal to it, are left out."""
    if isinstance(grade, NotEvaluated):
        written: dict[str, Any] = {"reason": grade.reason.value, "message": grade.message}
        if grade.turns:
            written["turns"] = list(grade.turns)
    else:
        written = {"score": grade.value}
        if grade.turns != (grade.value,):
            written["turns"] = list(grade.turns)
        if grade.breakdown:
            written["breakdown"] = dict(grade.breakdown)
    if grade.findings:
        written["findings"] = [_finding_json(finding) for finding in grade.findings]
    return written


def _finding_json(finding: Finding) -> dict[str, Any]:
    written: dict[str, Any] = {"text": finding.text}
    if finding.turn is not None:
        written["turn"] = finding.turn
    if finding.label:
        written["label"] = finding.label
    if finding.score is not None:
        written["score"] = finding.score
    if finding.subject:
        written["subject"] = finding.subject
    if finding.opinions:
        written["opinions"] = [_opinion_json(opinion) for opinion in finding.opinions]
    if finding.spared:
        written["spared"] = finding.spared
    return written


def _opinion_json(opinion: Opinion) -> dict[str, Any]:
    written: dict[str, Any] = {"sample": opinion.sample}
    if opinion.label:
        written["label"] = opinion.label
    if opinion.text:
        written["text"] = opinion.text
    if opinion.cached:
        written["cached"] = True
    return written


def parse_grade(raw: dict[str, Any]) -> Grade:
    """A grade from its JSON. Raises pydantic.ValidationError."""
    if "turns" not in raw and raw.get("score") is not None:
        raw = raw | {"turns": [raw["score"]]}
    return GradeWire.model_validate(raw).noun()


def outcome_json(outcome: Outcome, *, agents_seen: AgentsTable, address: Address) -> dict[str, Any]:
    """An outcome as compact JSON-ready values.

    What the agents were told is the same in almost every turn of a run, and long: it is written once, in a table.
    Every invocation's agents are put into `agents_seen` under `address(agents)`, and the outcome refers to them.
    """
    written = _outcome_json(outcome, agents_seen=agents_seen, address=address)
    if not_finite.may_stand_in(lines.encode(written)) and (places := not_finite.places(written)):
        written["not_finite"] = places
    return written


def _outcome_json(outcome: Outcome, *, agents_seen: AgentsTable, address: Address) -> dict[str, Any]:
    match outcome:
        case Transcript():
            written: dict[str, Any] = {
                "kind": "transcript",
                "invocations": [writing.invocation_json(_without_agents(each)) for each in outcome.invocations],
            }
            if outcome.final_state is not None:
                written["final_state"] = dict(outcome.final_state)
            if outcome.ended_by is not None:
                written["ended_by"] = outcome.ended_by.value
            if any(each.agents for each in outcome.invocations):
                written["agents"] = [_remember(each.agents, agents_seen, address) for each in outcome.invocations]
            return written
        case AgentFailure():
            return _failure_json(outcome)


def _failure_json(failure: AgentFailure) -> dict[str, Any]:
    written: dict[str, Any] = {"kind": failure.kind.value, "message": failure.message}
    if failure.turn is not None:
        written["turn"] = failure.turn
    if failure.detail:
        written["detail"] = failure.detail
    if failure.partial:
        written["partial"] = [writing.invocation_json(_without_agents(each)) for each in failure.partial]
    return written


def parse_outcome(raw: dict[str, Any], *, agents_seen: AgentsTable) -> Outcome:
    """An outcome from its JSON and the table of agents. Raises pydantic.ValidationError."""
    if raw.get("not_finite"):
        raw = not_finite.restored(raw, raw["not_finite"])
    if raw.get("kind") != "transcript":
        return FailureWire.model_validate(raw).noun()
    wire = TranscriptWire.model_validate(raw)
    invocations = tuple(invocation.noun() for invocation in wire.invocations)
    if wire.agents:
        invocations = tuple(
            _with_agents(invocation, agents_seen.get(address, ()))
            for invocation, address in zip(invocations, wire.agents, strict=False)
        )
    return Transcript(invocations=invocations, final_state=wire.final_state, ended_by=wire.ended_by)


def agents_json(agents: tuple[AgentDetails, ...]) -> list[dict[str, Any]]:
    """The agents of an invocation as JSON-ready values."""
    return [writing.agent_json(agent) for agent in agents]


def parse_agents(raw: list[dict[str, Any]]) -> tuple[AgentDetails, ...]:
    """The agents of an invocation from their JSON. Raises pydantic.ValidationError."""
    wires = [AgentDetailsWire.model_validate(each) for each in raw]
    return AppDetailsWire.model_construct(agent_details={wire.name: wire for wire in wires}).noun()


def _remember(agents: tuple[AgentDetails, ...], seen: AgentsTable, address: Address) -> str:
    if not agents:
        return ""
    key = address(agents_json(agents))
    seen.setdefault(key, agents)
    return key


def _without_agents(invocation: Invocation) -> Invocation:
    return _with_agents(invocation, ()) if invocation.agents else invocation


def _with_agents(invocation: Invocation, agents: tuple[AgentDetails, ...]) -> Invocation:
    return Invocation(
        user_content=invocation.user_content,
        final_response=invocation.final_response,
        events=invocation.events,
        itemized=invocation.itemized,
        invocation_id=invocation.invocation_id,
        rubrics=invocation.rubrics,
        agents=agents,
        timings=invocation.timings,
    )
