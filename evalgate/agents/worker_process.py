"""One worker process: started, greeted, and served until its end."""

from __future__ import annotations

import enum
import queue
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, get_args

from evalgate.model import AgentFailure, FailureKind
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
from evalgate.values import Environ, Json, frozen_dataclass, mapped_texts
from evalgate.worker import inputs
from . import protocol
from .base import AgentFailed, AgentLimits
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
        self._boxes: dict[str, Mailbox] = {}
        self._closed: set[str] = set()
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
            number = len(self._boxes) + len(self._closed) + 1
            box = Mailbox(f"{'m' if phase is Phase.METRIC else 's'}{number}", phase)
            self._boxes[box.name] = box
            if self._ended is not None:
                box.put(self._ended)
            return box

    def close(self, box: Mailbox) -> None:
        """Remove the box: later messages for it are dropped."""
        with self._lock:
            self._boxes.pop(box.name, None)
            self._closed.add(box.name)

    def add(self, message: SessionMessage | MetricResult, *, size: int) -> AgentFailure | None:
        """Put a message of `size` bytes into its box. Returns a failure if it is unexpected there
        or too large."""
        name = message.id if isinstance(message, MetricResult) else message.session
        with self._lock:
            box = self._boxes.get(name)
            if box is None:
                return self._late(message, name, size)
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
            is_shared = len(self._boxes) > 1
            self.is_lost_together |= is_shared
            if is_shared:
                others_text = words.counted(len(self._boxes) - 1, "other conversation")
                hint = "`isolation: case` runs each in its own process"
                text = f"{failure.message}; {others_text} ran in the same process ({hint})"
                shared_failure = failure.kind.failure(text, detail=failure.detail)
            for box in self._boxes.values():
                box.put(shared_failure)

    def _late(
        self, message: SessionMessage | MetricResult, name: str, size: int
    ) -> AgentFailure | None:
        if name not in self._closed:
            return out_of_turn(message.type, f"for {name[:80]!r}, an unknown conversation")
        self._late_bytes += size
        if self._late_bytes > self._output_bytes:
            return too_large(f"{words.size(self._output_bytes)} in conversations that had ended")
        return None


@frozen_dataclass
class Launch:
    """The start of a worker: command, absolute folder, complete environment, and the options of
    `hello`. `about`: facts about its environment besides its own; `prefix`: the command that starts
    it as another user; `inputs`: see `AgentSetting`, as a path that the worker can reach."""

    command: tuple[str, ...]
    cwd: str
    environment: Environ
    hello: Json = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    inputs: str = ""
    start: Callable[..., Any] = Child  # what the worker runs in; behaves as a Child

    def inside(
        self, sandbox: Sandbox | None, *, overrides: Environ = MappingProxyType({})
    ) -> Launch:
        """The launch as the sandbox's user, with all paths in its copy of the checkout. The
        variables of `overrides` keep their values. Unchanged without a sandbox."""
        if sandbox is None:
            return self
        placed = sandbox.placed
        return replace(
            self,
            command=tuple(map(placed, self.command)),
            hello=mapped_texts(self.hello, placed),
            cwd=placed(self.cwd),
            environment={**sandbox.environment(self.environment), **overrides},
            prefix=sandbox.agent.prefix,
            inputs=placed(self.inputs),
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
        tools: str = "",
        questions: Questions | None = None,
    ) -> None:
        """Start the worker. `tools`: the mode in which it asks before a tool runs. `questions`:
        collects its questions about the checkout. Raises AgentFailed (START)."""
        self._limits = limits
        self._hello = protocol.hello(launch.hello, tools=tools, inputs=launch.inputs)
        self._questions = questions or Questions()
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
