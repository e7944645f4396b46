"""Any Python callable as an agent: finds it, opens its sessions, and answers what a program asks of
the person at its terminal."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import importlib.util
import inspect
import io
import os
import re
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from contextvars import ContextVar
from typing import Any

from . import errors, modules, server
from .pipe import Emit, Message
from .tools import SessionTools, Tools

ARGUMENTS = ("text", "content", "messages", "state", "session_id", "tools")
"""Names of parameters that an agent may have; each gets its value by name."""
EVENT_KEYS = frozenset({
    "author", "text", "content", "tool_call", "tool_response", "usage_metadata", "model_version", "grounding_metadata",
    "final",
})  # fmt: skip
"""Keys of a dict that an agent yields."""
RESULT_KEYS = frozenset({"text", "tool_calls", "state", "usage_metadata", "model_version"})
"""Keys of a dict that an agent returns."""
TOOL_PARTS = {"function_call", "functionCall", "function_response", "functionResponse"}
"""Keys of parts that are calls or responses, in snake case and in camel case."""
POOL = ThreadPoolExecutor(max_workers=16, thread_name_prefix="agent")
"""For plain functions: a thread for each of the 16 conversations that a host has at once."""


def signature_of(callee: Any) -> tuple[list[str], bool]:
    """The arguments that a function, an object or a class takes: names from ARGUMENTS, passed by
    name, and whether the first argument is the text. Raises TypeError for an unknown required
    parameter."""
    session_class = inspect.isclass(callee)
    if session_class and not any("__call__" in vars(base) for base in callee.__mro__):
        raise TypeError(f"an object of class {callee.__name__} is not callable")
    function = callee.__call__ if session_class else callee
    parameters = list(inspect.signature(function).parameters.values())
    if session_class:
        parameters = parameters[1:]
    takes_text = bool(parameters) and parameters[0].name not in ARGUMENTS
    keywords = []
    for parameter in parameters[1:] if takes_text else parameters:
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.name in ARGUMENTS:
            keywords.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise TypeError(
                f"unknown parameter {parameter.name!r}; an agent can take {', '.join(ARGUMENTS)}"
            )
    return keywords, takes_text


class CallSession:
    """One conversation: its state and its history. A class gets an instance per conversation."""

    def __init__(
        self,
        callee: Any,
        signature: tuple[list[str], bool],
        start: Message,
        session_tools: SessionTools | None,
    ) -> None:
        """`callee`: if it is a class, this conversation gets an object of it. `signature`: see
        `signature_of`."""
        self._callee = callee() if inspect.isclass(callee) else callee
        self._keywords, self._takes_text = signature
        self._state: Message = start.get("state") or {}
        self._session_id = start.get("session_id") or f"evalgate-{uuid.uuid4()}"
        self._messages = [
            {"role": role, "text": text_of(turn.get(part) or {})}
            for turn in start.get("history") or ()
            for role, part in (("user", "user_content"), ("model", "final_response"))
        ]
        """The conversation until now, as dicts with `role` and `text`."""
        self._tells_state = bool(start.get("states"))
        """True if the answer to each turn has the state."""
        self._tools = Tools(session_tools)

    async def set(self, state: Message, agent: str) -> None:
        """Set session variables. Raises ValueError if the case names another agent, because a
        callable is the only one."""
        if agent:
            raise ValueError(
                f"the case gives the turn to the agent {agent!r}, and a callable has no agents"
            )
        self._state.update(state)

    async def turn(self, content: Message, emit: Emit) -> Message:
        """Call it with the arguments that it takes, and give every event to `emit`. Returns the
        fields of `turn_end`. Raises the callable's errors."""
        start_time = time.monotonic()
        text = text_of(content)
        self._messages.append({"role": "user", "text": text})
        recorder = Recorder(emit, self._state)
        positional = [text] if self._takes_text else []
        arguments = {
            "text": text,
            "content": content,
            "messages": list(self._messages),
            "state": self._state,
            "session_id": self._session_id,
            "tools": self._tools,
        }
        keywords = {name: arguments[name] for name in self._keywords}
        await _run(self._callee, positional, keywords, recorder)
        self._messages.append({"role": "model", "text": recorder.answer})
        turn_fields = {"timings": {"total_s": round(time.monotonic() - start_time, 3)}}
        return {**turn_fields, "state": self._state} if self._tells_state else turn_fields

    async def end(self) -> Message:
        """The state at the end."""
        return {"state": self._state}


