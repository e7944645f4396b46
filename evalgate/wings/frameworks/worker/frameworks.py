"""Agents of frameworks that are not ADK: what their adapters share. Each has a module of its own
beside this one."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import inspect
import json
import os
import platform
import re
import sys
import threading
import typing
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ClassVar

from evalgate.worker import description, errors, modules, pipe, python, server, tools

Message = dict[str, Any]

THREADS = 64  # a tool that blocks holds one of them, and no other conversation


class FrameworkSession(ABC):
    """One conversation. The framework defines how a turn is run; its events are reported here, from
    any thread.

    `agent`: as it was found. `context`: given to its tools. `state`: the session's, from its first
    to its last."""

    def __init__(
        self,
        agent: Any,
        options: Message,
        start: Message,
        session_tools: tools.SessionTools | None,
        context: Any,
    ) -> None:
        self.agent = agent
        self.options = options
        self.asked = session_tools
        self.state: Message = start.get("state") or {}
        self.context = self.state if context is None else context
        self.session_id = start.get("session_id") or f"evalgate-{uuid.uuid4()}"
        self.user_id = start.get("user_id") or "test_user_id"
        self.watch = server.TurnWatch()
        self.broken: Exception | None = None
        self._instructions: dict[str, str] = {}
        self._emit: Callable[[Message], None] = print
        self._held: Message = {}
        self._issued = 0
        self._lock = threading.Lock()

    @abstractmethod
    async def ask(self, text: str) -> Any:
        """Run a turn; the answer. Raises what the agent raises."""

    async def turn(self, content: Message, emit: Callable[[Message], None]) -> Message:
        """See server.Session."""
        if any(not isinstance(part.get("text"), str) for part in content.get("parts") or ()):
            raise ValueError(
                "the user's turn holds more than text, and agents of this framework are given texts only"
            )
        self.watch, self._emit, self._held, self._instructions = server.TurnWatch(), emit, {}, {}
        server.CURRENT.set(self.watch)
        CURRENT.set(self)
        answer = answer_text(await self.ask(python.text_of(content)))
        if self.broken is not None:
            raise self.broken
        self._answered(answer)
        agents = [{"name": name, "instructions": text} for name, text in self._instructions.items()]
        usages = list(self.watch.usage.values())
        ended = {"timings": self.watch.timings(), "agents": agents, "model_calls": usages}
        return {name: value for name, value in ended.items() if value}

    async def end(self) -> Message:
        """See server.Session."""
        state = self.context if isinstance(self.context, dict) else self.state
        return {"state": pipe.to_json(state)}

    # --- what happens in a turn ---

    def model_begins(
        self, key: Any, author: str = "agent", instructions: str | None = None
    ) -> None:
        """An agent asks its model, with these `instructions`."""
        self.watch.model_begins(key, author, None)
        self.instructed(author, instructions)

    def instructed(self, author: str, instructions: str | None) -> None:
        """Note an agent's instructions; the first of a turn count."""
        if instructions:
            self._instructions.setdefault(author, instructions)

    def record_answer(
        self,
        key: Any,
        text: str,
        usage: Message | None,
        *,
        model: Any = "",
        calls: Any = (),
        author: str = "agent",
    ) -> None:
        """A model has answered; this is reported with its first tool call, or as the answer, or
        alone."""
        self.watch.model_answers(key, model if isinstance(model, str) else "")
        fields: Message = {"usage_metadata": usage} if usage else {}
        if isinstance(model, str) and model:
            fields["model_version"] = model
        pending_answer = {"author": author, "text": text, "calls": calls, "told": fields}
        with self._lock:
            previous_answer = self._held
            self._held = pending_answer
        self._tell(previous_answer)

    @contextmanager
    def tool(self, name: str, args: Any, number: str | None = None) -> Iterator[Message]:
        """Around a tool that runs: reports its call, and the `response` that is put into the
        yielded dict."""
        call = self.tool_begins(name, args, number)
        outcome: Message = {}
        try:
            yield outcome
        except Exception as error:
            outcome["response"] = {"error": errors.sentence(error)}
            raise
        finally:
            if "response" in outcome:
                self.tool_ends(call, name, outcome["response"])

    def tool_begins(
        self, name: str, args: Any, number: str | None = None, *, late: bool = False
    ) -> str:
        """A tool is called; the name of the call. `late`: the model has said something else
        since."""
        with self._lock:
            self._issued += 1
            number = number or f"call-{self._issued}"
            pending_answer: Message = {}
            if not late:
                pending_answer = self._held
                self._held = {}
        call = {
            "function_call": {"id": number, "name": name, "args": pipe.to_json(dict(args or {}))}
        }
        parts = [{"text": pending_answer["text"]}, call] if pending_answer.get("text") else [call]
        self._event(
            parts, author=pending_answer.get("author") or "agent", fields=pending_answer.get("told")
        )
        self.watch.tool_begins(number, name)
        return number

    def tool_ends(self, number: str, name: str, response: Any) -> None:
        """It has answered, or raised."""
        self.watch.tool_ends(number)
        response = pipe.to_json(response)
        answer = response if isinstance(response, dict) else {"result": response}
        self._event([{"function_response": {"id": number, "name": name, "response": answer}}])

    async def run_tool(
        self,
        name: str,
        args: Any,
        run: Callable[[], Awaitable[Any]],
        *,
        number: str = "",
        kind: str = "tool",
    ) -> Any:
        """Run a tool, asking about it first if wanted, and report it."""
        with self.tool(name, args, number) as outcome:
            result = await (
                run() if self.asked is None else self.asked.ask(name, args, kind).settle(run)
            )
            outcome["response"] = result
            return result

    def run_tool_here(
        self, name: str, args: Any, run: Callable[[], Any], *, number: str = "", kind: str = "tool"
    ) -> Any:
        """The same in a thread, which waits."""
        with self.tool(name, args, number) as outcome:
            result = run() if self.asked is None else self.asked.ask(name, args, kind).wait(run)
            outcome["response"] = result
            return result

    async def run_tool_as(
        self,
        name: str,
        args: Any,
        real: Callable[[], Awaitable[Any]],
        *,
        read: Callable[[Any], Any],
        make: Callable[[Any], Any],
        number: str = "",
    ) -> Any:
        """Run a tool whose framework wraps answers: `read` unwraps one, `make` wraps one that a
        rule or a cassette gives."""
        answers: list[Any] = []

        async def run() -> Any:
            answers.append(await real())
            return read(answers[0])

        answer = await self.run_tool(name, args, run, number=number)
        return answers[0] if answers else make(answer)

    def refuse(self, name: str, args: Any, number: str, error: str) -> None:
        """A call of a tool that is not there, as its model learns afterwards."""
        number = self.tool_begins(name, args, number, late=True)
        if self.asked is None:
            self.tool_ends(number, name, {"error": error})

    def _answered(self, answer: str) -> None:
        pending_answer = self._held
        self._held = {}
        if pending_answer.get("text") and pending_answer["text"].strip() != answer.strip():
            self._tell(pending_answer)
            pending_answer = {}
        if answer:
            self._event(
                [{"text": answer}],
                author=pending_answer.get("author") or "agent",
                final=True,
                fields=pending_answer.get("told"),
            )
        else:
            self._tell(pending_answer)

    def _tell(self, pending_answer: Message) -> None:
        """An answer of a model that no tool followed: its text, or the calls that were none of a
        tool."""
        text = pending_answer and (
            pending_answer["text"]
            or (
                json.dumps(pipe.to_json(pending_answer["calls"])) if pending_answer["calls"] else ""
            )
        )
        if text:
            self._event(
                [{"text": text}], author=pending_answer["author"], fields=pending_answer["told"]
            )

    def _event(
        self,
        parts: list[Message],
        *,
        author: str = "agent",
        final: bool = False,
        fields: Message | None = None,
    ) -> None:
        content = {"role": "model", "parts": parts}
        self._emit({"author": author, "content": content, "final": final, **(fields or {})})


