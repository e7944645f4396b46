"""What the criteria that ask a judge share: their options, their questions, and how votes become a
grade."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from pydantic import Field

from evalgate.config.gate_file import GenerationConfig
from evalgate.criteria.base import Criterion, CriterionServices
from evalgate.formats.adk_shapes import RubricWire
from evalgate.judges import prompting
from evalgate.judges.base import (
    ADK_MODEL,
    ADK_SAMPLES,
    ItemVerdict,
    JudgeFailureKind,
    JudgePanel,
    JudgeReply,
    JudgeRequest,
    Sample,
    SampledRequest,
    Undecided,
    Vote,
    VoteResult,
)
from evalgate.judges.prompting import Question, Reply
from evalgate.model import (
    CriterionUse,
    Finding,
    Grade,
    NotEvaluated,
    Opinion,
    Reason,
    Score,
    TrialView,
    turns,
)
from evalgate.model.deviations import OURS, Deviations
from evalgate.model.shapes import Wire
from evalgate.text import words
from evalgate.values import frozen_dataclass


class JudgeModelOptions(Wire):
    """ADK's JudgeModelOptions. `parallelism_limit` is accepted and not needed: the rate limiter
    sets the pace."""

    judge_model: str = ADK_MODEL
    judge_model_config: GenerationConfig | None = None
    num_samples: int = Field(default=ADK_SAMPLES, ge=1)
    parallelism_limit: int = Field(default=1, ge=1)


class JudgedOptions(Wire):
    """The object form of a judged criterion without its threshold. `exhaustive` is ours: no early
    stop."""

    judge_model_options: JudgeModelOptions = JudgeModelOptions()
    exhaustive: bool = False


class AnswerOptions(JudgedOptions):
    """Options of a criterion that judges the final answer."""

    include_intermediate_responses_in_final: bool = False


class RubricOptions(JudgedOptions):
    """Options of a criterion that judges by rubrics; `include_intermediate_responses_in_final` is
    ADK's for all."""

    rubrics: list[RubricWire] = Field(default_factory=list)
    include_intermediate_responses_in_final: bool = False


class Source(enum.StrEnum):
    """Who judges."""

    VERTEX = "vertex"  # Google Cloud's evaluation service, as in ADK
    LLM = "llm"  # the judge model, with a prompt of ours


class VertexOptions(JudgedOptions):
    """The object form without its threshold. `judge` is ours; the judge's own options count with
    `llm` alone."""

    judge: Source = Source.VERTEX
    include_intermediate_responses_in_final: bool = False


REFUSED = frozenset(
    {JudgeFailureKind.UNAUTHORIZED, JudgeFailureKind.FORBIDDEN, JudgeFailureKind.NOT_CONFIGURED}
)
"""Kinds of failure that only other credentials cure."""


@frozen_dataclass
class Inquiry:
    """Who asks, whom, with which options, and about which run of the case."""

    criterion: str
    panel: JudgePanel
    options: JudgedOptions
    deviations: Deviations = OURS
    repeat: int | str = 0

    def votes(self, sampled_requests: Mapping[int, SampledRequest]) -> dict[int, VoteResult]:
        """What the panel says of each of the ballots, which are asked at once."""
        return dict(
            zip(sampled_requests, self.panel.vote_all(list(sampled_requests.values())), strict=True)
        )


def unready_reason(evidence: TrialView) -> NotEvaluated | None:
    """Why a trial cannot be judged turn by turn without a reference; None if it can."""
    expected = evidence.expected
    actual = evidence.actual
    if expected is not None and len(expected) != len(actual):
        message = (
            f"the case has {words.counted(len(expected), 'turn')}, the agent answered {len(actual)}"
        )
        return NotEvaluated(reason=Reason.TURNS_MISSING, message=message)
    if not actual:
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message="there is no turn to judge")
    return None


def with_judge(
    options: JudgedOptions,
    use: CriterionUse,
    services: CriterionServices,
    rule: Callable[..., Grade],
    *,
    unready: Callable[[TrialView], NotEvaluated | None] = unready_reason,
) -> Criterion:
    """The criterion that grades trials that are ready for it by `rule(evidence, ask=...)`; if the
    user skips judges, one that reports so."""
    if services.judge is None:
        return lambda _: NotEvaluated(reason=Reason.SKIPPED, message="`skip-judged` is set")
    ask = Inquiry(
        criterion=use.name, panel=services.judge, options=options, deviations=services.deviations
    )
    return lambda evidence: (
        unready(evidence) or rule(evidence, ask=replace(ask, repeat=evidence.repeat))
    )


def sampled(
    ask: Inquiry,
    question: Question,
    *,
    parse: Callable[[str], Mapping[str, Vote]],
    names: Mapping[str, str] | None = None,
    num_samples: int | None = None,
) -> SampledRequest:
    """The question as a ballot on one label, or on the items of `names`, which maps them to what
    the prompt calls them; items that a reply passes over are asked for once more."""
    judge = ask.options.judge_model_options
    system, config = prompting.with_instruction(question.system, judge.judge_model_config or {})
    request = JudgeRequest(
        model=judge.judge_model,
        prompt=question.prompt,
        criterion=ask.criterion,
        version=question.version,
        system=system,
        config=config,
        schema=question.schema,
        repeat=ask.repeat,
    )
    return SampledRequest(
        request=request,
        parse=lambda reply: parse(Reply(reply.text, question)),
        items=("",) if names is None else tuple(names),
        num_samples=judge.num_samples if num_samples is None else num_samples,
        again=partial(_again, question=question, names=names or {}),
        exhaustive=ask.options.exhaustive,
        deviations=ask.deviations,
    )


