"""What an agent did, as one short text: equal for equal answers and equal tool calls, turn by turn."""

from __future__ import annotations

from evalgate import turns
from evalgate.model import Outcome, Transcript
from evalgate.pipeline import fingerprints


def of_outcome(outcome: Outcome) -> str:
    """16 hex digits; "" for an agent that failed. Ids, timings and token counts do not count."""
    if not isinstance(outcome, Transcript):
        return ""
    done = [
        [turns.answer(turn), [[call.name, dict(call.args or {})] for call in turn.tool_calls]]
        for turn in outcome.invocations
    ]
    return fingerprints.digest([done, outcome.final_state])
