"""The one comment of a gate on a pull request: found by its marker among all comments, and only
ever our own."""

from __future__ import annotations

import enum
import hashlib
import re
import uuid
from dataclasses import field

from evalgate.github import client as github_client
from evalgate.github.client import AMBIGUOUS, Client, Comment, GitHubFailed, GitHubFault, User
from evalgate.text import markdown, plain
from evalgate.values import frozen_dataclass

LIMIT = 65_536
ACTIONS_BOT = "github-actions[bot]"
_MOST_TRIES = 3
_MARKER = "<!-- evalgate:{key}:v1 "
_WRITTEN_BY = re.compile(r"(\d{1,18})\.(\d{1,9})\.([0-9a-f]{8}) -->")
_NO_ROOM = "The details do not fit in this comment: see the job summary."


class Posted(enum.StrEnum):
    """What became of a comment."""

    CREATED = "created"
    UPDATED = "updated"
    SUPERSEDED = "superseded"  # by a newer run's
    ABSENT = "absent"  # no comment, and none was to be created


@frozen_dataclass
class Job:
    """The sender of posts: the gate's name, this workflow run and its growing attempt number, and
    its address. `once`: names this job among those of the run."""

    name: str = ""
    run: int = 0
    attempt: int = 0
    address: str = ""
    once: str = field(default_factory=lambda: uuid.uuid4().hex[:8])


def key_of(name: str) -> str:
    """What a gate's comment is found by: readable, and different for different names."""
    if not name:
        return "evalgate"
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-") or "x"
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def render(job: Job, *, headline: str, details: str = "") -> str:
    """The comment's text, at most LIMIT characters: the marker, the headline, and the details if
    they fit."""
    marker = f"{_MARKER.format(key=key_of(job.name))}{job.run}.{job.attempt}.{job.once} -->"
    title = f"### {markdown.prose(plain.label(job.name, 60))}\n\n" if job.name else ""
    text = f"{marker}\n{title}{_plain(headline)}"
    full_text = f"{text}\n\n{_plain(details)}".rstrip()
    if markdown.length(full_text) <= LIMIT:
        return full_text
    note = f"\n\n{markdown.alert('NOTE', _NO_ROOM)}"
    # half of it, should each character count twice
    return f"{text[: LIMIT // 2 - len(note)]}{note}"


def fetch_user(client: Client) -> str:
    """The token's own user; an app's token cannot ask, and is taken for the job's own. Raises
    GitHubFailed."""
    if client.token_of_app:
        return ACTIONS_BOT
    try:
        return client.fetch(github_client.FETCH_USER, User).login
    except GitHubFailed as failed:
        if failed.not_permitted:
            return ACTIONS_BOT
        raise


def post(client: Client, number: int, name: str, text: str, *, create: bool = True) -> Posted:
    """Write what `render` made into the comment of the gate `name` on pull request `number`.

    Without `create`, only a comment that is there is updated. An older run never overwrites a newer
    one. Raises GitHubFailed, also where another job of the same run has written there."""
    login = fetch_user(client)
    new_comment: Comment | None = None
    for tries in range(_MOST_TRIES + 1):
        every = client.fetch_all(github_client.LIST_COMMENTS, Comment, issue_number=number)
        login = _author(every, text, name) or login
        comments = _gate_comments(every, name, login)
        try:
            if not comments:
                if not create:
                    return Posted.ABSENT
                new_comment = client.send(
                    github_client.CREATE_COMMENT, Comment, body={"body": text}, issue_number=number
                )
                login = new_comment.user.login if new_comment.user else login
                continue
            return _update(client, comments, text, new_comment=new_comment, name=name)
        except GitHubFailed as failed:
            # It may have been created all the same, or somebody removed it meanwhile: look again.
            again = failed.kind is GitHubFault.NOT_FOUND if comments else failed.kind in AMBIGUOUS
            if not again or tries == _MOST_TRIES:
                raise
    raise GitHubFailed(
        GitHubFault.CONFLICT,
        "could not comment on the pull request: the comment keeps disappearing",
    )


def _update(
    client: Client, comments: list[Comment], text: str, *, new_comment: Comment | None, name: str
) -> Posted:
    """Bring the oldest comment up to date, unless a newer run wrote one, and remove its doubles."""
    own_run, own_job = run_of(text, name)
    newest, job = max(
        (run_of(comment.body or "", name) for comment in comments), key=lambda pair: pair[0]
    )
    if own_run[0] and newest == own_run and job != own_job:
        raise GitHubFailed(
            GitHubFault.CONFLICT,
            "another job of this workflow run wrote the comment of the gate with this name",
            hint="Give each job its own `name` (an input of the action).",
        )
    oldest = comments[0]
    doubles = comments[1:]
    posted = Posted.UPDATED
    if newest > own_run:
        doubles = [comment for comment in doubles if new_comment and comment.id == new_comment.id]
        posted = Posted.SUPERSEDED
    elif new_comment is not None and oldest.id == new_comment.id:
        posted = Posted.CREATED
    else:
        client.send(
            github_client.UPDATE_COMMENT, Comment, body={"body": text}, comment_id=oldest.id
        )
    for double in doubles:
        client.remove(github_client.DELETE_COMMENT, comment_id=double.id)
    return posted


def run_of(text: str, name: str) -> tuple[tuple[int, int], str]:
    """The run and attempt, and its job, that wrote a comment of the gate `name`; zeros if
    unknown."""
    match = _WRITTEN_BY.match(text[len(_MARKER.format(key=key_of(name))) :])
    return ((int(match[1]), int(match[2])), match[3]) if match else NOBODYS


NOBODYS = ((0, 0), "")
"""The run and job of a comment that names none."""


def _author(comments: list[Comment], text: str, name: str) -> str:
    """The app that wrote this job's comment, which knows its name only by that: the answer to its
    creation may have been lost; "" if there is none."""
    own = run_of(text, name)
    marker = _MARKER.format(key=key_of(name))
    return next(
        (
            comment.user.login
            for comment in comments
            if comment.user is not None
            and comment.user.type == "Bot"
            and (comment.body or "").startswith(marker)
            and run_of(comment.body or "", name) == own != NOBODYS
        ),
        "",
    )


def _gate_comments(comments: list[Comment], name: str, login: str) -> list[Comment]:
    """The gate's comments, oldest first: by the token's own user, and with our marker first; no
    quotation has both."""
    marker = _MARKER.format(key=key_of(name))
    gate_comments = [
        comment
        for comment in comments
        if comment.user is not None
        and comment.user.login.lower() == login.lower()
        and (comment.user.type == "Bot" or not login.endswith("[bot]"))
        and (comment.body or "").startswith(marker)
    ]
    return sorted(gate_comments, key=lambda comment: comment.id)


def _plain(text: str) -> str:
    unix = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    return unix.encode("utf-8", "replace").decode().strip()
