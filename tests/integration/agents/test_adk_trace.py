"""What `--trace` records of an ADK agent's turns, in both ends of the supported range of google-adk."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from builders import forked_command, report_page

from evalgate.agents import DRIVERS, pool
from evalgate.agents.base import AgentSetting
from evalgate.model import Case, Content, Text, TrialKey
from evalgate.system.python_env import World
from tests.integration.agents.line_client import AGENTS, Message, adk_python

pytestmark = pytest.mark.integration


@pytest.fixture(params=["new", "old"])
def traced(request: pytest.FixtureRequest, spawn):
    return spawn({"path": "adk_full", "trace": True}, which=request.param, forked=True)


def of_kind(ended: Message, kind: str) -> list[Message]:
    return [entry for entry in ended["trace"] if entry["kind"] == kind]


def test_model_calls_tools_and_events_are_recorded_with_their_times(traced) -> None:
    events, ended = traced.ask('call nap {"seconds": 0.1}', 'call add {"a": 2, "b": 3}', "say rested")
    assert [entry["kind"] for entry in ended["trace"]] == [
        *("agents", "model", "event", "tool", "event", "model", "event", "tool", "event", "model", "event"),
    ]
    nap, add = of_kind(ended, "tool")
    assert (add["name"], add["args"], add["response"]) == ("add", {"a": 2, "b": 3}, {"sum": 5})
    assert nap["s"] >= 0.1
    assert add["at"] >= nap["at"] + nap["s"] - 0.002
    models = of_kind(ended, "model")
    assert [entry["response"]["usage_metadata"]["total_token_count"] for entry in models] == [12] * 3
    assert [event["at"] for event in events] == [entry["at"] for entry in of_kind(ended, "event")]


def test_a_request_says_what_is_new_since_the_one_before(traced) -> None:
    _, ended = traced.ask('call add {"a": 2, "b": 3}', "say five")
    first, second = (entry["request"] for entry in of_kind(ended, "model"))
    assert first["model"] == "scripted"
    assert "Do as you are told." in json.dumps(first["config"]["system_instruction"])
    assert "add" in json.dumps(first["config"]["tools"])
    assert "http_options" not in first["config"], "where and with which headers a model is asked is nobody's business"
    assert second["same"] == 1
    assert [part for content in second["contents"] for part in content["parts"]][1]["function_response"][
        "response"
    ] == {"sum": 5}
    assert second.keys() == {"same", "contents"}


def test_the_tree_of_agents_is_told(traced) -> None:
    _, ended = traced.ask("transfer helper", "say done")
    root = of_kind(ended, "agents")[0]["root"]
    assert (root["name"], root["type"], root["model"]) == ("full", "LlmAgent", "scripted")
    assert "shout" in root["tools"]
    assert root["agents"] == [{"name": "helper", "type": "LlmAgent", "model": "scripted", "tools": ["add"]}]
    assert {entry["agent"] for entry in of_kind(ended, "model")} == {"full", "helper"}
    assert any(entry.get("actions", {}).get("transfer_to_agent") == "helper" for entry in of_kind(ended, "event"))


def test_what_is_long_is_clipped_and_what_is_too_much_is_counted(traced) -> None:
    _, ended = traced.ask("say " + "x" * 30_000)
    (said,) = of_kind(ended, "event")
    assert said["content"]["parts"][0]["text"].endswith(" more characters")
    assert len(json.dumps(ended["trace"])) < 100_000
    _, ended = traced.ask(*(f'call shout {{"text": "{"y" * 19_000} {number}"}}' for number in range(20)), "say done")
    assert ended["trace"][-1]["kind"] == "left_out"
    assert len(json.dumps(ended["trace"])) < 1_100_000


def test_nothing_is_recorded_unless_it_is_asked_for(full) -> None:
    _, ended = full.ask("say hello")
    assert "trace" not in ended


def test_a_run_with_trace_has_it_in_results_and_page(tmp_path) -> None:
    for name in ("adk_full", "scripted_llm.py"):
        copy = shutil.copytree if (AGENTS / name).is_dir() else shutil.copy
        copy(AGENTS / name, tmp_path / name)
    said = {"role": "user", "parts": [{"text": 'call add {"a": 2, "b": 3}\nsay five'}]}
    cases = [{"eval_id": "one", "conversation": [{"user_content": said, "final_response": said}]}]
    (tmp_path / "adk_full/t.evalset.json").write_text(json.dumps({"eval_set_id": "t", "eval_cases": cases}))
    forked_command.run(
        ["run", "--trace", "--threshold", "all", "--python", adk_python("new")], cwd=tmp_path, env={**os.environ}
    )
    results = json.loads((tmp_path / "evalgate-report/results.json").read_text())
    outcome = results["suites"][0]["cases"][0]["trials"][0]["outcome"]
    assert [entry["kind"] for entry in outcome["traces"][0]].count("model") == 2
    assert outcome["times"][0] == sorted(outcome["times"][0])
    page = report_page.read((tmp_path / "evalgate-report/report.html").read_text())
    assert page.index["traces"] == 1
    assert page.cases["one"]["trace"] == 0
    (turn,) = page.cases["one"]["runs"]["head"][0]["turns"]
    assert [event["at"] for event in turn["events"]] == outcome["times"][0]


@pytest.mark.parametrize(
    ("most", "kept"),
    [(10**6, 5), (10, 1)],  # a whole turn, or that it was left out
)
def test_what_is_kept_has_no_secrets_and_a_limit(tmp_path, monkeypatch, most: int, kept: int) -> None:
    monkeypatch.setattr(pool, "TRACES_BYTES", most)
    secret = "correct-horse-battery"
    world = World(environment={"PATH": "/usr/bin:/bin", "MY_API_KEY": secret}, cache=str(tmp_path), log=str)
    driver = DRIVERS["adk"]
    options = driver.options.model_validate({"path": "adk_full", "python": adk_python("new")})
    agent = driver.open(options, AgentSetting(root=str(AGENTS), world=world, trace=True))
    try:
        with agent.converse(Case(case_id="c", conversation=()), TrialKey(suite="s", case_id="c")) as conversation:
            script = f'call shout {{"text": "{secret}"}}\nsay done'
            turn = conversation.send(Content(role="user", parts=(Text(text=script),)))
    finally:
        agent.close()
    told = json.dumps(turn.trace)
    assert secret not in told
    assert ("***" in told) is (kept > 1)
    assert len(turn.trace) >= kept
    assert (turn.trace[0]["kind"] == "left_out") is (kept == 1)
