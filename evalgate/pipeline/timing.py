"""The agent's own time within a trial."""

from __future__ import annotations

import time

from evalgate.agents.base import Conversation
from evalgate.model import Content, Invocation, Json


class Stopwatch:
    """Adds up the seconds of what is done `with` it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.monotonic() - self._began


class TimedConversation:
    """A conversation of which the agent's part is timed: not the wait for a free worker or for a provider, not the
    start of a worker, not what a simulated user takes to think."""

    def __init__(self, conversation: Conversation, watch: Stopwatch) -> None:
        self._conversation = conversation
        self._watch = watch

    def send(self, user_content: Content) -> Invocation:
        """See plugins.Conversation."""
        with self._watch:
            return self._conversation.send(user_content)

    def finish(self) -> Json | None:
        """See plugins.Conversation."""
        with self._watch:
            return self._conversation.finish()
