"""What becomes of each tool call of a conversation, by mode."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.agents.base import (
    CallAnswer,
    CallKind,
    PendingCall,
    ToolError,
    ToolMode,
    ToolReply,
)
from evalgate.agents.toolbox import ConversationTools, MockFile, MockRules, RecordedCall
from evalgate.model import Case


class Desk:
    """The tools of one conversation, asked call after call."""

    def __init__(
        self,
        mode: ToolMode,
        *,
        entries: list[RecordedCall] | None = None,
        mocks: dict[str, Any] | None = None,
        secret: str = "",
    ) -> None:
        self.kept: list[tuple[RecordedCall, ...]] = []
        self.tools = ConversationTools(
            Case(case_id="c"),
            mode=mode,
            rules=MockRules(MockFile.model_validate({"tools": mocks or {}}), draws="0:s/c"),
            entries=entries,
            cassette="tool-cassettes/s/c.json",
            keep=self.kept.append,
            redact=(lambda text: text.replace(secret, "***")) if secret else str,
        )
        self._number = 0

    def call(
        self, tool: str, args: dict[str, Any], kind: CallKind = CallKind.TOOL
    ) -> tuple[PendingCall, CallAnswer]:
        self._number += 1
        call = PendingCall(number=self._number, tool=tool, args=args, kind=kind)
        return call, self.tools.answer(call)

    def ask(
        self, tool: str = "weather", *, kind: CallKind = CallKind.TOOL, **args: Any
    ) -> CallAnswer:
        return self.call(tool, args, kind)[1]

    def message(self, tool: str = "weather", **args: Any) -> str:
        answer = self.ask(tool, **args)
        assert answer.refusal, answer
        return answer.refusal


def recorded(city: str, nth: int = 1, **more: Any) -> RecordedCall:
    args = {"city": city, **more}
    return RecordedCall(tool="weather", args=args, nth=nth, response=f"{city} {nth}")


def response(answer: CallAnswer) -> Any:
    assert answer.reply, answer
    return answer.reply.response


def test_a_replay_answers_equal_calls_in_their_order() -> None:
    desk = Desk(ToolMode.REPLAY, entries=[recorded("Oslo"), recorded("Oslo", 2), recorded("Rome")])
    answers = [desk.ask(city=city) for city in ("Oslo", "Rome", "Oslo")]
    assert [response(answer) for answer in answers] == ["Oslo 1", "Rome 1", "Oslo 2"]


@pytest.mark.parametrize(
    ("entries", "args", "words"),
    [
        (
            [recorded("Paris", unit="C")],
            {"city": "Paris", "unit": "F"},
            (
                'called `weather(city="Paris", unit="F")`, recorded only '
                '`weather(city="Paris", unit="C")`: '
                "argument `unit` differs; if the call is right, record it with `--tools record`"
            ),
        ),
        (
            [],
            {"city": "Oslo"},
            (
                'called `weather(city="Oslo")`, no tool call was recorded for this case; '
                "if the call is right, record it with `--tools record`"
            ),
        ),
        (
            None,
            {"city": "Oslo"},
            (
                'called `weather(city="Oslo")` and there is no cassette tool-cassettes/s/c.json; '
                "if the call is right, record it with `--tools record`"
            ),
        ),
        (
            [RecordedCall(tool="wether", args={}, nth=1, response=None)],
            {},
            (
                "called `weather()`, no call of `weather` was recorded (recorded: `wether`), the nearest is `wether`; "
                "if the call is right, record it with `--tools record`"
            ),
        ),
    ],
)
def test_a_call_that_was_not_recorded_is_named_beside_the_nearest(
    entries: list[RecordedCall] | None, args: dict[str, Any], words: str
) -> None:
    assert Desk(ToolMode.REPLAY, entries=entries).message(**args) == words


def test_one_call_too_many_says_how_many_there_were() -> None:
    desk = Desk(ToolMode.REPLAY, entries=[recorded("Oslo"), recorded("Oslo", 2)])
    desk.ask(city="Oslo")
    desk.ask(city="Oslo")
    assert (
        desk.message(city="Oslo")
        == 'called `weather(city="Oslo")` 3 times; it was recorded 2 times; '
        "if the call is right, record it with `--tools record`"
    )


def test_a_rule_comes_before_the_cassette() -> None:
    mocks = {
        "weather": [{"args": {"city": "Rome"}, "error": "down"}],
        "calculator": [{"run": True}],
    }
    desk = Desk(ToolMode.REPLAY, entries=[recorded("Oslo"), recorded("Rome")], mocks=mocks)
    rome = desk.ask(city="Rome")
    assert rome.reply
    assert rome.reply.error == ToolError(message="down")
    assert response(desk.ask(city="Oslo")) == "Oslo 1"
    assert desk.ask("calculator") == CallAnswer()


def test_steps_of_the_agent_itself_run_in_every_mode_unless_a_rule_answers() -> None:
    for mode in (ToolMode.REPLAY, ToolMode.RECORD, ToolMode.MOCK):
        desk = Desk(mode, mocks={"expert": [{"response": "no"}]})
        assert desk.ask("transfer_to_agent", kind=CallKind.AGENT) == CallAnswer()
        assert response(desk.ask("expert", kind=CallKind.AGENT)) == "no"


def test_the_list_of_a_servers_tools_is_recorded_and_replayed_and_runs_under_mocks() -> None:
    assert Desk(ToolMode.RECORD).ask("list_tools", kind=CallKind.LISTING) == CallAnswer(report=True)
    assert Desk(ToolMode.MOCK).ask("list_tools", kind=CallKind.LISTING) == CallAnswer()
    assert Desk(ToolMode.REPLAY, entries=[]).ask("list_tools", kind=CallKind.LISTING).refusal


@pytest.mark.parametrize(
    ("mocks", "words"),
    [
        ({}, 'called `weather(city="Oslo")`, but there is no mock rule for `weather`'),
        (
            {
                "weather": [
                    {"args": {"city": "Rome"}, "response": 1},
                    {"args": {"x": 1, "y": 1}, "response": 1},
                ]
            },
            (
                'called `weather(city="Oslo")`, but none of the 2 mock rules for `weather` matches; '
                'the nearest is for `weather(city="Rome")`'
            ),
        ),
    ],
)
def test_a_mocked_tool_never_runs_by_accident(mocks: dict[str, Any], words: str) -> None:
    assert Desk(ToolMode.MOCK, mocks=mocks).message(city="Oslo") == words


def test_what_is_recorded_is_kept_when_the_conversation_has_ended_and_holds_no_secret() -> None:
    desk = Desk(ToolMode.RECORD, secret="hunter22")
    call, answer = desk.call("login", {"key": "hunter22"})
    assert answer == CallAnswer(report=True)
    reply = ToolReply(
        response={"token for hunter22": ["hunter22"]}, effects={"state_delta": {"k": "hunter22"}}
    )
    desk.tools.keep(call, reply)
    failed, _ = desk.call("login", {"key": "hunter22"})
    desk.tools.keep(failed, ToolReply(error=ToolError(type="E", message="hunter22 is wrong")))
    desk.call("login", {"key": "never answered"})
    assert desk.kept == []
    desk.tools.finish()
    ((first, second),) = desk.kept
    assert "hunter22" not in repr(desk.kept)
    assert (first.args, first.nth, second.nth) == ({"key": "***"}, 1, 2)
    assert second.error == ToolError(type="E", message="*** is wrong")
    # where the secret is another one, or the agent has none, the recording still answers
    replay = Desk(ToolMode.REPLAY, entries=[first, second])
    assert replay.ask("login", key="something else").reply


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.dictionaries(st.sampled_from("xy"), JSON, max_size=2), JSON
    ),
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(CALLS)
def test_a_replay_of_a_recording_gives_every_answer_again(
    calls: list[tuple[str, dict[str, Any], Any]],
) -> None:
    recorder = Desk(ToolMode.RECORD)
    for tool, args, result in calls:
        call, _ = recorder.call(tool, args)
        recorder.tools.keep(call, ToolReply(response=result))
    recorder.tools.finish()
    replay = Desk(ToolMode.REPLAY, entries=list(recorder.kept[0]))
    assert [response(replay.ask(tool, **args)) for tool, args, _ in calls] == [
        result for _, _, result in calls
    ]
