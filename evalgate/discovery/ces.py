"""The CES files of a checkout, told by their content: in an export's folders first, then wherever they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from evalgate import errors
from evalgate.ces import read
from evalgate.ces.read import Library
from evalgate.config import globs
from evalgate.discovery import walk
from evalgate.discovery.walk import Tree
from evalgate.errors import Place, Problem
from evalgate.text import decoding, words

MOST_SNIFFED = 2000
"""How many files are looked into, those in folders of CES first."""
HEAD_BYTES = 65_536
LARGEST_BYTES = 16 * 1024 * 1024
FOLDERS = frozenset({*read.COLLECTIONS, "evals"})


def files_of(tree: Tree, *, exclude: Iterable[str], named: Iterable[str] = ()) -> tuple[str, ...]:
    """The CES files of the tree, and those of the files that the user named."""
    patterns, listed = tuple(exclude), dict.fromkeys((*named, *tree.other_yaml, *tree.other_json))
    first_in_folders = sorted(listed, key=lambda path: FOLDERS.isdisjoint(path.split("/")))
    found = []
    for path in first_in_folders[:MOST_SNIFFED]:
        if globs.matches(path, patterns):
            continue
        head = walk.read_head(tree.root, path, size=HEAD_BYTES)
        if read.kind_of(head.decode("utf-8", errors="replace"), file=path) is not None:
            found.append(path)
    return tuple(sorted(found))


def library(tree: Tree, files: Iterable[str], *, chosen: Collection[str]) -> Library:
    """What stands in the `chosen` files and is wrong with them; what they refer to may be in any of the `files`."""
    texts, problems = dict[str, str](), list[Problem]()
    for key in files if chosen else ():
        data = tree.read(key, largest=LARGEST_BYTES)
        text = data if isinstance(data, Problem) else decoding.decode(data, file=key)
        if isinstance(text, Problem):
            problems.append(text)
        else:
            texts[key] = text
    found = read.library(texts, folders=lambda folder: walk.folder_names(tree.root, folder))
    return Library(
        readings={file: reading for file, reading in found.readings.items() if file in chosen},
        problems=tuple(each for each in (*problems, *found.problems) if each.place and each.place.file in chosen),
    )


def not_run(found: Library) -> Problem | None:
    """The warning that CES evaluations are checked and are not run; None where there are none."""
    tests = found.tests
    if not tests and not any(problem.severity is errors.Severity.ERROR for problem in found.problems):
        return None
    files = sorted(found.readings)
    message = f"{counted(found)} found and not run: evalgate checks, converts and edits them, and does not run them yet"
    return errors.warning("ces-not-run-yet", message, Place(file=files[0]) if files else None, HINT)


HINT = (
    "`evalgate list` shows them, `evalgate validate` checks them, `evalgate convert` makes ADK evaluation sets of them."
)


def counted(found: Library) -> str:
    """`3 CES evaluations in 2 files`."""
    files = len({each.file for each in found.tests}) or len(found.readings)
    return f"{words.counted(len(found.tests), 'CES evaluation')} in {words.counted(files, 'file')}"
