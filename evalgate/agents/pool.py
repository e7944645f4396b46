"""A pool of worker processes with a limited number of conversations in each; the reason why one of
them may have failed; and the pools of Python agents."""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from pydantic import Field

from evalgate.config.variables import AgentVariables
from evalgate.model import (
    AgentDescription,
    AgentFailure,
    Case,
    CaseKey,
    CriterionUse,
    FailureKind,
    Grade,
    Reason,
    TrialKey,
    TrialView,
)
from evalgate.system import git, python_env
from evalgate.system.python_env import EnvironmentRequest, InstallFailed
from evalgate.values import Json, Log, Sentence, mapped_texts
from . import protocol
from .base import (
    Agent,
    AgentFailed,
    AgentLimits,
    AgentSetting,
    DriverOptions,
    Meeting,
    Surroundings,
    folder_of,
)
from .protocol import MetricResult
from .worker_process import (
    Launch,
    Mail,
    Phase,
    Questions,
    TraceRoom,
    Worker,
    WorkerConversation,
    seed_of,
)

LEAVE_PATIENCE_S = 5.0  # for a healthy worker that is asked to end
TRIES_TO_START = 2
TRACES_BYTES = 50 * 10**6
"""The most bytes of traces of one agent in one run."""
_CLOSED = FailureKind.EXITED.failure("the run ended before the agent could answer")


class CommonStart:
    """Makes the agents of several sides start together. Thread-safe.

    Otherwise the side that is ready first would answer its first cases while another still loads,
    and the other would answer its last cases alone. Nobody waits for agents that have not begun to
    start, or whose start failed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._starting = 0

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Wraps a start; exits when all current starts have ended."""
        with self._changed:
            self._starting += 1
        try:
            yield
        finally:
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()
                while self._starting:
                    self._changed.wait()


@dataclass(slots=True, eq=False)
class Slot:
    """A worker and its conversations."""

    worker: Worker
    capacity: int
    """The most conversations at once."""
    conversations: int
    """The number of those that are open."""
    is_retired: bool = False
    """It gets no new ones."""


