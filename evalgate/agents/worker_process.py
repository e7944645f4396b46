"""One worker process: started, greeted, and served until its end; and the conversations with it:
turns go in, invocations come out, and every failure has its kind."""

from __future__ import annotations

import enum
import heapq
import json
import math
import queue
import signal
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from types import MappingProxyType
from typing import Any, get_args

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
from evalgate.system import redact
from evalgate.system.isolation import Sandbox
from evalgate.system.process import (
    Child,
    ChildClosed,
    ChildStartError,
    Ended,
    LineSplitter,
    LineTooLong,
)
from evalgate.text import words
from evalgate.values import Environ, Json, JsonObject, Redactor, frozen_dataclass, mapped_texts
from evalgate.worker import inputs
from . import protocol
from .base import AgentFailed, AgentLimits, PendingCall, TrialTools, Turns
from .protocol import (
    ArtifactMessage,
    EndedMessage,
    EventMessage,
    Fatal,
    InputsMessage,
    InTurn,
    MetricResult,
    ProtocolError,
    Ready,
    Resumed,
    SessionMessage,
    Stalled,
    Started,
    ToolCallMessage,
    ToolResultMessage,
    TraceMessage,
    TurnEnd,
    TurnFailed,
    WorkerMessage,
)

EXCERPT = 200
SIGNAL_CODES = 129  # from here on exit codes are those of signals
MOST_EVENTS = 20_000  # of one type in one turn: small events take many times their bytes in memory
DETAIL_BYTES = 8_000
MOST_QUESTIONS, MOST_CHARACTERS = 50_000, 5_000_000  # of all workers of an agent
HANG_UP_S = 1.0  # how long a worker that closed a pipe may take to end
NOT_READY = "the agent was not ready within"
GRACE_S = 1.0  # between SIGTERM and SIGKILL for a worker that has failed


def failure_of_end(ended: Ended, *, unfinished: bytes, memory_bytes: int | None) -> AgentFailure:
    """The failure of a process that ended by itself or by a foreign signal. `memory_bytes`: its
    memory limit, if it had one."""
    kind = FailureKind.EXITED if ended.signal is None else FailureKind.KILLED
    text = f"the agent's process {ended}"
    if ended.signal == 9 or ended.returncode == 137:
        text += " (out of memory?)"
    if memory_bytes is not None and not 0 <= ended.returncode < SIGNAL_CODES:
        text += f"; its memory is capped at {words.size(memory_bytes)}"
    if unfinished:
        text += f", in the middle of a line: {excerpt(unfinished)}"
    return kind.failure(text)


def too_large(limit: str) -> AgentFailure:
    """The failure of an agent whose output exceeded the limit, in words."""
    return FailureKind.FLOODED.failure(f"the agent produced more than {limit}")


def out_of_turn(message_type: str, about: str) -> AgentFailure:
    """The failure of an agent that sent an unexpected message."""
    return FailureKind.PROTOCOL.failure(f"the agent sent {message_type!r} {about}")


def excerpt(line: bytes) -> str:
    """The beginning of a line, quoted."""
    text = line[: EXCERPT * 4].decode("utf-8", "backslashreplace")
    return repr(text[:EXCERPT] + (" ..." if len(text) > EXCERPT or len(line) > EXCERPT * 4 else ""))


Step = EventMessage | TraceMessage | ArtifactMessage
Mail = SessionMessage | MetricResult | AgentFailure


class Phase(enum.Enum):
    """The state of a box: what it waits for."""

    STARTING = "being opened"
    IDLE = "not in a turn"
    TURN = "in a turn"
    ENDING = "being ended"
    METRIC = "grading"


_EXPECTED = {
    Phase.STARTING: (Started, TurnFailed),
    Phase.IDLE: (),
    Phase.TURN: (*get_args(InTurn), TurnEnd, TurnFailed),
    Phase.ENDING: (EndedMessage, TurnFailed),
    Phase.METRIC: (MetricResult,),
}


class Mailbox:
    """The mail of one conversation, or the result of one metric, each with the steps before it.
    `steps`: those since the last mail; they wake no thread. `hear`: gets each step at once, in
    another thread."""

    def __init__(self, name: str, phase: Phase) -> None:
        self.name = name
        self.mail: queue.SimpleQueue[tuple[list[Step], Mail]] = queue.SimpleQueue()
        self.steps: list[Step] = []
        self.hear: Callable[[Step], None] | None = None
        self.enter(phase)

    def put(self, mail: Mail) -> None:
        """Wake the thread that waits for mail."""
        steps = self.steps
        self.steps = []
        self.mail.put((steps, mail))

    def enter(self, phase: Phase) -> None:
        """Wait for something else from now on; the counts of bytes and events restart."""
        self.phase = phase
        self.bytes = 0
        self.events: Counter[str] = Counter()


