"""The common parts of criteria that ask a judge: options, questions, and the way from votes to a
grade."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from pydantic import Field

from evalgate.config.gate_file import GenerationConfig
from evalgate.formats.adk_shapes import RubricWire
from evalgate.judges import prompting
from evalgate.judges.base import (
    ADK_MODEL,
    ADK_SAMPLES,
    JudgePanel,
    JudgeRequest,
    Sample,
    SampledRequest,
    Vote,
    VoteResult,
)
from evalgate.judges.prompting import ONE_ITEM, Question
from evalgate.model import (
    CriterionUse,
    Finding,
    Grade,
    Invocation,
    NotEvaluated,
    Opinion,
    Reason,
    Score,
    TrialView,
    not_evaluated,
    turns,
)
from evalgate.model.deviations import OURS, Deviations
from evalgate.model.shapes import Wire
from evalgate.values import Sentence, Wording, frozen_dataclass
from .base import Criterion, CriterionServices


class JudgeModelOptions(Wire):
    """ADK's JudgeModelOptions. `parallelism_limit` is accepted and has no effect: the rate limiter
    sets the pace."""

    judge_model: str = ADK_MODEL
    judge_model_config: GenerationConfig | None = None
    num_samples: int = Field(default=ADK_SAMPLES, ge=1)
    parallelism_limit: int = Field(default=1, ge=1)


class JudgedOptions(Wire):
    """The object form of a judged criterion without its threshold. `exhaustive` (evalgate's own):
    ask all samples, without an early stop."""

    judge_model_options: JudgeModelOptions = JudgeModelOptions()
    exhaustive: bool = False


class AnswerOptions(JudgedOptions):
    """Options of a criterion that judges answers."""

    include_intermediate_responses_in_final: bool = False


class RubricOptions(AnswerOptions):
    """Options of a criterion that judges by rubrics. `include_intermediate_responses_in_final` is
    an option of all ADK's judged criteria."""

    rubrics: list[RubricWire] = Field(default_factory=list)


class Source(enum.StrEnum):
    """The judge of a criterion."""

    VERTEX = "vertex"  # Google Cloud's evaluation service, as in ADK
    LLM = "llm"  # the judge model, with evalgate's prompt


class VertexOptions(AnswerOptions):
    """The object form without its threshold. `judge` is evalgate's own; the judge's options have an
    effect only with `llm`."""

    judge: Source = Source.VERTEX


@frozen_dataclass
class Inquiry:
    """The context of a question: the criterion, the panel, the options, and the repeat of the
    case."""

    criterion: str
    panel: JudgePanel
    options: JudgedOptions
    deviations: Deviations = OURS
    repeat: int | str = 0

    def judged(
        self,
        plans: Sequence[Question | JudgedTurn],
        *,
        turns: Sequence[int] = (),
        subjects: Sequence[Mapping[str, Wording]] = (),
        num_samples: int | None = None,
        mean: Callable[[list[float]], float] | None = None,
    ) -> list[JudgedTurn]:
        """The results of the plans, whose questions are asked together: a plan is a question, or
        its result. `turns`: the turn of each plan, by default its number; `subjects`: those of its
        items. `mean`: as in `judged_turn`; it needs all samples."""
        requests = [
            sampled(self, plan, num_samples=num_samples, exhaustive=mean is not None)
            for plan in plans
            if isinstance(plan, Question)
        ]
        results = iter(self.panel.vote_all(requests))
        return [
            judged_turn(next(results), turn=turn, subjects=plan_subjects, mean=mean)
            if isinstance(plan, Question)
            else plan
            for plan, turn, plan_subjects in zip(
                plans,
                turns or range(1, len(plans) + 1),
                subjects or [ONE_ITEM] * len(plans),
                strict=True,
            )
        ]


def unready_reason(view: TrialView) -> NotEvaluated | None:
    """Why a trial cannot be judged turn by turn; None if it can."""
    expected = view.expected
    actual = view.actual
    if expected is not None and len(expected) != len(actual):
        return not_evaluated(Reason.TURNS_MISSING, "turns_missing", len(expected), len(actual))
    if not actual:
        return not_evaluated(Reason.NOTHING_RECORDED, "no_turn_to_judge")
    return None


def with_judge(
    options: JudgedOptions,
    use: CriterionUse,
    services: CriterionServices,
    rule: Callable[..., Grade],
    *,
    unready: Callable[[TrialView], NotEvaluated | None] = unready_reason,
) -> Criterion:
    """The criterion that grades by `rule(view, ask=...)` the trials for which `unready` returns
    None. If the user skips judges, every grade is NotEvaluated(SKIPPED)."""
    if services.judge is None:
        return lambda _: not_evaluated(Reason.SKIPPED, "judged_skipped")
    judge = services.judge

    def grade(view: TrialView) -> Grade:
        ask = Inquiry(
            criterion=use.name,
            panel=judge,
            options=options,
            deviations=services.deviations,
            repeat=view.repeat,
        )
        return unready(view) or rule(view, ask=ask)

    return grade


def sampled(
    ask: Inquiry,
    question: Question,
    *,
    parse: Callable[[str], Mapping[str, Vote]] | None = None,
    num_samples: int | None = None,
    exhaustive: bool = False,
) -> SampledRequest:
    """A sampled request for the question. `parse`: the votes in a reply; None: by the form of the
    question. Items that a reply omits are asked again. `exhaustive`: the criterion needs all
    samples."""
    names = question.form.names
    read = parse or partial(prompting.read_votes, question)
    judge = ask.options.judge_model_options
    request = partial(
        question.request,
        judge.judge_model,
        judge.judge_model_config,
        criterion=ask.criterion,
        repeat=ask.repeat,
    )

    def again(sample: int, items: tuple[str, ...]) -> JudgeRequest:
        missing_names = [names[item] for item in items] if len(items) < len(names) else ()
        return request(sample=sample, prompt=prompting.remind(question, missing_names))

    count = judge.num_samples if num_samples is None else num_samples
    return SampledRequest(
        requests=tuple(request(sample=sample) for sample in range(count)),
        parse=lambda reply: read(reply.text),
        items=tuple(names),
        again=again,
        exhaustive=exhaustive or ask.options.exhaustive,
        deviations=ask.deviations,
    )


def finding_of(
    result: VoteResult, *, item: str = "", subject: Wording, turn: int | None
) -> Finding:
    """The verdict on an item, its reason, and the opinion of each sample."""
    verdict = result.items[item]
    vote = verdict if isinstance(verdict, Vote) else Vote(passed=None)
    lack = lack_of(result, item)
    return Finding(
        text=vote.rationale if lack is None else lack.message,
        turn=turn,
        label=vote.label,
        score=None if vote.passed is None else float(vote.passed),
        subject=subject,
        opinions=tuple(_opinion(sample, item) for sample in result.samples),
        spared=0 if vote.passed is None else len(result.request.requests) - len(result.samples),
    )


def _opinion(sample: Sample, item: str) -> Opinion:
    vote = sample.votes.get(item)
    label = ""
    text: Wording
    if sample.failure is not None:
        text = sample.failure.message
    elif vote is None:
        text = Sentence("reply_unreadable")
    elif vote.passed is None:
        text = Sentence("label_unknown", vote.label)
    else:
        label = vote.label
        text = vote.rationale
    return Opinion(sample=sample.index, label=label, text=text, cached=sample.cached)


def judged_turn(
    result: VoteResult,
    *,
    turn: int | None,
    subjects: Mapping[str, Wording] = ONE_ITEM,
    mean: Callable[[list[float]], float] | None = None,
) -> JudgedTurn:
    """The result for a turn from a vote on items with subjects: a score and a finding for each. The
    turn has a lack if any item has no verdict (in ADK: if all have none). `mean`: for one label,
    the score from the numbers that the samples gave, in place of 1.0 for yes and 0.0 for no."""
    verdicts = [result.items[item] for item in subjects]
    lack = next((verdict for verdict in verdicts if isinstance(verdict, NotEvaluated)), None)
    scores = tuple(
        float(vote.passed)
        for vote in verdicts
        if isinstance(vote, Vote) and vote.passed is not None
    )
    if scores and mean is not None:
        votes = (sample.votes.get("") for sample in result.samples)
        scores = (mean([float(vote.label) for vote in votes if vote and vote.passed]),)
    is_partial = bool(scores) and not result.request.deviations.turn_unjudged
    return JudgedTurn(
        scores=scores,
        findings=tuple(
            finding_of(result, item=item, subject=subject, turn=turn)
            for item, subject in subjects.items()
        ),
        lack=None if is_partial else lack,
        dropped=lack if is_partial else None,
    )


def without_score(reason: str, turn: int) -> JudgedTurn:
    """The result for a turn that does not count; `reason`: the name of a sentence."""
    return JudgedTurn(findings=(Finding(text=Sentence(reason), turn=turn),))


def lack_of(result: VoteResult, item: str = "") -> NotEvaluated | None:
    """Why an item has no verdict; None if it has one."""
    verdict = result.items[item]
    return verdict if isinstance(verdict, NotEvaluated) else None


@frozen_dataclass
class JudgedTurn:
    """The result for one turn: its scores, or why one of them is unknown.

    Without scores and lack, there was nothing to judge, and the turn is left out of the mean."""

    scores: tuple[Fraction | float, ...] = ()
    findings: tuple[Finding, ...] = ()
    lack: NotEvaluated | None = None
    """Why a score is unknown."""
    dropped: NotEvaluated | None = None
    """Why a part of it has no score although others count, as in ADK."""

    @property
    def value(self) -> float | None:
        """The mean of the turn's scores."""
        return turns.mean(self.scores) if self.scores and self.lack is None else None


def conclude(
    judged_turns: Sequence[JudgedTurn],
    *,
    nothing: NotEvaluated,
    deviations: Deviations = OURS,
    mean: Callable[[Sequence[Any]], float] = turns.mean,
    earlier_turns: int = 0,
) -> Grade:
    """The mean over all judged scores; unknown if any turn is unknown. `nothing`: the grade if
    nothing was judged. `earlier_turns`: how many turns without a value come first.

    In ADK turns without a verdict are left out of the mean, which is unknown only if all are."""
    values = ((None,) * earlier_turns) + tuple(turn.value for turn in judged_turns)
    findings = tuple(finding for turn in judged_turns for finding in turn.findings)
    scores = [score for turn in judged_turns if turn.lack is None for score in turn.scores]
    lacking: Wording = ""
    for number, turn in enumerate(judged_turns, start=1):
        lack = turn.lack or turn.dropped
        if lack is None:
            continue
        is_alone = len(judged_turns) == 1
        message = lack.message if is_alone else Sentence("turn", number, 0, lack.message)
        if turn.lack is not None and (deviations.turn_unjudged or not scores):
            return NotEvaluated(
                reason=lack.reason, message=message, turns=values, findings=findings
            )
        lacking = lacking or message
    if not scores:
        return NotEvaluated(
            reason=nothing.reason, message=nothing.message, turns=values, findings=findings
        )
    return Score(value=mean(scores), turns=values, findings=findings, lacking=lacking)


def conclude_conversation(
    judged_turn: JudgedTurn,
    actual: Sequence[Invocation],
    *,
    nothing: NotEvaluated,
    deviations: Deviations = OURS,
) -> Grade:
    """The grade of a whole conversation from one result: the last turn has its value, earlier turns
    have none."""
    return conclude(
        [judged_turn], nothing=nothing, deviations=deviations, earlier_turns=len(actual) - 1
    )
