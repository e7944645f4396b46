"""What the base did in a case that head fails: its answer and its tool calls, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalgate import parting
from evalgate.exhibits import conversation
from evalgate.exhibits import parted as exhibits_parted
from evalgate.exhibits.cases import CaseExhibit
from evalgate.model import Invocation, Report, ToolCall, TrialKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTurn:
    """One turn of the base."""

    calls: tuple[ToolCall, ...]
    answer: str | None


def turns(exhibit: CaseExhibit, report: Report) -> tuple[BaseTurn, ...]:
    """The turns of the base's trial with the same number as head's that is shown, else of its first; () where head
    does not fail alone, or nothing was kept. Where a simulated user led both, only those that head's had as well: what
    comes after the conversations part answers something else."""
    comparison = report.comparison
    if comparison is None or comparison.base is None or exhibit.compared is None or exhibit.shown is None:
        return ()
    if not exhibit.compared.broken:
        return ()
    parted = exhibits_parted.sides(exhibit, report)
    if exhibit.case is not None and exhibit.case.scenario is not None:
        return () if parted is None else _before_parting(*parted)
    for repeat in (exhibit.shown.key.repeat, 0):
        key = TrialKey(suite=exhibit.verdict.suite, case_id=exhibit.verdict.case_id, repeat=repeat)
        transcript = comparison.base.transcripts.find(key)
        if transcript is not None:
            return tuple(_turn(turn) for turn in transcript.invocations)
    return ()


def _before_parting(base: Sequence[Invocation], head: Sequence[Invocation]) -> tuple[BaseTurn, ...]:
    found = parting.compare(base, head, hears_calls=True)
    end = len(base) if found is None or found.users is None else found.users - 1
    return tuple(_turn(turn) for turn in base[:end])


def _turn(turn: Invocation) -> BaseTurn:
    return BaseTurn(calls=turn.tool_calls, answer=conversation.answer_text(turn.final_response))
