"""`AgentEvaluator.evaluate`: google-adk's and ours, called with the same lines on the same
files."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builders.zygotes import Zygote
from parity.adk_child import AdkChild

from tests.integration.agents.line_client import WITH_THE_FIRST_TURN

pytestmark = pytest.mark.parity
ROOT = Path(__file__).parents[2]
IMPORTS = {
    "theirs": "from google.adk.evaluation.agent_evaluator import AgentEvaluator",
    "ours": "from evalgate import AgentEvaluator",
}
SCRIPT = """
import asyncio, json, sys
from google.adk.evaluation.eval_config import EvalConfig
from google.adk.evaluation.eval_set import EvalSet
{imported}

async def main():
    for given in json.loads(sys.argv[1]):
        try:
            if "eval_set" in given:
                given["eval_set"] = EvalSet.model_validate(json.load(open(given["eval_set"])))
                given["eval_config"] = given.get("eval_config") and EvalConfig.model_validate(given["eval_config"])
                await AgentEvaluator.evaluate_eval_set("desk_agent", print_detailed_results=False, **given)
            else:
                await AgentEvaluator.evaluate("desk_agent", print_detailed_results=False, **given)
            print("passed")
        except Exception as error:
            print(type(error).__name__, json.dumps(str(error)))

asyncio.run(main())
"""
PYTEST = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
CALLS: list[dict[str, Any]] = [
    # the oldest schema, both runs
    {"eval_dataset_file_path_or_dir": "evals/old.test.json"},
    {
        "eval_dataset_file_path_or_dir": "evals/old.test.json",
        "agent_name": "desk_agent",
        "app_name": "desk",
    },
    # a case that fails, alone and in a folder
    {"eval_dataset_file_path_or_dir": "evals/new.test.json", "num_runs": 1},
    {"eval_dataset_file_path_or_dir": "evals"},
    # refused
    {"eval_dataset_file_path_or_dir": "evals/new.test.json", "num_runs": 0},
    {"eval_dataset_file_path_or_dir": "evals/none.test.json"},
    {"eval_dataset_file_path_or_dir": "desk_agent"},
    # a set and a config as google-adk's objects, or criteria; without either
    {
        "eval_set": "evals/new.test.json",
        "eval_config": {"criteria": {"tool_trajectory_avg_score": 1.0}},
        "num_runs": 1,
    },
    {"eval_set": "evals/new.test.json", "criteria": {"response_match_score": 0.8}, "num_runs": 1},
    {"eval_set": "evals/new.test.json"},
]
KINDS = [
    "passed",
    "passed",
    *["AssertionError"] * 2,
    *["ValueError"] * 3,
    "passed",
    "AssertionError",
]
KINDS += ["ValueError"]


def answer(number: int) -> str:
    return f"The book-{number} stands on shelf A3 and there are {number + 1} copies of it."


def calls(number: int, name: str, args: str) -> list[dict[str, Any]]:
    return [
        {name: "find_shelf", args: {"title": f"book-{number}"}},
        {name: "count_copies", args: {"number": number, "more": 1}},
    ]


def content(text: str, role: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def case(number: int, expected: str) -> dict[str, Any]:
    turn = {
        "user_content": content(f"book {number}", "user"),
        "final_response": content(expected, "model"),
        "intermediate_data": {"tool_uses": calls(number, "name", "args")},
    }
    return {"eval_id": f"case_{number}", "conversation": [turn]}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with an ADK agent and tests in both schemas; one expectation is wrong."""
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(
        ROOT / "bench" / "desk_agent",
        root / "desk_agent",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    evals = root / "evals"
    evals.mkdir()
    old = [
        {
            "query": f"book {n}",
            "reference": answer(n),
            "expected_tool_use": calls(n, "tool_name", "tool_input"),
        }
        for n in (1, 2)
    ]
    new = {"eval_set_id": "new", "eval_cases": [case(3, answer(3)), case(4, "nothing at all")]}
    criteria = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}
    for place, value in {
        evals / "old.test.json": old,
        evals / "new.test.json": new,
        evals / "test_config.json": criteria,
    }.items():
        place.write_text(json.dumps(value))
    (root / ".git").mkdir()
    return root


PACKAGES = os.pathsep.join([str(ROOT), *site.getsitepackages()])


@pytest.fixture(scope="module")
def our_python(adk_python: Path) -> Iterator[str]:
    """Stands in for google-adk's interpreter with our packages on its path: runs a script in a fork
    of one that has loaded both evaluators, which takes longer than to call them."""
    evaluators = "google.adk.evaluation.agent_evaluator", "evalgate.wings.pytest.agent_evaluator"
    modules = (*evaluators, "google.adk.runners", *WITH_THE_FIRST_TURN)
    zygote = Zygote(str(adk_python), "worker_zygote.py", *modules, PYTHONPATH=PACKAGES)
    yield zygote.python
    zygote.close()


