"""A small client of the line protocol, to speak with the workers alone."""

from __future__ import annotations

import functools
import json
import os
import queue
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from builders.zygotes import Zygote

from evalgate.agents import pool

REPO = Path(__file__).parents[3]
AGENTS = REPO / "tests" / "agents"
START = REPO / "evalgate" / "worker" / "server.py"
PATIENCE_S = 90.0

Message = dict[str, Any]


def _started(
    python: str, kind: str, cwd: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    flags = pool.ISOLATED_FLAGS if kind == "metrics" else ()
    command = [python, *flags, str(START), kind]
    return subprocess.Popen(command, cwd=cwd, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)


class Forked:
    """A worker that a zygote has become, as far as a Popen is needed."""

    def __init__(self, zygote: Zygote, kind: str, cwd: Path, environment: dict[str, str]) -> None:
        pipes = [os.pipe() for _ in range(3)]
        theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
        self._born = zygote.become([str(START), kind], *theirs, cwd=cwd, environment=environment)
        for each in theirs:
            os.close(each)
        self.stdin = os.fdopen(pipes[0][1], "wb")
        self.stdout, self.stderr = os.fdopen(pipes[1][0], "rb"), os.fdopen(pipes[2][0], "rb")

    def kill(self) -> None:
        """End it."""
        if self._born.wait(0) is None:
            os.kill(self._born.pid, signal.SIGKILL)

    def wait(self, timeout: float = PATIENCE_S) -> int | None:
        """Its exit code."""
        return self._born.wait(timeout)


class Worker:
    """A worker process; what it says is read by a thread, so that nothing here can hang."""

    def __init__(
        self,
        python: str,
        kind: str,
        options: Message,
        cwd: Path,
        environment: dict[str, str],
        tools: str = "",
        zygote: Zygote | None = None,
        inputs: str = "",
    ) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        start = functools.partial(*((Forked, zygote) if zygote is not None else (_started, python)))
        self.process = start(kind, cwd, {**kept, **environment})
        self.errors: list[bytes] = []
        self._said: queue.Queue[bytes] = queue.Queue()
        self._kept: list[Message] = []
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._drain, daemon=True).start()
        asked = {name: value for name, value in (("tools", tools), ("inputs", inputs)) if value}
        self.say(type="hello", protocol=1, options=options, **asked)
        self.greeting = self.hear("ready", "fatal")

    def _listen(self) -> None:
        for line in self.process.stdout:
            self._said.put(line)
        self._said.put(b"")

    def _drain(self) -> None:
        self.errors.extend(self.process.stderr)

    @property
    def stderr(self) -> str:
        return b"".join(self.errors).decode()

    def say(self, **message: Any) -> None:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, *types: str, session: str | None = None) -> Message:
        """The next message of one of `types` (and of a session); others wait for their own turn."""

        def fits(message: Message) -> bool:
            return message["type"] in types and session in (None, message.get("session"))

        for message in self._kept:
            if fits(message):
                self._kept.remove(message)
                return message
        while True:
            line = self._said.get(timeout=PATIENCE_S)
            assert line, f"the worker is gone:\n{self.stderr}"
            message = json.loads(line, parse_constant=_refuse)
            if fits(message):
                return message
            self._kept.append(message)

    def heard(self, type_: str) -> list[Message]:
        """The messages of a type that came before what was waited for."""
        found = [message for message in self._kept if message["type"] == type_]
        self._kept = [message for message in self._kept if message["type"] != type_]
        return found

    def start(self, session: str, **more: Any) -> None:
        self.say(
            **{
                "type": "start",
                "session": session,
                "app_name": "",
                "user_id": "",
                "state": {},
                **more,
            }
        )
        self.hear("started", session=session)

    def begin_turn(self, session: str, text: str) -> None:
        self.say(type="turn", session=session, content={"role": "user", "parts": [{"text": text}]})

    def end_turn(self, session: str) -> tuple[list[Message], Message]:
        """The events of a turn, and how it ended, with the entries that were recorded as
        `trace`."""
        events: list[Message] = []
        trace: dict[int, Message] = {}
        while True:
            message = self.hear("event", "trace", "turn_end", "turn_failed", session=session)
            if message["type"] == "event":
                events.append(message)
            elif message["type"] == "trace":
                trace.setdefault(message["number"], {}).update(message["entry"])
            else:
                return events, {
                    **message,
                    "trace": [trace[at] for at in sorted(trace)],
                } if trace else message

    def turn(self, session: str, *script: str) -> tuple[list[Message], Message]:
        self.begin_turn(session, "\n".join(script))
        return self.end_turn(session)

    def ask(self, *script: str, **start: Any) -> tuple[list[Message], Message]:
        """One turn in a session of its own."""
        session = f"ask-{id(script)}"
        self.start(session, **start)
        answer = self.turn(session, *script)
        if answer[1]["type"] == "turn_end":
            self.end(session)
        return answer

    def end(self, session: str) -> Message:
        self.say(type="end", session=session)
        return self.hear("ended", session=session)

    def bye(self) -> int:
        self.say(type="bye")
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except (OSError, ValueError):
                continue


