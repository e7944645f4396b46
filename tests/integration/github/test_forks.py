"""The pull request of a commit, and the commits of a pull request."""

from __future__ import annotations

import pytest

from evalgate.errors import ConfigError
from evalgate.github import forks
from evalgate.github.client import GitHubFailed
from evalgate.github.events import EventContext, EventKind, Head

pytestmark = pytest.mark.integration

SHA, EARLIER = "b" * 40, "a" * 40
ENDED = EventContext(
    kind=EventKind.WORKFLOW_RUN, head=Head(sha=SHA, repository="mallory/r", ref="topic")
)


def dispatch(sha: str = SHA) -> EventContext:
    return EventContext(
        kind=EventKind.WORKFLOW_DISPATCH, name="workflow_dispatch", number=5, head=Head(sha=sha)
    )


@pytest.mark.parametrize("sha", [SHA, EARLIER])
def test_a_reviewed_commit_gets_base_and_head_of_its_pull_request(double, client, sha: str) -> None:
    double.state.add_pull(5, fork="mallory/r", earlier=[EARLIER])
    found = forks.resolve(dispatch(sha), client)
    assert (found.number, found.head.sha, found.base_sha) == (5, sha, "c" * 40)
    assert (found.head.repository, found.head.ref, found.head.is_fork) == (
        "mallory/r",
        "topic",
        True,
    )


def test_forks_even_deleted_ones_are_forks(double, client) -> None:
    double.state.add_pull(5)
    assert forks.resolve(dispatch(), client).head.is_fork is False
    double.state.pulls[5]["head"]["repo"] = None
    assert forks.resolve(dispatch(), client).head.is_fork is True


def test_a_commit_of_another_pull_request_is_refused(double, client) -> None:
    double.state.add_pull(5, earlier=[EARLIER])
    double.state.add_pull(6, head_sha="d" * 40)
    with pytest.raises(
        ConfigError, match="ddddddd is not a commit of pull request #5, whose head is bbbbbbb"
    ):
        forks.resolve(dispatch("d" * 40), client)


def test_a_pull_request_that_is_not_there_is_a_failure(client) -> None:
    with pytest.raises(GitHubFailed, match="could not read the pull request"):
        forks.resolve(dispatch(), client)


@pytest.mark.parametrize(
    ("made", "numbers"),
    [
        ([{"number": 5}], (5,)),
        ([{"number": 5, "fork": "mallory/r", "linked": False}], (5,)),  # only found by its branch
        ([{"number": 5}, {"number": 3}], (3, 5)),  # one head, two bases
        ([{"number": 5, "state": "closed"}], ()),
        ([{"number": 5, "head_sha": "d" * 40}], ()),  # pushed to since
        ([], ()),
    ],
)
def test_pull_requests_of_a_commit(double, client, made, numbers) -> None:
    for each in made:
        double.state.add_pull(**each)
    found = forks.find_by_head(client, ENDED)
    assert tuple(each.number for each in found) == numbers


def test_a_commit_without_a_pull_request_and_without_a_branch_to_ask_for(double, client) -> None:
    assert (
        forks.find_by_head(client, EventContext(kind=EventKind.WORKFLOW_RUN, head=Head(sha=SHA)))
        == ()
    )
    assert len(double.seen) == 1


def test_a_missing_permission_is_a_failure_and_no_empty_list(double, client) -> None:
    double.denied = "/commits/"
    with pytest.raises(GitHubFailed) as caught:
        forks.find_by_head(client, ENDED)
    assert "pull-requests: read" in caught.value.hint
