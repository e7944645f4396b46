"""An agent that could not be opened at all: every trial of it ends with the same failure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from evalgate.model import AgentFailure, Case, CriterionUse, Evidence, Grade, NotEvaluated, Reason, TrialKey
from evalgate.plugins import AgentFailed, Conversation


class UnopenedAgent:
    """See `plugins.Agent`."""

    def __init__(self, failure: AgentFailure) -> None:
        self._failure = failure

    def converse(self, case: Case, key: TrialKey) -> AbstractContextManager[Conversation]:  # noqa: ARG002 - the shape of Agent
        """Raises AgentFailed, always."""
        raise AgentFailed(self._failure)

    def run_metric(self, code: str, use: CriterionUse, evidence: Evidence) -> Grade:  # noqa: ARG002 - the shape of Agent
        """There is nothing to run it in."""
        return NotEvaluated(reason=Reason.AGENT_FAILED, message=self._failure.message)

    def about(self) -> Mapping[str, str]:
        """Nothing answered."""
        return {}

    def close(self) -> None:
        """Nothing is open."""
