"""response_match_score: how many words the answer shares with the expected one (ROUGE-1 F)."""

from __future__ import annotations

import functools
from collections import Counter
from fractions import Fraction

from evalgate import turns, unigrams
from evalgate.criteria.base import Criterion, CriterionServices, CriterionSpec, Need
from evalgate.model import CriterionUse, Evidence, Finding, Grade, NotEvaluated, Reason, Score
from evalgate.wire.shapes import Wire


class Options(Wire):
    """It has no options but its threshold."""


def build(_options: Options, _use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion: ADK's own arithmetic under `adk_compat`, else the exact one."""
    return functools.partial(grade_as_adk if services.adk_compat else grade)


def grade(evidence: Evidence) -> Grade:
    """The mean of the turns' F scores, computed exactly and rounded once; thoughts are no answer.

    A turn whose reference has no words asserts nothing that could be counted: it has no score and is left out of
    the mean. An answer without words scores 0.0.
    """
    pairs = turns.pair(evidence)
    if isinstance(pairs, NotEvaluated):
        return pairs
    scores = [f_score(turns.answer(actual), turns.answer(expected)) for actual, expected in pairs]
    known = [score for score in scores if score is not None]
    values = tuple(None if score is None else float(score) for score in scores)
    if not known:
        message = "no turn of the case has an expected answer"
        return NotEvaluated(reason=Reason.REFERENCE_MISSING, message=message, turns=values)
    findings = tuple(
        Finding(text="the turn has no expected answer and is excluded from the mean", turn=number)
        for number, score in enumerate(scores, start=1)
        if score is None
    )
    return Score(value=turns.mean(known), turns=values, findings=findings)


def grade_as_adk(evidence: Evidence) -> Grade:
    """ADK's rule: thoughts count as answer, a missing reference scores 0.0, floats are added as they come."""
    pairs = turns.pair(evidence)
    if isinstance(pairs, NotEvaluated):
        return pairs
    values = tuple(
        f_score_as_adk(turns.answer(actual, with_thoughts=True), turns.answer(expected, with_thoughts=True))
        for actual, expected in pairs
    )
    return Score(value=turns.running_mean(values), turns=values)


def f_score(answer: str, reference: str) -> Fraction | None:
    """ROUGE-1 F: twice the shared words over all words of both (Lin 2004). None where the reference has no words."""
    shared, said, wanted = _counts(answer, reference)
    return Fraction(2 * shared, said + wanted) if wanted else None


def f_score_as_adk(answer: str, reference: str) -> float:
    """The same in floats, by way of precision and recall, as rouge-score 0.1.2 computes it; 0.0 where nothing is."""
    shared, said, wanted = _counts(answer, reference)
    precision = shared / max(said, 1)
    recall = shared / max(wanted, 1)
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def _counts(answer: str, reference: str) -> tuple[int, int, int]:
    """How many words are shared (each as often as on the side that has fewer), said, and wanted."""
    if answer == reference:  # as most are, where nothing is wrong
        words = unigrams.count(reference)
        return words, words, words
    said, wanted = Counter(unigrams.split(answer)), Counter(unigrams.split(reference))
    return (said & wanted).total(), said.total(), wanted.total()


SPEC = CriterionSpec(
    name="response_match_score",
    summary="word overlap with the expected answer (ROUGE-1 F)",
    options=Options,
    build=build,
    needs=frozenset({Need.REFERENCE}),
)
