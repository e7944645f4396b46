"""One conversation with a worker: turns go in, invocations come out, and every failure has its
kind."""

from __future__ import annotations

import heapq
import json
import queue
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import StepEvent
from evalgate.model import (
    AgentFailure,
    Case,
    Content,
    FailureKind,
    Invocation,
    SessionInput,
    Timings,
    ToolCall,
    ToolResponse,
    TrialKey,
    TurnSetup,
)
from evalgate.text import words
from evalgate.values import Json, JsonObject, Redactor, mapped_texts
from . import protocol, worker_process
from .base import AgentFailed, AgentLimits, PendingCall, TrialTools
from .protocol import (
    EndedMessage,
    EventMessage,
    SessionMessage,
    Started,
    ToolCallMessage,
    ToolResultMessage,
    TraceMessage,
    TurnEnd,
    TurnFailed,
)
from .worker_process import Mail, Phase, Step, Worker


class Stopwatch:
    """Adds up the seconds that the agent takes. Use it as a context manager around each wait for
    the agent.

    `clock`: seconds since any fixed moment."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before = 0.0
        self._began: float | None = None

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        self._before = self.seconds
        self._began = None

    @property
    def seconds(self) -> float:
        """The seconds measured so far."""
        return self._before + (0.0 if self._began is None else self._clock() - self._began)


class TraceRoom:
    """The space for the traces of all conversations with an agent. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = threading.Lock()

    def fit(self, records: Sequence[Json], redact: Redactor) -> tuple[Json, ...]:
        """The records without secrets if all of them fit, else one entry with their number."""
        trace = [mapped_texts(record, redact) for record in records]
        size = len(json.dumps(trace, ensure_ascii=False))
        with self._lock:
            self._left -= size
            if self._left >= 0:
                return tuple(trace)
            self._left += size
        return ({"kind": "left_out", "count": len(trace)},) if trace else ()


class ToolCalls:
    """Tracks a conversation's tool calls. `tools` is None if evalgate is never asked about a call.

    Delayed answers wait here, so that simultaneous calls are answered independently."""

    def __init__(self, session: str, tools: TrialTools | None) -> None:
        self._session = session
        self._tools = tools
        self._asked: dict[str, str] = {}
        self._running: dict[str, PendingCall] = {}
        self._waiting: list[tuple[float, int, JsonObject]] = []

    @property
    def names(self) -> frozenset[str]:
        """The names of the tools that evalgate was asked about."""
        return frozenset(self._asked.values())

    def ask(self, tool_call: ToolCallMessage) -> AgentFailure | None:
        """Decide on a call; `due` returns its answer when its time has come. Returns a failure if
        the call ends the conversation."""
        if self._tools is None:
            return worker_process.out_of_turn(
                tool_call.type, "although its tool calls are not intercepted"
            )
        if tool_call.call in self._asked:
            return worker_process.out_of_turn(
                tool_call.type, f"with the call id {tool_call.call[:80]!r}, which is already in use"
            )
        call = PendingCall(
            number=len(self._asked) + 1,
            tool=tool_call.name,
            args=tool_call.args,
            kind=tool_call.kind,
        )
        self._asked[tool_call.call] = call.tool
        answer = self._tools.answer(call)
        if answer.report:
            self._running[tool_call.call] = call
        message = protocol.tool_response(self._session, call=tool_call.call, answer=answer)
        heapq.heappush(self._waiting, (time.monotonic() + answer.delay_s, call.number, message))
        return FailureKind.TOOL_UNMATCHED.failure(answer.refusal) if answer.refusal else None

    def add_result(self, tool_result: ToolResultMessage) -> AgentFailure | None:
        """Store a call's result. Returns a failure if the call is unknown."""
        call = self._running.pop(tool_result.call, None)
        if self._tools is None or call is None:
            return worker_process.out_of_turn(
                tool_result.type, f"for the unknown call {tool_result.call[:80]!r}"
            )
        self._tools.keep(call, tool_result)
        return None

    def due_in(self) -> float | None:
        """Seconds until the next answer is due; None if no answer is waiting."""
        return max(self._waiting[0][0] - time.monotonic(), 0.0) if self._waiting else None

    def due(self) -> list[Json]:
        """Remove and return the answers whose time has come."""
        moment = time.monotonic()
        answers: list[Json] = []
        while self._waiting and self._waiting[0][0] <= moment:
            answers.append(heapq.heappop(self._waiting)[2])
        return answers

    def turn(self, number: int) -> None:
        """Begin a turn; turns are counted from 0."""
        if self._tools is not None:
            self._tools.turn(number)

    def finish(self) -> None:
        """End the conversation. Raises UnavailableError if its recording cannot be saved."""
        if self._tools is not None:
            self._tools.finish()


