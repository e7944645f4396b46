"""What git ignores: .gitignore at every level and .git/info/exclude, nearest rule first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pathspec

from evalgate.config import globs
from evalgate.errors import Place, Problem, Severity


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Layers of rules, farthest first; each with its folder as a prefix (`` or `a/b/`)."""

    layers: tuple[tuple[str, pathspec.GitIgnoreSpec], ...] = ()

    def ignores(self, path: str) -> bool:
        """Whether the nearest rule that speaks of `path` ignores it; folders end with `/`."""
        for prefix, spec in reversed(self.layers):
            decision = spec.check_file(path[len(prefix) :]).include if path.startswith(prefix) else None
            if decision is not None:
                return decision
        return False

    def extended(self, prefix: str, spec: pathspec.GitIgnoreSpec) -> IgnoreRules:
        """These rules and, stronger, those of the folder at `prefix`."""
        return IgnoreRules((*self.layers, (prefix, spec)))


def parse_rules(text: str, *, file: str) -> tuple[pathspec.GitIgnoreSpec, tuple[Problem, ...]]:
    """Rules from the text of a .gitignore; a line that git itself would pass over is told as a note."""
    lines = text.splitlines()
    try:
        return globs.compiled(lines), ()
    except ValueError:
        pass
    bad = [number for number, line in enumerate(lines) if not globs.is_pattern(line)]
    problems = tuple(
        Problem(
            severity=Severity.NOTE,
            code="bad-ignore-line",
            message=f"the line {lines[number]!r} is not a valid pattern (ignored)",
            place=Place(file=file, line=number + 1),
        )
        for number in bad
    )
    return globs.compiled(line for number, line in enumerate(lines) if number not in bad), problems


def read_exclude(root: Path) -> str:
    """The text of the checkout's info/exclude, also for a linked worktree; empty where there is none."""
    git = root / ".git"
    try:
        if git.is_file():  # a linked worktree: a file that names its own folder within the main .git
            pointer = git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            git = root / pointer
            common = git / "commondir"
            if common.is_file():
                git = git / common.read_text(encoding="utf-8").strip()
        return (git / "info" / "exclude").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
