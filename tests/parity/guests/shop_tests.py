"""Tests as users write them."""

import asyncio
import csv
import gc
import logging
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.plugins.plugin_manager import PluginManager
from google.genai import types
from shop import backend

from evalgate import AgentEvaluator

FILE = "evals/one.test.json"  # expects "3 copies of book-1 in Oslo", and the call


@pytest.fixture
def shelves(monkeypatch):
    monkeypatch.setattr(backend, "copies", lambda title: 3)
    monkeypatch.setenv("SHOP_CITY", "Oslo")


@pytest.mark.anyio
async def test_monkeypatch_and_environment(shelves):
    await AgentEvaluator.evaluate("shop", FILE)


@pytest.mark.anyio
async def test_the_real_backend_is_seen_without_a_patch():
    with pytest.raises(
        AssertionError, match=r"response_match_score for \w+ Failed. Expected 0.8, but got 0."
    ):
        await AgentEvaluator.evaluate("shop", FILE)


@pytest.mark.anyio
@mock.patch.dict(os.environ, {"SHOP_CITY": "Oslo"})
async def test_mock_counts_the_calls():
    with mock.patch("shop.backend.copies", return_value=3) as copies:
        await AgentEvaluator.evaluate("shop.agent", FILE, num_runs=3)
    assert copies.call_args_list == [mock.call("book-1")] * 3


@pytest.mark.anyio
async def test_answers_in_their_order(shelves):
    """Run by run; of two cases the first asks first."""
    with mock.patch("shop.backend.copies", side_effect=[3, 4, 3, 4]):
        await AgentEvaluator.evaluate("shop", "evals/two.test.json", num_runs=2)


@pytest.mark.anyio
async def test_an_object_of_the_running_loop(shelves, monkeypatch):
    monkeypatch.setattr(backend, "DOOR", asyncio.Event())
    asyncio.get_running_loop().call_later(0.3, backend.DOOR.set)
    await asyncio.wait_for(AgentEvaluator.evaluate("shop", FILE, num_runs=1), 60)


@pytest.mark.anyio
async def test_a_context_variable(shelves):
    backend.SHELF.set("Oslo")
    await AgentEvaluator.evaluate("shop", FILE, num_runs=1)


@pytest.mark.anyio
@pytest.mark.parametrize("module", ["shop", "shop.agent", "factory", "nested.desk"])
async def test_the_agents_place(shelves, module):
    await AgentEvaluator.evaluate(module, FILE, num_runs=1)


@pytest.mark.anyio
async def test_a_sub_agent(shelves):
    await AgentEvaluator.evaluate("shop", FILE, num_runs=1, agent_name="second")
    with pytest.raises((ValueError, AssertionError), match="third"):
        await AgentEvaluator.evaluate("shop", FILE, num_runs=1, agent_name="third")


@pytest.mark.anyio
async def test_a_replaced_agent(shelves, monkeypatch):
    from shop import agent

    monkeypatch.setattr(agent, "root_agent", agent.second)
    await AgentEvaluator.evaluate("shop", FILE, num_runs=1)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("module", "error"),
    [("nowhere", ModuleNotFoundError), ("broken", ZeroDivisionError), ("shop.backend", ValueError)],
)
async def test_what_cannot_be_loaded(module, error):
    with pytest.raises(error):
        await AgentEvaluator.evaluate(module, FILE)


def state():
    root = logging.getLogger()
    return [
        list(sys.path),
        [*sys.meta_path],
        Path.cwd(),
        dict(os.environ),
        gc.get_threshold(),
        gc.get_freeze_count(),
        root.level,
        [*root.handlers],
        PluginManager.run_before_tool_callback,
        sys.stdout,
        sys.argv,
        asyncio.get_event_loop_policy(),
    ]


@pytest.mark.anyio
async def test_the_process_is_as_before(shelves):
    from shop import agent

    before, fields = state(), dict(vars(agent.root_agent))
    tasks = asyncio.all_tasks()
    await AgentEvaluator.evaluate("shop", FILE, num_runs=1)
    assert state() == before
    assert asyncio.all_tasks() == tasks
    assert dict(vars(agent.root_agent)) == fields
    assert "agent" not in sys.modules


@pytest.mark.anyio
@pytest.mark.parametrize(("number", "shelf"), [(3, "left"), (4, "right of it all")])
async def test_two_agents_of_one_name(tmp_path, monkeypatch, number, shelf):
    """Each lies where its test looks, and gets what its test replaces."""
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin/__init__.py").write_text("from . import agent")
    (tmp_path / "twin/agent.py").write_text(f"""
from google.adk.agents import LlmAgent
from shop.agent import Clerk
from shop import backend

def copies(title: str) -> dict:
    return {{"answer": f"{{backend.copies(title)}} lie on the {shelf}"}}

root_agent = LlmAgent(name="twin", model=Clerk(), tools=[copies])
""")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(backend, "copies", lambda title: number)
    await AgentEvaluator.evaluate("twin", f"evals/{number}.test.json", num_runs=1)


