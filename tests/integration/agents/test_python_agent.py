"""The python worker: what a callable is given, and what may come back."""

from __future__ import annotations

import time

import pytest

from tests.integration.agents.line_client import responses, texts

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def bot(spawn):
    """A started worker for a callable of bots.py."""

    def run(name: str):
        return spawn({"call": f"bots:{name}", "path": "python_kinds"}, kind="python")

    return run


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        # plain and async functions of the text
        ("echo", ["you said one", "you said two"]),
        ("echo_async", ["you said one", "you said two"]),
        # a function that hands back something to await
        ("hands_back", ["one", "two"]),
        # the session's state is kept from turn to turn
        ("with_state", ["turn 1", "turn 2"]),
        # the conversation so far
        ("with_messages", ["user: one", "user: one | model: user: one | user: two"]),
        # the content as it is
        ("with_content", ["1 parts, an id", "1 parts, an id"]),
        # one object a session
        ("Counter", ["1", "2"]),
        ("CounterAsync", ["1", "2"]),
    ],
)
def test_what_a_callable_is_given(bot, name: str, answers: list[str]) -> None:
    worker = bot(name)
    assert worker.greeting["type"] == "ready", worker.greeting
    for session in ("first", "second"):  # the second begins anew
        worker.start(session)
        for text, answer in zip(("one", "two"), answers, strict=True):
            events, ended = worker.turn(session, text)
            assert texts(events) == [answer]
            assert events[-1]["final"] is True
            assert ended["timings"]["total_s"] >= 0
        worker.end(session)
    assert worker.bye() == 0


def test_a_full_answer(bot) -> None:
    worker = bot("full_answer")
    worker.start("s", state={"kept": 1})
    events, _ = worker.turn("s", "Oslo")
    calls = [
        part["function_call"]
        for event in events
        for part in event["content"]["parts"]
        if "function_call" in part
    ]
    assert calls == [{"name": "weather", "args": {"city": "Oslo"}}, {"name": "log", "args": {}}]
    assert responses(events) == [{"result": "sunny"}]
    assert [event["final"] for event in events] == [False, False, False, True]
    assert events[-1]["usage_metadata"] == {"prompt_token_count": 5}
    assert events[-1]["model_version"] == "m-1"
    assert worker.end("s")["state"] == {"kept": 1, "asked": "Oslo"}


@pytest.mark.parametrize("name", ["steps", "steps_async"])
def test_steps_as_they_are_yielded(bot, name: str) -> None:
    events, _ = bot(name).ask("go")
    assert [event["author"] for event in events] == ["agent", "sub", "agent"]
    assert texts(events) == ["thinking about it", "done"]


def test_no_answer_is_no_event(bot) -> None:
    events, ended = bot("silent").ask("hello")
    assert (events, ended["type"]) == ([], "turn_end")


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("number", "raised", "returned int"),
        ("unknown_key", "raised", "unknown keys answer"),
        ("broken", "raised", "the bot broke"),
        # before Python 3.12, a future that got it never ended
        ("exhausted", "raised", "StopIteration"),
        ("leave", "exited", "sys.exit(3)"),
    ],
)
def test_faults_end_the_turn(bot, name: str, kind: str, told: str) -> None:
    worker = bot(name)
    for _ in range(2):
        _, ended = worker.ask("hello")
        assert (ended["type"], ended["kind"]) == ("turn_failed", kind)
        assert told in ended["message"]


def test_plain_functions_do_not_wait_for_each_other(bot) -> None:
    worker = bot("slow")
    began = time.monotonic()
    for n in range(6):
        worker.start(f"s{n}")
        worker.begin_turn(f"s{n}", "go")
    names = {texts(worker.end_turn(f"s{n}")[0])[0] for n in range(6)}
    assert len(names) == 6
    assert time.monotonic() - began < 2.0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("bots:needs_more", "'database'"),
        ("bots:NOT_CALLABLE", "int"),
        ("bots:nowhere", "nowhere"),
        ("no_such_bots:echo", "no_such_bots"),
        ("bots", "module:function"),
    ],
)
def test_what_cannot_be_called_says_why(spawn, call: str, told: str) -> None:
    greeting = spawn({"call": call, "path": "python_kinds"}, kind="python").greeting
    assert (greeting["type"], greeting["kind"]) == ("fatal", "start")
    assert told in greeting["message"]


def test_a_custom_metric_needs_google_adk_here(spawn) -> None:
    worker = spawn({"call": "bots:echo", "path": "python_kinds"}, kind="metrics")
    worker.say(
        type="metric",
        id="m",
        code="bots.seven",
        metric={"metric_name": "m"},
        actual=[],
        expected=None,
    )
    answer = worker.hear("metric_result")
    assert answer["score"] is None
    assert "google" in answer["error"]


@pytest.mark.parametrize(("name", "calls"), [("with_tools", 1), ("with_tools_async", 2)])
def test_tools_are_asked_about(spawn, name: str, calls: int) -> None:
    worker = spawn({"call": f"bots:{name}", "path": "python_kinds"}, kind="python", tools="replay")
    assert worker.greeting["tools"] is True
    worker.start("s")
    worker.begin_turn("s", "Bergen")
    for _ in range(calls):
        call = worker.hear("tool_call", session="s")
        assert (call["name"], call["args"]) == ("read_tide", {"harbour": "Bergen", "hour": 12})
        worker.say(type="tool_response", session="s", call=call["call"], response={"metres": 9})
    events, ended = worker.end_turn("s")
    assert ended["type"] == "turn_end"
    assert "9 m" in texts(events)[-1]
    assert worker.bye() == 0


@pytest.mark.parametrize("name", ["with_tools", "with_tools_async"])
def test_tools_just_run_where_nobody_wants_to_be_asked(bot, name: str) -> None:
    worker = bot(name)
    assert not worker.greeting["tools"]
    events, _ = worker.ask("Bergen")
    assert "0.4 m" in texts(events)[-1]


def test_a_callable_without_tools_does_not_promise_to_ask(spawn) -> None:
    worker = spawn({"call": "bots:echo", "path": "python_kinds"}, kind="python", tools="replay")
    assert not worker.greeting["tools"]


def test_a_function_that_waits_for_an_answer_is_let_go_with_its_conversation(spawn) -> None:
    worker = spawn(
        {"call": "bots:with_tools", "path": "python_kinds"}, kind="python", tools="replay"
    )
    for number in range(20):  # more than there are threads
        worker.start(f"s{number}")
        worker.begin_turn(f"s{number}", "Bergen")
        worker.hear("tool_call", session=f"s{number}")
        worker.end(f"s{number}")
    worker.start("last")
    worker.begin_turn("last", "Bergen")
    call = worker.hear("tool_call", session="last")
    worker.say(type="tool_response", session="last", call=call["call"], response={"metres": 1})
    assert worker.end_turn("last")[1]["type"] == "turn_end"