class Turns:
    """The turns of a conversation: counts them, measures their time, and makes their failures."""

    def __init__(self, case: Case, limits: AgentLimits, redact: Redactor) -> None:
        self._case = case
        self.done: list[Invocation] = []
        self.turn: int | None = None
        self.watch = Stopwatch()
        self._limits = limits
        self._redact = redact

    def begin(self) -> TurnSetup:
        """Begin the next turn, and return what the case sets for it."""
        self.turn = len(self.done) + 1
        return self._case.setup_of(len(self.done))

    def limit(self) -> tuple[float, str]:
        """The timeout of a request in seconds, and the message for a timeout."""
        turn_s, all_s = self._limits.turn_timeout_s, self._limits.case_timeout_s
        case_s = max(all_s - self.watch.seconds, 0.0)
        if case_s < turn_s:
            return case_s, f"the case timed out after {words.seconds(all_s)} (`case-timeout`)"
        return turn_s, f"the agent timed out after {words.seconds(turn_s)} (`turn-timeout`)"

    def failed(
        self,
        kind: FailureKind,
        message: str,
        *,
        detail: str = "",
        retry_after_s: float | None = None,
        trace: tuple[Json, ...] = (),
    ) -> AgentFailed:
        """A failure in the current turn, as an exception to raise."""
        failure = AgentFailure(
            kind=kind,
            message=self._redact(message),
            turn=self.turn,
            detail=self._redact(detail),
            partial=tuple(self.done),
            retry_after_s=retry_after_s,
            trace=trace,
        )
        return AgentFailed(failure)


def running_tools(steps: Sequence[StepEvent]) -> list[str]:
    """The names of the last called tools that have not answered. Tools of earlier calls are
    ignored."""
    open_calls: dict[str, str] = {}
    for step in steps:
        parts = step.content.parts if step.content else ()
        answers = [part for part in parts if isinstance(part, ToolResponse)]
        calls = [part for part in parts if isinstance(part, ToolCall)]
        if not answers and (step.usage is not None or not calls):
            open_calls.clear()  # a model answers only after its tools have answered
        for answer in answers:
            open_calls.pop(answer.id or answer.name, None)
        open_calls |= {call.id or call.name: call.name for call in calls}
    return list(open_calls.values())


def seed_of(key: TrialKey, *, seed: int) -> int:
    """A random seed for a trial: always the same for the same seed, suite, case and repeat."""
    return zlib.crc32(f"{seed}:{key}".encode("utf-8", "replace"))


