"""What a workflow's event says: which pull request, which commits, whether from a fork."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalgate.errors import ConfigError
from evalgate.model import Links

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NOTHING = re.compile(r"0+")
_PULL_NUMBER = re.compile(r"[1-9][0-9]{0,9}")
_LONGEST_NAME = 400


class EventKind(enum.StrEnum):
    """The events that evalgate knows; `other`: any other, of which only the commit is known."""

    PULL_REQUEST = "pull_request"
    PULL_REQUEST_TARGET = "pull_request_target"
    PUSH = "push"
    MERGE_GROUP = "merge_group"
    SCHEDULE = "schedule"
    WORKFLOW_DISPATCH = "workflow_dispatch"
    WORKFLOW_RUN = "workflow_run"
    OTHER = "other"
    NONE = "none"  # no workflow of GitHub: a desk, GitLab, Jenkins


@dataclass(frozen=True, slots=True, kw_only=True)
class EventContext:
    """One event. SHAs are full and in lower case, refs without `refs/heads/`; "" and None are unknown.

    `is_fork`: the head is in another repository, or in one that was deleted; None where no head is spoken of.
    `trigger`: of a `workflow_run`, the event of the run that ended, `trigger_run_id` and `conclusion` that run's.
    """

    kind: EventKind
    name: str = ""
    repository: str = ""
    number: int | None = None
    base_sha: str = ""
    head_sha: str = ""
    head_ref: str = ""
    head_repository: str = ""
    is_fork: bool | None = None
    ref: str = ""
    default_branch: str = ""
    deleted: bool = False
    trigger: str = ""
    trigger_run_id: int | None = None
    conclusion: str = ""

    @property
    def on_default_branch(self) -> bool:
        """Whether it is a push to the default branch, from which baselines are seeded."""
        return (
            self.kind is EventKind.PUSH
            and bool(self.default_branch)
            and self.ref == f"refs/heads/{self.default_branch}"
            and not self.deleted
        )


def parse_event(name: str, payload: Any, environ: Mapping[str, str]) -> EventContext:
    """The context of event `name`. Raises ConfigError where the payload of a known event lacks what it must have.

    Source of the shapes: GitHub's webhook payloads; of the rest: a runner's environment (GITHUB_SHA, GITHUB_REF).
    """
    kind = EventKind.OTHER if name else EventKind.NONE
    with contextlib.suppress(ValueError):
        kind = EventKind(name)
    whole = payload if isinstance(payload, Mapping) else {}
    match kind:
        case EventKind.PULL_REQUEST | EventKind.PULL_REQUEST_TARGET:
            return _pull_request(kind, whole, environ)
        case EventKind.PUSH:
            return _push(whole, environ)
        case EventKind.MERGE_GROUP:
            return _merge_group(whole, environ)
        case EventKind.WORKFLOW_RUN:
            return _workflow_run(whole, environ)
        case EventKind.WORKFLOW_DISPATCH:
            return _dispatch(whole, environ)
        case _:
            about = _about(name, whole, environ) if name else {}
            return EventContext(kind=kind, head_sha=_sha(environ.get("GITHUB_SHA")) if name else "", **about)


def _pull_request(kind: EventKind, payload: Mapping[str, Any], environ: Mapping[str, str]) -> EventContext:
    pull = _part(payload, "pull_request")
    base, head = _part(pull, "base"), _part(pull, "head")
    number = _number(pull.get("number")) or _number(payload.get("number"))
    base_sha, head_sha = _sha(base.get("sha")), _sha(head.get("sha"))
    if number is None or not base_sha or not head_sha:
        raise _unreadable(kind.value, "pull_request.number, .base.sha and .head.sha")
    base_repository, head_repository = _name_of(base), _name_of(head)
    return EventContext(
        kind=kind,
        number=number,
        base_sha=base_sha,
        head_sha=head_sha,
        head_ref=_text(head.get("ref")),
        head_repository=head_repository,
        # A head without a repository is a fork that was deleted. What cannot be told apart is treated as foreign.
        is_fork=not head_repository or head_repository.lower() != base_repository.lower(),
        **_about(kind.value, payload, environ),
    )


def _push(payload: Mapping[str, Any], environ: Mapping[str, str]) -> EventContext:
    after, ref = _sha(payload.get("after")), _text(payload.get("ref"))
    deleted = payload.get("deleted") is True
    if not ref or (not after and not deleted):
        raise _unreadable("push", "ref and after")
    return EventContext(
        kind=EventKind.PUSH,
        base_sha=_sha(payload.get("before")),
        head_sha=after,
        head_ref=ref.removeprefix("refs/heads/"),
        ref=ref,
        deleted=deleted,
        **_about("push", payload, environ),
    )


def _merge_group(payload: Mapping[str, Any], environ: Mapping[str, str]) -> EventContext:
    group = _part(payload, "merge_group")
    base_sha, head_sha = _sha(group.get("base_sha")), _sha(group.get("head_sha"))
    if not base_sha or not head_sha:
        raise _unreadable("merge_group", "merge_group.base_sha and .head_sha")
    return EventContext(
        kind=EventKind.MERGE_GROUP,
        base_sha=base_sha,
        head_sha=head_sha,
        head_ref=_text(group.get("head_ref")).removeprefix("refs/heads/"),
        **_about("merge_group", payload, environ),
    )


def _workflow_run(payload: Mapping[str, Any], environ: Mapping[str, str]) -> EventContext:
    run = _part(payload, "workflow_run")
    head_sha, run_id = _sha(run.get("head_sha")), _number(run.get("id"))
    if not head_sha or run_id is None:
        raise _unreadable("workflow_run", "workflow_run.id and .head_sha")
    head_repository = _text(_part(run, "head_repository").get("full_name"))
    here = _text(_part(payload, "repository").get("full_name")) or environ.get("GITHUB_REPOSITORY", "")
    return EventContext(
        kind=EventKind.WORKFLOW_RUN,
        head_sha=head_sha,
        head_ref=_text(run.get("head_branch")),
        head_repository=head_repository,
        is_fork=not head_repository or head_repository.lower() != here.lower(),
        trigger=_text(run.get("event")),
        trigger_run_id=run_id,
        conclusion=_text(run.get("conclusion")),
        **_about("workflow_run", payload, environ),
    )


def _dispatch(payload: Mapping[str, Any], environ: Mapping[str, str]) -> EventContext:
    """Where the inputs `pull-request` and `sha` name what to evaluate: of that pull request (`forks.resolve`)."""
    inputs, about = _part(payload, "inputs"), _about("workflow_dispatch", payload, environ)
    number, sha = str(inputs.get("pull-request") or "").strip(), _sha(str(inputs.get("sha") or "").strip())
    if not number:
        return EventContext(kind=EventKind.WORKFLOW_DISPATCH, head_sha=_sha(environ.get("GITHUB_SHA")), **about)
    if not _PULL_NUMBER.fullmatch(number) or not sha:
        raise ConfigError(
            "workflow_dispatch: the inputs `pull-request` and `sha` must be the number of a pull request and a full "
            f"commit SHA, got {number[:40]!r} and {_text(inputs.get('sha'))[:80]!r}",
            hint="The SHA is the one that was reviewed, with all its 40 characters.",
        )
    return EventContext(kind=EventKind.WORKFLOW_DISPATCH, number=int(number), head_sha=sha, **about)


def _about(name: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    repository = _part(payload, "repository")
    return {
        "name": _text(name),
        "repository": environ.get("GITHUB_REPOSITORY", "") or _text(repository.get("full_name")),
        "default_branch": _text(repository.get("default_branch")),
    }


def _unreadable(name: str, lacking: str) -> ConfigError:
    return ConfigError(
        f"the payload of the event {name} cannot be read: it lacks {lacking}",
        hint="GITHUB_EVENT_PATH must point at the file that GitHub wrote.",
    )


def _part(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = value.get(key)
    return part if isinstance(part, Mapping) else {}


def _name_of(side: Mapping[str, Any]) -> str:
    return _text(_part(side, "repo").get("full_name"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= _LONGEST_NAME else ""


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _sha(value: Any) -> str:
    """A commit; "" for anything else, and for the row of zeros that stands for no commit."""
    text = value.lower() if isinstance(value, str) else ""
    return text if _SHA.fullmatch(text) and not _NOTHING.fullmatch(text) else ""


# -- Where the reports of a workflow point at --


def links_of(environ: Mapping[str, str], event: EventContext) -> Links:
    """Of the run at hand. The head of a pull request is its own commit, not the merge that was checked out."""
    return _links(environ, commit=event.head_sha or environ.get("GITHUB_SHA", ""), run=environ.get("GITHUB_RUN_ID", ""))


def links_of_trigger(environ: Mapping[str, str], event: EventContext) -> Links:
    """Of the run that this one was started by: the pull request's commit, and what measured it."""
    return _links(environ, commit=event.head_sha, run=str(event.trigger_run_id or ""))


