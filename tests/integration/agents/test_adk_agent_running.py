"""What an ADK agent does comes through the protocol, in both ends of the supported range of
google-adk."""

from __future__ import annotations

import json
import time

import pytest
from builders.nightly import ADKS, BY_NIGHT

from tests.integration.agents.line_client import Message, responses, texts

pytestmark = pytest.mark.integration


def test_calls_responses_and_the_answer_come_in_order(full) -> None:
    events, ended = full.ask('call add {"a": 2, "b": 3}', "think deep", "say never reached")
    call, answered, last = events
    assert call["content"]["parts"][0]["function_call"]["args"] == {"a": 2, "b": 3}
    assert responses([answered]) == [{"sum": 5}]
    assert [event["final"] for event in events] == [False, False, True]
    assert last["content"]["parts"][0] == {"text": "deep", "thought": True}
    assert last["model_version"] == "scripted-1"
    assert last["usage_metadata"]["total_token_count"] == 12
    assert {event["author"] for event in events} == {"full"}
    assert ended["type"] == "turn_end"
    assert ended["invocation_id"]


def test_what_the_agent_was_told_and_given_is_recorded(full) -> None:
    _, ended = full.ask("transfer helper", 'call add {"a": 1, "b": 1}', "say done")
    assert [agent["name"] for agent in ended["agents"]] == ["full", "helper"]
    root, helper = ended["agents"]
    assert "Do as you are told." in root["instructions"]
    assert "Help." in helper["instructions"]
    names = [
        declaration["name"]
        for tool in helper["tool_declarations"]
        for declaration in tool["function_declarations"]
    ]
    assert "add" in names
    assert "shout" not in names


def test_what_the_agent_is_made_of_is_told_when_it_is_loaded(full) -> None:
    told = full.greeting["description"]
    assert told["packages"]["google-adk"] == full.greeting["about"]["framework_version"]
    agents = {each["name"]: each for each in told["agents"]}
    assert list(agents) == ["full", "helper"]
    assert agents["full"]["sub_agents"] == ["helper"]
    assert agents["helper"]["instruction"] == "Help."
    assert agents["full"]["model"] == "scripted"
    parameters = agents["full"]["tools"]["remember"]["parameters"]
    assert parameters
    assert "tool_context" not in parameters


def test_the_tree_of_agents_speaks_in_its_own_names(full) -> None:
    events, _ = full.ask("transfer helper", 'call add {"a": 1, "b": 1}', "say done")
    assert events[0]["author"] == "full"
    assert events[-1]["author"] == "helper"
    assert texts(events[-1:]) == ["done"]


def test_timings_tell_models_from_tools(full) -> None:
    _, ended = full.ask('call nap {"seconds": 0.3}', "wait 0.2", "say rested")
    timings = ended["timings"]
    assert 0.3 <= timings["tool_s"] < 0.5
    assert 0.2 <= timings["model_s"] < 0.45
    assert timings["total_s"] >= timings["tool_s"] + timings["model_s"] - 0.002


def test_a_conversation_goes_on_and_its_state_is_told_at_the_end(full) -> None:
    full.start("talk", state={"city": "Oslo"})
    full.turn("talk", 'call remember {"key": "mood", "value": "fine"}', "say noted")
    full.turn("talk", 'call remember {"key": "temp:x", "value": "gone"}', "say noted")
    events, _ = full.turn("talk", 'call recall {"key": "mood"}', "say told")
    assert responses(events) == [{"value": "fine"}]
    assert full.end("talk")["state"] == {"city": "Oslo", "mood": "fine"}


@pytest.mark.parametrize("key", ["plain", "user:liked", "app:banner"])
def test_state_never_leaves_its_session(full, key: str) -> None:
    """ADK itself lets `user:` and `app:` state of one case into the next."""
    same = {"app_name": "app", "user_id": "me", "session_id": "pinned"}
    events, _ = full.ask(
        f'call remember {{"key": "{key}", "value": "leaked"}}',
        f'call recall {{"key": "{key}"}}',
        "say",
        **same,
    )
    assert responses(events)[1] == {"value": "leaked"}
    events, _ = full.ask(f'call recall {{"key": "{key}"}}', "say", **same)
    assert responses(events) == [{"value": None}]


def test_artifacts_never_leave_their_session(full) -> None:
    same = {"app_name": "app", "user_id": "me", "session_id": "pinned"}
    events, _ = full.ask(
        'call save_file {"name": "user:a.txt", "text": "x"}', "call list_files", "say", **same
    )
    assert responses(events) == [{"version": 0}, {"files": ["user:a.txt"]}]
    events, _ = full.ask("call list_files", "say", **same)
    assert responses(events) == [{"files": []}]


def test_sessions_run_at_the_same_time_and_stay_apart(full) -> None:
    names = [f"at-once-{n}" for n in range(8)]
    for name in names:
        full.start(name)
    began = time.monotonic()
    for name in names:
        full.begin_turn(name, f'call nap {{"seconds": 0.5}}\nsay {name}')
    for name in names:
        events, ended = full.end_turn(name)
        assert (texts(events), ended["type"]) == ([name], "turn_end")
    assert time.monotonic() - began < 2.5  # one after another would take four seconds


