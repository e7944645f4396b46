"""ADK agents: loads one and opens its sessions.

google-adk is imported only with the agent, which may bring its own paths and settings."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import importlib
import importlib.util
import inspect
import os
import queue
import sys
import threading
import time
import uuid
import warnings
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from types import ModuleType
from typing import Any

from . import description, errors, modules, server, tools, trace
from .pipe import Emit, Message, dump_model, present
from .tools import Patches, SessionTools

MOST_ARTIFACT = 6_000_000
"""Characters of an artifact in base64."""
LOADING_OBJECTS = 300_000
"""New objects between two searches for garbage while an agent loads: nearly all of them stay, but a
tree that is parsed there is large garbage."""
OPTIONAL_MODULES = {"google.adk.agents.remote_a2a_agent": "a2a"}
"""Modules that google-adk imports in each turn, each with the package that it needs."""
NO_OP_PREFIXES = ("opentelemetry.trace", "opentelemetry._logs", "opentelemetry.metrics")
"""Beginnings of the modules of OpenTelemetry's providers that record nothing."""


# --- less work in every turn ---


def skip_unused_services() -> None:
    """After a first turn, remove google-adk's unused work from every later turn.

    google-adk tries again to import a module whose package is not installed (a tenth of its CPU).
    The modules imported so far are not garbage, so the collector skips them."""
    for name, package in OPTIONAL_MODULES.items():
        if (
            name not in sys.modules
            and package not in sys.modules
            and importlib.util.find_spec(package) is None
        ):
            try:
                importlib.import_module(name)
            except ImportError as error:
                sys.meta_path.insert(0, modules.Finder(raise_known, name, error))
    gc.freeze()


def raise_known(name: str, error: ImportError, fullname: str) -> None:
    """Raise the known error of the module `name`, which saves another search for it."""
    if fullname == name:
        raise type(error)(*error.args, name=error.name, path=error.path)


def skip_unrecorded_descriptions() -> None:
    """Let google-adk describe model calls for OpenTelemetry only while something records them: the
    descriptions take an eighth of a turn's CPU."""
    try:
        from google.adk.telemetry import tracing

        original = tracing.use_inference_span
    except (ImportError, AttributeError):  # an old version
        return
    from opentelemetry import _logs, metrics, trace

    sources = (trace.get_tracer_provider, _logs.get_logger_provider, metrics.get_meter_provider)

    def use_inference_span(*arguments: Any, **options: Any) -> Any:
        """google-adk's description if something records it, else a context that does nothing."""
        names = [type(source()).__module__ for source in sources]
        is_recorded = not all(name.startswith(NO_OP_PREFIXES) for name in names)
        return original(*arguments, **options) if is_recorded else nullcontext()

    tracing.use_inference_span = use_inference_span


# --- information that google-adk's events lack ---


def instrument() -> tuple[Any, ...]:
    """The first and the last plugin of a Runner. They note the times of models and tools, and make
    model requests patient. Empty if google-adk has no plugins (before 1.7)."""
    try:
        from google.adk.plugins.base_plugin import BasePlugin
    except ImportError:
        return ()

    first_plugin, last_plugin = (
        type(plugin_class.__name__, (plugin_class, BasePlugin), {})(
            name=f"evalgate_{plugin_class.__name__}"
        )
        for plugin_class in (AfterCalls, BeforeCalls)
    )
    first_plugin.before_calls = last_plugin
    return first_plugin, last_plugin


