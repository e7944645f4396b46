"""The agent as a guest of the test that evaluates it: it runs in the test's process and event loop,
so that the test's mocks also work for the agent (docs/decisions/031-guests.md)."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import queue
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import copy_context
from dataclasses import replace
from importlib.machinery import ModuleSpec
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from evalgate.agents.base import Agent, AgentSetting
from evalgate.agents.pool import WorkerPool
from evalgate.agents.worker_process import Launch
from evalgate.errors import ConfigError
from evalgate.system.process import ChildClosed, ChildStartError, Ended, Tail
from evalgate.values import JsonObject
from evalgate.worker import adk, errors, metrics, pipe, server
from evalgate.worker.adk import ImportedAgent

ENDED = Ended(returncode=0)
TAIL_BYTES = 1024
OVER = "the test was over before the agent could answer"


class Guest:
    """An agent for one evaluation; the test's event loop creates it."""

    def __init__(
        self, agent: ImportedAgent, *, app_name: str | None, artifact_service: Any
    ) -> None:
        self.agent = agent
        self.artifact_service = artifact_service
        self.loop = asyncio.get_running_loop()
        self.context = copy_context()
        self.children: set[GuestChild] = set()
        self.is_over = False
        self._app_name = app_name

    def open(self, setting: AgentSetting) -> Agent:
        """The agent for the gate, which calls it from other threads."""
        launch = Launch(
            command=(),
            cwd=setting.root,
            environment=dict(os.environ),
            hello={"app_name": self._app_name, "trace": setting.trace},
            start=lambda *_, **__: GuestChild(self),
        )
        sessions = setting.limits.workers * setting.limits.sessions
        limits = replace(setting.limits, workers=1, sessions=sessions, isolate_cases=False)
        return WorkerPool(
            lambda: launch,
            setting=replace(setting, limits=limits, variables=None),
            metrics=lambda: launch,
            vouches_for_tools=True,
        )

    def leave(self) -> None:
        """End every wait for an answer of the agent."""
        self.is_over = True
        for child in list(self.children):
            child.give_up()


@asynccontextmanager
async def open_agent(
    module_name: str,
    *,
    agent_name: str | None = None,
    app_name: str | None = None,
    artifact_service: Any = None,
) -> AsyncIterator[Guest]:
    """The agent of a module, by the rules of google-adk's AgentEvaluator: a member `agent`, the
    submodule of that name or the module itself has `root_agent`, `get_agent_async` or `app`.

    Raises ConfigError without google-adk, ValueError if there is no such agent, and the errors of
    the agent's code."""
    try:
        has_adk = importlib.util.find_spec("google.adk") is not None
    except ModuleNotFoundError:
        has_adk = False
    if not has_adk:
        raise ConfigError(
            f"google-adk is not installed in the Python of this test, {sys.executable}",
            hint="Install it there, since the agent runs in the test's process, or use `evalgate run`.",
        )
    module = import_module(module_name)
    folder = str(folder_of(module))
    modules = chain([getattr(module, "agent", None)], adk.modules_of(module))
    async with AsyncExitStack() as exit_stack:
        app, root_agent = await adk.find(modules, folder, None, exit_stack)
        if root_agent is None:
            raise ValueError(adk.no_agent_message(folder, module_name, None))
        try:
            sub_agent = adk.find_sub_agent(root_agent, agent_name)
        except errors.LoadFailed as error:
            raise ValueError(str(error)) from None
        name = module_name.removesuffix(".agent")
        agent = ImportedAgent(root_agent=sub_agent, app=app, name=name)
        guest = Guest(agent, app_name=app_name, artifact_service=artifact_service)
        try:
            yield guest
        finally:
            guest.leave()


def folder_of(module: ModuleType) -> Path:
    """The absolute folder of a module or a package; the working folder if it has no files."""
    if module.__file__:
        return Path(module.__file__).resolve().parent
    return Path(next(iter(getattr(module, "__path__", ())), ".")).resolve()


class GuestHost(adk.Host):
    """An agent that the test's process has imported, and the metrics that it can import."""

    def __init__(self, guest: Guest) -> None:
        super().__init__()
        self._guest = guest
        self.artifact_service = guest.artifact_service

    async def load(self, options: JsonObject) -> dict[str, str]:
        """Keep the agent as it is: no module, path or setting of the process changes."""
        return self.take(self._guest.agent, options)

    async def metric(self, message: JsonObject) -> JsonObject:
        """Run a custom metric in the test's process, as google-adk does."""
        return await metrics.run(message, self._guest.agent.name)