def run(folder: Path, python: str, lines: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the folder, from which it can import."""
    (folder / "script.py").write_text(lines)
    return subprocess.run(
        [python, "script.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_same_lines_pass_and_fail(project: Path, adk: AdkChild, our_python: str) -> None:
    for side, python in {"theirs": adk.python, "ours": our_python}.items():
        lines = SCRIPT.format(imported=IMPORTS[side])
        done = run(project, python, lines, json.dumps(CALLS))
        assert done.returncode == 0, done.stderr
        said = done.stdout.splitlines()
        assert [line.split()[0] for line in said] == KINDS, said
        assert "response_match_score" in said[2]
        assert "Expected 0.8, but got 0" in said[2]
    # which case, google-adk does not tell
    assert "evals/new.test.json: case_4: response_match_score" in said[2]


@pytest.mark.parametrize(
    ("agent", "file", "below", "given"),
    [
        # a sample of a collection: its tests beside its package, and run from the sample's folder
        ("concierge", "tests/data/book.test.json", "samples/concierge", ["concierge", "{tests}/data/book.test.json"]),
        # the module, not its package; a folder that ends with a slash
        ("app", "tests/unit/book.test.json", "", ["app.agent", "tests/unit/"]),
        # a module deep in the sources, and a file that is called as its author likes
        ("src/engine/agents", "tests/test_cases.json", "", ["src.engine.agents.agent", "tests/test_cases.json"]),
    ],
)  # fmt: skip
def test_layouts_of_public_repositories(
    tmp_path: Path, our_python: str, agent: str, file: str, below: str, given: list[str]
) -> None:
    """As pytest runs such tests: within an event loop, in the folder that it was started in."""
    (tmp_path / ".git").mkdir()
    folder = tmp_path / below
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "bench" / "desk_agent", folder / agent, ignore=ignored)
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_text(json.dumps({"eval_set_id": "x", "eval_cases": [case(3, answer(3))]}))
    (folder / file).with_name("test_config.json").write_text(
        '{"criteria": {"tool_trajectory_avg_score": 1.0}}'
    )
    lines = """
import asyncio, json, sys
from evalgate import AgentEvaluator
given = json.loads(sys.argv[1].replace("{tests}", sys.argv[2]))

async def main():
    await AgentEvaluator.evaluate(*given, num_runs=1)

asyncio.run(main())
print("passed")
"""
    done = run(folder, our_python, lines, json.dumps(given), str(folder / "tests"))
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["passed"]), (
        done.stdout + done.stderr
    )


def test_a_call_that_nobody_awaits_runs(project: Path, our_python: str) -> None:
    """As tests of google-adk before 0.5 are written; google-adk itself makes a coroutine there and
    passes."""
    lines = """
import warnings
warnings.simplefilter("error")
import evalgate
evalgate.evaluate("desk_agent", "evals/old.test.json", num_runs=1, print_detailed_results=False)
print("passed")
evalgate.evaluate("desk_agent", "evals/new.test.json", num_runs=1, print_detailed_results=False)
"""
    done = run(project, our_python, lines)
    assert (done.returncode, done.stdout) == (1, "passed\n"), done.stderr
    assert "AssertionError: Following are all the test failures." in done.stderr
    assert (
        "case_4: response_match_score for desk_agent Failed. Expected 0.8, but got" in done.stderr
    )


def test_pytest_shows_what_failed_and_nothing_of_our_own(project: Path, our_python: str) -> None:
    (project / "test_desk.py").write_text("""
import asyncio
import evalgate

def evaluated():
    return evalgate.evaluate("desk_agent", "evals/new.test.json", num_runs=1, print_detailed_results=False)

async def awaited():
    await evaluated()

def test_awaited():
    asyncio.run(awaited())

def test_at_once():
    evaluated()
""")
    done = run(
        project, our_python, PYTEST, "-q", "-p", "no:cacheprovider", "test_desk.py"
    )  # fmt: skip
    assert "2 failed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("Expected 0.8, but got") >= 2
    assert "evalgate/wings/pytest/agent_evaluator.py" not in done.stdout


def test_a_manager_of_results_is_refused(project: Path) -> None:
    import asyncio

    import evalgate

    call = partial(evalgate.evaluate, "desk_agent", str(project / "evals"))
    with pytest.raises(ValueError, match="`eval_set_results_manager` is not supported"):
        asyncio.run(call(eval_set_results_manager=object()))
