"""One conversation with a worker: turns go in, invocations come out, and every way to fail has its kind."""

from __future__ import annotations

import queue
import time
import zlib
from collections.abc import Callable, Mapping

from evalgate import words
from evalgate.model import (
    AgentDetails,
    AgentFailure,
    Case,
    Content,
    FailureKind,
    Invocation,
    Json,
    SessionInput,
    Timings,
    ToolResponse,
    TrialKey,
)
from evalgate.plugins import AgentFailed, AgentLimits, TrialTools
from evalgate.sessions import losses, messages
from evalgate.sessions.allowance import Allowance
from evalgate.sessions.boxes import Mail, Phase
from evalgate.sessions.losses import Loss
from evalgate.sessions.messages import EndedSaid, EventSaid, SessionMessage, Started, TurnEnd, TurnFailed
from evalgate.sessions.tool_line import ToolLine
from evalgate.sessions.tool_messages import ToolCallSaid, ToolResultSaid
from evalgate.sessions.worker import Worker
from evalgate.wire import assembly
from evalgate.wire.assembly import StepEvent

_WAITED_FOR: Mapping[Phase, str] = {Phase.STARTING: " to open the session", Phase.ENDING: " to end the session"}


def seed_of(key: TrialKey, *, seed: int) -> int:
    """A number for a trial's own randomness: the same for the same seed, suite, case and repeat, whenever it runs."""
    return zlib.crc32(f"{seed}:{key}".encode("utf-8", "replace"))


