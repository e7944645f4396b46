"""How judged turns become one grade."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from evalgate import turns
from evalgate.judged.asking import Lack
from evalgate.model import Finding, Grade, NotEvaluated, Reason, Score


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTurn:
    """What came of one turn: the scores of what was judged in it, or why one of them is unknown.

    Neither scores nor a lack: there was nothing to judge, and the turn is left out of the mean.
    """

    scores: tuple[Fraction | float, ...] = ()
    findings: tuple[Finding, ...] = ()
    lack: Lack | None = None

    @property
    def value(self) -> float | None:
        """The mean of the turn's scores."""
        return turns.mean(self.scores) if self.scores and self.lack is None else None


def conclude(judged: Sequence[JudgedTurn], *, nothing: Lack) -> Grade:
    """The mean over everything that was judged; unknown as soon as one turn is. `nothing`: why, if none was judged."""
    values = tuple(turn.value for turn in judged)
    findings = tuple(finding for turn in judged for finding in turn.findings)
    for number, turn in enumerate(judged, start=1):
        if turn.lack is not None:
            where = f"turn {number}: " if len(judged) > 1 else ""
            return NotEvaluated(
                reason=turn.lack.reason, message=where + turn.lack.message, turns=values, findings=findings
            )
    scores = [score for turn in judged for score in turn.scores]
    if not scores:
        return NotEvaluated(reason=nothing.reason, message=nothing.message, turns=values, findings=findings)
    return Score(value=turns.mean(scores), turns=values, findings=findings)


def conclude_as_adk(judged: Sequence[JudgedTurn], value: float | None, values: tuple[float | None, ...]) -> Grade:
    """`value` as ADK computed it; None becomes the reason of the first turn that lacks something."""
    findings = tuple(finding for turn in judged for finding in turn.findings)
    if value is not None:
        return Score(value=value, turns=values, findings=findings)
    unread = Lack(reason=Reason.JUDGE_UNREADABLE, message="no turn has a verdict")
    why = next((turn.lack for turn in judged if turn.lack is not None), unread)
    return NotEvaluated(reason=why.reason, message=why.message, turns=values, findings=findings)


def at_the_end(grade: Grade, *, turns_before: int) -> Grade:
    """The grade of a whole conversation: its one value stands at the last turn, the turns before have none."""
    return dataclasses.replace(grade, turns=(*(None,) * turns_before, *(grade.turns or (None,))))