def finding_of(
    result: VoteResult,
    sampled_request: SampledRequest,
    *,
    item: str = "",
    subject: str = "",
    turn: int | None,
) -> Finding:
    """What was decided on an item, why, and what each sample said."""
    verdict = result.items[item]
    return Finding(
        text=(verdict.vote.rationale if verdict.vote else "") or verdict.message,
        turn=turn,
        label=verdict.vote.label if verdict.vote else "",
        score=None if verdict.passed is None else float(verdict.passed),
        subject=subject,
        opinions=tuple(opinion_of(sample, item) for sample in result.samples),
        spared=0 if verdict.passed is None else sampled_request.num_samples - len(result.samples),
    )


def opinion_of(sample: Sample, item: str) -> Opinion:
    """What one sample said of an item."""
    if sample.failure is not None:
        return Opinion(sample=sample.index, text=sample.failure.message)
    vote = sample.votes.get(item)
    if vote is None:
        return Opinion(
            sample=sample.index,
            text="no verdict could be read from the reply",
            cached=sample.cached,
        )
    if vote.passed is None:
        text = f"none of the labels: {vote.label}"
        return Opinion(sample=sample.index, text=text, cached=sample.cached)
    return Opinion(sample=sample.index, label=vote.label, text=vote.rationale, cached=sample.cached)


def judged_turn(
    result: VoteResult,
    sampled_request: SampledRequest,
    *,
    turn: int,
    subject: str = "",
    score: float | None = None,
) -> JudgedTurn:
    """The result for a turn of a vote on one label; `score`: the value of a yes or a no, if not 1.0
    and 0.0."""
    verdict = result.items[""]
    value = None if verdict.passed is None else float(verdict.passed) if score is None else score
    return JudgedTurn(
        scores=() if value is None else (value,),
        findings=(finding_of(result, sampled_request, turn=turn, subject=subject),),
        lack=lack_of(verdict, result.samples),
    )


def lack_of(verdict: ItemVerdict, samples: Sequence[Sample]) -> NotEvaluated | None:
    """Why an item has no verdict; None if it has one."""
    if verdict.passed is not None:
        return None
    return NotEvaluated(reason=_reason(verdict.undecided, samples), message=verdict.message)


def _reason(undecided: Undecided | None, samples: Sequence[Sample]) -> Reason:
    if undecided is Undecided.UNREADABLE:
        return Reason.JUDGE_UNREADABLE
    kinds = {sample.failure.kind for sample in samples if sample.failure}
    if kinds & REFUSED:
        return Reason.CREDENTIALS_MISSING
    return (
        Reason.JUDGE_NOT_RECORDED
        if kinds == {JudgeFailureKind.NO_RECORDING}
        else Reason.JUDGE_UNAVAILABLE
    )


def _again(
    _: JudgeReply, items: tuple[str, ...], *, question: Question, names: Mapping[str, str]
) -> str:
    lacking = [names.get(item, item) for item in items]
    all_names = list(names.values()) or [""]
    return prompting.remind(
        question.prompt, missing_names=lacking, all_names=all_names, briefly=bool(question.code)
    )


@frozen_dataclass
class JudgedTurn:
    """What came of one turn: the scores of what was judged in it, or why one of them is unknown.

    Neither scores nor a lack: there was nothing to judge, and the turn is left out of the mean.
    `dropped`: why a part of it has no score beside those that count, as in ADK."""

    scores: tuple[Fraction | float, ...] = ()
    findings: tuple[Finding, ...] = ()
    lack: NotEvaluated | None = None
    dropped: NotEvaluated | None = None

    @property
    def value(self) -> float | None:
        """The mean of the turn's scores."""
        return turns.mean(self.scores) if self.scores and self.lack is None else None


def conclude(
    judged: Sequence[JudgedTurn],
    *,
    nothing: NotEvaluated,
    deviations: Deviations = OURS,
    mean: Callable[[Sequence[Any]], float] = turns.mean,
) -> Grade:
    """The mean over everything that was judged; unknown as soon as one turn is. `nothing`: why, if
    nothing was judged.

    In ADK turns without a verdict drop out of the mean; it is unknown only if all do."""
    values = tuple(turn.value for turn in judged)
    findings = tuple(finding for turn in judged for finding in turn.findings)
    scores = [score for turn in judged if turn.lack is None for score in turn.scores]
    for number, turn in enumerate(judged, start=1):
        if turn.lack is not None and (deviations.turn_unjudged or not scores):
            prefix = f"turn {number}: " if len(judged) > 1 else ""
            return NotEvaluated(
                reason=turn.lack.reason,
                message=prefix + turn.lack.message,
                turns=values,
                findings=findings,
            )
    if not scores:
        return replace(nothing, turns=values, findings=findings)
    return Score(value=mean(scores), turns=values, findings=findings, lacking=_lacking(judged))


def _lacking(by_turn: Sequence[JudgedTurn]) -> str:
    """Why the first item that the score leaves out was not judged; "" if all items were."""
    for number, turn in enumerate(by_turn, start=1):
        lack = turn.lack or turn.dropped
        if lack is not None:
            return f"turn {number}: {lack.message}" if len(by_turn) > 1 else lack.message
    return ""


def at_the_end(grade: Grade, *, turns_before: int) -> Grade:
    """The grade of a whole conversation: the last turn has its one value, earlier turns have no
    value."""
    return replace(grade, turns=(*(None,) * turns_before, *(grade.turns or (None,))))