class Mailboxes:
    """All boxes of one worker. Thread-safe.

    `output_bytes` limits the bytes for one box in one turn, and the bytes for closed boxes."""

    def __init__(self, *, output_bytes: int) -> None:
        self._output_bytes = output_bytes
        self._lock = threading.Lock()
        self._boxes: dict[str, Mailbox | None] = {}  # None: closed
        self._late_bytes = 0
        self._ended: AgentFailure | None = None
        self.is_lost_together = False  # it ended in several conversations
        self.last_stall: Stalled | None = None  # no `resumed` came since
        self._stalled_at: dict[str, float] = {}

    def note_stall(self, stall: Stalled | None) -> None:
        """Note that one conversation keeps the worker from the others, or that none does any
        more."""
        with self._lock:
            for report in filter(None, (self.last_stall, stall)):
                self._stalled_at[report.session] = time.monotonic()
            self.last_stall = stall

    def was_stalled(self, box: Mailbox, *, since: float) -> bool:
        """True if another conversation kept the worker `since` this time of the monotonic clock."""
        with self._lock:
            times = self._stalled_at.items()
            return any(at >= since for session, at in times if session != box.name)

    def stall(self) -> Stalled | None:
        """The report of the conversation that keeps the worker from all others; None if none does.
        One that waits for nothing does not."""
        with self._lock:
            stall = self.last_stall
            box = None if stall is None else self._boxes.get(stall.session)
            return None if box is None or box.phase is Phase.IDLE else stall

    def open(self, phase: Phase) -> Mailbox:
        """A box with a new name. If the worker has already ended, the box holds its failure."""
        with self._lock:
            prefix = "m" if phase is Phase.METRIC else "s"
            box = Mailbox(f"{prefix}{len(self._boxes) + 1}", phase)
            self._boxes[box.name] = box
            if self._ended is not None:
                box.put(self._ended)
            return box

    def close(self, box: Mailbox) -> None:
        """Remove the box: later messages for it are dropped."""
        with self._lock:
            self._boxes[box.name] = None

    def add(self, message: SessionMessage | MetricResult, *, size: int) -> AgentFailure | None:
        """Put a message of `size` bytes into its box. Returns a failure if it is unexpected there
        or too large."""
        name = message.id if isinstance(message, MetricResult) else message.session
        with self._lock:
            if name not in self._boxes:
                return out_of_turn(message.type, f"for {name[:80]!r}, an unknown conversation")
            box = self._boxes[name]
            if box is None:
                self._late_bytes += size
                limit = f"{words.size(self._output_bytes)} in conversations that had ended"
                return too_large(limit) if self._late_bytes > self._output_bytes else None
            if not isinstance(message, _EXPECTED[box.phase]):
                return out_of_turn(message.type, f"for a conversation that is {box.phase.value}")
            box.bytes += size
            box.events[message.type] += 1
            if box.bytes > self._output_bytes:
                return too_large(f"{words.size(self._output_bytes)} in one turn")
            if box.events[message.type] > MOST_EVENTS:
                return too_large(f"{MOST_EVENTS:,} events in one turn")
            if not isinstance(message, InTurn):
                box.phase = Phase.IDLE
            if isinstance(message, Step):
                box.steps.append(message)
                if box.hear is not None:
                    box.hear(message)
            else:
                box.put(message)
            return None

    def end(self, failure: AgentFailure) -> None:
        """Report the end of the worker to every conversation. If there are several, any may be the
        cause."""
        with self._lock:
            self._ended = shared_failure = failure
            open_boxes = list(filter(None, self._boxes.values()))
            if len(open_boxes) > 1:
                self.is_lost_together = True
                others_text = words.counted(len(open_boxes) - 1, "other conversation")
                hint = "`isolation: case` runs each in its own process"
                text = f"{failure.message}; {others_text} ran in the same process ({hint})"
                shared_failure = failure.kind.failure(text, detail=failure.detail)
            for box in open_boxes:
                box.put(shared_failure)


