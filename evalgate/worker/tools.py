"""The agent's tools: asks evalgate about each call, and follows the answer.

Google ADK's tools are intercepted. A Python callable asks with its `tools` object."""

from __future__ import annotations

import asyncio
import builtins
import copy
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

from . import description, errors, pipe
from .pipe import Emit, Message, dump_model, present, to_json

JSON_TYPES = (str, int, float, bool, dict, list)
"""Results of these types are sent without `{"result": ...}` around them."""


class ToolRefused(Exception):  # noqa: N818 - it says what happened
    """Nothing answers this call, and it must not run."""


class SessionTools:
    """The tool calls of one session; used from the event loop and from the threads of plain
    functions."""

    def __init__(self, send: Emit, session: str) -> None:
        """`send`: works in any thread."""
        self._send = send
        self._session = session
        self._lock = threading.Lock()
        self._pending_answers: dict[str, Future[Message]] = {}
        """By the number of the call, such as `t1`."""
        self._call_count = 0
        self._is_closed = False
        self.asked_names: set[str] = set()
        """Of all calls until now."""
        self.listings: dict[str, list[Any]] = {}
        """The tools of remote toolsets, by the name of the listing."""

    def ask(self, name: str, args: Any, kind: str = "tool") -> Call:
        """Ask about a call. `kind`: `tool`, `agent` or `listing`. Raises ToolRefused if the
        conversation is over."""
        answer: Future[Message] = Future()
        with self._lock:
            if self._is_closed:
                raise ToolRefused(f"the conversation was over when the tool {name!r} was called")
            self._call_count += 1
            number = f"t{self._call_count}"
            self._pending_answers[number] = answer
            self.asked_names.add(name)
        self._send(
            {
                "type": "tool_call",
                "session": self._session,
                "call": number,
                "name": name,
                "args": to_json(dict(args or {})),
                "kind": kind,
            }
        )
        return Call(self, answer)

    def deliver(self, message: Message) -> None:
        """Pass an answer to its waiting call."""
        with self._lock:
            answer = self._pending_answers.pop(message["call"], None)
        if answer is not None:
            with suppress(InvalidStateError):  # its turn was given up
                answer.set_result(message)

    def report(self, answer: Message, fields: Message) -> None:
        """Send the result of a call that ran, if evalgate's answer asks for it."""
        if answer.get("report"):
            message = {"type": "tool_result", "session": self._session, "call": answer["call"]}
            self._send({**message, **fields})

    def close(self) -> None:
        """End the session. Waiting and later calls are refused."""
        with self._lock:
            self._is_closed = True
            pending_answers, self._pending_answers = list(self._pending_answers.values()), {}
        for answer in pending_answers:
            with suppress(InvalidStateError):
                answer.set_result({"refused": "the conversation is over"})


class Call:
    """One call that evalgate decides on."""

    def __init__(self, session: SessionTools, answer: Future[Message]) -> None:
        """`answer`: set when evalgate answers, or when the session is over."""
        self._session = session
        self._answer = answer

    def wait(self, run: Callable[[], Any]) -> Any:
        """The call's result: evalgate's answer, or the result of `run`. Raises what the tool
        raises, and ToolRefused."""
        answer = self._answer.result()
        if not answer.get("run"):
            return result_of(answer)
        try:
            result = run()
        except Exception as error:
            self._session.report(answer, failure(error))
            raise
        self._session.report(answer, {"response": result_json(result)})
        return result

    async def settle(
        self,
        run: Callable[[], Awaitable[Any]],
        *,
        effects: Callable[[], Message] = dict,
        apply: Callable[[Message], object] = dict,
    ) -> Any:
        """`wait` for coroutines. `effects` returns the call's other effects, `apply` repeats
        recorded ones."""
        answer = await asyncio.wrap_future(self._answer)
        if not answer.get("run"):
            apply(answer.get("effects") or {})
            return result_of(answer)
        try:
            result = await run()
        except Exception as error:
            self._session.report(answer, {**failure(error), **present(effects=effects())})
            raise
        self._session.report(
            answer, {"response": result_json(result), **present(effects=effects())}
        )
        return result


