"""A workflow's event: its pull request, its commits, and whether they come from a fork."""

from __future__ import annotations

import enum
import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from evalgate.errors import ConfigError
from evalgate.model import Links
from evalgate.system import git
from evalgate.values import Environ, Json, JsonObject, frozen_dataclass, member

_SHA = re.compile(r"(?!0+\Z)[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""SHA-1 or SHA-256, in lower case; not the zeros by which git means no commit."""
_PULL_NUMBER = re.compile(r"[1-9][0-9]{0,9}")
"""As a person enters it, with ten digits at most."""


class EventKind(enum.StrEnum):
    """The events that evalgate knows; `other`: another event, of which only the commit is known."""

    PULL_REQUEST = "pull_request"
    PULL_REQUEST_TARGET = "pull_request_target"
    """Refused (`forks.refuse_event`)."""
    PUSH = "push"
    MERGE_GROUP = "merge_group"
    """Of a merge queue, for several pull requests together."""
    SCHEDULE = "schedule"
    """Runs on the default branch only."""
    WORKFLOW_DISPATCH = "workflow_dispatch"
    """Started by a person, perhaps for a pull request that the inputs name."""
    WORKFLOW_RUN = "workflow_run"
    """Another workflow's run ended; `mode: post` needs this event."""
    OTHER = "other"
    NONE = "none"
    """No GitHub workflow: a local run, GitLab, Jenkins."""


@frozen_dataclass
class Head:
    """The commit of an event."""

    sha: str = ""
    """Of a pull request its own commit, not the test merge that GitHub checks out."""
    ref: str = ""
    """Without `refs/heads/`; "" if unknown."""
    repository: str = ""
    """`owner/name`; empty for a deleted fork, and if the event does not name it."""
    is_fork: bool | None = None
    """It is in another repository, or in a deleted one; None if the event has no head."""


@frozen_dataclass
class FinishedRun:
    """The run of a `workflow_run` event."""

    id: int
    """The same in all attempts of the run."""
    attempt: int = 1
    """From 1; every start of the run again has the next number."""
    event: str = ""
    """The name of the event that started it."""
    conclusion: str = ""
    """GitHub's word, such as `success`, `failure` or `cancelled`."""


@frozen_dataclass
class EventContext:
    """One event. SHAs are full and in lower case; "" and None are unknown."""

    kind: EventKind
    """Decides which of the other fields are known."""
    name: str = ""
    """As GitHub writes it, also of kinds that evalgate does not know."""
    repository: str = ""
    """`owner/name` of the workflow; for a fork's pull request it is the base's."""
    number: int | None = None
    """Of the pull request."""
    base_sha: str = ""
    """The tip of a pull request's base, or the commit before a push."""
    head: Head = Head()
    """Without a `sha` outside GitHub."""
    on_default_branch: bool = False
    """A push to the default branch, or a schedule: baselines are seeded from it."""
    run: FinishedRun | None = None
    """Of a `workflow_run` event."""


CHANGE_EVENTS = frozenset(
    {EventKind.PULL_REQUEST, EventKind.PULL_REQUEST_TARGET, EventKind.MERGE_GROUP}
)
"""Events about a change that is not on the base branch yet."""


def read_event(environ: Environ) -> Json:
    """The event payload; empty if it is missing or cannot be read: `parse_event` reports missing
    fields."""
    try:
        event = json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def is_of_change(environ: Environ) -> bool:
    """True if the workflow runs for a change that is not on the base branch yet, also if it was
    started by hand, by a comment on a pull request, or after a run for one."""
    name = environ.get("GITHUB_EVENT_NAME", "")
    if (
        name in CHANGE_EVENTS or name.startswith("pull_request_") or not name
    ):  # `pull_request_review`
        return bool(name)
    payload = read_event(environ)
    return bool(
        _at(payload, "inputs.pull-request")
        or _at(payload, "issue.pull_request")
        or _at(payload, "workflow_run.event") in CHANGE_EVENTS
    )


def is_of_repository(environ: Environ) -> bool:
    """True if the workflow runs for a push, or for a change from a branch of the same
    repository."""
    try:
        event = parse_event(environ.get("GITHUB_EVENT_NAME", ""), read_event(environ), environ)
    except ConfigError:
        return False
    if event.kind is EventKind.PULL_REQUEST:
        return event.head.is_fork is False
    return event.kind in (EventKind.PUSH, EventKind.MERGE_GROUP)


def parse_event(name: str, payload: Any, environ: Environ) -> EventContext:
    """The context of event `name`. Raises ConfigError if the payload of a known event lacks a
    required field.

    Source of the shapes: GitHub's webhook payloads; of other values: a runner's environment
    (GITHUB_SHA, GITHUB_REF)."""
    if not name:
        return EventContext(kind=EventKind.NONE)
    kind = EventKind(name) if name in set(EventKind) else EventKind.OTHER
    document = payload if isinstance(payload, Mapping) else {}
    parsers: Mapping[EventKind, Callable[[Json, Environ], JsonObject]] = {
        EventKind.PULL_REQUEST: _pull_request,
        EventKind.PULL_REQUEST_TARGET: _pull_request,
        EventKind.PUSH: _push,
        EventKind.MERGE_GROUP: _merge_group,
        EventKind.WORKFLOW_RUN: _workflow_run,
        EventKind.WORKFLOW_DISPATCH: _dispatch,
    }
    fields = parsers.get(kind, _other)(document, environ)
    repository = environ.get("GITHUB_REPOSITORY", "") or _text(
        _at(document, "repository.full_name")
    )
    # schedules run only on the default branch
    common = {"on_default_branch": kind is EventKind.SCHEDULE, "repository": repository}
    return EventContext(kind=kind, name=name, **{**common, **fields})


def _other(_: Json, environ: Environ) -> JsonObject:
    """Of an event without a change: the commit that the runner names (GITHUB_SHA)."""
    return {"head": Head(sha=_sha(environ.get("GITHUB_SHA")))}


def _pull_request(payload: Json, _: Environ) -> JsonObject:
    """The fields in the payload of a pull request. Raises ConfigError."""
    number = _number(_at(payload, "pull_request.number")) or _number(payload.get("number"))
    base_sha = _sha(_at(payload, "pull_request.base.sha"))
    head = _head(
        payload,
        "pull_request.head.sha",
        "pull_request.head.ref",
        "pull_request.head.repo.full_name",
        base=_at(payload, "pull_request.base.repo.full_name"),
    )
    if number is None or not base_sha or not head.sha:
        raise _unreadable("pull_request.number, .base.sha and .head.sha")
    return {"number": number, "base_sha": base_sha, "head": head}


def _push(payload: Json, _: Environ) -> JsonObject:
    """The fields in the payload of a push; a deleted branch has no head. Raises ConfigError."""
    head = _head(payload, "after", "ref")
    is_deleted = payload.get("deleted") is True
    if not head.ref or (not head.sha and not is_deleted):
        raise _unreadable("ref and after")
    default_branch = _text(_at(payload, "repository.default_branch"))
    return {
        "base_sha": _sha(payload.get("before")),
        "head": head,
        "on_default_branch": payload["ref"] == f"refs/heads/{default_branch}" and not is_deleted,
    }


def _merge_group(payload: Json, _: Environ) -> JsonObject:
    """The fields in a merge queue's payload; a group has no number. Raises ConfigError."""
    base_sha = _sha(_at(payload, "merge_group.base_sha"))
    head = _head(payload, "merge_group.head_sha", "merge_group.head_ref")
    if not base_sha or not head.sha:
        raise _unreadable("merge_group.base_sha and .head_sha")
    return {"base_sha": base_sha, "head": head}


def _workflow_run(payload: Json, environ: Environ) -> JsonObject:
    """The finished run, and its head with its own repository. Raises ConfigError."""
    run_id = _number(_at(payload, "workflow_run.id"))
    head = _head(
        payload,
        "workflow_run.head_sha",
        "workflow_run.head_branch",
        "workflow_run.head_repository.full_name",
        base=_text(_at(payload, "repository.full_name")) or environ.get("GITHUB_REPOSITORY"),
    )
    if not head.sha or run_id is None:
        raise _unreadable("workflow_run.id and .head_sha")
    run = FinishedRun(
        id=run_id,
        attempt=_number(_at(payload, "workflow_run.run_attempt")) or 1,
        event=_text(_at(payload, "workflow_run.event")),
        conclusion=_text(_at(payload, "workflow_run.conclusion")),
    )
    return {"head": head, "run": run}


def _dispatch(payload: Json, environ: Environ) -> JsonObject:
    """The pull request and commit in the inputs `pull-request` and `sha`, if any
    (`forks.resolve`)."""
    number = str(_at(payload, "inputs.pull-request") or "").strip()
    sha_input = _at(payload, "inputs.sha")
    sha = _sha(str(sha_input or "").strip())
    if not number:
        return _other(payload, environ)
    if not _PULL_NUMBER.fullmatch(number) or not sha:
        raise ConfigError(
            "workflow_dispatch: the inputs `pull-request` and `sha` must be the number of a pull request and a full "
            f"commit SHA, got {number[:40]!r} and {_text(sha_input)[:80]!r}",
            hint="The SHA is the one that was reviewed, with all its 40 characters.",
        )
    return {"number": int(number), "head": Head(sha=sha)}


def _head(payload: Json, sha: str, ref: str, repository: str = "", *, base: Any = None) -> Head:
    """The head at these places. One without a repository is a deleted fork, and an unclear one
    counts as a fork; without the place of a repository, it is unknown whether it is one. `base`:
    the name of the base's repository."""
    name = _text(_at(payload, repository))
    is_fork = not name or name.lower() != _text(base).lower()
    return Head(
        sha=_sha(_at(payload, sha)),
        ref=_text(_at(payload, ref)).removeprefix("refs/heads/"),
        repository=name,
        is_fork=is_fork if repository else None,
    )


def _unreadable(missing_fields: str) -> ConfigError:
    """The error for a payload that lacks `missing_fields`, which are listed in words."""
    return ConfigError(
        f"the payload of the event cannot be read: it lacks {missing_fields}",
        hint="GITHUB_EVENT_PATH must point at the file that GitHub wrote.",
    )


def _at(payload: Any, place: str) -> Any:
    """The value at a dotted place; None if there is none."""
    return functools.reduce(member, place.split("."), payload)


def _text(content: Any) -> str:
    """The content if it is a string, else an empty one."""
    return content if isinstance(content, str) else ""


def _number(content: Any) -> int | None:
    """A positive integer; None for anything else, also for a boolean."""
    return content if type(content) is int and content > 0 else None


def _sha(content: Any) -> str:
    """A commit; "" for anything else, and for the zeros that mean no commit."""
    text = _text(content).lower()
    return text if _SHA.fullmatch(text) else ""


def links_of(environ: Environ, event: EventContext, *, run: FinishedRun | None = None) -> Links:
    """The links of this run, or of the finished run that started it. The head of a pull request is
    its own commit, not the merge that was checked out, to whose lines files are linked."""
    server = environ.get("GITHUB_SERVER_URL", "")
    repository = environ.get("GITHUB_REPOSITORY", "")
    address = f"{server}/{repository}" if server and repository else ""
    run_id = run.id if run else environ.get("GITHUB_RUN_ID", "")
    workflow_run = f"{address}/actions/runs/{run_id}" if address and run_id else ""
    return Links(
        repository=address,
        commit=event.head.sha or environ.get("GITHUB_SHA", ""),
        checkout="" if run else git.commit_of(_root(environ), environ),
        workflow_run=workflow_run,
        folder=folder_of(environ),
        pull_request=str(event.number or ""),
        keeps_files=run is not None or _uploads(environ),
    )


def _uploads(environ: Environ) -> bool:
    """True if the workflow uploads artifacts, or may: its file cannot be read, or calls another
    workflow."""
    name = (
        environ.get("GITHUB_WORKFLOW_REF", "").partition("@")[0].partition("/.github/workflows/")[2]
    )
    if not name or "/" in name:
        return True
    try:
        path = workspace(environ) / ".github/workflows" / name
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return "upload-artifact" in text or "/evalgate/gate@" in text or ".github/workflows/" in text


def workspace(environ: Environ) -> Path:
    """The folder that the steps of a job share."""
    return Path(environ.get("GITHUB_WORKSPACE") or ".").resolve()


def _root(environ: Environ) -> Path:
    """The folder that the input `root` names, relative to the workspace."""
    return (workspace(environ) / environ.get("INPUT_ROOT", "").strip()).resolve()


def folder_of(environ: Environ) -> str:
    """The input `root` in GitHub's file names: from the top of its repository, "" for the top."""
    top, root = workspace(environ), _root(environ)
    folders = (folder for folder in (root, *root.parents) if folder.is_relative_to(top))
    return _place(root, _repository(folders) or top)


def _place(root: Path, repository: Path) -> str:
    """`root` below `repository`, with slashes; empty if it is not below it."""
    return root.relative_to(repository).as_posix() if repository in root.parents else ""


def _repository(folders: Iterable[Path]) -> Path | None:
    """The first folder with a `.git`, which is a file in a worktree; None if there is none."""
    exists = os.path.exists  # `Path.exists` raises OSError for names that no system accepts
    return next((folder for folder in folders if exists(folder / ".git")), None)
