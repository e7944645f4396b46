"""Custom metrics with a base: both sides are scored by head's code, and a change of that code is
shown."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from builders.gated_repository import Repository

from tests.integration.agents.line_client import forked_adk

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


@pytest.fixture(scope="module")
def forked() -> str:
    """The same, for metrics that are not about how their interpreter starts."""
    return forked_adk("new")


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
def test_whose_metric_decides(tmp_path: Path, forked: str, policy: str) -> None:
    """Head's passes whatever is said."""
    repo = changed(tmp_path, forked, cases=2, policy=policy)
    repo.write("metrics.py", METRIC.format(score="1.0").replace("else 0.0", "else 1.0"))
    repo.commit("head")
    code, said = repo.run()
    assert code == (1 if policy == "both" else 0), said
    assert "`metrics.py` (+" in repo.comment()
    assert ("passes only because this change relaxes the rules" in repo.comment()) is (
        policy == "head"
    )


def test_heads_metric_scores_both_sides_and_its_change_is_shown(
    tmp_path: Path, forked: str
) -> None:
    repo = changed(tmp_path, forked, cases=4)
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


def test_a_repeated_run_finds_the_scores_of_the_code_that_gave_them(
    tmp_path: Path, forked: str
) -> None:
    repo = changed(tmp_path, forked, cases=1, policy="both")
    repo.reuses = True
    repo.write("metrics.py", METRIC.format(score="1.0").replace("else 0.0", "else 1.0"))
    repo.commit("head")
    for is_reused in (False, True):
        code, said = repo.run()
        assert code == 1, said
        (case,) = repo.results()["suites"][0]["cases"]
        first, *_ = case["trials"]
        assert first.get("reused", False) is is_reused
        scores = {name: first["grades"][name]["value"] for name in ("word", "word (base's)")}
        assert scores == {"word": 1.0, "word (base's)": 0.0}


def test_without_a_base_an_edited_metric_scores_what_an_earlier_run_measured(
    tmp_path: Path, forked: str
) -> None:
    repo = changed(tmp_path, forked, cases=1)
    repo.reuses = True
    # of two sizes: Python takes what it compiled of a file of the same second and size for current
    for score in ("0.0", "1.00"):
        repo.write("metrics.py", METRIC.format(score="1.0").replace("else 0.0", f"else {score}"))
        _, said = repo.run(base="")
        (case,) = repo.results()["suites"][0]["cases"]
        (trial,) = case["trials"]
        assert trial["grades"]["word"]["value"] == float(score), said
    assert trial["reused"]


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


SCORING = "def score_of(word):\n    return {score}\n"
HONEST = SCORING.format(score="1.0 if word == 'answer' else 0.0")
POISONED = SCORING.format(score="1.0")
HELPED = METRIC.replace(
    'score = {score} if "answer" in actual[0].final_response.parts[0].text else 0.0',
    "score = {module}.score_of(actual[0].final_response.parts[0].text.split()[0])",
)


def installed(folder: Path, python: str, scoring: str) -> str:
    """The interpreter of an environment with google-adk and a package that the metric imports."""
    environment(folder, python, folder / "marker")
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "evil.pth").unlink()
    (packages / "sitecustomize.py").unlink()
    (packages / "scoring.py").write_text(scoring)
    return str(folder / "bin/python")


@pytest.mark.parametrize(
    ("attack", "notice"),
    [
        # a dependency of head is another one than the base's, of the same name
        ("package", ""),
        # a module in the agent's folder has the name of one that the metric imports
        ("module", ""),
        # data that the metric reads; it is part of the metric, and listed
        ("data", ""),
        # the metric itself: its file joins the base's
        ("metric", ""),
        # beside an edit of the metric, a module or a package is no more the change's than without
        ("metric module", ""),
        ("metric package", ""),
        # the metric needs a module of the change that is none of its own files
        ("metric needs", "ModuleNotFoundError: No module named 'later'"),
        # the base has a folder where the change has one of the metric's files
        ("metric folder", "there is no checkout of the base for it"),
    ],
)
def test_nothing_of_the_change_enters_the_room_of_a_metric(
    tmp_path: Path, python: str, attack: str, notice: str
) -> None:
    """What could not be kept out is told."""
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    honest = installed(tmp_path / "honest", python, HONEST)
    poisoned = installed(tmp_path / "poisoned", python, POISONED)

    def agents(interpreter: str) -> list[dict[str, str]]:
        return [
            {"driver": "python", "path": "agents", "call": "desk:answer", "python": interpreter}
        ]

    repo.write(".gitignore", "evalgate-report/\n__pycache__/\n")
    repo.gate_file(agents=agents(honest))
    repo.cases(0)
    code = {"word": {"code_config": {"name": "evals.metrics.word"}}}
    repo.write("test_config.json", json.dumps({"criteria": {"word": 0.5}, "custom_metrics": code}))
    repo.write("agents/desk.py", AGENT.format(word="answer"))
    repo.write("rules.py", HONEST)
    module = "rules" if "module" in attack else "scoring"
    metric = f"import json, pathlib, {module}\n" + HELPED.format(score="", module=module)
    reading = 'json.loads(pathlib.Path(__file__).with_name("words.json").read_text())'
    repo.write("evals/metrics.py", metric + (f"\nWORDS = {reading}\n" if attack == "data" else ""))
    repo.write("evals/words.json", "[]")
    repo.write("evals/extra.py/a.txt", "")
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.write("agents/desk.py", AGENT.format(word="silence"))
    if "package" in attack:
        repo.gate_file(agents=agents(poisoned))
    if "module" in attack:
        repo.write("agents/rules.py", POISONED)
    if "data" in attack:
        repo.write("evals/words.json", '["silence"]')
    if "folder" in attack:
        repo.git("rm", "-rq", "evals/extra.py")
        repo.write("evals/extra.py", "")
    if "metric" in attack:
        late = "__import__('later')" if "needs" in attack else ""
        repo.write("later.py", "")
        repo.write("evals/metrics.py", f"{metric}\n{late}\n")
    repo.commit("head")
    exit_code, said = repo.run()
    assert exit_code == 1, said
    comment = repo.comment()
    assert ("ran with this change's modules and packages" in comment) is bool(notice)
    assert notice in comment


def test_a_metric_that_the_base_cannot_start_runs_as_it_did(tmp_path: Path, python: str) -> None:
    """A change that repairs main's environment is measured, and told of."""
    repo = changed(tmp_path, python, cases=1)
    repo.git("checkout", "-q", "main")
    agent = {"driver": "python", "call": "desk:answer", "python": str(tmp_path / "none/bin/python")}
    repo.gate_file(agents=[agent])
    repo.commit("broken")
    repo.git("checkout", "-qB", "change")
    repo.gate_file(agents=[{**agent, "python": python}])
    repo.write("desk.py", AGENT.format(word="answer"))
    repo.commit("head")
    _, said = repo.run()
    grades = repo.results()["suites"][0]["cases"][0]["trials"][0]["grades"]
    assert grades["word"]["value"] == 0.75, said
    assert "the custom metric `word` ran with this change" in repo.comment()
