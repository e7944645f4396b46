"""What `--trace` records of an ADK agent's turns, in both ends of the supported range of
google-adk."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders import forked_command, report_page
from builders.nightly import ADKS

from evalgate.agents import DRIVERS, pool
from evalgate.agents.base import AgentFailed, AgentLimits, AgentSetting
from evalgate.agents.worker_process import WorkerConversation
from evalgate.model import AgentFailure, Case, Content, FailureKind, Text, TrialKey
from evalgate.system.python_env import InstallSetup
from tests.integration.agents.line_client import AGENTS, Message, forked_adk

pytestmark = pytest.mark.integration


@pytest.fixture(params=ADKS)
def traced(request: pytest.FixtureRequest, spawn):
    return spawn({"path": "adk_full", "trace": True}, which=request.param, forked=True)


def of_kind(ended: Message, kind: str) -> list[Message]:
    return [entry for entry in ended["trace"] if entry["kind"] == kind]


def test_model_calls_tools_and_events_are_recorded_with_their_times(traced) -> None:
    events, ended = traced.ask(
        'call nap {"seconds": 0.1}', 'call add {"a": 2, "b": 3}', "say rested"
    )
    assert [entry["kind"] for entry in ended["trace"]] == [
        *(
            "agents",
            "model",
            "event",
            "tool",
            "event",
            "model",
            "event",
            "tool",
            "event",
            "model",
            "event",
        ),
    ]
    nap, add = of_kind(ended, "tool")
    assert (add["name"], add["args"], add["response"]) == ("add", {"a": 2, "b": 3}, {"sum": 5})
    assert nap["s"] >= 0.1
    assert add["at"] >= nap["at"] + nap["s"] - 0.002
    models = of_kind(ended, "model")
    assert [entry["response"]["usage_metadata"]["total_token_count"] for entry in models] == [
        12
    ] * 3
    assert [event["at"] for event in events] == [entry["at"] for entry in of_kind(ended, "event")]


def test_a_request_says_what_is_new_since_the_one_before(traced) -> None:
    _, ended = traced.ask('call add {"a": 2, "b": 3}', "say five")
    first, second = (entry["request"] for entry in of_kind(ended, "model"))
    assert first["model"] == "scripted"
    assert "Do as you are told." in json.dumps(first["config"]["system_instruction"])
    assert "add" in json.dumps(first["config"]["tools"])
    assert "http_options" not in first["config"], (
        "where and with which headers a model is asked is nobody's business"
    )
    assert second["same"] == 1
    assert [part for content in second["contents"] for part in content["parts"]][1][
        "function_response"
    ]["response"] == {"sum": 5}
    assert second.keys() == {"same", "contents"}


def test_the_tree_of_agents_is_told(traced) -> None:
    _, ended = traced.ask("transfer helper", "say done")
    root = of_kind(ended, "agents")[0]["root"]
    assert (root["name"], root["type"], root["model"]) == ("full", "LlmAgent", "scripted")
    assert "shout" in root["tools"]
    assert root["agents"] == [
        {"name": "helper", "type": "LlmAgent", "model": "scripted", "tools": ["add"]}
    ]
    assert {entry["agent"] for entry in of_kind(ended, "model")} == {"full", "helper"}
    assert any(
        entry.get("actions", {}).get("transfer_to_agent") == "helper"
        for entry in of_kind(ended, "event")
    )


def test_what_is_long_is_clipped_and_what_is_too_much_is_counted(traced) -> None:
    _, ended = traced.ask("say " + "x" * 30_000)
    (said,) = of_kind(ended, "event")
    assert said["content"]["parts"][0]["text"].endswith(" more characters")
    assert len(json.dumps(ended["trace"])) < 100_000
    _, ended = traced.ask(
        *(f'call shout {{"text": "{"y" * 19_000} {number}"}}' for number in range(20)), "say done"
    )
    assert ended["trace"][-1]["kind"] == "left_out"
    assert len(json.dumps(ended["trace"])) < 1_100_000


def test_nothing_is_recorded_unless_it_is_asked_for(full) -> None:
    _, ended = full.ask("say hello")
    assert "trace" not in ended


def test_a_turn_that_fails_has_its_trace_until_then(traced) -> None:
    """The second model call fails: what was sent with it is known, and all that came before."""
    _, ended = traced.ask('call add {"a": 2, "b": 3}', "raise the model is down")
    assert ended["type"] == "turn_failed"
    # newer versions of google-adk make an event of the error, too
    assert [entry["kind"] for entry in ended["trace"]][:6] == [
        "agents",
        "model",
        "event",
        "tool",
        "event",
        "model",
    ]
    first, second = of_kind(ended, "model")
    assert first["response"]["usage_metadata"]["total_token_count"] == 12
    assert second["error"] == "ValueError: the model is down"
    assert "response" not in second
    assert second["request"]["same"] == 1
    assert "function_response" in json.dumps(second["request"]["contents"])


def gate(folder: Path, *turns: str) -> tuple[Message, report_page.ReportPage]:
    """The outcome of a case of these turns, and the page, of a run with `--trace`."""
    for name in ("adk_full", "scripted_llm.py"):
        copy = shutil.copytree if (AGENTS / name).is_dir() else shutil.copy
        copy(AGENTS / name, folder / name)
    said = [{"role": "user", "parts": [{"text": script}]} for script in turns]
    conversation = [{"user_content": each, "final_response": each} for each in said]
    cases = [{"eval_id": "one", "conversation": conversation}]
    (folder / "adk_full/t.evalset.json").write_text(
        json.dumps({"eval_set_id": "t", "eval_cases": cases})
    )
    forked_command.run(
        ["run", "--trace", "--threshold", "all", "--python", forked_adk("new")],
        cwd=folder,
        env={**os.environ},
    )
    results = json.loads((folder / "evalgate-report/results.json").read_text())
    page = report_page.read((folder / "evalgate-report/report.html").read_text())
    return results["suites"][0]["cases"][0]["trials"][0]["outcome"], page


def test_a_failed_run_with_trace_has_it_in_results_and_page(tmp_path) -> None:
    outcome, page = gate(tmp_path, "say one", 'call add {"a": 2, "b": 3}\nraise broken')
    assert (outcome["kind"], outcome["turn"], len(outcome["partial"])) == ("raised", 2, 1)
    assert [[entry["kind"] for entry in trace].count("model") for trace in outcome["traces"]] == [
        1,
        2,
    ]
    (run,) = page.traces[page.cases["one"]["trace"]]["head"]
    assert run == outcome["traces"]


def test_a_run_with_trace_has_it_in_results_and_page(tmp_path) -> None:
    outcome, page = gate(tmp_path, 'call add {"a": 2, "b": 3}\nsay five')
    assert [entry["kind"] for entry in outcome["traces"][0]].count("model") == 2
    assert outcome["times"][0] == sorted(outcome["times"][0])
    assert page.index["traces"] == 1
    assert page.cases["one"]["trace"] == 0
    (turn,) = page.cases["one"]["runs"]["head"][0]["turns"]
    assert [event["at"] for event in turn["events"]] == outcome["times"][0]


SECRET = "correct-horse-battery"


@contextmanager
def conversing(folder: Path, **limits: float) -> Iterator[WorkerConversation]:
    """With `adk_full`, whose environment has a secret."""
    world = InstallSetup(
        environment={"PATH": "/usr/bin:/bin", "MY_API_KEY": SECRET}, cache=str(folder), log=str
    )
    driver = DRIVERS["adk"]
    options = driver.options.model_validate({"path": "adk_full", "python": forked_adk("new")})
    setting = AgentSetting(root=str(AGENTS), world=world, trace=True, limits=AgentLimits(**limits))
    agent = driver.open(options, setting)
    try:
        with agent.converse(
            Case(case_id="c", conversation=()), TrialKey(suite="s", case_id="c")
        ) as conversation:
            yield conversation
    finally:
        agent.close()


def script(*lines: str) -> Content:
    return Content(role="user", parts=(Text(text="\n".join(lines)),))


@pytest.mark.parametrize(
    ("most", "kept", "last"),
    # a whole turn, or that it was left out
    [(10**6, 5, "say done"), (10**6, 5, "raise broken"), (10, 1, "say done")],
)
def test_what_is_kept_has_no_secrets_and_a_limit(
    tmp_path, monkeypatch, most: int, kept: int, last: str
) -> None:
    monkeypatch.setattr(pool, "TRACES_BYTES", most)
    said = script(f'call shout {{"text": "{SECRET}"}}', last)
    with conversing(tmp_path) as conversation:
        if last == "say done":
            trace = conversation.send(said).trace
        else:
            with pytest.raises(AgentFailed) as error:
                conversation.send(said)
            trace = error.value.failure.trace
    told = json.dumps(trace)
    assert SECRET not in told
    assert ("***" in told) is (kept > 1)
    assert len(trace) >= kept
    assert (trace[0]["kind"] == "left_out") is (kept == 1)


@pytest.mark.parametrize(
    ("lines", "kind", "last"),
    [
        # how the second model call or the tool ends, and what is the last that is known
        (("wait 60",), FailureKind.TIMEOUT, "model"),
        # the whole process stands still, and cannot be asked for anything
        (('call block {"seconds": 60}',), FailureKind.TIMEOUT, "tool"),
        (('call kill {"by": 9}',), FailureKind.KILLED, "tool"),
    ],
)
def test_what_was_recorded_outlives_the_agent(
    tmp_path, lines: tuple[str, ...], kind: FailureKind, last: str
) -> None:
    with conversing(tmp_path, turn_timeout_s=6.0) as conversation:
        conversation.send(script("say ready"))
        with pytest.raises(AgentFailed) as error:
            conversation.send(script('call add {"a": 2, "b": 3}', *lines))
    failure: AgentFailure = error.value.failure
    assert (failure.kind, failure.turn) == (kind, 2)
    assert [turn.trace[0]["kind"] for turn in failure.partial] == ["agents"]
    models = [entry for entry in failure.trace if entry["kind"] == "model"]
    assert "function_response" in json.dumps(models[1]["request"])
    assert failure.trace[-1]["kind"] == last
    assert "s" not in failure.trace[-1]