CURRENT: ContextVar[FrameworkSession | None] = ContextVar("evalgate_session", default=None)
"""The conversation that the running task works for."""


_INSIDE: ContextVar[frozenset[tuple[int, str]]] = ContextVar("evalgate_inside", default=frozenset())

Around = Callable[[FrameworkSession, Any, Callable[[], Any], Message], Awaitable[Any]]
"""What runs in place of a method: the conversation, the object, the method, its arguments."""


def classes_below(kind: Any) -> Iterator[Any]:
    """A class and all that are made of it."""
    yield kind
    for subclass in kind.__subclasses__():
        yield from classes_below(subclass)


def intercept(kind: Any, name: str, around: Around) -> None:
    """From now on, run `around` in place of an async method of a class and of those below it.

    A method that calls its super's is met once; one that streams its answer is not."""
    for subclass in classes_below(kind):
        real = vars(subclass).get(name)
        if real is not None and not hasattr(real, "intercepts"):
            setattr(subclass, name, _intercepted(real, name, around))


def _intercepted(real: Any, name: str, around: Around) -> Any:
    signature = inspect.signature(real)

    @wraps(real)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        session = CURRENT.get()
        key = (id(self), name)
        if session is None or key in _INSIDE.get() or options.get("stream"):
            return real(self, *args, **options)
        arguments = signature.bind(self, *args, **options).arguments

        async def run() -> Any:
            token = _INSIDE.set(_INSIDE.get() | {key})
            try:
                return await around(session, self, lambda: real(self, *args, **options), arguments)
            finally:
                _INSIDE.reset(token)

        return run()

    method.intercepts = True  # type: ignore[attr-defined]  # marks it
    return method


