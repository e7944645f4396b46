"""What git ignores and somebody may have meant to be evaluated: evaluation files, and configs beside others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from evalgate import words
from evalgate.errors import Place, Problem, Severity
from evalgate.model import ConfigOrigin, Suite
from evalgate.project import criteria_files, globs, reading
from evalgate.project.tree import Tree

FOUND = frozenset({ConfigOrigin.BESIDE, ConfigOrigin.ABOVE, ConfigOrigin.DEFAULTS})
"""Origins of criteria that nobody named, so that another file could have been theirs."""


def file_problems(
    tree: Tree, *, within: Collection[str], run: Collection[str], exclude: Sequence[str]
) -> Iterator[Problem]:
    """A warning for the evaluation files `within` those that git ignores. Not for copies of a file that is `run`
    (a build makes such), nor for what `exclude` takes out.
    """
    left = [path for path in tree.ignored if path.endswith("evalset.json") and path in within and path not in run]
    missed = [path for path in left if not globs.matches(path, exclude) and not _is_copy(tree, path, run)]
    if missed:
        it, they = ("it", "it is") if len(missed) == 1 else ("them", "they are")
        yield _problem(
            missed[0],
            f"git ignores {words.listed(f'`{path}`' for path in missed)}, so that {they} not evaluated",
            f"Name {it} to evaluate {it} all the same, take {it} out of .gitignore, or `exclude` {it} in evalgate.yml.",
        )


def config_problems(tree: Tree, suites: Iterable[Suite]) -> Iterator[Problem]:
    """A warning for each config that git ignores and that would otherwise be the nearest of a suite."""
    ignored = tree.ignored_configs - tree.config_files
    every = tree.config_files | ignored
    served: dict[str, list[str]] = {}
    for suite in suites if ignored else ():
        if suite.criteria_source.origin in FOUND:
            nearest = criteria_files.nearest_config(suite.key, every, criteria_files.ADK_CONFIGS)
            if nearest is not None and nearest in ignored:
                served.setdefault(nearest, []).append(suite.key)
    for path, keys in served.items():
        yield _problem(
            path,
            f"git ignores `{path}`, so that it is not read; other criteria count for {words.listed(keys)}",
            "Take it out of .gitignore, or name it as `config` of a rule under `suites` in evalgate.yml.",
        )


def _is_copy(tree: Tree, path: str, run: Iterable[str]) -> bool:
    name = path.rpartition("/")[2]
    alike = [key for key in run if key.rpartition("/")[2] == name]
    if not alike:
        return False
    content = reading.read_bytes(tree.root, path)
    return isinstance(content, bytes) and any(content == reading.read_bytes(tree.root, key) for key in alike)


def _problem(file: str, message: str, hint: str) -> Problem:
    return Problem(severity=Severity.WARNING, code="ignored-by-git", message=message, place=Place(file=file), hint=hint)
