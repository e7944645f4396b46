"""Which files and cases the user asked for: paths, folders, globs, case ids and a search text."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from evalgate import errors
from evalgate.config import places
from evalgate.errors import Place, Problem
from evalgate.model import Case, EvalSet, Text
from evalgate.text import words

CODES = frozenset({"unknown-case", "selection-unmatched"})
"""Codes of problems of what a door selects, not of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One selection of the user's: its files, and the case ids it is limited to (none: all cases).

    `is_file`: it names one file exactly.
    """

    text: str
    keys: tuple[str, ...]
    case_ids: tuple[str, ...] = ()
    is_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What selections are resolved against; posix paths relative to the root.

    `found`: the evaluation files of the walk. `is_file`, `is_folder`: whether a path exists, walked or not; nothing
    outside the root is a folder here. `is_outside`: whether a path leads out of the root, by itself or by a link.
    """

    found: tuple[str, ...]
    is_file: Callable[[str], bool]
    is_folder: Callable[[str], bool]
    is_outside: Callable[[str], bool]


def parse_selection(text: str, *, files: Files) -> Selection | Problem:
    """`PATH`, `FOLDER`, `GLOB`, each optionally with `:case_1,case_2`; split at the last colon that gives a match.

    A file that is named exactly is taken whatever its name is and whether git ignores it or not.
    """
    if not text.strip():
        message = f"{text!r} matches no evaluation file: it is empty"
        hint = "Is a variable not set? Without a selection all evaluation files are used."
        return errors.error("selection-unmatched", message, hint=hint)
    keys = _matched(text, files)
    if keys:
        return Selection(text=text, keys=keys, is_file=keys == (_path(text),))
    for position in _ends(text):
        keys = _matched(text[:position], files)
        case_ids = tuple(each.strip() for each in text[position + 1 :].split(",") if each.strip())
        if keys and case_ids:
            return Selection(text=text, keys=keys, case_ids=case_ids, is_file=keys == (_path(text[:position]),))
    return _unmatched(text, files)


def folders_named(texts: Iterable[str], *, files: Files) -> list[str]:
    """The folders that selections name, in which the walk found nothing: it may have passed them over."""
    named = (_path(part) for text in texts for part in (text, *(text[:at] for at in _ends(text))))
    return sorted({path for path in named if path and files.is_folder(path) and not _below(path, files.found)})


def pick_cases(
    sets: Mapping[str, EvalSet], selections: Sequence[Selection]
) -> tuple[dict[str, EvalSet], tuple[Problem, ...]]:
    """The sets reduced to what is selected; without selections all. A set of which nothing is left is dropped.

    A case id that stands in no file of its selection is a problem.
    """
    if not selections:
        return dict(sets), ()
    wanted: dict[str, set[str] | None] = {}
    problems: list[Problem] = []
    for selection in selections:
        keys = [key for key in selection.keys if key in sets]
        for key in keys:
            earlier = wanted.setdefault(key, set())
            if not selection.case_ids:
                wanted[key] = None
            elif earlier is not None:
                earlier.update(selection.case_ids)
        problems.extend(_unknown_cases(selection, {key: sets[key] for key in keys}))
    picked: dict[str, EvalSet] = {}
    for key, ids in wanted.items():
        if ids is None:
            picked[key] = sets[key]
        elif kept := tuple(case for case in sets[key].cases if case.case_id in ids):
            picked[key] = _with_cases(sets[key], kept)
    return picked, tuple(problems)


def find_cases(sets: Mapping[str, EvalSet], pattern: str) -> dict[str, EvalSet]:
    """The sets reduced to cases whose id or first user text matches `pattern`; sets without any are dropped.

    The pattern is a regular expression, or plain text where it is not a valid one; case is ignored.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # for sets that look nested: `[[]`
        try:
            search = re.compile(pattern, re.IGNORECASE).search
        except (re.error, OverflowError, RecursionError):
            search = re.compile(re.escape(pattern), re.IGNORECASE).search

    def matches(case: Case) -> bool:
        return bool(search(case.case_id) or search(opening_text(case)))

    picked = {key: tuple(case for case in each.cases if matches(case)) for key, each in sets.items()}
    return {key: _with_cases(sets[key], kept) for key, kept in picked.items() if kept}


def _with_cases(eval_set: EvalSet, cases: tuple[Case, ...]) -> EvalSet:
    return dataclasses.replace(eval_set, cases=cases)


def opening_text(case: Case) -> str:
    """The first thing that the user says; empty where that is nothing or no text."""
    if case.scenario is not None:
        return case.scenario.starting_prompt
    if not case.conversation:
        return ""
    return "\n".join(part.text for part in case.conversation[0].user_content.parts if isinstance(part, Text))


def _matched(text: str, files: Files) -> tuple[str, ...]:
    path = _path(text)
    if not path:
        return ()
    if path in files.found or files.is_file(path):
        return (path,)
    if files.is_folder(path):
        return tuple(_below(path, files.found))
    if any(sign in path for sign in "*?["):
        pattern = f"\\{path}" if path[0] in "!#" else path
        return tuple(key for key in files.found if places.matches(key, (pattern,)))
    return ()


def _path(text: str) -> str:
    stripped = text.strip()
    return posixpath.normpath(stripped) if stripped else ""


def _below(folder: str, keys: Iterable[str]) -> list[str]:
    return [key for key in keys if folder == "." or key.startswith(f"{folder}/")]


def _ends(text: str) -> Iterator[int]:
    """Positions of the colons that may end a path, last first; not the one of a Windows drive."""
    for match in reversed(list(re.finditer(":", text))):
        if not (match.start() == 1 and text[0].isalpha() and text[2:3] in ("/", "\\")):
            yield match.start()


def _unmatched(text: str, files: Files) -> Problem:
    path = next((text[:at] for at in _ends(text)), text)
    if files.is_outside(_path(path)):
        message = f"{text!r} is outside the repository"
        return errors.error("outside-root", message, hint="Use a path within the root, or change `root`.")
    close = words.nearest(path, files.found)
    if close is None:
        by_name = {PurePosixPath(key).name: key for key in files.found}
        name = words.nearest(PurePosixPath(path).name, by_name)
        close = by_name[name] if name else None
    is_folder = files.is_folder(_path(path))
    message = f"the folder {text!r} holds no evaluation file" if is_folder else f"{text!r} matches no evaluation file"
    there = f"There are {words.counted(len(files.found), 'evaluation file')}: {words.listed(files.found)}."
    hint = f"Did you mean `{close}`?" if close else there if files.found else ""
    return errors.error("selection-unmatched", message, hint=hint)


def _unknown_cases(selection: Selection, sets: Mapping[str, EvalSet]) -> Iterator[Problem]:
    known = {case.case_id: key for key, each in sets.items() for case in each.cases}
    for case_id in selection.case_ids:
        if sets and case_id not in known:
            where = next(iter(sets)) if len(sets) == 1 else f"any of {words.counted(len(sets), 'file')}"
            close = words.nearest(case_id, known)
            hint = f"Did you mean `{close}`?" if close else f"Its cases: {words.listed(known, limit=8)}."
            message = f"no case {case_id!r} in {where} (selected by {selection.text!r})"
            yield errors.error("unknown-case", message, Place(file=next(iter(sets))), hint)