def intercept_here(kind: Any, name: str, around: Callable[..., Any]) -> None:
    """The same for a plain method, in a thread that may wait."""
    for subclass in classes_below(kind):
        real = vars(subclass).get(name)
        if real is not None and not hasattr(real, "intercepts"):
            setattr(subclass, name, _intercepted_here(real, name, around))


def _intercepted_here(real: Any, name: str, around: Callable[..., Any]) -> Any:
    signature = inspect.signature(real)

    @wraps(real)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        session = CURRENT.get()
        key = (id(self), name)
        if session is None or key in _INSIDE.get():
            return real(self, *args, **options)
        token = _INSIDE.set(_INSIDE.get() | {key})
        try:
            arguments = signature.bind(self, *args, **options).arguments
            return around(session, self, lambda: real(self, *args, **options), arguments)
        finally:
            _INSIDE.reset(token)

    method.intercepts = True  # type: ignore[attr-defined]  # marks it
    return method


def named_arguments(text: Any) -> Message:
    """A model's arguments of a call: a dict, or JSON of one."""
    try:
        arguments = json.loads(text or "{}") if isinstance(text, str) else text
    except ValueError:
        arguments = text
    return dict(arguments) if isinstance(arguments, Mapping) else {"input": arguments}


def answer_text(answer: Any) -> str:
    """What an agent answers, as text: an object as its JSON."""
    if answer is None or isinstance(answer, str):
        return answer or ""
    value = pipe.to_json(answer)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def usage_of(
    prompt_tokens: Any, answered: Any, *, cached: Any = None, thoughts: Any = None
) -> Message | None:
    """Token counts as in ADK, with thoughts separate from the answer; None if nothing was
    counted."""
    if not prompt_tokens and not answered:
        return None
    counts = {
        "prompt_token_count": prompt_tokens,
        "candidates_token_count": answered,
        "cached_content_token_count": cached,
    }
    if isinstance(prompt_tokens, int) and isinstance(answered, int):
        counts["total_token_count"] = prompt_tokens + answered
        if thoughts:
            counts.update(candidates_token_count=answered - thoughts, thoughts_token_count=thoughts)
    return {name: count for name, count in counts.items() if count is not None}