class WorkerProcesses:
    """The processes of one launch. Thread-safe.

    They start when they are needed: the first with the first conversation, another only if the
    running and starting ones have no room for those who wait. A worker in which a turn timed out
    gets no new conversations and ends after its last one. If a worker is lost, every conversation
    in it fails. Nobody knows which one was the cause, so each of these cases has a worker of its
    own when it is run again.

    `launch` is called once, on first use. If it raises AgentFailed, every conversation gets that
    failure. After two starts with the same failure, no third start is tried."""

    def __init__(
        self,
        launch: Callable[[], Launch],
        limits: AgentLimits,
        *,
        is_shared: bool,
        tools: str = "",
        meeting: Meeting = nullcontext,
        tell_time: Log = lambda _: None,
    ) -> None:
        """`is_shared`: a process holds several conversations, one after another or at once.
        `tools`: the mode in which a worker asks before a tool runs. `meeting`: see AgentSetting;
        the time of a start that has one is told."""
        self.about: Mapping[str, str] = {}
        self.description: AgentDescription | None = None
        self.surroundings: Surroundings | None = None
        self.questions = Questions()
        self._launch_source = launch
        self._limits = limits
        self._is_shared = is_shared
        self._tools = tools
        self._meeting = meeting
        self._tell_time = tell_time
        self._launching = threading.Lock()
        self._launch: Launch | None = None
        self._changed = threading.Condition()
        self._slots: list[Slot] = []
        self._opening: list[Worker] = []
        self._lost_together: set[CaseKey] = set()
        self._starting = 0
        self._waiting = 0
        self._failed_starts: Counter[str] = Counter()
        self._end: AgentFailure | None = None  # the failure of all later conversations

    def close(self) -> None:
        """Dismiss all workers, then end their process groups."""
        with self._changed:
            self._end = _CLOSED
            slots = self._slots
            self._slots = []
            busy_workers = [*self._opening, *(slot.worker for slot in slots if slot.conversations)]
            idle_workers = [slot.worker for slot in slots if not slot.conversations]
            self._changed.notify_all()
        for worker in busy_workers:
            worker.end(_CLOSED)
        for worker in idle_workers:
            worker.dismiss(patience_s=LEAVE_PATIENCE_S)
        for worker in (*busy_workers, *idle_workers):
            worker.wait(2 * LEAVE_PATIENCE_S)

    @contextmanager
    def place(self, case: CaseKey | None = None) -> Iterator[Slot]:
        """A place in a worker, when one is free; all places of one for a case that was lost
        together with others. Raises AgentFailed."""
        is_alone = case in self._lost_together
        slot = self._take(is_alone=is_alone)
        places = slot.capacity if is_alone else 1
        worker = slot.worker
        try:
            yield slot
        finally:
            with self._changed:
                if case and worker.boxes.is_lost_together:
                    self._lost_together.add(case)
                is_healthy = worker.failure is None
                is_last = slot.conversations == places
                ends = is_last and (slot.is_retired or not self._is_shared or not is_healthy)
                if ends:
                    # its place becomes free when the process is gone: never more processes than
                    # allowed
                    slot.is_retired = True
                else:
                    slot.conversations -= places
                self._changed.notify_all()
            if ends:
                is_timely = not self._is_shared and is_healthy
                worker.dismiss(patience_s=LEAVE_PATIENCE_S if is_timely else 0.0)
                worker.wait(2 * LEAVE_PATIENCE_S)
                with self._changed:
                    slot.conversations = 0
                    self._slots = [other for other in self._slots if other is not slot]
                    self._changed.notify_all()

    def retire(self, slot: Slot) -> None:
        """Give its worker no new conversations."""
        with self._changed:
            slot.is_retired = True

    def _take(self, *, is_alone: bool) -> Slot:
        """A worker with a place for the caller: a running one, or a new one when it may start."""
        sessions = self._limits.sessions if self._is_shared else 1
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    if self._end is not None:
                        raise AgentFailed(self._end)
                    healthy = [slot for slot in self._slots if slot.worker.failure is None]
                    self._slots = [
                        slot for slot in self._slots if slot in healthy or slot.conversations
                    ]
                    for slot in healthy:
                        places = slot.capacity if is_alone else 1
                        if slot.conversations + places <= slot.capacity and not slot.is_retired:
                            slot.conversations += places
                            return slot
                    # each starting thread already has its own place
                    room_to_come = self._starting * (sessions - 1)
                    may_start = len(healthy) + self._starting < self._limits.workers
                    if may_start and self._waiting > room_to_come:
                        self._starting += 1
                        break
                    self._changed.wait()
            finally:
                self._waiting -= 1
        return self._start(sessions, is_alone=is_alone)

    def _start(self, sessions: int, *, is_alone: bool) -> Slot:
        """A new worker with a place for at most so many `sessions`; the starting thread has
        one of them, or all."""
        with self._changed:
            meeting = self._meeting
            self._meeting = nullcontext
        worker: Worker | None = None
        try:
            with meeting():
                start_time = time.monotonic()
                launch = self._resolve_launch()
                launch_time = time.monotonic()
                worker = Worker(
                    launch, limits=self._limits, tools=self._tools, questions=self.questions
                )
                with self._changed:
                    self._opening.append(worker)
                    is_closed = self._end is _CLOSED
                if is_closed:
                    worker.end(_CLOSED)
                greeting = worker.greet()
                if meeting is not nullcontext:
                    self._tell_time(
                        f"time: environment {launch_time - start_time:.1f} s, import {time.monotonic() - launch_time:.1f} s"
                    )
            capacity = min(sessions, greeting.sessions)
            slot = Slot(worker=worker, capacity=capacity, conversations=capacity if is_alone else 1)
            about = {**mapped_texts(greeting.about, worker.redact), **launch.about}
            with self._changed:
                self._failed_starts.clear()
                self.about = self.about or about
                self.description = self.description or protocol.description_of(
                    greeting.description, redact=worker.redact
                )
                self.surroundings = self.surroundings or greeting.surroundings
                self._slots.append(slot)
                return slot
        except AgentFailed as error:
            with self._changed:
                # the same message each time: reports group cases by reason
                message = error.failure.message
                self._failed_starts[message] += 1
                if self._failed_starts[message] >= TRIES_TO_START:
                    self._end = self._end or error.failure
            raise
        finally:
            # after the slot is there: never more processes than allowed
            with self._changed:
                self._starting -= 1
                self._opening = [other for other in self._opening if other is not worker]
                self._changed.notify_all()

    def _resolve_launch(self) -> Launch:
        """The launch, made once. Raises AgentFailed, for later calls as well."""
        with self._launching:
            if self._end is not None:
                raise AgentFailed(self._end)
            try:
                self._launch = self._launch or self._launch_source()
            except AgentFailed as error:
                self._end = self._end or error.failure
                raise
            return self._launch