class BeforeCalls:
    """Notes the start of each model and tool call, and asks the client to retry; see BasePlugin. A
    service that has not answered yet, also with an error, is not waited for: it may be down."""

    retry_options: Any = None
    """None until a service has answered; see `retry_options`."""

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Note the start of a model call."""
        if self.retry_options is not None:
            from google.genai import types

            llm_request.config = llm_request.config or types.GenerateContentConfig()
            http_options = llm_request.config.http_options or types.HttpOptions()
            http_options.retry_options = http_options.retry_options or self.retry_options
            llm_request.config.http_options = http_options
        if watch := server.CURRENT.get():
            agent = callback_context.agent_name
            watch.begins("model", _key(callback_context), agent=agent, request=llm_request)

    async def before_tool_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, **_: Any
    ) -> None:
        """Note the start of a tool call."""
        if watch := server.CURRENT.get():
            key = (_key(tool_context), tool_context.function_call_id)
            agent = tool_context.agent_name
            watch.begins("tool", key, agent=agent, name=tool.name, args=dict(tool_args))


class AfterCalls:
    """Notes the end of each model and tool call, before other plugins change the answer; see
    BasePlugin."""

    before_calls: Any
    """The BeforeCalls of the same Runner, set by `instrument`."""

    async def after_model_callback(self, *, callback_context: Any, **fields: Any) -> None:
        """Note a model's answer or error."""
        if watch := server.CURRENT.get():
            answer = fields.get("llm_response")
            if answer is not None or errors.status_of(fields.get("error")):
                self.before_calls.retry_options = retry_options()
            # before callbacks of the agent change it, and also for agents within tools, whose
            # events are not sent
            watch.ends(
                "model",
                _key(callback_context),
                usage=_usage_fields(answer),
                response=answer,
                error=fields.get("error"),
            )

    async def after_tool_callback(self, *, tool_context: Any, **fields: Any) -> None:
        """Note a tool's answer or error."""
        if watch := server.CURRENT.get():
            key = (_key(tool_context), tool_context.function_call_id)
            watch.ends("tool", key, response=fields.get("result"), error=fields.get("error"))

    on_model_error_callback = after_model_callback
    on_tool_error_callback = after_tool_callback


def _key(context: Any) -> tuple[str, str]:
    """Identifies a model call: in an invocation, an agent makes one after another."""
    return context.invocation_id, context.agent_name


@cache
def retry_options() -> Any:
    """The retry options of ADK's evaluation for model requests, or None if google-genai is too old
    for them."""
    from google.genai import types

    options_class = getattr(types, "HttpRetryOptions", None)
    if options_class is None:
        return None
    # the statuses and the growing delays are google-genai's defaults
    return options_class(attempts=7, initial_delay=5.0, max_delay=120.0)


# --- loading the agent as `adk eval` and `adk web` do ---


