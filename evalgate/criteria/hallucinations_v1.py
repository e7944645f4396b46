"""hallucinations_v1: the share of sentences that the agent's context bears out, or that need no bearing out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from evalgate import turns
from evalgate.judged import asking, concluding, texts
from evalgate.judged.asking import Asking, Lack
from evalgate.judged.concluding import JudgedTurn
from evalgate.judged.options import JudgedOptions
from evalgate.judged.texts import Checked
from evalgate.model import CriterionUse, Evidence, Finding, Grade, Reason
from evalgate.plugins import (
    Ballot,
    Criterion,
    CriterionServices,
    CriterionSpec,
    Need,
    Panel,
    Verdicts,
    Vote,
    VoteResult,
)
from evalgate.prompts import adk_replies, hallucinations

NO_TEXT = "the agent said nothing to check; the turn is excluded from the mean"


class Options(JudgedOptions):
    """The object form without its threshold; `include_intermediate_responses_in_final` is ADK's for all, unused."""

    evaluate_intermediate_nl_responses: bool = False
    include_intermediate_responses_in_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedText:
    """What came of one text: the share of its sentences that are borne out, or why it is unknown."""

    turn: int
    score: Fraction | float | None
    findings: tuple[Finding, ...] = ()
    lack: Lack | None = None