class WorkerPool(Agent):
    """An agent as worker processes, which get their `launch` on first use.

    `metrics`: the launch of workers for custom metrics, other processes without the agent's
    package. `vouches_for_tools`: the worker is evalgate's own and asks about every tool, so its
    events are not compared with its questions."""

    def __init__(
        self,
        launch: Callable[[], Launch],
        *,
        setting: AgentSetting,
        metrics: Callable[[], Launch] | None = None,
        vouches_for_tools: bool = False,
    ) -> None:
        limits = setting.limits
        self._setting = setting
        self._vouches_for_tools = vouches_for_tools
        self._traces = TraceRoom(TRACES_BYTES) if setting.trace else None
        self._workers = WorkerProcesses(
            launch,
            limits,
            is_shared=not limits.isolate_cases,
            tools=setting.tools.mode if setting.tools else "",
            meeting=setting.meeting,
            tell_time=setting.world.tell_time,
        )
        # metrics call no intercepted tools and see no conversation state: one process serves all
        self._metrics = (
            None if metrics is None else WorkerProcesses(metrics, limits, is_shared=True)
        )

    @contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[WorkerConversation]:
        """A fresh session for one trial; waits for a free place. Raises AgentFailed."""
        tools = self._setting.tools
        try:
            with self._workers.place(key.case) as slot:
                conversation = WorkerConversation(
                    slot.worker,
                    case=case,
                    seed=seed_of(key, seed=self._setting.seed),
                    limits=self._setting.limits,
                    on_timeout=lambda: self._workers.retire(slot),
                    tools=tools.open(key, case) if tools else None,
                    vouches_for_tools=self._vouches_for_tools,
                    traces=self._traces,
                )
                try:
                    yield conversation
                finally:
                    conversation.leave()
        except AgentFailed as failed:
            raise AgentFailed(explained(failed.failure, self._setting.variables)) from failed

    def run_metric(self, code: str, use: CriterionUse, evidence: TrialView) -> Grade:
        """Grade with a custom metric in a worker of `metrics`. Never raises for errors in it.
        AGENT_FAILED: there is no worker."""
        if self._metrics is None:
            return super().run_metric(code, use, evidence)
        timeout_s = self._setting.limits.turn_timeout_s
        try:
            with self._metrics.place() as slot:
                worker = slot.worker
                deadline = time.monotonic() + timeout_s
                box = worker.boxes.open(Phase.METRIC)
                message = protocol.metric(box.name, code=code, use=use, evidence=evidence)
                answer: Mail
                try:
                    worker.send(message, timeout_s=timeout_s)
                    # a metric has no steps before its answer
                    _, answer = box.mail.get(timeout=max(deadline - time.monotonic(), 0.0))
                except queue.Empty:
                    self._metrics.retire(slot)
                    slow = str(Sentence("metric_slow", timeout_s))
                    # a worker that is ending has its failure before the box gets it
                    answer = worker.failure or FailureKind.TIMEOUT.failure(slow)
                finally:
                    worker.boxes.close(box)
                if isinstance(answer, MetricResult):
                    return answer.grade(code)
                # the worker's failure: a box for a metric gets nothing else
                return protocol.failed_grade(code, worker.redact(getattr(answer, "message", "")))
        except AgentFailed as error:
            return protocol.failed_grade(code, error.failure.message, Reason.AGENT_FAILED)

    def start(self) -> None:
        """See base.Agent."""
        with self._workers.place():
            pass

    def about(self) -> Mapping[str, str]:
        """The first worker's own description, and the launch's."""
        return self._workers.about

    def description(self) -> AgentDescription | None:
        """See base.Agent."""
        return self._workers.description

    def surroundings(self) -> Surroundings | None:
        """See base.Agent."""
        return self._workers.surroundings

    def inputs(self) -> frozenset[str] | None:
        """See base.Agent."""
        questions = self._workers.questions.value()
        metric_questions = None if self._metrics is None else self._metrics.questions.value()
        return questions if questions is None else questions | (metric_questions or frozenset())

    def close(self) -> None:
        """End all workers."""
        if self._metrics is not None:
            self._metrics.close()
        self._workers.close()


# --- failures because of a missing environment variable, and its reason ---

MAY_LACK = frozenset(
    {
        FailureKind.START,
        FailureKind.EXITED,
        FailureKind.RAISED,
        FailureKind.MODEL_ERROR,
        FailureKind.UNAUTHORIZED,
        FailureKind.UNREACHABLE,
    }
)
DETAIL_READ = 4_000
"""The number of characters at the end of an agent's output that are searched."""