@dataclass(frozen=True)
class ImportedAgent:
    """An agent as its module has it."""

    root_agent: Any
    """The agent to run; one inside the tree if the options name it."""
    app: Any
    """None if the package has only a root agent."""
    name: str
    """Of the module."""
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Its resources."""


async def load_agent(path: str, *, agent_name: str | None, root: str) -> ImportedAgent:
    """The agent at `path` below the checkout `root`. `agent_name` names another attribute, or an
    agent in the tree.

    Raises errors.LoadFailed."""
    try:
        home = modules.locate(path, root)
    except FileNotFoundError as error:
        raise errors.LoadFailed(str(error)) from error
    load_environment(home.own_folder, root)
    try:
        import google.adk  # noqa: F401 - checks that it is installed
    except ImportError as error:
        raise errors.LoadFailed.of(error, "google-adk") from error
    closing = AsyncExitStack()
    subject = f"the agent {path!r}"
    try:
        package = modules.import_home(home)
        places = modules_of(package)
        app, root_agent = await find(places, home.own_folder, agent_name, closing)
    except errors.LoadFailed:
        raise
    except BaseException as error:
        raise errors.LoadFailed.of(error, subject) from error
    if root_agent is None:
        raise errors.LoadFailed(no_agent_message(home.own_folder, path, agent_name))
    if not is_agent(root_agent):
        raise errors.LoadFailed(
            f"{subject}: the root agent is not an ADK agent, but of type {type(root_agent).__name__}"
        )
    return ImportedAgent(root_agent=root_agent, app=app, name=home.name, closing=closing)


def is_agent(value: Any) -> bool:
    """True if a value may be an ADK agent: it has a name, and is neither a class nor a module."""
    return hasattr(value, "name") and not isinstance(value, (type, ModuleType))


def load_environment(folder: str, root: str) -> None:
    """Set the variables of the nearest `.env`, from the agent's folder up to the checkout's root.
    Other settings of a variable win."""
    if os.environ.get("ADK_DISABLE_LOAD_DOTENV", "").lower() in ("1", "true"):
        return
    while True:
        file = os.path.join(folder, ".env")
        if os.path.isfile(file):
            break
        parent = os.path.dirname(folder)
        if folder in (root, parent):
            return
        folder = parent
    try:
        from dotenv import load_dotenv
    except ImportError:
        sys.stderr.write(f"{file} was not read: python-dotenv is not installed\n")
        return
    load_dotenv(file, override=False)


async def find(
    places: Iterable[Any], folder: str, agent_name: str | None, closing: AsyncExitStack
) -> tuple[Any, Any]:
    """The app, if any, and the agent that one of the places (modules, as a rule) has, or the YAML
    file in the package's `folder`; None for an agent that is nowhere. `closing`: gets what the
    agent opens. Raises errors.LoadFailed if its tree has no `agent_name`."""
    for module in places:
        attribute = getattr(module, agent_name, None) if agent_name else None
        if attribute is not None and not isinstance(attribute, ModuleType):
            return _split_app(attribute)
        app, agent = _split_app(await _app_or_agent(module, closing))
        if agent is not None:
            return app, find_sub_agent(agent, agent_name)
    for name in ("root_agent.yaml", "root_agent.yml"):
        file = os.path.join(folder, name)
        if os.path.isfile(file):
            from google.adk.agents import config_agent_utils

            return None, find_sub_agent(config_agent_utils.from_config(file), agent_name)
    return None, None


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    """The modules to look in, imported as late as possible: `agent` of the package first, as in
    ADK."""
    submodule = getattr(package, "agent", None)
    has_agent = hasattr(package, "root_agent") or hasattr(package, "get_agent_async")
    if (
        not isinstance(submodule, ModuleType)
        and not has_agent
        and not _is_app(getattr(package, "app", None))
    ):
        for folder in getattr(package, "__path__", ()):
            file = os.path.join(folder, "agent")
            if os.path.isfile(f"{file}.py") or os.path.isfile(os.path.join(file, "__init__.py")):
                submodule = importlib.import_module(f"{package.__name__}.agent")
                break
    if isinstance(submodule, ModuleType):
        yield submodule
    yield package


async def _app_or_agent(module: ModuleType, closing: AsyncExitStack) -> Any:
    """What a module has; None if nothing."""
    app = getattr(module, "app", None)
    if _is_app(app) or hasattr(module, "root_agent"):
        return app if _is_app(app) else module.root_agent
    if not hasattr(module, "get_agent_async"):
        return None
    agent_or_pair = await _await_result(module.get_agent_async())
    agent, stack = agent_or_pair if isinstance(agent_or_pair, tuple) else (agent_or_pair, None)
    if hasattr(stack, "aclose"):
        closing.push_async_callback(stack.aclose)
    return agent


def _split_app(app_or_agent: Any) -> tuple[Any, Any]:
    """An App and its root agent; None and the agent if there is no App."""
    return (
        (app_or_agent, app_or_agent.root_agent) if _is_app(app_or_agent) else (None, app_or_agent)
    )


def _is_app(candidate: Any) -> bool:
    """True for an App, by the class's module and name: importing google.adk.apps costs time, and
    old versions have none."""
    return any(
        base.__name__ == "App" and base.__module__.startswith("google.adk.")
        for base in type(candidate).__mro__
    )


def find_sub_agent(agent: Any, agent_name: str | None) -> Any:
    """The agent of this name in the tree of `agent`, which it is itself if no name is given. Raises
    errors.LoadFailed."""
    if not agent_name or getattr(agent, "name", None) == agent_name:
        return agent
    sub_agent = agent.find_agent(agent_name) if hasattr(agent, "find_agent") else None
    if sub_agent is None:
        names = ", ".join(
            repr(str(getattr(node, "name", "")))
            for node in description.tree(agent, with_tools=False)
        )
        raise errors.LoadFailed(f"no agent {agent_name!r}: the agent tree has {names}")
    return sub_agent


def no_agent_message(folder: str, path: str, agent_name: str | None) -> str:
    """The message that the agent's package has no agent; `path`: as the user named it."""
    missing_names = "neither app, root_agent nor get_agent_async" + (
        f", nor {agent_name!r}," if agent_name else ""
    )
    files = ", ".join(
        sorted(name for name in os.listdir(folder) if name.endswith((".py", ".yaml")))
        or ["no Python file"]
    )
    return f"the agent {path!r} cannot be loaded: {missing_names} in its package, and no root_agent.yaml (it has {files})"