def result_of(answer: Message) -> Any:
    """The tool's result in evalgate's answer. Raises the tool's error in it, and ToolRefused."""
    if "refused" in answer:
        raise ToolRefused(answer["refused"])
    if "error" in answer:
        raise make_error(answer["error"]["type"], answer["error"]["message"])
    return answer.get("response")


def result_json(result: Any) -> Any:
    """A result as JSON. A result of another type becomes `{"result": ...}`, as frameworks do it."""
    if result is None or isinstance(result, JSON_TYPES):
        return to_json(result)
    return {"result": to_json(result)}


def failure(error: Exception) -> Message:
    """An exception as the field `error`."""
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        message = str(error)
    except Exception:
        message = ""
    return {"error": {"type": name, "message": message}}


def make_error(name: str, message: str) -> Exception:
    """An exception with this `message`, of a class with this name. It derives from the real class
    if that is loaded here, so that the same handlers catch it.

    `simulated_tool_error` marks it: if it looks like a lost connection, a retry would not help.
    Some frameworks read an error's text from `message`."""
    module, _, class_name = name.rpartition(".")
    candidate = getattr(sys.modules.get(module) if module else builtins, class_name, None)
    base = (
        candidate if isinstance(candidate, type) and issubclass(candidate, Exception) else Exception
    )
    members = {
        "__init__": Exception.__init__,
        "__str__": lambda _: message,
        "simulated_tool_error": True,
        "message": message,
    }
    try:
        return type(class_name, (base,), members)(message)  # type: ignore[no-any-return]  # an Exception, as its base is
    except Exception:
        return RuntimeError(message)


CURRENT: ContextVar[SessionTools | None] = ContextVar("evalgate_tools", default=None)
"""The tools of the running task's session; None if tools run without questions."""


class Patches(ExitStack):
    """Attributes that a host replaces while it serves its agent; `close` puts them back."""

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class, or of an object, whatever fields its class allows."""
        change, delete = (
            (setattr, delattr)
            if isinstance(owner, type)
            else (object.__setattr__, object.__delattr__)
        )
        own = vars(owner)
        if name in own:
            self.callback(change, owner, name, own[name])
        else:
            self.callback(delete, owner, name)
        change(owner, name, value)


# --- google-adk: after the agent's own callbacks, before the tool ---

ADK = "google.adk."
"""The beginning of google-adk's module names."""
AGENT_MODULES = frozenset(
    ADK + module
    for module in (
        "agents.llm.task._finish_task_tool", "tools._node_tool", "tools._request_input_tool", "tools.agent_tool",
        "tools.example_tool", "tools.exit_loop_tool", "tools.get_user_choice_tool", "tools.load_artifacts_tool",
        "tools.load_memory_tool", "tools.preload_memory_tool", "tools.set_model_response_tool",
        "tools.transfer_to_agent_tool",
    )
)  # fmt: skip
"""Modules whose tools are steps of the agent itself. They reach no backend, and the agent cannot
work without them."""

FLAGS = ("skip_summarization", "transfer_to_agent", "escalate")
"""Fields of google-adk's EventActions that a tool may set, besides the state."""


def ask_before_tools(patches: Patches) -> None:
    """Ask about every tool call of every runner in this process.

    Each runner calls its plugins before each tool call. Here the tool's own `run_async` gets the
    question, so that callbacks run as always: those before the tool may answer in its place, those
    after it and those for errors see the answer of the recording or the rule."""
    from google.adk.plugins.plugin_manager import PluginManager

    original = PluginManager.run_before_tool_callback
    if getattr(original, "asks", False):
        return

    async def run_before_tool_callback(self: Any, *, tool: Any, **options: Any) -> Any:
        """google-adk's method, which guards the tool first."""
        guard(tool, patches)
        return await original(self, tool=tool, **options)

    run_before_tool_callback.asks = True  # type: ignore[attr-defined]  # the mark
    patches.set(PluginManager, "run_before_tool_callback", run_before_tool_callback)