_GEMINI = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_NAME = r"[`'\"]?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)[`'\"]?"

LITELLM = re.compile(r"AuthenticationError: ([A-Za-z]+)Exception - ")
LACKING = (
    # os.environ["NAME"], as evalgate's worker reports it; in the traceback of a program, before and
    # since Python 3.13
    (re.compile(r"KeyError: '(\w+)' \(not in os\.environ\)"), ()),
    (re.compile(r"(?:os\.py|<frozen os>)\", line \d+, in __getitem__\n(?:[^\n]*\n){0,3}KeyError: '(\w+)'"), ()),
    # os.getenv("NAME") without a default, in the traceback of an error about None
    (re.compile(r"os\.(?:getenv|environ\.get)\(['\"](\w+)['\"]\)[^\n]*\n(?:[^\n]*\n){0,12}[^\n]*(?:NoneType|input_value=None)"),
     ()),
    # google-genai, from 1.0 on and since 1.70; LiteLLM
    (re.compile(r"Missing key inputs argument|No API key was provided|Missing Gemini API key"), _GEMINI),
    # google-auth, which google-genai also uses for Vertex AI
    (re.compile(r"default credentials were not found|Could not automatically determine credentials"),
     ("GOOGLE_APPLICATION_CREDENTIALS",)),
    # openai and its client for Azure, also as LiteLLM and agent frameworks quote them
    (re.compile(r"AZURE_OPENAI_API_KEY"), ("AZURE_OPENAI_API_KEY",)),
    (re.compile(r"(?:api_key client option must be set|Missing credentials\.)[^\n]{0,200}OPENAI_API_KEY"),
     ("OPENAI_API_KEY",)),
    # anthropic; LiteLLM
    (re.compile(r"Could not resolve authentication method[^\n]{0,80}auth_token|Missing Anthropic API Key"),
     ("ANTHROPIC_API_KEY",)),
    # boto3, which LiteLLM and Strands ask for Bedrock
    (re.compile(r"Unable to locate credentials"), ("AWS_ACCESS_KEY_ID",)),
    # LiteLLM sends an empty key to other providers, which reject it
    (LITELLM, ()),
    # the agent's own words: `DB_URL is not set`, `DB_URL environment variable ...`, `environment
    # variable DB_URL`
    (re.compile(rf"{_NAME} (?:is |was |environment variable |env var )*"
                r"(?:not set|must be set|required|missing|unset|undefined|not found)"), ()),
    (re.compile(rf"(?i:environment variable|env var|missing|set)s?:? {_NAME}"), ()),
    # pydantic-settings, which reads the variable of a field in any case
    (re.compile(r"validation errors? for \w*(?:Settings|Config)\w* (?P<field>\w+) Field required"), ()),
)  # fmt: skip
"""Messages about a missing variable, and the variables that would help (one is enough). A group is
the variable's name or the provider's."""


def explained(failure: AgentFailure, variables: AgentVariables | None) -> AgentFailure:
    """The failure, with the reason first if the agent seems to lack one of the variables."""
    if variables is None or failure.kind not in MAY_LACK:
        return failure
    output_end = failure.detail[-DETAIL_READ:]
    if failure.kind not in (FailureKind.START, FailureKind.EXITED):
        causes = (line for line in output_end.splitlines() if line.startswith("caused by "))
        output_end = "\n".join(causes)
    for text in (failure.message, output_end):
        for pattern, names in LACKING:
            match = pattern.search(text)
            if match is None:
                continue
            is_provider = pattern is LITELLM
            name = match[match.lastindex or 0]
            name = name.upper() if is_provider or pattern.groupindex else name
            missing_names = names or (f"{name}_API_KEY" if is_provider else name,)
            if reason := variables.why_lacking(missing_names):
                return replace(failure, message=f"{reason} ({failure.message})")
            break  # the variable exists, so the failure has another cause
    return failure


# --- Python agents and custom metrics, and the Python that runs both
# ------------------------------------------------------------------------------


WORKER = Path(__file__).parent.parent / "worker" / "server.py"
METRICS_WORKER = "metrics"
"""The kind of worker that runs custom metrics; it does not load the agent's package."""

ISOLATED_FLAGS = ("-I", "-S")
"""Flags for the Python of metrics: the change cannot influence what it loads first, neither with
environment variables nor with files."""


class PythonOptions(DriverOptions):
    """The Python environment of the agent; see docs/agents/environments.md."""

    python: str = Field(
        default=python_env.AUTO,
        coerce_numbers_to_str=True,
        description="The agent's Python: a path, a command, a version, or auto.",
    )
    requirements: tuple[str, ...] = Field(
        default=(), description="Requirement files and specifiers to install."
    )


