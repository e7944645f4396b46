"""Serving an agent: the file that its interpreter is started with (`python server.py adk`), and the
loop in it.

It runs inside the agent's own interpreter: standard library plus the agent's framework, nothing of
evalgate. Its folder is loaded under a private name, so that neither the folder nor its modules can
be met (or shadowed) by the agent's own imports. Everything here must work on Python 3.10."""

from __future__ import annotations

import sys

# started as a file: by evalgate, or as the main module of a process that the agent spawns
if not __package__:
    FOLDER = __file__.replace("\\", "/").rpartition("/")[0]
    # where Python put it: nothing is looked up there
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
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from types import FrameType
from typing import Any, Protocol

from . import errors, inputs, modules, pipe, tools
from .pipe import Pipe
from .tools import SessionTools

PROTOCOL = 1
CLOSE_GRACE_S = 5.0

Message = dict[str, Any]
Interval = tuple[float, float]


def installed() -> tuple[str, dict[str, str]]:
    """A hash of the installed packages, and the versions by name.

    16 hex digits over all names and versions, with the source of packages from git or an archive (a
    requirement without a version may change), and the content of those from a folder or archive.
    Versions are as in importlib.metadata, from folder names alone."""
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
            is_fixed = b"vcs_info" in origin or b"archive_info" in origin
            files = content(os.path.join(folder, name), origin)
            identities.add(os.fsencode(name) + (origin if is_fixed else b"") + files)
            package, _, version = name.rpartition(".")[0].partition("-")
            if version:
                versions.setdefault(package.lower().replace("_", "-"), version.partition("-py")[0])
    return hashlib.sha256(b"\0".join(sorted(identities))).hexdigest()[:16], dict(
        sorted(versions.items())
    )


def content(info: str, origin: bytes) -> bytes:
    """A digest of what was installed from a folder or an archive, by the hashes in the RECORD of
    `info`, the package's .dist-info; b"" for all others, and for an editable one, whose files are
    those of the checkout. `origin`: its direct_url.json."""
    try:
        about = json.loads(origin or b"{}")
        if "archive_info" not in about and (
            "dir_info" not in about or about["dir_info"].get("editable")
        ):
            return b""
        with open(os.path.join(info, "RECORD"), "rb") as file:
            lines = file.read().splitlines()
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return b""
    # an installer's additions depend on the place and time of installation
    names = tuple(f"{os.path.basename(info)}/{name}".encode() for name in OF_INSTALLERS)
    files = (line for line in lines if b"sha256=" in line and not line.startswith((b"../", *names)))
    return hashlib.sha256(b"\n".join(sorted(files))).digest()


OF_INSTALLERS = ("direct_url.json", "uv_cache.json", "uv_build.json")


class TurnWatch:
    """Notes of one turn, made while it runs; also reached from the tasks that the turn starts."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.trace: Any = None
        self.requests: dict[str, Any] = {}
        self.spent: dict[Any, dict[str, Any]] = {}
        self._open: dict[tuple[str, Any], tuple[float, str]] = {}
        self._calls: dict[tuple[str, Any, float], tuple[str, float]] = {}

    def model_begins(self, key: Any, agent: str, request: Any) -> None:
        """An agent is about to ask its model; only its first request of the turn is kept."""
        self.requests.setdefault(agent, request)
        self._open["model", key] = (time.monotonic(), str(getattr(request, "model", None) or ""))

    def model_answers(self, key: Any, name: str = "", spent: dict[str, Any] | None = None) -> None:
        """A chunk of the model's answer has arrived. `name`: the model's, if it is not in the
        request; `spent`: its tokens; a later chunk has the full count."""
        if spent and ("model", key) in self._open:
            self.spent[key, self._open["model", key][0]] = spent
        self._ends("model", key, name)

    def tool_begins(self, key: Any, name: str) -> None:
        """A tool is about to run."""
        self._open["tool", key] = (time.monotonic(), name)

    def tool_ends(self, key: Any) -> None:
        """A tool has answered, or raised."""
        self._ends("tool", key)
        self._open.pop(("tool", key), None)

    def _ends(self, kind: str, key: Any, name: str = "") -> None:
        if (kind, key) in self._open:
            begun, open_name = self._open[kind, key]
            self._calls[kind, key, begun] = (name or open_name, time.monotonic())

    def timings(self) -> dict[str, Any]:
        """Wall seconds to the millisecond, as ADK has them: overlaps count once, and as the model's
        before a tool's."""
        every = [(kind, name, begun, end) for (kind, _, begun), (name, end) in self._calls.items()]
        models, tools = (
            [call[2:] for call in every if call[0] == kind] for kind in ("model", "tool")
        )
        model_s = seconds_of(models)
        return {
            "total_s": round(time.monotonic() - self.started, 3),
            "model_s": round(model_s, 3),
            "tool_s": round(seconds_of(models + tools) - model_s, 3),
            "calls": [
                {
                    "kind": kind,
                    "name": name,
                    "at": round(begun - self.started, 3),
                    "seconds": round(end - begun, 3),
                }
                for kind, name, begun, end in sorted(every, key=lambda call: call[2])
            ],
        }

    def agents(self, authors: list[str]) -> list[dict[str, Any]]:
        """Instructions and tools of the agents among `authors` that asked a model, in that
        order."""
        agents = []
        for author in dict.fromkeys(authors):
            request = self.requests.get(author)
            if request is None:
                continue
            config = request.config
            details: dict[str, Any] = {"name": author}
            if instructions := getattr(config, "system_instruction", None):
                details["instructions"] = (
                    instructions if isinstance(instructions, str) else str(instructions)
                )
            if declared := getattr(config, "tools", None):
                details["tool_declarations"] = [declaration(tool) for tool in declared]
            agents.append(details)
        return agents


