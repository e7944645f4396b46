"""The shared part of the adapters for frameworks other than ADK, and agents that only a program
makes. Each framework has its own module beside this one."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import inspect
import json
import pkgutil
import re
import sys
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, ClassVar, TypeVar, get_type_hints

from evalgate.worker import description, errors, pipe, python, server, tools

Message = dict[str, Any]
"""A JSON object on its way to or from evalgate's process."""
T = TypeVar("T")

THREADS = 64
"""A blocking tool occupies one of them, and no other conversation."""


class FrameworkSession(ABC):
    """One conversation. A framework's class runs a turn; events are reported here, from any
    thread."""

    def __init__(
        self,
        agent: Any,
        options: Message,
        start: Message,
        session_tools: tools.SessionTools | None,
        context: Any,
    ) -> None:
        """`start`: the session's id, user and state. `context`: None if the tools get the state."""
        self.agent = agent
        """As loaded; a handoff may replace it."""
        self.options = options
        """Of the driver, as evalgate.yml has them."""
        self.tools = session_tools
        """None if evalgate decides on no call: every tool runs."""
        self.state: Message = start.get("state") or {}
        """The session's state throughout the conversation."""
        self.context = self.state if context is None else context
        """The object that the tools get."""
        self.session_id = start.get("session_id") or f"evalgate-{uuid.uuid4()}"
        self.user_id = start.get("user_id") or "test_user_id"
        self.watch = server.TurnWatch()
        """The times and tokens of the current turn."""
        self.tool_error: Exception | None = None
        """An error that a framework would hide; the turn raises it."""
        self.reported_calls: set[str] = set()
        """The ids of calls in the whole conversation."""
        self._instructions: dict[str, str] = {}
        """Of the current turn, by agent."""
        self._authors: dict[Any, str] = {}
        """The agent by the key of its model call."""
        self._emit: Callable[[Message], None] = print
        """Writes an event; each turn sets it."""
        self._answer: Message = {}
        """The model's last answer, until it is reported; empty if there is none."""
        self._call_count = 0
        """For the ids of calls that the framework gives none."""
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Begin the conversation: for what a framework's class keeps of it."""
        return  # an empty method of an abstract class would be abstract

    @abstractmethod
    async def ask(self, text: str) -> Any:
        """Run a turn. Returns the answer. Raises the agent's errors."""

    async def turn(self, content: Message, emit: Callable[[Message], None]) -> Message:
        """See server.Session."""
        if any(not isinstance(part.get("text"), str) for part in content.get("parts") or ()):
            raise ValueError(
                "the user's turn holds more than text, and agents of this framework get only text"
            )
        self.watch, self._emit, self._answer, self._instructions = server.TurnWatch(), emit, {}, {}
        server.CURRENT.set(self.watch)
        CURRENT.set(self)
        answer = answer_text(await self.ask(python.text_of(content)))
        if self.tool_error is not None:
            raise self.tool_error
        pending_answer = self._answer
        self._answer = {}
        text = pending_answer.get("text") or answer
        if not answer or text.strip() != answer.strip():
            self._report_pending(pending_answer)
            pending_answer = {}
        if answer:
            self._event([{"text": answer}], pending_answer, final=True)
        agents = [{"name": name, "instructions": text} for name, text in self._instructions.items()]
        usages = list(self.watch.usage.values())
        return pipe.present(timings=self.watch.timings(), agents=agents, model_calls=usages)

    async def end(self) -> Message:
        """See server.Session."""
        return {"state": pipe.to_json(self.final_state())}

    def final_state(self) -> Any:
        """The state at the end of the conversation."""
        return self.context if isinstance(self.context, dict) else self.state

    # --- what happens in a turn ---

    def model_begins(self, *instructions: Any, author: str = "agent", key: Any = None) -> Any:
        """Note that an agent calls its model with these texts. Returns the `key` of
        `record_answer`, a new one by default."""
        key = object() if key is None else key
        self.watch.begins("model", key, agent=author)
        self._authors[key] = author
        self.note_instructions(author, instructions)
        return key

    def note_instructions(self, author: str, instructions: Iterable[Any]) -> None:
        """Note an agent's instructions. The first of a turn count."""
        if text := "\n".join(filter(None, instructions)):
            self._instructions.setdefault(author, text)

    def record_answer(
        self, key: Any, text: str, usage: Message | None, *, model: Any, calls: Any
    ) -> None:
        """Note a model's answer. It is reported with its first tool call, or as the turn's answer,
        or alone."""
        author = self._authors.get(key, "agent")
        name = model if isinstance(model, str) else ""
        self.watch.ends("model", key, name=name)
        fields = pipe.present(usage_metadata=usage, model_version=name)
        pending_answer = {"author": author, "text": text, "calls": calls, "fields": fields}
        with self._lock:
            previous_answer = self._answer
            self._answer = pending_answer
        self._report_pending(previous_answer)

    @contextmanager
    def tool(self, name: str, args: Any, number: str) -> Iterator[Message]:
        """Report the call of a tool that runs in this block, and the `response` that the block puts
        into the yielded dict."""
        call = self.tool_begins(name, args, number)
        outcome: Message = {}
        try:
            yield outcome
        except Exception as error:
            self.tool_ends(call, name, {"error": errors.sentence(error)})
            raise
        self.tool_ends(call, name, outcome["response"])

    def tool_begins(self, name: str, args: Any, number: str = "", *, late: bool = False) -> str:
        """Report a tool call. Returns its number. `late`: the model has answered again since."""
        with self._lock:
            self._call_count += 1
            self.reported_calls.add(number or "")
            number = number or f"call-{self._call_count}"
            pending_answer: Message = {}
            if not late:
                pending_answer = self._answer
                self._answer = {}
        arguments = pipe.to_json(named_arguments(args))
        call = {"function_call": {"id": number, "name": name, "args": arguments}}
        parts = [{"text": pending_answer["text"]}, call] if pending_answer.get("text") else [call]
        self._event(parts, pending_answer)
        self.watch.begins("tool", number, name=name)
        return number

    def tool_ends(self, number: str, name: str, response: Any) -> None:
        """Report a tool's answer or error, except of a tool that should have been asked about."""
        if self.tools is not None and name not in self.tools.asked_names:
            return
        self.watch.ends("tool", number)
        response = pipe.to_json(response)
        answer = response if isinstance(response, dict) else {"result": response}
        self._event([{"function_response": {"id": number, "name": name, "response": answer}}], {})

    async def run_tool(
        self,
        name: str,
        args: Any,
        run: AsyncOriginal,
        *,
        number: str = "",
        kind: str = "tool",
    ) -> Any:
        """Run a tool and report it. Ask about it first if evalgate decides on calls."""
        with self.tool(name, args, number) as outcome:
            outcome["response"] = await (
                run() if self.tools is None else self.tools.ask(name, args, kind).settle(run)
            )
        return outcome["response"]

    def run_tool_blocking(
        self, name: str, args: Any, run: Original, *, number: str = "", kind: str = "tool"
    ) -> Any:
        """`run_tool` for a tool that blocks, in the thread that calls this."""
        with self.tool(name, args, number) as outcome:
            outcome["response"] = (
                run() if self.tools is None else self.tools.ask(name, args, kind).wait(run)
            )
        return outcome["response"]

    def refuse(self, name: str, args: Any, number: str, error: str) -> None:
        """Report a call of a missing tool, after the model got the error. A call that ran is
        reported already."""
        if number in self.reported_calls:
            return
        number = self.tool_begins(name, args, number, late=True)
        self.tool_ends(number, name, {"error": error})

    def _report_pending(self, pending_answer: Message) -> None:
        """Report a model's answer that no tool call followed: its text, or its calls if no tool
        took them."""
        calls = pending_answer.get("calls")
        text = pending_answer.get("text") or (json.dumps(pipe.to_json(calls)) if calls else "")
        if text:
            self._event([{"text": text}], pending_answer)

    def _event(self, parts: list[Message], answer: Message, *, final: bool = False) -> None:
        """Report an event, with the author and the counts of the model's answer that it is from, if
        there is one."""
        content = {"role": "model", "parts": parts}
        author = answer.get("author") or "agent"
        fields = answer.get("fields", {})
        self._emit({"author": author, "content": content, "final": final, **fields})