def environment_request(options: Json, root: Path, *, framework: str = "") -> EnvironmentRequest:
    """The environment that an agent's options ask for, in the checkout at `root`."""
    return EnvironmentRequest(
        folder=folder_of(options, root),
        root=root,
        python=str(options.get("python") or python_env.AUTO),
        requirements=tuple(options.get("requirements") or ()),
        framework=framework,
    )


def open_pool(
    kind: str,
    options: PythonOptions,
    setting: AgentSetting,
    *,
    framework: str,
    hello: Json = MappingProxyType({}),
    vouches_for_tools: bool = False,
) -> WorkerPool:
    """The agent, whose Python is found or created on first use; see `prepare_launch`."""

    prepare = partial(
        prepare_launch,
        options=options,
        setting=setting,
        hello=hello,
        framework=framework,
        inputs=setting.top(),
    )
    return WorkerPool(
        partial(prepare, kind),
        setting=setting,
        metrics=partial(prepare, METRICS_WORKER),
        vouches_for_tools=vouches_for_tools,
    )


def prepare_launch(
    kind: str,
    options: PythonOptions,
    setting: AgentSetting,
    *,
    hello: Json,
    framework: str,
    inputs: str = "",
) -> Launch:
    """Find or create the agent's Python, and return the launch of a worker of this `kind` in it.

    `kind`: a module of `evalgate/worker`, or the absolute path, without `.py`, of a worker in
    another package. `hello`: options of the worker beside the agent's. `framework`: a module that a
    Python on PATH must have, "" for none. `inputs`: see Launch, on this machine.

    Metrics use the same Python in a sandbox of their own. Raises AgentFailed (INSTALL), also if
    that Python is part of the commit."""
    try:
        request = environment_request(options.model_dump(), Path(setting.root), framework=framework)
        interpreter = python_env.provide(request, setting.world)
    except InstallFailed as error:
        failure = FailureKind.INSTALL.failure(error.message, detail=error.detail)
        raise AgentFailed(failure) from error
    sandbox = setting.world.sandbox
    flags: tuple[str, ...] = ()
    if kind == METRICS_WORKER:
        _refuse_committed(interpreter.python, setting)
        sandbox, flags = setting.world.metrics, ISOLATED_FLAGS
    python, worker = interpreter.python, WORKER
    if sandbox is not None:
        try:
            python = sandbox.reachable_python(python)
            worker = sandbox.reachable(WORKER.parent) / WORKER.name
            if Path(kind).is_absolute():
                kind = str(sandbox.reachable(Path(kind).parent) / Path(kind).name)
        except OSError as error:
            message = (
                f"the agent's user cannot access {interpreter.python}, and it cannot be copied: {error}. Name a "
                "`python` of the system (/usr/bin/python3), or make the environment with one"
            )
            raise AgentFailed(FailureKind.INSTALL.failure(message)) from error
    environment = dict(setting.world.environment)
    environment_folder = Path(interpreter.python).parent.parent
    if (environment_folder / "pyvenv.cfg").is_file():  # as in the activated environment
        folders = filter(None, (str(environment_folder / "bin"), environment.get("PATH")))
        environment["PATH"] = os.pathsep.join(folders)
        environment["VIRTUAL_ENV"] = str(environment_folder)
    return Launch.inside(
        sandbox,
        command=(python, *flags, str(worker), kind),
        cwd=setting.root,
        environment=environment,
        hello={
            **options.model_dump(exclude={"python", "requirements"}),
            **hello,
            "import_roots": list(interpreter.import_roots),
        },
        about={"requirements": interpreter.fingerprint} if interpreter.fingerprint else {},
        inputs=inputs,
    )


def _refuse_committed(python: str, setting: AgentSetting) -> None:
    """Raise AgentFailed (INSTALL) if a Python, or its environment, is part of the commit, because
    the change could then contain the code that grades it."""
    path = Path(python)
    environment_folder = path.parent.parent
    places = [environment_folder, path] if (environment_folder / "pyvenv.cfg").exists() else [path]
    world = setting.world
    if git.first_committed(places, Path(setting.root), world.environment, cache=world.cache):
        message = (
            f"{python} is part of the commit, so custom metrics do not run in it. Make the environment in a step of "
            "the workflow, list `requirements`, or name a `python` of the machine"
        )
        raise AgentFailed(FailureKind.INSTALL.failure(message))