def seconds_of(intervals: list[Interval]) -> float:
    """Seconds covered by at least one interval."""
    total = 0.0
    counted_to = float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, counted_to))
        counted_to = max(counted_to, end)
    return total


def declaration(tool: Any) -> dict[str, Any]:
    """google.genai's Tool as JSON, also for a function or a client that the model's library would
    turn into one."""
    if hasattr(tool, "model_dump"):
        dumped: dict[str, Any] = tool.model_dump(mode="json", exclude_none=True)
        return dumped
    if isinstance(tool, dict):
        return tool
    fields = {"name": str(getattr(tool, "__name__", None) or type(tool).__name__)}
    description = inspect.getdoc(tool) if callable(tool) else None
    return {
        "function_declarations": [{**fields, "description": description} if description else fields]
    }


CURRENT: ContextVar[TurnWatch | None] = ContextVar("evalgate_turn", default=None)
"""The turn that the running task works for."""


# --- one session that keeps the event loop from all others, as an `async def` does that waits
# without `await` ---

STALL_S = 0.5
BEAT_S = 0.2

SESSION: ContextVar[str] = ContextVar("evalgate_session", default="")
"""The session that the running task works for."""


def watch_for_stalls(
    loop: asyncio.AbstractEventLoop, send: Callable[[dict[str, Any]], None], over: threading.Event
) -> None:
    """Until `over`, report each stall of the running loop, and its end; call this in the loop's
    thread."""
    beat = time.monotonic()
    thread = threading.get_ident()

    def tick() -> None:
        nonlocal beat
        beat = time.monotonic()
        if not over.is_set():
            loop.call_later(BEAT_S, tick)

    def look() -> None:
        reported_session = ""
        while not over.wait(BEAT_S):
            seconds = time.monotonic() - beat
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
    threading.Thread(target=look, daemon=True).start()


def _session_of(frame: FrameType | None) -> str:
    """The session that the loop at this frame works for; "" if it is not known."""
    while frame is not None:
        if frame.f_code is asyncio.Handle._run.__code__:  # noqa: SLF001 - runs a task's step in the task's context
            return str(frame.f_locals["self"]._context.get(SESSION, ""))  # noqa: SLF001 - as above
        frame = frame.f_back
    return ""


def _user_frame(frame: FrameType | None) -> str:
    """The innermost function that is the user's own, and its line."""
    while frame is not None:
        if errors.is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_name} ({os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno})"
        frame = frame.f_back
    return ""


# --- sessions and hosts ---


class Session(Protocol):
    """One conversation with the agent. `live`: somebody watches the turn, who wants pieces of texts
    as well (events that are `partial`), and what there is besides."""

    live: bool

    async def turn(self, content: Message, emit: Callable[[Message], None]) -> Message:
        """Run a turn, give every event to `emit`, and what is recorded of it as messages of the
        type `trace`; the fields of `turn_end`. Raises what the agent raises."""

    async def end(self) -> Message:
        """The fields of `ended`."""


