"""Which rubrics a turn is judged by, and how the verdicts on them become a grade."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evalgate import turns
from evalgate.judged import asking, concluding
from evalgate.judged.asking import Asking, Lack
from evalgate.judged.concluding import JudgedTurn
from evalgate.judged.options import RubricOptions
from evalgate.model import Case, Evidence, Finding, Grade, Invocation, NotEvaluated, Reason, Rubric
from evalgate.plugins import Ballot, Sample, VoteResult
from evalgate.prompts import adk_replies
from evalgate.prompts import rubrics as prompt
from evalgate.prompts.question import Question

NO_RUBRICS = "no rubric for this turn: it is left out of the mean"


class RubricsClash(Exception):  # noqa: N818 - it says what is wrong
    """Two rubrics that differ have the same id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What the turns of one trial are judged by: a type of rubrics, and the question on them.

    `render(invocation, rubrics)` asks about one turn.
    """

    rubric_type: str
    render: Callable[[Invocation, Sequence[Rubric]], Question]
    ask: Asking
    options: RubricOptions


# --- which rubrics --------------------------------------------------------------------------------


def of_turn(rubric_type: str, own: Sequence[Rubric], evidence: Evidence, index: int) -> tuple[Rubric, ...]:
    """The criterion's rubrics, then those of the case and of the turn that are of the type, or of none.

    The same rubric given twice counts once. Raises RubricsClash.
    """
    return _together(own, _fitting(rubric_type, _written(evidence, index)))


def of_conversation(rubric_type: str, own: Sequence[Rubric], evidence: Evidence) -> tuple[Rubric, ...]:
    """The criterion's rubrics, and those of the case and of every turn, as above. Raises RubricsClash."""
    written = [rubric for index in range(len(evidence.actual)) for rubric in _written(evidence, index)]
    return _together(own, _fitting(rubric_type, written))


def of_turn_as_adk(rubric_type: str, own: Sequence[Rubric], evidence: Evidence, index: int) -> tuple[Rubric, ...]:
    """As google-adk: rubrics without a type are dropped, and an id given twice is a clash. Raises RubricsClash."""
    copied = _of_case(evidence.case, evidence, index)
    written = [*(rubric for rubric in evidence.actual[index].rubrics if rubric not in copied), *copied]
    typed = [rubric for rubric in written if rubric.type == rubric_type]
    for given in (written, [*own, *typed]):
        ids = [rubric.rubric_id for rubric in given]
        twice = next((each for each in ids if ids.count(each) > 1), None)
        if twice is not None:
            raise RubricsClash(f"the rubric id `{twice}` is given twice")
    return (*own, *typed)


def _of_case(case: Case, evidence: Evidence, index: int) -> tuple[Rubric, ...]:
    expected = evidence.expected[index].rubrics if evidence.expected else ()
    return (*case.rubrics, *expected)


def _written(evidence: Evidence, index: int) -> tuple[Rubric, ...]:
    return (*_of_case(evidence.case, evidence, index), *evidence.actual[index].rubrics)


def _fitting(rubric_type: str, rubrics: Iterable[Rubric]) -> list[Rubric]:
    return [rubric for rubric in rubrics if not rubric.type or _word(rubric.type) == rubric_type]


def _word(written: str) -> str:
    return written.strip().upper().replace("-", "_").replace(" ", "_")


def _together(own: Sequence[Rubric], others: Iterable[Rubric]) -> tuple[Rubric, ...]:
    found: dict[str, Rubric] = {}
    for rubric in (*own, *others):
        known = found.setdefault(rubric.rubric_id, rubric)
        if known.text != rubric.text:
            raise RubricsClash(f"two rubrics have the id `{rubric.rubric_id}`: give one of them another")
    return tuple(found.values())


def lack_of(clash: RubricsClash) -> NotEvaluated:
    """The grade where rubrics clash."""
    return NotEvaluated(reason=Reason.CRITERION_FAILED, message=str(clash))


# --- ours -----------------------------------------------------------------------------------------


def grade_turns(evidence: Evidence, judging: Judging) -> Grade:
    """Each turn by its own rubrics; the mean over every verdict of every turn, unknown as soon as one of them is."""
    own = [rubric.noun() for rubric in judging.options.rubrics]
    try:
        rubrics = [of_turn(judging.rubric_type, own, evidence, index) for index in range(len(evidence.actual))]
    except RubricsClash as clash:
        return lack_of(clash)
    ballots = {
        number: _ballot(judging, invocation, given)
        for number, (invocation, given) in enumerate(zip(evidence.actual, rubrics, strict=True), start=1)
        if given
    }
    results = dict(zip(ballots, judging.ask.panel.vote_all(list(ballots.values())), strict=True))
    judged = [
        judged_turn(results[number], ballots[number], given, turn=number)
        if number in results
        else JudgedTurn(findings=(Finding(text=NO_RUBRICS, turn=number),))
        for number, given in enumerate(rubrics, start=1)
    ]
    return concluding.conclude(judged, nothing=nothing_of(judging.rubric_type))