def guard(tool: Any, patches: Patches) -> None:
    """Put a question before the tool's `run_async`, once. Copies of a tool (with prefixed names)
    get their own question."""
    run = tool.run_async
    owner = getattr(run, "asks_for", None)
    if owner is tool:
        return
    original = run if owner is None else run.original

    async def run_async(*, args: Any, tool_context: Any, **options: Any) -> Any:
        """The tool's answer, by evalgate's decision if this session asks."""
        session_tools = CURRENT.get()
        if session_tools is None:
            return await original(args=args, tool_context=tool_context, **options)
        old_actions = _action_fields(tool_context.actions)
        return await session_tools.ask(tool.name, args, kind_of(tool)).settle(
            lambda: original(args=args, tool_context=tool_context, **options),
            effects=lambda: _effects_of(old_actions, tool_context.actions),
            apply=lambda effects: _apply_effects(effects, tool_context),
        )

    run_async.asks_for = tool  # type: ignore[attr-defined]  # its owner
    run_async.original = original  # type: ignore[attr-defined]  # for copies
    patches.set(tool, "run_async", run_async)


def kind_of(tool: Any) -> str:
    """`agent` for a step of the agent itself, else `tool`."""
    modules = {base.__module__ for base in type(tool).__mro__}
    modules.add(getattr(getattr(tool, "func", None), "__module__", ""))
    return "agent" if modules & AGENT_MODULES else "tool"


def _action_fields(actions: Any) -> Message:
    """A copy of the actions that a call may change."""
    delta = actions.state_delta
    try:
        delta = copy.deepcopy(delta)
    except Exception:
        delta = dict(delta)
    return {"state_delta": delta, **{name: getattr(actions, name, None) for name in FLAGS}}


def _effects_of(old_actions: Message, actions: Any) -> Message:
    """The effects of a call besides its answer: the changed state, and the flags to transfer,
    escalate or end the turn."""
    new_actions = _action_fields(actions)
    old_state = old_actions["state_delta"]
    absent = object()
    changed_state = {
        key: to_json(value)
        for key, value in new_actions["state_delta"].items()
        if old_state.get(key, absent) != value
    }
    changed_flags = {
        name: new_actions[name]
        for name in FLAGS
        if new_actions[name] not in (None, old_actions[name])
    }
    return {**present(state_delta=changed_state), **changed_flags}


def _apply_effects(effects: Message, tool_context: Any) -> None:
    """Repeat recorded effects."""
    for key, value in (effects.get("state_delta") or {}).items():
        tool_context.state[key] = value
    for name in FLAGS:
        if name in effects:
            setattr(tool_context.actions, name, effects[name])


# --- google-adk: its own questions to the user, and their answers by the setting `approve` ---

MOST_ROUNDS = 20
"""Rounds of answers in one turn: an agent may ask again after each."""


def approval_of(call: Any, *, is_approved: bool) -> Message | None:
    """The response to a call, or None if neither yes nor no can answer it, as for a credential."""
    if call.name == pipe.CONFIRMATION:
        return {"confirmed": is_approved}
    if call.name != pipe.INPUT:
        return None
    arguments = call.args or {}
    schema = arguments.get("response_schema") or {}
    if "confirmed" in (schema.get("properties") or {}):
        return {"confirmed": is_approved}
    if schema.get("type") == "boolean":
        return {"result": is_approved}
    is_free = not schema or (schema.get("type") == "string" and not schema.get("enum"))
    return {"result": "yes" if is_approved else "no"} if is_free else None


# --- google-adk: remote toolsets (MCP servers), so that a replay needs no server ---