def variables() -> list[str]:
    """Names of the environment variables that are set to anything but 0 and false."""
    return [
        name
        for name, value in os.environ.items()
        if value.strip().lower() not in ("", "0", "false")
    ]


class Host(Protocol):
    """One kind of agent, or what runs metrics in its place (only `metrics.Host` is sent any).

    `asks`: its tools can be asked about, known once it is loaded. One that `takes_history` has
    sessions with `set`."""

    sessions: int = 16

    @property
    def asks(self) -> bool:
        """See above."""
        return False

    @property
    def takes_history(self) -> bool:
        """See above."""
        return False

    async def load(self, options: Message) -> dict[str, str]:
        """Import the agent; what to say about it. Raises errors.LoadFailed."""

    async def open(self, start: Message, tools: SessionTools | None) -> Session:
        """A fresh session; with `tools`, its tools are asked about there."""

    def models(self) -> list[str]:
        """The models that the loaded agent asks with keys of its environment, as far as that is
        known."""
        return []

    def agents(self) -> list[Message]:
        """What the loaded agent is made of, see `description`."""
        return []

    async def close(self) -> None:
        """Let go of what the agent holds open."""
        return  # an empty method of a protocol would be abstract


class Server:
    """Turns messages into calls of a host, and what comes of them into messages."""

    def __init__(self, pipe: Pipe, host: Host) -> None:
        self._pipe = pipe
        self._host = host
        self._inbox: asyncio.Queue[Message | None] = asyncio.Queue()
        self._sessions: dict[str, Session] = {}
        self._turns: dict[str, asyncio.Task[Any]] = {}
        self._given_up: set[str] = set()
        self._asks = False
        self._tools: dict[str, SessionTools] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._inputs: inputs.Tracer | None = None

    async def run(self) -> int:
        """Serve until `bye` or the end of input; the exit code."""
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
        try:
            for message in self._pipe.messages():
                if message.get("type") == "tool_response":
                    # from here and not from the loop, so that a plain function which waits on the
                    # loop is answered, too
                    session_tools = self._tools.get(str(message.get("session", "")))
                    if session_tools is not None:
                        session_tools.tell(message)
                else:
                    loop.call_soon_threadsafe(self._inbox.put_nowait, message)
        except ValueError as error:
            self._pipe.send(
                {"type": "fatal", "kind": "protocol", "message": str(error), "detail": ""}
            )
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(self._inbox.put_nowait, None)

    async def _greet(self, hello: Message) -> bool:
        if hello.get("type") != "hello" or hello.get("protocol") != PROTOCOL:
            client_version = hello.get("protocol")
            text = f"this worker uses protocol version {PROTOCOL}, but was started with version {client_version!r}"
            self._pipe.send({"type": "fatal", "kind": "protocol", "message": text, "detail": ""})
            return False
        if hello.get("inputs"):
            self._inputs = inputs.start(str(hello["inputs"]))
        try:
            about = await self._host.load(hello.get("options") or {})
        except BaseException as error:
            failed = (
                error
                if isinstance(error, errors.LoadFailed)
                else errors.LoadFailed.of(error, "the agent")
            )
            self._say({"type": "fatal", **failed.found})
            return False
        fingerprint, packages = installed()
        about = {**about, "installed": fingerprint}
        ready_message = {
            "type": "ready",
            "protocol": PROTOCOL,
            "about": about,
            "sessions": self._host.sessions,
        }
        ready_message["description"] = {
            "packages": packages,
            "agents": self._described(self._host.agents),
        }
        ready_message["surroundings"] = {
            "models": self._described(self._host.models),
            "variables": self._described(variables),
        }
        self._asks = bool(hello.get("tools")) and self._host.asks
        if self._host.takes_history:
            ready_message["history"] = True
        self._say({**ready_message, "tools": True} if self._asks else ready_message)
        return True

    def _say(self, message: Message) -> None:
        """Send what ends something, behind what was asked of the checkout until now."""
        for question in self._inputs.messages() if self._inputs is not None else ():
            self._pipe.keep(question)
        self._pipe.send(message)

    def _described(self, read: Callable[[], list[Any]]) -> list[Any]:
        try:
            return read()
        except Exception as error:  # it is for reports only
            sys.stderr.write(f"the agent cannot be described: {errors.sentence(error)}\n")
            return []

    async def _serve(self, message: Message) -> None:
        kind = message.get("type")
        name = str(message.get("session", ""))
        SESSION.set(name)
        try:
            if kind == "start":
                if self._asks:
                    self._tools[name] = SessionTools(self._pipe.send, name)
                self._sessions[name] = await self._host.open(message, self._tools.get(name))
                self._say({"type": "started", "session": name})
            elif kind == "turn":
                await self._turn(name, message)
            elif kind == "end":
                await self._end(name)
            elif kind == "metric":
                answer = await self._host.metric(message)  # type: ignore[attr-defined]  # see Host
                self._say({"type": "metric_result", "id": message.get("id"), **answer})
            else:
                raise ValueError(f"unknown message type {kind!r}")
        except BaseException as error:
            if name in self._given_up:
                self._given_up.discard(name)
            else:
                self._fail(kind, name, message, error)

    async def _turn(self, name: str, message: Message) -> None:
        def send(event: Message) -> None:
            if self._turns.get(name) is turn and name not in self._given_up:
                parts = (event.get("content") or {}).get("parts") or ()
                # sent at once: the tool may take its time, and this may be the last message
                # received
                calls = any("function_call" in part for part in parts)
                is_urgent = "type" in event or session.live or calls
                (self._pipe.send if is_urgent else self._pipe.keep)(
                    {"type": "event", "session": name, **event}
                )

        session = self._sessions[name]
        session.live = bool(message.get("live"))
        if message.get("state") or message.get("agent"):
            await session.set(message.get("state") or {}, str(message.get("agent") or ""))  # type: ignore[attr-defined]
        tools.CURRENT.set(self._tools.get(name))
        self._turns[name] = turn = asyncio.ensure_future(
            session.turn(message.get("content") or {}, send)
        )
        try:
            answer = await turn
        finally:
            self._turns.pop(name, None)
        if name not in self._given_up:
            self._say({"type": "turn_end", "session": name, **answer})

    async def _end(self, name: str) -> None:
        """End a session; a turn that is under way is given up, and nothing more is said of it."""
        self._dismiss(name)
        session = self._sessions.pop(name, None)
        if session is None:
            return
        turn = self._turns.get(name)
        if turn is not None:
            self._given_up.add(name)
            turn.cancel()
            await asyncio.wait([turn], timeout=CLOSE_GRACE_S)
        self._say({"type": "ended", "session": name, **await session.end()})

    def _dismiss(self, name: str) -> None:
        session_tools = self._tools.pop(name, None)
        if session_tools is not None:
            session_tools.close()

    def _fail(self, kind: Any, name: str, message: Message, error: BaseException) -> None:
        if kind == "metric":
            answer = {"id": message.get("id"), "score": None, "error": errors.sentence(error)}
            self._say({"type": "metric_result", **answer})
            return
        error_types = (errors.ModelAnsweredError, errors.ServiceDown)
        description = error.found if isinstance(error, error_types) else errors.describe(error)
        self._dismiss(name)
        self._sessions.pop(name, None)
        self._say({"type": "turn_failed", "session": name, **description})


def serve(pipe: Pipe, host: Host) -> int:
    """Serve and leave; a `sys.exit` somewhere in the agent ends its turn, not the other sessions.

    The agent's own exit hooks run, but its threads are not waited for, nor thousands of modules
    taken down."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    main = loop.create_task(Server(pipe, host).run())
    while not main.done():
        try:
            loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt):
            # asyncio lets these two escape from the loop although a task holds them already: resume
            # the loop.
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
    """Take over the standard streams, then serve the kind of agent that the command line names."""
    streams = pipe.claim()
    if sys.flags.no_site:
        modules.add_packages()
    kind = sys.argv[1]
    sys.argv[:] = ["agent"]
    return serve(streams, load(kind).Host())


def load(kind: str) -> Any:
    """The module of a kind of agent: one beside this file, or a file of another package (its path
    without `.py`), whose `from evalgate.worker import ...` means the modules beside this file,
    whatever evalgate the agent has."""
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