CURRENT: ContextVar[FrameworkSession | None] = ContextVar("evalgate_session", default=None)
"""The conversation of the running task."""


_CALLS: ContextVar[frozenset[tuple[int, str]]] = ContextVar("evalgate_inside", default=frozenset())
"""The objects and methods whose calls are intercepted already: what they call of themselves or of
their super is not intercepted again."""

Original = Callable[[], Any]
"""The intercepted method with its arguments."""
AsyncOriginal = Callable[[], Awaitable[Any]]
"""The same of a coroutine function."""
Interceptor = Callable[[Any, Any, Original, Message], Any]
"""A replacement of a method. It gets the conversation, the object, the method and its arguments."""


def subclasses_of(base: Any) -> Iterator[Any]:
    """A class and all its subclasses."""
    yield base
    for subclass in base.__subclasses__():
        yield from subclasses_of(subclass)


def intercept(classes: Iterable[Any], **interceptors: Interceptor) -> None:
    """Run an interceptor in place of each of these methods of some classes: in the thread that
    calls it, or as a coroutine if it is one.

    A call that streams its answer is not intercepted."""
    for owner in classes:
        for name, interceptor in interceptors.items():
            replace_once(owner, name, _intercept_call, min(interceptors), interceptor)


def replace_once(owner: Any, name: str, make: Callable[..., Any], *more: Any) -> None:
    """Replace a method of a class, if it has one of its own, or of an object by `make(method,
    *more)`, once."""
    original = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name)
    if original is not None and not hasattr(original, "is_replaced"):
        replacement = make(original, *more)
        replacement.is_replaced = True
        setattr(owner, name, replacement)


