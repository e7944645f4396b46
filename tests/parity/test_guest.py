"""Tests of users that replace parts of their agents, run by pytest with google-adk's
`AgentEvaluator` and with ours, on the newest and the oldest google-adk."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import site
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from builders.nightly import ADKS
from parity.adk_child import AdkChild

pytestmark = pytest.mark.parity
ROOT = Path(__file__).parents[2]
GUESTS = Path(__file__).parent / "guests"
DEMO = ROOT / "examples/demo/repository"
IMPORTS = {
    "theirs": "from google.adk.evaluation.agent_evaluator import AgentEvaluator",
    "ours": "from evalgate import AgentEvaluator",
}
PYTEST = """
import sys
sys.path[:0] = ["."]
sys.path += {more}  # behind the packages of the environment
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *sys.argv[1:]]))
"""
Outcomes: TypeAlias = dict[str, str]
"""By a test's name: "passed", or the beginning of its error."""
Run: TypeAlias = Callable[[str], tuple[Outcomes, Path]]
"""Gives the outcomes with one of the IMPORTS, and the folder of the project."""


def run_pytest(python: str, project: Path, *arguments: str) -> Outcomes:
    """The outcome of each test of the project."""
    (project / ".git").mkdir(exist_ok=True)
    script, report = project / "run_pytest.py", project / "report.xml"
    script.write_text(PYTEST.format(more=[str(ROOT), *site.getsitepackages()]))
    subprocess.run(
        [python, script, f"--junit-xml={report}", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": "", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    outcomes = {}
    for case in ET.parse(report).iter("testcase"):
        problem = next(iter(case), None)
        outcomes[case.get("name", "")] = (
            "passed" if problem is None else str(problem.get("message"))[:300]
        )
    return outcomes


def case(title: str, answer: str) -> dict[str, Any]:
    return {
        "eval_id": title,
        "session_input": {"app_name": "shop", "user_id": "reader"},
        "conversation": [
            {
                "user_content": {"role": "user", "parts": [{"text": f"How many {title}?"}]},
                "final_response": {"role": "model", "parts": [{"text": answer}]},
                "intermediate_data": {"tool_uses": [{"name": "copies", "args": {"title": title}}]},
            }
        ],
    }


@pytest.fixture(scope="module", params=ADKS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs shop_tests.py with the `AgentEvaluator` of one of the IMPORTS."""
    if request.param == "new":
        child: AdkChild = request.getfixturevalue("adk")
        python = child.python
    else:
        named = os.environ.get("EVALGATE_TEST_ADK_OLD", ROOT / ".venv-adk-old")
        python = str(Path(named) / "bin/python")
        if not Path(python).exists():
            pytest.skip("no environment with google-adk: make .venv-adk-old")
    done: dict[str, tuple[Outcomes, Path]] = {}

    def outcomes(side: str) -> tuple[Outcomes, Path]:
        if side not in done:
            project = tmp_path_factory.mktemp(side)
            write_shop(project, IMPORTS[side])
            done[side] = run_pytest(python, project, "-k", "not trio"), project
        return done[side]

    return outcomes


def write_shop(project: Path, imported: str) -> None:
    for name in ("shop", "nested/desk", "evals"):
        (project / name).mkdir(parents=True)
    shutil.copy(GUESTS / "shop_agent.py", project / "shop/agent.py")
    shutil.copy(GUESTS / "shop_backend.py", project / "shop/backend.py")
    (project / "shop/__init__.py").write_text("from . import agent")
    test = (GUESTS / "shop_tests.py").read_text("utf-8")
    (project / "test_shop.py").write_text(test.replace(IMPORTS["ours"], imported))
    # the agent of the demo, with its evaluation sets
    shutil.copytree(DEMO / "library_desk", project / "library_desk")
    shutil.copytree(DEMO / "evals", project / "library")
    # a module that makes its agent when asked; a package that does not import its own; an error
    (project / "factory.py").write_text(
        "import types\nimport shop.agent\nasync def make(): return shop.agent.second, None\n"
        "agent = types.SimpleNamespace(get_agent_async=make)\n"
    )
    (project / "nested/desk/__init__.py").write_text("")
    (project / "nested/desk/agent.py").write_text("from shop.agent import root_agent\n")
    (project / "broken.py").write_text("1 / 0\n")
    answers = {
        "one": [case("book-1", "3 copies of book-1 in Oslo")],
        "two": [case("book-1", "3 copies of book-1 in Oslo"), case("book-2", "4 copies of book-2 in Oslo")],
        "3": [case("book-1", "3 lie on the left")],
        "4": [case("book-1", "4 lie on the right of it all")],
    }  # fmt: skip
    for name, cases in answers.items():
        (project / f"evals/{name}.test.json").write_text(
            json.dumps({"eval_set_id": name, "eval_cases": cases})
        )
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    (project / "evals/test_config.json").write_text(json.dumps({"criteria": criteria}))
    # a metric of the project's own, with a file for it alone
    (project / "metrics.py").write_text(METRICS)
    (project / "measured").mkdir()
    shutil.copy(project / "evals/one.test.json", project / "measured")
    config = {
        "criteria": {"own": 0.5},
        "custom_metrics": {"own": {"code_config": {"name": "metrics.own"}}},
    }
    (project / "measured/test_config.json").write_text(json.dumps(config))


METRICS = """
from google.adk.evaluation.evaluator import EvalStatus, EvaluationResult, PerInvocationResult

def own_score(): return 0.2

def own(metric, actual, expected, scenario=None):
    score = own_score()
    status = EvalStatus.PASSED if score >= 0.5 else EvalStatus.FAILED
    turns = [PerInvocationResult(actual_invocation=turn, score=score, eval_status=status) for turn in actual]
    return EvaluationResult(overall_score=score, overall_eval_status=status, per_invocation_results=turns)
"""


ONLY_OURS = {
    # google-adk evaluates the first again
    "test_two_agents_of_one_name[asyncio-4-right of it all]",
    # it does not look for a submodule that nobody imported
    "test_the_agents_place[asyncio-nested.desk]",
}


def test_what_a_test_replaces_is_replaced_for_the_agent(run: Run) -> None:
    ours, _ = run("ours")
    assert len(ours) == 30
    assert {name: outcome for name, outcome in ours.items() if outcome != "passed"} == {}


# the environment of the oldest has no packages for evaluation
@pytest.mark.parametrize("run", ["new"], indirect=True)
def test_as_with_google_adk(run: Run) -> None:
    """The tests are no wishes of ours: they pass with google-adk as well, with the same scores."""
    theirs, their_project = run("theirs")
    _, our_project = run("ours")
    assert {name for name, outcome in theirs.items() if outcome != "passed"} == ONLY_OURS
    assert rows(our_project) == rows(their_project)
    assert sentences(our_project) == sentences(their_project)


def rows(project: Path) -> list[tuple[str, ...]]:
    """Everything but the texts, in any order; how long a turn took is another each time."""
    with (project / "rows.csv").open(encoding="utf-8", newline="") as file:
        found = [tuple(row.values())[:6] for row in csv.DictReader(file)]
    assert len(found) > 100
    return sorted(row for row in found if row[2] != "invocation_duration_v1")


def sentences(project: Path) -> list[str]:
    text = (project / "failures.txt").read_text("utf-8")
    return sorted(re.findall(r"\w+ for \w+ Failed\. Expected [\d.]+, but got [\d.]+\.", text))
