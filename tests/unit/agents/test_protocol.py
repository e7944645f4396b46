"""Lines of the protocol, read and written."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from evalgate.agents import protocol
from evalgate.agents.protocol import EventMessage, ProtocolError, Ready, TurnEnd, TurnFailed
from evalgate.model import (
    AgentDescription,
    Case,
    Content,
    ConversationScenario,
    CriterionUse,
    FailureKind,
    Invocation,
    LoadedAgent,
    LoadedTool,
    Persona,
    Rubric,
    SessionInput,
    Text,
    ToolCall,
    TrialView,
)

TURN = Invocation(user_content=Content(parts=(Text(text="hi"),)))


AGENT = {
    "name": "desk",
    "model": "m",
    "tools": {"find": {"parameters": {"title": "str"}}},
    "sub_agents": ["b"],
}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            {"agents": [AGENT], "packages": {"a": "1"}, "unheard": "of"},
            AgentDescription(
                agents=(
                    LoadedAgent(
                        name="desk",
                        model="m",
                        tools={"find": LoadedTool(parameters={"title": "str"})},
                        sub_agents=("b",),
                    ),
                ),
                packages={"a": "1"},
            ),
        ),
        # a secret stands nowhere, and is taken out before texts are cut
        (
            {"packages": {"t0ken-x": "a t0ken-x"}},
            AgentDescription(packages={"***": "a ***"}),
        ),
        (
            {"packages": {"a": "x" * 30_000}},
            AgentDescription(packages={"a": "x" * protocol.MOST_TEXT}),
        ),
        # it is for reports only, so that nonsense is no failure
        (None, None),
        ("me", None),
        ([], None),
        ({"agents": [{"model": "m"}]}, None),
        ({"agents": [{"name": {"a": "b"}}]}, None),
        ({"packages": {"a": 1}}, None),
    ],
)
def test_what_an_agent_is_made_of(told: Any, expected: AgentDescription | None) -> None:
    read = protocol.parse_worker_message(line(type="ready", protocol=1, description=told))
    assert isinstance(read, Ready)
    found = protocol.description_of(
        read.description, redact=lambda text: text.replace("t0ken-x", "***")
    )
    assert found == expected


def test_a_description_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(1_000):
        deep = [deep]
    huge = {f"p{number}": "v" * 10_000 for number in range(5_000)}
    found = protocol.description_of({"packages": huge, "unheard": deep}, redact=str)
    assert found is not None
    assert len(found.packages) <= protocol.MOST_ENTRIES
    assert (
        sum(len(each) for pair in found.packages.items() for each in pair)
        <= protocol.MOST_CHARACTERS
    )


def line(**message: Any) -> bytes:
    return json.dumps(message).encode()


def event(**fields: Any) -> EventMessage:
    read = protocol.parse_worker_message(line(type="event", session="s1", **fields))
    assert isinstance(read, EventMessage)
    return read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"Hello!", "is not JSON"),
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[1]", "is not a JSON object"),
        (b"{}", "has no type"),
        (b'{"type":"wave"}', "has an unknown type 'wave'"),
        (b'{"type":"event"}', "session"),  # names the field
        (
            b'{"type":"event","session":"s1","content":{"parts":[{"text":1}]}}',
            "content.parts.0.text",
        ),
        (b'{"type":"ready","protocol":1,"sessions":0}', "sessions"),
        (b'{"type":"turn_end","session":"s1","timings":{"total_s":-1}}', "timings.total_s"),
        (b"[" * 100_000, "is not JSON"),  # as deep as no parser goes
    ],
)
def test_a_line_that_is_no_message_is_refused_with_the_reason(text: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why.replace(".", r"\.")):
        protocol.parse_worker_message(text)


def test_unknown_keys_are_ignored_at_every_depth() -> None:
    parts = [
        {"text": "hi", "hologram": {"x": 1}},
        {"function_call": {"name": "f", "args": {"keep": 1}, "mood": 2}},
    ]
    step = event(content={"role": "model", "parts": parts, "colour": "red"}, weather="fine").step()
    assert step.content == Content(
        parts=(Text(text="hi"), ToolCall(name="f", args={"keep": 1})), role="model"
    )


def test_an_unknown_key_does_not_hide_a_fault_beside_it() -> None:
    with pytest.raises(ProtocolError, match="text"):
        event(content={"parts": [{"text": 5}, {"text": "a", "new": 1}]})


def test_both_spellings_are_read() -> None:
    snake = event(
        content={"parts": [{"function_call": {"name": "f"}}]},
        usage_metadata={"prompt_token_count": 3},
    )
    camel = event(
        content={"parts": [{"functionCall": {"name": "f"}}]}, usageMetadata={"promptTokenCount": 3}
    )
    assert snake.step() == camel.step()


def test_half_an_emoji_becomes_a_question_mark() -> None:
    text = b'{"type":"event","session":"s1","content":{"parts":[{"text":"a\\ud83d"}]}}'
    read = protocol.parse_worker_message(text)
    assert isinstance(read, EventMessage)
    assert read.step().content == Content(parts=(Text(text="a?"),))


def test_what_is_absent_has_its_documented_meaning() -> None:
    ready = protocol.parse_worker_message(b'{"type":"ready","protocol":1}')
    assert isinstance(ready, Ready)
    assert (ready.sessions, ready.about) == (1, {})
    end = protocol.parse_worker_message(b'{"type":"turn_end","session":"s1"}')
    assert isinstance(end, TurnEnd)
    assert end.timings is None


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("rate_limited", FailureKind.RATE_LIMITED),
        ("start", FailureKind.START),
        ("no such word", FailureKind.RAISED),
    ],
)
def test_a_failure_kind_that_nobody_knows_is_raised(word: str, kind: FailureKind) -> None:
    assert protocol.failure_kind(word) is kind


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_state_survives_the_pipe_on_one_line(state: dict[str, Any]) -> None:
    message = protocol.start("s1", SessionInput(app_name="a", user_id="u"), state, seed=7)
    written = protocol.render_line(message)
    assert written.count(b"\n") == 1
    assert json.loads(written)["state"] == state


def test_type_and_session_come_first_so_that_a_shell_can_find_them() -> None:
    content = Content(parts=(Text(text='he says "session":"s9"'),), role="user")
    written = protocol.render_line(protocol.turn("s1", content))
    assert written.startswith(b'{"type":"turn","session":"s1","content":')
    assert json.loads(written)["content"] == {
        "role": "user",
        "parts": [{"text": 'he says "session":"s9"'}],
    }


def test_none_among_a_tools_arguments_is_kept() -> None:
    content = Content(parts=(ToolCall(name="f", args={"x": None}),))
    assert protocol.turn("s1", content)["content"]["parts"] == [
        {"function_call": {"name": "f", "args": {"x": None}}}
    ]


@pytest.mark.parametrize(
    ("persona", "written"),
    [
        (Persona(persona_id="EXPERT"), "EXPERT"),  # built in: known by its name
        (
            Persona(persona_id="mine", description="d"),
            {"id": "mine", "description": "d", "behaviors": []},
        ),
    ],
)
def test_a_metric_is_told_the_scenario_as_adk_writes_it(persona: Persona, written: object) -> None:
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="plan", persona=persona)
    evidence = TrialView(case=Case(case_id="c", scenario=scenario), actual=(), expected=None)
    said = protocol.metric(
        "m1", code="a.b", use=CriterionUse(name="mine", threshold=0.5), evidence=evidence
    )
    assert said["scenario"] == {
        "starting_prompt": "hi",
        "conversation_plan": "plan",
        "user_persona": written,
    }
    assert said["metric"] == {
        "metric_name": "mine",
        "threshold": 0.5,
        "criterion": {"threshold": 0.5},
    }
    assert said["expected"] is None


def test_a_metric_finds_the_rubrics_where_adk_puts_them() -> None:
    def rubric(name: str) -> Rubric:
        return Rubric(rubric_id=name, text=f"is {name}")

    asked = dataclasses.replace(TURN, rubrics=(rubric("short"),))
    case = Case(case_id="c", conversation=(asked, TURN), rubrics=(rubric("polite"),))
    evidence = TrialView(case=case, actual=(TURN, TURN, TURN), expected=case.conversation)
    said = protocol.metric(
        "m1", code="a.b", use=CriterionUse(name="mine", threshold=None), evidence=evidence
    )
    ids = [[each["rubric_id"] for each in turn["rubrics"]] for turn in said["actual"]]
    assert ids == [["polite", "short"], ["polite"], ["polite"]]


@pytest.mark.parametrize(
    ("said", "wait_s"), [({}, None), ({"retry_after_s": 17}, 17.0), ({"retry_after_s": 0.5}, 0.5)]
)
def test_a_failed_turn_may_say_how_long_to_wait(said: dict[str, Any], wait_s: float | None) -> None:
    read = protocol.parse_worker_message(
        line(type="turn_failed", session="s", kind="rate_limited", message="no", **said)
    )
    assert isinstance(read, TurnFailed)
    assert read.retry_after_s == wait_s


@pytest.mark.parametrize("wait", [-1, float("inf"), float("nan"), "soon"])
def test_a_wait_that_is_none_is_no_message(wait: object) -> None:
    with pytest.raises(ProtocolError, match="retry_after_s"):
        protocol.parse_worker_message(
            line(type="turn_failed", session="s", message="no", retry_after_s=wait)
        )
