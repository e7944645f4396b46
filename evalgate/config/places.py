"""Paths in settings, and globs over repository paths.

A relative path stays below the root, whatever its text and whatever links a commit has. Globs work
as in .gitignore: `*.json` at any depth, `a/**`, `a/`.

An absolute path is accepted from a person or a workflow. In evalgate.yml, which a pull request may
change, it is an error."""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath

import pathspec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from evalgate import config
from . import Trait
from .gate_file import JudgeRule
from .settings import Settings

SETTINGS = config.names_with(Settings, Trait.PATH)
"""Settings that are paths. The path of `baseline: file:PATH` is one too."""
OF_JUDGES = config.names_with(JudgeRule, Trait.PATH)
LONGEST = 4000
LONGEST_NAME = 255
"""The most bytes of a path, and of a name in it."""


def refusal_reason(root: Path, text: str, *, trusted: bool = False) -> str:
    """Why the path must not be used; "" if it may. `root`: absolute. `trusted`: a person or a
    workflow set it.

    A trusted path may lead elsewhere by itself, but never by a link in the checkout."""
    path = PurePosixPath(text)
    if problem := _path_fault(path, text):
        return problem
    if path.is_absolute():
        return "" if trusted else "is an absolute path; it must be relative to `root`"
    inside = PurePosixPath(os.path.normpath(text))
    if inside.parts[:1] == ("..",):
        return "" if trusted else "leads out of `root`"
    try:
        top = root.resolve()
        place = (root / path).resolve()
    except (OSError, RuntimeError):  # RuntimeError: a loop of symbolic links before Python 3.13
        return "cannot be resolved: its symbolic links are broken"
    if not place.is_relative_to(top):
        return "leads out of `root` by a symbolic link"
    names = (*inside.parts, *place.relative_to(top).parts)
    return "leads into `.git`" if any(name.casefold() == ".git" for name in names) else ""


def _path_fault(path: PurePosixPath, text: str) -> str:
    try:
        sizes = (len(os.fsencode(text)), *(len(os.fsencode(name)) for name in path.parts))
    except UnicodeEncodeError:  # a lone surrogate
        sizes = ()
    if not sizes or "\0" in text:
        return "contains a character that no path can have"
    is_too_long = sizes[0] > LONGEST or max(sizes[1:], default=0) > LONGEST_NAME
    return "is too long for a path" if is_too_long else ""


def of_setting(name: str, value: object) -> str:
    """The path in a setting's value; "" if it is not a path."""
    if not isinstance(value, str):
        return ""
    if name == "baseline" and value.startswith("file:"):
        return value.removeprefix("file:")
    return value if name in SETTINGS else ""


# --- globs ---------------------------------------------------------------------------------------


_STAR = "[^/]*"
_FOLDERS = "(?:/.+)?"
_STARS = re.compile(f"(?:{re.escape(_STAR)})+")
_PIECE = re.compile(r"\\.|\[\^/\]|\[\^?\]?[^\]]*\]|[^\\\[]+|\[", re.DOTALL)
_NO_SLASH = re.compile(r"\[\^/\]|\(\?!/\)")
"""Parts of a regular expression with a slash that matches no slash of a path."""


def matches(path: str, globs: Sequence[str]) -> bool:
    """True if a POSIX path, relative to the root, matches any of `globs`. A later `!glob` excludes
    it again.

    An invalid pattern (a final backslash) matches nothing."""
    return compiled(tuple(globs)).match_file(path)


@lru_cache(maxsize=256)
def compiled(lines: tuple[str, ...]) -> pathspec.GitIgnoreSpec:
    """The lines of a .gitignore as one matcher, fast for any line, without invalid lines, which git
    skips, too."""
    patterns = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of `re`, for sets that look nested: `[[]`
        for line in filter(None, lines):
            with suppress(ValueError, re.error):
                regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
                pattern = None if regex is None else re.compile(without_retries(regex))
                patterns.append(GitIgnoreSpecPattern(pattern, include))
    return pathspec.GitIgnoreSpec(patterns, backend="simple")  # which uses `re`


def without_retries(regex: str) -> str:
    """pathspec's regular expression of a glob, with the same matches, but without trying every
    length of every star.

    Of several stars in one name, and of several `**`, all except the last match as little as
    possible and never more: then the remaining pattern begins as early as possible, so a longer
    match could not help. As in git, a set contains no `/`."""
    end = regex.rfind("]") + 1  # after the last set
    pieces = [*_PIECE.findall(regex[:end]), regex[end:]]
    regex = "".join(
        f"(?!/){piece}" if piece.startswith("[") and piece != "[^/]" else piece for piece in pieces
    )
    by_folder = []
    for names in regex.split(_FOLDERS):
        first, *pieces = _STARS.split(names)
        patterns = [first]  # then each piece with the star before it
        for piece, next_piece in itertools.zip_longest(pieces, pieces[1:]):
            is_inner = next_piece is not None and "/" not in _NO_SLASH.sub("", piece)
            patterns.append(f"(?>{_STAR}?{piece})" if is_inner else f"{_STAR}{piece}")
        by_folder.append("".join(patterns))
    first, *inner_patterns = by_folder
    if not inner_patterns:
        return first
    *inner_patterns, last = inner_patterns
    return "".join(
        [first, *(rf"(?>(?:/.+?)??{names}(?=/))" for names in inner_patterns), _FOLDERS, last]
    )
