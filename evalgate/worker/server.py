"""Serves an agent: the file that the agent's interpreter starts (`python server.py adk`), and its
loop.

It runs inside the agent's own interpreter, with the standard library and the agent's framework, and
without evalgate. Its folder is loaded under a private name, so that the agent's imports can neither
find nor shadow it. Everything here must work on Python 3.9."""

from __future__ import annotations

import sys

# started as a file: by evalgate, or as the main module of a process that the agent spawns
if not __package__:
    FOLDER = __file__.replace("\\", "/").rpartition("/")[0]
    # Python put it there: nothing is looked up in it
    if sys.path and sys.path[0].replace("\\", "/") == FOLDER:
        del sys.path[0]
    __package__ = "_evalgate_worker"
    package = type(sys)(__package__)
    package.__path__ = [FOLDER]
    sys.modules[__package__] = package
    sys.modules[f"{__package__}.server"] = sys.modules[__name__]

import asyncio
import atexit
import hashlib
import importlib
import inspect
import json
import os
import platform
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from types import FrameType
from typing import Any, Protocol

from . import errors, inputs, modules, pipe, tools
from .pipe import Emit, Message, Pipe
from .tools import SessionTools

PROTOCOL = 1
"""The version that `hello` must have."""
CLOSE_GRACE_S = 5.0
"""The time for tasks to end, for a cancelled turn, and for the agent's own `close`."""

Interval = tuple[float, float]
"""Start and end, in monotonic seconds."""


def read_packages() -> tuple[str, dict[str, str]]:
    """A hash of the installed packages, and the versions by name.

    The hash has 16 hex digits. It covers all names and versions, the source of packages from git or
    an archive (a requirement without a version may change), and the content of packages from a
    folder or an archive. Versions are as in importlib.metadata, from folder names alone."""
    identities = set()
    versions: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            names = [
                name
                for name in os.listdir(folder or ".")
                if name.endswith((".dist-info", ".egg-info"))
            ]
        except OSError:
            continue
        for name in names:
            origin = b""
            with (
                suppress(OSError),
                open(os.path.join(folder, name, "direct_url.json"), "rb") as file,
            ):
                origin = file.read(10_000)
            is_pinned = b"vcs_info" in origin or b"archive_info" in origin
            files_digest = digest_of_files(os.path.join(folder, name), origin)
            identities.add(os.fsencode(name) + (origin if is_pinned else b"") + files_digest)
            package, _, version = name.rpartition(".")[0].partition("-")
            if version:
                versions.setdefault(package.lower().replace("_", "-"), version.partition("-py")[0])
    return hashlib.sha256(b"\0".join(sorted(identities))).hexdigest()[:16], dict(
        sorted(versions.items())
    )


def digest_of_files(info: str, origin: bytes) -> bytes:
    """A digest of a package that was installed from a folder or an archive, from the hashes in its
    RECORD.

    Returns b"" for other packages and for editable ones, whose files are in the checkout. `info`:
    the package's .dist-info; `origin`: its direct_url.json."""
    try:
        url_info = json.loads(origin or b"{}")
        if "archive_info" not in url_info and (
            "dir_info" not in url_info or url_info["dir_info"].get("editable")
        ):
            return b""
        with open(os.path.join(info, "RECORD"), "rb") as file:
            lines = file.read().splitlines()
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return b""
    # an installer's additions depend on the place and time of installation
    names = tuple(f"{os.path.basename(info)}/{name}".encode() for name in INSTALLER_FILES)
    files = (line for line in lines if b"sha256=" in line and not line.startswith((b"../", *names)))
    return hashlib.sha256(b"\n".join(sorted(files))).digest()


INSTALLER_FILES = ("direct_url.json", "uv_cache.json", "uv_build.json")
"""Files that installers add to a .dist-info."""