def folder_of(environ: Mapping[str, str]) -> str:
    """The input `root` as GitHub names files: from the top of its repository, "" where it is the top."""
    workspace = Path(environ.get("GITHUB_WORKSPACE") or ".").resolve()
    root = (workspace / (environ.get("INPUT_ROOT", "").strip() or ".")).resolve()
    within = [place for place in (root, *root.parents) if place.is_relative_to(workspace)]
    top = next((place for place in within if (place / ".git").exists()), workspace)
    return "" if root == top or not root.is_relative_to(top) else root.relative_to(top).as_posix()


def root_of(root: Path, links: Links) -> str | None:
    """Where a gate's folder lies in its repository, "" where it is the top; None where no repository is around it."""
    if links.repository:
        return links.folder
    root = root.resolve()
    top = next((place for place in (root, *root.parents) if (place / ".git").exists()), None)
    if top is None or root == top:
        return None if top is None else ""
    return root.relative_to(top).as_posix()


def _links(environ: Mapping[str, str], *, commit: str, run: str) -> Links:
    server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
    folder = folder_of(environ)
    if not server or not repository:
        return Links(commit=commit, folder=folder)
    address = f"{server}/{repository}"
    return Links(
        repository=address,
        commit=commit,
        workflow_run=f"{address}/actions/runs/{run}" if run else "",
        folder=folder,
    )
