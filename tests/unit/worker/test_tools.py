"""Asking about a tool call in a worker: what is said, what is done with the answer, and who is let
go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from evalgate.worker import errors, tools
from evalgate.worker.tools import SessionTools, ToolRefused, Tools

Message = dict[str, Any]
RECORD = {"run": True, "report": True}


class Gate:
    """Answers every tool_call at once, and keeps what is said."""

    def __init__(self, answer: Message) -> None:
        self.said: list[Message] = []
        self._answer = answer
        self.desk = SessionTools(self._hear, "s1")
        self.tools = Tools(self.desk)

    def _hear(self, message: Message) -> None:
        self.said.append(message)
        if message["type"] == "tool_call":
            answer = {"type": "tool_response", "call": message["call"], **self._answer}
            threading.Thread(target=self.desk.deliver, args=(answer,)).start()

    def told(self) -> list[Message]:
        return [
            {key: value for key, value in message.items() if key not in {"type", "session", "call"}}
            for message in self.said
        ]


def add(a: int, b: int = 1, *more: int, **named: int) -> int:
    return a + b + sum(more) + sum(named.values())


async def add_async(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


@pytest.mark.parametrize(
    ("call", "args"),
    [
        # one call, however it is written: by name, with its defaults
        (lambda tools: tools.wrap(add)(1), {"a": 1, "b": 1, "more": [], "named": {}}),
        (lambda tools: tools.wrap(add)(b=1, a=1), {"a": 1, "b": 1, "more": [], "named": {}}),
        (
            lambda tools: tools.wrap(add)(1, 2, 3, x=4),
            {"a": 1, "b": 2, "more": [3], "named": {"x": 4}},
        ),
        (lambda tools: tools.call("add", {"a": 1}, add), {"a": 1}),
        (lambda tools: tools.call("add"), {}),
        (lambda tools: asyncio.run(tools.wrap(add_async, name="add")(1)), {"a": 1, "b": 1}),
        (lambda tools: asyncio.run(tools.call_async("add", {"a": 1}, add)), {"a": 1}),
        (lambda tools: asyncio.run(tools.call_async("add", {"a": 1}, add_async)), {"a": 1}),
    ],
)
def test_a_call_is_asked_about_and_answered(call: Callable[[Tools], Any], args: Message) -> None:
    gate = Gate({"response": {"from": "the cassette"}})
    assert call(gate.tools) == {"from": "the cassette"}
    assert gate.told() == [{"name": "add", "args": args, "kind": "tool"}]
    assert gate.desk.asked_names == {"add"}


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda tools: tools.wrap(add)(1, 2), 3),
        (lambda tools: tools.call("add", {"a": 1}, add), 2),
        (lambda tools: asyncio.run(tools.wrap(add_async)(1, 2)), 3),
        (lambda tools: asyncio.run(tools.call_async("add", {"a": 1}, add_async)), 2),
    ],
)
def test_a_tool_that_is_to_run_runs_and_tells(call: Callable[[Tools], Any], result: int) -> None:
    gate = Gate(RECORD)
    assert call(gate.tools) == result
    assert gate.told()[1] == {"response": result}
    quiet = Gate({"run": True, "report": False})
    assert call(quiet.tools) == result
    assert len(quiet.said) == 1
    assert call(Tools(None)) == result  # where nothing is asked, tools just run


def test_nothing_to_run_is_a_mistake_that_says_so() -> None:
    with pytest.raises(TypeError, match="'add' has no function to run"):
        Gate(RECORD).tools.call("add", {"a": 1})


@pytest.mark.parametrize(
    ("result", "recorded"),
    [
        ({"a": (1, 2)}, {"a": [1, 2]}),
        (None, None),
        ("text", "text"),
        ((1, 2), {"result": [1, 2]}),
        ({1, 2}.__class__([1]), {"result": [1]}),
        (float("nan"), "nan"),
    ],
)
def test_results_as_json(result: Any, recorded: Any) -> None:
    assert tools.result_json(result) == recorded


class QuotaError(RuntimeError):
    """A tool's own, with more to say than a message."""

    def __init__(self, used: int, limit: int) -> None:
        super().__init__(used, limit)

    def __str__(self) -> str:
        return "over quota"


@pytest.mark.parametrize(
    ("error", "caught_as"),
    [
        (KeyError("city"), KeyError),
        (ConnectionResetError("gone"), ConnectionError),
        (QuotaError(3, 2), QuotaError),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), UnicodeDecodeError),
        (ValueError(""), ValueError),
    ],
)
def test_a_recorded_exception_is_raised_again(error: Exception, caught_as: type[Exception]) -> None:
    def fail() -> None:
        raise error

    gate = Gate(RECORD)
    with pytest.raises(caught_as) as first:
        gate.tools.wrap(fail)()
    told = gate.told()[1]
    with pytest.raises(caught_as) as again:
        Gate(told).tools.wrap(fail)()
    assert str(again.value) == str(first.value)
    assert errors.sentence(again.value) == errors.sentence(error)
    # a lost connection in a cassette is none to wait for
    assert errors.describe(again.value)["kind"] == "raised"


@pytest.mark.parametrize(
    "name", ["nowhere.at.all.OddError", "OddError", "print", "KeyboardInterrupt"]
)
def test_an_exception_that_is_not_known_here_keeps_its_name(name: str) -> None:
    error = tools.make_error(name, "said")
    assert (type(error).__name__, str(error)) == (name.rpartition(".")[2], "said")
    assert isinstance(error, Exception)


def test_an_error_that_was_not_simulated_is_classified_as_ever() -> None:
    assert errors.describe(ConnectionResetError("gone"))["kind"] == "unreachable"


def test_who_waits_when_the_conversation_ends_is_refused_and_so_is_who_comes_later() -> None:
    said: list[Message] = []
    desk = SessionTools(said.append, "s1")
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            desk.ask("t", {}).wait(lambda: ended.append(AssertionError("it ran")))
        except ToolRefused as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not said:
        pass
    desk.close()
    thread.join(5)
    assert [type(error) for error in ended] == [ToolRefused]
    with pytest.raises(ToolRefused):
        desk.ask("t", {})
    desk.deliver({"call": "t1", "response": 1})  # too late, and harmless


def test_refused_is_never_run() -> None:
    with pytest.raises(ToolRefused, match="nothing answers"):
        Gate({"refused": "nothing answers"}).tools.wrap(lambda: pytest.fail("it ran"), name="t")()


def test_what_a_wrapped_function_says_of_itself() -> None:
    wrapped = tools.Tools(SessionTools(print, "s1")).wrap(add)
    assert (wrapped.__name__, wrapped.__wrapped__) == ("add", add)  # type: ignore[attr-defined]  # functools.wraps sets it


class Plain:
    here = "of the class"


class Closed(BaseModel):
    """As google-adk's agents: unknown attributes are refused."""

    here: str = "a field"


def with_own() -> Plain:
    plain = Plain()
    plain.here = "its own"
    return plain


@pytest.mark.parametrize(
    "owner",
    [
        Plain(),  # has the attribute by its class alone
        with_own(),
        Closed(),
        type("Kind", (Plain,), {}),
        type("Kind", (), {"here": "of the class"}),
    ],
)
def test_what_is_replaced_is_put_back(owner: Any) -> None:
    before, value = dict(vars(owner)), owner.here
    patches = tools.Patches()
    for number in range(2):  # one upon the other
        patches.set(owner, "here", number)
    assert owner.here == 1
    patches.close()
    assert (dict(vars(owner)), owner.here) == (before, value)
