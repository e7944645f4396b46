"""The workers for agents that are not ADK's, against the real packages with a scripted model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents.base import AgentFailed
from evalgate.model import Case, Content, FailureKind, Text, TrialKey
from evalgate.wings.frameworks.drivers import HOSTS
from tests.integration.agents.line_client import (
    AGENTS,
    Message,
    Worker,
    forked_adk,
    framework_python,
    framework_zygote,
    responses,
    texts,
)

pytestmark = pytest.mark.integration

KINDS = {
    "langgraph": "graphs",
    "pydantic_ai": "pydantics",
    "openai_agents": "openais",
    "smolagents": "smols",
    "strands": "strandeds",
    "llama_index": "llamas",
    "autogen": "autogens",
    "agent_framework": "microsofts",
}
TELLING = ("smolagents", "strands", "llama_index", "autogen", "agent_framework")
"""Frameworks that tell their models what a tool raised."""

ALL = pytest.mark.parametrize("kind", KINDS)
OSLO = 'call weather {"city": "Oslo"}'
GRAPH = {"input": "messages", "output": "messages"}

Start = Callable[..., Worker]


@pytest.fixture(scope="module")
def workers() -> Iterator[Start]:
    """Starts workers, each once; they are gone after the module."""
    started: dict[str, Worker] = {}

    def run(kind: str, name: str = "agent", *, tools: str = "", **more: Any) -> Worker:
        options = {"call": f"{KINDS[kind]}:{name}", "path": "frameworks", **GRAPH, **more}
        trace = options.pop("trace", "")
        key = f"{kind} {tools} {options} {trace}"
        if key not in started:
            environment = {"TRACE": trace} if trace else {}
            started[key] = Worker(
                "", str(HOSTS / kind), options, AGENTS, environment, tools, framework_zygote()
            )
        return started[key]

    yield run
    for worker in started.values():
        worker.close()


def calls(events: list[Message]) -> list[tuple[str, Message]]:
    parts = [part for event in events for part in event["content"]["parts"]]
    return [
        (part["function_call"]["name"], part["function_call"]["args"])
        for part in parts
        if "function_call" in part
    ]


# --- what is told of a turn ---


@ALL
def test_turns_with_tools_and_the_conversation_so_far(workers: Start, kind: str) -> None:
    worker = workers(kind)
    assert worker.greeting["type"] == "ready", worker.greeting
    assert worker.greeting["about"]["framework_version"]
    for session in ("first", "second"):  # the second begins anew
        worker.start(session)
        events, ended = worker.turn(
            session, OSLO, 'call weather {"city": "Rome", "unit": "F"}', "say (turns)"
        )
        assert calls(events) == [
            ("weather", {"city": "Oslo"}),
            ("weather", {"city": "Rome", "unit": "F"}),
        ]
        assert responses(events) == [{"result": "sunny in Oslo"}, {"result": "sunny in Rome"}]
        assert [event["content"]["parts"] for event in events if event["final"]] == [
            [{"text": "turn 1"}]
        ]
        used = [event["usage_metadata"] for event in events if event.get("usage_metadata")]
        assert (
            used
            == [{"prompt_token_count": 10, "candidates_token_count": 2, "total_token_count": 12}]
            * 3
        )
        assert {event["model_version"] for event in events if event.get("usage_metadata")} == {
            "scripted-1"
        }
        assert ended["agents"][0]["instructions"]
        assert ended["timings"]["total_s"] >= ended["timings"]["model_s"]
        events, _ = worker.turn(session, "say (turns)")
        assert texts(events) == ["turn 2"]
        worker.end(session)


@ALL
def test_an_agent_that_a_function_makes(workers: Start, kind: str) -> None:
    events, ended = workers(kind, "make").ask(OSLO, "say hello")
    assert ended["type"] == "turn_end", ended
    assert (calls(events), texts(events)) == ([("weather", {"city": "Oslo"})], ["hello"])


@pytest.mark.parametrize(
    ("kind", "lines", "failure", "told"),
    [
        # what a model or its client raises, with its status
        *((kind, ["raise 429"], "rate_limited", "429") for kind in KINDS),
        *((kind, ["raise 503"], "unreachable", "503") for kind in KINDS),
        *((kind, ["raise boom"], "raised", "boom") for kind in KINDS),
        # what a tool raises and nobody handles
        ("langgraph", ['call broken {"what": "no paper"}'], "raised", "ValueError: no paper"),
        ("pydantic_ai", ['call broken {"what": "no paper"}'], "raised", "ValueError: no paper"),
        ("openai_agents", ['call severe {"what": "no paper"}'], "raised", "no paper"),
        # a tool that is not there
        ("openai_agents", ["call nothing {}"], "raised", "nothing not found"),
        # an approval that nobody gives
        ("openai_agents", ['call approved {"what": "x"}'], "raised", "an approval of approved"),
        # more steps than the agent may take
        ("smolagents", [OSLO, OSLO, OSLO, OSLO, OSLO], "raised", "no final answer within 4 steps"),
        ("agent_framework", ['call approved {"what": "x"}'], "raised", "an approval of 'approved'"),
    ],
)
def test_what_goes_wrong_is_the_agents_failure(
    workers: Start, kind: str, lines: list[str], failure: str, told: str
) -> None:
    worker = workers(kind)
    _, ended = worker.ask(*lines)
    assert (ended["type"], ended.get("kind")) == ("turn_failed", failure), ended
    assert told in ended["message"]
    assert texts(worker.ask("say on")[0]) == ["on"]


@pytest.mark.parametrize(
    ("kind", "line", "response"),
    [
        # errors that the framework tells its model
        (
            "openai_agents",
            'call broken {"what": "no paper"}',
            "An error occurred while running the tool",
        ),
        *((kind, 'call broken {"what": "no paper"}', "no paper") for kind in TELLING),
        # tools that are not there
        ("langgraph", 'call nothing {"a": 1}', "nothing is not a valid tool"),
        ("pydantic_ai", 'call nothing {"a": 1}', "Unknown tool name"),
        ("smolagents", 'call nothing {"a": 1}', "no such tool"),
        ("strands", 'call nothing {"a": 1}', "Unknown tool"),
        ("llama_index", 'call nothing {"a": 1}', "Tool nothing not found"),
        ("autogen", 'call nothing {"a": 1}', "not found in any workbench"),
        ("agent_framework", 'call nothing {"a": 1}', "not found"),
    ],
)
def test_a_call_that_the_model_hears_went_wrong_is_told(
    workers: Start, kind: str, line: str, response: str
) -> None:
    events, ended = workers(kind).ask(line, "say sorry")
    assert ended["type"] == "turn_end", ended
    name = line.split()[1]
    assert [name for name, _ in calls(events)] == [name]
    assert response in str(responses(events)[0])
    assert [event["content"]["parts"] for event in events if event["final"]] == [
        [{"text": "sorry"}]
    ]


@pytest.mark.parametrize("kind", ["pydantic_ai", "openai_agents"])
def test_the_state_is_what_tools_get_and_leave(workers: Start, kind: str) -> None:
    worker = workers(kind)
    for _ in range(2):  # no conversation sees another's
        worker.start("s", state={"user": "ada"})
        worker.turn("s", 'call remember {"word": "tide"}', "say kept")
        assert worker.end("s")["state"] == {"user": "ada", "words": ["tide"]}
    worker = workers(kind, context=f"{KINDS[kind]}:words")
    for _ in range(2):
        worker.start("s")
        events, _ = worker.turn("s", 'call remember {"word": "tide"}', "say kept")
        assert responses(events) == [{"result": "kept 2"}]
        assert worker.end("s")["state"] == {"words": ["first", "tide"]}


PROGRAMS = {
    "langgraph": "graphs.agent.invoke({'messages': [('user', input())]})",
    "pydantic_ai": "pydantics.agent.run_sync(input())",
    "openai_agents": "from agents import Runner\nRunner.run_sync(openais.agent, input())",
    "smolagents": "print(smols.agent.run(input()))",
    "strands": "strandeds.agent(input())",
    "llama_index": "async def main():\n    await llamas.agent.run(user_msg=input())\nasyncio.run(main())",
    "autogen": "asyncio.run(autogens.agent.run(task=input()))",
    "agent_framework": "async def main():\n    await microsofts.agent.run('Hello')\nasyncio.run(main())",
}
"""Programs that ask the agent, blocking or not, in and outside an event loop."""


@ALL
def test_the_agent_that_a_program_asks_first(workers: Start, kind: str, tmp_path: Path) -> None:
    (tmp_path / f"{kind}_program.py").write_text(
        f"import asyncio\nimport {KINDS[kind]}\n{PROGRAMS[kind]}\nraise ValueError('it went on')\n"
    )
    call = {"call": f"{kind}_program:__main__", "path": str(tmp_path)}
    worker = workers(kind, import_roots=[str(AGENTS / "frameworks")], **call)
    assert worker.greeting["sessions"] == 1
    for session in ("first", "second"):
        worker.start(session)
        events, _ = worker.turn(session, OSLO, "say (turns)")
        assert responses(events) == [{"result": "sunny in Oslo"}]
        assert [event["content"]["parts"] for event in events if event["final"]] == [
            [{"text": "turn 1"}]
        ]
        worker.end(session)


FLOW = """
import asyncio
import llamas
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

