"""Paths in settings: a relative one stays below the root, whatever it says and whatever links a commit has there.

An absolute path is taken as it is where a person or a workflow gives it, and refused in evalgate.yml, which a pull
request may change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from evalgate.config.gate_file import GateFile

SETTINGS = ("output", "config", "criteria", "baseline_folder", "durations")
"""Settings that are a path. So is that of `baseline: file:PATH`.

`cache` is not among them: only a person or a workflow gives it, and it is relative to another folder."""
LONGEST, LONGEST_NAME = 4000, 255
"""Bytes of a path, and of a name in it."""


def why_not(root: Path, text: str, *, trusted: bool = False) -> str:
    """Why the path is not to be used; empty: it may be. `root`: absolute; `trusted`: a person or a workflow gave it.

    Whoever gives it may name a place elsewhere; nobody is led there by a link that is in the checkout.
    """
    path = PurePosixPath(text)
    if problem := _why_no_path(path, text):
        return problem
    if path.is_absolute():
        return "" if trusted else "is an absolute path; it must be relative to `root`"
    inside = PurePosixPath(os.path.normpath(text))
    if inside.parts[:1] == ("..",):
        return "" if trusted else "leads out of `root`"
    try:
        top, place = root.resolve(), (root / path).resolve()
    except (OSError, RuntimeError):  # RuntimeError: a loop of symbolic links before Python 3.13
        return "cannot be followed: its symbolic links lead nowhere"
    if not place.is_relative_to(top):
        return "leads out of `root` by a symbolic link"
    names = (*inside.parts, *place.relative_to(top).parts)
    return "leads into `.git`" if any(name.casefold() == ".git" for name in names) else ""


def _why_no_path(path: PurePosixPath, text: str) -> str:
    try:
        sizes = (len(os.fsencode(text)), *(len(os.fsencode(name)) for name in path.parts))
    except UnicodeEncodeError:  # half a character
        sizes = ()
    if not sizes or "\0" in text:
        return "holds a character that no path has"
    is_too_long = sizes[0] > LONGEST or max(sizes[1:], default=0) > LONGEST_NAME
    return "is too long for a path" if is_too_long else ""


def of_setting(name: str, value: object) -> str:
    """The path that a setting holds; empty: none."""
    if not isinstance(value, str):
        return ""
    if name == "baseline" and value.startswith("file:"):
        return value.removeprefix("file:")
    return value if name in SETTINGS else ""


def of_gate_file(rules: GateFile) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The paths in evalgate.yml's own sections, each with where it stands; those of `tools` are checked where they
    count."""
    judge = rules.judge
    yield from (
        (("judge", "replay"), judge.replay),
        (("judge", "record"), judge.record),
        (("judge", "calibration"), judge.calibration),
    )
    yield from ((("suites", number, "config"), suite.config or "") for number, suite in enumerate(rules.suites))
    for number, agent in enumerate(rules.agents):
        for name in ("path", "cwd"):
            path = agent.options.get(name)
            if isinstance(path, str):
                yield ("agents", number, name), path
