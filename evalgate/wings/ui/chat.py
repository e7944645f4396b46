"""A conversation of a person with the agent of a suite, as its cases would have it."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress

from evalgate.agents import opening
from evalgate.agents.base import AgentFailed, Conversation, ToolMode
from evalgate.agents.tools import toolbox
from evalgate.baseline import settings as baseline_settings
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.discovery import project
from evalgate.errors import UnavailableError
from evalgate.formats import fingerprints
from evalgate.model import AgentFailure, Case, Content, Invocation, Suite, Text, TrialKey

CASE = "chat"


class Chat:
    """One session with the agent. Its worker runs until `close`; `is_over`: the agent failed in
    it."""

    def __init__(self, suite: Suite, settings: Settings, context: Context) -> None:
        """Open it. Raises UnavailableError if the agent does not start."""
        self.suite = suite.key
        self.turns: list[Invocation] = []
        self.is_over = False
        self._stack = ExitStack()
        self._speaking = threading.Lock()
        self._closed = False
        if toolbox.mode_of(settings) is ToolMode.RECORD:  # cassettes are of cases
            settings = settings.model_copy(update={"tools": "live"})
        asked_with = project.environment_of_judges(settings, (suite,), context.environ).environ
        keys = baseline_settings.judge_keys(
            settings, settings, (suite,), None, context, asked_with=asked_with
        )
        open_agents = opening.open_agents(
            (suite,), settings, context, root=settings.root, judge_keys=keys
        )
        try:
            agent = self._agent = self._stack.enter_context(open_agents)[
                fingerprints.agent_key(suite.agent)
            ]
            self._conversation: Conversation = self._stack.enter_context(
                agent.converse(
                    Case(case_id=CASE, conversation=()), TrialKey(suite=suite.key, case_id=CASE)
                )
            )
        except AgentFailed as failed:
            self._stack.close()
            raise _unavailable(failed.failure) from failed
        except BaseException:
            self._stack.close()
            raise

    def say(self, text: str) -> Invocation:
        """The agent's next turn. Raises UnavailableError if it fails, or if the session is over."""
        with self._speaking:
            if self._closed or self.is_over:
                raise UnavailableError("the session with the agent has ended", hint="Start one.")
            try:
                turn = self._conversation.send(Content(parts=(Text(text=text),), role="user"))
            except AgentFailed as failed:
                self.is_over = True
                raise _unavailable(failed.failure) from failed
            self.turns.append(turn)
            return turn

    def close(self) -> None:
        """End the session and the agent's processes; a turn that is under way fails."""
        self._closed = True
        # which a turn that is under way hears of as long as the session is open
        self._agent.close()
        with self._speaking, suppress(AgentFailed):
            self._stack.close()


def _unavailable(failure: AgentFailure) -> UnavailableError:
    last = failure.detail.strip().splitlines()[-1][:500] if failure.detail.strip() else ""
    return UnavailableError(
        f"the agent failed: {failure.message}", hint="" if last in failure.message else last
    )
