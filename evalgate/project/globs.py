"""Globs over repository paths, read the way .gitignore reads them: `*.json` at any depth, `a/**`, `a/`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pathspec


def matches(path: str, globs: Sequence[str]) -> bool:
    """Whether a posix path, relative to the root, matches any of `globs`; a later `!glob` takes it out again."""
    return _compiled(tuple(globs)).match_file(path)


@functools.lru_cache(maxsize=256)
def _compiled(globs: tuple[str, ...]) -> pathspec.GitIgnoreSpec:
    return pathspec.GitIgnoreSpec.from_lines(globs)