class WorkerConversation(Turns):
    """A session in a worker.

    A turn that takes too long ends this conversation and calls `on_timeout`, because the worker
    must not get new ones. `takes_history`: the session can begin with earlier turns that the agent
    does not answer again."""

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
        traces: TraceRoom | None = None,
    ) -> None:
        """Open the session. Raises AgentFailed."""
        super().__init__(case, limits, worker.redact)
        self._worker = worker
        self._on_timeout = on_timeout
        self._began = time.monotonic()
        self._steps: list[StepEvent] = []
        self._recorded: dict[int, JsonObject] = {}
        self._open = True
        session = case.session or SessionInput()
        # the session starts with the state of the first turn, because every worker supports that
        self._state = {**session.state, **case.setup_of(0).state}
        self.takes_history = worker.takes_history
        if tools is not None and tools.is_optional and not worker.asks:
            # this agent's tools would run anyway
            if any(setup.mocks or setup.fakes for setup in case.setups):
                text = "the case mocks tools, and this agent runs its tools without asking evalgate (see docs/tools.md)"
                raise AgentFailed(FailureKind.TOOL_UNMATCHED.failure(text))
            tools = None
        self._box = worker.boxes.open(Phase.STARTING)
        self._tools = ToolCalls(self._box.name, tools)
        self._traces = traces
        self._checks_tools = tools is not None and not vouches_for_tools
        try:
            with self.watch:
                message = self._ask(
                    protocol.start(
                        self._box.name,
                        session,
                        self._state,
                        seed=seed,
                        history=case.history if worker.takes_history else (),
                        states=case.ces is not None and worker.takes_history,
                    )
                )
                if not isinstance(message, Started):
                    raise self._failed(
                        worker_process.out_of_turn(message.type, "instead of 'started'")
                    )
        except BaseException:
            self.leave()
            raise

    def listen(self, hear: Callable[[Step], None]) -> None:
        """Make turns live: `hear` gets each step as it comes, in another thread."""
        self._box.hear = hear

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""
        setup = self.begin()
        self._box.enter(Phase.TURN)
        state = self._new_state(setup)
        self._state |= state
        self._tools.turn(len(self.done))
        start_time = time.monotonic()
        self._steps = []
        self._recorded = {}
        with self.watch:
            message = self._ask(
                protocol.turn(
                    self._box.name,
                    user_content,
                    state=state,
                    agent=setup.agent,
                    is_live=self._box.hear is not None,
                )
            )
            while not isinstance(message, TurnEnd):
                if isinstance(message, ToolCallMessage):
                    self._fail_with(self._tools.ask(message))
                elif isinstance(message, ToolResultMessage):
                    self._fail_with(self._tools.add_result(message))
                message = self._next_message()
        invocation = self._invocation(user_content, message, time.monotonic() - start_time)
        self.done.append(invocation)
        return invocation

    def _new_state(self, setup: TurnSetup) -> Json:
        """The variables that the case sets for this turn and that the session does not have yet.
        Raises AgentFailed if the agent cannot receive them."""
        state = {
            name: value
            for name, value in setup.state.items()
            if name not in self._state or self._state[name] != value
        }
        if (state or setup.agent) and not self.takes_history:
            subject = (
                f"the variables {words.listed(sorted(state), limit=3)}"
                if state
                else f"the agent {setup.agent[:80]!r}"
            )
            text = f"the case sets {subject} for this turn, which this agent does not accept (docs/agent-protocol.md)"
            raise self._failed(FailureKind.PROTOCOL.failure(text))
        return state

    def _invocation(self, user_content: Content, end: TurnEnd, seconds: float) -> Invocation:
        """The turn, from its steps and its end message. `seconds`: its duration, if the worker
        measured none."""
        model_calls = tuple(
            (call.usage_metadata.to_model(), call.model_version) for call in end.model_calls
        )
        is_detailed = self._case.ces is not None or self._box.hear is not None
        timings = end.timings.to_model() if end.timings else Timings(total_s=seconds)
        return adk_shapes.turn_of_steps(
            user_content,
            self._steps,
            invocation_id=end.invocation_id,
            agents=tuple(agent.to_model() for agent in end.agents),
            timings=timings if is_detailed else replace(timings, calls=()),
            trace=self._trace(),
            model_calls=model_calls,
            state=end.state if is_detailed else None,
        )

    def finish(self) -> Json | None:
        """End the session. Returns its final state, if reported. Raises AgentFailed."""
        self._steps = []
        self._recorded = {}
        self.turn = None  # every turn was answered, so a later failure belongs to no turn
        self._box.enter(Phase.ENDING)
        with self.watch:
            message = self._ask(protocol.end(self._box.name))
        self._open = False
        self._tools.finish()
        return message.state if isinstance(message, EndedMessage) else None

    def leave(self) -> None:
        """Close the conversation in any state. If the session is still open, end it in the
        worker."""
        self._worker.boxes.close(self._box)
        if self._open and self._worker.failure is None:
            self._open = False
            self._worker.send(protocol.end(self._box.name), timeout_s=1.0)

    def _restart_clock(self) -> None:
        """Set the deadline, on the monotonic clock."""
        timeout_s, self._too_long = self.limit()
        self._deadline = time.monotonic() + timeout_s

    def _ask(self, message: Json) -> SessionMessage:
        """The first answer to a message."""
        self._restart_clock()
        self._say(message)
        return self._next_message()

    def _say(self, message: Json) -> None:
        self._worker.send(message, timeout_s=max(self._deadline - time.monotonic(), 0.0))

    def _next_message(self) -> SessionMessage:
        """The next message. While waiting, sends the answers of tool calls that become due."""
        mail: Mail | None = None
        while mail is None:
            for answer in self._tools.due():
                self._say(answer)
            remaining_s = max(self._deadline - time.monotonic(), 0.0)
            due_in_s = self._tools.due_in()
            try:
                steps, mail = self._box.mail.get(
                    timeout=remaining_s if due_in_s is None else min(remaining_s, due_in_s)
                )
            except queue.Empty:
                if time.monotonic() >= self._deadline:
                    self._take(self._box.steps)
                    raise self._failed(self._worker.failure or self._timed_out()) from None
            else:
                self._take(steps)
        match mail:
            case AgentFailure():
                raise self._failed(mail)
            case TurnFailed():
                text = mail.message
                if mail.code is not None and str(mail.code) not in text:
                    text += f" (HTTP status {mail.code})"
                raise self._failed(
                    AgentFailure(
                        kind=protocol.failure_kind(mail.kind),
                        message=text,
                        detail=mail.detail,
                        retry_after_s=mail.retry_after_s,
                    )
                )
            case protocol.MetricResult():
                raise self._failed(worker_process.out_of_turn(mail.type, "in a conversation"))
            case _:
                return mail

    def _take(self, steps: Sequence[Step]) -> None:
        """Store the agent's events and trace entries. Raises AgentFailed (PROTOCOL) for a tool's
        response without a preceding question about the call: the tool ran without permission."""
        for step in steps:
            if isinstance(step, TraceMessage):
                self._recorded.setdefault(step.number, {}).update(step.entry)
            elif isinstance(step, EventMessage) and not step.partial:
                event = step.step()
                for part in event.content.parts if self._checks_tools and event.content else ():
                    if isinstance(part, ToolResponse) and part.name not in self._tools.names:
                        problem = f"a response of the tool {part.name[:80]!r} without having asked for the call"
                        failure = FailureKind.PROTOCOL.failure(f"the agent sent {problem}")
                        raise self._failed(failure)
                self._steps.append(event)

    def _fail_with(self, failure: AgentFailure | None) -> None:
        """Raise AgentFailed if there is a failure. First send the refusal of the call, because an
        agent that waits for its answer can then continue."""
        if failure is not None:
            self._restart_clock()
            for answer in self._tools.due():
                self._say(answer)
            raise self._failed(failure)

    def _trace(self) -> tuple[Json, ...]:
        """The trace of this turn so far."""
        entries = [entry for _, entry in sorted(self._recorded.items())]
        return self._traces.fit(entries, self._worker.redact) if self._traces is not None else ()

    def _timed_out(self) -> AgentFailure:
        self._on_timeout()
        message = self._too_long
        if tools := running_tools(self._steps):
            subject = "the tool {} was" if len(tools) == 1 else "the tools {} were"
            message += (
                f", while {subject.format(words.listed(repr(name[:80]) for name in tools))} running"
            )
        boxes = self._worker.boxes
        if stall := boxes.stall():
            stall_text = f"{stall.where[:200] or 'it'} waits without `await`, which stops all conversations of its process"
            text = f"the agent's process was ended: in another conversation {stall_text}"
            # evalgate runs the conversations of the process again, each in a process of its own
            boxes.is_lost_together = True
            loss = FailureKind.UNREACHABLE.failure(text)
            self._worker.end(loss)
            if stall.session != self._box.name:
                return loss
            message += f"; {stall_text}"
        elif boxes.was_stalled(self._box, since=self._began):
            boxes.is_lost_together = True  # as above
            text = f"{message}, and another conversation of its process waited without `await`"
            return FailureKind.UNREACHABLE.failure(text)
        return FailureKind.TIMEOUT.failure(message)

    def _failed(self, failure: AgentFailure) -> AgentFailed:
        # A failed session is dead in the worker. A session that evalgate gave up must still be
        # ended there (see `leave`).
        self._open = failure.kind in {
            FailureKind.TIMEOUT,
            FailureKind.TOOL_UNMATCHED,
            FailureKind.PROTOCOL,
        }
        return self.failed(
            failure.kind,
            failure.message,
            detail=failure.detail or self._worker.detail(),
            retry_after_s=failure.retry_after_s,
            trace=self._trace(),
        )
