"""Any Python callable as an agent: finds it, opens its sessions."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import platform
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from . import errors, modules, server
from .tools import SessionTools, Tools

Message = dict[str, Any]
Emit = Callable[[Message], None]

OFFERED = ("text", "content", "messages", "state", "session_id", "tools")
EVENT_KEYS = frozenset({
    "author", "text", "content", "tool_call", "tool_response", "usage_metadata", "model_version", "grounding_metadata",
    "final",
})  # fmt: skip
RESULT_KEYS = frozenset({"text", "tool_calls", "state", "usage_metadata", "model_version"})
POOL = ThreadPoolExecutor(max_workers=16, thread_name_prefix="agent")


@dataclass(frozen=True)
class Signature:
    """Which of OFFERED the callable takes, in its own order of keywords; `first`: its first
    argument is the text."""

    keywords: tuple[str, ...]
    first: bool
    session_class: bool


def signature_of(callee: Any) -> Signature:
    """The signature. Raises TypeError for unknown required parameters."""
    session_class = inspect.isclass(callee)
    if session_class and not any("__call__" in vars(base) for base in callee.__mro__):
        raise TypeError(f"an object of class {callee.__name__} is not callable")
    function = callee.__call__ if session_class else callee
    parameters = list(inspect.signature(function).parameters.values())
    if session_class:
        parameters = parameters[1:]
    first = bool(parameters) and parameters[0].name not in OFFERED
    keywords = []
    for index, parameter in enumerate(parameters):
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or (
            first and index == 0
        ):
            continue
        if parameter.name in OFFERED:
            keywords.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise TypeError(
                f"unknown parameter {parameter.name!r}; an agent can take {', '.join(OFFERED)}"
            )
    return Signature(keywords=tuple(keywords), first=first, session_class=session_class)


class CallSession:
    """One conversation: its state, its history, and for a class its own instance."""

    def __init__(
        self,
        callee: Any,
        signature: Signature,
        start: Message,
        session_tools: SessionTools | None = None,
    ) -> None:
        self._callee = callee() if signature.session_class else callee
        self._signature = signature
        self._state: Message = start.get("state") or {}
        self._session_id = start.get("session_id") or f"evalgate-{uuid.uuid4()}"
        self._messages: list[Message] = []
        self._tells_state = bool(start.get("states"))
        for turn in start.get("history") or ():
            self._messages.append({"role": "user", "text": text_of(turn.get("user_content") or {})})
            self._messages.append(
                {"role": "model", "text": text_of(turn.get("final_response") or {})}
            )
        self._tools = Tools(session_tools)

    async def set(self, state: Message, agent: str) -> None:
        """Set session variables. Raises ValueError where another agent is to take the turn: here is
        only one."""
        if agent:
            raise ValueError(
                f"the case gives the turn to the agent {agent!r}, and a callable has no agents"
            )
        self._state.update(state)

    async def turn(self, content: Message, emit: Emit) -> Message:
        """Call it with what it asks for; every event goes to `emit`. Raises what the callable
        raises."""
        started = time.monotonic()
        text = text_of(content)
        self._messages.append({"role": "user", "text": text})
        recorder = Recorder(emit, self._state)
        positional = [text] if self._signature.first else []
        offered = {
            "text": text,
            "content": content,
            "messages": list(self._messages),
            "state": self._state,
            "session_id": self._session_id,
            "tools": self._tools,
        }
        keywords = {name: offered[name] for name in self._signature.keywords}
        await _run(self._callee, positional, keywords, recorder)
        self._messages.append({"role": "model", "text": recorder.answer})
        ended: Message = {"timings": {"total_s": round(time.monotonic() - started, 3)}}
        return {**ended, "state": self._state} if self._tells_state else ended

    async def end(self) -> Message:
        """The state as it stands."""
        return {"state": self._state}


async def _run(callee: Any, positional: list[Any], keywords: Message, recorder: Recorder) -> None:
    functions = (callee, getattr(callee, "__call__", None))  # noqa: B004 - its method is looked at, not whether it has one
    if any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in functions
    ):
        result = callee(*positional, **keywords)
        if inspect.isasyncgen(result):
            async for item in result:
                recorder.event(item)
            return
        recorder.result(await result)
        return
    awaitable = await asyncio.get_running_loop().run_in_executor(
        POOL, _call, callee, positional, keywords, recorder
    )
    if awaitable is not None:
        recorder.result(await awaitable)


def _call(callee: Any, positional: list[Any], keywords: Message, recorder: Recorder) -> Any:
    """In a thread: a plain function, which may also be a generator, or hand back something to
    await."""
    result = callee(*positional, **keywords)
    if inspect.isawaitable(result):
        return result
    if inspect.isgenerator(result):
        for item in result:
            recorder.event(item)
        return None
    recorder.result(result)
    return None


class Recorder:
    """Turns what the callable gives into protocol events."""

    def __init__(self, emit: Emit, state: Message) -> None:
        self._emit = emit
        self._state = state
        self.answer = ""

    def result(self, value: Any) -> None:
        """What was returned: a text, nothing, or a dict of RESULT_KEYS. Raises TypeError for
        anything else."""
        if value is None:
            return
        if isinstance(value, str):
            self.event(value)
            return
        if not isinstance(value, dict):
            raise TypeError(
                f"the agent returned {type(value).__name__}; it must return a string, a dict or None"
            )
        _refuse_unknown(value, RESULT_KEYS, "returned")
        for call in value.get("tool_calls") or ():
            self._tool(call)
        extras = {key: value[key] for key in ("usage_metadata", "model_version") if value.get(key)}
        if value.get("text") is not None or extras:
            self.event({"text": value.get("text") or "", **extras})
        if value.get("state") is not None:
            self._state.update(value["state"])

    def event(self, value: Any) -> None:
        """What was yielded: a text, or a dict of EVENT_KEYS. The last text is the answer. Raises
        TypeError."""
        event = {"text": value} if isinstance(value, str) else value
        if not isinstance(event, dict):
            raise TypeError(
                f"the agent yielded {type(value).__name__}; it must yield strings or dicts"
            )
        _refuse_unknown(event, EVENT_KEYS, "yielded")
        content = event.get("content") or {"role": "model", "parts": _parts(event)}
        text = text_of(content)
        sent = {
            key: event[key]
            for key in ("usage_metadata", "model_version", "grounding_metadata")
            if event.get(key)
        }
        is_answer = bool(event.get("final", bool(text) and not _has_tools(content)))
        if is_answer:
            self.answer = text
        self._emit(
            {
                "author": event.get("author") or "agent",
                "content": content,
                "final": is_answer,
                **sent,
            }
        )

    def _tool(self, call: Any) -> None:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise TypeError(
                "each item of tool_calls must be a dict with a name and optionally args, id and response"
            )
        call_fields = {
            key: call[key] for key in ("id", "name", "args") if call.get(key) is not None
        }
        self.event({"tool_call": {"args": {}, **call_fields}})
        if call.get("response") is not None:
            call_identity = {key: call[key] for key in ("id", "name") if call.get(key) is not None}
            response = (
                call["response"]
                if isinstance(call["response"], dict)
                else {"result": call["response"]}
            )
            self.event({"tool_response": {**call_identity, "response": response}})


def _parts(event: Message) -> list[Message]:
    parts: list[Message] = []
    if event.get("tool_call"):
        parts.append({"function_call": event["tool_call"]})
    if event.get("tool_response"):
        parts.append({"function_response": event["tool_response"]})
    if event.get("text"):
        parts.append({"text": str(event["text"])})
    return parts


def _has_tools(content: Message) -> bool:
    names = {"function_call", "functionCall", "function_response", "functionResponse"}
    return any(names & part.keys() for part in content.get("parts") or ())


def _refuse_unknown(value: Message, valid_keys: frozenset[str], verb: str) -> None:
    unknown = sorted(str(key) for key in value.keys() - valid_keys)
    if unknown:
        raise TypeError(
            f"the agent {verb} unknown keys {', '.join(unknown)}; known keys: {', '.join(sorted(valid_keys))}"
        )


def text_of(content: Message) -> str:
    """The texts of a content, one per line; thoughts are left out."""
    parts = content.get("parts") or ()
    return "\n".join(
        str(part["text"]) for part in parts if part.get("text") and not part.get("thought")
    )


class Host(server.Host):
    """See server.Host."""

    def __init__(self) -> None:
        self._callee: Any = None
        self._signature: Signature | None = None

    @property
    def takes_history(self) -> bool:
        """True if the callable takes `messages`: else it knows only its own turn."""
        return self._signature is not None and "messages" in self._signature.keywords

    @property
    def asks(self) -> bool:
        """True if the callable takes `tools`: nothing else can be asked about."""
        return self._signature is not None and "tools" in self._signature.keywords

    async def load(self, options: Message) -> dict[str, str]:
        """Import the callable; raises errors.LoadFailed."""
        call = str(options.get("call") or "")
        root = os.getcwd()
        roots = [
            os.path.abspath(options.get("path") or "."),
            root,
            *(options.get("import_roots") or ()),
        ]
        modules.add_folders(tuple(dict.fromkeys(roots)))
        try:
            self._callee = find(call)
            self._signature = signature_of(self._callee)
        except BaseException as error:
            raise errors.LoadFailed.of(error, f"the agent {call!r}") from error
        return {
            "framework": "python",
            "python": platform.python_version(),
            "interpreter": sys.executable,
            "agent": call,
        }

    async def open(self, start: Message, session_tools: SessionTools | None) -> Any:
        """A fresh session."""
        assert self._signature is not None
        return CallSession(self._callee, self._signature, start, session_tools)


def find(call: str) -> Any:
    """The function or class at `module:attribute`; for a method, a class whose objects are called
    by it. Raises ValueError, TypeError and whatever the module raises."""
    target = attribute(call)
    owner_path, _, name = call.rpartition(".")
    owner = attribute(owner_path) if ":" in owner_path else None
    if inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, name)):
        return type(owner.__name__, (owner,), {"__call__": target})
    if not callable(target):
        raise TypeError(f"{call} is a {type(target).__name__} and cannot be called")
    return target


def attribute(call: str) -> Any:
    """The object at `module:attribute`. Raises ValueError, AttributeError and whatever the module
    raises."""
    module_name, _, path = call.partition(":")
    if not module_name or not path:
        raise ValueError(f"{call!r} is not of the form module:function")
    target: Any = importlib.import_module(module_name)
    for name in path.split("."):
        if not hasattr(target, name):
            raise AttributeError(f"{module_name} has no {path!r}")
        target = getattr(target, name)
    return target