class TurnWatch:
    """Notes of one running turn. The tasks that the turn starts use it, too."""

    def __init__(self) -> None:
        """The turn begins now."""
        self.started = time.monotonic()
        """Monotonic."""
        self.trace: Any = None
        """A trace.Recorder, if the turn is traced."""
        self.requests: Message = {}
        """The first model request of each agent, by its name."""
        self.usage: dict[Any, Message] = {}
        """Tokens by a model call's key and start."""
        self._open_calls: dict[tuple[str, Any], tuple[float, str]] = {}
        """By kind and key: the start, and the name of the model or tool."""
        self._calls: dict[tuple[str, Any, float], tuple[str, float]] = {}
        """By kind, key and start: the name of the model or tool, and the end until now."""

    def begins(
        self, kind: str, key: Any, *, agent: str = "", request: Any = None, **fields: Any
    ) -> None:
        """Note the start of a call; `kind`: model or tool. Only an agent's first request of the
        turn is kept."""
        if request is not None:
            self.requests.setdefault(agent, request)
        name = fields.get("name") or getattr(request, "model", None) or ""
        self._open_calls[kind, key] = (time.monotonic(), str(name))
        if self.trace is not None:
            self.trace.begin(kind, key, agent=agent, request=request, **fields)

    def ends(
        self, kind: str, key: Any, *, name: str = "", usage: Message | None = None, **fields: Any
    ) -> None:
        """Note a chunk of a model's answer, or a tool's answer or error.

        `name`: the model, if the request lacks it. `usage`: its tokens; a later chunk has the full
        count. `fields`: for the trace."""
        if (kind, key) in self._open_calls:
            start_time, open_name = self._open_calls[kind, key]
            self._calls[kind, key, start_time] = (name or open_name, time.monotonic())
            if usage:
                self.usage[key, start_time] = usage
            if kind == "tool":
                del self._open_calls[kind, key]
        if self.trace is not None:
            self.trace.end(kind, key, **fields)

    def timings(self) -> Message:
        """Wall times in seconds, to the millisecond, with ADK's rules: overlaps count once, and as
        model time rather than tool time."""
        calls = [(kind, name, start, end) for (kind, _, start), (name, end) in self._calls.items()]
        models, tools = (
            [call[2:] for call in calls if call[0] == kind] for kind in ("model", "tool")
        )
        model_s = seconds_of(models)
        call_times = [
            {
                "kind": kind,
                "name": name,
                "at": round(start - self.started, 3),
                "seconds": round(end - start, 3),
            }
            for kind, name, start, end in sorted(calls, key=lambda call: call[2])
        ]
        return {
            "total_s": round(time.monotonic() - self.started, 3),
            "model_s": round(model_s, 3),
            "tool_s": round(seconds_of(models + tools) - model_s, 3),
            "calls": call_times,
        }

    def agents(self, authors: list[str]) -> list[Message]:
        """Instructions and tools of the agents among `authors` that called a model, in that
        order."""
        agents = []
        for author in dict.fromkeys(authors):
            request = self.requests.get(author)
            if request is None:
                continue
            config = request.config
            details = pipe.present(
                instructions=str(getattr(config, "system_instruction", None) or ""),
                tool_declarations=list(map(declaration, getattr(config, "tools", None) or ())),
            )
            agents.append({"name": author, **details})
        return agents


def seconds_of(intervals: list[Interval]) -> float:
    """Seconds that at least one interval covers."""
    total = 0.0
    counted_to = float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, counted_to))
        counted_to = max(counted_to, end)
    return total


def declaration(tool: Any) -> Message:
    """A google.genai Tool as JSON. Also takes a function or a client that the model's library would
    convert."""
    if hasattr(tool, "model_dump"):
        tool_fields: Message = tool.model_dump(mode="json", exclude_none=True)
        return tool_fields
    if isinstance(tool, dict):
        return tool
    name = str(getattr(tool, "__name__", None) or type(tool).__name__)
    description = inspect.getdoc(tool) if callable(tool) else None
    return {"function_declarations": [pipe.present(name=name, description=description)]}


CURRENT: ContextVar[TurnWatch | None] = ContextVar("evalgate_turn", default=None)
"""The turn of the running task."""


# --- one session that blocks the event loop for all others, as an `async def` does that waits
# without `await` ---

STALL_S = 0.5
"""The loop stalls if it has not run for so long."""
BEAT_S = 0.2
"""The pause between two signs of life of the loop, and between two checks of it."""

SESSION: ContextVar[str] = ContextVar("evalgate_session", default="")
"""The session of the running task."""


