"""Results of the base branch that workflows uploaded: the nearest readable ones, or none and words."""

from __future__ import annotations

import pytest

from evalgate.errors import UnavailableError
from evalgate.wiring import artifact_store
from evalgate.wiring.artifact_store import ArtifactStore

pytestmark = pytest.mark.integration

NAME = "evalgate-report"
A, B, C = "a" * 40, "b" * 40, "c" * 40
WHOLE = {"results.json": "{}", "comment.md": "x"}


@pytest.mark.parametrize(
    ("made", "expected", "told"),
    [
        ([(A, WHOLE), (B, WHOLE)], (A, 0), ""),
        ([(B, WHOLE)], (B, 1), ""),  # one commit back
        ([(A, {"report.html": "x"}), (B, WHOLE)], (B, 1), "has no results.json at its top"),
        ([(A, b"no zip"), (B, WHOLE)], (B, 1), "was not used"),
        ([(C, WHOLE)], None, ""),
        ([], None, ""),
    ],
)
def test_the_nearest_readable_results_are_found(double, client, tmp_path, made, expected, told) -> None:
    for sha, content in made:
        double.state.add_artifact(NAME, content, head_sha=sha, head_branch="main")
    said: list[str] = []
    found = ArtifactStore(client, NAME, branch="main", scratch=tmp_path, warn=said.append).find([A, B])
    assert (None if found is None else (found.commit, found.distance)) == expected
    assert told in "".join(said)
    assert bool(said) is bool(told)
    if found is not None:
        assert found.path.read_text() == "{}"


@pytest.mark.parametrize(
    "made",
    [
        {"head_branch": "topic"},  # a run of another branch measured something else
        {"head_branch": "main", "head_repository_id": 666},  # everybody can upload one from a fork
        {"head_branch": "main", "expired": True},
    ],
)
def test_others_are_never_used(double, client, tmp_path, made) -> None:
    double.state.add_artifact(NAME, WHOLE, head_sha=A, **made)
    assert ArtifactStore(client, NAME, branch="main", scratch=tmp_path, warn=print).find([A]) is None


def test_without_the_permission_it_says_which_one(double, client, tmp_path) -> None:
    double.fail("GET /repos", how="status", status=403, times=99)
    with pytest.raises(UnavailableError, match="artifacts cannot be listed"):
        ArtifactStore(client, NAME, branch="", scratch=tmp_path, warn=print).find([A])


@pytest.mark.parametrize(
    ("environ", "token", "words"),
    [
        ({}, "t", "GITHUB_REPOSITORY"),  # at a desk
        ({"GITHUB_REPOSITORY": "o/r"}, None, "a token"),
    ],
)
def test_where_github_cannot_be_asked_there_is_no_store(tmp_path, environ, token, words) -> None:
    said: list[str] = []
    with artifact_store.opened(NAME, environ=environ, token=token, scratch=tmp_path, say=said.append) as store:
        assert store is None
    assert words in said[0]