def build(options: Options, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion: ADK's own arithmetic under `adk_compat`."""

    def make(panel: Panel) -> Criterion:
        ask = Asking(criterion=use.name, panel=panel, options=options, adk_compat=services.adk_compat)
        return functools.partial(grade_as_adk if services.adk_compat else grade, options=options, ask=ask)

    return asking.with_judge(services, make)


def grade(evidence: Evidence, *, options: Options, ask: Asking) -> Grade:
    """The mean over turns of the mean over a turn's texts of the share of sentences; unknown as soon as one is.

    A text is taken apart once; every sentence is voted on by `num_samples` samples.
    """
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    checked = _checked(evidence, options, as_adk=False)
    segmented = [_sentences(result, each.text) for result, each in zip(_segment(checked, ask), checked, strict=True)]
    ballots = {
        place: _validation(each, sentences, ask)
        for place, (each, sentences) in enumerate(zip(checked, segmented, strict=True))
        if not isinstance(sentences, Lack) and sentences
    }
    results = dict(zip(ballots, ask.panel.vote_all(list(ballots.values())), strict=True))
    judged = [
        _judged(each, sentences, ballots.get(place), results.get(place))
        for place, (each, sentences) in enumerate(zip(checked, segmented, strict=True))
    ]
    by_turn = [_together(judged, number) for number in range(1, len(evidence.actual) + 1)]
    nothing = Lack(reason=Reason.NOTHING_RECORDED, message="the agent said nothing to check")
    return concluding.conclude(by_turn, nothing=nothing)


def _checked(evidence: Evidence, options: Options, *, as_adk: bool) -> list[Checked]:
    return [
        checked
        for number, invocation in enumerate(evidence.actual, start=1)
        for checked in texts.of_turn(
            invocation, number, intermediate=options.evaluate_intermediate_nl_responses, as_adk=as_adk
        )
        if as_adk or checked.text.strip()
    ]


# --- which sentences ------------------------------------------------------------------------------


def _segment(checked: Sequence[Checked], ask: Asking) -> tuple[VoteResult, ...]:
    return ask.panel.vote_all(
        [
            asking.ballot(
                ask,
                hallucinations.render_segmentation(each.text),
                parse=functools.partial(_any_sentence, text=each.text),
                names={"": "the text"},
                num_samples=1,
            )
            for each in checked
        ]
    )


def _any_sentence(reply: str, *, text: str) -> dict[str, Vote]:
    found = hallucinations.parse_segmentation(reply, text)
    return {"": Vote(passed=True)} if found or not hallucinations.has_words(text) else {}


def _sentences(result: VoteResult, text: str) -> tuple[str, ...] | Lack:
    verdict = result.items[""]
    if verdict.passed is None:
        return asking.lack(verdict, result.samples) or asking.lack_of_samples(result.samples)
    return hallucinations.parse_segmentation(result.samples[0].text, text)


# --- what each rests on ---------------------------------------------------------------------------


def _validation(checked: Checked, sentences: Sequence[str], ask: Asking, num_samples: int | None = None) -> Ballot:
    names = hallucinations.names(sentences)
    return asking.ballot(
        ask,
        hallucinations.render_validation(checked.context, sentences, as_adk=ask.adk_compat),
        parse=lambda text: hallucinations.parse_validation(text, sentences),
        names=dict(zip(names, names, strict=True)),
        num_samples=num_samples,
    )


def _judged(
    checked: Checked, sentences: tuple[str, ...] | Lack, ballot: Ballot | None, result: VoteResult | None
) -> JudgedText:
    if isinstance(sentences, Lack):
        return JudgedText(turn=checked.turn, score=None, lack=sentences)
    if ballot is None or result is None:
        return JudgedText(turn=checked.turn, score=None)
    pairs = list(zip(hallucinations.names(sentences), sentences, strict=True))
    findings = tuple(
        asking.finding(result, ballot, item=name, subject=sentence, turn=checked.turn) for name, sentence in pairs
    )
    lacks = [asking.lack(result.items[name], result.samples) for name, _ in pairs]
    lack = next((each for each in lacks if each is not None), None)
    passed = sum(1 for name, _ in pairs if result.items[name].passed)
    score = None if lack else Fraction(passed, len(pairs))
    return JudgedText(turn=checked.turn, score=score, findings=findings, lack=lack)


def _together(judged: Sequence[JudgedText], number: int) -> JudgedTurn:
    own = [each for each in judged if each.turn == number]
    scores = [Fraction(each.score) for each in own if each.score is not None]
    lack = next((each.lack for each in own if each.lack is not None), None)
    findings = tuple(finding for each in own for finding in each.findings)
    if not scores and lack is None:
        findings = (*findings, Finding(text=NO_TEXT, turn=number))
    mean = (sum(scores, start=Fraction()) / len(scores),) if scores else ()
    return JudgedTurn(scores=mean, findings=findings, lack=lack)


# --- google-adk's ---------------------------------------------------------------------------------


def grade_as_adk(evidence: Evidence, *, options: Options, ask: Asking) -> Grade:
    """ADK's rule: one sample, `num_samples` or not; sentences without a known label, texts without any and turns
    without any are left out; what goes wrong is left out as well."""
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    checked = _checked(evidence, options, as_adk=True)
    segmented = [
        adk_replies.sentences(text) for result in _segment(checked, ask) for text in asking.texts_as_adk(result.samples)
    ]
    ballots = {
        place: _validation(each, sentences, ask, num_samples=1)
        for place, (each, sentences) in enumerate(zip(checked, segmented, strict=True))
        if sentences
    }
    results = dict(zip(ballots, ask.panel.vote_all(list(ballots.values())), strict=True))
    judged = [_judged_as_adk(each, results.get(place)) for place, each in enumerate(checked)]
    by_turn = [
        [float(each.score) for each in judged if each.turn == number and each.score is not None]
        for number in range(1, len(evidence.actual) + 1)
    ]
    values = tuple(turns.mean(scores) if scores else None for scores in by_turn)
    known = [value for value in values if value is not None]
    found = [JudgedTurn(findings=each.findings, lack=each.lack) for each in judged]
    return concluding.conclude_as_adk(found, turns.mean(known) if known else None, values)


def _judged_as_adk(checked: Checked, result: VoteResult | None) -> JudgedText:
    samples = result.samples if result else ()
    said = [each for text in asking.texts_as_adk(samples) for each in adk_replies.sentence_verdicts(text)]
    findings = tuple(
        Finding(text=each.rationale, turn=checked.turn, label=each.label, score=each.score, subject=each.sentence)
        for each in said
    )
    score = adk_replies.accuracy(said)
    lack = None if score is not None or result is None else asking.lack_of_samples(samples)
    return JudgedText(turn=checked.turn, score=score, findings=findings, lack=lack)


SPEC = CriterionSpec(
    name="hallucinations_v1",
    summary="share of sentences supported by the agent's context, as rated by a judge",
    options=Options,
    build=build,
    needs=frozenset({Need.JUDGE}),
    verdicts=Verdicts(labels=hallucinations.LABELS, prompt_version=hallucinations.VERSION, unit="sentence"),
)