def watch_for_stalls(loop: asyncio.AbstractEventLoop, send: Emit, over: threading.Event) -> None:
    """Report each stall of the running loop, and its end, until `over` is set. Call this in the
    loop's thread."""
    last_beat = time.monotonic()
    thread = threading.get_ident()

    def tick() -> None:
        """In the loop: note the time, and do that again."""
        nonlocal last_beat
        last_beat = time.monotonic()
        if not over.is_set():
            loop.call_later(BEAT_S, tick)

    def watch() -> None:
        """In a thread: report a session in whose code the loop stands still, once per stall."""
        reported_session = ""
        while not over.wait(BEAT_S):
            seconds = time.monotonic() - last_beat
            frame = sys._current_frames().get(thread) if seconds > STALL_S else None  # noqa: SLF001 - no other way
            session = _session_of(frame)
            if session and session != reported_session:
                send(
                    {
                        "type": "stalled",
                        "session": session,
                        "seconds": round(seconds, 3),
                        "where": _user_frame(frame),
                    }
                )
            elif reported_session and not session:
                send({"type": "resumed"})
            reported_session = session

    tick()
    threading.Thread(target=watch, daemon=True).start()


def _session_of(frame: FrameType | None) -> str:
    """The session of the loop's running task, or "" if it is unknown."""
    while frame is not None:
        if frame.f_code is asyncio.Handle._run.__code__:  # noqa: SLF001 - runs a task's step in the task's context
            return str(frame.f_locals["self"]._context.get(SESSION, ""))  # noqa: SLF001 - as above
        frame = frame.f_back
    return ""


def _user_frame(frame: FrameType | None) -> str:
    """The user's innermost function and its line."""
    while frame is not None:
        if errors.is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_name} ({os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno})"
        frame = frame.f_back
    return ""


# --- sessions and hosts ---


class Session(Protocol):
    """One conversation with the agent."""

    live: bool
    """Somebody watches the turn, so pieces of texts (`partial` events), traces and files are sent,
    too."""

    async def turn(self, content: Message, emit: Emit) -> Message:
        """Run a turn. Every event and every `trace` message goes to `emit`. Returns the fields of
        `turn_end`. Raises the agent's errors."""

    async def end(self) -> Message:
        """The fields of `ended`."""


def variables() -> list[str]:
    """Names of the environment variables with a value other than "", 0 and false."""
    return [
        name
        for name, value in os.environ.items()
        if value.strip().lower() not in ("", "0", "false")
    ]


class Host(Protocol):
    """One kind of agent, or the metrics in its place (only `metrics.Host` gets `metric`
    messages)."""

    sessions: int = 16
    """The most conversations at once."""
    asks: bool = False
    """Its tools can be intercepted; known after `load`."""
    takes_history: bool = False
    """Its sessions have `set`, and begin with earlier turns; known after `load`."""

    async def load(self, options: Message) -> dict[str, str]:
        """Import the agent. Returns its framework with its version, and its name. Raises
        errors.LoadFailed."""

    async def open(self, start: Message, tools: SessionTools | None) -> Session:
        """A new session. With `tools`, it asks about each tool call."""

    def models(self) -> list[str]:
        """The models that the loaded agent calls with keys of its environment, as far as they are
        known."""
        return []

    def agents(self) -> list[Message]:
        """The descriptions of the loaded agent and its sub-agents, see `description`."""
        return []

    async def close(self) -> None:
        """Close the agent's resources."""
        return  # an empty method of a protocol would be abstract


