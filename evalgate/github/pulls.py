"""Pull requests as the API tells them: by number, or by the commit at their head."""

from __future__ import annotations

from dataclasses import dataclass

from evalgate.github import endpoints
from evalgate.github.client import Client
from evalgate.github.failures import FailureKind, GitHubFailed
from evalgate.github.replies import Pull


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request as it is now. `head_repository` is "" where the fork was deleted."""

    number: int
    is_open: bool
    base_sha: str
    base_ref: str
    head_sha: str
    head_ref: str
    head_repository: str
    is_fork: bool
    draft: bool
    labels: tuple[str, ...]


def fetch_pull(client: Client, number: int) -> PullRequest:
    """A pull request by its number. Raises GitHubFailed."""
    return _of(client.fetch(endpoints.FETCH_PULL, Pull, pull_number=number))


def find_by_head(
    client: Client, head_sha: str, *, head_repository: str = "", head_ref: str = ""
) -> tuple[PullRequest, ...]:
    """The open pull requests into this repository whose head is `head_sha` right now, by number.

    The commit is asked first; of a fork's commit that may say nothing, so the branch `head_ref` of `head_repository`
    (both as a `workflow_run` names them) is asked next. Empty: closed, or pushed to since. Raises GitHubFailed.
    """
    try:
        found = client.fetch_all(endpoints.LIST_COMMIT_PULLS, Pull, commit_sha=head_sha)
    except GitHubFailed as failed:
        # 422: a commit that this repository does not know, as of a fork whose branch was removed.
        if failed.kind not in (FailureKind.INVALID, FailureKind.NOT_FOUND):
            raise
        found = []
    matching = _with_head(found, head_sha, client.repository)
    owner = head_repository.partition("/")[0]
    if not matching and owner and head_ref:
        query = {"state": "open", "head": f"{owner}:{head_ref}"}
        matching = _with_head(client.fetch_all(endpoints.LIST_PULLS, Pull, query=query), head_sha, client.repository)
    return tuple(sorted(matching, key=lambda each: each.number))


def _with_head(pulls: list[Pull], head_sha: str, repository: str) -> list[PullRequest]:
    return [
        _of(pull)
        for pull in pulls
        if pull.state == "open"
        and pull.head.sha == head_sha
        and pull.base.repo is not None
        and pull.base.repo.full_name.lower() == repository.lower()
    ]


def _of(pull: Pull) -> PullRequest:
    here = pull.base.repo.full_name if pull.base.repo else ""
    there = pull.head.repo.full_name if pull.head.repo else ""
    return PullRequest(
        number=pull.number,
        is_open=pull.state == "open",
        base_sha=pull.base.sha,
        base_ref=pull.base.ref,
        head_sha=pull.head.sha,
        head_ref=pull.head.ref,
        head_repository=there,
        is_fork=not there or there.lower() != here.lower(),
        draft=pull.draft,
        labels=tuple(label.name for label in pull.labels),
    )