class FrameworkHost(server.Host, ABC):
    """See server.Host. `package`: its name in an index, with the versions that are supported, `low`
    <= it < `high`."""

    asks = True
    package: ClassVar[str]
    low: ClassVar[str]
    high: ClassVar[str]
    session: ClassVar[type[FrameworkSession]]
    alone: ClassVar[bool] = False
    """An agent that is one object for all holds one conversation at a time."""

    def __init__(self) -> None:
        self.options: Message = {}
        self._found: Any = None
        self._context: Any = None

    @abstractmethod
    def is_agent(self, candidate: Any) -> bool:
        """True if an object is an agent of the framework, not a factory of one."""

    @abstractmethod
    def prepare(self) -> None:
        """Have tool calls reported; called once after the agent's modules are imported."""

    async def load(self, options: Message) -> dict[str, str]:
        """Import the agent; raises errors.LoadFailed."""
        self.options = options
        call = str(options.get("call") or "")
        version = self._version()
        roots = [
            os.path.abspath(options.get("path") or "."),
            os.getcwd(),
            *(options.get("import_roots") or ()),
        ]
        modules.add_folders(tuple(dict.fromkeys(roots)))
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(THREADS, thread_name_prefix="agent")
        )
        try:
            self._found = python.attribute(call)
            if options.get("context"):
                self._context = python.attribute(options["context"])
            self.prepare()
            if self.is_agent(self._found):
                self.take(self._found)
            elif not callable(self._found):
                raise TypeError(f"it is a {type(self._found).__name__}, no agent of {self.package}")
        except BaseException as error:
            raise errors.LoadFailed.of(error, f"the agent {call!r}") from error
        return {
            "framework": self.package,
            "framework_version": version,
            "python": platform.python_version(),
            "interpreter": sys.executable,
            "agent": call,
        }

    def models(self) -> list[str]:
        """The agent's model."""
        return description.models(self._found)

    def context_class(self, agent: Any) -> Any:  # noqa: ARG002 - frameworks that have one look at it
        """The class of what an agent's tools are given; None if it names none."""
        return None

    def take(self, agent: Any) -> None:  # noqa: ARG002 - frameworks that reset their agents look at it
        """The agent is one object for all conversations."""
        if self.alone:
            self.sessions = 1

    def _version(self) -> str:
        specifier = f"{self.package}>={self.low},<{self.high}"
        try:
            version = importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            message = f"{self.package} is not installed for {sys.executable}: add `{specifier}` to the requirements"
            raise errors.LoadFailed(message) from None
        if not _numbers(self.low) <= _numbers(version) < _numbers(self.high):
            raise errors.LoadFailed(
                f"{self.package} {version} is installed for {sys.executable}, and this driver is made for {specifier}: "
                "install such a version, or use `driver: python` with a function of your own (docs/agents/python.md)"
            )
        return version

    async def open(self, start: Message, session_tools: tools.SessionTools | None) -> Any:
        """A fresh session."""
        context = await make_object(self._context, start.get("state") or {})
        agent = self._found
        if not self.is_agent(agent):
            agent = await make_object(agent, start.get("state") or {})
            if not self.is_agent(agent):
                call = self.options.get("call")
                raise TypeError(f"{call} gave a {type(agent).__name__}, no agent of {self.package}")
        if context is None:
            context = build_context(self.context_class(agent), start.get("state") or {})
        return self.session(agent, self.options, start, session_tools, context)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


async def make_object(maker: Any, state: Message) -> Any:
    """The result of a function or class, given the session's state if it takes an argument; other
    objects as they are.

    A plain function runs in a thread: it may block."""
    if not (inspect.isroutine(maker) or inspect.isclass(maker)):
        return maker
    needed = [
        parameter
        for parameter in inspect.signature(maker).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    result = await asyncio.to_thread(maker, *([state] if needed else []))
    return await result if inspect.isawaitable(result) else result


def build_context(kind: Any, state: Message) -> Any:
    """An object of the class that tools are given, made of the session's state; None if a dict will
    do. Raises TypeError if the state lacks something."""
    if not inspect.isclass(kind) or kind.__module__ == "builtins" or typing.is_typeddict(kind):
        return None
    parameters = inspect.signature(kind).parameters.values()
    needed = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in state
    ]
    if needed:
        raise TypeError(
            f"the agent's tools are given a {kind.__name__}, which needs {', '.join(needed)}: name the object, or a "
            "function that makes it, with `context: module:name` beside `call`, or set them in the case's session state"
        )
    names = [parameter.name for parameter in parameters]
    return kind(**{name: state[name] for name in names if name in state})