# --- tools that block ---


class ToolThread:
    """A thread that runs plain functions one after another. It starts with the first one."""

    def __init__(self) -> None:
        """Starts no thread: most conversations call no plain function."""
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._is_started = False
        self._open_count = 0
        """Functions that have not ended."""

    def submit(self, call: Callable[[], object]) -> None:
        """Run `call`, which raises nothing, after all earlier ones."""
        if not self._is_started:
            threading.Thread(target=self._run, name="tools", daemon=True).start()
            self._is_started = True
        self._calls.put(call)

    def _run(self) -> None:
        """Run the submitted calls, until the process ends."""
        while True:
            self._calls.get()()

    async def result(self, function: Callable[[], Any]) -> Any:
        """The function's result. Raises its errors. A function that has not begun when its turn is
        given up does not run."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def end(settle: Callable[[], object]) -> None:
            """In the loop's thread: count the function as ended, and settle a future that still
            waits."""
            self._open_count -= 1
            if not future.done():
                settle()

        def call() -> None:
            """In the tool thread: run the function, unless its turn was given up meanwhile."""
            settle: Callable[[], object] = future.cancel
            try:
                if not future.cancelled():
                    settle = partial(future.set_result, errors.call(function))
            except BaseException as error:
                settle = partial(future.set_exception, error)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end, settle)

        self.submit(call)
        self._open_count += 1
        return await future

    def join(self, idle_threads: list[ToolThread]) -> None:
        """Join the idle threads as soon as the last function has ended."""
        if self._open_count:
            self.submit(partial(idle_threads.append, self))
        else:
            idle_threads.append(self)


TOOL_THREAD: contextvars.ContextVar[ToolThread | None] = contextvars.ContextVar(
    "evalgate_thread", default=None
)
"""The thread of the running conversation."""


def run_plain_tools_in_threads() -> None:
    """Run each plain function in its conversation's thread, so that it blocks only that
    conversation.

    It finds the running loop there: an error under `adk eval` stays an error here."""
    from google.adk.tools.function_tool import FunctionTool

    # the only place where google-adk, since 1.14, calls functions
    original = getattr(FunctionTool, "_invoke_callable", None)
    if original is None:
        return

    async def _invoke_callable(self: Any, target: Any, args_to_call: Any) -> Any:
        """google-adk's method, with a plain function replaced by a coroutine that waits for its
        thread."""
        thread = TOOL_THREAD.get()
        loop = asyncio.get_running_loop()
        coroutine = inspect.iscoroutinefunction
        is_async = coroutine(target) or coroutine(getattr(target, "__call__", None))  # noqa: B004 - reads the method
        if thread is None or is_async or "nest_asyncio" in sys.modules:
            return await original(self, target, args_to_call)
        select_function = getattr(self, "_get_compatible_func", None)
        function = (
            select_function() if select_function is not None and target is self.func else target
        )

        def call(arguments: Message) -> Any:
            """Run the function in this thread as if in the loop's: it finds the loop running."""
            asyncio._set_running_loop(loop)  # noqa: SLF001 - see above
            try:
                return function(**arguments)
            finally:
                asyncio._set_running_loop(None)  # noqa: SLF001 - see above

        async def in_thread(**arguments: Any) -> Any:
            """The function's result, from the conversation's thread, with the context of this
            task."""
            return await thread.result(partial(contextvars.copy_context().run, call, arguments))

        return await original(self, in_thread, args_to_call)

    FunctionTool._invoke_callable = _invoke_callable  # noqa: SLF001 - as above


