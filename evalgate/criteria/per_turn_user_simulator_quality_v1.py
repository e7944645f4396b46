"""per_turn_user_simulator_quality_v1: the share of turns in which the simulated user kept to its scenario."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from evalgate.judged import asking, concluding
from evalgate.judged.asking import Asking, Lack
from evalgate.judged.concluding import JudgedTurn
from evalgate.judged.options import JudgedOptions
from evalgate.model import (
    Content,
    ConversationScenario,
    CriterionUse,
    Ending,
    Evidence,
    Finding,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    Text,
)
from evalgate.plugins import Ballot, Criterion, CriterionServices, CriterionSpec, Need, Sample, Verdicts, VoteResult
from evalgate.prompts import adk_replies, shown, simulator_quality

NO_SCENARIO = NotEvaluated(
    reason=Reason.NOT_APPLICABLE, message="the case has no conversation scenario, so no user was simulated"
)


class SimulatorQualityOptions(JudgedOptions):
    """ADK's LlmBackedUserSimulatorCriterion. Without a `stop_signal` it is the simulated user's own."""

    stop_signal: str = "</finished>"


def build(options: SimulatorQualityOptions, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion: ADK's own arithmetic under `adk_compat`, where the threshold counts for each turn, too."""
    threshold = 1.0 if use.threshold is None else use.threshold
    rule = functools.partial(grade_as_adk, threshold=threshold) if services.adk_compat else grade
    return asking.with_judge(
        services,
        lambda panel: functools.partial(
            rule,
            options=options,
            ask=Asking(criterion=use.name, panel=panel, options=options, adk_compat=services.adk_compat),
        ),
    )


def grade(evidence: Evidence, *, options: SimulatorQualityOptions, ask: Asking) -> Grade:
    """The share of valid messages: the first by comparison, the others by votes; an end that was wrong takes the last
    one down. Unknown as soon as one verdict is. A conversation that was cut has no end to judge.
    """
    scenario = evidence.case.scenario
    if scenario is None:
        return NO_SCENARIO
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    ballots = _ballots(evidence, scenario, options, ask)
    results = ask.panel.vote_all(ballots)
    numbers = range(2, len(evidence.actual) + 1)
    judged = [_first(evidence.actual[0], scenario)]
    judged += [
        _judged(result, ballot, number) for number, ballot, result in zip(numbers, ballots, results, strict=False)
    ]
    if len(ballots) == len(evidence.actual):
        judged[-1] = _with_end(judged[-1], _judged(results[-1], ballots[-1], len(evidence.actual), subject="the end"))
    nothing = Lack(reason=Reason.NOTHING_RECORDED, message="there is no turn to judge")
    return concluding.conclude(judged, nothing=nothing)


def grade_as_adk(evidence: Evidence, *, options: SimulatorQualityOptions, ask: Asking, threshold: float) -> Grade:
    """ADK's rule: a turn counts where its score reaches the threshold, one without a verdict counts as 0, one sample
    that raises voids everything."""
    scenario = evidence.case.scenario
    if scenario is None:
        return NO_SCENARIO
    if not evidence.actual:
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message="there is no turn to judge")
    ballots = _ballots(evidence, scenario, options, ask)
    results = ask.panel.vote_all(ballots)
    voided = next((result for result in results if asking.voids_as_adk(result.samples)), None)
    if voided is not None:
        why = asking.lack_of_samples(voided.samples)
        return NotEvaluated(reason=why.reason, message=why.message)
    said = _text_as_adk(evidence.actual[0].user_content)
    first = None if said is None else float(said.strip() == scenario.starting_prompt.strip())
    values = [first, *(_vote_as_adk(result.samples) for result in results)]
    end = values.pop()
    if end is not None and end < threshold:
        values[-1] = end
    total = 0.0
    for value in values:
        total += value if value is not None and value >= threshold else 0.0
    findings = tuple(
        asking.finding(result, ballot, turn=min(number, len(values)), subject="the end" if number > len(values) else "")
        for number, (ballot, result) in enumerate(zip(ballots, results, strict=True), start=2)
    )
    return Score(value=total / len(values), turns=tuple(values), findings=findings)


def _ballots(
    evidence: Evidence, scenario: ConversationScenario, options: SimulatorQualityOptions, ask: Asking
) -> list[Ballot]:
    """One on each message from the second on, then one on ending the conversation where it ended."""
    as_adk = ask.adk_compat
    said = [shown.text_of(turn.user_content, with_thoughts=as_adk) for turn in evidence.actual[1:]]
    if as_adk or evidence.ended_by is not Ending.TURN_LIMIT:
        said.append(options.stop_signal)
    return [
        asking.ballot(
            ask,
            simulator_quality.render(
                plan=scenario.conversation_plan,
                before=simulator_quality.history(evidence.actual[:number], with_thoughts=as_adk),
                message=message,
                stop_signal=options.stop_signal,
                persona=scenario.persona,
                as_adk=as_adk,
            ),
            parse=simulator_quality.parse,
        )
        for number, message in enumerate(said, start=1)
    ]


def _first(turn: Invocation, scenario: ConversationScenario) -> JudgedTurn:
    is_right = shown.text_of(turn.user_content).strip() == scenario.starting_prompt.strip()
    text = "it is the starting prompt" if is_right else "it is not the starting prompt"
    label = "valid" if is_right else "invalid"
    found = Finding(text=text, turn=1, label=label, score=float(is_right))
    return JudgedTurn(scores=(float(is_right),), findings=(found,))


def _judged(result: VoteResult, ballot: Ballot, number: int, *, subject: str = "") -> JudgedTurn:
    verdict = result.items[""]
    return JudgedTurn(
        scores=() if verdict.passed is None else (float(verdict.passed),),
        findings=(asking.finding(result, ballot, turn=number, subject=subject),),
        lack=asking.lack(verdict, result.samples),
    )


def _with_end(last: JudgedTurn, end: JudgedTurn) -> JudgedTurn:
    """The last turn with the verdict on the end: valid where both are."""
    scores = (min(*last.scores, *end.scores),) if last.scores and end.scores else ()
    return JudgedTurn(scores=scores, findings=(*last.findings, *end.findings), lack=last.lack or end.lack)


def _text_as_adk(content: Content) -> str | None:
    texts = [part.text for part in content.parts if isinstance(part, Text) and part.text]
    return "\n".join(texts) if content.parts else None


def _vote_as_adk(samples: Sequence[Sample]) -> float | None:
    verdicts = [adk_replies.simulator_verdict(text) for text in asking.texts_as_adk(samples) if text]
    valid, invalid = verdicts.count(True), verdicts.count(False)
    return None if not valid and not invalid else float(valid > invalid)


SPEC = CriterionSpec(
    name="per_turn_user_simulator_quality_v1",
    summary="share of turns in which the simulated user followed its scenario, as rated by a judge",
    options=SimulatorQualityOptions,
    build=build,
    needs=frozenset({Need.JUDGE, Need.SCENARIO}),
    verdicts=Verdicts(labels=simulator_quality.LABELS, prompt_version=simulator_quality.VERSION),
)
