"""Custom metrics with a base: both sides are scored by head's code, and a change of that code is
shown."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

AGENT = """
def answer(text):
    return text.replace("question", "{word}")
"""
METRIC = """
from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult


def word(metric, actual, expected, scenario=None):
    score = {score} if "answer" in actual[0].final_response.parts[0].text else 0.0
    status = EvalStatus.PASSED if score >= 0.5 else EvalStatus.FAILED
    turn = PerInvocationResult(actual_invocation=actual[0], score=score, eval_status=status)
    return EvaluationResult(overall_score=score, overall_eval_status=status, per_invocation_results=[turn])
"""


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that has google-adk."""
    named = Path(os.environ.get("EVALGATE_TEST_ADK", Path(__file__).parents[2] / ".venv-adk"))
    found = named / "bin/python" if named.is_dir() else named
    if not found.exists():
        pytest.skip("no interpreter with google-adk: set EVALGATE_TEST_ADK or make .venv-adk")
    return str(found)


def changed(folder: Path, python: str, *, cases: int, **rules: str) -> Repository:
    """A change whose agent says another word than the base's, before it says anything of the
    metric."""
    repo = Repository(folder / "repo", folder / "asked.log")
    repo.write(".gitignore", "evalgate-report/\n__pycache__/\n")
    repo.gate_file(agents=[{"driver": "python", "call": "desk:answer", "python": python}], **rules)
    repo.cases(*range(cases))
    metric = {"word": {"code_config": {"name": "metrics.word"}}}
    repo.write(
        "test_config.json", json.dumps({"criteria": {"word": 0.5}, "custom_metrics": metric})
    )
    repo.write("desk.py", AGENT.format(word="answer"))
    repo.write("metrics.py", METRIC.format(score="0.75"))
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.write("desk.py", AGENT.format(word="silence"))
    return repo


@pytest.mark.parametrize("policy", ["head", "both"])
def test_whose_metric_decides(tmp_path: Path, python: str, policy: str) -> None:
    """Head's passes whatever is said."""
    repo = changed(tmp_path, python, cases=2, policy=policy)
    repo.write("metrics.py", METRIC.format(score="1.0").replace("else 0.0", "else 1.0"))
    repo.commit("head")
    code, said = repo.run()
    assert code == (1 if policy == "both" else 0), said
    assert "`metrics.py` (+" in repo.comment()
    assert ("passes only because this change relaxes the rules" in repo.comment()) is (
        policy == "head"
    )


def test_heads_metric_scores_both_sides_and_its_change_is_shown(
    tmp_path: Path, python: str
) -> None:
    repo = changed(tmp_path, python, cases=4)
    repo.write("metrics.py", METRIC.format(score="1.0"))
    repo.commit("head")
    code, said = repo.run("--runs", "2", "--fail-on", "regression", "--threshold", "confirmed")
    assert code == 1, said
    results = repo.results()
    comparison = results["comparison"]
    (row,) = [row for row in comparison["criteria"] if row["rule"]["gating"]]
    assert (row["name"], row["base"], row["head"]) == ("word", 1.0, 0.0)
    assert [edit["subject"] for edit in results["edits"]["edits"]] == ["code of word", "metrics.py"]
    assert "`metrics.py` (+" in repo.comment()


EVIL = "import sys; open({marker!r}, 'a').write('{name} in ' + ' '.join(sys.orig_argv) + chr(10))"


def environment(folder: Path, python: str, marker: Path) -> Path:
    """An environment whose every hook at Python's start leaves a mark: they could as well replace
    the metric."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (installed,) = Path(python).parent.parent.glob("lib/python3*/site-packages")
    (packages / "linked.pth").write_text(f"{installed}\n")
    (packages / "evil.pth").write_text(EVIL.format(marker=str(marker), name="pth") + "\n")
    (packages / "sitecustomize.py").write_text(
        EVIL.format(marker=str(marker), name="sitecustomize") + "\n"
    )
    return folder


def test_nothing_of_the_change_runs_before_the_metric(tmp_path: Path, python: str) -> None:
    repo = changed(tmp_path, python, cases=1)
    marker = tmp_path / "marker"
    made = environment(tmp_path / "made", python, marker)
    agent = {"driver": "python", "call": "desk:answer", "python": str(made / "bin/python")}
    repo.gate_file(agents=[agent], env=["PYTHONPATH", "PYTHONSTARTUP"])
    repo.write("desk.py", AGENT.format(word="answer"))
    repo.write("sitecustomize.py", EVIL.format(marker=str(marker), name="beside"))
    repo.commit("head")
    code, said = repo.call("run", environment={"PYTHONPATH": str(repo.root)})
    assert code == 0, said
    assert repo.results()["suites"][0]["cases"][0]["trials"][0]["grades"]["word"]["value"] == 0.75
    marks = marker.read_text().splitlines()
    # the agent's own Python starts as it would anywhere
    assert {line.split()[0] for line in marks if line.endswith("server.py python")} == {
        "pth",
        "beside",
    }
    assert not [line for line in marks if line.endswith("server.py metrics")]


def test_a_metric_runs_in_no_python_of_the_commit(tmp_path: Path, python: str) -> None:
    repo = changed(tmp_path, python, cases=1)
    environment(repo.root / ".venv", python, tmp_path / "marker")
    for committed, expected in ((False, 0), (True, 3)):
        if committed:
            repo.git("add", "-f", ".venv/lib", ".venv/pyvenv.cfg")
        repo.gate_file(
            agents=[{"driver": "python", "call": "desk:answer", "python": ".venv/bin/python"}]
        )
        repo.write("desk.py", AGENT.format(word="answer"))
        repo.write(".gitignore", "evalgate-report/\n__pycache__/\n.venv/\n")
        repo.commit("head")
        code, said = repo.call("run")
        assert code == expected, said
    assert ".venv/bin/python is part of the commit, so custom metrics do not run in it" in said