class WorkerConversation:
    """A session in a worker.

    A turn that takes too long ends this conversation at once. `on_timeout` is told, because the worker is not to be
    trusted with new ones.
    """

    def __init__(
        self,
        worker: Worker,
        *,
        case: Case,
        seed: int,
        limits: AgentLimits,
        on_timeout: Callable[[], None],
        tools: TrialTools | None = None,
        vouches_for_tools: bool = False,
    ) -> None:
        """Open the session. Raises AgentFailed."""
        self._worker = worker
        self._limits = limits
        self._on_timeout = on_timeout
        self._allowance = Allowance(limits.case_timeout_s)
        self._done: list[Invocation] = []
        self._turn: int | None = None
        self._open = True
        self._box = worker.boxes.open(Phase.STARTING)
        self._tools = ToolLine(self._box.name, tools)
        self._vouches_for_tools = vouches_for_tools
        try:
            with self._allowance:
                self._start(case.session or SessionInput(), seed)
        except BaseException:
            self.leave()
            raise

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""
        with self._allowance:
            return self._send(user_content)

    def _send(self, user_content: Content) -> Invocation:
        self._turn = len(self._done) + 1
        self._box.enter(Phase.TURN)
        began = time.monotonic()
        deadline = self._deadline()
        self._say(messages.turn(self._box.name, user_content), deadline)
        steps: list[StepEvent] = []
        while not isinstance(message := self._receive(deadline), TurnEnd):
            if isinstance(message, EventSaid):
                steps.append(self._checked(message.step()))
            elif isinstance(message, ToolCallSaid):
                self._fail_with(self._tools.ask(message))
            elif isinstance(message, ToolResultSaid):
                self._fail_with(self._tools.tell(message))
        invocation = assembly.assemble(
            user_content,
            steps,
            invocation_id=message.invocation_id,
            agents=_agents(message),
            timings=message.timings.noun() if message.timings else Timings(total_s=time.monotonic() - began),
        )
        self._done.append(invocation)
        return invocation

    def finish(self) -> Json | None:
        """End the session; its final state where the worker tells it. Raises AgentFailed."""
        self._turn = None  # every turn was answered: what goes wrong from here on is in none
        self._box.enter(Phase.ENDING)
        with self._allowance:
            deadline = self._deadline()
            self._say(messages.end(self._box.name), deadline)
            message = self._receive(deadline)
        self._open = False
        self._tools.finish()
        return message.state if isinstance(message, EndedSaid) else None

    def leave(self) -> None:
        """Let go, whatever came before; a session that is still open in the worker is ended there."""
        self._worker.boxes.close(self._box)
        if self._open and self._worker.loss is None:
            self._open = False
            self._worker.say(messages.end(self._box.name), timeout_s=1.0)

    def _start(self, session: SessionInput, seed: int) -> None:
        deadline = self._deadline()
        message = messages.start(
            self._box.name,
            app_name=session.app_name,
            user_id=session.user_id,
            session_id=session.session_id,
            state=session.state,
            seed=seed,
        )
        self._say(message, deadline)
        if not isinstance(said := self._receive(deadline), Started):
            raise self._failed(losses.misplaced(said.type, "instead of 'started'"))

    def _deadline(self) -> float:
        return time.monotonic() + min(self._limits.turn_timeout_s, self._allowance.left_s)

    def _say(self, message: Mapping[str, object], deadline: float) -> None:
        self._worker.say(message, timeout_s=max(deadline - time.monotonic(), 0.0))

    def _receive(self, deadline: float) -> SessionMessage:
        """The next message; tool calls whose answers are due meanwhile are answered."""
        mail: Mail | None = None
        while mail is None:
            self._answer_tools(deadline)
            left_s = max(deadline - time.monotonic(), 0.0)
            next_s = self._tools.due_in()
            try:
                mail = self._box.mail.get(timeout=left_s if next_s is None else min(left_s, next_s))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    raise self._failed(self._worker.loss or self._timed_out()) from None
        match mail:
            case Loss():
                raise self._failed(mail)
            case TurnFailed():
                raise self._failed(_failure_said(mail))
            case messages.MetricResult():
                raise self._failed(losses.misplaced(mail.type, "in a conversation"))
            case _:
                return mail

    def _answer_tools(self, deadline: float) -> None:
        for message in self._tools.due():
            self._say(message, deadline)

    def _fail_with(self, loss: Loss | None) -> None:
        """A call that nothing answers is refused first, so that an agent which waits for its answer goes on."""
        if loss is not None:
            self._answer_tools(self._deadline())
            raise self._failed(loss)

    def _checked(self, step: StepEvent) -> StepEvent:
        """Raises AgentFailed (PROTOCOL) where a tool has answered that was never asked for: it ran, then."""
        if self._tools.active and not self._vouches_for_tools and step.content is not None:
            for part in step.content.parts:
                if isinstance(part, ToolResponse) and part.name not in self._tools.names:
                    text = f"an answer of the tool {part.name[:80]!r}, which it did not ask for before"
                    raise self._failed(Loss(kind=FailureKind.PROTOCOL, message=f"the agent sent {text}"))
        return step

    def _timed_out(self) -> Loss:
        self._on_timeout()
        if not self._allowance.left_s:
            limit = f"the case timed out after {words.seconds(self._limits.case_timeout_s)}"
        else:
            limit = f"the agent timed out after {words.seconds(self._limits.turn_timeout_s)}"
            limit += _WAITED_FOR.get(self._box.phase, " for the turn")
        return Loss(kind=FailureKind.TIMEOUT, message=limit)

    def _failed(self, loss: Loss) -> AgentFailed:
        # A session that failed is dead in the worker; one that we gave up has still to be ended there (see `leave`).
        self._open = loss.kind in {FailureKind.TIMEOUT, FailureKind.TOOL_UNMATCHED, FailureKind.PROTOCOL}
        redact = self._worker.redact
        failure = AgentFailure(
            kind=loss.kind,
            message=redact(loss.message),
            turn=self._turn,
            detail=redact(loss.detail) or self._worker.detail(),
            partial=tuple(self._done),
            retry_after_s=loss.retry_after_s,
        )
        return AgentFailed(failure)


def _agents(message: TurnEnd) -> tuple[AgentDetails, ...]:
    return tuple(
        AgentDetails(name=agent.name, instructions=agent.instructions, tool_declarations=tuple(agent.tool_declarations))
        for agent in message.agents
    )


def _failure_said(said: TurnFailed) -> Loss:
    code = f" (HTTP status {said.code})" if said.code is not None and str(said.code) not in said.message else ""
    return Loss(
        kind=messages.failure_kind(said.kind),
        message=said.message + code,
        detail=said.detail,
        retry_after_s=said.retry_after_s,
    )