def intercept_all(path: str, **interceptors: Interceptor) -> None:
    """`intercept` for the class at `path` (`module:name`) and its subclasses."""
    intercept(subclasses_of(pkgutil.resolve_name(path)), **interceptors)


def _intercept_call(original: Any, group: str, interceptor: Interceptor) -> Any:
    """The method with its interceptor. `group`: a name for the methods that may call each other."""
    signature = inspect.signature(original)

    @wraps(original)
    def replacement(self: Any, *args: Any, **options: Any) -> Any:
        """Run the original outside a conversation, inside another call of the group, or for a
        stream."""
        session = CURRENT.get()
        key = (id(self), group)
        original_call = partial(original, self, *args, **options)
        if session is None or key in _CALLS.get():
            return original_call()
        arguments = signature.bind(self, *args, **options).arguments
        if arguments.get("stream"):
            return original_call()
        call = partial(interceptor, session, self, original_call, arguments)

        async def await_call() -> Any:
            """The call, while the object's own calls are not intercepted."""
            with bound(_CALLS, _CALLS.get() | {key}):
                return await call()

        if inspect.iscoroutinefunction(interceptor):
            return await_call()
        with bound(_CALLS, _CALLS.get() | {key}):
            return call()

    return replacement


@contextmanager
def bound(variable: ContextVar[T], value: T) -> Iterator[None]:
    """In the block, the variable of the context has this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


async def settle(
    answer_call: Callable[[AsyncOriginal], Awaitable[Any]],
    original: AsyncOriginal,
    *,
    read: Callable[[Any], Any],
    make: Callable[[Any], Any],
) -> Any:
    """The answer of a tool whose framework wraps answers. `answer_call` runs `original`, or has the
    answer of a rule or a cassette. `read` unwraps the framework's answer, `make` wraps another."""
    answers: list[Any] = []

    async def run() -> Any:
        """The original's answer, unwrapped; the wrapped one is kept for the framework."""
        answers.append(await original())
        return read(answers[0])

    answer = await answer_call(run)
    return answers[0] if answers else make(answer)


def named_arguments(text: Any) -> Message:
    """A call's arguments from a model: a dict, or its JSON."""
    arguments = text or {}
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments)
    return dict(arguments) if isinstance(arguments, Mapping) else {"input": arguments}


