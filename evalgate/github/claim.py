"""A claim on a comment, so that of two jobs that update it at once one waits: only one can be first to react to it.

GitHub has no conditional update. But it answers 201 to whoever adds a reaction and 200 to whoever finds their own
already there, and all jobs of a repository are the same bot: that is a lock (docs/decisions/011-one-comment.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime

from evalgate.github import endpoints, pacing
from evalgate.github.client import Client
from evalgate.github.failures import GitHubFailed
from evalgate.github.replies import Reaction

EXPIRES_AFTER_S = 60.0
"""A claim that is older was left behind by a job that died."""
LONGEST_WAIT_S = 45.0
_LONGEST_PAUSE_S = 3.0
_CONTENT = "eyes"


@contextlib.contextmanager
def claimed(client: Client, comment_id: int) -> Iterator[bool]:
    """Hold the claim on a comment. False: it could not be had, by permission or in time; go on with care."""
    reaction_id = _claim(client, comment_id)
    try:
        yield reaction_id is not None
    finally:
        if reaction_id is not None:
            with contextlib.suppress(GitHubFailed):  # it expires
                client.delete(endpoints.REMOVE_REACTION, comment_id=comment_id, reaction_id=reaction_id)


def _claim(client: Client, comment_id: int) -> int | None:
    world = client.world
    deadline = world.now() + LONGEST_WAIT_S
    tries = 0
    try:
        while world.now() < deadline:
            body = {"content": _CONTENT}
            reaction, status = client.send(endpoints.ADD_REACTION, Reaction, body=body, comment_id=comment_id)
            if status == 201:
                return reaction.id
            if world.now() - _seconds(reaction.created_at) > EXPIRES_AFTER_S:
                client.delete(endpoints.REMOVE_REACTION, comment_id=comment_id, reaction_id=reaction.id)
                continue
            world.sleep(min(_LONGEST_PAUSE_S, pacing.backoff(tries, chance=world.chance())))
            tries += 1
    except GitHubFailed:
        return None
    return None


def _seconds(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
