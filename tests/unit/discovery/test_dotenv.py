"""The `.env` of an agent: what is read of it, for whom it counts, where it may be put."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import repositories

from evalgate.config.gate_file import GateFile, JudgeRule
from evalgate.config.settings import Settings
from evalgate.discovery import dotenv
from evalgate.model import AgentUse

WORKFLOW = {"CI": "true"}


def agent(**options: Any) -> AgentUse:
    return AgentUse(driver="adk", options=options)


def of_judges(
    environ: dict[str, str], judge: JudgeRule, uses: list[AgentUse], *, root: Path
) -> dotenv.JudgeEnvironment:
    fields = {"root": root, "gate_file": GateFile(judge=judge)}
    return dotenv.of_judges(Settings().model_copy(update=fields), uses, environ)


def put(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.mkdir(parents=True, exist_ok=True)
        (path / ".env").write_text(text)
    return root


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("A=1", {"A": "1"}),
        ("  export A = 1  ", {"A": "1"}),
        ("A='1 # 2' # 3", {"A": "1 # 2"}),
        ('A="1', {"A": "1"}),
        ("A=1#2 # 3", {"A": "1#2"}),
        ("A=# 3", {"A": ""}),
        ("A=", {"A": ""}),
        ("# A=1", {}),
        ("A", {}),
        ("A=${B}", {}),  # what it refers to may be anything
        ("A=1\r", {"A": "1"}),
        ("A-B=1", {}),
    ],
)
def test_a_line(tmp_path: Path, line: str, values: dict[str, str]) -> None:
    (tmp_path / ".env").write_text(f"{line}\n", newline="")
    assert dotenv.read(tmp_path / ".env") == values


def test_a_file_that_cannot_be_read_sets_nothing(tmp_path: Path) -> None:
    assert dotenv.read(tmp_path) == {}


@pytest.mark.parametrize(
    ("options", "file"),
    [
        ({"path": "agents/desk/agent.py"}, "agents/desk/.env"),
        ({"call": "agents.desk.main:answer"}, "agents/desk/.env"),
        ({"path": "agents/none/here"}, ".env"),
        ({"cwd": "agents/desk", "command": ["./run"]}, "agents/desk/.env"),
        ({}, ".env"),
        ({"path": "../.."}, ".env"),
        ({"path": "\0"}, ".env"),
    ],
)
def test_the_nearest_file_counts(tmp_path: Path, options: dict[str, Any], file: str) -> None:
    root = put(tmp_path / "repo", agents__desk="GOOGLE_API_KEY=1", agents__other="GOOGLE_API_KEY=2")
    (root / ".env").write_text("GOOGLE_API_KEY=3")
    asking = of_judges({}, JudgeRule(), [agent(**options)], root=root)
    assert asking.used == {file: ("GOOGLE_API_KEY",)}


@pytest.mark.parametrize(
    ("text", "environ", "judge", "found"),
    [
        # keys and settings of models, and the judge's own; nothing else, and nothing that is set
        ("GOOGLE_CLOUD_PROJECT=p\nDB_URL=d\nJUDGE_KEY=j", {}, {}, {"GOOGLE_CLOUD_PROJECT": "p"}),
        ("JUDGE_KEY=j\nHTTPS_PROXY=p", {}, {"api_key_env": "JUDGE_KEY"}, {"JUDGE_KEY": "j"}),
        ("GOOGLE_API_KEY=1", {"GOOGLE_API_KEY": "2"}, {}, {"GOOGLE_API_KEY": "2"}),
        # an address never, nor the key that is for it; unless the environment has the same address
        ("OPENAI_BASE_URL=u\nOPENAI_API_KEY=1\nGOOGLE_API_KEY=2", {}, {}, {"GOOGLE_API_KEY": "2"}),
        (
            "OPENAI_API_BASE=u\nOPENAI_API_KEY=1",
            {"OPENAI_API_BASE": "u"},
            {},
            {"OPENAI_API_KEY": "1"},
        ),
        # evalgate.yml says whom to ask
        (
            "OPENAI_BASE_URL=u\nOPENAI_API_KEY=1",
            {},
            {"base_url": "https://own"},
            {"OPENAI_API_KEY": "1"},
        ),
    ],
)
def test_what_counts_for_judges(
    tmp_path: Path, text: str, environ: dict[str, str], judge: dict[str, str], found: dict[str, str]
) -> None:
    asking = of_judges(environ, JudgeRule(**judge), [agent()], root=put(tmp_path, **{"": text}))
    assert asking.environ == {**environ, **found}


def test_of_two_agents_the_first_counts(tmp_path: Path) -> None:
    root = put(tmp_path, a="XAI_API_KEY=1", b="XAI_API_KEY=2\nGROQ_API_KEY=3")
    asking = of_judges({}, JudgeRule(), [agent(path="a"), agent(path="b")], root=root)
    assert asking.environ == {"XAI_API_KEY": "1", "GROQ_API_KEY": "3"}
    assert asking.used == {"a/.env": ("XAI_API_KEY",), "b/.env": ("GROQ_API_KEY",)}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("untracked", ""),
        ("tracked", "git tracks it"),
        ("link", "a symbolic link leads there"),  # which the commit may have laid
        ("linked folder", "a symbolic link leads there"),
        ("no checkout", "without a git checkout"),
    ],
)
def test_what_the_commit_brings_along_does_not_count_in_a_workflow(
    tmp_path: Path, how: str, why: str
) -> None:
    root = repositories.made(tmp_path / "repo")
    put(tmp_path / "elsewhere", a="GOOGLE_API_KEY=1")
    if how == "link":
        (root / "a").mkdir()
        (root / "a/.env").symlink_to(tmp_path / "elsewhere/a/.env")
    elif how == "linked folder":
        (root / "a").symlink_to(tmp_path / "elsewhere/a")
    else:
        put(root, a="GOOGLE_API_KEY=1")
    repositories.commit(root, {".gitignore": "" if how == "tracked" else ".env\n"})
    if how == "no checkout":
        (root / ".git").rename(tmp_path / "git")
    asking = of_judges(WORKFLOW, JudgeRule(), [agent(path="a")], root=root)
    assert ("GOOGLE_API_KEY" in asking.environ) is (why == "")
    assert why in "".join(asking.unused)
    assert of_judges({}, JudgeRule(), [agent(path="a")], root=root).environ == {
        "GOOGLE_API_KEY": "1"
    }


@pytest.mark.parametrize(
    ("theirs", "files"),
    [
        ("a", {"a/.env": "ours"}),
        ("b", {"b/.env": "ours"}),  # the change moved the agent
        ("own", {"own/.env": "theirs"}),
        ("out", {}),  # a link that leads out of the base's checkout
    ],
)
def test_what_the_base_is_lent(tmp_path: Path, theirs: str, files: dict[str, str]) -> None:
    root, base = repositories.made(tmp_path / "repo"), tmp_path / "base"
    put(base, own="theirs")
    (base / "out").symlink_to(tmp_path)
    if theirs in "ab":
        (base / theirs).mkdir()
    ours = theirs if theirs != "b" else "a"
    repositories.commit(root, {".gitignore": ".env\n", "README": ""})
    put(root, **{ours: "ours"})
    lent = dotenv.lend([(agent(path=ours), agent(path=theirs))], root=root, base=base, environ={})
    assert lent == ((f"{ours}/.env",) if "ours" in files.values() else ())
    own = {"own/.env": "theirs"}
    assert {str(path.relative_to(base)): path.read_text() for path in base.rglob(".env")} == {
        **own,
        **files,
    }
    assert not (tmp_path / ".env").exists()