def model_calls(calls: Iterable[Any]) -> list[Message]:
    """The tool calls in a model's answer, for `record_answer`."""
    return [{"name": call.name, "args": named_arguments(call.arguments)} for call in calls]


def answer_text(answer: Any) -> str:
    """An agent's answer as text. An object becomes its JSON."""
    if answer is None or isinstance(answer, str):
        return answer or ""
    answer_json = pipe.to_json(answer)
    return (
        answer_json if isinstance(answer_json, str) else json.dumps(answer_json, ensure_ascii=False)
    )


def usage_of(
    prompt_tokens: Any, answer_tokens: Any, *, cached_tokens: Any = None, thought_tokens: Any = None
) -> Message | None:
    """Token counts as in ADK, with thoughts separate from the answer, or None without counts."""
    if not prompt_tokens and not answer_tokens:
        return None
    counts = {
        "prompt_token_count": prompt_tokens,
        "candidates_token_count": answer_tokens,
        "cached_content_token_count": cached_tokens,
    }
    if isinstance(prompt_tokens, int) and isinstance(answer_tokens, int):
        counts["total_token_count"] = prompt_tokens + answer_tokens
        if thought_tokens:
            counts.update(
                candidates_token_count=answer_tokens - thought_tokens,
                thoughts_token_count=thought_tokens,
            )
    return {name: count for name, count in counts.items() if count is not None}


