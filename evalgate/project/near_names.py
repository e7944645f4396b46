"""Files whose names are nearly right: evaluation sets and criteria that nobody reads, and somebody meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from evalgate.config import globs
from evalgate.errors import Place, Problem, Severity
from evalgate.model import Suite
from evalgate.project import passed_over, reading, tree
from evalgate.project.tree import Tree
from evalgate.text import words

MOST_READ = 100
LARGEST_BYTES = 1024 * 1024


def file_problems(seen: Tree, *, run: Collection[str], exclude: Sequence[str]) -> Iterator[Problem]:
    """A warning for files that are nearly called like evaluation files and hold cases."""
    left = [path for path in seen.near_names if path not in run and not globs.matches(path, exclude)]
    missed = [path for path in left[:MOST_READ] if holds_cases(seen, path)]
    if missed:
        it, are = ("it", "is") if len(missed) == 1 else ("each", "are")
        yield _problem(
            missed[0],
            f"{words.listed(f'`{path}`' for path in missed)} {are} not evaluated: the name must end in "
            f"`.evalset.json` (lower case)",
            f"Rename {it} to *.evalset.json, name {it} in the run, or `exclude` {it} in evalgate.yml.",
        )


def config_problems(seen: Tree, suites: Iterable[Suite]) -> Iterator[Problem]:
    """A warning for each file that is nearly called test_config.json, and nearer to a suite than what counts for it."""
    near = {path for path in seen.near_names if tree.is_near_config(path) and _holds(seen, path, b"criteria")}
    dashed = {path for path in seen.config_files if path.endswith("test-config.json")}  # told with ADK's defaults
    missed: dict[str, list[Suite]] = {}
    for suite in suites if near or dashed else ():
        if suite.criteria_source.origin in passed_over.FOUND:
            path = _nearest(suite, near | dashed if suite.criteria_source.file else near)
            if path is not None:
                missed.setdefault(path, []).append(suite)
    for path, meant in missed.items():
        file = meant[0].criteria_source.file
        used = f"using `{file}`" if file else "using ADK's defaults"
        yield _problem(
            path,
            f"`{path}` is ignored because its name is not `test_config.json`; {used} for "
            f"{words.listed(suite.key for suite in meant)}",
            "Rename it to test_config.json, or name it as `config` of a rule under `suites` in evalgate.yml.",
        )


def holds_cases(seen: Tree, path: str) -> bool:
    """Whether the file holds what only an evaluation set holds."""
    return _holds(seen, path, b"eval_cases", b"evalCases")


def _nearest(suite: Suite, near: Collection[str]) -> str | None:
    counts = suite.criteria_source.file
    for folder in PurePosixPath(suite.key).parents:
        if counts and folder == PurePosixPath(counts).parent:
            return None
        beside = sorted(path for path in near if PurePosixPath(path).parent == folder)
        if beside:
            return beside[0]
    return None


def _holds(seen: Tree, path: str, *marks: bytes) -> bool:
    data = reading.read_bytes(seen.root, path, largest=LARGEST_BYTES)
    return isinstance(data, bytes) and any(mark in data for mark in marks)


def _problem(file: str, message: str, hint: str) -> Problem:
    return Problem(severity=Severity.WARNING, code="near-name", message=message, place=Place(file=file), hint=hint)
