"""An endpoint's answers, mapped to invocations."""

import re
from typing import Any

import pytest

from evalgate.agents.base import AgentFailed, AgentSetting, kind_of
from evalgate.model import Case, Content, FailureKind, Invocation, SessionInput, Text, ToolCall
from evalgate.system.http import Answer
from evalgate.system.python_env import InstallSetup
from evalgate.wings import http
from evalgate.wings.http import (
    EndpointConversation,
    HttpAgent,
    HttpOptions,
    ResponseOptions,
)


class Scripted:
    """An exchange that gives what it was told to, and remembers what it was asked."""

    def __init__(self, *answers: bytes | Answer) -> None:
        self.answers = [
            each if isinstance(each, Answer) else Answer(status=200, body=each) for each in answers
        ]
        self.asked: list[tuple[str, str, Any]] = []

    def request(self, method: str, url: str, *, body: Any = None, timeout_s: float) -> Answer:
        self.asked.append((method, url, body))
        return self.answers.pop(0)


def conversation(
    exchange: Scripted, request: Any = None, url: str = "http://x/", **paths: str
) -> EndpointConversation:
    options = HttpOptions(
        url=url,
        request={"q": "{text}", "session": "{session_id}"} if request is None else request,
        response=ResponseOptions.model_validate({"text": "answer"} | paths),
    )
    case = Case(case_id="c", session=SessionInput(app_name="a", user_id="u/1", state={"vip": True}))
    world = InstallSetup(environment={}, cache="")
    agent = HttpAgent(options, AgentSetting(root="/", world=world))
    return EndpointConversation(
        agent,
        exchange,  # type: ignore[arg-type]  # a double of the same shape
        case,
    )


def ask(talk: EndpointConversation, text: str = "hi") -> Invocation:
    return talk.send(Content(parts=(Text(text=text),), role="user"))


def said(invocation: Invocation) -> str | None:
    if invocation.final_response is None:
        return None
    [part] = invocation.final_response.parts
    assert isinstance(part, Text)
    return part.text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"answer": "yes"}', "yes"),
        (b'{"answer": ["y", "es"]}', "yes"),
        (b'{"answer": 4.5}', "4.5"),
        (b'{"answer": ""}', None),  # the agent said nothing
    ],
)
def test_the_answer_is_a_text(body: bytes, text: str | None) -> None:
    assert said(ask(conversation(Scripted(body)))) == text


def test_null_is_an_answer_where_the_path_says_so() -> None:
    body = b'{"answer": null}'
    assert said(ask(conversation(Scripted(body), text="answer || ''"))) is None
    with pytest.raises(AgentFailed, match="expected a text at answer"):
        ask(conversation(Scripted(body)))


def test_a_function_that_fails_is_a_failure_of_the_answer() -> None:
    with pytest.raises(AgentFailed) as failed:
        ask(conversation(Scripted(b'{"answer": 3}'), text="join('', answer)"))
    assert failed.value.failure.kind is FailureKind.PROTOCOL


@pytest.mark.parametrize("path", ["$.answer", "a[", "a b", "", "nofunction("])
def test_a_path_that_cannot_be_read_is_named(path: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(repr(path))} is not a JMESPath expression"):
        http.parse_path(path)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            b'{"reply": "yes"}',
            "expected a text at answer of the answer, found an object with 'reply'",
        ),
        (b'{"answer": {"text": "yes"}}', "found an object with 'text' there"),
        (b"<html>", "the answer is not JSON: '<html>'"),
        (b'{"answer": "yes", "calls": {"name": "f"}}', "expected a list of tool calls at calls"),
        (b'{"answer": "yes", "calls": [{"tool": "f"}]}', "expected the name of a tool at name"),
        (
            b'{"answer": "yes", "calls": [{"name": "f", "args": [1]}]}',
            "expected the arguments of a tool",
        ),
    ],
)
def test_an_answer_of_another_shape_is_a_failure_that_shows_it(body: bytes, words: str) -> None:
    with pytest.raises(AgentFailed) as failed:
        ask(conversation(Scripted(body), tool_calls="calls"))
    assert failed.value.failure.kind is FailureKind.PROTOCOL
    assert failed.value.failure.turn == 1
    assert words in failed.value.failure.message


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        (b"[]", ()),
        (b"null", ()),
        (b'[{"name": "f", "args": {"x": 1}}]', (ToolCall(name="f", args={"x": 1}),)),
        (b'[{"name": "f"}]', (ToolCall(name="f"),)),  # no arguments is not the same as empty ones
        (b'[{"name": "f", "args": {}}]', (ToolCall(name="f", args={}),)),
        # JSON in a text
        (b'[{"name": "f", "args": "{\\"x\\": 1}"}]', (ToolCall(name="f", args={"x": 1}),)),
        (b'["f", "g"]', (ToolCall(name="f"), ToolCall(name="g"))),  # names only
    ],
)
def test_tool_calls_are_read(calls: bytes, found: tuple[ToolCall, ...]) -> None:
    talk = conversation(Scripted(b'{"answer": "yes", "calls": ' + calls + b"}"), tool_calls="calls")
    assert ask(talk).tool_calls == found


