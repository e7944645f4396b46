"""What to say when nothing is left to evaluate: where we looked, what was passed over, what may be meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evalgate.errors import NothingToDo, Problem
from evalgate.project import near_names
from evalgate.project.tree import Tree
from evalgate.text import words

MOST_LOOKALIKES_READ = 300


def nothing_found(tree: Tree, *, cases: int, files: int, grep: str, problems: Iterable[Problem]) -> NothingToDo:
    """The error for a run without cases. `cases`, `files`: how many were read before the search text was applied."""
    told = tuple(problems)
    if cases and grep:
        message = (
            f"none of {words.counted(cases, 'case')} in {words.counted(files, 'evaluation file')} matches {grep!r}"
        )
        hint = "`grep` searches case ids and the first user text."
    elif tree.evaluation_files:
        message = "no case was selected"
        hint = f"There are {words.counted(len(tree.evaluation_files), 'evaluation file')}: "
        hint += f"{words.listed(tree.evaluation_files)}."
    else:
        message = "no evaluation file was found"
        hint = "\n    ".join(_where_we_looked(tree))
    return NothingToDo(message, hint=hint, problems=told)


def _where_we_looked(tree: Tree) -> Iterator[str]:
    yield (
        "Looked for *.evalset.json, and for *.test.json and *-dataset.json with ADK's content, in all folders except "
        "hidden ones, Python environments, node_modules and git-ignored ones."
    )
    if tree.ignored:
        yield f"Git ignores {words.listed(tree.ignored)}: name the file to evaluate it anyway."
    alike = list(_lookalikes(tree))
    if alike:
        verb = "looks" if len(alike) == 1 else "look"
        yield f"{words.listed(alike)} {verb} like an evaluation set: rename to *.evalset.json, or name it."


def _lookalikes(tree: Tree) -> Iterator[str]:
    for path in sorted({*tree.near_names[:MOST_LOOKALIKES_READ], *tree.other_json[:MOST_LOOKALIKES_READ]}):
        if near_names.holds_cases(tree, path):
            yield path