@frozen_dataclass
class Launch:
    """The start of a worker."""

    command: tuple[str, ...]
    cwd: str
    """An absolute folder."""
    environment: Environ
    """All variables of the process."""
    hello: Json = field(default_factory=dict)
    """The options of its first message."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Facts about its environment besides its own."""
    prefix: tuple[str, ...] = ()
    """The command that starts it as another user."""
    inputs: str = ""
    """The top of the checkout whose inputs it reports, as it can reach it; "": it reports none."""
    start: Callable[..., Any] = Child
    """What it runs in; behaves as a Child."""

    @classmethod
    def inside(
        cls,
        sandbox: Sandbox | None,
        *,
        command: Sequence[str],
        cwd: str,
        environment: Environ,
        inputs: str,
        hello: Json = MappingProxyType({}),
        about: Mapping[str, str] = MappingProxyType({}),
        overrides: Environ = MappingProxyType({}),
    ) -> Launch:
        """The launch as the sandbox's user, with all paths in its copy of the checkout, but for the
        values of `overrides`, which are further variables; None: as evalgate's own user."""
        placed: Callable[[str], str] = str
        prefix: tuple[str, ...] = ()
        if sandbox is not None:
            placed = sandbox.placed
            prefix = sandbox.agent.prefix
            environment = sandbox.environment(environment)
        return cls(
            command=tuple(map(placed, command)),
            cwd=placed(cwd),
            environment={**environment, **overrides},
            hello=mapped_texts(hello, placed),
            about=about,
            prefix=prefix,
            inputs=placed(inputs),
        )


class Questions:
    """The questions that workers asked about their checkout, as reported. Limited in number,
    thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._questions: set[str] = set()
        self._characters = 0
        self._is_answered = False

    def add(self, message: InputsMessage) -> None:
        """Add a worker's questions. Too many count as `everything`."""
        with self._lock:
            self._is_answered = True
            new_questions = {*message.questions, *([inputs.NAMES] if message.opaque else ())}
            new_questions -= self._questions
            self._characters += sum(map(len, new_questions))
            if (
                len(self._questions) + len(new_questions) > MOST_QUESTIONS
                or self._characters > MOST_CHARACTERS
            ):
                new_questions, self._questions = {inputs.EVERYTHING}, set()
            if inputs.EVERYTHING not in self._questions:
                self._questions |= new_questions

    def value(self) -> frozenset[str] | None:
        """All questions; None if no worker reported any."""
        with self._lock:
            return frozenset(self._questions) if self._is_answered else None