def share_connections() -> None:
    """Allow connections of sqlite3 in any thread. Call this before the agent is imported."""
    try:
        import sqlite3
    except ImportError:
        return
    connect = sqlite3.connect

    @wraps(connect)
    def connect_for_any_thread(*args: Any, **options: Any) -> Any:
        """`sqlite3.connect` without the check of threads, unless the caller sets it."""
        return connect(
            *args, **({"check_same_thread": False, **options} if len(args) < 5 else options)
        )

    sqlite3.connect = sqlite3.dbapi2.connect = connect_for_any_thread


# --- conversations ---


class AdkSession:
    """One conversation. Sessions share only the agent's own Python objects.

    ADK shares one session service among all cases, so `user:` and `app:` state outlives the case
    that set it."""

    def __init__(self, host: Host, start: Message) -> None:
        """`start`: the message `start`, whose ids, state and earlier turns may be missing."""
        from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
        from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
        from google.adk.runners import Runner
        from google.adk.sessions.in_memory_session_service import InMemorySessionService

        self._ids = {
            "app_name": start.get("app_name") or host.default_app,
            "user_id": start.get("user_id") or "test_user_id",
            "session_id": start.get("session_id") or f"evalgate-{uuid.uuid4()}",
        }
        """Of the session; the service decides on `session_id`."""
        self._start = start
        self._host = host
        self._root_agent = host.loaded.root_agent
        self._names = {
            str(agent.name) for agent in description.tree(self._root_agent, with_tools=False)
        }
        """Of all agents in the tree."""
        self._thread = host.idle_threads.pop() if host.idle_threads else ToolThread()
        """For plain functions: one of an ended conversation, if there is any."""
        self._leave_thread = weakref.finalize(self, self._thread.join, host.idle_threads)
        """Works once: at the end, or when nobody holds the session any more."""
        self.live = False
        """See server.Session."""
        self._service = InMemorySessionService()
        with warnings.catch_warnings():
            # `plugins`, as google-adk's own evaluation passes them: a test may make warnings errors
            warnings.simplefilter("ignore", DeprecationWarning)
            self._runner = Runner(
                **_target(host.loaded, host.plugins, self._ids["app_name"]),
                session_service=self._service,
                artifact_service=host.artifact_service or InMemoryArtifactService(),
                memory_service=InMemoryMemoryService(),
            )

    async def open(self) -> AdkSession:
        """Create the session with its initial state."""
        state = self._start.get("state") or {}
        session = await _await_result(self._service.create_session(**self._ids, state=state))
        self._ids["session_id"] = session.id
        await self._replay_history(session)
        return self

    async def _replay_history(self, session: Any) -> None:
        """Put earlier turns into the session without running them. The author of a step is the
        agent that is active then."""
        from google.genai import types

        agent = str(self._root_agent.name)
        for number, turn in enumerate(self._start.get("history") or ()):
            user_content = {**(turn.get("user_content") or {}), "role": "user"}
            events = (turn.get("intermediate_data") or {}).get("invocation_events") or ()
            steps = [("user", user_content)]
            steps += [(event.get("author"), event.get("content") or {}) for event in events]
            if turn.get("final_response"):
                steps.append(("", turn["final_response"]))
            for author, content_json in steps:
                is_known = author in self._names or content_json is user_content
                content = types.Content.model_validate(content_json)
                await self._append(
                    session,
                    author if is_known else agent,
                    content,
                    invocation_id=f"evalgate-before-{number + 1}",
                )
                for part in content.parts or ():
                    call = part.function_call
                    if call and call.name == "transfer_to_agent":
                        next_agent = (call.args or {}).get("agent_name")
                        agent = next_agent if next_agent in self._names else agent

    async def _append(self, session: Any, author: str, content: Any = None, **fields: Any) -> None:
        """Add an event to the session."""
        from google.adk.events.event import Event

        await _await_result(
            self._service.append_event(session, Event(author=author, content=content, **fields))
        )

    async def set(self, state: Message, agent: str) -> None:
        """Set session variables, and give the turn to another agent: the last speaker gets the next
        turn. Raises ValueError if no agent has this name."""
        from google.adk.events.event_actions import EventActions
        from google.genai import types

        if agent and agent not in self._names:
            names = ", ".join(sorted(self._names))
            raise ValueError(
                f"the case gives the turn to the agent {agent!r}, and there are only: {names}"
            )
        session = await self._read_session()
        if state:
            await self._append(session, "user", actions=EventActions(state_delta=state))
        if agent:
            await self._append(
                session, agent, types.Content(role="model", parts=[types.Part(text="(takes over)")])
            )

    async def _read_session(self, **config: Any) -> Any:
        """The session as the service has it; `config`: for `get_session`."""
        return await _await_result(self._service.get_session(**self._ids, **config))

    async def _read_state(self) -> Message:
        """The session's state, without ADK's temporary keys."""
        from google.adk.sessions.base_session_service import GetSessionConfig

        # else it would copy every event
        session = await self._read_session(config=GetSessionConfig(num_recent_events=0))
        if session is None:
            return {}
        return {
            "state": {
                key: value for key, value in session.state.items() if not key.startswith("temp:")
            }
        }

    async def turn(self, content: Message, emit: Emit) -> Message:
        """Run one turn and give every event and every record to `emit` at once.

        Raises the agent's errors, and errors.ModelAnsweredError if a model's outage is the last
        event."""
        from google.genai import types

        message = types.Content.model_validate({**content, "role": content.get("role") or "user"})
        watch = server.TurnWatch()
        if self._host.is_traced or self.live:
            watch.trace = trace.Recorder(watch.started, emit)
            watch.trace.agents(self._root_agent)
        server.CURRENT.set(watch)
        TOOL_THREAD.set(self._thread)
        authors: list[str] = []
        error_event: Any = None  # the last event with an error, if no content follows
        invocation_id = ""
        async for event in self._events(message):
            invocation_id = invocation_id or event.invocation_id
            if self.live:
                await self._show(event, emit)
            if event.partial:
                continue
            if event.content and event.content.parts:
                error_event = None
            elif event.error_code:
                error_event = event
            authors.append(event.author)
            at = round(time.monotonic() - watch.started, 3)
            if watch.trace is not None:
                watch.trace.event(event, at=at)
            emit({**_event(event), "at": at})
        if (
            error_event is not None
            and errors.name_of_code(error_event.error_code) not in errors.STOPS
        ):
            raise errors.ModelAnsweredError(error_event.error_code, error_event.error_message)
        answer = present(
            timings=watch.timings(),
            invocation_id=invocation_id,
            agents=watch.agents(authors),
            model_calls=list(watch.usage.values()),
        )
        if self._start.get("states") or self.live:
            answer.update(await self._read_state())
        return answer

    async def _events(self, message: Any) -> AsyncGenerator[Any, None]:
        """The events of a turn. If `approve` is set, google-adk's own questions are answered, and
        the turn goes on."""
        from google.adk.agents.run_config import RunConfig, StreamingMode
        from google.genai import types

        # in pieces, if somebody watches
        config: Message = {"streaming_mode": StreamingMode.SSE} if self.live else {}
        if "telemetry" in RunConfig.model_fields:
            from google.adk.telemetry.context import TelemetryConfig

            config["telemetry"] = TelemetryConfig()  # else each step makes its own
        for _ in range(tools.MOST_ROUNDS):
            answers: Message = {}
            async for event in self._runner.run_async(
                user_id=self._ids["user_id"],
                session_id=self._ids["session_id"],
                new_message=message,
                run_config=RunConfig(**config),
            ):
                yield event
                for call in event.get_function_calls() if self._host.approve else ():
                    response = tools.approval_of(call, is_approved=self._host.approve == "always")
                    if call.id in (event.long_running_tool_ids or ()) and response is not None:
                        answers[call.id] = types.FunctionResponse(
                            id=call.id, name=call.name, response=response
                        )
            if not answers:
                return
            parts = [types.Part(function_response=answer) for answer in answers.values()]
            message = types.Content(role="user", parts=parts)

    async def _show(self, event: Any, emit: Emit) -> None:
        """Give `emit` the messages for people: pieces of texts, and saved files."""
        if event.partial:
            emit({**_event(event), "partial": True})
        for name, version in event.actions.artifact_delta.items():
            part = await self._runner.artifact_service.load_artifact(
                **self._ids, filename=name, version=version
            )
            message = {"type": "artifact", "name": name, "version": version}
            part_json = dump_model(part)
            emit(message if len(str(part_json)) > MOST_ARTIFACT else {**message, "part": part_json})

    async def end(self) -> Message:
        """The session's state at the end."""
        self._leave_thread()
        return await self._read_state()


