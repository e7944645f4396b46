"""Crews and agents of CrewAI."""

from __future__ import annotations

import asyncio
import inspect
import time
from functools import partial
from typing import Any

from . import frameworks
from .frameworks import FrameworkSession, Message, Original


class Session(FrameworkSession):
    """An agent's messages so far. A crew starts anew at each turn; the session's state is further
    input of its tasks."""

    def begin(self) -> None:
        """See FrameworkSession."""
        self._messages: list[Message] = []
        self._inputs: set[str] = self.options.get("inputs") or inputs_of(self.agent)

    async def ask(self, text: str) -> Any:
        """The raw output, or the structured output."""
        if hasattr(self.agent, "tasks"):
            state = {YEAR: time.strftime("%Y"), **self.state}
            names = sorted(self._inputs - state.keys())
            name = self.options.get("input")
            if not name and len(names) != 1:
                listed_names = ", ".join(names) or "none"
                raise ValueError(
                    f"which input of the crew's tasks takes the user's text (they have {listed_names})? Name it with the "
                    "option `input`; the case's session state sets others"
                )
            inputs = {**state, str(name or names[0]): text}
            output = await asyncio.to_thread(self.agent.kickoff, inputs=inputs)
        else:
            self._messages.append({"role": "user", "content": text})
            output = await asyncio.to_thread(self.agent.kickoff, list(self._messages))
            self._messages.append({"role": "assistant", "content": output.raw})
        return output.raw if output.pydantic is None else output.pydantic


YEAR = "current_year"
"""The input that the `main.py` of `crewai create` sets."""


def inputs_of(agent: Any) -> set[str]:
    """The inputs of a crew's tasks. A kickoff writes its inputs into the tasks, so that later
    nothing or the user's own braces are left."""
    return set(agent.fetch_inputs()) if hasattr(agent, "tasks") else set()


def _ask_model(session: FrameworkSession, model: Any, run: Original, arguments: Message) -> Any:
    """Report a call of a model; its tokens are the difference of the model's own sums."""
    messages = arguments["messages"]
    message_list = messages if isinstance(messages, list) else []
    system = [str(part["content"]) for part in message_list if part.get("role") == "system"]
    author = str(getattr(arguments.get("from_agent"), "role", None) or "agent").strip()
    key = session.model_begins(*system, author=author)
    usage_before = _token_usage(model)
    answer = run()
    usage = {name: count - usage_before[name] for name, count in _token_usage(model).items()}
    calls = answer if isinstance(answer, list) else []
    session.record_answer(
        key,
        answer if isinstance(answer, str) else "",
        frameworks.usage_of(usage["prompt_tokens"], usage["completion_tokens"]),
        model=model.model,
        calls=[_call(call) for call in calls],
    )
    return answer


def _token_usage(model: Any) -> dict[str, int]:
    """The counts so far; 0 in versions whose models do not count."""
    usage = getattr(model, "get_token_usage_summary", lambda: None)()
    return {name: getattr(usage, name, 0) for name in ("prompt_tokens", "completion_tokens")}


def _call(call: Any) -> Message:
    """A tool call of a model's answer, which has another shape in each provider's client."""
    function = (
        call.get("function", {}) if isinstance(call, dict) else getattr(call, "function", call)
    )
    read = function.get if isinstance(function, dict) else partial(getattr, function)
    args = frameworks.named_arguments(read("arguments", {}))
    return {"name": str(read("name", "") or ""), "args": args}


def _run_tool(session: FrameworkSession, tool: Any, run: Original, arguments: Message) -> Any:
    """Run a tool under the name that models know; arguments come by position, by name, or as one
    `input`."""
    from crewai.utilities import string_utils

    name_for_models = getattr(string_utils, "sanitize_tool_name", str)  # str before 1.0
    args = dict(arguments.get("kwargs", {}))
    args |= dict(zip(tool.args_schema.model_fields, arguments.get("args", ())))  # noqa: B905 - the tool complains of what is left over
    if "input" in arguments:
        args = frameworks.named_arguments(arguments["input"])
    kind = "agent" if tool.name in DELEGATION else "tool"
    return session.run_tool_blocking(name_for_models(tool.name), args, run, kind=kind)


DELEGATION = ("Delegate work to coworker", "Ask question to coworker")
"""Tools that CrewAI gives to agents that may ask each other."""


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "crewai"
    low = "0.108"
    high = "2"
    session = Session
    agent_classes = ("crewai:Agent", "crewai:Crew")
    asker_classes = ("crewai.flow.flow:Flow",)
    entrances = ("kickoff", "kickoff_async")
    is_exclusive = True

    def share(self, agent: Any) -> None:
        """See FrameworkHost."""
        super().share(agent)
        self.options["inputs"] = inputs_of(agent)

    def prepare(self) -> None:
        """See FrameworkHost. A class marked with `@CrewBase` makes its crew."""
        import crewai

        base = crewai.LLM.__mro__[1]
        model_class = crewai.LLM if base is object else base  # before 0.114 it has no base
        frameworks.intercept(frameworks.subclasses_of(model_class), call=_ask_model)
        frameworks.intercept_all("crewai.tools:BaseTool", run=_run_tool)
        frameworks.intercept_all(
            "crewai.tools.structured_tool:CrewStructuredTool", invoke=_run_tool
        )
        maker: Any = self._target
        if inspect.isclass(maker) and hasattr(maker, "crew"):
            self._target = lambda: maker().crew()  # type: ignore[attr-defined]  # just looked for