def test_what_an_agent_prints_is_not_protocol(full) -> None:
    events, ended = full.ask('call shout {"text": "{\\"type\\": \\"bye\\"}"}', "say still here")
    assert ended["type"] == "turn_end"
    assert responses(events) == [{"read": ""}]  # nor can it read what is said to the worker
    assert full.ask("say fine")[1]["type"] == "turn_end"
    assert full.stderr.count('{"type": "bye"}') >= 4


def test_what_json_cannot_say_becomes_text(full) -> None:
    events, ended = full.ask("call odd", "say done")
    assert ended["type"] == "turn_end"
    (answer,) = responses(events)
    assert answer["nan"] == "nan"
    assert answer["tuple"] == [1, 2]
    assert "method-wrapper" in answer["thing"]


FAULTS = [
    # a tool raises
    (["call boom"], "raised", None, "ValueError: the tool broke"),
    # a model raises
    (["raise odd"], "raised", None, "ValueError: odd"),
    # the client library's errors, by status
    (["raise 429"], "rate_limited", 429, "scripted"),
    (["raise 503"], "unreachable", 503, "scripted"),
    (["raise 400"], "model_error", 400, "scripted"),
    # no connection
    (["raise httpx"], "unreachable", None, "no route to host"),
    (["raise refused"], "unreachable", None, "connection refused"),
    # an answer that is an error
    (["error UNKNOWN_ERROR odd"], "model_error", None, "UNKNOWN_ERROR: odd"),
    (["error RESOURCE_EXHAUSTED quota"], "rate_limited", 429, "quota"),
    (["error 503 overloaded"], "unreachable", 503, "overloaded"),
    # a tool leaves
    (['call leave {"code": 7}'], "exited", None, "sys.exit(7)"),
]


@pytest.mark.parametrize(("script", "kind", "code", "told"), FAULTS)
def test_a_fault_ends_its_turn_and_nothing_else(
    full, script: list[str], kind: str, code: int | None, told: str
) -> None:
    other = f"bystander-{script[0]}"
    full.start(other)
    full.begin_turn(other, 'call nap {"seconds": 0.2}\nsay unharmed')
    _, ended = full.ask(*script)
    assert (ended["type"], ended["kind"], ended.get("code")) == ("turn_failed", kind, code), ended
    assert told in ended["message"]
    events, unharmed = full.end_turn(other)
    assert (texts(events), unharmed["type"]) == (["unharmed"], "turn_end")
    full.end(other)


