"""Agents of smolagents: those that call tools, and those that write code."""

from __future__ import annotations

import asyncio
import contextvars
import copy
from collections.abc import Iterator
from functools import wraps
from typing import Any

from evalgate.worker import pipe, tools

from . import frameworks
from .frameworks import FrameworkSession, Message

ANSWER = "final_answer"  # the tool that ends a run: no call of the agent's


class Session(FrameworkSession):
    """The agent's own memory; the session's state is what it is given as additional arguments."""

    def __init__(
        self,
        agent: Any,
        options: Message,
        start: Message,
        session_tools: tools.SessionTools | None,
        context: Any,
    ) -> None:
        super().__init__(agent, options, start, session_tools, context)
        self._first = True
        for member in _team(agent):
            if session_tools is not None and getattr(member, "executor_type", "local") != "local":
                message = f"the tools of {type(member).__name__} run in its {member.executor_type} executor"
                raise RuntimeError(
                    f"{message}, without approval: run this agent with `tools: live`"
                )
            member.stream_outputs = False
            _tell_of_model(member.model)
            if hasattr(member, "python_executor"):
                self._bind(member.python_executor)

    async def ask(self, text: str) -> Any:
        """The final answer of a run, in a thread: everything in smolagents waits."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(None, context.run, self._run, text)

    def _run(self, text: str) -> Any:
        state = {"additional_args": dict(self.state)} if self._first and self.state else {}
        answer = self.agent.run(text, reset=self._first, **state)
        self._first = False
        error = getattr(self.agent.memory.steps[-1], "error", None)
        if type(error).__name__ == "AgentMaxStepsError":
            raise RuntimeError(
                f"the agent had no final answer within {self.agent.max_steps} steps (max_steps)"
            )
        return getattr(answer, "output", answer) if type(answer).__name__ == "RunResult" else answer

    async def end(self) -> Message:
        """What the agent keeps as its state."""
        return {"state": pipe.to_json(dict(self.agent.state))}

    def _bind(self, executor: Any) -> None:
        """Code runs in a thread that knows of no conversation: its tools bring this one along."""
        send = type(executor).send_tools

        def bound(tool: Any) -> Any:
            @wraps(tool, updated=())
            def call(*args: Any, **options: Any) -> Any:
                token = frameworks.CURRENT.set(self)
                try:
                    return tool(*args, **options)
                finally:
                    frameworks.CURRENT.reset(token)

            return call

        executor.send_tools = lambda tools: send(
            executor, {name: bound(tool) for name, tool in tools.items()}
        )


def _team(agent: Any) -> Iterator[Any]:
    yield agent
    for member in (agent.managed_agents or {}).values():
        yield from _team(member)


def _tell_of_model(model: Any) -> None:
    """Tell of each answer of a model, and of calls of tools that are not there."""
    real = model.generate
    if hasattr(real, "tells"):
        return

    @wraps(real)
    def generate(messages: Any, *args: Any, **options: Any) -> Any:
        session = frameworks.CURRENT.get()
        if session is None:
            return real(messages, *args, **options)
        key = object()
        session.model_begins(key, instructions=_system(messages))
        message = real(messages, *args, **options)
        usage = getattr(message, "token_usage", None)
        counts = (
            frameworks.usage_of(usage.input_tokens, usage.output_tokens)
            if usage is not None
            else None
        )
        calls = [
            {"name": call.function.name, "args": call.function.arguments}
            for call in getattr(message, "tool_calls", None) or ()
        ]
        text = message.content if isinstance(message.content, str) else ""
        session.record_answer(key, text, counts, model=getattr(model, "model_id", ""), calls=calls)
        return message

    generate.tells = True  # type: ignore[attr-defined]  # marks it
    model.generate = generate


def _system(messages: Any) -> str:
    texts: list[str] = []
    for message in messages:
        content = getattr(message, "content", None)
        if getattr(message, "role", None) == "system":
            texts += (
                [content]
                if isinstance(content, str)
                else [part.get("text") or "" for part in content or ()]
            )
    return "\n".join(texts)


# --- tools ---


def tell_of_tools() -> None:
    """From now on, report every call of a tool or of another agent, and ask about it."""
    from smolagents import Tool, ToolCallingAgent
    from smolagents.agents import MultiStepAgent

    if hasattr(Tool.__call__, "tells"):
        return
    Tool.__call__ = _wrap_call(Tool.__call__, "tool")
    MultiStepAgent.__call__ = _wrap_call(MultiStepAgent.__call__, "agent")
    execute = ToolCallingAgent.execute_tool_call

    @wraps(execute)
    def execute_tool_call(self: Any, tool_name: str, arguments: Any) -> Any:
        session = frameworks.CURRENT.get()
        if session is not None and tool_name not in {**self.tools, **self.managed_agents}:
            number = session.tool_begins(
                tool_name, arguments if isinstance(arguments, dict) else {"input": arguments}
            )
            if session.asked is None:
                session.tool_ends(number, tool_name, {"error": "there is no such tool"})
        return execute(self, tool_name, arguments)

    ToolCallingAgent.execute_tool_call = execute_tool_call


def _wrap_call(real: Any, kind: str) -> Any:
    @wraps(real)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        session = frameworks.CURRENT.get()
        if session is None or self.name == ANSWER:
            return real(self, *args, **options)
        arguments = _arguments(
            self,
            args,
            {
                key: argument
                for key, argument in options.items()
                if key != "sanitize_inputs_outputs"
            },
        )
        return session.run_tool_here(
            self.name, arguments, lambda: real(self, *args, **options), kind=kind
        )

    call.tells = True  # type: ignore[attr-defined]  # marks it
    return call


def _arguments(tool: Any, args: tuple[Any, ...], options: Message) -> Message:
    """The arguments by name, also from one dict."""
    parameters = list(getattr(tool, "inputs", None) or ("task",))
    if (
        len(args) == 1
        and not options
        and isinstance(args[0], dict)
        and all(key in parameters for key in args[0])
    ):
        return dict(args[0])
    return {**dict(zip(parameters, args)), **options}  # noqa: B905 - the tool complains of what is left over


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost. An agent that is one object for all holds one conversation at a
    time."""

    package = "smolagents"
    low = "1.20"
    high = "2"
    session = Session
    alone = True

    def __init__(self) -> None:
        super().__init__()
        self._fresh: dict[int, Any] = {}

    def is_agent(self, candidate: Any) -> bool:
        """An agent of any kind."""
        from smolagents.agents import MultiStepAgent

        return isinstance(candidate, MultiStepAgent)

    def prepare(self) -> None:
        """See FrameworkHost."""
        tell_of_tools()

    def take(self, agent: Any) -> None:
        """See FrameworkHost."""
        super().take(agent)
        self._fresh = {id(member): copy.deepcopy(member.state) for member in _team(agent)}

    async def open(self, start: Message, session_tools: tools.SessionTools | None) -> Any:
        """A fresh session; what the last one left in the agent's state and in its Python is
        gone."""
        for member in _team(self._found) if self._fresh else ():
            member.state = copy.deepcopy(self._fresh[id(member)])
            if hasattr(member, "python_executor"):
                member.python_executor = await asyncio.to_thread(member.create_python_executor)
        return await super().open(start, session_tools)
