"""Hooks, filters and settings of git that a checkout has, or that an agent puts there: a gate
carries none of them out, though it looks up its base, checks it out and pushes its results in that
very repository."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

HOOKS = (
    *(
        "applypatch-msg",
        "commit-msg",
        "fsmonitor-watchman",
        "post-applypatch",
        "post-checkout",
        "post-commit",
    ),
    *(
        "post-index-change",
        "post-merge",
        "post-rewrite",
        "pre-auto-gc",
        "pre-commit",
        "pre-push",
        "prepare-commit-msg",
    ),
    *("proc-receive", "push-to-checkout", "reference-transaction", "sendemail-validate"),
)
LAYING = {
    "hooks": "for name in HOOKS: shutil.copy(TRAP, f'.git/hooks/{name}')",
    "a folder of hooks in the checkout": """
        os.makedirs(".hooks", exist_ok=True)
        for name in HOOKS: shutil.copy(TRAP, f".hooks/{name}")
        setting("core.hooksPath", os.path.abspath(".hooks"))
    """,
    "filters": """
        open(".gitattributes", "w").write("* filter=evil diff=evil merge=evil")
        for name in ("clean", "smudge"): setting(f"filter.evil.{name}", TRAP)
        setting("diff.evil.textconv", TRAP); setting("merge.evil.driver", TRAP); setting("diff.external", TRAP)
    """,
    "a filter that stays": """
        open(".git/info/attributes", "w").write("* filter=evil")
        setting("filter.evil.process", TRAP); setting("filter.evil.required", "true")
    """,
    "a monitor": "setting('core.fsmonitor', TRAP)",
    "programs": """
        for name in ("core.sshCommand", "core.gitProxy", "core.askPass", "credential.helper", "gpg.program"):
            setting(name, TRAP)
        setting("core.alternateRefsCommand", TRAP); setting("uploadpack.packObjectsHook", TRAP)
        setting("remote.origin.uploadpack", TRAP); setting("remote.origin.receivepack", TRAP)
    """,
}
"""What lays a trap, as Python that is run in the checkout."""
PRELUDE = """
import os, shutil, subprocess
TRAP, HOOKS = {trap!r}, {hooks!r}
def setting(name, value): subprocess.run(["git", "config", name, value], check=True)
"""


@pytest.mark.parametrize("by_agent", [False, True], ids=["lies there", "put there by the agent"])
@pytest.mark.parametrize("attack", LAYING)
def test_a_gate_springs_no_trap_that_git_has(tmp_path: Path, attack: str, by_agent: bool) -> None:
    sprung, trap = tmp_path / "sprung", tmp_path / "trap"
    trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {sprung}\nexit 1\n')
    trap.chmod(0o755)
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.write(".gitignore", "evalgate-report/\nresults/\n")
    repo.gate_file()
    repo.cases(0, 1)
    repo.agent("base")
    repo.commit("base")
    subprocess.run(
        ["git", "clone", "-q", "--bare", str(repo.root), str(tmp_path / "origin.git")], check=True
    )
    repo.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    repo.git("checkout", "-qb", "change")
    source = PRELUDE.format(trap=str(trap), hooks=HOOKS) + textwrap.dedent(LAYING[attack])
    repo.agent("head")
    if by_agent:
        repo.write("agent.py", source + (repo.root / "agent.py").read_text())
    repo.commit("change")
    if not by_agent:
        subprocess.run([sys.executable, "-c", source], cwd=repo.root, check=True)
    code, said = repo.run("--baseline-folder", "results", "--save-baseline", "always")
    assert code == 0, said
    assert (repo.asked("base"), repo.asked("head")) == (2, 2)
    assert list((repo.root / "results/runs").iterdir()), said
    assert not sprung.exists(), sprung.read_text()
    # the trap works: whoever uses git as it is set up there springs it
    repo.write("agent.py", "changed")
    for command in (
        ["add", "-A"],
        ["commit", "-qm", "x"],
        ["diff", "HEAD~1"],
        ["fetch", "-q", "origin"],
    ):
        identity = {"GIT_AUTHOR_NAME": "t", "GIT_COMMITTER_NAME": "t", "EMAIL": "t@t.example"}
        subprocess.run(
            ["git", *command],
            cwd=repo.root,
            env={**os.environ, **identity},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=30,
        )
    assert sprung.exists()