class Server:
    """Turns messages into calls of a host, and their results into messages."""

    def __init__(self, pipe: Pipe, host: Host) -> None:
        """Reads nothing until `run`."""
        self._pipe = pipe
        self._host = host
        self._inbox: asyncio.Queue[Message | None] = asyncio.Queue()
        """From the thread that reads; None at the end of input."""
        self._sessions: dict[str, Session] = {}
        """By the name in their message `start`."""
        self._turns: dict[str, asyncio.Task[Any]] = {}
        """The running turn of each session."""
        self._abandoned_sessions: set[str] = set()
        """Sessions that were ended during a turn, which may still fail."""
        self._asks = False
        """True if evalgate decides on tool calls, and the host can ask it."""
        self._tools: dict[str, SessionTools] = {}
        """Of each session, if it asks."""
        self._tasks: set[asyncio.Task[None]] = set()
        """One for each message that is being answered."""
        self._inputs: inputs.Tracer | None = None
        """None if accesses to the checkout are not observed."""

    async def run(self) -> int:
        """Serve until `bye` or the end of input. Returns the exit code."""
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True).start()
        hello = await self._inbox.get()
        if hello is None:
            return 0
        if not await self._greet(hello):
            return 1
        over = threading.Event()
        watch_for_stalls(asyncio.get_running_loop(), self._pipe.send, over)
        try:
            await self._serve_all()
        finally:
            over.set()
        return 0

    async def _serve_all(self) -> None:
        """Serve each message in a task of its own, until `bye` or the end of input; then close."""
        while True:
            message = await self._inbox.get()
            if message is None or message.get("type") == "bye":
                break
            task = asyncio.ensure_future(self._serve(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_GRACE_S)
            for task in late:
                task.cancel()
        try:
            await asyncio.wait_for(self._host.close(), timeout=CLOSE_GRACE_S)
        except Exception as error:
            sys.stderr.write(f"while closing the agent: {errors.sentence(error)}\n")

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read messages, in a thread of its own, which delivers the answers to tool calls."""
        try:
            for message in self._pipe.messages():
                if message.get("type") == "tool_response":
                    # this thread answers and not the loop, so that a plain function which blocks
                    # the loop gets its answer, too
                    session_tools = self._tools.get(message["session"])
                    if session_tools is not None:
                        session_tools.deliver(message)
                else:
                    loop.call_soon_threadsafe(self._inbox.put_nowait, message)
        except ValueError as error:
            self._pipe.send({"type": "fatal", "kind": "protocol", "message": str(error)})
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(self._inbox.put_nowait, None)

    async def _greet(self, hello: Message) -> bool:
        """Load the agent and answer `hello`. Returns False if the worker cannot go on."""
        version = hello.get("protocol")
        if hello.get("type") != "hello" or version != PROTOCOL:
            text = f"this worker uses protocol version {PROTOCOL}, but was started with version {version!r}"
            self._pipe.send({"type": "fatal", "kind": "protocol", "message": text})
            return False
        if hello.get("inputs"):
            self._inputs = inputs.start(hello["inputs"])
        try:
            details = await self._host.load(hello.get("options") or {})
        except BaseException as error:
            if not isinstance(error, errors.LoadFailed):
                error = errors.LoadFailed.of(error, "the agent")
            self._send_last({"type": "fatal", **error.description})
            return False
        fingerprint, packages = read_packages()
        self._asks = bool(hello.get("tools")) and self._host.asks
        about = {
            **details,
            "python": platform.python_version(),
            "interpreter": sys.executable,
            "installed": fingerprint,
        }
        description = {"packages": packages, "agents": self._try_read(self._host.agents)}
        surroundings = {
            "models": self._try_read(self._host.models),
            "variables": self._try_read(variables),
        }
        self._send_last(
            {
                "type": "ready",
                "protocol": PROTOCOL,
                "about": about,
                "sessions": self._host.sessions,
                "description": description,
                "surroundings": surroundings,
                "history": self._host.takes_history,
                "tools": self._asks,
            }
        )
        return True

    def _send_last(self, message: Message) -> None:
        """Send a message that ends a step, after the questions that were asked of the checkout so
        far."""
        questions = self._inputs.message() if self._inputs is not None else None
        if questions is not None:
            self._pipe.keep(questions)
        self._pipe.send(message)

    def _try_read(self, read: Callable[[], list[Any]]) -> list[Any]:
        """What `read` returns, or nothing if it raises."""
        try:
            return read()
        except Exception as error:  # it is for reports only
            sys.stderr.write(f"the agent cannot be described: {errors.sentence(error)}\n")
            return []

    async def _serve(self, message: Message) -> None:
        """Answer one message, also if that fails."""
        kind = message.get("type")
        name = message.get("session", "")
        SESSION.set(name)
        try:
            if kind == "start":
                if self._asks:
                    self._tools[name] = SessionTools(self._pipe.send, name)
                self._sessions[name] = await self._host.open(message, self._tools.get(name))
                self._send_last({"type": "started", "session": name})
            elif kind == "turn":
                await self._turn(name, message)
            elif kind == "end":
                await self._end(name)
            elif kind == "metric":
                answer = await self._host.metric(message)  # type: ignore[attr-defined]  # see Host
                self._send_last({"type": "metric_result", "id": message.get("id"), **answer})
            else:
                raise ValueError(f"unknown message type {kind!r}")
        except BaseException as error:
            if name in self._abandoned_sessions:
                self._abandoned_sessions.discard(name)
            else:
                self._fail(kind, name, message, error)

    async def _turn(self, name: str, message: Message) -> None:
        """Run a turn; its events are sent until it ends or is given up."""

        def send(event: Message) -> None:
            """Send an event of this turn, unless the turn is over; at once if somebody waits for
            it."""
            if self._turns.get(name) is turn and name not in self._abandoned_sessions:
                parts = (event.get("content") or {}).get("parts") or ()
                # sent at once: the tool may take its time, and this may be the last message
                # received
                has_calls = any("function_call" in part for part in parts)
                is_urgent = "type" in event or session.live or has_calls
                (self._pipe.send if is_urgent else self._pipe.keep)(
                    {"type": "event", "session": name, **event}
                )

        session = self._sessions[name]
        session.live = bool(message.get("live"))
        state, agent = message.get("state") or {}, message.get("agent") or ""
        if state or agent:
            await session.set(state, agent)  # type: ignore[attr-defined]
        tools.CURRENT.set(self._tools.get(name))
        self._turns[name] = turn = asyncio.ensure_future(
            session.turn(message.get("content") or {}, send)
        )
        try:
            answer = await turn
        finally:
            self._turns.pop(name, None)
        if name not in self._abandoned_sessions:
            self._send_last({"type": "turn_end", "session": name, **answer})

    async def _end(self, name: str) -> None:
        """End a session. A running turn is cancelled, and its later events are dropped."""
        self._dismiss(name)
        session = self._sessions.pop(name, None)
        if session is None:
            return
        turn = self._turns.get(name)
        if turn is not None:
            self._abandoned_sessions.add(name)
            turn.cancel()
            await asyncio.wait([turn], timeout=CLOSE_GRACE_S)
        self._send_last({"type": "ended", "session": name, **await session.end()})

    def _dismiss(self, name: str) -> None:
        """Refuse the open and later tool calls of a session, if it asks about them."""
        session_tools = self._tools.pop(name, None)
        if session_tools is not None:
            session_tools.close()

    def _fail(self, kind: Any, name: str, message: Message, error: BaseException) -> None:
        """Answer a message with an error; a session is over then."""
        if kind == "metric":
            answer = {"id": message.get("id"), "score": None, "error": errors.sentence(error)}
            self._send_last({"type": "metric_result", **answer})
            return
        self._dismiss(name)
        self._sessions.pop(name, None)
        self._send_last({"type": "turn_failed", "session": name, **errors.describe(error)})


def serve(pipe: Pipe, host: Host) -> int:
    """Serve, then exit. A `sys.exit` in the agent ends its turn, not the other sessions.

    The agent's exit hooks run. Its threads are not waited for, and its modules are not torn
    down."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    main = loop.create_task(Server(pipe, host).run())
    while not main.done():
        try:
            loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt):
            # asyncio lets these two escape from the loop although a task holds them already: resume
            # the loop
            continue
    code = main.result()
    atexit._run_exitfuncs()  # noqa: SLF001 - the one way to run them without a full shutdown
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)


def main() -> int:
    """Take over the standard streams, then serve the kind of agent from the command line."""
    streams = pipe.claim()
    if sys.flags.no_site:
        modules.add_packages()
    kind = sys.argv[1]
    sys.argv[:] = ["agent"]
    return serve(streams, load(kind).Host())


def load(kind: str) -> Any:
    """The module of a kind of agent: one beside this file, or a file of another package (a path
    without `.py`).

    Its `from evalgate.worker import ...` means the modules beside this file, even if the agent has
    evalgate installed."""
    folder, _, name = kind.rpartition("/")
    if not folder:
        return importlib.import_module(f".{kind}", __package__)
    package = type(sys)("_evalgate_host")
    package.__path__ = [folder]
    sys.modules[package.__name__] = package
    package_names = ("evalgate", "evalgate.worker")
    sys.modules.update(dict.fromkeys(package_names, sys.modules[str(__package__)]))
    try:
        return importlib.import_module(f"{package.__name__}.{name}")
    finally:
        for module in package_names:
            del sys.modules[module]


if __name__ == "__main__":
    raise SystemExit(main())