async def _run(callee: Any, positional: list[Any], keywords: Message, recorder: Recorder) -> None:
    """Call it, as a coroutine or in a thread, and record what it yields or returns."""
    candidates = (callee, getattr(callee, "__call__", None))  # noqa: B004 - its method is looked at, not whether it has one
    if any(
        inspect.iscoroutinefunction(candidate) or inspect.isasyncgenfunction(candidate)
        for candidate in candidates
    ):
        answer = callee(*positional, **keywords)
    else:
        answer = await asyncio.get_running_loop().run_in_executor(
            POOL, errors.call, _call, callee, positional, keywords, recorder
        )
    if inspect.isasyncgen(answer):
        async for event in answer:
            recorder.event(event)
    elif answer is not None:
        recorder.result(await answer)


def _call(callee: Any, positional: list[Any], keywords: Message, recorder: Recorder) -> Any:
    """Call a plain function in this thread. It may be a generator, or return an awaitable, which is
    returned."""
    answer = callee(*positional, **keywords)
    if inspect.isawaitable(answer):
        return answer
    if inspect.isgenerator(answer):
        for event in answer:
            recorder.event(event)
        return None
    recorder.result(answer)
    return None


class Recorder:
    """Turns the callable's output into protocol events."""

    def __init__(self, emit: Emit, state: Message) -> None:
        """`state`: the session's, which a returned `state` updates."""
        self._emit = emit
        self._state = state
        self.answer = ""
        """The last text that is an answer."""

    def result(self, answer: Any) -> None:
        """Record a returned text, None, or dict of RESULT_KEYS. Raises TypeError for anything
        else."""
        if answer is None:
            return
        if isinstance(answer, str):
            self.event(answer)
            return
        if not isinstance(answer, dict):
            raise TypeError(
                f"the agent returned {type(answer).__name__}; it must return a string, a dict or None"
            )
        _refuse_unknown(answer, RESULT_KEYS, "returned")
        for call in answer.get("tool_calls") or ():
            self._tool(call)
        extras = {
            key: answer[key] for key in ("usage_metadata", "model_version") if answer.get(key)
        }
        if answer.get("text") is not None or extras:
            self.event({"text": answer.get("text") or "", **extras})
        if answer.get("state") is not None:
            self._state.update(answer["state"])

    def event(self, output: Any) -> None:
        """Record a yielded text, or dict of EVENT_KEYS. The last text is the answer. Raises
        TypeError for anything else."""
        event = {"text": output} if isinstance(output, str) else output
        if not isinstance(event, dict):
            raise TypeError(
                f"the agent yielded {type(output).__name__}; it must yield strings or dicts"
            )
        _refuse_unknown(event, EVENT_KEYS, "yielded")
        content = event.get("content") or {"role": "model", "parts": _parts(event)}
        text = text_of(content)
        details = {
            key: event[key]
            for key in ("usage_metadata", "model_version", "grounding_metadata")
            if event.get(key)
        }
        has_tools = any(TOOL_PARTS & part.keys() for part in content.get("parts") or ())
        is_answer = bool(event.get("final", bool(text) and not has_tools))
        if is_answer:
            self.answer = text
        self._emit(
            {
                "author": event.get("author") or "agent",
                "content": content,
                "final": is_answer,
                **details,
            }
        )

    def _tool(self, call: Any) -> None:
        """Record a call that the callable's answer lists, with its response if it has one."""
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise TypeError(
                "each item of tool_calls must be a dict with a name and optionally args, id and response"
            )
        keys = ("id", "name", "args", "response")
        fields = {key: call[key] for key in keys if call.get(key) is not None}
        response = fields.pop("response", None)
        self.event({"tool_call": {"args": {}, **fields}})
        if response is not None:
            fields.pop("args", None)
            response = response if isinstance(response, dict) else {"result": response}
            self.event({"tool_response": {**fields, "response": response}})


def _parts(event: Message) -> list[Message]:
    """The parts that an event's short keys stand for, in the order call, response, text."""
    names = (("tool_call", "function_call"), ("tool_response", "function_response"))
    parts = [{name: event[key]} for key, name in names if event.get(key)]
    return [*parts, {"text": str(event["text"])}] if event.get("text") else parts


def _refuse_unknown(fields: Message, valid_keys: frozenset[str], verb: str) -> None:
    """Raise TypeError for keys that are not valid."""
    unknown = sorted(str(key) for key in fields.keys() - valid_keys)
    if unknown:
        raise TypeError(
            f"the agent {verb} unknown keys {', '.join(unknown)}; known keys: {', '.join(sorted(valid_keys))}"
        )


def text_of(content: Message) -> str:
    """The texts of a content, one per line, without thoughts."""
    parts = content.get("parts") or ()
    return "\n".join(
        str(part["text"]) for part in parts if part.get("text") and not part.get("thought")
    )


PROGRAM = ":__main__"
"""The end of the `call` of a program."""


def add_folders(options: Message) -> None:
    """Import from the folder in the options, the working directory and the repository's roots."""
    roots = [
        os.path.abspath(options.get("path") or "."),
        os.getcwd(),
        *(options.get("import_roots") or ()),
    ]
    modules.add_folders(roots)