def _refuse(token: str) -> None:
    raise AssertionError(f"{token} is not JSON")


def texts(events: list[Message]) -> list[str]:
    return [
        part["text"]
        for event in events
        for part in (event.get("content") or {}).get("parts", ())
        if "text" in part
    ]


def responses(events: list[Message]) -> list[Any]:
    parts = [part for event in events for part in (event.get("content") or {}).get("parts", ())]
    return [
        part["function_response"].get("response") for part in parts if "function_response" in part
    ]


def adk_python(which: str) -> str:
    places = {
        "new": ("EVALGATE_TEST_ADK", ".venv-adk"),
        "old": ("EVALGATE_TEST_ADK_OLD", ".venv-adk-old"),
    }
    return _python_with("google-adk", *places[which])


WITH_THE_FIRST_TURN = (
    "google.adk.agents.llm_agent",
    "google.adk.agents._agent_router",
    "google.adk.artifacts.in_memory_artifact_service",
    "google.adk.auth.auth_preprocessor",
    "google.adk.flows.llm_flows.auto_flow",
    "google.adk.memory.in_memory_memory_service",
    "google.adk.models.google_llm",
    "google.adk.sessions.in_memory_session_service",
    "google.adk.tools.agent_tool",
    "google.adk.workflow._dynamic_node_scheduler",
    "google.adk.workflow._workflow",
)
"""The half of google-adk that an agent loads when it is first asked."""


@functools.cache
def adk_zygote(which: str) -> Zygote:
    """The newest or the oldest google-adk, imported once: that takes one second or ten."""
    modules = ("google.adk.agents", "google.adk.runners")
    if which == "new":
        modules += WITH_THE_FIRST_TURN
    return Zygote(adk_python(which), "worker_zygote.py", *modules)


def forked_adk(which: str) -> str:
    """Stands in for `adk_python`, for those many workers that are not about how they start."""
    return adk_zygote(which).python


@functools.cache
def framework_zygote() -> Zygote:
    """Frameworks that are not ADK, imported once."""
    return Zygote(
        framework_python(),
        "worker_zygote.py",
        "langchain.agents",
        "pydantic_ai",
        "agents",
        "smolagents",
        "strands",
        "llama_index.core.agent.workflow",
        "autogen_agentchat.teams",
        "agent_framework",
    )


def framework_python() -> str:
    """With the frameworks that are not ADK."""
    return _python_with("the other frameworks", "EVALGATE_TEST_FRAMEWORKS", ".venv-frameworks")


def _python_with(what: str, variable: str, folder: str) -> str:
    named = Path(os.environ.get(variable, REPO / folder))
    python = named / "bin" / "python" if named.is_dir() else named
    if not python.exists():
        pytest.skip(f"no interpreter with {what}: set {variable} or make {folder}")
    return str(python)
