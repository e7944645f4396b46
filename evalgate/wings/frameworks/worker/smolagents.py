"""Agents of smolagents: tool-calling agents and code agents."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Iterator
from functools import wraps
from typing import Any

from . import frameworks
from .frameworks import FrameworkSession, Message, Original

ANSWER = "final_answer"
"""The tool that ends a run, and no call of the agent."""


class Session(FrameworkSession):
    """The agent's own memory. The agent gets the session's state as additional arguments."""

    _is_first_turn = True
    """The first turn clears the memory, and brings the state."""

    def begin(self) -> None:
        """See FrameworkSession."""
        for member in _members(self.agent):
            if self.tools is not None and getattr(member, "executor_type", "local") != "local":
                message = f"the tools of {type(member).__name__} run in its {member.executor_type} executor"
                raise RuntimeError(
                    f"{message}, without approval: run this agent with `tools: live`"
                )
            member.stream_outputs = False
            if hasattr(member, "python_executor"):
                self._wrap_tools(member.python_executor)

    async def ask(self, text: str) -> Any:
        """The final answer of a run, in a thread, because smolagents blocks."""
        return await asyncio.to_thread(self._run, text)

    def _run(self, text: str) -> Any:
        """A run, which blocks. Raises RuntimeError if it used up its steps."""
        state = {"additional_args": dict(self.state)} if self._is_first_turn and self.state else {}
        answer = self.agent.run(text, reset=self._is_first_turn, **state)
        self._is_first_turn = False
        error = getattr(self.agent.memory.steps[-1], "error", None)
        if type(error).__name__ == "AgentMaxStepsError":
            raise RuntimeError(
                f"the agent had no final answer within {self.agent.max_steps} steps (max_steps)"
            )
        return getattr(answer, "output", answer) if type(answer).__name__ == "RunResult" else answer

    def final_state(self) -> Any:
        """The agent's own state."""
        return dict(self.agent.state)

    def _wrap_tools(self, executor: Any) -> None:
        """Set the session in each tool call: code runs in a thread without it."""
        send = type(executor).send_tools

        def wrap_tool(tool: Any) -> Any:
            """A tool that knows the conversation in whatever thread it is called."""

            @wraps(tool, updated=())
            def call(*args: Any, **options: Any) -> Any:
                """Runs the tool within the conversation."""
                with frameworks.bound(frameworks.CURRENT, self):
                    return tool(*args, **options)

            return call

        executor.send_tools = lambda tools: send(
            executor, {name: wrap_tool(tool) for name, tool in tools.items()}
        )


def _members(agent: Any) -> Iterator[Any]:
    """An agent, and the agents that it manages, at every depth."""
    yield agent
    for member in (agent.managed_agents or {}).values():
        yield from _members(member)


def _ask_model(session: FrameworkSession, model: Any, run: Original, arguments: Message) -> Any:
    """Report a call of a model: system messages, answer, tokens."""
    # a model of the agent's may only pass its arguments on
    values = {**arguments, **arguments.get("kwargs", {})}
    messages = values.get("messages") or next(iter(values.get("args", ())), ())
    system: list[str] = []
    for message in messages:
        content = getattr(message, "content", None)
        if getattr(message, "role", None) == "system":
            texts = (part.get("text") or "" for part in content or ())
            system += [content] if isinstance(content, str) else texts
    key = session.model_begins(*system)
    message = run()
    usage = getattr(message, "token_usage", None)
    counts = usage and frameworks.usage_of(usage.input_tokens, usage.output_tokens)
    calls = [
        {"name": call.function.name, "args": call.function.arguments}
        for call in getattr(message, "tool_calls", None) or ()
    ]
    text = message.content if isinstance(message.content, str) else ""
    session.record_answer(key, text, counts, model=getattr(model, "model_id", ""), calls=calls)
    return message


# --- tools ---


def _call(session: FrameworkSession, tool: Any, run: Original, arguments: Message) -> Any:
    """Run a tool or a managed agent and report it, except the tool that ends a run."""
    if tool.name == ANSWER:
        return run()
    kind = "agent" if hasattr(tool, "managed_agents") else "tool"
    return session.run_tool_blocking(tool.name, _named(tool, arguments), run, kind=kind)


def _named(tool: Any, arguments: Message) -> Message:
    """The arguments by name. A single dict is taken as the arguments."""
    options = arguments.get("kwargs", {})
    if "task" in arguments:  # an agent
        return {"task": arguments["task"], **options}
    positional = arguments.get("args", ())
    is_single = len(positional) == 1 and not options and isinstance(positional[0], dict)
    if is_single and positional[0].keys() <= tool.inputs.keys():
        return dict(positional[0])
    return {**dict(zip(tool.inputs, positional)), **options}  # noqa: B905 - the tool complains of what is left over


def _note_missing(session: FrameworkSession, agent: Any, run: Original, arguments: Message) -> Any:
    """Report a call of a missing tool, which ends before any tool runs."""
    name = arguments["tool_name"]
    if name not in {**agent.tools, **agent.managed_agents}:
        number = session.tool_begins(name, arguments["arguments"])
        session.tool_ends(number, name, {"error": "there is no such tool"})
    return run()


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost. An agent that is one object for all conversations holds one at
    a time."""

    package = "smolagents"
    low = "1.10"
    high = "2"
    session = Session
    agent_classes = ("smolagents.agents:MultiStepAgent",)
    entrances = ("run", "__call__")
    is_exclusive = True

    _initial_states: dict[int, Any]
    """Copies of the members' states at the beginning, by the member's `id`."""

    def prepare(self) -> None:
        """Report every call of a model, a tool or another agent, and ask about tools and agents."""
        from smolagents import Model, Tool, ToolCallingAgent
        from smolagents.agents import MultiStepAgent

        # before 1.15 a model was called itself
        name = "generate" if hasattr(Model, "generate") else "__call__"
        frameworks.intercept_all("smolagents:Model", **{name: _ask_model})
        frameworks.intercept((Tool, MultiStepAgent), __call__=_call)
        frameworks.intercept((ToolCallingAgent,), execute_tool_call=_note_missing)

    def share(self, agent: Any) -> None:
        """See FrameworkHost."""
        super().share(agent)
        self._initial_states = {
            id(member): copy.deepcopy(member.state) for member in _members(agent)
        }

    async def begin_again(self, agent: Any) -> None:
        """Give the agent and its members their first states, and new Python executors."""
        for member in _members(agent):
            member.state = copy.deepcopy(self._initial_states[id(member)])
            if hasattr(member, "python_executor"):
                make = member.create_python_executor
                parameters = inspect.signature(make).parameters  # two before 1.15
                options = (member.executor_type, member.executor_kwargs) if parameters else ()
                member.python_executor = await asyncio.to_thread(make, *options)