class FrameworkHost(server.Host, ABC):
    """See server.Host."""

    asks = True
    """evalgate may answer tool calls."""
    package: ClassVar[str]
    """The framework's name in the package index."""
    low: ClassVar[str]
    """The lowest supported version."""
    high: ClassVar[str]
    """The lowest version above, which is not supported."""
    session: ClassVar[type[FrameworkSession]]
    """The framework's class of conversations."""
    is_exclusive: ClassVar[bool] = False
    """An agent that is one object for all conversations holds one at a time."""

    agent_classes: ClassVar[tuple[str, ...]]
    """Each as `module:name`."""
    asker_classes: ClassVar[tuple[str, ...]] = ()
    """Other classes with `entrances`, each as `module:name`."""

    entrances: ClassVar[tuple[str, ...]] = ("run",)
    """The methods by which a program asks an agent."""

    def __init__(self) -> None:
        self.options: Message = {}
        """Of the driver; set by `load`."""
        self._target: Any = None
        """The agent, what makes it, or the name of the module of a program."""
        self._context: Any = None
        """The object that tools get, or what makes it; None if the options name none."""
        self._program: Program | None = None
        """The program that holds the current agent; None if no program makes it."""
        self._first_agent: Any = None
        """The program's first agent: a second equal one shows that it is shared."""

    def kinds(self) -> tuple[Any, ...]:
        """The framework's classes of agents."""
        return tuple(map(pkgutil.resolve_name, self.agent_classes))

    def is_agent(self, candidate: Any) -> bool:
        """True if an object is an agent of the framework, not a factory of agents."""
        return _is_of(candidate, self.kinds())

    def askers(self) -> tuple[Any, ...]:
        """The classes that have `entrances`: of agents, and of what asks several agents, of which
        none is the whole."""
        classes = list(self.kinds())
        for path in self.asker_classes:
            with suppress(ImportError):  # the framework has it in other versions
                classes.append(pkgutil.resolve_name(path))
        return tuple(classes)

    @abstractmethod
    def prepare(self) -> None:
        """Intercept tool calls. Runs once, after the import of the agent's modules."""

    async def load(self, options: Message) -> dict[str, str]:
        """Import the agent. Raises errors.LoadFailed."""
        self.options = options
        call = str(options.get("call") or "")
        is_program = call.endswith(python.PROGRAM)
        version = self._version()
        python.add_folders(options)
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(THREADS, thread_name_prefix="agent")
        )
        try:
            if is_program:
                self._target = call.removesuffix(python.PROGRAM)
                self.sessions = 1
                askers = self.askers()
                for subclass in {cls for asker in askers for cls in subclasses_of(asker)}:
                    hold_at(subclass, self.entrances, lambda asked: _is_of(asked, askers))
            else:
                self._target = member(call)
                self._target = self.agent_in(self._target) or self._target
            if options.get("context"):
                self._context = python.attribute(options["context"])
            self.prepare()
            if self.is_agent(self._target):
                self.share(self._target)
            elif not (callable(self._target) or is_program):
                raise TypeError(
                    f"it is a {type(self._target).__name__}, not an agent of {self.package}"
                )
        except BaseException as error:
            raise errors.LoadFailed.of(error, f"the agent {call!r}") from error
        return {"framework": self.package, "framework_version": version, "agent": call}

    def models(self) -> list[str]:
        """The agent's model."""
        return description.models(self._target)

    def context_class(self, agent: Any) -> Any:  # noqa: ARG002 - frameworks that have one look at it
        """The class of the object that an agent's tools get, or None if the agent names none."""
        return None

    def share(self, agent: Any) -> None:  # noqa: ARG002 - frameworks that reset their agents look at it
        """Prepare an agent that is one object for all conversations."""
        if self.is_exclusive:
            self.sessions = 1

    async def begin_again(self, agent: Any) -> None:
        """Give such an agent its first state again, for a new conversation."""

    def _version(self) -> str:
        """The framework's installed version. Raises errors.LoadFailed if it is missing or not
        supported."""
        specifier = f"{self.package}>={self.low},<{self.high}"
        try:
            version = importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            message = f"{self.package} is not installed for {sys.executable}: add `{specifier}` to the requirements"
            raise errors.LoadFailed(message) from None
        release = _release(version)
        # a beta of the lowest release is before it, one of the highest is not below that
        is_too_old = release < _release(self.low) or (
            release == _release(self.low) and re.search(r"\d(a|b|rc|\.dev)\d", version)
        )
        if is_too_old or release >= _release(self.high):
            raise errors.LoadFailed(
                f"{self.package} {version} is installed for {sys.executable}, and this driver is made for {specifier}: "
                "install such a version, or use `driver: python` with a function of your own (docs/agents/python.md)"
            )
        return version

    async def open(self, start: Message, session_tools: tools.SessionTools | None) -> Any:
        """A new session."""
        state = start.get("state") or {}
        context = await make_object(self._context, state)
        agent = self._target
        try:
            if self.is_agent(agent):
                await self.begin_again(agent)
            else:
                agent = await self._make_agent(state)
        except ImportError as error:
            call = self.options.get("call")
            raise errors.LoadFailed.of(error, f"the agent {call!r}") from error
        if isinstance(self._target, str):
            if agent is self._first_agent:
                self._target = agent  # an object of a module that stays imported
                return await self.open(start, session_tools)
            if self._first_agent is None:
                self._first_agent = agent
                self.share(agent)
        if context is None:
            context = build_context(self.context_class(agent), state)
        return self.session(agent, self.options, start, session_tools, context)

    async def close(self) -> None:
        """See server.Host."""
        if self._program is not None:
            await asyncio.to_thread(self._program.end)

    async def _make_agent(self, state: Message) -> Any:
        """A new agent for a conversation, from its program or its function. Raises TypeError for
        another object."""
        if isinstance(self._target, str):
            await self.close()
            self._program = Program(self._target)
            holder = await self._program.first_agent()
            self.prepare()  # the program has imported more
        else:
            holder = await make_object(self._target, state)
        agent = self.agent_in(holder)
        if agent is None:
            call = self.options.get("call")
            raise TypeError(
                f"{call} gave a {type(holder).__name__}, not an agent of {self.package}"
            )
        return agent

    def agent_in(self, holder: Any) -> Any:
        """The agent that an object is, or the only one among its items or attributes; None for
        another object."""
        if _is_of(holder, self.askers()):
            return holder if self.is_agent(holder) else None
        is_list = isinstance(holder, (tuple, list))
        parts = holder if is_list else getattr(holder, "__dict__", {}).values()
        agents_by_id = {id(part): part for part in parts if self.is_agent(part)}
        is_holder = is_list or not (inspect.isclass(holder) or inspect.isroutine(holder))
        return next(iter(agents_by_id.values())) if is_holder and len(agents_by_id) == 1 else None


