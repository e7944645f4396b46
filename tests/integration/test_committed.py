"""What a commit brings along where results and verdicts are kept is not believed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import gated_repository, repositories
from builders.repositories import ENVIRON, git

from evalgate.agents import pool
from evalgate.agents.base import AgentFailed, AgentSetting
from evalgate.config.settings import Settings
from evalgate.gate import prepare
from evalgate.system import git as system_git
from evalgate.system.python_env import InstallSetup
from evalgate.system.watching import Watch

pytestmark = pytest.mark.integration


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    made = repositories.made(tmp_path / "checkout")
    repositories.commit(
        made, {"agent.py": "", "kept/verdicts/81.json": "{}", ".gitignore": "new/\n"}
    )
    return made


def untracked(checkout: Path) -> None:
    (checkout / "new").mkdir()
    (checkout / "new/81.json").write_text("{}")


def link(checkout: Path) -> None:
    (checkout / "link").symlink_to("kept")
    repositories.commit(checkout, {"other": ""})


def link_out(checkout: Path) -> None:
    (checkout.parent / "elsewhere").mkdir()
    (checkout / "out").symlink_to(checkout.parent / "elsewhere")
    repositories.commit(checkout, {"other": ""})


def submodule(checkout: Path) -> None:
    other = repositories.made(checkout.parent / "other")
    repositories.commit(other, {"base/runs/81.json": "{}"})
    git(
        checkout,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(other),
        "brought",
    )
    repositories.commit(checkout, {"another": ""})


def nothing(_: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("prepare", "place", "expected"),
    [
        (nothing, "kept", True),
        (nothing, "kept/verdicts", True),
        (nothing, "kept/none", False),  # beside what is tracked, and not there yet
        (nothing, "kept/verdicts/none", False),
        (nothing, "agent.py/cache", True),  # a file of the commit stands in the way
        (untracked, "new", False),  # brought by an earlier step, as actions/cache does
        (link, "link/verdicts", True),
        (link_out, "out", True),  # who commits it decides what is found there
        (link_out, "out/81.json", True),
        (submodule, "brought", True),
        # the commit knows no file below a submodule, and brings them all
        (submodule, "brought/base", True),
        (nothing, "../outside", False),
        (nothing, ".", True),
    ],
)
def test_what_the_commit_has(
    checkout: Path, prepare: Callable[[Path], None], place: str, *, expected: bool
) -> None:
    prepare(checkout)
    path = checkout / place
    assert system_git.first_committed([checkout.parent, path], checkout, ENVIRON) == (
        path if expected else None
    )


def test_a_folder_without_git(tmp_path: Path) -> None:
    assert system_git.first_committed([tmp_path / "cache"], tmp_path, ENVIRON) is None


@pytest.mark.skipif(sys.platform != "linux", reason="needs the system: inotify")
def test_a_checkout_with_none_of_the_places_is_not_opened(checkout: Path, tmp_path: Path) -> None:
    """A worktree, as the base is: the watch would count its `.git` as read by its agent, and no
    result of the base would stand in for a later run."""
    base = tmp_path / "base"
    git(checkout, "worktree", "add", "-q", "--detach", str(base))
    with Watch(base) as watch:
        assert system_git.first_committed([tmp_path / "python"], base, ENVIRON) is None
        assert watch.accessed_paths() == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="needs the system: inotify")
def test_git_is_not_asked_about_a_metrics_python_in_the_cache(checkout: Path) -> None:
    """The action `gate` has its cache in the workspace, which is watched."""
    cache = checkout / "cache"
    python = cache / "env/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    world = InstallSetup(environment=ENVIRON, cache=str(cache))
    setting = AgentSetting(root=str(checkout), world=world)
    with Watch(checkout) as watch:
        options = pool.PythonOptions(python=str(python))
        launch = pool.prepare_launch("metrics", options, setting, hello={}, framework="")
        assert [path for path in watch.accessed_paths() if path.startswith(".git")] == []
    assert str(python) in launch.command


@pytest.mark.parametrize("is_link", [True, False], ids=["a link", "dots"])
def test_a_way_through_the_cache_leads_to_a_committed_python(
    checkout: Path, *, is_link: bool
) -> None:
    cache = checkout / "cache"
    repositories.commit(checkout, {"kept/python": f'#!/bin/sh\nexec {sys.executable} "$@"\n'})
    (checkout / "kept/python").chmod(0o755)
    (cache / "env/bin").mkdir(parents=True)
    python = cache / "../kept/python"
    if is_link:
        python = cache / "env/bin/python"
        python.symlink_to(checkout / "kept/python")
    world = InstallSetup(environment=ENVIRON, cache=str(cache))
    options = pool.PythonOptions(python=str(python))
    with pytest.raises(AgentFailed, match="part of the commit"):
        pool.prepare_launch(
            "metrics",
            options,
            AgentSetting(root=str(checkout), world=world),
            hello={},
            framework="",
        )


def test_git_that_cannot_tell(checkout: Path) -> None:
    (checkout / ".git/objects").rename(checkout / ".git/gone")
    assert system_git.first_committed([checkout / "kept"], checkout, ENVIRON)


@pytest.mark.parametrize(
    ("named", "home", "used"),
    [
        ("kept", "home", "home/.cache/evalgate"),
        ("new", "home", "checkout/new"),
        ("", "home", "home/.cache/evalgate"),
    ],
)
def test_the_cache_that_is_used(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, named: str, home: str, used: str
) -> None:
    monkeypatch.chdir(checkout)
    choice = Settings(cache=named, root=checkout)
    said: list[str] = []
    monkeypatch.setenv("HOME", str(checkout.parent / home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert prepare.cache_of(choice, ENVIRON, say=said.append) == checkout.parent / used
    assert [line for line in said if "contains committed files" in line] == said
    assert bool(said) is (named == "kept")


IN_A_WORKFLOW = {
    "GITHUB_REPOSITORY": "o/r",
    "GITHUB_RUN_ID": "99",
    "GITHUB_ACTIONS": "true",
    "CI": "true",
}


@pytest.mark.parametrize(
    ("made_in", "committed", "resumed_in", "refused"),
    [
        (IN_A_WORKFLOW, False, IN_A_WORKFLOW, ""),
        # as a cache carries it
        (IN_A_WORKFLOW, False, {**IN_A_WORKFLOW, "GITHUB_RUN_ID": "100"}, ""),
        (
            IN_A_WORKFLOW,
            True,
            IN_A_WORKFLOW,
            "is part of the commit, so --resume does not continue from it",
        ),
        ({}, False, IN_A_WORKFLOW, "was not written by a workflow run of o/r"),
        (
            {**IN_A_WORKFLOW, "GITHUB_REPOSITORY": "o/fork"},
            False,
            IN_A_WORKFLOW,
            "was not written by a workflow run",
        ),
        ({}, True, {"CI": "true"}, "is part of the commit"),  # another CI
        ({}, True, {}, ""),  # somebody's own machine
    ],
)
def test_a_journal_of_somebody_else_is_not_resumed_in_a_workflow(
    tmp_path: Path,
    made_in: dict[str, str],
    committed: bool,
    resumed_in: dict[str, str],
    refused: str,
) -> None:
    """A trial and its grade that a journal holds are not measured again: whoever writes it writes
    the results."""
    repo = gated_repository.of_one_case(tmp_path)
    repo.commit("head")
    assert repo.call("run", "--no-isolate", environment=made_in)[0] == 0
    if committed:
        repo.git("add", "--force", "evalgate-report")
        repo.commit("brings its results along")
    repo.log.unlink()
    code, said = repo.call("run", "--no-isolate", "--resume", environment=resumed_in)
    assert (code, repo.asked("head")) == ((2, 0) if refused else (0, 0)), said
    assert refused in said
    assert not refused or "evalgate-report/journal.jsonl" in said
