"""What conversations over HTTP have in common: one request within the bounds, its faults as failures of the agent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from evalgate.model import AgentFailure, FailureKind, Invocation
from evalgate.plugins import AgentFailed, AgentLimits
from evalgate.sessions.allowance import Allowance
from evalgate.text import words
from evalgate.web import waiting
from evalgate.web.exchange import Answer, Exchange, ExchangeFailed, Fault

_KINDS = {
    Fault.TIMEOUT: FailureKind.TIMEOUT,
    Fault.UNREACHABLE: FailureKind.UNREACHABLE,
    Fault.TOO_LARGE: FailureKind.FLOODED,
    Fault.REDIRECTS: FailureKind.PROTOCOL,
    Fault.INVALID: FailureKind.START,
}


class Line:
    """A connection to an endpoint for one conversation: counts its turns, keeps its time, words its failures."""

    def __init__(self, exchange: Exchange, *, limits: AgentLimits, redact: Callable[[str], str]) -> None:
        self._exchange = exchange
        self._limits = limits
        self._redact = redact
        self._allowance = Allowance(limits.case_timeout_s)
        self.done: list[Invocation] = []
        self.turn: int | None = None

    def ask(self, method: str, url: str, body: Any = None) -> Any:
        """The JSON that the endpoint answers. Raises AgentFailed for anything else."""
        answer = self.answer(method, url, body)
        if answer.status >= 300:
            wait_s = waiting.parse_retry_after(answer.headers, now=datetime.now(UTC))
            raise self.failed(
                kind_of(answer.status), _refusal(answer), detail=answer.excerpt(2000), retry_after_s=wait_s
            )
        try:
            return answer.json()
        except ValueError:
            raise self.failed(FailureKind.PROTOCOL, f"the answer is not JSON: {answer.excerpt()!r}") from None

    def answer(self, method: str, url: str, body: Any = None) -> Answer:
        """Any answer, whatever its status. Raises AgentFailed where there is none."""
        turn_s = self._limits.turn_timeout_s
        case_s = self._allowance.left_s
        try:
            with self._allowance:
                return self._exchange.request(method, url, body=body, timeout_s=min(turn_s, case_s))
        except ExchangeFailed as error:
            message = str(error)
            if error.fault is Fault.TIMEOUT:
                allowed = self._limits.case_timeout_s if case_s < turn_s else turn_s
                what = "case" if case_s < turn_s else "turn"
                message = f"the agent took longer than {words.seconds(allowed)} for the {what}"
            raise self.failed(_KINDS[error.fault], message) from None

    def failed(
        self, kind: FailureKind, message: str, *, detail: str = "", retry_after_s: float | None = None
    ) -> AgentFailed:
        """A failure in the current turn, ready to be raised."""
        failure = AgentFailure(
            kind=kind,
            message=self._redact(message),
            turn=self.turn,
            detail=self._redact(detail),
            partial=tuple(self.done),
            retry_after_s=retry_after_s,
        )
        return AgentFailed(failure)

    def close(self) -> None:
        """Let go of the connection."""
        self._exchange.close()


def kind_of(status: int) -> FailureKind:
    """What an HTTP status other than success says of an agent."""
    if status == 429:
        return FailureKind.RATE_LIMITED
    if status == 408 or status >= 500:
        return FailureKind.UNREACHABLE
    return FailureKind.RAISED


def _refusal(answer: Answer) -> str:
    text = f"the endpoint answered with HTTP status {answer.status}"
    again = answer.headers.get("retry-after")
    if again:
        text += f" (Retry-After: {again[:40]})"
    return f"{text}: {answer.excerpt()}" if answer.body.strip() else text