@pytest.mark.parametrize("code", ["SAFETY", "RECITATION", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL"])
def test_a_models_stop_code_is_its_answer(full, code: str) -> None:
    events, ended = full.ask(f"error {code} blocked")
    assert ended["type"] == "turn_end", ended
    assert [event.get("error_code") for event in events] == [code]
    assert events[-1]["error_message"] == "blocked"


QUESTIONS = [
    # a tool that wants a confirmation: it runs, or the model is told that it may not
    ("kind_confirmation", "always", {"sum": 3}),
    ("kind_confirmation", "never", {"error": "This tool call is rejected."}),
    # one that asks while it runs
    ("kind_confirmation_of_a_tool_context", "always", {"status": "done"}),
    ("kind_confirmation_of_a_tool_context", "never", {"status": "kept"}),
]


@pytest.mark.parametrize("which", ADKS)
@pytest.mark.parametrize(("agent", "approve", "answer"), QUESTIONS)
def test_approve_answers_the_frameworks_questions(
    spawn, which: str, agent: str, approve: str, answer: Message
) -> None:
    options = {"path": "adk_kinds", "agent": agent}
    asking = spawn(options, which=which, forked=True)
    events, ended = asking.ask("hello")
    assert ended["type"] == "turn_end", ended
    assert answer not in responses(events)  # as under adk eval: it waits for the user
    asking.close()
    approving = spawn(options | {"approve": approve}, which=which, forked=True)
    events, ended = approving.ask("hello")
    assert ended["type"] == "turn_end", ended
    assert responses(events)[-1] == answer
    assert texts(events)[-1:] != []  # and the turn goes on to an answer


@pytest.mark.parametrize(
    ("approve", "said"), [(None, []), ("always", ["it was yes"]), ("never", ["it was no"])]
)
def test_a_workflow_that_waits_for_a_person_goes_on(
    spawn, approve: str | None, said: list[str]
) -> None:
    options = {"path": "adk_kinds", "agent": "kind_workflow_with_human_input"}
    worker = spawn(options | ({"approve": approve} if approve else {}), which="new", forked=True)
    events, ended = worker.ask("hello")
    assert ended["type"] == "turn_end", ended
    assert texts(events) == said


def test_a_credential_is_never_invented(spawn) -> None:
    options = {"path": "adk_kinds", "agent": "kind_oauth_tool", "approve": "always"}
    worker = spawn(options, which="new", forked=True)
    events, ended = worker.ask("hello")
    assert ended["type"] == "turn_end", ended
    assert {"sum": 3} not in responses(events)


def test_a_fault_shows_the_users_lines(full) -> None:
    _, ended = full.ask("call boom")
    assert 'raise ValueError("the tool broke")' in ended["detail"]
    assert "site-packages" not in ended["detail"]


def test_a_second_turn_may_fail(full) -> None:
    full.start("two")
    assert full.turn("two", "say fine")[1]["type"] == "turn_end"
    events, ended = full.turn("two", 'call add {"a": 1, "b": 1}', "call boom")
    assert responses(events)[:1] == [{"sum": 2}]  # what was done before the fault is not lost
    assert ended["type"] == "turn_failed"


def test_an_unknown_session_is_a_fault_of_that_turn(full) -> None:
    full.begin_turn("never started", "say hello")
    assert full.end_turn("never started")[1]["type"] == "turn_failed"
    assert full.ask("say fine")[1]["type"] == "turn_end"


def test_it_leaves_when_it_is_told_to_or_left_alone(spawn) -> None:
    assert spawn({"path": "adk_plain"}).bye() == 0
    left = spawn({"path": "adk_plain"})
    left.process.stdin.close()
    assert left.process.wait(30) == 0


def test_telemetry_that_somebody_records_is_what_the_framework_would_give(spawn) -> None:
    # While nothing records them, model calls are not described; an agent may begin to record at any
    # time.
    worker = spawn({"path": "adk_recorded.py"})
    worker.ask("record")
    worker.ask("tell")
    events, _ = worker.ask("tell")
    [told] = texts(events)
    assert "gen_ai.provider.name" in told
    assert 'gen_ai.system"' not in told


def test_garbage_of_an_import_goes_and_an_agents_own_settings_of_its_collector_stay(spawn) -> None:
    worker = spawn({"path": "adk_collector.py"})
    events, _ = worker.ask("call collector", "say done")
    assert responses(events) == [{"collected": True, "enabled": False, "threshold": 5000}]


@pytest.mark.parametrize("which", ADKS)
def test_plain_tools_run_in_threads_and_see_what_they_would_see_without(spawn, which: str) -> None:
    for threads in (True, False):
        worker = spawn({"path": "adk_threads", "threads": threads}, which=which, forked=True)
        events, ended = worker.ask(
            "call where", 'call book {"seat": "4A"}', 'call book {"seat": "4B"}', "say done"
        )
        assert ended["type"] == "turn_end", ended
        seats = [{"seats": ["4A"]}, {"seats": ["4A", "4B"]}]
        assert responses(events) == [{"main": not threads, "loop": True}, *seats]
        _, ended = worker.ask("call run_a_loop")
        assert "asyncio.run() cannot be called from a running event loop" in ended["message"]
        _, ended = worker.ask("call first_seat")  # no future may hold a StopIteration
        assert (ended["type"], "StopIteration" in ended["message"]) == ("turn_failed", True)


def test_a_conversation_gets_the_thread_of_an_earlier_one_unless_a_function_still_runs_there(
    spawn,
) -> None:
    worker = spawn({"path": "adk_threads", "threads": True}, forked=True)
    worker.ask("call where", "say done")
    for session in ("blocked", "other"):
        worker.start(session)
    worker.begin_turn("blocked", "call block")
    [other] = responses(worker.turn("other", "call thread", "say done")[0])
    for session in ("blocked", "other"):
        worker.end(session)
    answers = [responses(worker.ask("call thread", "say done")[0]) for _ in range(3)]
    assert answers == [[other]] * 3


DOWN = [
    (
        "toolset",
        "say fine",
        "McpToolset at 127.0.0.1:9 cannot be reached, so the agent lacks its tools",
    ),
    (
        "remote",
        "say fine",
        "RemoteA2aAgent cannot be reached, so the agent lacks its answer: A2A request failed",
    ),
    (
        "sub-agent",
        'call transfer_to_agent {"agent_name": "clerk"}',
        "RemoteA2aAgent cannot be reached",
    ),
    ("agent-tool", 'call clerk {"request": "hi"}', "RemoteA2aAgent cannot be reached"),
]


@pytest.mark.parametrize(
    ("which", "kind", "script", "said"),
    [
        *(("new", *row) for row in DOWN),
        *(pytest.param("old", *row, marks=BY_NIGHT) for row in DOWN),
        # google-adk's own toolset, where the package that it needs is installed
        pytest.param(
            "old",
            "command",
            "say fine",
            "McpToolset at no-such cannot be reached, so the agent lacks its tools",
            marks=BY_NIGHT,
        ),
    ],
)
def test_what_is_down_ends_the_turn_with_its_address(
    spawn, which: str, kind: str, script: str, said: str
) -> None:
    """google-adk would answer without it, as though it had never been there."""
    worker = spawn({"path": "adk_down"}, which=which, environment={"DOWN": kind}, forked=True)
    worker.start("s")
    events, ended = worker.turn("s", script, "say Without it.")
    assert (ended["type"], ended.get("kind")) == ("turn_failed", "unreachable"), ended
    assert said in ended["message"]
    assert "a-secret" not in json.dumps([events, ended])