REMOTE_TOOLSETS = frozenset(
    {"McpToolset", "MCPToolset", "ToolboxToolset", "ApplicationIntegrationToolset", "APIHubToolset"}
)
"""Classes (or their bases) that ask a server for their list of tools."""

LIST_TOOLS = "list_tools"
"""The name under which evalgate is asked about a listing."""


def guard_services(root_agent: Any, patches: Patches) -> None:
    """Fail the turn (errors.ServiceDown) if a toolset cannot list its tools or a remote agent does
    not answer: without them it would be another agent. Put a question before the listing of a
    remote toolset."""
    counts: Counter[str] = Counter()
    for service in services(root_agent):
        kind = type(service).__name__
        address = errors.address_of(service)
        service_name = f"{kind} at {address}" if address else kind
        if not hasattr(service, "get_tools"):
            _guard_answers(service, service_name, patches)
            continue
        listing_name = ""
        if is_of_class(service, *REMOTE_TOOLSETS):
            counts[kind] += 1
            listing_name = kind if counts[kind] == 1 else f"{kind} {counts[kind]}"
        _guard_listing(service, service_name, listing_name, patches)


def is_of_class(value: Any, *class_names: str) -> bool:
    """True if a value's class, or a base of it, has one of these names."""
    return not {base.__name__ for base in type(value).__mro__}.isdisjoint(class_names)


def services(root_agent: Any) -> list[Any]:
    """The toolsets and the remote agents in an agent's tree, each once."""
    agents = description.tree(root_agent)
    tools = [tool for agent in agents for tool in getattr(agent, "tools", None) or ()]
    members = [
        *(agent for agent in agents if is_of_class(agent, "RemoteA2aAgent")),
        *(tool for tool in tools if is_of_class(tool, "BaseToolset")),
    ]
    return list({id(member): member for member in members}.values())


def _guard_listing(toolset: Any, service_name: str, listing_name: str, patches: Patches) -> None:
    """Replace `get_tools` of a toolset. `listing_name`: of the call that evalgate is asked about;
    "" if it is not."""
    original = toolset.get_tools

    async def list_tools(*args: Any, **options: Any) -> Any:
        """The toolset's own answer. Raises ServiceDown."""
        try:
            return await original(*args, **options)
        except Exception as error:
            raise errors.ServiceDown(service_name, "its tools", error) from error

    async def get_tools(*args: Any, **options: Any) -> Any:
        """The tools; if evalgate is asked, once per conversation."""
        session_tools = CURRENT.get()
        if session_tools is None or not listing_name:
            return await list_tools(*args, **options)
        listing = session_tools.listings.get(listing_name)
        if listing is None:
            listing = session_tools.listings[listing_name] = await _ask_for_listing(
                session_tools, listing_name, lambda: list_tools(*args, **options)
            )
        return list(listing)

    patches.set(toolset, "get_tools", get_tools)


def _guard_answers(agent: Any, service_name: str, patches: Patches) -> None:
    """Raise errors.ServiceDown if a remote agent answers with an error."""
    original = agent._run_async_impl  # noqa: SLF001 - both a sub-agent and a tool answer here

    async def run(context: Any) -> Any:
        """The remote agent's events. Raises ServiceDown for an error without content."""
        async for event in original(context):
            if event.error_message and not (event.content and event.content.parts):
                raise errors.ServiceDown(service_name, "its answer", str(event.error_message))
            yield event

    patches.set(agent, "_run_async_impl", run)


async def _ask_for_listing(session_tools: Any, name: str, list_tools: Any) -> list[Any]:
    """The tools of a remote toolset: its own, or recorded ones that cannot run."""
    tools: list[Any] = []

    async def run() -> list[Message]:
        """The descriptions of the toolset's own tools, which `tools` gets."""
        tools.extend(await list_tools())
        return [
            {
                "name": tool.name,
                "description": tool.description or "",
                "declaration": dump_model(tool._get_declaration()),  # noqa: SLF001 - only this has the text for models
                **present(is_long_running=bool(tool.is_long_running)),
            }
            for tool in tools
        ]

    descriptions = await session_tools.ask(LIST_TOOLS, {"toolset": name}, "listing").settle(run)
    return tools or [_recorded_tool(tool_description) for tool_description in descriptions or ()]


