"""Questions of google-adk itself to the user, and their answers by the setting `approve`."""

from __future__ import annotations

from typing import Any

from .pipe import Message

CONFIRMATION = "adk_request_confirmation"
INPUT = "adk_request_input"
QUESTIONS = frozenset({CONFIRMATION, INPUT, "adk_request_credential"})
"""Names of google-adk's question calls."""
MOST_ROUNDS = 20
"""Rounds of answers in one turn: an agent may ask again after each."""


def answer(call: Any, *, is_approved: bool) -> Message | None:
    """The response to a call, or None if neither yes nor no can answer it, as for a credential."""
    if call.name == CONFIRMATION:
        return {"confirmed": is_approved}
    if call.name != INPUT:
        return None
    arguments = call.args or {}
    schema = arguments.get("response_schema") or {}
    if "confirmed" in (schema.get("properties") or {}):
        return {"confirmed": is_approved}
    if schema.get("type") == "boolean":
        return {"result": is_approved}
    is_free = not schema or (schema.get("type") == "string" and not schema.get("enum"))
    return {"result": "yes" if is_approved else "no"} if is_free else None
