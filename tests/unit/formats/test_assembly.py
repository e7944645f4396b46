"""Which event of a turn is the answer, and which are steps."""

from __future__ import annotations

import pytest

from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import StepEvent
from evalgate.model import (
    Attachment,
    Content,
    Event,
    Part,
    Text,
    Timings,
    ToolCall,
    ToolResponse,
    Usage,
)

ASK = Content(parts=(Text(text="hi"),), role="user")
CALL = ToolCall(name="look", args={"a": 1})
RESPONSE = ToolResponse(name="look", response={"b": 2})


def step(*parts: Part, author="agent", final=False, grounding=None, usage=None) -> StepEvent:
    return StepEvent(
        author=author, content=Content(parts=parts), final=final, grounding=grounding, usage=usage
    )


def answer_of(*events: StepEvent) -> str | None:
    response = adk_shapes.turn_of_steps(ASK, events).final_response
    if response is None:
        return None
    return "".join(part.text if isinstance(part, Text) else "#" for part in response.parts)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # nothing happened
        ((), None),
        # a text that is not final is no answer
        ((step(Text(text="thinking aloud")),), None),
        # the last final one wins
        ((step(Text(text="one"), final=True), step(Text(text="two"), final=True)), "two"),
        # ... but one without text does not displace one with text
        (
            (
                step(Text(text="one"), final=True),
                step(Attachment(data={"inline_data": {}}), final=True),
            ),
            "one",
        ),
        # an empty text counts as no text
        ((step(Text(text="one"), final=True), step(Text(text=""), final=True)), "one"),
        # without any text, the last one with parts
        ((step(CALL, final=True), step(CALL, CALL, final=True)), "##"),
        # no parts, no answer
        ((step(final=True), StepEvent(author="agent", final=True)), None),
        # what the user says is never an answer, however it is written
        ((step(Text(text="mine"), author="User", final=True),), None),
        # an agent without a name is not the user
        ((step(Text(text="x"), author="", final=True),), "x"),
    ],
)
def test_the_answer(events, expected):
    assert answer_of(*events) == expected


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        (step(Text(text="x")), True),
        (step(CALL), True),
        (step(RESPONSE), True),
        (step(Attachment(data={"inline_data": {"data": "AA"}})), True),
        # file data and code are no steps in ADK
        (step(Attachment(data={"file_data": {"uri": "u"}})), False),
        (step(Text(text="")), False),
        (step(), False),
        (StepEvent(author="agent"), False),
        # usage alone is not enough
        (step(usage=Usage(prompt_tokens=1)), False),
        # grounding alone is
        (StepEvent(author="agent", grounding={"g": 1}), True),
        (step(Text(text="x"), author="user"), False),
    ],
)
def test_what_is_a_step(event, kept):
    assert bool(adk_shapes.turn_of_steps(ASK, [event]).events) is kept


def test_the_answer_stays_a_step_without_its_content():
    usage = Usage(total_tokens=7)
    invocation = adk_shapes.turn_of_steps(
        ASK, [step(CALL), step(Text(text="done"), final=True, usage=usage)]
    )
    assert invocation.events == (
        Event(author="agent", content=Content(parts=(CALL,))),
        Event(author="agent", usage=usage),
    )
    assert type(invocation.events[0]) is Event


def test_an_answer_that_calls_a_tool_keeps_its_content():
    long_running = step(Text(text="please wait"), CALL, final=True)
    invocation = adk_shapes.turn_of_steps(ASK, [long_running])
    assert invocation.final_response == long_running.content
    assert invocation.tool_calls == (CALL,)


def test_of_two_equal_events_only_the_answer_loses_its_content():
    same = [step(Text(text="x"), final=True), step(Text(text="x"), final=True)]
    first, second = adk_shapes.turn_of_steps(ASK, same).events or ()
    assert first.content is not None
    assert second.content is None


def test_what_surrounds_the_events_is_kept():
    timings = Timings(total_s=1.5)
    invocation = adk_shapes.turn_of_steps(ASK, [], invocation_id="i", timings=timings)
    assert (invocation.invocation_id, invocation.timings, invocation.events) == ("i", timings, ())
    assert invocation.user_content is ASK
