"""Rules of evalgate.yml that speak of nothing there is: a name mistyped, a file that has moved."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from evalgate.config import globs
from evalgate.config.gate_file import GateFile
from evalgate.config.yaml import Locator
from evalgate.errors import Place, Problem, Severity
from evalgate.project import tree
from evalgate.text import words

Places = Callable[..., Place]

MOST_LOOKED_AT = 2_000


def pattern_problems(
    gate_file: GateFile, *, places: Locator | None, found: Collection[str], left_out: Collection[str]
) -> Iterator[Problem]:
    """A warning for each rule of `agents`, `suites` and `exclude` whose globs match no evaluation file.

    Of a rule with several globs, those that name a file exactly are told alone. `found`: all evaluation files of the
    repository, whatever a run selects. `left_out`: those that are excluded or that git ignores, for `exclude`. Who
    excludes what is not there may only be careful: that is told where a name like it is there.
    """
    where: Places = places if places is not None else lambda *_: Place(file="evalgate.yml")
    for index, agent in enumerate(gate_file.agents):
        yield from _of_rule(agent.suites, ("agents", index, "suites"), found, where)
    for index, suite in enumerate(gate_file.suites):
        yield from _of_rule(suite.match, ("suites", index, "match"), found, where)
    every = {*found, *left_out}
    for index, pattern in enumerate(gate_file.exclude):
        idle = not _matches_any([pattern.removeprefix("!")], every) and not _is_skipped_anyway(pattern)
        if idle and _nearest(pattern, every):
            yield _problem(f"`exclude`: `{pattern}`", [pattern], every, where("exclude", index))


def exact_names(gate_file: GateFile) -> frozenset[str]:
    """The files that rules of `agents` and `suites` name exactly: they may be called as nobody would find them."""
    patterns = [pattern for agent in gate_file.agents for pattern in agent.suites]
    patterns += [pattern for suite in gate_file.suites for pattern in suite.match]
    return frozenset(pattern for pattern in patterns if not _has_signs(pattern))


def name_problems(
    gate_file: GateFile, *, places: Locator | None, known: Iterable[str], used: Iterable[str]
) -> Iterator[Problem]:
    """A warning for each criterion under `compare` and `judge: criteria` that is neither `known` nor `used`."""
    where: Places = places if places is not None else lambda *_: Place(file="evalgate.yml")
    names = {*known, *used}
    given = [(("compare", name), name) for name in gate_file.compare]
    given += [(("judge", "criteria", name), name) for name in gate_file.judge.criteria]  # type: ignore[misc]  # longer
    for path, name in given:
        if name not in names:
            close = words.nearest(name, names)
            yield Problem(
                severity=Severity.WARNING,
                code="rule-matches-nothing",
                message=f"`{'.'.join(path)}`: no suite has a criterion with this name",
                place=where(*path),
                hint=f"Did you mean `{close}`?" if close else "Remove the rule, or correct its name.",
            )


def _of_rule(
    patterns: Sequence[str], path: tuple[str | int, ...], found: Collection[str], where: Places
) -> Iterator[Problem]:
    rule = f"`{path[0]}[{path[1]}]`"
    if not _matches_any(patterns, found):
        shown = words.listed(f"`{pattern}`" for pattern in patterns) or "no glob"
        yield _problem(f"{rule}: {shown}", patterns, found, where(*path))
        return
    for index, pattern in enumerate(patterns):
        if not _has_signs(pattern) and not _matches_any([pattern], found):
            yield _problem(f"{rule}: `{pattern}`", [pattern], found, where(*path, index))


def _has_signs(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[!")


def _matches_any(patterns: Sequence[str], found: Iterable[str]) -> bool:
    return any(globs.matches(path, patterns) for path in found)


def _is_skipped_anyway(pattern: str) -> bool:
    """Whether the pattern is of folders that no walk enters, whatever lies in them."""
    folders = [part for part in pattern.removeprefix("!").split("/") if part.strip("*")]
    return any(part in tree.SKIPPED_FOLDERS or part.startswith(".") for part in folders)


def _problem(what: str, patterns: Sequence[str], found: Iterable[str], place: Place) -> Problem:
    close = next(filter(None, (_nearest(pattern, found) for pattern in patterns)), None)
    return Problem(
        severity=Severity.WARNING,
        code="rule-matches-nothing",
        message=f"{what} matches no evaluation file, so the rule has no effect",
        place=place,
        hint=f"Did you mean `{close}`?" if close else "`evalgate list` shows all files.",
    )


def _nearest(pattern: str, found: Iterable[str]) -> str | None:
    """The file, or the folder of files, that a glob was probably meant for; none among too many to look at each."""
    found = list(found)
    if len(found) > MOST_LOOKED_AT:
        return None
    plain = pattern.strip("!/").removesuffix("*").removesuffix("*").rstrip("/")
    paths = [PurePosixPath(key) for key in found]
    folders = {str(folder): f"{folder}/" for path in paths for folder in path.parents if str(folder) != "."}
    files = {str(path): str(path) for path in paths}
    names = {path.name: str(path) for path in paths}
    for candidates in (files, folders) if plain.endswith(".json") else (folders, files):
        if close := words.nearest(plain, candidates):
            return candidates[close]
    close = words.nearest(plain.rpartition("/")[2], names)
    return names[close] if close else None
