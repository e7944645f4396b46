"""One worker process: started, greeted, spoken to and listened to until its end."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalgate import words
from evalgate.model import AgentFailure, FailureKind
from evalgate.plugins import AgentFailed, AgentLimits
from evalgate.process import redaction
from evalgate.process.child import Child, ChildClosed, ChildStartError, Ended
from evalgate.process.output import LineSplitter, LineTooLong
from evalgate.sessions import losses, messages
from evalgate.sessions.boxes import Boxes
from evalgate.sessions.losses import Loss
from evalgate.sessions.messages import Fatal, ProtocolError, Ready, WorkerMessage

DETAIL_BYTES = 8_000
HANG_UP_S = 1.0  # how long a worker that closed a pipe may take to end
GRACE_S = 1.0  # between SIGTERM and SIGKILL for a worker that has failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a worker is started: command, absolute folder, its whole environment, and the options of `hello`; `about`:
    what is known of its environment beside what it says itself."""

    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    hello: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)


class Worker:
    """A worker process; `greet` it before anything else.

    Its child's thread sorts what it says into `boxes`. `loss` is set as soon as the worker is of no use; the boxes
    get it when the process has really ended, so that its last words are complete.
    """

    def __init__(self, launch: Launch, *, limits: AgentLimits, tools: str = "") -> None:
        """Start it; `tools`: the mode in which it has to ask before a tool runs. Raises AgentFailed (START)."""
        self._limits = limits
        self._hello = messages.hello(launch.hello, tools=tools)
        self._tools = tools
        self._lock = threading.Lock()
        self._lines = LineSplitter(limit=limits.output_bytes)
        self._greeting: queue.SimpleQueue[Ready | Loss] = queue.SimpleQueue()
        self.boxes = Boxes(output_bytes=limits.output_bytes)
        self.redact: Callable[[str], str] = redaction.redactor(launch.environment)
        self.loss: Loss | None = None
        self._hung_up = False
        try:
            self._child = Child(
                launch.command,
                cwd=launch.cwd,
                environment=launch.environment,
                memory_bytes=limits.memory_bytes,
            )
        except ChildStartError as error:
            failure = AgentFailure(kind=FailureKind.START, message=f"the agent cannot be started: {error}")
            raise AgentFailed(failure) from None
        self._child.listen(self._hear, self._mourn)

    def greet(self) -> Ready:
        """Say hello and wait until it is ready; one that is not is ended. Raises AgentFailed (START, INSTALL)."""
        try:
            return self._greet()
        except BaseException:
            self._child.close(grace_s=GRACE_S)
            raise

    def say(self, message: Mapping[str, Any], *, timeout_s: float) -> None:
        """Write a message. A worker that does not take it is lost, which its boxes will tell."""
        try:
            self._child.write(messages.render_line(message), timeout_s=timeout_s)
        except TimeoutError:
            self.condemn(Loss(kind=FailureKind.TIMEOUT, message="the agent does not read its standard input"))
        except ChildClosed:
            if self._child.wait(HANG_UP_S) is None:
                self.condemn(Loss(kind=FailureKind.EXITED, message="the agent closed its standard input"))

    def condemn(self, loss: Loss) -> None:
        """End the worker, for this reason unless there was one before."""
        with self._lock:
            self.loss = self.loss or loss
        self._child.end(grace_s=GRACE_S)

    def detail(self) -> str:
        """The last that it wrote to standard error, redacted."""
        return self.redact(self._child.stderr.text(limit=DETAIL_BYTES)).strip()

    def dismiss(self, *, patience_s: float) -> None:
        """Say goodbye; it has `patience_s` seconds to leave by itself. Returns at once."""
        with contextlib.suppress(TimeoutError, ChildClosed):
            self._child.write(messages.render_line(messages.bye()), timeout_s=0.1)
        self._child.end(patience_s=patience_s)

    def wait(self, timeout_s: float) -> None:
        """Wait until it is gone and reaped."""
        self._child.wait(timeout_s)

    def _greet(self) -> Ready:
        deadline = time.monotonic() + self._limits.start_timeout_s
        self.say(self._hello, timeout_s=self._limits.start_timeout_s)
        try:
            answer = self._greeting.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            within = words.seconds(self._limits.start_timeout_s)
            answer = self.loss or Loss(kind=FailureKind.START, message=f"the agent was not ready within {within}")
        if isinstance(answer, Ready):
            return answer
        # Whatever went wrong, it did so before the agent was ready; only an environment that failed stays apart.
        kind = answer.kind if answer.kind is FailureKind.INSTALL else FailureKind.START
        when = "" if answer.kind is kind else ", before it was ready"
        detail = self.redact(answer.detail) or self.detail()
        raise AgentFailed(AgentFailure(kind=kind, message=self.redact(answer.message + when), detail=detail))

    # --- in the child's thread ---

    def _hear(self, chunk: bytes) -> None:
        if not chunk:
            self._hung_up = True
            self._child.end(patience_s=HANG_UP_S)
        line = b""
        try:
            for line in self._lines.feed(chunk):
                if self.loss is not None:
                    return
                if line.strip():
                    self._sort(messages.parse_worker_message(line), len(line))
        except LineTooLong:
            self.condemn(losses.flooded(f"{words.size(self._limits.output_bytes)} in one line"))
        except ProtocolError as error:
            self.condemn(losses.garbled(str(error), line))

    def _sort(self, message: WorkerMessage, size: int) -> None:
        if isinstance(message, Ready):
            loss = _wrong_version(message) or self._runs_tools_unasked(message)
            self._greeting.put(message if loss is None else loss)
        elif isinstance(message, Fatal):
            kind = messages.failure_kind(message.kind)
            loss = Loss(kind=kind, message=message.message, detail=message.detail)
        else:
            loss = self.boxes.deliver(message, size=size)
        if loss is not None:
            self.condemn(loss)

    def _runs_tools_unasked(self, ready: Ready) -> Loss | None:
        if not self._tools or ready.tools:
            return None
        text = f"the agent does not ask before it runs a tool, so `tools: {self._tools}` is not possible"
        return Loss(kind=FailureKind.START, message=f"{text} (see docs/tools.md)")

    def _mourn(self, ended: Ended) -> None:
        with self._lock:
            if self.loss is None and self._hung_up and ended.signal == signal.SIGTERM:
                self.loss = Loss(kind=FailureKind.EXITED, message="the agent closed its standard output")
            elif self.loss is None:
                cap = self._limits.memory_bytes if self._child.memory_capped else None
                self.loss = losses.of_end(ended, unfinished=self._lines.rest(), memory_bytes=cap)
            loss = self.loss
        self.boxes.end(loss)
        self._greeting.put(loss)


def _wrong_version(ready: Ready) -> Loss | None:
    if ready.protocol == messages.PROTOCOL:
        return None
    text = f"the agent speaks protocol {ready.protocol}; this is protocol {messages.PROTOCOL}"
    return Loss(kind=FailureKind.PROTOCOL, message=text)
