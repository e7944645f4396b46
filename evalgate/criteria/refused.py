"""refused: the share of turns in which a model refused to answer."""

from __future__ import annotations

from evalgate.model import Finding, Grade, Reason, Score, TrialView, not_evaluated, turns
from evalgate.worker.errors import REFUSALS
from .base import CriterionSpec, NoOptions


def grade(view: TrialView) -> Grade:
    """The share of turns whose answer is the error code of a refusal (SAFETY, RECITATION, ...).

    If any turn has neither recorded steps nor an answer, there is no score."""
    stops = [turn.stop for turn in view.actual]
    scores = [float(stop is not None and stop.error_code in REFUSALS) for stop in stops]
    unknown_turns = [turn.events is None and turn.final_response is None for turn in view.actual]
    if not scores or any(unknown_turns):
        return not_evaluated(Reason.NOTHING_RECORDED, "stop_unknown", bool(scores))
    findings = tuple(
        Finding(text=stop.error, turn=number, label="refused" if is_refused else "no answer")
        for number, (stop, is_refused) in enumerate(zip(stops, scores, strict=True), 1)
        if stop is not None
    )
    return Score(value=turns.mean(scores), turns=tuple(scores), findings=findings)


SPEC = CriterionSpec(
    name="refused",
    summary="share of turns that the model refused to answer",
    options=NoOptions,
    build=lambda _options, _use, _services: grade,
    either_way=True,
    is_beyond_adk=True,
)