async def _await_result(reply: Any) -> Any:
    """The result of google-adk's session service, which is no coroutine before 1.0, or of an
    agent's own function."""
    return await reply if inspect.isawaitable(reply) else reply


def _target(loaded: ImportedAgent, plugins: tuple[Any, ...], app_name: str) -> Message:
    """The Runner's target: the App with its plugins between our two, or the bare agent."""
    if loaded.app is None:
        return {
            "app_name": app_name,
            "agent": loaded.root_agent,
            **present(plugins=[*plugins]),
        }
    all_plugins = [*plugins[:1], *loaded.app.plugins, *plugins[1:]]
    update = {"name": app_name, "root_agent": loaded.root_agent, "plugins": all_plugins}
    return {"app": loaded.app.model_copy(update=update)}


def _event(event: Any) -> Message:
    """The fields of a protocol event."""
    fields = {"author": event.author, "final": bool(event.is_final_response())}
    for name in ("content", "usage_metadata", "grounding_metadata"):
        if (value := getattr(event, name, None)) is not None:
            fields[name] = dump_model(value)
    if getattr(event, "model_version", None):  # since google-adk 1.18
        fields["model_version"] = event.model_version
    if getattr(event, "error_code", None):
        fields["error_code"] = errors.name_of_code(event.error_code)
        fields["error_message"] = str(event.error_message or "")
    return fields