class Worker:
    """A worker process; call `greet` before anything else.

    Its child's thread sorts its messages into `boxes`. `failure` is set as soon as the worker is
    unusable. The boxes get the failure when the process has ended, so that its output is
    complete."""

    def __init__(
        self,
        launch: Launch,
        *,
        limits: AgentLimits,
        tools: str,
        questions: Questions,
    ) -> None:
        """Start the worker. `tools`: the mode in which it asks before a tool runs. `questions`:
        collects its questions about the checkout. Raises AgentFailed (START)."""
        self._limits = limits
        self._hello = protocol.hello(launch.hello, tools=tools, inputs=launch.inputs)
        self._questions = questions
        self._tools = tools
        self._lock = threading.Lock()
        self._lines = LineSplitter(limit=limits.output_bytes)
        self._greeting: queue.SimpleQueue[Ready | AgentFailure] = queue.SimpleQueue()
        self.boxes = Mailboxes(output_bytes=limits.output_bytes)
        self.redact = redact.redactor(launch.environment)
        self.failure: AgentFailure | None = None
        self.asks = False  # the worker asks before it runs a tool
        self.takes_history = False
        self._hung_up = False
        try:
            self._child: Child = launch.start(
                launch.command,
                cwd=launch.cwd,
                environment=launch.environment,
                memory_bytes=limits.memory_bytes,
                prefix=launch.prefix,
            )
        except ChildStartError as error:
            failure = FailureKind.START.failure(f"the agent cannot be started: {error}")
            raise AgentFailed(failure) from None
        self._child.listen(self._hear, self._ended_process)

    def greet(self) -> Ready:
        """Send hello and wait until the worker is ready; a worker that does not become ready is
        ended. Raises AgentFailed (START, INSTALL)."""
        deadline = time.monotonic() + self._limits.start_timeout_s
        try:
            self.send(self._hello, timeout_s=self._limits.start_timeout_s)
            try:
                answer = self._greeting.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                text = f"{NOT_READY} {words.seconds(self._limits.start_timeout_s)}"
                answer = self.failure or FailureKind.START.failure(text)
            if isinstance(answer, Ready):
                self.asks = answer.tools
                self.takes_history = answer.history
                return answer
            # Every failure here happened before the agent was ready; only INSTALL keeps its kind.
            kind = answer.kind if answer.kind is FailureKind.INSTALL else FailureKind.START
            suffix = "" if answer.kind is kind else ", before it was ready"
            detail = self.redact(answer.detail) or self.detail()
            raise AgentFailed(kind.failure(self.redact(answer.message + suffix), detail=detail))
        except BaseException:
            self._child.close(grace_s=GRACE_S)
            raise

    def send(self, message: Json, *, timeout_s: float) -> None:
        """Write a message. If the worker does not read it, the worker is lost, and its boxes get a
        failure."""
        try:
            self._child.write(protocol.render_line(message), timeout_s=timeout_s)
        except TimeoutError:
            self.end(FailureKind.TIMEOUT.failure("the agent does not read its standard input"))
        except ChildClosed:
            if self._child.wait(HANG_UP_S) is None:
                self.end(FailureKind.EXITED.failure("the agent closed its standard input"))

    def end(self, failure: AgentFailure) -> None:
        """End the worker with this failure, unless it has one already."""
        with self._lock:
            self.failure = self.failure or failure
        self._child.end(grace_s=GRACE_S)

    def detail(self) -> str:
        """The end of its standard error, without secrets."""
        return self.redact(self._child.stderr.text(limit=DETAIL_BYTES)).strip()

    def dismiss(self, *, patience_s: float) -> None:
        """Send bye; the worker has `patience_s` seconds to exit by itself. Returns at once."""
        with suppress(TimeoutError, ChildClosed):
            self._child.write(protocol.render_line({"type": "bye"}), timeout_s=0.1)
        self._child.end(patience_s=patience_s)

    def wait(self, timeout_s: float) -> None:
        """Wait until the process is gone and reaped."""
        self._child.wait(timeout_s)

    # --- in the child's thread ---

    def _hear(self, chunk: bytes) -> None:
        """Take the messages of a chunk of standard output; an empty one is its end."""
        if not chunk:
            self._hung_up = True
            self._child.end(patience_s=HANG_UP_S)
        line = b""
        try:
            for line in self._lines.feed(chunk):
                if self.failure is not None:
                    return
                if line.strip():
                    self._take(protocol.parse_worker_message(line), len(line))
        except LineTooLong:
            self.end(too_large(f"{words.size(self._limits.output_bytes)} in one line"))
        except ProtocolError as error:
            text = f"the agent wrote a line to standard output that {error} (logs belong on standard error)"
            self.end(FailureKind.PROTOCOL.failure(f"{text}: {excerpt(line)}"))

    def _take(self, message: WorkerMessage, size: int) -> None:
        """Give a message to whoever waits for it; end the worker if it may not come."""
        failure: AgentFailure | None = None
        if isinstance(message, Ready):
            if message.protocol != protocol.PROTOCOL:
                text = f"the agent uses protocol version {message.protocol}, evalgate uses version {protocol.PROTOCOL}"
                failure = FailureKind.PROTOCOL.failure(text)
            elif self._tools not in ("", "live") and not message.tools:
                text = f"`tools: {self._tools}` is not possible, since the agent runs tools without asking evalgate"
                failure = FailureKind.START.failure(f"{text} (see docs/tools.md)")
            self._greeting.put(failure or message)
        elif isinstance(message, Fatal):
            kind = protocol.failure_kind(message.kind)
            failure = kind.failure(message.message, detail=message.detail)
        elif isinstance(message, InputsMessage):
            self._questions.add(message)
        elif isinstance(message, Stalled | Resumed):
            self.boxes.note_stall(message if isinstance(message, Stalled) else None)
        else:
            failure = self.boxes.add(message, size=size)
        if failure is not None:
            self.end(failure)

    def _ended_process(self, ended: Ended) -> None:
        """Give everybody who waits the reason of the end."""
        with self._lock:
            if self.failure is None and self._hung_up and ended.signal == signal.SIGTERM:
                self.failure = FailureKind.EXITED.failure("the agent closed its standard output")
            elif self.failure is None:
                cap = self._limits.memory_bytes if self._child.memory_capped else None
                self.failure = failure_of_end(
                    ended, unfinished=self._lines.remainder(), memory_bytes=cap
                )
            failure = self.failure
        self.boxes.end(failure)
        self._greeting.put(failure)