class Flow(Workflow):
    @step
    async def go(self, event: StartEvent) -> StopEvent:
        return StopEvent(result=str(await llamas.agent.run(user_msg=event.topic)))

async def main():
    await Flow().run(topic="a")

asyncio.run(main())
"""
WORKFLOW = """
import asyncio
import microsofts
from agent_framework import WorkflowBuilder

async def main():
    await WorkflowBuilder(start_executor=microsofts.agent).build().run("Hello")

asyncio.run(main())
"""


def test_an_agent_inside_a_flow_is_not_the_program(workers: Start, tmp_path: Path) -> None:
    (tmp_path / "desk_flow.py").write_text(FLOW)
    (tmp_path / "desk_workflow.py").write_text(WORKFLOW)
    roots = {"path": str(tmp_path), "import_roots": [str(AGENTS / "frameworks")]}
    worker = workers("llama_index", call="desk_flow:__main__", **roots)
    worker.say(type="start", session="s", app_name="", user_id="", state={})
    ended = worker.hear("turn_failed", session="s")
    assert "desk_flow:__main__ gave a Flow, not an agent" in ended["message"]
    # a workflow of the Agent Framework is an agent, too
    worker = workers("agent_framework", call="desk_workflow:__main__", **roots)
    events, _ = worker.ask("say hello")
    assert any(part.get("text") == "hello" for e in events for part in e["content"]["parts"])


@pytest.mark.parametrize("kind", ["langgraph", "pydantic_ai", "openai_agents"])
def test_what_tools_are_given_is_made_of_the_state_or_asked_for(workers: Start, kind: str) -> None:
    worker = workers(kind, "typed")
    worker.start("s", state={"user": "ada", "other": 1})
    events, ended = worker.turn("s", "call whose {}", "say done")
    assert responses(events) == [{"result": "ada"}], ended
    worker.end("s")
    # the session is not opened, and says what it lacks
    worker.say(type="start", session="t", app_name="", user_id="", state={})
    ended = worker.hear("turn_failed", session="t")
    assert "are given a Desk, which needs user" in ended["message"]
    assert "`context: module:name`" in ended["message"]


@pytest.mark.parametrize("kind", ["strands", "llama_index"])
def test_the_state_is_the_agents_own(workers: Start, kind: str) -> None:
    worker = workers(kind)
    for _ in range(2):  # no conversation sees another's
        worker.start("s", state={"user": "ada"})
        events, _ = worker.turn("s", 'call remember {"word": "tide"}', "say kept")
        assert responses(events) == [{"result": "kept 1"}]
        assert worker.end("s")["state"] == {"user": "ada", "words": ["tide"]}


def test_a_team_answers_with_its_last_message(workers: Start) -> None:
    events, _ = workers("autogen", "team").ask("say hello")
    assert [event["content"]["parts"] for event in events if event["final"]] == [
        [{"text": "hello"}]
    ]
    events, _ = workers("llama_index", "team").ask(
        'call handoff {"to_agent": "clerk", "reason": "x"}', "say over"
    )
    assert calls(events) == [("handoff", {"to_agent": "clerk", "reason": "x"})]
    assert events[-1]["author"] == "clerk"


def test_the_state_of_agents_that_write_code(workers: Start) -> None:
    worker = workers("smolagents", "coder")
    worker.start("s", state={"user": "ada"})
    events, _ = worker.turn("s", OSLO, "say hello")
    assert calls(events) == [("weather", {"city": "Oslo"})]
    assert [event["content"]["parts"] for event in events if event["final"]] == [
        [{"text": "hello"}]
    ]
    assert worker.end("s")["state"]["user"] == "ada"
    worker.start("t")
    assert "user" not in worker.end("t")["state"]


def test_a_graph_with_a_state_of_its_own(workers: Start) -> None:
    """Not compiled, without messages, and with a tool that one of its nodes calls."""
    worker = workers("langgraph", "plain", input="question", output="answer")
    worker.start("s", state={"bonus": 5})
    events, _ = worker.turn("s", "Oslo")
    assert (calls(events), texts(events)) == (
        [("weather", {"city": "Oslo"})],
        ["sunny in Oslo (6)"],
    )
    assert texts(worker.turn("s", "Rome")[0]) == ["sunny in Rome (7)"]
    assert worker.end("s")["state"] == {
        "question": "Rome",
        "answer": "sunny in Rome (7)",
        "turns": 2,
        "bonus": 5,
    }
    # a usual name of the answer is found
    events, _ = workers("langgraph", "plain", input="question").ask("Oslo")
    assert texts(events) == ["sunny in Oslo (1)"]


def test_a_graph_that_asks_back(workers: Start) -> None:
    worker = workers("langgraph", "careful")
    worker.start("s")
    assert texts(worker.turn("s", "go")[0]) == ["really?"]
    assert texts(worker.turn("s", "yes")[0]) == ["you said yes"]
    assert texts(worker.turn("s", "again")[0]) == ["really?"]


def test_an_output_of_a_type_of_its_own_is_an_answer_and_no_tool(workers: Start) -> None:
    events, _ = workers("pydantic_ai", "structured").ask(OSLO, 'call final_result {"name": "Oslo"}')
    assert calls(events) == [("weather", {"city": "Oslo"})]
    assert [event["content"]["parts"] for event in events if event["final"]] == [
        [{"text": '{"name": "Oslo"}'}]
    ]


def test_a_handoff_is_a_call_and_who_took_over_goes_on(workers: Start) -> None:
    worker = workers("openai_agents")
    worker.start("s")
    events, _ = worker.turn("s", "call transfer_to_clerk {}", "say hello")
    assert calls(events) == [("transfer_to_clerk", {})]
    assert [event["author"] for event in events if event["final"]] == ["clerk"]
    events, _ = worker.turn("s", "say still")
    assert events[-1]["author"] == "clerk"


@ALL
def test_more_than_text_is_refused(workers: Start, kind: str) -> None:
    worker = workers(kind)
    worker.start("s")
    picture = {"inline_data": {"mime_type": "image/png", "data": "AAAA"}}
    worker.say(
        type="turn", session="s", content={"role": "user", "parts": [{"text": "look"}, picture]}
    )
    assert "get only text" in worker.end_turn("s")[1]["message"]


# --- loading ---


@ALL
def test_what_is_no_agent_is_told(workers: Start, kind: str) -> None:
    greeting = workers(kind, "not_an_agent").greeting
    assert greeting["type"] == "fatal"
    assert f"{KINDS[kind]}:not_an_agent" in greeting["message"]
    assert "it is a int, not an agent of" in greeting["message"]
    assert "no 'missing'" in workers(kind, "missing").greeting["message"]


def test_versions_that_are_not_supported_are_told(workers: Start, tmp_path: Path) -> None:
    (tmp_path / "smolagents-0.9.0.dist-info").mkdir()
    (tmp_path / "smolagents-0.9.0.dist-info" / "METADATA").write_text(
        "Name: smolagents\nVersion: 0.9.0\n"
    )
    environment = {"PYTHONPATH": str(tmp_path)}
    worker = Worker(
        framework_python(), str(HOSTS / "smolagents"), {"call": "smols:agent"}, AGENTS, environment
    )
    worker.close()
    assert worker.greeting["type"] == "fatal"
    assert "smolagents 0.9.0 is installed" in worker.greeting["message"]
    assert "smolagents>=1.10,<2" in worker.greeting["message"]


def test_a_framework_that_is_not_there_is_told(spawn) -> None:
    greeting = spawn(
        {"call": "graphs:agent", "path": "frameworks"}, kind=str(HOSTS / "langgraph")
    ).greeting
    assert "langgraph is not installed" in greeting["message"]
    assert "langgraph>=0.2.74,<2" in greeting["message"]


# --- tools that are asked about ---


def answered(worker: Worker, session: str, **answer: Any) -> Message:
    """Hear a call, and answer it."""
    asked = worker.hear("tool_call", session=session)
    worker.say(type="tool_response", session=session, call=asked["call"], **answer)
    return asked


CODERS = [*((kind, "agent") for kind in KINDS), ("smolagents", "coder")]


@pytest.mark.parametrize(("kind", "name"), CODERS)
def test_a_tool_is_asked_about_and_does_not_run(
    workers: Start, kind: str, name: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    worker = workers(kind, name, tools="replay", trace=str(trace))
    assert worker.greeting["tools"] is True, worker.greeting
    worker.start("s")
    worker.begin_turn("s", f"{OSLO}\nsay done")
    asked = answered(worker, "s", response="rain")
    assert (asked["name"], asked["args"], asked["kind"]) == ("weather", {"city": "Oslo"}, "tool")
    events, ended = worker.end_turn("s")
    assert ended["type"] == "turn_end", ended
    assert responses(events) == [{"result": "rain"}]
    assert not trace.exists()
    worker.end("s")

    worker.start("t")
    worker.begin_turn("t", f"{OSLO}\nsay done")
    answered(worker, "t", run=True, report=True)
    assert worker.hear("tool_result", session="t")["response"] == "sunny in Oslo"
    events, _ = worker.end_turn("t")
    assert responses(events) == [{"result": "sunny in Oslo"}]
    assert trace.read_text() == "weather Oslo C\n"
    worker.end("t")

    worker.start("u")
    worker.begin_turn("u", f"{OSLO}\nsay handled")
    answered(worker, "u", error={"type": "ValueError", "message": "the backend is down"})
    events, ended = worker.end_turn("u")
    if kind not in ("langgraph", "pydantic_ai"):  # they tell their models
        assert texts(events)[-1] == "handled"
    else:
        assert "the backend is down" in ended["message"]
    assert trace.read_text() == "weather Oslo C\n"


@ALL
def test_a_call_of_a_tool_that_is_not_there_is_no_answer_of_one(workers: Start, kind: str) -> None:
    """An answer of a tool that was not asked about would mean that it ran."""
    events, _ = workers(kind, tools="replay").ask("call nothing {}", "say sorry")
    assert responses(events) == []


def test_an_answer_that_changes_the_graph_cannot_be_recorded(workers: Start) -> None:
    assert (
        workers("langgraph").ask('call moved {"city": "Oslo"}', "say moved")[1]["type"]
        == "turn_end"
    )
    worker = workers("langgraph", tools="record")
    worker.start("s")
    worker.begin_turn("s", 'call moved {"city": "Oslo"}\nsay moved')
    answered(worker, "s", run=True, report=True)
    assert "answers with a Command, which cannot be recorded" in worker.end_turn("s")[1]["message"]


# --- tools that block ---


BLOCKING = {
    **{
        kind.replace("_", "-"): {"call": f"{module}:agent", "path": "frameworks"}
        for kind, module in KINDS.items()
    },
    **{
        name: {"call": f"{KINDS[name]}:make", "path": "frameworks"}
        for name in ("smolagents", "strands", "autogen")
    },
    "adk": {"path": "adk_full"},
}


@pytest.mark.parametrize("driver", BLOCKING)
def test_a_tool_that_blocks_stops_its_own_conversation_only(opened, driver: str) -> None:
    python = forked_adk("new") if driver == "adk" else framework_zygote().python
    agent = opened(driver, {**BLOCKING[driver], "python": python}, turn_timeout_s=6, sessions=2)

    def talk(conversation: Any, text: str) -> str:
        answer = conversation.send(Content(role="user", parts=(Text(text=text),))).final_response
        return str(answer.parts[0].text)

    cases = [Case(case_id=name, conversation=()) for name in ("a", "b")]
    keys = [TrialKey(suite="s", case_id=case.case_id) for case in cases]
    conversations = [agent.converse(case, key) for case, key in zip(cases, keys, strict=True)]
    with conversations[0] as first, conversations[1] as second, ThreadPoolExecutor() as pool:
        blocked = pool.submit(talk, first, 'call block {"seconds": 60}')
        for number in range(4):
            assert talk(second, f"say {number}") == str(number)
            time.sleep(0.3)
        assert not blocked.done()
        error = blocked.exception()
    assert isinstance(error, AgentFailed)
    assert error.failure.kind is FailureKind.TIMEOUT
    assert error.failure.message.endswith(" (`turn-timeout`), while the tool 'block' was running")
