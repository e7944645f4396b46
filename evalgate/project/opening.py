"""How a conversation opens: what people know a case by."""

from __future__ import annotations

from evalgate.model import Case, Text


def opening_text(case: Case) -> str:
    """The first thing that the user says; empty where that is nothing or no text."""
    if case.scenario is not None:
        return case.scenario.starting_prompt
    if not case.conversation:
        return ""
    return "\n".join(part.text for part in case.conversation[0].user_content.parts if isinstance(part, Text))
