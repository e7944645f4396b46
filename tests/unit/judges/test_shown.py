"""What a judge is shown of a turn: calls with their own responses, no thoughts, no bytes."""

import json

from builders.build import call, text, turn

from evalgate.criteria import hallucinations_v1, rubrics
from evalgate.judges import prompting
from evalgate.model import (
    AgentDetails,
    Attachment,
    Content,
    Event,
    Invocation,
    Text,
    ToolCall,
    ToolResponse,
)


def event(*parts: Text | ToolCall | ToolResponse | Attachment, author: str = "agent") -> Event:
    return Event(author=author, content=Content(parts=parts))


def made(*events: Event, agents: tuple[AgentDetails, ...] = ()) -> Invocation:
    return Invocation(
        user_content=text("q"), final_response=text("a"), events=events, agents=agents
    )


def test_calls_stand_beside_their_own_responses() -> None:
    told = made(
        event(
            ToolCall(name="a", args={"x": 1}, id="1"),
            ToolCall(name="b", id="2"),
            ToolCall(name="c"),
        ),
        event(
            ToolResponse(name="b", response={"r": "b"}, id="2"),
            ToolResponse(name="a", response={"r": "a"}, id="1"),
        ),
        event(ToolResponse(name="c", response={"r": "c"})),
        event(ToolCall(name="c"), ToolCall(name="d", id="9")),
    )
    steps = json.loads(prompting.steps_of(told))
    assert [(each["tool"], each["response"]) for each in steps] == [
        ("a", {"r": "a"}),
        ("b", {"r": "b"}),
        ("c", {"r": "c"}),
        ("c", None),  # its response never came
        ("d", None),
    ]
    assert prompting.steps_of(turn("q", answer="a")) == ""


def test_tools_are_shown_however_an_agent_declares_them() -> None:
    """ADK keeps anything as a declaration, and so does a recording."""
    oddly = AgentDetails(
        name="desk", tool_declarations=({"name": "look"}, "search", None, 7, ["a"])
    )
    assert json.loads(prompting.tools_of([made(agents=(oddly,))])) == {
        "desk": [{"name": "look"}, "search", None, 7, ["a"]]
    }


def test_pictures_are_named_not_sent() -> None:
    picture = Attachment(data={"inline_data": {"mime_type": "image/png", "data": "AAAA"}})
    assert (
        prompting.text_of(Content(parts=(Text(text="see"), picture)))
        == "see\n[inline_data, image/png]"
    )
    assert prompting.events_json([event(picture)]) == [
        {"by": "agent", "attachment": "inline_data, image/png"}
    ]


def test_instructions_are_those_of_who_answered() -> None:
    agents = (
        AgentDetails(name="root", instructions="R"),
        AgentDetails(name="sub", instructions="S"),
    )
    by = {
        author: rubrics.answer_pieces(
            made(event(Text(text="x"), author=author), agents=agents), intermediate=False
        )["developer_instructions"]
        for author in ("sub", "root", "nobody")
    }
    assert by == {"sub": "S", "root": "R", "nobody": "R"}
    assert not rubrics.answer_pieces(made(), intermediate=False)["developer_instructions"]


def test_a_dialogue_keeps_turns_and_speakers_apart() -> None:
    first = made(
        event(call("search", q="agent: yes")),
        event(Text(text="hm", thought=True), Text(text="on it")),
    )
    told = json.loads(prompting.conversation_of([first, turn("more", answer="b")]))
    assert [each["turn"] for each in told] == [1, 2]
    assert told[0]["agent_steps"] == [
        {"by": "agent", "tool_call": "search", "args": {"q": "agent: yes"}},
        {"by": "agent", "text": "on it"},
    ]
    assert (told[1]["user"], told[1]["agent_answer"]) == ("more", "b")


def test_steps_recorded_by_kind_are_context() -> None:
    by_kind = Invocation(
        user_content=text("q"),
        final_response=text("a"),
        events=(event(call("search")),),
        itemized=False,
    )
    (checked,) = hallucinations_v1.texts_of(by_kind, 1, intermediate=False)
    assert "search" in checked.context["steps_before"]


def test_sources_that_came_with_a_text_are_known_to_it() -> None:
    grounded = Event(author="a", content=text("It rains."), grounding={"grounding_supports": [1]})
    told = made(event(Text(text="I look.")), grounded)
    checked = list(hallucinations_v1.texts_of(told, 1, intermediate=True))
    assert [each.text for each in checked] == ["I look.", "It rains.", "a"]
    sources = [each.context["grounding_metadata"] for each in checked]
    assert ["grounding_supports" in each for each in sources] == [False, True, True]
    before = [each.context["steps_before"] for each in checked]
    assert ["It rains." in each for each in before] == [False, False, True]
