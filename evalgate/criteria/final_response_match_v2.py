"""final_response_match_v2: the share of turns whose answer a judge finds as good as the expected one."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from evalgate import turns
from evalgate.judged import asking, concluding
from evalgate.judged.asking import Asking, Lack
from evalgate.judged.concluding import JudgedTurn
from evalgate.judged.options import AnswerOptions
from evalgate.model import CriterionUse, Evidence, Finding, Grade, Invocation, NotEvaluated, Reason
from evalgate.plugins import Ballot, Criterion, CriterionServices, CriterionSpec, Need, Sample, Verdicts, VoteResult
from evalgate.prompts import adk_replies, final_response_match, shown

NO_REFERENCE = "the turn has no expected answer and is excluded from the mean"


def build(options: AnswerOptions, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion: ADK's own arithmetic under `adk_compat`."""
    rule = grade_as_adk if services.adk_compat else grade
    return asking.with_judge(
        services,
        lambda panel: functools.partial(
            rule,
            options=options,
            ask=Asking(criterion=use.name, panel=panel, options=options, adk_compat=services.adk_compat),
        ),
    )


def grade(evidence: Evidence, *, options: AnswerOptions, ask: Asking) -> Grade:
    """The share of valid answers among turns with a reference; unknown as soon as one verdict is.

    No answer is invalid without asking. Thoughts are no answer.
    """
    pairs = turns.pair(evidence)
    if isinstance(pairs, NotEvaluated):
        return pairs
    intermediate = options.include_intermediate_responses_in_final
    judged: dict[int, JudgedTurn] = {}
    ballots: dict[int, Ballot] = {}
    for number, (actual, expected) in enumerate(pairs, start=1):
        reference = shown.answer(expected, intermediate=intermediate)
        answer = shown.answer(actual, intermediate=intermediate)
        if not reference.strip():
            judged[number] = JudgedTurn(findings=(Finding(text=NO_REFERENCE, turn=number),))
        elif not answer.strip():
            found = Finding(text="the agent gave no answer", turn=number, label="invalid", score=0.0)
            judged[number] = JudgedTurn(scores=(0.0,), findings=(found,))
        else:
            request = shown.text_of(expected.user_content)
            question = final_response_match.render(request=request, answer=answer, reference=reference)
            ballots[number] = asking.ballot(ask, question, parse=final_response_match.parse)
    results = ask.panel.vote_all(list(ballots.values()))
    for (number, ballot), result in zip(ballots.items(), results, strict=True):
        judged[number] = _judged(result, ballot, number)
    nothing = Lack(reason=Reason.REFERENCE_MISSING, message="no turn of the case has an expected answer")
    return concluding.conclude([judged[number] for number in sorted(judged)], nothing=nothing)


def grade_as_adk(evidence: Evidence, *, options: AnswerOptions, ask: Asking) -> Grade:
    """ADK's rule: every turn is asked about, one failed sample voids its turn, turns without a verdict drop out."""
    pairs = turns.pair(evidence)
    if isinstance(pairs, NotEvaluated):
        return pairs
    ballots = [_ballot_as_adk(ask, actual, expected, options) for actual, expected in pairs]
    results = ask.panel.vote_all(ballots)
    values = tuple(_vote_as_adk(result.samples) for result in results)
    judged = [
        JudgedTurn(
            scores=() if value is None else (value,),
            findings=(asking.finding(result, ballot, turn=number),),
            lack=asking.lack_of_samples(result.samples) if value is None else None,
        )
        for number, (value, result, ballot) in enumerate(zip(values, results, ballots, strict=True), start=1)
    ]
    known = [value for value in values if value is not None]
    return concluding.conclude_as_adk(judged, turns.running_mean(known) if known else None, values)


def _judged(result: VoteResult, ballot: Ballot, number: int) -> JudgedTurn:
    verdict = result.items[""]
    return JudgedTurn(
        scores=() if verdict.passed is None else (float(verdict.passed),),
        findings=(asking.finding(result, ballot, turn=number),),
        lack=asking.lack(verdict, result.samples),
    )


def _ballot_as_adk(ask: Asking, actual: Invocation, expected: Invocation, options: AnswerOptions) -> Ballot:
    intermediate = options.include_intermediate_responses_in_final
    question = final_response_match.render(
        request=shown.text_of(expected.user_content, with_thoughts=True),
        answer=shown.answer(actual, intermediate=intermediate, with_thoughts=True),
        reference=shown.answer(expected, intermediate=intermediate, with_thoughts=True),
        as_adk=True,
    )
    return asking.ballot(ask, question, parse=final_response_match.parse)


def _vote_as_adk(samples: Sequence[Sample]) -> float | None:
    """The majority of the samples that can be parsed, a tie being a no; None: none can, or one of them failed."""
    if asking.voids_as_adk(samples):
        return None
    verdicts = [adk_replies.match_verdict(text) for text in asking.texts_as_adk(samples) if text]
    valid, invalid = verdicts.count(True), verdicts.count(False)
    return None if not valid and not invalid else float(valid > invalid)


SPEC = CriterionSpec(
    name="final_response_match_v2",
    summary="share of answers that a judge rates as good as the expected ones",
    options=AnswerOptions,
    build=build,
    needs=frozenset({Need.JUDGE, Need.REFERENCE}),
    verdicts=Verdicts(labels=final_response_match.LABELS, prompt_version=final_response_match.VERSION),
)
