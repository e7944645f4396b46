"""Pull requests by number and by head, and what people may do."""

from __future__ import annotations

import pytest

from evalgate.github import approvals, pulls
from evalgate.github.approvals import Approved
from evalgate.github.failures import GitHubFailed

pytestmark = pytest.mark.integration

SHA = "b" * 40


def test_a_pull_request_as_it_is_now(double, client) -> None:
    double.state.add_pull(5, labels=[], draft=True)
    found = pulls.fetch_pull(client, 5)
    assert (found.number, found.is_open, found.draft, found.is_fork) == (5, True, True, False)
    assert (found.head_sha, found.base_sha, found.base_ref) == (SHA, "c" * 40, "main")


def test_forks_even_deleted_ones_are_forks(double, client) -> None:
    double.state.add_pull(5, fork="mallory/r")
    double.state.add_pull(6)
    double.state.pulls[6]["head"]["repo"] = None
    assert pulls.fetch_pull(client, 5).is_fork
    assert pulls.fetch_pull(client, 6).is_fork


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
    found = pulls.find_by_head(client, SHA, head_repository="mallory/r", head_ref="topic")
    assert tuple(each.number for each in found) == numbers


def test_a_commit_without_a_pull_request_and_without_a_branch_to_ask_for(double, client) -> None:
    assert pulls.find_by_head(client, SHA) == ()
    assert len(double.seen) == 1


def test_a_missing_permission_is_a_failure_and_no_empty_list(double, client) -> None:
    double.denied = "/commits/"
    with pytest.raises(GitHubFailed) as caught:
        pulls.find_by_head(client, SHA)
    assert "pull-requests: read" in caught.value.hint


@pytest.mark.parametrize(
    ("role", "may"), [("admin", True), ("write", True), ("read", False), ("none", False), (None, False)]
)
def test_who_may_write(double, client, role, may) -> None:
    double.state.roles = {"octocat": role} if role else {}
    assert approvals.fetch_may_write(client, "octocat") is may


def test_nobody_may_write(double, client) -> None:
    assert approvals.fetch_may_write(client, "") is False
    assert double.seen == []


def test_what_reviewers_of_an_environment_said(double, client) -> None:
    double.state.add_pull(5)
    double.state.add_approval(7, "evals", "boss")
    said = approvals.fetch_approvals(client, 7)
    pull = pulls.fetch_pull(client, 5)
    assert approvals.by_environment(said, pull, environment="evals", run_sha=SHA) == Approved(
        sha=SHA, by="boss", means="environment evals"
    )
