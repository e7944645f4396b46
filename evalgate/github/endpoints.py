"""Every call of GitHub's REST API that evalgate makes; a test asserts that each is made and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One call: `doing` says for people what it is for, `needs` which permission a job grants for it.

    `repeatable`: sent again when it is unknown whether it was carried out, because doing it twice does no harm.
    """

    method: str
    path: str
    doing: str
    needs: str
    repeatable: bool = True


_REPO = "/repos/{owner}/{repo}"
_COMMENT = f"{_REPO}/issues/comments/{{comment_id}}"

LIST_COMMENTS: Final = Endpoint(
    method="GET",
    path=f"{_REPO}/issues/{{issue_number}}/comments",
    doing="read the comments of the pull request",
    needs="pull-requests: write",
)
CREATE_COMMENT: Final = Endpoint(
    method="POST",
    path=f"{_REPO}/issues/{{issue_number}}/comments",
    doing="comment on the pull request",
    needs="pull-requests: write",
    repeatable=False,  # a second comment: whoever writes it looks first
)
UPDATE_COMMENT: Final = Endpoint(
    method="PATCH", path=_COMMENT, doing="update the comment on the pull request", needs="pull-requests: write"
)
DELETE_COMMENT: Final = Endpoint(
    method="DELETE", path=_COMMENT, doing="remove a double of the comment", needs="pull-requests: write"
)
ADD_REACTION: Final = Endpoint(
    method="POST",
    path=f"{_COMMENT}/reactions",
    doing="claim the comment for a moment",
    needs="pull-requests: write",
    repeatable=False,  # its answer says who was first
)
REMOVE_REACTION: Final = Endpoint(
    method="DELETE",
    path=f"{_COMMENT}/reactions/{{reaction_id}}",
    doing="give the comment free",
    needs="pull-requests: write",
)
CREATE_CHECK: Final = Endpoint(
    method="POST", path=f"{_REPO}/check-runs", doing="create the check run", needs="checks: write"
)
UPDATE_CHECK: Final = Endpoint(
    method="PATCH", path=f"{_REPO}/check-runs/{{check_run_id}}", doing="update the check run", needs="checks: write"
)
LIST_ARTIFACTS: Final = Endpoint(
    method="GET", path=f"{_REPO}/actions/artifacts", doing="list artifacts", needs="actions: read"
)
LIST_RUN_ARTIFACTS: Final = Endpoint(
    method="GET",
    path=f"{_REPO}/actions/runs/{{run_id}}/artifacts",
    doing="list the artifacts of a workflow run",
    needs="actions: read",
)
DOWNLOAD_ARTIFACT: Final = Endpoint(
    method="GET",
    path=f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}",
    doing="download an artifact",
    needs="actions: read",
)
LIST_APPROVALS: Final = Endpoint(
    method="GET",
    path=f"{_REPO}/actions/runs/{{run_id}}/approvals",
    doing="read who approved a workflow run",
    needs="actions: read",
)
FETCH_PULL: Final = Endpoint(
    method="GET", path=f"{_REPO}/pulls/{{pull_number}}", doing="read the pull request", needs="pull-requests: read"
)
LIST_PULLS: Final = Endpoint(
    method="GET", path=f"{_REPO}/pulls", doing="look for the pull request of a branch", needs="pull-requests: read"
)
LIST_COMMIT_PULLS: Final = Endpoint(
    method="GET",
    path=f"{_REPO}/commits/{{commit_sha}}/pulls",
    doing="look for the pull request of a commit",
    needs="pull-requests: read",
)
FETCH_PERMISSION: Final = Endpoint(
    method="GET",
    path=f"{_REPO}/collaborators/{{username}}/permission",
    doing="read what a person may do here",
    needs="metadata: read",
)
FETCH_USER: Final = Endpoint(method="GET", path="/user", doing="ask whose token this is", needs="read:user")

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    LIST_COMMENTS,
    CREATE_COMMENT,
    UPDATE_COMMENT,
    DELETE_COMMENT,
    ADD_REACTION,
    REMOVE_REACTION,
    CREATE_CHECK,
    UPDATE_CHECK,
    LIST_ARTIFACTS,
    LIST_RUN_ARTIFACTS,
    DOWNLOAD_ARTIFACT,
    LIST_APPROVALS,
    FETCH_PULL,
    LIST_PULLS,
    LIST_COMMIT_PULLS,
    FETCH_PERMISSION,
    FETCH_USER,
)
