"""The one comment of a gate on a pull request: identified by its marker, and only ever our own."""

from __future__ import annotations

import re
import uuid
from dataclasses import field

from evalgate.text import markdown, plain
from evalgate.values import digest_of, frozen_dataclass
from . import client as github_client
from .client import AMBIGUOUS, Client, Comment, GitHubFailed, GitHubFault, User

LIMIT = 65_536
"""GitHub's limit for a comment; `markdown.length` counts it in UTF-16 units, to be safe."""
ACTIONS_BOT = "github-actions[bot]"
"""The author of what is posted with a job's own token."""
_MOST_TRIES = 3
"""Further tries after a comment disappeared, or may have been created in spite of an error."""
_WRITER = re.compile(r"<!-- evalgate:[a-z0-9-]+:v1 (\d{1,18})\.(\d{1,9})\.([0-9a-f]{8}) -->")
"""The marker at the beginning of a comment: the run, its attempt, and the job in it."""
_NO_ROOM = "The details do not fit in this comment: see the job summary."
"""Shown in place of the details if the whole text exceeds LIMIT."""


@frozen_dataclass
class Job:
    """The sender of posts."""

    name: str = ""
    """The gate's."""
    run: int = 0
    """The id of this workflow run; 0 if it is unknown."""
    attempt: int = 0
    """Of the workflow run, from 1; 0 if it is unknown."""
    address: str = ""
    """Of the workflow run."""
    once: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    """Identifies this job among those of the run."""


def key_of(name: str) -> str:
    """The key in the marker of a gate's comment: readable, and different for different names."""
    if not name:
        return "evalgate"
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-") or "x"
    return f"{slug}-{digest_of(name, 8)}"


def render(job: Job, *, headline: str, details: str = "") -> str:
    """The comment's text, at most LIMIT characters: the marker, the headline, and the details if
    they fit."""
    marker = f"<!-- evalgate:{key_of(job.name)}:v1 {job.run}.{job.attempt}.{job.once} -->"
    title = f"### {markdown.prose(plain.label(job.name, 60))}\n\n" if job.name else ""
    text = f"{marker}\n{title}{_clean(headline)}"
    full_text = f"{text}\n\n{_clean(details)}".rstrip()
    if markdown.length(full_text) <= LIMIT:
        return full_text
    note = f"\n\n{markdown.alert('NOTE', _NO_ROOM)}"
    # half of the limit, in case each character counts twice
    return f"{text[: LIMIT // 2 - len(note)]}{note}"


def post(client: Client, number: int, text: str, *, create: bool = True) -> None:
    """Write the rendered text into the comment of its gate on pull request `number`.

    Without `create`, only an existing comment is updated. An older run never overwrites a newer
    one. Raises GitHubFailed, also if another job of the same run wrote the comment."""
    login = ACTIONS_BOT  # an app's token cannot ask, and counts as the job's own
    if not client.token_of_app:
        try:
            login = client.call(github_client.FETCH_USER, User).login
        except GitHubFailed as error:
            if not error.not_permitted:
                raise
    new_id: int | None = None
    for tries in range(_MOST_TRIES + 1):
        all_comments = client.fetch_all(github_client.LIST_COMMENTS, Comment, issue_number=number)
        comments = _gate_comments(all_comments, text, login)
        try:
            if comments or not create:
                return _update(client, comments, text, new_id=new_id)
            new_comment = client.call(
                github_client.CREATE_COMMENT, Comment, body={"body": text}, issue_number=number
            )
            new_id = new_comment.id
            login = new_comment.user.login if new_comment.user else login
        except GitHubFailed as error:
            # It may have been created anyway, or removed in the meantime: look again.
            may_retry = error.kind is GitHubFault.NOT_FOUND if comments else error.kind in AMBIGUOUS
            if not may_retry or tries == _MOST_TRIES:
                raise
    raise GitHubFailed(
        GitHubFault.CONFLICT,
        "could not comment on the pull request: the comment keeps disappearing",
    )


def _update(client: Client, comments: list[Comment], text: str, *, new_id: int | None) -> None:
    """Update the oldest comment, unless a newer run wrote one, and remove its duplicates. `new_id`:
    of the comment that has the text already."""
    if not comments:
        return
    own_run, own_job = run_of(text)
    newest_run, job = max(
        (run_of(comment.body or "") for comment in comments), key=lambda pair: pair[0]
    )
    if own_run[0] and newest_run == own_run and job != own_job:
        raise GitHubFailed(
            GitHubFault.CONFLICT,
            "another job of this workflow run wrote the comment of the gate with this name",
            hint="Give each job its own `name` (an input of the action).",
        )
    oldest, *duplicates = comments
    if newest_run > own_run:
        duplicates = [comment for comment in duplicates if comment.id == new_id]
    elif oldest.id != new_id:
        client.call(
            github_client.UPDATE_COMMENT, Comment, body={"body": text}, comment_id=oldest.id
        )
    for duplicate in duplicates:
        client.remove(github_client.DELETE_COMMENT, comment_id=duplicate.id)


def run_of(text: str) -> tuple[tuple[int, int], str]:
    """The run and attempt, and its job, that wrote a comment; zeros if unknown."""
    match = _WRITER.match(text)
    return ((int(match[1]), int(match[2])), match[3]) if match else NOBODYS


NOBODYS = ((0, 0), "")
"""The run and job of a comment that names none."""


def _gate_comments(comments: list[Comment], text: str, login: str) -> list[Comment]:
    """The gate's comments, oldest first: by the token's own user, and beginning with our marker,
    which no quotation has. `text`: this job's. An app knows its name only by a comment of its job,
    as the answer to its creation may have been lost."""
    marker = "".join(text.partition(":v1 ")[:2])  # without the run
    candidates = [
        (comment.user, comment)
        for comment in comments
        if comment.user is not None and (comment.body or "").startswith(marker)
    ]
    own = run_of(text)
    for user, comment in candidates:
        if user.type == "Bot" and run_of(comment.body or "") == own != NOBODYS:
            login = user.login
    own_comments = [
        comment
        for user, comment in candidates
        if user.login.lower() == login.lower()
        and (user.type == "Bot" or not login.endswith("[bot]"))
    ]
    return sorted(own_comments, key=lambda comment: comment.id)


def _clean(text: str) -> str:
    """The text with one kind of line end, without zero bytes and unpaired surrogates."""
    normalized = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    return normalized.encode("utf-8", "replace").decode().strip()
