"""Rules for code from forks: what each event may do, and the pull request of a commit."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, UnavailableError
from evalgate.system import git
from evalgate.values import Environ
from . import events
from .events import EventContext, EventKind, Head

if TYPE_CHECKING:  # its packages take 0.1 s to import, and most runs make no requests
    from .client import Client, Pull

TARGET = (
    "pull_request_target is refused: it runs with the secrets and the writing token of the repository, and an agent "
    "from a pull request would have both"
)
"""Why the event `pull_request_target` is refused."""
COMMENT = (
    "issue_comment: anybody can comment, the run has the secrets of the repository, and the checkout is not the commit "
    "of the default branch for which GitHub started it"
)
"""Why `issue_comment` is refused if the checkout is not GITHUB_SHA."""
TARGET_HINT = (
    "Use `on: pull_request`: a fork's pull request is evaluated there without secrets, and `mode: post` in a second "
    "workflow posts the result. For a run with secrets a maintainer starts a `workflow_dispatch` with the number of "
    "the pull request and the SHA that was reviewed (docs/forks.md)."
)
"""The ways to evaluate a fork's pull request; for both refusals."""


def refuse_event(environ: Environ, root: Path) -> None:
    """Raises ConfigError in a workflow that runs a stranger's code with the repository's secrets.
    `root`: the checkout."""
    event = environ.get("GITHUB_EVENT_NAME")
    if event == EventKind.PULL_REQUEST_TARGET:
        raise ConfigError(TARGET, hint=TARGET_HINT)
    if event == "issue_comment" and git.commit_of(root, environ) != environ.get("GITHUB_SHA"):
        raise ConfigError(COMMENT, hint=TARGET_HINT)


def refuse_change(environ: Environ, command: str) -> None:
    """Raises ConfigError in a workflow for a pull request: its files would decide which models the
    command calls, and with which keys."""
    if events.is_of_change(environ):
        message = (
            f"`{command}` asks models by this change's own files, with the keys of the workflow"
        )
        raise ConfigError(message, hint="Run it in a workflow on the default branch, or locally.")


def keeps_token(root: Path) -> bool:
    """True if git's configuration of the checkout around `root` has credentials, itself or in an
    included file."""
    try:
        source = git.find_source(root)
    except UnavailableError:
        return False
    text = ""
    for place in (source.common_dir / "config", source.git_dir / "config.worktree"):
        with suppress(OSError):
            text += place.read_text(encoding="utf-8", errors="replace").lower()
    return "extraheader" in text or "includeif" in text


def check(event: EventContext, settings: Settings, *, root: Path, environ: Environ) -> None:
    """Raises ConfigError if the event must not do what the settings request. `root`: the
    checkout."""
    refuse_event(environ, root)
    if settings.mode == "merge" and not settings.results:
        raise ConfigError(
            "`mode: merge` needs `results`", hint="Set it to the folder with the shards' artifacts."
        )
    if settings.mode == "merge" and settings.shard:
        raise ConfigError("`shard` and `mode: merge` cannot be combined")
    if settings.mode == "post":
        if event.kind is not EventKind.WORKFLOW_RUN:
            raise ConfigError(
                f"`mode: post` works on workflow_run, not on {event.name or 'a local run'}",
                hint="See examples/workflows/fork-safe-post.yml.",
            )
        source_event = event.run.event if event.run else ""
        if source_event != "pull_request":
            raise ConfigError(
                f"`mode: post`: the finished run was on {source_event or '?'}, not on pull_request"
            )
    elif event.kind is EventKind.WORKFLOW_RUN and event.head.is_fork and settings.mode == "run":
        raise ConfigError(
            "workflow_run after a fork's run: it has the repository's secrets, and no code of the fork may run here",
            hint="Set `mode: post`, which runs nothing.",
        )
    elif event.kind is EventKind.WORKFLOW_DISPATCH and event.number is not None:
        _check_checkout(event.head.sha, root, environ)


def resolve(event: EventContext, client: Client) -> EventContext:
    """The event of a `workflow_dispatch` for a pull request, with the base and head from the API.

    Raises ConfigError if the commit does not belong to the pull request; GitHubFailed."""
    from .client import FETCH_PULL, LIST_PULL_COMMITS, Commit, Pull  # noqa: PLC0415 - see above

    assert event.number is not None
    pull = client.call(FETCH_PULL, Pull, pull_number=event.number)
    if event.head.sha != pull.head.sha:
        commits = client.fetch_all(LIST_PULL_COMMITS, Commit, pull_number=event.number)
        if event.head.sha not in {commit.sha for commit in commits}:
            raise ConfigError(
                f"workflow_dispatch: {event.head.sha[:7]} is not a commit of pull request #{event.number}, whose head "
                f"is {pull.head.sha[:7]}",
                hint="Start the workflow with the full SHA of the commit that was reviewed; after a force push, review "
                "the new one.",
            )
    repository = pull.head.repository or ""
    head = Head(sha=event.head.sha, ref=pull.head.ref, repository=repository, is_fork=pull.is_fork)
    return replace(event, base_sha=pull.base.sha, head=head)


def find_by_head(client: Client, event: EventContext) -> tuple[Pull, ...]:
    """The open pull requests into this repository whose current head is the event's, by number.
    Raises GitHubFailed.

    They are looked up by the commit first; the answer may be empty for a fork's commit, so they are
    then looked up by the branch. Empty: the pull request was closed or has a newer head."""
    from .client import LIST_COMMIT_PULLS, LIST_PULLS, GitHubFailed, GitHubFault, Pull  # noqa: PLC0415 - see above

    try:
        pulls = client.fetch_all(LIST_COMMIT_PULLS, Pull, commit_sha=event.head.sha)
    except GitHubFailed as error:
        # 422: this repository does not know the commit, for example of a fork whose branch was
        # removed.
        if error.kind not in (GitHubFault.INVALID, GitHubFault.NOT_FOUND):
            raise
        pulls = []
    matches = _with_head(pulls, event.head.sha, client.repository)
    owner = event.head.repository.partition("/")[0]
    if not matches and owner and event.head.ref:
        query = {"state": "open", "head": f"{owner}:{event.head.ref}"}
        branch_pulls = client.fetch_all(LIST_PULLS, Pull, query=query)
        matches = _with_head(branch_pulls, event.head.sha, client.repository)
    return tuple(sorted(matches, key=lambda pull: pull.number))


def _with_head(pulls: list[Pull], head_sha: str, repository: str) -> list[Pull]:
    """Of these pull requests, those that are open, lead into `repository` and end with this
    commit."""
    return [
        pull
        for pull in pulls
        if pull.state == "open"
        and pull.head.sha == head_sha
        and (pull.base.repository or "").lower() == repository.lower()
    ]


def _check_checkout(sha: str, root: Path, environ: Environ) -> None:
    """Raises ConfigError unless the reviewed commit is checked out and git's configuration has no
    token."""
    if git.commit_of(root, environ) != sha:
        raise ConfigError(
            f"workflow_dispatch: the input `sha` is {sha[:7]}, and another commit is checked out",
            hint="Set `ref: ${{ inputs.sha }}` at actions/checkout.",
        )
    if keeps_token(root):
        raise ConfigError(
            "workflow_dispatch: the checkout keeps the token in git's configuration, where the fork's code may read it",
            hint="Set `persist-credentials: false` at actions/checkout.",
        )