def _usage_fields(source: Any) -> Message:
    """The tokens and the model in a model's answer or event."""
    usage = getattr(source, "usage_metadata", None)
    if usage is None:
        return {}
    model = getattr(source, "model_version", None)  # since google-adk 1.18
    return {"usage_metadata": dump_model(usage), **present(model_version=model)}


async def prewarm() -> None:
    """Take every step of a turn once, with our own agent. Errors are only printed.

    google-adk imports hundreds of modules during the first turn (more than a second). The first
    case's duration would include this, and several conversations would wait for it at once."""
    try:
        host = Host()
        host.take(ImportedAgent(_prewarm_agent(), app=None, name="prewarm"), {})
        session = await host.open({}, None)
        await session.turn({"parts": [{"text": "warm up"}]}, lambda _: None)
    except Exception as error:
        sys.stderr.write(f"warming up failed: {errors.sentence(error)}\n")


def _prewarm_agent() -> Any:
    """An agent whose model calls the tool once, then answers, without a network."""
    from google.adk.agents.llm_agent import LlmAgent
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    class PrewarmLlm(BaseLlm):  # type: ignore[misc]  # google-adk is not installed where types are checked
        """A model that is no service."""

        model: str = "prewarm"
        """A required field of BaseLlm; no model has this name."""

        async def generate_content_async(
            self,
            llm_request: Any,
            stream: bool = False,  # noqa: ARG002, FBT001, FBT002 - google-adk's signature
        ) -> AsyncGenerator[Any, None]:
            """A call of the tool, and after its response a text."""
            is_answered = any(
                part.function_response
                for content in llm_request.contents
                for part in content.parts or ()
            )
            call = types.Part(function_call=types.FunctionCall(name="prewarm_tool", args={}))
            part = types.Part(text="warm") if is_answered else call
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=1, candidates_token_count=1, total_token_count=2
            )
            yield LlmResponse(
                content=types.Content(role="model", parts=[part]), usage_metadata=usage
            )

    return LlmAgent(
        name="prewarm", model=PrewarmLlm(), instruction="Warm up.", tools=[prewarm_tool]
    )


