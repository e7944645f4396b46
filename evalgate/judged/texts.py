"""The texts of a turn that are checked for hallucinations, each with what its agent could know when it wrote it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalgate.model import Event, Invocation, Text
from evalgate.prompts import shown
from evalgate.prompts.fence import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A text and its context; `turn` counts from 1."""

    turn: int
    text: str
    context: tuple[Piece, ...]


def of_turn(invocation: Invocation, turn: int, *, intermediate: bool, as_adk: bool) -> Iterator[Checked]:
    """The answer, and before it, where `intermediate`, every text said on the way, each with the events before it.

    `as_adk`: thoughts are texts, and steps that were recorded by kind are no context.
    """
    events = (invocation.events or ()) if invocation.itemized or not as_adk else ()
    if intermediate:
        for number, event in enumerate(events):
            # what a built-in tool told of its sources came with the text, so it counts as known
            known = (*events[:number], *((dataclasses.replace(event, content=None),) if event.grounding else ()))
            for text in _texts(event, as_adk=as_adk):
                yield Checked(turn=turn, text=text, context=context(invocation, known, as_adk=as_adk))
    answer = shown.answer(invocation, with_thoughts=as_adk)
    if answer:
        yield Checked(turn=turn, text=answer, context=context(invocation, events, as_adk=as_adk))


def context(invocation: Invocation, events: Sequence[Event], *, as_adk: bool) -> tuple[Piece, ...]:
    """What the agents were told, asked and given, and what had happened."""
    happened = shown.entries(events, with_thoughts=as_adk)
    return (
        Piece(name="developer_instructions", text=shown.instructions(invocation)),
        Piece(name="user_request", text=shown.text_of(invocation.user_content)),
        Piece(name="available_tools", text=shown.tools([invocation])),
        Piece(name="grounding_metadata", text=shown.grounding(events)),
        Piece(name="steps_before", text=shown.as_json(happened) if happened else ""),
    )


def _texts(event: Event, *, as_adk: bool) -> list[str]:
    parts = event.content.parts if event.content else ()
    return [part.text for part in parts if isinstance(part, Text) and part.text and (as_adk or not part.thought)]
