"""Where two conversations of the same simulated user part: what the agents said first that made a
difference."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate.model import Content, Divergence, Invocation, Part, Text, ToolCall, ToolResponse


def compare(
    base: Sequence[Invocation], head: Sequence[Invocation], *, hears_calls: bool
) -> Divergence | None:
    """The first turns that differ; None if both sides had the same conversation.

    `hears_calls`: the user also sees tool calls and their results (`include_function_calls`). Both
    users begin with the same prompt and are played with the same seed and remembered replies, so
    that they say the same until they hear something else. After that, turns of the same number are
    no longer pairs."""
    pairs = tuple(zip(base, head, strict=False))
    answers = users = None
    for number, (left, right) in enumerate(pairs, 1):
        if _content_text(left.user_content) != _content_text(right.user_content):
            users = number
            break
        if answers is None and heard(left, with_calls=hears_calls) != heard(
            right, with_calls=hears_calls
        ):
            answers = number
    if users is None and len(base) != len(head):
        users = len(pairs) + 1
    return None if answers is None and users is None else Divergence(answers=answers, users=users)


def heard(turn: Invocation, *, with_calls: bool) -> tuple[object, ...]:
    """The part of a turn that a user hears: the agents' words without thoughts, and calls with
    results if it sees them; an answer that repeats an event's words counts once."""
    events = [
        _content_text(event.content) for event in turn.events or () if event.content is not None
    ]
    texts = [text for text in events if text]
    final = _content_text(turn.final_response)
    if final and (not texts or texts[-1] != final):
        texts.append(final)
    steps = (
        [step for part in turn.parts() if (step := _step(part)) is not None] if with_calls else []
    )
    return (*texts, *steps)


def _step(part: Part) -> tuple[object, ...] | None:
    match part:
        case ToolCall():
            return "called", part.name, dict(part.args or {})
        case ToolResponse():
            return "gave", part.name, part.response
        case _:
            return None


def _content_text(content: Content | None) -> str:
    if content is None:
        return ""
    return "\n".join(
        part.text
        for part in content.parts
        if isinstance(part, Text) and part.text and not part.thought
    )
