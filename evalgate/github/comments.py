"""The one comment on a pull request: found by its marker among all comments, ours alone, shared by several jobs."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from evalgate.github import claim, endpoints, failures, layout, pacing
from evalgate.github.client import Client
from evalgate.github.failures import FailureKind, GitHubFailed
from evalgate.github.layout import Section
from evalgate.github.replies import Comment, User

ACTIONS_BOT = "github-actions[bot]"
MOST_ROUNDS = 8
_MOST_BLIND_TRIES = 3
_SETTLE_S = 2.0


class Writing(enum.StrEnum):
    """What became of a section."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"  # it stood there already
    SUPERSEDED = "superseded"  # a newer run has spoken
    ABSENT = "absent"  # there is no comment, and none was to be created


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What became of a section, and where the comment is."""

    writing: Writing
    comment_id: int | None = None
    url: str = ""


def fetch_login(client: Client) -> str:
    """Whose comments are ours: the token's own user. An app's token cannot ask, and is taken for the job's own.

    Raises GitHubFailed.
    """
    if client.token_of_app:
        return ACTIONS_BOT
    try:
        return client.fetch(endpoints.FETCH_USER, User).login
    except GitHubFailed as failed:
        if failed.not_permitted:
            return ACTIONS_BOT
        raise


def post_section(
    client: Client,
    number: int,
    section: Section,
    *,
    key: str,
    login: str = "",
    create: bool = True,
    where: str = "the summary of its job",
) -> Posted:
    """Put a section into the comment `key` of pull request `number`, beside those of other jobs.

    `login`: whose comments are ours, where that is known (an app's `slug[bot]`). Without `create`, only a comment that
    is there is updated. Writes nothing that stands there already. Whoever writes at the same time finds, in the end,
    one comment with both sections: the oldest is kept, doubles are merged into it and removed. Raises GitHubFailed.
    """
    writer = _Writer(client, number, key=key, where=where, login=login or fetch_login(client))
    return writer.write(section, create=create)


class _Writer:
    def __init__(self, client: Client, number: int, *, key: str, where: str, login: str) -> None:
        self._client = client
        self._number = number
        self._key = key
        self._where = where
        self._login = login
        self._writing = Writing.UNCHANGED
        self._echo: str | None = None

    def write(self, mine: Section, *, create: bool) -> Posted:
        """Write and read back until it stands."""
        for tries in range(MOST_ROUNDS):
            found = self._ours()
            if not found and not create:
                return Posted(writing=Writing.ABSENT)
            if found and self._stands(found, mine):
                return Posted(writing=self._writing, comment_id=found[0].id, url=found[0].html_url)
            try:
                if not found:
                    self._create(mine)
                elif not self._update(found[0], mine):
                    return Posted(writing=Writing.SUPERSEDED, comment_id=found[0].id, url=found[0].html_url)
            except GitHubFailed as failed:
                if not self._worth_another_look(failed, found, tries=tries):
                    raise
                self._client.world.sleep(pacing.backoff(tries, chance=self._client.world.chance()))
        message = f"could not update the comment on the pull request: others changed it {MOST_ROUNDS} times meanwhile"
        raise GitHubFailed(FailureKind.CONFLICT, message)

    def _worth_another_look(self, failed: GitHubFailed, found: Sequence[Comment], *, tries: int) -> bool:
        """Whether a comment may have been created all the same, or somebody removed the one that was to be changed."""
        if not found:
            return failed.kind in failures.AMBIGUOUS and tries < _MOST_BLIND_TRIES
        return failed.kind is FailureKind.NOT_FOUND and found[0].id not in {each.id for each in self._ours()}

    def _ours(self) -> list[Comment]:
        comments = self._client.fetch_all(endpoints.LIST_COMMENTS, Comment, issue_number=self._number)
        return sorted((each for each in comments if self._is_ours(each)), key=lambda each: each.id)

    def _is_ours(self, comment: Comment) -> bool:
        """Whether the token's own user wrote it, and it begins with our marker: a quotation never does both."""
        user = comment.user
        if user is None or user.login.lower() != self._login.lower():
            return False
        is_bot = self._login.endswith("[bot]")
        return (user.type == "Bot" or not is_bot) and layout.is_marked(comment.body or "", self._key)

    def _stands(self, found: Sequence[Comment], mine: Section) -> bool:
        """Whether nothing is left to do. What GitHub made of our words counts as them, should it change them."""
        if len(found) != 1:
            return False
        body = found[0].body or ""
        return body == self._echo or layout.holds(layout.parse(body, self._key), mine)

    def _text(self, found: Sequence[Comment], mine: Section) -> str | None:
        """The comment as it should be; None where a newer run has spoken in the place of `mine`."""
        together = layout.merge(*(layout.parse(each.body or "", self._key) for each in found))
        sections = layout.put(together, mine)
        return None if sections is None else layout.render(sections, self._key, where=self._where)

    def _create(self, mine: Section) -> None:
        body = {"body": self._text([], mine) or ""}
        made, _ = self._client.send(endpoints.CREATE_COMMENT, Comment, body=body, issue_number=self._number)
        self._writing, self._echo = Writing.CREATED, made.body
        if made.user is not None:  # now it is known for sure
            self._login = made.user.login

    def _update(self, canonical: Comment, mine: Section) -> bool:
        """Bring the comment up to date, under a claim; False where a newer run has spoken."""
        with claim.claimed(self._client, canonical.id) as alone:
            found = self._ours()
            if not found or found[0].id != canonical.id:
                return True  # it changed under our feet: look again
            text = self._text(found, mine)
            if text is None:
                return False
            if not self._stands(found, mine):
                self._patch(canonical, text)
            for double in found[1:]:
                self._client.delete(endpoints.DELETE_COMMENT, comment_id=double.id)
        if not alone:  # whoever read before we wrote has written by then
            self._client.world.sleep(_SETTLE_S * (1 + self._client.world.chance()))
        return True

    def _patch(self, canonical: Comment, text: str) -> None:
        made, _ = self._client.send(endpoints.UPDATE_COMMENT, Comment, body={"body": text}, comment_id=canonical.id)
        self._echo = made.body
        if self._writing is Writing.UNCHANGED:
            self._writing = Writing.UPDATED