def _recorded_tool(description: Message) -> Any:
    """A tool with a recorded declaration. It never runs, because evalgate answers its calls."""
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types

    class RecordedTool(BaseTool):  # type: ignore[misc]  # google-adk is not installed where types are checked
        """A declaration without a function."""

        def _get_declaration(self) -> Any:
            """The recorded one; None if the tool had none."""
            declaration = description.get("declaration")
            return types.FunctionDeclaration.model_validate(declaration) if declaration else None

        async def run_async(self, *, args: Any, tool_context: Any) -> Any:  # noqa: ARG002 - google-adk's signature
            """Raises RuntimeError, because the function is elsewhere."""
            raise RuntimeError(
                f"the tool {self.name!r} is only known from a cassette and cannot run"
            )

    return RecordedTool(
        name=description["name"],
        description=description.get("description") or "",
        is_long_running=bool(description.get("is_long_running")),
    )


# --- Python callables ---


class Tools:
    """The tools of one conversation. Without `session_tools` they run at once."""

    def __init__(self, session_tools: SessionTools | None) -> None:
        self._session_tools = session_tools

    def call(
        self, name: str, args: Message | None = None, run: Callable[..., Any] | None = None
    ) -> Any:
        """The result of the tool `name`. `run` gets the arguments by name, and is called only if
        the call must run."""
        arguments = dict(args or {})
        run_tool = partial(_run, name, arguments, run)
        if self._session_tools is None:
            return run_tool()
        return self._session_tools.ask(name, arguments).wait(run_tool)

    async def call_async(
        self, name: str, args: Message | None = None, run: Callable[..., Any] | None = None
    ) -> Any:
        """`call` for a coroutine function."""
        arguments = dict(args or {})

        async def run_tool() -> Any:
            """The result of the function, awaited if need be."""
            result = _run(name, arguments, run)
            return await result if inspect.isawaitable(result) else result

        if self._session_tools is None:
            return await run_tool()
        return await self._session_tools.ask(name, arguments).settle(run_tool)

    def wrap(self, function: Callable[..., Any], *, name: str = "") -> Callable[..., Any]:
        """The function with a question before each call. A coroutine function stays one.

        Its arguments are sent by name, with defaults, so that `f("Oslo")` and `f(city="Oslo")` are
        one call."""
        session_tools = self._session_tools
        if session_tools is None:
            return function
        tool = name or function.__name__
        signature = inspect.signature(function)

        def arguments_of(positional: tuple[Any, ...], keywords: Message) -> Message:
            """The arguments of a call by name, with defaults."""
            bound_arguments = signature.bind(*positional, **keywords)
            bound_arguments.apply_defaults()
            return dict(bound_arguments.arguments)

        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def ask_first_async(*positional: Any, **keywords: Any) -> Any:
                """Ask, then await the function if evalgate answers so."""
                call = session_tools.ask(tool, arguments_of(positional, keywords))
                return await call.settle(lambda: function(*positional, **keywords))

            return ask_first_async

        @wraps(function)
        def ask_first(*positional: Any, **keywords: Any) -> Any:
            """Ask, then call the function if evalgate answers so."""
            return session_tools.ask(tool, arguments_of(positional, keywords)).wait(
                lambda: function(*positional, **keywords)
            )

        return ask_first


def _run(name: str, args: Message, run: Callable[..., Any] | None) -> Any:
    """The function's result. Raises TypeError if there is no function."""
    if run is None:
        raise TypeError(f"the tool {name!r} has no function to run")
    return run(**args)