# --- conversations
# ---------------------------------------------------------------------------------


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
            return out_of_turn(tool_call.type, "although its tool calls are not intercepted")
        if tool_call.call in self._asked:
            return out_of_turn(
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
            return out_of_turn(tool_result.type, f"for the unknown call {tool_result.call[:80]!r}")
        self._tools.keep(call, tool_result)
        return None

    def due_in(self) -> float:
        """Seconds until the next answer is due; infinite if no answer is waiting."""
        return max(self._waiting[0][0] - time.monotonic(), 0.0) if self._waiting else math.inf

    def due(self) -> list[Json]:
        """Remove and return the answers whose time has come."""
        moment = time.monotonic()
        answers: list[Json] = []
        while self._waiting and self._waiting[0][0] <= moment:
            answers.append(heapq.heappop(self._waiting)[2])
        return answers


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
        tools: TrialTools | None,
        vouches_for_tools: bool,
        traces: TraceRoom | None,
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
        self._trial_tools = tools
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
                    raise self._failed(out_of_turn(message.type, "instead of 'started'"))
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
        if self._trial_tools is not None:
            self._trial_tools.turn(len(self.done))
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
                failure: AgentFailure | None = None
                if isinstance(message, ToolCallMessage):
                    failure = self._tools.ask(message)
                elif isinstance(message, ToolResultMessage):
                    failure = self._tools.add_result(message)
                if failure is not None:
                    # an agent that waits for the refusal of a call can then continue
                    self._restart_clock()
                    self._answer_calls()
                    raise self._failed(failure)
                message = self._next_message()
        is_detailed = self._case.ces is not None or self._box.hear is not None
        timings = Timings(total_s=time.monotonic() - start_time)
        if message.timings is not None:
            timings = message.timings.to_model(with_calls=is_detailed)
        invocation = adk_shapes.turn_of_steps(
            user_content,
            self._steps,
            invocation_id=message.invocation_id,
            agents=tuple(agent.to_model() for agent in message.agents),
            timings=timings,
            trace=self._trace(),
            model_calls=tuple(
                (call.usage_metadata.to_model(), call.model_version) for call in message.model_calls
            ),
            state=message.state if is_detailed else None,
        )
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

    def finish(self) -> Json | None:
        """End the session. Returns its final state, if reported. Raises AgentFailed."""
        self._steps = []
        self._recorded = {}
        self.turn = None  # every turn was answered, so a later failure belongs to no turn
        self._box.enter(Phase.ENDING)
        with self.watch:
            message = self._ask({"type": "end", "session": self._box.name})
        self._open = False
        if self._trial_tools is not None:
            self._trial_tools.finish()
        return message.state if isinstance(message, EndedMessage) else None

    def leave(self) -> None:
        """Close the conversation in any state. If the session is still open, end it in the
        worker."""
        self._worker.boxes.close(self._box)
        if self._open and self._worker.failure is None:
            self._open = False
            self._worker.send({"type": "end", "session": self._box.name}, timeout_s=1.0)

    def _restart_clock(self) -> None:
        """Set the deadline, on the monotonic clock."""
        timeout_s, self._too_long = self.limit()
        self._deadline = time.monotonic() + timeout_s

    def _ask(self, message: Json) -> SessionMessage:
        """The first answer to a message."""
        self._restart_clock()
        self._worker.send(message, timeout_s=self._deadline - time.monotonic())
        return self._next_message()

    def _answer_calls(self) -> None:
        """Send the answers of tool calls whose time has come."""
        for answer in self._tools.due():
            self._worker.send(answer, timeout_s=max(self._deadline - time.monotonic(), 0.0))

    def _next_message(self) -> SessionMessage:
        """The next message. While waiting, sends the answers of tool calls that become due."""
        mail: Mail | None = None
        while mail is None:
            self._answer_calls()
            remaining_s = max(self._deadline - time.monotonic(), 0.0)
            try:
                steps, mail = self._box.mail.get(timeout=min(remaining_s, self._tools.due_in()))
            except queue.Empty:
                if time.monotonic() >= self._deadline:
                    self._take(self._box.steps)
                    raise self._failed(self._worker.failure or self._timed_out()) from None
            else:
                self._take(steps)
        if isinstance(mail, AgentFailure):
            raise self._failed(mail)
        assert not isinstance(mail, MetricResult), "see _EXPECTED"
        if not isinstance(mail, TurnFailed):
            return mail
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

    def _trace(self) -> tuple[Json, ...]:
        """The trace of this turn so far."""
        entries = [entry for _, entry in sorted(self._recorded.items())]
        return self._traces.fit(entries, self._worker.redact) if self._traces is not None else ()

    def _timed_out(self) -> AgentFailure:
        """The failure of a turn that took too long, or that another conversation held up."""
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
        """The failure with all that is known of the turn, as an exception to raise."""
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
