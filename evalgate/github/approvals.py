"""Whether a maintainer let one commit of a fork run: by a label put on it, or by an environment's reviewers.

An approval is of one SHA. A label stays on a pull request when somebody pushes to it, so having the label is no
approval: adding it is, and only of the commit that was the head then and still is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalgate.github import endpoints
from evalgate.github.client import Client
from evalgate.github.events import EventContext, EventKind
from evalgate.github.failures import GitHubFailed
from evalgate.github.pulls import PullRequest
from evalgate.github.replies import Approval as ApprovalReply
from evalgate.github.replies import Permission

_MAY_WRITE = frozenset({"admin", "write"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """Somebody's word on one commit."""

    sha: str
    by: str
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApproved:
    """Why there is none, in words for people."""

    reason: str


def by_label(event: EventContext, pull: PullRequest, *, label: str, may_write: bool) -> Approved | NotApproved:
    """Whether this very event is a maintainer putting `label` on the head that `pull`, freshly fetched, still has.

    `may_write`: whether the event's sender may write to the repository (`fetch_may_write`); triage alone may label.
    """
    if event.kind not in (EventKind.PULL_REQUEST, EventKind.PULL_REQUEST_TARGET) or event.action != "labeled":
        return NotApproved(reason=f"the label `{label}` was not added by this event; a later push needs it anew")
    if event.label != label:
        return NotApproved(reason=f"another label than `{label}` was added")
    if event.head_sha != pull.head_sha or event.number != pull.number:
        return NotApproved(reason=f"there was a push after the label `{label}` was added")
    if not may_write:
        return NotApproved(reason=f"whoever added the label `{label}` may not write to the repository")
    return Approved(sha=event.head_sha, by=event.sender, means=f"label {label}")


def by_environment(
    approvals: Sequence[ApprovalReply], pull: PullRequest, *, environment: str, run_sha: str
) -> Approved | NotApproved:
    """Whether reviewers of `environment` let the run go whose head is `run_sha`, and the pull request still has it."""
    if run_sha != pull.head_sha:
        return NotApproved(reason="there was a push after the run was approved")
    for approval in approvals:
        if approval.state == "approved" and environment in {each.name for each in approval.environments}:
            return Approved(sha=run_sha, by=approval.user.login, means=f"environment {environment}")
    return NotApproved(reason=f"no reviewer of the environment `{environment}` has approved this run")


def fetch_approvals(client: Client, run_id: int) -> list[ApprovalReply]:
    """What reviewers of environments said of a workflow run. Raises GitHubFailed."""
    return client.fetch_all(endpoints.LIST_APPROVALS, ApprovalReply, paged=False, run_id=run_id)


def fetch_may_write(client: Client, login: str) -> bool:
    """Whether a person may write to the repository; what GitHub will not tell is a no. Raises GitHubFailed."""
    if not login:
        return False
    try:
        found = client.fetch(endpoints.FETCH_PERMISSION, Permission, username=login)
    except GitHubFailed as failed:
        if failed.not_permitted:
            return False
        raise
    return found.permission in _MAY_WRITE