class GuestChild:
    """A worker as a task of the test's event loop: the gate sees a `process.Child`, the worker a
    `pipe.Pipe`."""

    memory_capped = False

    def __init__(self, guest: Guest) -> None:
        """Raises ChildStartError if the test is over."""
        if guest.is_over:
            raise ChildStartError(OVER)
        self.stderr = Tail(limit=TAIL_BYTES)  # empty: the agent's output goes to the test's output
        self._guest = guest
        self._inbox: queue.SimpleQueue[JsonObject | None] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._gone = threading.Event()
        self._task: asyncio.Task[int] | None = None

    # --- a child ---

    def listen(self, on_output: Callable[[bytes], None], on_end: Callable[[Ended], None]) -> None:
        """See `Child.listen`."""
        self._on_output = on_output
        self._on_end = on_end
        self._guest.children.add(self)
        if self._guest.is_over:
            self.give_up()
        else:
            self._guest.loop.call_soon_threadsafe(self._serve, context=self._guest.context.copy())

    def write(self, data: bytes, *, timeout_s: float) -> None:  # noqa: ARG002 - as in Child
        """See `Child.write`. Raises ChildClosed."""
        if self._gone.is_set():
            raise ChildClosed
        self._inbox.put(json.loads(data))

    def end(self, **_: float) -> None:
        """See `Child.end`; nobody can kill it."""
        self._inbox.put(None)

    close = end

    def wait(self, timeout_s: float | None = None) -> Ended | None:
        """See `Child.wait`."""
        return ENDED if self._gone.wait(timeout_s) else None

    # --- a pipe ---

    def messages(self) -> Iterator[JsonObject]:
        """See `Pipe.messages`."""
        return iter(cast("Callable[[], JsonObject]", self._inbox.get), None)

    def send(self, message: JsonObject) -> None:
        """See `Pipe.send`."""
        with self._sending:
            self._on_output(pipe.encode(message))

    keep = send

    # --- in the event loop ---

    def give_up(self) -> None:
        """Say that the test is over; a worker that has not begun will not."""
        self.send({"type": "fatal", "kind": "exited", "message": OVER})
        if self._task is None:
            self._leave()

    def _serve(self) -> None:
        if self._guest.is_over:
            return
        worker = server.Server(cast("pipe.Pipe", self), GuestHost(self._guest))
        self._task = self._guest.loop.create_task(worker.run())
        self._task.add_done_callback(self._leave)

    def _leave(self, *_: object) -> None:
        self._guest.children.discard(self)
        self._gone.set()
        self._on_end(ENDED)


# --- modules of the agent ---

_IMPORTED: set[str] = set()
"""Names of modules that evaluations imported and the tests did not."""


def import_module(name: str) -> ModuleType:
    """Import as Python does: the agent gets the modules that the test imported or replaced. Warns
    of a module from a place to which sys.path no longer leads."""
    top = name.partition(".")[0]
    old_spec = getattr(sys.modules.get(top), "__spec__", None)
    spec = _spec(top) if old_spec is not None else None
    if old_spec is not None and spec is not None and _places(old_spec).isdisjoint(_places(spec)):
        warnings.warn(
            f"{top} was imported from {_place_of(old_spec)} before, so that is evaluated; sys.path leads to {_place_of(spec)}",
            stacklevel=2,
        )
    old_modules = frozenset(sys.modules)
    try:
        return importlib.import_module(name)
    finally:
        _IMPORTED.update(sys.modules.keys() - old_modules)


def forget_moved() -> None:
    """Forget the modules of evaluations to which sys.path no longer leads: the next test may have
    an agent of the same name."""
    for top in [name for name in _IMPORTED if "." not in name]:
        old_spec = getattr(sys.modules.get(top), "__spec__", None)
        if old_spec is None or not errors.is_users(_place_of(old_spec)):
            continue
        spec = _spec(top)
        if spec is None or _places(old_spec).isdisjoint(_places(spec)):
            stale_names = {name for name in _IMPORTED if name.partition(".")[0] == top}
            _IMPORTED.difference_update(stale_names)
            for name in stale_names:
                sys.modules.pop(name, None)


def _spec(name: str) -> ModuleSpec | None:
    """The spec by which a top module would be imported now."""
    functions = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    specs = (find_spec(name, None, None) for find_spec in functions if find_spec is not None)
    return next(filter(None, specs), None)


def _places(spec: ModuleSpec) -> set[str]:
    return {*(spec.submodule_search_locations or ()), *filter(None, [spec.origin])}


def _place_of(spec: ModuleSpec) -> str:
    return spec.origin or next(iter(spec.submodule_search_locations or ()), spec.name)
