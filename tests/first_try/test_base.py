"""The first pull requests of a stranger: evalgate comes, or what was broken is repaired. Green
where head passes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from builders import packages
from builders.gated_repository import Repository, content

pytestmark = pytest.mark.integration

WORKS: dict[str, str] = {
    "desk.py": "import shelf\n\n\ndef answer(text):\n    return text.replace('question', 'answer')\n",
    "requirements.txt": "shelf==1.0\n",
    "evalgate.yml": "agents:\n  - driver: python\n    call: desk:answer\n",
    "test_config.json": '{"criteria": {"response_match_score": 0.9}}',
    "desk.evalset.json": json.dumps(
        {
            "eval_set_id": "desk",
            "eval_cases": [
                {
                    "eval_id": f"case_{number}",
                    "conversation": [
                        {
                            "user_content": content(f"question {number}", "user"),
                            "final_response": content(f"answer {number}", "model"),
                        }
                    ],
                }
                for number in range(4)
            ],
        }
    ),
}
COMPARED = "pass. No regression seen in 4 compared cases"
EDITED = "pass. This change adds or edits evaluation files, not the agent."
NOTHING_YET = (
    "Nothing to compare with yet: the base has no agent for these evaluation files or its own."
)
CANNOT_START = "inconclusive. Not compared: the base cannot start:"
NOT_MADE = "inconclusive. Not compared: the base's environment cannot be made: installing requirements.txt failed:"
DECIDE = "The thresholds decide."
CONFLICT = '{"eval_set_id": "desk",\n "eval_cases": [\n<<<<<<< HEAD\n'


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    packages.wheel(tmp_path / "wheels", "shelf")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    for name in ("UV_OFFLINE", "UV_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\n")
    return made


def change(repo: Repository, base: dict[str, str | None], head: dict[str, str]) -> None:
    """A base with these files in the place of what works, None for none, and a change to `head`."""
    for name, text in {**head, **base}.items():
        if text is not None:
            repo.write(name, text)
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    for name, text in head.items():
        repo.write(name, text)
    repo.commit("head")


@pytest.mark.parametrize(
    ("base", "told"),
    [
        # --- adoption ---
        ({"evalgate.yml": None, "test_config.json": None, "desk.evalset.json": None}, NOTHING_YET),
        ({"evalgate.yml": None}, NOTHING_YET),
        ({"test_config.json": None}, EDITED),
        ({"desk.evalset.json": None}, EDITED),
        ({"test_config.json": None, "desk.py": f"{WORKS['desk.py']}# as it was\n"}, COMPARED),
        (
            {"requirements.txt": None},
            f"{CANNOT_START} ModuleNotFoundError: No module named 'shelf'. {DECIDE}",
        ),
        # --- repair ---
        (
            {"desk.py": "import shelves\n"},
            f"{CANNOT_START} ModuleNotFoundError: No module named 'shelves'. {DECIDE}",
        ),
        (
            {"desk.py": "def answer(text:\n"},
            f"{CANNOT_START} SyntaxError: '(' was never closed. {DECIDE}",
        ),
        (
            {"requirements.txt": "shelf==9.9\n"},
            f"{NOT_MADE} No solution found when resolving dependencies: Because there is no version of shelf==9.9",
        ),
        ({"desk.evalset.json": CONFLICT}, EDITED),
    ],
)
def test_the_first_pull_requests(repo: Repository, base: dict[str, str | None], told: str) -> None:
    change(repo, base, WORKS)
    code, said = repo.run()
    assert code == 0, said
    lines = said.splitlines()
    (line,) = (line for line in lines if line.startswith("Against the base: "))
    assert line.startswith(f"Against the base: {told}"), said
    assert "Thresholds: pass. All 4 cases passed." in lines
    assert sum((told.partition("Not compared: ")[2] or told) in line for line in lines) == 1, (
        "it is told once"
    )
    if told.startswith("inconclusive"):
        assert "INCONCLUSIVE (NON-BLOCKING)" in lines
        comment = repo.comment().splitlines()
        assert "> **evalgate: inconclusive (non-blocking).**" in comment
        assert any(
            line.startswith("> - \N{WHITE QUESTION MARK ORNAMENT} **Against the base**: Not")
            for line in comment
        )
    else:
        assert "PASS" in lines
    broken = base.get("desk.evalset.json") == CONFLICT
    assert ("could not check whether this change relaxes desk.evalset.json" in said) == broken


def test_an_agent_of_adk_that_gets_its_first_evaluation_files(tmp_path: Path) -> None:
    """Nothing of evalgate is on the base, and its agent is found and compared with all the same."""
    adk = Path(os.environ.get("EVALGATE_TEST_ADK", Path(__file__).parents[2] / ".venv-adk"))
    python = adk / "bin/python" if adk.is_dir() else adk
    if not python.exists():
        pytest.skip("no interpreter with google-adk: set EVALGATE_TEST_ADK or make .venv-adk")
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    model = (Path(__file__).parents[1] / "agents/scripted_llm.py").read_text()
    repo.write(".gitignore", "evalgate-report/\n__pycache__/\n")
    repo.write("bot/scripted_llm.py", model)
    agent = "from google.adk.agents import LlmAgent\nfrom .scripted_llm import ScriptedLlm\n\n"
    repo.write("bot/__init__.py", "from . import agent\n")
    repo.write("bot/agent.py", f"{agent}root_agent = LlmAgent(name='bot', model=ScriptedLlm())\n")
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    turn: dict[str, Any] = {
        "user_content": content("say hello", "user"),
        "final_response": content("hello", "model"),
    }
    cases = [{"eval_id": "greets", "conversation": [turn]}]
    repo.write("bot/desk.evalset.json", json.dumps({"eval_set_id": "desk", "eval_cases": cases}))
    repo.commit("head")
    code, said = repo.run("--python", str(python))
    assert code == 0, said
    assert "Thresholds: pass. The case passed." in said
    (row, *_) = repo.results()["comparison"]["criteria"]
    assert (row["base"], row["head"]) == (1.0, 1.0)