def grade_whole(
    invocation: Invocation, rubrics: Sequence[Rubric], judging: Judging, *, turns_before: int, turn: int | None = None
) -> Grade:
    """One question on a whole conversation; its value stands at the last turn."""
    if not rubrics:
        lack = nothing_of(judging.rubric_type)
        return NotEvaluated(reason=lack.reason, message=lack.message)
    ballot = _ballot(judging, invocation, rubrics)
    judged = judged_turn(judging.ask.panel.vote(ballot), ballot, rubrics, turn=turn)
    grade = concluding.conclude([judged], nothing=nothing_of(judging.rubric_type))
    return concluding.at_the_end(grade, turns_before=turns_before)


def nothing_of(rubric_type: str) -> Lack:
    """Why a trial without any rubric has no score."""
    message = f"neither the criterion nor the case has a rubric of the type {rubric_type}"
    return Lack(reason=Reason.RUBRICS_MISSING, message=message)


def judged_turn(result: VoteResult, ballot: Ballot, rubrics: Sequence[Rubric], *, turn: int | None) -> JudgedTurn:
    """The verdicts of a ballot, one finding a rubric; lacking as soon as one rubric has none."""
    verdicts = [result.items[rubric.rubric_id] for rubric in rubrics]
    lacks = [asking.lack(verdict, result.samples) for verdict in verdicts]
    return JudgedTurn(
        scores=tuple(float(verdict.passed) for verdict in verdicts if verdict.passed is not None),
        findings=tuple(
            asking.finding(result, ballot, item=rubric.rubric_id, subject=rubric.text, turn=turn) for rubric in rubrics
        ),
        lack=next((lack for lack in lacks if lack is not None), None),
    )


def _ballot(judging: Judging, invocation: Invocation, rubrics: Sequence[Rubric]) -> Ballot:
    return asking.ballot(
        judging.ask,
        judging.render(invocation, rubrics),
        parse=lambda text: prompt.parse(text, rubrics),
        names=dict(zip((rubric.rubric_id for rubric in rubrics), prompt.names(rubrics), strict=True)),
    )


# --- google-adk's ---------------------------------------------------------------------------------


def grade_turns_as_adk(evidence: Evidence, judging: Judging, indices: Sequence[int]) -> Grade:
    """ADK's rule for the turns at `indices`: each asked about by its own rubrics, every reply read by the last one's.

    A failed sample voids its turn; a rubric that no reply speaks of is absent; all that is left is pooled.
    """
    own = [rubric.noun() for rubric in judging.options.rubrics]
    try:
        rubrics = {index: of_turn_as_adk(judging.rubric_type, own, evidence, index) for index in indices}
    except RubricsClash as clash:
        return lack_of(clash)
    if not all(rubrics.values()):
        lack = nothing_of(judging.rubric_type)
        return NotEvaluated(reason=lack.reason, message=lack.message)
    ballots = [_ballot(judging, evidence.actual[index], given) for index, given in rubrics.items()]
    results = judging.ask.panel.vote_all(ballots)
    votes = [_votes_as_adk(result.samples, rubrics[indices[-1]]) for result in results]
    known = [[score for score in by_rubric.values() if score is not None] for by_rubric in votes]
    judged = [
        JudgedTurn(
            scores=tuple(scores),
            findings=_findings_as_adk(result, by_rubric, rubrics[indices[-1]], turn=index + 1),
            lack=None if scores else asking.lack_of_samples(result.samples),
        )
        for index, scores, by_rubric, result in zip(indices, known, votes, results, strict=True)
    ]
    pooled = [score for scores in known for score in scores]
    values: list[float | None] = [None] * len(evidence.actual)
    for index, scores in zip(indices, known, strict=True):
        values[index] = turns.mean(scores) if scores else None
    return concluding.conclude_as_adk(judged, turns.mean(pooled) if pooled else None, tuple(values))


def _votes_as_adk(samples: Sequence[Sample], rubrics: Sequence[Rubric]) -> Mapping[str, float | None]:
    """The majority for each rubric that a reply speaks of, a tie being a no; None where nothing said is a vote."""
    if asking.voids_as_adk(samples):
        return {}
    said: dict[str, list[float | None]] = {}
    for text in asking.texts_as_adk(samples):
        for verdict in adk_replies.rubric_verdicts(text, rubrics):
            said.setdefault(verdict.rubric_id, []).append(verdict.score)
    return {rubric_id: _majority(scores) for rubric_id, scores in said.items()}


def _majority(scores: Sequence[float | None]) -> float | None:
    positives = scores.count(1.0)
    negatives = scores.count(0.0)
    return None if not positives and not negatives else float(positives > negatives)


def _findings_as_adk(
    result: VoteResult, votes: Mapping[str, float | None], rubrics: Sequence[Rubric], *, turn: int
) -> tuple[Finding, ...]:
    texts = {rubric.rubric_id: rubric.text for rubric in rubrics}
    return tuple(
        Finding(
            text=_rationale_as_adk(result.samples, rubrics, rubric_id, score),
            turn=turn,
            label={1.0: "yes", 0.0: "no"}.get(score, "") if score is not None else "",
            score=score,
            subject=texts[rubric_id],
        )
        for rubric_id, score in votes.items()
    )


def _rationale_as_adk(samples: Sequence[Sample], rubrics: Sequence[Rubric], rubric_id: str, score: float | None) -> str:
    """The rationale of the first sample on the winning side."""
    said = (verdict for text in asking.texts_as_adk(samples) for verdict in adk_replies.rubric_verdicts(text, rubrics))
    return next((each.rationale for each in said if each.rubric_id == rubric_id and each.score == score), "")
