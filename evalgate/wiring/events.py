"""Which events may do what: no code of a stranger runs where secrets are, unless a maintainer approved that commit."""

from __future__ import annotations

from pathlib import Path

from evalgate.errors import ConfigError
from evalgate.github import approvals, pulls
from evalgate.github.approvals import Approved, NotApproved
from evalgate.github.client import Client
from evalgate.github.events import EventContext, EventKind
from evalgate.settings import Settings

TARGET = (
    "pull_request_target is refused: it runs with the secrets and the writing token of the repository, and an agent "
    "from a pull request would have both"
)
TARGET_HINT = (
    "Use `on: pull_request`: a fork's pull request is judged there too, without secrets, and `mode: post` posts what "
    "it found. docs/forks.md tells of `allow-pull-request-target` as well."
)
UNAPPROVED_HINT = (
    "A maintainer can let one commit run with secrets: `approve-label`, `approve-environment` (docs/forks.md)."
)


def check(event: EventContext, settings: Settings, *, root: Path, approved: Approved | None = None) -> None:
    """Raises ConfigError where the event must not do what the settings ask for. `root`: what is checked out.

    On `pull_request_target`, which has to be allowed: without an approval the agent's environment is empty, no judge is
    asked (evalgate.yml, which may be the stranger's, says where), and git keeps no credentials. With one, the commit
    that is checked out must be the approved one.
    """
    _check_mode(event, settings)
    if event.kind is not EventKind.PULL_REQUEST_TARGET:
        return
    if not settings.allow_pull_request_target:
        raise ConfigError(TARGET, hint=TARGET_HINT)
    if _keeps_credentials(root):
        raise ConfigError(
            "pull_request_target: the checkout keeps the token in git's configuration, where the agent can read it",
            hint="Set `persist-credentials: false` at actions/checkout.",
        )
    if approved is None and settings.save_baseline == "always":
        raise ConfigError(
            "pull_request_target: `save-baseline: always` keeps what nobody has approved as results of the base",
            hint=f"Leave it to runs on the base branch (`auto`). {UNAPPROVED_HINT}",
        )
    if settings.mode == "merge":
        return
    if approved is not None:
        if _checked_out(root) != approved.sha:
            raise ConfigError(
                f"pull_request_target: {approved.sha[:7]} is approved, and another commit is checked out",
                hint="Check out `ref: ${{ github.event.pull_request.head.sha }}`.",
            )
        return
    if settings.env:
        raise ConfigError(
            f"pull_request_target: `env` hands {', '.join(settings.env)} to code that nobody has approved",
            hint=UNAPPROVED_HINT,
        )
    if not settings.skip_judged:
        raise ConfigError(
            "pull_request_target: judges are asked where the checked-out evalgate.yml says, with this workflow's keys",
            hint=f"Set `skip-judged: true`. {UNAPPROVED_HINT}",
        )


def may_ask(event: EventContext, approved: Approved | None) -> bool:
    """Whether models may be asked, to judge or to play users: not with the keys of `pull_request_target` where nobody
    approved the commit, whose evalgate.yml says which key is sent where."""
    return event.kind is not EventKind.PULL_REQUEST_TARGET or approved is not None


def approval(event: EventContext, settings: Settings, client: Client, *, run_id: int | None) -> Approved | None:
    """The approval that this very event, or this very run `run_id`, is; None where none is asked for.

    Raises ConfigError where somebody tried who may not, where nobody approved the run of `approve-environment`, or
    where there was a push since; GitHubFailed.
    """
    if event.kind is not EventKind.PULL_REQUEST_TARGET or event.number is None:
        return None
    found: Approved | NotApproved
    if settings.approve_label and event.action == "labeled" and event.label == settings.approve_label:
        found = approvals.by_label(
            event,
            pulls.fetch_pull(client, event.number),
            label=settings.approve_label,
            may_write=approvals.fetch_may_write(client, event.sender),
        )
    elif settings.approve_environment and run_id is not None:
        found = approvals.by_environment(
            approvals.fetch_approvals(client, run_id),
            pulls.fetch_pull(client, event.number),
            environment=settings.approve_environment,
            run_sha=event.head_sha,
        )
    else:
        return None
    if isinstance(found, NotApproved):
        raise ConfigError(f"the commit is not approved: {found.reason}")
    return found


def _check_mode(event: EventContext, settings: Settings) -> None:
    if settings.mode == "merge" and not settings.results:
        raise ConfigError("`mode: merge` needs `results`", hint="Set it to the folder with the shards' artifacts.")
    if settings.mode == "merge" and settings.shard:
        raise ConfigError("`shard` and `mode: merge` cannot be combined")
    if settings.mode == "post":
        if event.kind is not EventKind.WORKFLOW_RUN:
            raise ConfigError(
                f"`mode: post` works on workflow_run, not on {event.name or 'a local run'}",
                hint="See examples/workflows/fork-safe-post.yml.",
            )
        if event.trigger != "pull_request":
            raise ConfigError(f"`mode: post`: the run that ended was on {event.trigger or '?'}, not on pull_request")
    elif event.kind is EventKind.WORKFLOW_RUN and event.is_fork and settings.mode == "run":
        raise ConfigError(
            "workflow_run after a fork's run: it has the repository's secrets, and no code of the fork may run here",
            hint="Set `mode: post`, which runs nothing.",
        )


def _keeps_credentials(root: Path) -> bool:
    """Whether actions/checkout left the token in git's configuration of the folder or of one above it."""
    for folder in (root, *root.parents):
        try:
            text = (folder / ".git" / "config").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        return "extraheader" in text.lower() or "includeif" in text.lower()
    return False


def _checked_out(root: Path) -> str:
    """The commit of a detached checkout, as actions/checkout makes it; "" for anything else."""
    for folder in (root, *root.parents):
        try:
            return (folder / ".git" / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
    return ""
