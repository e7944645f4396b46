"""How a workflow names the gate's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.errors import Place, Problem, Severity
from evalgate.gate import store
from evalgate.github import events
from evalgate.model import Links


@pytest.mark.parametrize(
    ("git", "root", "folder"),
    [
        (".", "", ""),
        (".", ".", ""),
        (".", "services/geo", "services/geo"),
        (".", "services/../services/geo/", "services/geo"),
        ("code", "code", ""),  # checked out into a folder of the workspace
        ("code", "code/services/geo", "services/geo"),
        (None, "services/geo", "services/geo"),  # no git at hand
        (".", "../elsewhere", ""),  # refused elsewhere; no name to guess
    ],
)
def test_a_folder_is_named_from_the_top_of_its_repository(
    tmp_path: Path, git: str | None, root: str, folder: str
) -> None:
    workspace = tmp_path / "workspace"
    (workspace / root).mkdir(parents=True)
    if git is not None:
        (workspace / git / ".git").mkdir(parents=True)
    assert events.folder_of({"GITHUB_WORKSPACE": str(workspace), "INPUT_ROOT": root}) == folder


@pytest.mark.parametrize(
    ("git", "root", "links", "expected"),
    [
        (".", ".", Links(), ""),
        (".", "services/geo", Links(), "services/geo"),
        (".", ".github", Links(), ".github"),
        ("services", "services/geo", Links(), "geo"),  # a repository within
        (None, "services/geo", Links(), None),  # nobody knows
        (
            None,
            "services/geo",
            Links(repository="https://host/o/r", folder="services/geo"),
            "services/geo",
        ),
        (None, ".", Links(repository="https://host/o/r"), ""),
    ],
)
def test_results_know_their_folder_of_the_repository(
    tmp_path: Path, git: str | None, root: str, links: Links, expected: str | None
) -> None:
    (tmp_path / root).mkdir(parents=True, exist_ok=True)
    if git is not None:
        (tmp_path / git / ".git").mkdir(parents=True)
    assert store.root_of(tmp_path / root, links) == expected


def test_places_move_with_their_folder_and_absolute_ones_stay() -> None:
    problem = Problem(
        severity=Severity.ERROR, code="x", message="m", place=Place(file="a.json", line=3)
    )
    assert str(problem.below("services/geo").place) == "services/geo/a.json:3"
    assert problem.below("") == problem
    outside = Problem(
        severity=Severity.ERROR, code="x", message="m", place=Place(file="/etc/a.json")
    )
    assert outside.below("services/geo") == outside
    assert Problem(severity=Severity.ERROR, code="x", message="m").below("services").place is None
