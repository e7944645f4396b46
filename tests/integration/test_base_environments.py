"""Each side in an environment of its own: two versions of one package, loaded at once; what a base
has to borrow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from builders.gated_repository import Repository, content
from builders.packages import wheel

pytestmark = pytest.mark.integration

AGENT = "import shelf\n\ndef answer(text):\n    return f'version {shelf.VERSION}'\n"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "shelf", version)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\n.venv/\n")
    made.write("desk.py", AGENT)
    made.write(
        "evalgate.yml", json.dumps({"agents": [{"driver": "python", "call": "desk:answer"}]})
    )
    turn = {
        "user_content": content("question 1", "user"),
        "final_response": content("version 1.0", "model"),
    }
    cases = [{"eval_id": "one", "conversation": [turn]}]
    made.write("desk.evalset.json", json.dumps({"eval_set_id": "desk", "eval_cases": cases}))
    made.write("test_config.json", json.dumps({"criteria": {"response_match_score": 0.9}}))
    return made


def answers(repo: Repository, name: str) -> set[str]:
    (suite,) = repo.results(name)["suites"]
    (case,) = suite["cases"]
    return {
        part["text"]
        for trial in case["trials"]
        for part in trial["outcome"]["invocations"][0]["final_response"]["parts"]
    }


def test_two_versions_of_a_package_one_a_side(repo: Repository) -> None:
    repo.write("requirements.txt", "shelf==1.0\n")
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.write("requirements.txt", "shelf==2.0\n")
    repo.commit("an upgrade")
    code, said = repo.run("--runs", "3")
    assert code == 1, said
    assert answers(repo, "base.json") == {"version 1.0"}
    assert answers(repo, "results.json") == {"version 2.0"}
    sides = [repo.results(name)["suites"][0]["agent"] for name in ("base.json", "results.json")]
    assert sides[0]["about"]["requirements"] != sides[1]["about"]["requirements"]
    assert "**Agent changed**: `shelf` `1.0` → `2.0`" in repo.comment()


def environment(repo: Repository, version: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(repo.root / ".venv")], check=True
    )
    (site,) = (repo.root / ".venv/lib").glob("python*/site-packages")
    (site / "shelf.py").write_text(f"VERSION = '{version}'\n")


def test_a_base_without_its_own_environment_borrows_heads(repo: Repository, tmp_path: Path) -> None:
    """`.venv` is in no commit: without this the base could not start, for no fault of anybody's."""
    environment(repo, "1.0")
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.commit("nothing")
    code, said = repo.run()
    assert code == 0, said
    assert any(
        "head's environment" in note for note in repo.results()["comparison"]["origin"]["notes"]
    )


@pytest.mark.parametrize(
    "committed", [".venv", ".venv/lib"], ids=["all of it", "its packages alone"]
)
def test_a_base_does_not_run_in_an_environment_that_the_change_commits(
    repo: Repository, committed: str
) -> None:
    """Else the change would write what it is compared with: here, that the base answers wrongly,
    too."""
    own = "try:\n    import shelf\nexcept ImportError:\n    import desk_shelf as shelf\n"
    repo.write("desk.py", AGENT.replace("import shelf\n", own))
    repo.write("desk_shelf.py", "VERSION = '1.0'\n")
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    environment(repo, "2.0")
    repo.git("add", "--force", committed)
    repo.commit("an environment")
    code, said = repo.run("--threshold", "new")
    assert (answers(repo, "results.json"), answers(repo, "base.json")) == (
        {"version 2.0"},
        {"version 1.0"},
    ), said
    assert code == 1, said
    notes = repo.results()["comparison"]["origin"]["notes"]
    assert any(
        "is part of its commit, so the base's agent does not run in it" in note for note in notes
    )


@pytest.mark.parametrize(
    ("venv", "version"), [("", "0"), ("3.0", "3.0")], ids=["PATH", "head's .venv"]
)
def test_a_change_that_is_the_first_to_say_what_to_install(
    repo: Repository, venv: str, version: str
) -> None:
    """The base does not run in what is made of it, and takes what it would without the change."""
    own = "import types\ntry:\n    import shelf\nexcept ImportError:\n    shelf = types.SimpleNamespace(VERSION='0')\n"
    repo.write("desk.py", AGENT.replace("import shelf\n", own))
    if venv:
        environment(repo, venv)
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.write("requirements.txt", "shelf==1.0\n")
    repo.commit("requirements")
    code, said = repo.run()
    assert (code, answers(repo, "results.json"), answers(repo, "base.json")) == (
        0,
        {"version 1.0"},
        {f"version {version}"},
    ), said
    assert ("the base's agent ran in head's environment" in said) is bool(venv)


WORKS = "import shelf\n\ndef answer(text):\n    return 'version 1.0'\n"
NOW = "import shelf\nassert shelf.VERSION == '1.0'\n\ndef answer(text):\n    return 'version 1.0'\n"


@pytest.mark.parametrize(
    ("base", "head", "venv", "kind", "told"),
    [
        # an import that fails under what it asks for itself, though the change has other
        # requirements
        (
            {"requirements.txt": "shelf==2.0\n", "desk.py": NOW},
            {"requirements.txt": "shelf==1.0\n"},
            "",
            "inconclusive",
            "Not compared: the base cannot start: AssertionError. The thresholds decide.",
        ),
        # head's environment, which the base has to borrow
        (
            {"desk.py": NOW},
            {},
            "2.0",
            "not_measured",
            "AssertionError; the cause may be this change: the base has no environment of its own, and used head's (.venv/",
        ),
    ],
)
def test_a_base_that_cannot_start(
    repo: Repository, base: dict[str, str], head: dict[str, str], venv: str, kind: str, told: str
) -> None:
    if venv:
        environment(repo, venv)
    for files, message in (
        ({"desk.py": WORKS, **base}, "base"),
        ({"desk.py": WORKS, **head}, "head"),
    ):
        for name, text in files.items():
            repo.write(name, text)
        repo.commit(message)
        if message == "base":
            repo.git("checkout", "-qb", "change")
    code, said = repo.run()
    gates = {gate["gate"]: gate["kind"] for gate in repo.results()["verdict"]["gates"]}
    assert (code, gates) == (
        3 if kind == "not_measured" else 0,
        {"threshold": "pass", "regression": kind},
    ), said
    assert told in said
