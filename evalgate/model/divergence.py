"""Find where two conversations of the same simulated user diverge, and which answers differed
first."""

from __future__ import annotations

from collections.abc import Sequence

from . import Content, Divergence, Invocation, Part, ToolCall, ToolResponse


def compare(
    base: Sequence[Invocation], head: Sequence[Invocation], *, hears_calls: bool
) -> Divergence | None:
    """The first turns that differ; None if both sides had the same conversation.

    `hears_calls`: the user also sees tool calls and their results (`include_function_calls`). Both
    users start with the same prompt, seed and stored replies, so their messages are the same until
    the agents' answers differ. After that turn, turns of the same number are no longer
    comparable."""
    pairs = tuple(zip(base, head, strict=False))
    answer_turn = user_turn = None
    for number, (base_turn, head_turn) in enumerate(pairs, 1):
        if _content_text(base_turn.user_content) != _content_text(head_turn.user_content):
            user_turn = number
            break
        if answer_turn is None and heard(base_turn, with_calls=hears_calls) != heard(
            head_turn, with_calls=hears_calls
        ):
            answer_turn = number
    if user_turn is None and len(base) != len(head):
        user_turn = len(pairs) + 1
    return (
        None
        if answer_turn is None and user_turn is None
        else Divergence(answers=answer_turn, users=user_turn)
    )


def heard(turn: Invocation, *, with_calls: bool) -> tuple[object, ...]:
    """The part of a turn that the user hears: the agents' texts without thoughts, and tool calls
    with their results if `with_calls`. A final response that repeats the last event's text counts
    once."""
    event_texts = (_content_text(event.content) for event in turn.steps)
    texts = [text for text in event_texts if text]
    final_text = _content_text(turn.final_response)
    if final_text and (not texts or texts[-1] != final_text):
        texts.append(final_text)
    steps = (
        [step for part in turn.parts() if (step := _step(part)) is not None] if with_calls else []
    )
    return (*texts, *steps)


def _step(part: Part) -> tuple[object, ...] | None:
    match part:
        case ToolCall():
            return "called", part.name, dict(part.arguments)
        case ToolResponse():
            return "gave", part.name, part.response
        case _:
            return None


def _content_text(content: Content | None) -> str:
    return content.text() if content is not None else ""