def test_calls_that_nobody_can_know_are_not_none() -> None:
    assert ask(conversation(Scripted(b'{"answer": "yes"}'))).events is None
    assert ask(conversation(Scripted(b'{"answer": "yes"}'), tool_calls="calls")).events == ()


def test_the_conversation_goes_on_with_what_the_endpoint_names() -> None:
    exchange = Scripted(
        b'{"answer": "a", "id": 7, "s": {"n": 1}}', b'{"answer": "b", "s": {"n": 2}}'
    )
    request = {
        "q": "{text}",
        "id": "{session_id}",
        "log": "{messages}",
        "state": "{state}",
        "turn": "{turn}",
    }
    talk = conversation(
        exchange, request, "http://x/{user_id}/{session_id}", session_id="id", state="s"
    )
    assert talk.finish() is None
    ask(talk, "one")
    ask(talk, "two")
    assert talk.finish() == {"n": 2}
    [(_, first_url, first), (_, second_url, second)] = exchange.asked
    assert first["state"] == {"vip": True}
    assert first["id"].startswith("evalgate-")
    assert first_url == f"http://x/u%2F1/{first['id']}"
    assert second_url == "http://x/u%2F1/7"
    assert second == {
        "q": "two",
        "id": "7",
        "log": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "two"},
        ],
        "state": {"n": 1},
        "turn": 2,
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, FailureKind.RATE_LIMITED),
        (408, FailureKind.UNREACHABLE),
        (500, FailureKind.UNREACHABLE),
        (503, FailureKind.UNREACHABLE),
        (401, FailureKind.UNAUTHORIZED),
        (404, FailureKind.RAISED),
        (302, FailureKind.RAISED),  # a redirect to nowhere
    ],
)
def test_a_status_is_a_kind_of_failure(status: int, kind: FailureKind) -> None:
    assert kind_of(status) is kind
    answer = Answer(status=status, headers={"retry-after": "7"}, body=b"sorry")
    talk = conversation(Scripted(b'{"answer": "a"}', answer))
    ask(talk)
    with pytest.raises(AgentFailed) as failed:
        ask(talk)
    failure = failed.value.failure
    assert (failure.kind, failure.turn, len(failure.partial)) == (kind, 2, 1)
    assert (
        failure.message
        == f"the endpoint answered with HTTP status {status} (Retry-After: 7): sorry"
    )


# --- placeholders ---------------------------------------------------------------------------------


VALUES = {
    "text": 'say "hi" {state}',
    "state": {"a": [1, None]},
    "turn": 2,
    "messages": [{"role": "user"}],
}


@pytest.mark.parametrize(
    ("shape", "filled"),
    [
        ("{text}", 'say "hi" {state}'),  # a value is not filled in again
        ("{state}", {"a": [1, None]}),  # alone: the value itself
        ("turn {turn}: {state}", 'turn 2: {"a": [1, null]}'),  # within a text: as JSON
        ({"q": "{text}", "n": "{turn}", "deep": [{"s": "{state}"}]}, None),
        ("{unknown} { text } {}", "{unknown} { text } {}"),  # the user's own braces
        (5, 5),
        (None, None),
        ({"{turn}": True}, {"2": True}),
    ],
)
def test_a_shape_is_filled_in(shape: Any, filled: Any) -> None:
    if isinstance(shape, dict) and filled is None:
        filled = {"q": 'say "hi" {state}', "n": 2, "deep": [{"s": {"a": [1, None]}}]}
    assert http.fill(shape, VALUES) == filled


def test_every_name_in_a_shape_is_found() -> None:
    assert http.names_in({"{a}": ["{b} {c}", {"x": "{d}"}], "e": 1}) == {"a", "b", "c", "d"}


def test_variables_are_expanded_once() -> None:
    assert http.with_environment("Bearer ${KEY}!", {"KEY": "${OTHER}"}) == "Bearer ${OTHER}!"


def test_an_absent_variable_is_named() -> None:
    with pytest.raises(KeyError, match="NOPE"):
        http.with_environment("${NOPE}", {"HOME": "/"})
