"""Crews and agents of CrewAI."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from . import frameworks
from .frameworks import FrameworkSession, Message


class Session(FrameworkSession):
    """An agent's messages so far. A crew starts anew at each turn; the session's state is further
    input of its tasks."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._messages: list[Message] = []

    async def ask(self, text: str) -> Any:
        """The raw output, or the structured output."""
        if hasattr(self.agent, "tasks"):
            inputs = {**self.state, self._input(): text}
            output = await asyncio.to_thread(self.agent.kickoff, inputs=inputs)
        else:
            self._messages.append({"role": "user", "content": text})
            output = await asyncio.to_thread(self.agent.kickoff, list(self._messages))
            self._messages.append({"role": "assistant", "content": output.raw})
        return output.raw if output.pydantic is None else output.pydantic

    def _input(self) -> str:
        if name := self.options.get("input"):
            return str(name)
        names = sorted(set(self.agent.fetch_inputs()) - self.state.keys())
        if len(names) != 1:
            listed_names = ", ".join(names) or "none"
            raise ValueError(
                f"which input of the crew's tasks takes the user's text (they have {listed_names})? Name it with the "
                "option `input`; the case's session state sets others"
            )
        return str(names[0])


def _ask_model(
    session: FrameworkSession, model: Any, run: Callable[[], Any], arguments: Message
) -> Any:
    messages = arguments["messages"]
    message_list = messages if isinstance(messages, list) else []
    system = [str(part["content"]) for part in message_list if part.get("role") == "system"]
    author = str(getattr(arguments.get("from_agent"), "role", None) or "agent").strip()
    key = object()
    session.model_begins(key, author, "\n".join(system))
    usage_before = _token_usage(model)
    answer = run()
    usage = {name: count - usage_before[name] for name, count in _token_usage(model).items()}
    calls = [] if isinstance(answer, str) or not isinstance(answer, list) else answer
    session.record_answer(
        key,
        answer if isinstance(answer, str) else "",
        frameworks.usage_of(usage["prompt_tokens"], usage["completion_tokens"]),
        model=model.model,
        calls=[_call(call) for call in calls],
        author=author,
    )
    return answer


def _token_usage(model: Any) -> dict[str, int]:
    usage = model.get_token_usage_summary()
    return {name: getattr(usage, name) for name in ("prompt_tokens", "completion_tokens")}


def _call(call: Any) -> Message:
    function = (
        call.get("function", {}) if isinstance(call, dict) else getattr(call, "function", call)
    )
    if not isinstance(function, dict):
        function = {
            "name": str(getattr(function, "name", "")),
            "arguments": getattr(function, "arguments", {}),
        }
    arguments = function.get("arguments", {})
    return {"name": function.get("name", ""), "args": frameworks.named_arguments(arguments)}


def _run_tool(
    session: FrameworkSession, tool: Any, run: Callable[[], Any], arguments: Message
) -> Any:
    from crewai.utilities.string_utils import sanitize_tool_name

    args = dict(arguments.get("kwargs", {}))
    args |= dict(zip(tool.args_schema.model_fields, arguments.get("args", ())))  # noqa: B905 - the tool complains of what is left over
    if "input" in arguments:
        args = frameworks.named_arguments(arguments["input"])
    kind = "agent" if tool.name in DELEGATION else "tool"
    return session.run_tool_here(sanitize_tool_name(tool.name), args, run, kind=kind)


DELEGATION = frozenset({"Delegate work to coworker", "Ask question to coworker"})


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "crewai"
    low = "1"
    high = "2"
    session = Session
    is_exclusive = True

    def is_agent(self, candidate: Any) -> bool:
        """True for a crew or an agent."""
        from crewai import Agent, Crew

        return isinstance(candidate, (Agent, Crew))

    def prepare(self) -> None:
        """See FrameworkHost. A class marked with `@CrewBase` makes its crew."""
        from crewai.llms.base_llm import BaseLLM
        from crewai.tools import BaseTool
        from crewai.tools.structured_tool import CrewStructuredTool

        frameworks.intercept_here(BaseLLM, "call", _ask_model)
        frameworks.intercept_here(BaseTool, "run", _run_tool)
        frameworks.intercept_here(CrewStructuredTool, "invoke", _run_tool)
        maker: Any = self._target
        if inspect.isclass(maker) and hasattr(maker, "crew"):
            self._target = lambda: maker().crew()  # type: ignore[attr-defined]  # just looked for
