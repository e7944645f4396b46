"""Checks of whole evaluation sets, and of sets against each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from evalgate.errors import Place, Problem
from evalgate.model import Suite
from evalgate.project.linter import finding
from evalgate.project.linter.finding import Setting
from evalgate.text import words


def no_cases(suite: Suite, _: Setting) -> Iterator[Problem]:
    """An evaluation set without cases passes whatever the agent does."""
    if not suite.eval_set.cases:
        yield finding.error(
            "no-cases",
            "the evaluation set has no cases",
            place=Place(file=suite.key),
            hint="Add a case, delete the file, or exclude it in evalgate.yml.",
        )


def set_id_not_file_name(suite: Suite, _: Setting) -> Iterator[Problem]:
    """ADK finds `ID.evalset.json` by its id only where both agree; evalgate goes by the path."""
    name = PurePosixPath(suite.key).name
    set_id = suite.eval_set.eval_set_id
    if name.endswith(".evalset.json") and set_id and name != f"{set_id}.evalset.json":
        yield finding.note(
            "set-id-not-file-name",
            f"eval_set_id is {set_id!r}: `adk eval AGENT {set_id}` looks for {set_id}.evalset.json, not here",
            place=Place(file=suite.key),
        )


def duplicate_set_ids(suites: tuple[Suite, ...]) -> Iterator[Problem]:
    """Two files with one eval_set_id: ADK refuses to run them together; results are easily mixed up."""
    files: dict[str, list[str]] = {}
    for suite in suites:
        files.setdefault(suite.eval_set.eval_set_id, []).append(suite.key)
    for set_id, keys in files.items():
        if len(keys) > 1 and set_id:
            yield finding.warning(
                "duplicate-set-id",
                f"eval_set_id {set_id!r} is used in {len(keys)} files: {words.listed(keys)}",
                place=Place(file=keys[1]),
                hint="evalgate tells them apart by path; `adk eval` refuses to run them together.",
            )
