"""What a chat keeps of a turn: its trace, questions, files."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest

from evalgate.agents import protocol
from evalgate.model import (
    Content,
    Event,
    Invocation,
    Text,
    ToolCall,
)
from evalgate.wings.ui import chat as chats
from evalgate.wings.ui.chat import Chat

USER = Content(parts=(Text(text="hi"),), role="user")


def event(at: float | None, *parts: Any) -> Event:
    return Event(author="desk", content=Content(parts=parts), at=at)


@pytest.fixture
def chat() -> Chat:
    """A session without an agent: only what it notes."""
    made = object.__new__(Chat)
    made.suite, made.turns, made.traces, made.files = "s", [], [], []
    made.is_over, made._views, made._artifacts = False, [], []
    made._room, made._redact = 100, lambda text: text.replace("secret", "***")
    made._state_lock = threading.Lock()
    made._forget_turn(is_busy=True)
    return made


def hear(chat: Chat, **message: Any) -> None:
    line = protocol.render_line({"session": "s1", **message})
    chat._note_step(protocol.parse_worker_message(line))  # type: ignore[arg-type]  # steps, all of them


def test_pieces_are_replaced_by_the_text_that_they_make(chat: Chat) -> None:
    def says(text: str, *, partial: bool, **more: Any) -> None:
        parts = [{"text": text, **more}]
        hear(chat, type="event", author="a", partial=partial, content={"parts": parts})

    serials = {chat.live()["serial"]}
    for text in ("one ", "two "):
        says(text, partial=True)
        serials.add(chat.live()["serial"])
    assert chat.live()["text"] == "one two "
    assert len(serials) == 3
    says("a thought", partial=True, thought=True)
    says("one two three", partial=False)
    says("x" * 30_000, partial=True)
    live = chat.live()["text"]
    assert len(live) == chats.LIVE_TEXT
    chat._end_turn(None)
    assert (chat.live()["text"], chat.live()["busy"], chat.live()["turns"]) == ("", False, 1)


@pytest.mark.parametrize(
    ("ids", "asked"),
    [
        (["1"], ["pay"]),
        (["9"], []),
        ([], []),
        # a worker can say anything
        ("1", []),
        ({"1": 1}, []),
        ([["1"], None, 1], []),
    ],
)
def test_questions_are_calls_of_the_last_turn_that_wait(
    chat: Chat, ids: Any, asked: list[str]
) -> None:
    hear(chat, type="trace", number=0, entry={"kind": "event", "long_running_tool_ids": ids})
    call = ToolCall(name="pay", args={"amount": 1}, id="1")
    chat._end_turn(Invocation(user_content=USER, events=(event(0.0, call),)))
    assert [question["name"] for question in chat.view()["questions"]] == asked
    chat._end_turn(Invocation(user_content=USER, events=()))
    assert chat.questions() == []


def test_files_are_kept_as_long_as_there_is_room_and_traces_without_secrets(chat: Chat) -> None:
    text = "<b>half a \ud800 pair</b>"
    odd = base64.urlsafe_b64encode(b"\xfb\xff").decode()
    for name, part in (
        ("text", {"text": text}),
        ("odd", {"inlineData": {"mimeType": "image/png", "data": odd}}),
        ("none", None),  # it was too large for the worker
        ("forged", {"inline_data": 5}),
        ("large", {"inline_data": {"mime_type": "image/png", "data": "A" * 100}}),
    ):
        hear(chat, type="artifact", name=name, version=1, part=part)
    assert {one["name"]: one["file"] and one["file"]["number"] for one in chat.view()["artifacts"]} == {
        "text": 0,
        "odd": 1,
        "none": None,
        "forged": None,
        "large": None,
    }  # fmt: skip
    assert base64.b64decode(chat.files[0]["data"]).decode() == "<b>half a ? pair</b>"
    assert base64.b64decode(chat.files[1]["data"]) == b"\xfb\xff"
    hear(chat, type="trace", number=0, entry={"kind": "tool", "args": {"secret": ["a secret"]}})
    hear(chat, type="trace", number=0, entry={"s": 1.0})
    chat._end_turn(None)
    assert chat.traces == [[{"kind": "tool", "args": {"***": ["a ***"]}, "s": 1.0}]]
