"""Requirements that may mend an agent that does not start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.model import AgentFailure, AgentUse, FailureKind
from evalgate.wings.author import starter

LOADING = "the agent 'desk:agent' cannot be loaded: "
DDGS = (
    LOADING + "there is no module named 'ddgs' for /python. Add `ddgs` to the agent's requirements."
)
RENAMED = LOADING + "ImportError: cannot import name 'OpenAIModel' from 'pydantic_ai.models.openai'"
DAY = "--exclude-newer=2025-07-01"
LISTED = {"requirements.txt": "pydantic-ai\n"}
PROJECT = "[project]\nname = 'a'\nversion = '0'\ndependencies = ['b']\n"
POETRY = """
[tool.poetry]
name = 'a'
version = '0'
description = ''
authors = ['A <a@b>']
[tool.poetry.dependencies]
python = '>=3.11'
httpx = '~0.27'
"""
OLD = "openai-agents 0.0.3 is installed for /python, and this driver is made for openai-agents>=0.0.7,<1"


def repository(folder: Path, files: dict[str, str]) -> Settings:
    """A repository whose commit is of 2025-06-30."""
    for name, text in {"desk.py": "", **files}.items():
        (folder / name).write_text(text)
    date = {"GIT_COMMITTER_DATE": "2025-06-30T12:00:00Z"}
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "a")):
        subprocess.run(
            ["git", *command], cwd=folder, env=date | {"PATH": "/usr/bin:/bin"}, check=True
        )
    return Settings(root=folder)


@pytest.mark.parametrize(
    ("files", "options", "kind", "message", "requirements"),
    [
        # a package that an installed one names, and a package that the error advises
        (LISTED, {}, FailureKind.START, DDGS, ["requirements.txt", "ddgs"]),
        (LISTED, {}, FailureKind.START, LOADING + "ImportError: it needs: pip install google-adk[extensions]",
         ["requirements.txt", "google-adk[extensions]"]),
        # what today's packages have lost, those of the commit's day have
        (LISTED, {}, FailureKind.START, RENAMED, ["requirements.txt", DAY]),
        ({"pyproject.toml": PROJECT}, {}, FailureKind.START, RENAMED, ["pyproject.toml", DAY]),
        (LISTED, {}, FailureKind.START, LOADING + "there is no module named 'httpx' for /python. If 'httpx' is",
         ["requirements.txt", DAY]),
        # one after the other, each once
        (LISTED, {"requirements": ["requirements.txt", "ddgs"]}, FailureKind.START, RENAMED,
         ["requirements.txt", "ddgs", DAY]),
        (LISTED, {"requirements": ["requirements.txt", "ddgs", DAY]}, FailureKind.START, DDGS, None),
        # a version that the index no longer has, a package of another system
        (LISTED, {}, FailureKind.INSTALL, "Because pywin32==310 has no wheels with a matching platform tag (e.g., `a`)",
         ["requirements.txt", f"--override=pywin32; sys_platform != {sys.platform!r}"]),
        (LISTED, {}, FailureKind.INSTALL, "installing failed: Failed to build `pywinpty==2.0.15`: The build backend",
         ["requirements.txt", f"--override=pywinpty; sys_platform != {sys.platform!r}"]),
        (LISTED, {}, FailureKind.INSTALL, "installing failed: Because there is no version of av==14.3.0 and you",
         ["requirements.txt", "--override=av"]),
        # a pinned framework that is older than the code
        (LISTED, {"requirements": ["requirements.txt", DAY]}, FailureKind.START,
         LOADING + "ImportError: cannot import name 'Agent' from 'pydantic_ai' (/python)",
         ["requirements.txt", DAY, "--override=pydantic-ai"]),
        # nothing declared: the framework alone
        ({}, {}, FailureKind.INSTALL, "there is no Python that has pydantic_ai for the agent.", ["pydantic-ai"]),
        # a lock decides, unless its framework is too old; so does a named Python
        ({"uv.lock": "", "pyproject.toml": PROJECT}, {}, FailureKind.START, DDGS, None),
        ({"uv.lock": "", "pyproject.toml": PROJECT}, {}, FailureKind.START, OLD, ["pyproject.toml"]),
        (LISTED, {"python": "python3"}, FailureKind.START, DDGS, None),
        # Poetry's tables give their requirements, unless it refuses them
        ({"pyproject.toml": POETRY}, {}, FailureKind.START, DDGS, ["httpx (>=0.27,<0.28)", "ddgs"]),
        ({"pyproject.toml": POETRY.replace("['A <a@b>']", "[{name = 'A'}]")}, {}, FailureKind.START, DDGS, None),
        # other failures have other reasons
        (LISTED, {}, FailureKind.START, LOADING + "ValueError: API_KEY is not set", None),
        (LISTED, {}, FailureKind.RAISED, "KeyError: 'question'", None),
    ],
)  # fmt: skip
def test_requirements_that_may_mend_a_failure(
    tmp_path: Path,
    files: dict[str, str],
    options: dict[str, object],
    kind: FailureKind,
    message: str,
    requirements: list[str] | None,
) -> None:
    settings = repository(tmp_path, files)
    use = AgentUse(driver="pydantic-ai", options={"call": "desk:agent", **options})
    failure = AgentFailure(kind=kind, message=message)
    context = Context(environ={}, cache=tmp_path)
    attempt = starter.mended(use, {}, failure, settings, context)
    assert (attempt and attempt[0].options["requirements"]) == requirements


@pytest.mark.parametrize(
    ("needs", "values"),
    [
        ("customer_id (int), name (str)", {"customer_id": 1, "name": "name"}),
        ("user (str | None), tags (list[str]), limits (dict[str, int])", {"user": None, "tags": [], "limits": {}}),
        # an object is not made up, and neither are those beside it
        ("customer_id (int), db (shop.Database)", {}),
    ],
)  # fmt: skip
def test_a_state_that_is_made_up_by_types(needs: str, values: dict[str, object]) -> None:
    assert starter.made_up(f"given a Deps, which needs {needs}: name the object") == values
