"""What git ignores and somebody may have meant to be evaluated: evaluation files, and configs beside others."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from evalgate.config import globs
from evalgate.errors import Place, Problem, Severity
from evalgate.model import ConfigOrigin, Suite
from evalgate.project import criteria_files, reading
from evalgate.project.tree import Tree
from evalgate.text import words

FOUND = frozenset({ConfigOrigin.BESIDE, ConfigOrigin.ABOVE, ConfigOrigin.DEFAULTS})
"""Origins of criteria that nobody named, so that another file could have been theirs."""


def file_problems(
    tree: Tree, *, within: Collection[str], run: Collection[str], exclude: Sequence[str]
) -> Iterator[Problem]:
    """A warning for the evaluation files `within` those that git ignores. Not for copies of a file that is `run`
    (a build makes such), nor for what `exclude` takes out.
    """
    left = [path for path in tree.ignored if path.endswith("evalset.json") and path in within and path not in run]
    copies = _Copies(tree, run)
    missed = [path for path in left if not globs.matches(path, exclude) and not copies.has(path)]
    if missed:
        it, they = ("it", "it is") if len(missed) == 1 else ("them", "they are")
        yield _problem(
            missed[0],
            f"git ignores {words.listed(f'`{path}`' for path in missed)}, so {they} not evaluated",
            f"Name {it} to evaluate {it} anyway, remove {it} from .gitignore, or `exclude` {it} in evalgate.yml.",
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
            f"git ignores `{path}`, so it is not read; other criteria apply to {words.listed(keys)}",
            "Remove it from .gitignore, or name it as `config` of a rule under `suites` in evalgate.yml.",
        )


class _Copies:
    """Which files stand elsewhere under the same name, byte for byte, and are evaluated there."""

    def __init__(self, tree: Tree, run: Iterable[str]) -> None:
        self._tree = tree
        self._run: defaultdict[str, list[str]] = defaultdict(list)
        for key in run:
            self._run[key.rpartition("/")[2]].append(key)
        self._contents: dict[str, frozenset[bytes]] = {}

    def has(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        if name not in self._run:
            return False
        if name not in self._contents:
            self._contents[name] = frozenset(filter(None, map(self._digest, self._run[name])))
        return self._digest(path) in self._contents[name]

    def _digest(self, path: str) -> bytes | None:
        content = reading.read_bytes(self._tree.root, path)
        return hashlib.sha256(content).digest() if isinstance(content, bytes) else None


def _problem(file: str, message: str, hint: str) -> Problem:
    return Problem(severity=Severity.WARNING, code="ignored-by-git", message=message, place=Place(file=file), hint=hint)
