"""What the base did in a case that head fails: its answer and its tool calls, turn by turn."""

from __future__ import annotations

from dataclasses import dataclass

from evalgate.exhibits import cases
from evalgate.exhibits.cases import CaseExhibit
from evalgate.model import Report, ToolCall, TrialKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTurn:
    """One turn of the base."""

    calls: tuple[ToolCall, ...]
    answer: str | None


def turns(exhibit: CaseExhibit, report: Report) -> tuple[BaseTurn, ...]:
    """The turns of the base's trial with the same number as head's that is shown, else of its first; () where head
    does not fail alone, or nothing was kept."""
    comparison = report.comparison
    if comparison is None or comparison.base is None or exhibit.compared is None or exhibit.shown is None:
        return ()
    if not exhibit.compared.broken:
        return ()
    for repeat in (exhibit.shown.key.repeat, 0):
        key = TrialKey(suite=exhibit.verdict.suite, case_id=exhibit.verdict.case_id, repeat=repeat)
        transcript = comparison.base.transcripts.find(key)
        if transcript is not None:
            return tuple(
                BaseTurn(calls=turn.tool_calls, answer=cases.answer_text(turn.final_response))
                for turn in transcript.invocations
            )
    return ()