class Host(server.Host):
    """See server.Host."""

    async def load(self, options: Message) -> dict[str, str]:
        """Import the callable; raises errors.LoadFailed."""
        call = options["call"]
        add_folders(options)
        try:
            if call.endswith(PROGRAM):
                self.sessions = 1
                self._callee = answering(call.removesuffix(PROGRAM))
            else:
                self._callee = find(call)
            self._signature = signature_of(self._callee)
        except BaseException as error:
            raise errors.LoadFailed.of(error, f"the agent {call!r}") from error
        keywords, _ = self._signature
        # without earlier messages it knows only the current turn
        self.takes_history = "messages" in keywords
        # other calls cannot be intercepted
        self.asks = "tools" in keywords
        return {"framework": "python", "agent": call}

    async def open(self, start: Message, session_tools: SessionTools | None) -> Any:
        """A fresh session."""
        return CallSession(self._callee, self._signature, start, session_tools)


def find(call: str) -> Any:
    """The function or class at `module:attribute`. A method becomes a class whose objects call it,
    or a function, if its object is made of the text.

    Raises ValueError, TypeError and the module's errors."""
    target = attribute(call)
    owner_path, _, name = call.rpartition(".")
    owner = attribute(owner_path) if ":" in owner_path else None
    if inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, name)):
        parameters = inspect.signature(owner).parameters.values()
        if any(
            parameter.default is parameter.empty
            and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            for parameter in parameters
        ):
            maker: Any = owner
            return lambda text: target(maker(text))
        return type(owner.__name__, (owner,), {"__call__": target})
    if not callable(target):
        raise TypeError(f"{call} is a {type(target).__name__} and cannot be called")
    return target


def attribute(call: str) -> Any:
    """The object at `module:attribute`. Raises ValueError, AttributeError and the module's
    errors."""
    module_name, _, path = call.partition(":")
    if not module_name or not path:
        raise ValueError(f"{call!r} is not of the form module:function")
    target: Any = importlib.import_module(module_name)
    for name in path.split("."):
        if not hasattr(target, name):
            raise AttributeError(f"{module_name} has no {path!r}")
        target = getattr(target, name)
    return target


# --- programs: what they ask of the person at their terminal, `input()` and an argument ---


TYPIST: ContextVar[Callable[[], str] | None] = ContextVar("evalgate_typist", default=None)
"""Gives the texts that are typed in this context."""

_ARGUMENT = re.compile(
    r"\bargv\[1|\badd_argument\(\s*[\"'][^\"'-](?![^)]*nargs=[\"'][?])"
    r"|\bclick\.argument\((?![^)]*required=False)|\btyper\.Argument\("
)
"""Source code that requires an argument, by `sys.argv`, argparse, click or typer."""


class ProgramEnded(BaseException):
    """Ends a program. It is no Exception, because programs catch these."""


def serve_input() -> None:
    """Have a context's typist answer `input()`."""
    if hasattr(builtins.input, "has_typist"):
        return
    ask = builtins.input

    def typed(*arguments: Any) -> str:
        """The next text of the context's typist; without one, the answer to the original
        `input()`."""
        typist = TYPIST.get()
        return ask(*arguments) if typist is None else typist()

    typed.has_typist = True  # type: ignore[attr-defined]  # marks it
    builtins.input = typed


def takes_argument(module: str) -> bool:
    """True if a module, by its source, requires an argument that is no option, or reads
    `sys.argv[1]`. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name=module)
    with open(spec.origin, encoding="utf-8", errors="replace") as file:
        return _ARGUMENT.search(file.read()) is not None


def run_program(module: str, typist: Callable[[], str], *, has_argument: bool) -> None:
    """Run a module as a program to which `typist` types, until it ends or the typist ends it.
    Raises the program's errors and its SystemExit."""
    import runpy

    TYPIST.set(typist)
    sys.argv[1:] = [typist()] if has_argument else []
    with suppress(ProgramEnded):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def answering(module: str) -> Callable[[str], str]:
    """A function that runs a module as a program to which the text is typed, until it asks again,
    and returns what it prints."""
    serve_input()
    has_argument = takes_argument(module)

    def answer(text: str) -> str:
        """The output of one run of the program. Raises RuntimeError if it fails, or never asks."""
        texts = [text]

        def typist() -> str:
            """The text, once; a second question ends the program."""
            if not texts:
                raise ProgramEnded
            return texts.pop()

        output = io.StringIO()
        try:
            with redirect_stdout(output):
                run_program(module, typist, has_argument=has_argument)
        except SystemExit as end:
            if end.code:
                raise RuntimeError(
                    f"{module} ended with {end.code!r}: {output.getvalue()}"
                ) from end
        if texts:
            raise RuntimeError(f"{module} asked for no text")
        return output.getvalue().strip()

    return answer
