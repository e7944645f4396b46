"""From a question to a ballot, and from a verdict to a finding with the samples behind it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evalgate.judged.options import JudgedOptions
from evalgate.model import Evidence, Finding, Grade, NotEvaluated, Opinion, Reason
from evalgate.plugins import (
    Ballot,
    Criterion,
    CriterionServices,
    ItemVerdict,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    Panel,
    Sample,
    Undecided,
    Vote,
    VoteResult,
)
from evalgate.prompts import question as questions
from evalgate.prompts.question import Question
from evalgate.text import words

REFUSED = frozenset({JudgeFailureKind.UNAUTHORIZED, JudgeFailureKind.FORBIDDEN, JudgeFailureKind.NOT_CONFIGURED})
"""Kinds of failure that only other credentials cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who asks, whom, and with which options."""

    criterion: str
    panel: Panel
    options: JudgedOptions
    adk_compat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Why something has no verdict."""

    reason: Reason
    message: str


def with_judge(services: CriterionServices, make: Callable[[Panel], Criterion]) -> Criterion:
    """The criterion that asks `services.judge`; where the user wants none to be asked, one that says so."""
    return _skipped if services.judge is None else make(services.judge)


def unready(evidence: Evidence) -> NotEvaluated | None:
    """Why a trial cannot be judged turn by turn without a reference; None where it can."""
    expected, actual = evidence.expected, evidence.actual
    if expected is not None and len(expected) != len(actual):
        message = f"the case has {words.counted(len(expected), 'turn')}, the agent gave {len(actual)}"
        return NotEvaluated(reason=Reason.TURNS_MISSING, message=message)
    if not actual:
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message="there is no turn to judge")
    return None


def ballot(
    asking: Asking,
    question: Question,
    *,
    parse: Callable[[str], Mapping[str, Vote]],
    names: Mapping[str, str] | None = None,
    num_samples: int | None = None,
) -> Ballot:
    """The question as a ballot on one label, or on the items of `names`, which maps them to what the prompt calls
    them; items that a reply passes over are asked for once more."""
    judge = asking.options.judge_model_options
    request = JudgeRequest(
        model=judge.judge_model,
        prompt=question.prompt,
        criterion=asking.criterion,
        version=question.version,
        system=question.system,
        config=judge.judge_model_config or {},
        schema=question.schema,
    )
    return Ballot(
        request=request,
        parse=lambda reply: parse(reply.text),
        items=("",) if names is None else tuple(names),
        num_samples=judge.num_samples if num_samples is None else num_samples,
        again=None if names is None else functools.partial(_again, prompt=question.prompt, names=names),
        exhaustive=asking.options.exhaustive,
        adk_compat=asking.adk_compat,
    )


def finding(result: VoteResult, ballot: Ballot, *, item: str = "", subject: str = "", turn: int | None) -> Finding:
    """What was decided on an item, why, and what each sample said."""
    verdict = result.items[item]
    return Finding(
        text=(verdict.vote.rationale if verdict.vote else "") or verdict.message,
        turn=turn,
        label=verdict.vote.label if verdict.vote else "",
        score=None if verdict.passed is None else float(verdict.passed),
        subject=subject,
        opinions=tuple(opinion(sample, item) for sample in result.samples),
        spared=0 if verdict.passed is None else ballot.num_samples - len(result.samples),
    )


def opinion(sample: Sample, item: str) -> Opinion:
    """What one sample said of an item."""
    if sample.failure is not None:
        return Opinion(sample=sample.index, text=sample.failure.message)
    vote = sample.votes.get(item)
    if vote is None:
        return Opinion(sample=sample.index, text="says nothing that could be read", cached=sample.cached)
    if vote.passed is None:
        text = f"none of the labels: {vote.label}"
        return Opinion(sample=sample.index, text=text, cached=sample.cached)
    return Opinion(sample=sample.index, label=vote.label, text=vote.rationale, cached=sample.cached)


def lack(verdict: ItemVerdict, samples: Sequence[Sample]) -> Lack | None:
    """Why an item has no verdict; None where it has one."""
    if verdict.passed is not None:
        return None
    return Lack(reason=_reason(verdict.undecided, samples), message=verdict.message)


def lack_of_samples(samples: Sequence[Sample]) -> Lack:
    """Why samples that decided nothing did not."""
    failures = [sample.failure for sample in samples if sample.failure]
    if failures:
        reason = _reason(Undecided.UNAVAILABLE, samples)
        message = f"{len(failures)} of {words.counted(len(samples), 'sample')} of the judge failed: "
        return Lack(reason=reason, message=message + failures[0].message)
    message = f"none of {words.counted(len(samples), 'sample')} of the judge could be read"
    return Lack(reason=Reason.JUDGE_UNREADABLE, message=message)


def _reason(undecided: Undecided | None, samples: Sequence[Sample]) -> Reason:
    if undecided is Undecided.UNREADABLE:
        return Reason.JUDGE_UNREADABLE
    refused = any(sample.failure and sample.failure.kind in REFUSED for sample in samples)
    return Reason.CREDENTIALS_MISSING if refused else Reason.JUDGE_UNAVAILABLE


def _again(_: JudgeReply, items: tuple[str, ...], *, prompt: str, names: Mapping[str, str]) -> str:
    lacking = [names[item] for item in items]
    return questions.remind(prompt, lacking=lacking, all_names=list(names.values()))


def _skipped(evidence: Evidence) -> Grade:  # noqa: ARG001 - the shape of a criterion
    return NotEvaluated(reason=Reason.SKIPPED, message="judged criteria were left out of this run")


# --- under adk_compat -----------------------------------------------------------------------------

_NO_EXCEPTION_IN_ADK: Final = frozenset({JudgeFailureKind.EMPTY, JudgeFailureKind.BLOCKED, JudgeFailureKind.TRUNCATED})


def voids_as_adk(samples: Sequence[Sample]) -> bool:
    """Whether ADK would drop the whole turn: one of its samples raised. A reply that is empty, cut or stopped is no
    exception there."""
    return any(sample.failure and sample.failure.kind not in _NO_EXCEPTION_IN_ADK for sample in samples)


def texts_as_adk(samples: Sequence[Sample]) -> list[str]:
    """What ADK would read of each sample, half a reply and one of thoughts alone too; "" where it has no text."""
    replies = [sample.reply or (sample.failure.reply if sample.failure else None) for sample in samples]
    return [reply.adk_text if reply is not None else "" for reply in replies]
