"""Real git repositories for tests: made, changed and photographed."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ENVIRON: Mapping[str, str] = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}
"""As evalgate sees it."""

WRITER = {
    **ENVIRON,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_COUNT": "4",
    "GIT_CONFIG_KEY_0": "protocol.file.allow",
    "GIT_CONFIG_VALUE_0": "always",
    "GIT_CONFIG_KEY_1": "init.defaultBranch",
    "GIT_CONFIG_VALUE_1": "main",
    "GIT_CONFIG_KEY_2": "safe.directory",
    "GIT_CONFIG_VALUE_2": "*",
    "GIT_CONFIG_KEY_3": "advice.detachedHead",
    "GIT_CONFIG_VALUE_3": "false",
}


def git(folder: Path, *arguments: str, date: str = "2026-01-02T03:04:05Z") -> str:
    """Run git as a developer would; its output."""
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**WRITER, **dates},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


def made(folder: Path) -> Path:
    """An empty repository on the branch main."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    return folder


def commit(folder: Path, files: Mapping[str, str], *, message: str = "Change") -> str:
    """Write files and commit all that is there; the SHA."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def cloned(origin: Path, to: Path, *options: str) -> Path:
    """A clone through the file protocol, as over a network."""
    git(origin.parent, "clone", "--quiet", *options, f"file://{origin}", str(to))
    return to


def photograph(folder: Path) -> dict[str, str]:
    """Everything in a repository and its working tree: names, modes, times and contents."""
    seen = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            held = str(path.readlink())
        elif path.is_file():
            held = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            held = ""
        seen[str(path.relative_to(folder))] = f"{status.st_mode:o} {status.st_mtime_ns} {held}"
    return seen
