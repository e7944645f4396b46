"""Globs over repository paths, read the way .gitignore reads them: `*.json` at any depth, `a/**`, `a/`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Sequence

import pathspec


def matches(path: str, globs: Sequence[str]) -> bool:
    """Whether a posix path, relative to the root, matches any of `globs`; a later `!glob` takes it out again.

    What is no pattern (`a\\` with nothing escaped) matches nothing.
    """
    return _compiled(tuple(globs)).match_file(path)


def compiled(lines: Iterable[str]) -> pathspec.GitIgnoreSpec:
    """The lines of a .gitignore as one matcher. Raises ValueError for a line that is no pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of `re`, for sets that look nested: `[[]`
        return pathspec.GitIgnoreSpec.from_lines(lines)


def is_pattern(line: str) -> bool:
    """Whether a line can be compiled."""
    try:
        compiled([line])
    except ValueError:
        return False
    return True


@functools.lru_cache(maxsize=256)
def _compiled(globs: tuple[str, ...]) -> pathspec.GitIgnoreSpec:
    return compiled(glob for glob in globs if is_pattern(glob))
