"""Globs over repository paths, read the way .gitignore reads them: `*.json` at any depth, `a/**`, `a/`."""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from collections.abc import Iterable, Sequence

import pathspec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_STAR = "[^/]*"
_FOLDERS = "(?:/.+)?"
_STARS = re.compile(f"(?:{re.escape(_STAR)})+")
_PIECE = re.compile(r"\\.|\[\^/\]|\[\^?\]?[^\]]*\]|[^\\\[]+|\[", re.DOTALL)
_NO_SLASH = re.compile(r"\[\^/\]|\(\?!/\)")
"""Slashes of an expression that stand for no slash of a path."""


def matches(path: str, globs: Sequence[str]) -> bool:
    """Whether a posix path, relative to the root, matches any of `globs`; a later `!glob` takes it out again.

    What is no pattern (`a\\` with nothing escaped) matches nothing.
    """
    return _compiled(tuple(globs)).match_file(path)


def compiled(lines: Iterable[str]) -> pathspec.GitIgnoreSpec:
    """The lines of a .gitignore as one matcher, quick for any line. Raises ValueError for one that is no pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of `re`, for sets that look nested: `[[]`
        try:
            # `simple`: the one that compiles by `re`
            return pathspec.GitIgnoreSpec.from_lines(lines, _pattern, backend="simple")
        except re.error as error:
            raise ValueError(str(error)) from error


def is_pattern(line: str) -> bool:
    """Whether a line can be compiled."""
    try:
        compiled([line])
    except ValueError:
        return False
    return True


def without_retries(regex: str) -> str:
    """pathspec's regular expression of a glob, matching the same without trying every length of every star.

    Of several stars in one name, and of several `**`, all but the last take as little as they can and stay so: what
    follows may then begin as early as possible, so that to give them more could not help. A set holds no `/`, as in
    git.
    """
    pieces = _PIECE.findall(regex)
    regex = "".join(f"(?!/){each}" if each.startswith("[") and each != "[^/]" else each for each in pieces)
    first, *inner = (_names_without_retries(names) for names in regex.split(_FOLDERS))
    if not inner:
        return first
    *inner, last = inner
    return "".join([first, *(rf"(?>(?:/.+?)??{names}(?=/))" for names in inner), _FOLDERS, last])


def _names_without_retries(names: str) -> str:
    first, *rest = _STARS.split(names)
    made = [first]  # and each piece behind its star
    for piece, after in itertools.zip_longest(rest, rest[1:]):
        is_inner = after is not None and "/" not in _NO_SLASH.sub("", piece)
        made.append(f"(?>{_STAR}?{piece})" if is_inner else f"{_STAR}{piece}")
    return "".join(made)


def _pattern(line: str) -> GitIgnoreSpecPattern:
    regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
    return GitIgnoreSpecPattern(None if regex is None else re.compile(without_retries(regex)), include)


@functools.lru_cache(maxsize=256)
def _compiled(globs: tuple[str, ...]) -> pathspec.GitIgnoreSpec:
    return compiled(glob for glob in globs if is_pattern(glob))