@pytest.mark.anyio
async def test_the_module_that_the_test_sees(tmp_path, monkeypatch, shelves):
    """What it has imported is what it can replace."""
    (tmp_path / "shop.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    await AgentEvaluator.evaluate("shop", FILE, num_runs=1)


@pytest.fixture
def rows(monkeypatch):
    """The arguments with which google-adk writes its scores to rows.csv; ours are noted there from
    the report."""
    if AgentEvaluator.__module__.startswith("google."):
        return {"output_file": "rows.csv"}
    from evalgate.model import cases_of, turn_score
    from evalgate.wings.pytest import agent_evaluator

    failures = agent_evaluator._failures
    Path("rows.csv").write_text("set,case,metric,threshold,score,status\n", encoding="utf-8")

    def status_of(use, score):
        if score is None:
            return "NOT_EVALUATED"
        if use.informational or use.threshold is None:
            return "INFORMATIONAL"
        is_met = score <= use.threshold if use.lower_is_better else score >= use.threshold
        return "PASSED" if is_met else "FAILED"

    def note(report, module):
        suites = {suite.key: suite for suite in report.run.suites}
        cases = cases_of(suites.values())
        with Path("rows.csv").open("a", encoding="utf-8", newline="") as file:
            for trial in report.run.trials:
                suite, case = suites[trial.key.suite], cases[trial.key.case]
                for use in suite.criteria_of(case):
                    for number in range(len(case.turns)):
                        score = turn_score(trial.grades.get(use.name), number)
                        names = (suite.eval_set.eval_set_id, case.case_id, use.name)
                        row = (*names, use.threshold, score, status_of(use, score))
                        csv.writer(file).writerow(row)
        return failures(report, module)

    monkeypatch.setattr(agent_evaluator, "_failures", note)
    return {}


@pytest.mark.anyio
async def test_rows(shelves, rows):
    """What is written, and what fails, is compared outside."""
    failures = ""
    files = [("shop", f"evals/{name}.test.json") for name in ("one", "two", "3", "4")]
    files += [("library_desk", f"library/{name}.evalset.json") for name in ("desk", "loans")]
    for module, file in files:
        try:
            await AgentEvaluator.evaluate(module, file, **rows)
        except AssertionError as failure:
            failures += f"{failure}\n"
    Path("failures.txt").write_text(failures, encoding="utf-8")


@pytest.mark.anyio
@pytest.mark.parametrize("score", [1.0, 0.0])
async def test_a_metric_that_is_replaced(shelves, monkeypatch, score):
    monkeypatch.setattr("metrics.own_score", lambda: score)
    evaluation = AgentEvaluator.evaluate("shop", "measured/one.test.json", num_runs=1)
    if score:
        await evaluation
    else:
        with pytest.raises(AssertionError, match=r"own for \w+ Failed. Expected 0.5, but got 0.0"):
            await evaluation


@pytest.mark.anyio
async def test_an_artifact(monkeypatch):
    service = InMemoryArtifactService()
    note = types.Part(text="3 copies of book-1 in Oslo")
    await service.save_artifact(
        app_name="shop", user_id="reader", session_id="any", filename="user:note", artifact=note
    )
    await AgentEvaluator.evaluate("shop", FILE, artifact_service=service)


@pytest.mark.anyio
@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1, 1])
async def test_a_test_that_gives_up(shelves, monkeypatch, seconds):
    before = asyncio.all_tasks()
    with monkeypatch.context() as patches:
        patches.setattr(backend, "DOOR", asyncio.Event())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(AgentEvaluator.evaluate("shop", FILE), seconds)
        backend.DOOR.set()
        for _ in range(100):
            await asyncio.sleep(0.1)
            if asyncio.all_tasks() == before:
                break
    assert asyncio.all_tasks() == before
    await AgentEvaluator.evaluate("shop", FILE, num_runs=1)


def test_an_agent_that_exits(monkeypatch):
    async def evaluated():
        await AgentEvaluator.evaluate("shop", FILE)

    monkeypatch.setattr(backend, "copies", lambda title: sys.exit(3))
    with pytest.raises(SystemExit):
        asyncio.run(evaluated())


@pytest.mark.anyio
async def test_at_once(shelves, monkeypatch):
    """More than the event loop has threads, one of which the agent needs."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    monkeypatch.setattr(backend, "opened", lambda: asyncio.to_thread(time.sleep, 0.01))
    await asyncio.gather(*(AgentEvaluator.evaluate("shop", FILE, num_runs=1) for _ in range(2)))


def test_without_a_loop(shelves):
    """google-adk makes a coroutine here."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(AgentEvaluator.evaluate("shop", FILE, num_runs=1))
    assert asyncio.get_event_loop() is loop
    loop.close()
    asyncio.set_event_loop(None)