def _is_of(candidate: Any, classes: Iterable[Any]) -> bool:
    """True if an object has one of the classes. `isinstance` refuses protocols, as old AutoGen has
    them."""
    return not {*classes}.isdisjoint(type(candidate).__mro__)


def _release(version: str) -> tuple[int, ...]:
    """Three numbers of a version, without what marks a beta."""
    numbers = re.findall(r"\d+", re.split(r"[^\d.]", version)[0])
    return (*map(int, numbers), 0, 0)[:3]


def member(call: str) -> Any:
    """The object at `module:name`. For an attribute that only the objects of a class have, a
    function that makes the object and returns, or calls, its attribute."""
    owner_path, _, name = call.rpartition(".")
    owner = python.attribute(owner_path) if ":" in owner_path else None
    attribute = inspect.getattr_static(owner, name, None)
    is_of_objects = attribute is None or inspect.isfunction(attribute)
    if not (inspect.isclass(owner) and is_of_objects):
        return python.attribute(call)

    async def make() -> Any:
        """The attribute of a new object, called if it is a method."""
        value = getattr(await make_object(owner, {}), name)
        return await make_object(value, {})

    return make


async def make_object(maker: Any, state: Message) -> Any:
    """The result of a function or class. It gets the session's state for an argument, or an object
    of the argument's class (`build_context`). Other objects are returned unchanged.

    A plain function runs in a thread, because it may block."""
    if not (inspect.isroutine(maker) or inspect.isclass(maker)):
        return maker
    kinds = hints_of(maker.__init__ if inspect.isclass(maker) else maker)
    arguments = [
        build_context(kinds.get(parameter.name), state)
        for parameter in inspect.signature(maker).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    arguments = [state if argument is None else argument for argument in arguments]
    result = await asyncio.to_thread(maker, *arguments)
    return await result if inspect.isawaitable(result) else result


def hints_of(annotated: Any) -> Message:
    """The types of a class's fields or a function's parameters, by name; empty if one is imported
    for type checkers only."""
    try:
        return get_type_hints(annotated)
    except Exception:
        return {}


def build_context(context_class: Any, state: Message) -> Any:
    """An object of the class that tools get, made from the session's state, and of objects whose
    classes need nothing; or None if a dict is enough. Raises TypeError if the state lacks a
    value."""
    if (
        not inspect.isclass(context_class)
        or context_class.__module__ == "builtins"
        or issubclass(context_class, dict)
    ):
        return None
    values: Message = {}
    missing_names = []
    kinds = hints_of(context_class) or hints_of(context_class.__init__)
    for parameter in inspect.signature(context_class).parameters.values():
        name = parameter.name
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if name in state:
            values[name] = state[name]
        elif parameter.default is parameter.empty and is_named:
            kind = kinds.get(name, parameter.annotation)
            try:
                values[name] = build_context(kind, {})
            except Exception:
                values[name] = None
            if values[name] is None:
                missing_names.append(f"{name} ({inspect.formatannotation(kind)})")
    if missing_names:
        raise TypeError(
            f"the agent's tools are given a {context_class.__name__}, which needs {', '.join(missing_names)}: name the object, "
            "or a function that makes it, with `context: module:name` beside `call`, or set them in the case's session state"
        )
    return context_class(**values)


# --- the agent of a program: the program is started, and held where it asks its agent first ---

TYPED = "What can you do?"
"""The argument, or the answer to `input()`, before the agent is asked. The case's message replaces
it in the call."""

MOST_INPUTS = 20
"""Lines of `input()` before a program counts as stuck."""
LONGEST_S = 120.0
"""Seconds in which a program must ask its agent."""
GRACE_S = 5.0
"""Seconds that a program has to end."""


class Program:
    """A module that runs as `__main__`, in a thread of its own."""

    def __init__(self, module: str) -> None:
        """The program starts with `first_agent`."""
        self.agent: Future[Any] = Future()
        """The first agent that it asks, or the error that ended it before."""
        self._module = module
        self._end: Future[None] = Future()
        """Done when the program shall end; held calls wait for it."""
        self._input_count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    async def first_agent(self) -> Any:
        """Start the program; return the agent that it asks first. Raises the program's errors, and
        TypeError if it asks none."""
        self._thread.start()
        agent = asyncio.wrap_future(self.agent)
        await asyncio.wait({agent}, timeout=LONGEST_S)
        if not agent.done():
            raise TypeError(f"{self._module} asked no agent within {LONGEST_S:.0f} s")
        return agent.result()

    def end(self) -> None:
        """Let the program end as if the call had been interrupted."""
        if not self._end.done():
            self._end.set_result(None)
            self._thread.join(GRACE_S)

    def _run(self) -> None:
        """Run the module; every end without an agent becomes the future's error."""
        RUNNING_PROGRAM.set(self)
        error: BaseException = TypeError(f"{self._module} ended without asking an agent")
        try:
            has_argument = python.takes_argument(self._module)
            python.run_program(self._module, self.typed, has_argument=has_argument)
        except SystemExit as end:
            reason = ": it wants other arguments" if end.code == 2 else ""
            error = TypeError(f"{error}{reason}")
        except BaseException as cause:
            error = cause
        if not self.agent.done():
            self.agent.set_exception(error)

    def typed(self) -> str:
        """The next line of the program's `input()`."""
        self._input_count += 1
        if self._input_count > MOST_INPUTS or self.agent.done():
            raise EOFError(f"{self._module} asked for input more than {MOST_INPUTS} times")
        return TYPED

    def hold(self, agent: Any, call: tuple[Any, ...], original: Any) -> Any:
        """Hold the program in its call of the agent."""
        if self._input_count and TYPED not in repr(call):
            raise TypeError(
                f"the text of `input()` is part of the agent that {self._module} makes: no question can replace it"
            )
        if not self.agent.done():
            self.agent.set_result(agent)
        held = PendingAnswer(self._end)
        if inspect.iscoroutinefunction(original):
            return held.wait()
        is_async = inspect.isasyncgenfunction(original)
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            is_async = True
        if is_async:
            return held
        self._end.result()
        raise python.ProgramEnded


class PendingAnswer:
    """The answer of a held call: whoever waits for it, or for a part of it, waits for the end."""

    def __init__(self, end: Future[None]) -> None:
        self._end = end

    async def wait(self) -> Any:
        """Wait for the end of the program; always raises python.ProgramEnded."""
        await asyncio.wrap_future(self._end)
        raise python.ProgramEnded

    def __await__(self) -> Iterator[Any]:
        """As `wait`: for callers that await the call itself."""
        return self.wait().__await__()

    def __aiter__(self) -> PendingAnswer:
        """Itself: its first item never comes."""
        return self

    __anext__ = __aenter__ = wait

    async def __aexit__(self, *_: object) -> None:
        """Nothing to close: the block was never entered."""

    def __getattr__(self, name: str) -> Callable[..., PendingAnswer]:
        """A method of any name that returns the same pending answer."""
        return lambda *_, **__: self


RUNNING_PROGRAM: ContextVar[Program | None] = ContextVar("evalgate_program", default=None)
"""The program of this context."""


def hold_at(owner: Any, names: tuple[str, ...], is_agent: Callable[[Any], bool]) -> None:
    """Hold programs at calls of these methods of a class; `input()` answers until then."""
    for name in names:
        method = vars(owner).get(name)
        function = getattr(method, "__func__", method)
        if method is None or hasattr(function, "holds"):
            continue
        held = _hold_call(function, is_agent)
        setattr(owner, name, classmethod(held) if isinstance(method, classmethod) else held)
    python.serve_input()


def _hold_call(original: Any, is_agent: Callable[[Any], bool]) -> Any:
    """The method, which holds the program of its thread if an agent is among the arguments."""

    @wraps(original)
    def replacement(*args: Any, **options: Any) -> Any:
        """Runs the original outside a program."""
        program = RUNNING_PROGRAM.get()
        agent = next(filter(is_agent, (*args, *options.values())), None)
        if program is None or agent is None:
            return original(*args, **options)
        return program.hold(agent, (args[1:], options), original)

    replacement.holds = True  # type: ignore[attr-defined]  # marks it
    return replacement