def prewarm_tool() -> dict[str, str]:
    """Do nothing."""
    return {}


# --- the host ---


class Host(server.Host):
    """See server.Host."""

    asks = True
    takes_history = True
    loaded: ImportedAgent
    """Set by `take`."""
    plugins: tuple[Any, ...]
    """The first and the last of each runner."""
    artifact_service: Any = None
    """None: each session has its own."""

    def __init__(self) -> None:
        """Imports nothing: the options come with `load`."""
        self._patches = Patches()
        self.idle_threads: list[ToolThread] = []
        """Of ended conversations; later ones use them."""

    async def load(self, options: Message) -> dict[str, str]:
        """Import the agent. Raises errors.LoadFailed."""
        root = os.getcwd()
        path = options.get("path") or "."
        gc.set_threshold(LOADING_OBJECTS, 10, 10)
        modules.add_folders(options.get("import_roots") or ())
        if options.get("threads"):
            share_connections()
        loaded = await load_agent(path, agent_name=options.get("agent"), root=root)
        if options.get("threads"):
            run_plain_tools_in_threads()
        about = self.take(loaded, options)
        await prewarm()
        skip_unused_services()
        skip_unrecorded_descriptions()
        if gc.get_threshold()[0] == LOADING_OBJECTS:  # the agent has no settings of its own
            gc.set_threshold(10_000, 10, 10)
        return about

    def take(self, loaded: ImportedAgent, options: Message) -> dict[str, str]:
        """Serve this agent; what to say about it."""
        from google.adk.version import __version__

        tools.guard_services(loaded.root_agent, self._patches)
        self.loaded = loaded
        self.is_traced = bool(options.get("trace"))
        self.approve = options.get("approve") or ""
        self.plugins = instrument()
        self.default_app = options.get("app_name") or loaded.name.rpartition(".")[2]

        return {
            "framework": "google-adk",
            "framework_version": str(__version__),
            "agent": str(loaded.root_agent.name),
        }

    def agents(self) -> list[Message]:
        """The parts of the agent."""
        return [*map(description.describe, description.tree(self.loaded.root_agent))]

    def models(self) -> list[str]:
        """The models of the agent and its sub-agents."""
        return description.models(self.loaded.root_agent)

    async def open(self, start: Message, session_tools: SessionTools | None) -> Any:
        """A new session."""
        if session_tools is not None:
            tools.ask_before_tools(self._patches)
        return await AdkSession(self, start).open()

    async def close(self) -> None:
        """Close the resources of `get_agent_async` and the agents' toolsets, once."""
        self._patches.close()
        await self.loaded.closing.aclose()
        for service in tools.services(self.loaded.root_agent):
            if hasattr(service, "get_tools"):
                await service.close()
