"""Judged criteria on both sides: equal answers are judged once, and a new judge judges stored
answers again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.test_judged_run import Gemini, gemini, repository, run

pytestmark = pytest.mark.integration

__all__ = ["gemini"]

AGENT = """
import os

def answer(text):
    with open(os.environ["ASKED_LOG"], "a") as log:
        log.write(text + chr(10))
    return text.replace("question", "an answer to")
"""


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path, gemini: Gemini) -> Path:
    judge = (
        f"judge: {{base_url: '{gemini.url}', api_key_env: MY_JUDGE_KEY}}\nenv: [ASKED_LOG]\nagents:"
    )
    made = repository(tmp_path, judge)
    (made / "evalgate.yml").write_text(
        json.dumps(
            {
                "judge": {"base_url": gemini.url, "api_key_env": "MY_JUDGE_KEY"},
                "env": ["ASKED_LOG"],
                "agents": [{"driver": "python", "call": "desk:answer"}],
            }
        )
    )
    (made / "desk.py").write_text(AGENT)
    (made / ".gitignore").write_text("evalgate-report/\ncache/\nstore/\nasked.log\n")
    git(made, "init", "-q", "-b", "main")
    git(made, "add", "-A")
    git(made, "commit", "-qm", "base")
    git(made, "checkout", "-qb", "change")
    return made


def asked(root: Path) -> int:
    log = root / "asked.log"
    lines = len(log.read_text().splitlines()) if log.exists() else 0
    log.unlink(missing_ok=True)
    return lines


def gate(root: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    return run(
        root, *arguments, MY_JUDGE_KEY="a-key", ASKED_LOG=str(root / "asked.log"), **environment
    )


def test_equal_answers_of_both_sides_are_judged_once(root: Path, gemini: Gemini) -> None:
    (root / "desk.py").write_text(f"{AGENT}# another agent\n")
    git(root, "commit", "-qam", "another agent")
    code, said = gate(root, "--base", "main")
    assert code == 0, said
    assert asked(root) == 8
    assert gemini.asked == 4 * 3  # five samples agree after three; the other side reads them


def test_another_judge_judges_stored_answers_without_running_the_base(
    root: Path, gemini: Gemini
) -> None:
    store = ("--baseline-folder", "store")
    code, said = gate(root, *store, "--save-baseline", "always")
    assert code == 0, said
    assert (asked(root), gemini.asked) == (4, 12)
    code, said = gate(root, *store, "--base", "main")
    assert code == 0, said
    assert (asked(root), gemini.asked) == (0, 12)  # the same agent, and the same judge
    options = {"judge_model": "gemini-2.5-pro", "num_samples": 1}
    criteria = {"final_response_match_v2": {"threshold": 1.0, "judge_model_options": options}}
    (root / "test_config.json").write_text(json.dumps({"criteria": criteria}))
    git(root, "commit", "-qam", "another judge")
    code, said = gate(root, *store, "--base", "main")
    assert code == 0, said
    assert (asked(root), gemini.asked) == (0, 12 + 4)  # both sides by the new judge
    base = json.loads((root / "evalgate-report/base.json").read_text())
    (judged,) = [
        use for use in base["suites"][0]["criteria"] if use["name"] == "final_response_match_v2"
    ]
    assert judged["options"]["judge_model_options"]["judge_model"] == "gemini-2.5-pro"
    assert all(
        "final_response_match_v2" in trial["grades"]
        for case in base["suites"][0]["cases"]
        for trial in case["trials"]
    )


def test_the_bases_judge_is_asked_by_both_though_head_names_none_any_more(
    root: Path, gemini: Gemini
) -> None:
    (root / "test_config.json").write_text(json.dumps({"criteria": {"response_match_score": 0.1}}))
    rules = json.loads((root / "evalgate.yml").read_text())
    judge = rules.pop("judge")
    (root / "evalgate.yml").write_text(json.dumps(rules))
    git(root, "commit", "-qam", "no judge")
    change = {"GITHUB_EVENT_NAME": "pull_request"}  # of which the base says where judges are asked
    code, said = gate(root, "--base", "main", "--policy", "both", **change)
    assert (code, gemini.asked) == (0, 12), said
    results = json.loads((root / "evalgate-report/results.json").read_text())
    names = [use["name"] for use in results["suites"][0]["criteria"]]
    assert "final_response_match_v2" in names
    asked(root)
    log = {"ASKED_LOG": str(root / "asked.log"), **change}
    code, said = run(root, "--base", "main", "--policy", "both", **log)  # no key
    assert (code, asked(root)) == (2, 0), said
    assert f"{judge['api_key_env']}" in said
    assert "a key or file that the base's rules need is missing" in said
    # by the change's own rules nobody asks a judge, which is said, since the base's would
    code, said = gate(root, "--base", "main", **change)
    assert (code, gemini.asked) == (0, 12), said
    comment = (root / "evalgate-report/comment.md").read_text()
    assert "passes only because this change relaxes the rules" in comment
