"""Graphs of LangGraph, and the agents that LangChain makes of them."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, get_args

from . import frameworks
from .frameworks import FrameworkSession, Message, Original

CALL: ContextVar[tuple[str, Any]] = ContextVar("evalgate_tool_call", default=("", None))
"""The number and the arguments of the running tool call, as the model gave them."""

INPUTS = (
    *("question", "query", "user_query", "user_question", "input", "user_input", "user_message"),
    *("message", "prompt", "request", "text", "task", "topic"),
)
"""Usual keys of a graph's state for the question, the most specific first."""
OUTPUTS = (
    *("answer", "final_answer", "response", "final_response", "output", "final_output", "result"),
    *("reply", "report", "final_report", "summary", "generation"),
)
"""Usual keys for the answer, the most specific first."""


class Session(FrameworkSession):
    """A thread of the graph. Its own checkpointer keeps it in memory."""

    def begin(self) -> None:
        """See FrameworkSession."""
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

        graph = self.agent.compile() if hasattr(self.agent, "compile") else self.agent
        parameters = inspect.signature(JsonPlusSerializer).parameters  # none before 0.4
        options = {"pickle_fallback": True} if "pickle_fallback" in parameters else {}
        saver = InMemorySaver(serde=JsonPlusSerializer(**options))
        self._graph = graph.copy(update={"checkpointer": saver})
        self._context = {} if self.context is self.state else {"context": self.context}
        self._initial_state = dict(self.state)
        self._values: Message = {}
        self._is_interrupted = False

    async def ask(self, text: str) -> Any:
        """The text of the last message, or the state's value under `output`, or the question of an
        interrupt."""
        from langchain_core.messages import HumanMessage
        from langgraph.types import Command

        key = self._key("input", INPUTS)
        output = self._key("output", OUTPUTS)
        texts = dict.fromkeys(self._text_keys() if key == "messages" else (key,), text)
        messages = {"messages": [HumanMessage(text)]} if key == "messages" else {}
        graph_input = {**self._initial_state, **texts, **messages}
        config = {
            "configurable": {"thread_id": self.session_id, "user_id": self.user_id},
            "callbacks": [_watcher(self)],
        }
        message_count = len(self._values.get("messages") or ())
        command = Command(resume=text) if self._is_interrupted else graph_input
        try:
            await self._graph.ainvoke(command, config, **self._context)
        except KeyError as error:
            name = str(error.args[0]) if error.args else ""
            if name not in self._keys():
                raise
            kind = inspect.formatannotation(self._graph.channels[name].ValueType)
            raise TypeError(
                f"the graph's nodes get a state, which needs {name} ({kind}): set it in the case's session state"
            ) from error
        self._initial_state = {}
        snapshot = await self._graph.aget_state(config)
        self._values = (
            snapshot.values if isinstance(snapshot.values, dict) else {output: snapshot.values}
        )
        self._report_refusals((self._values.get("messages") or [])[message_count:])
        interrupts = [interrupt.value for task in snapshot.tasks for interrupt in task.interrupts]
        self._is_interrupted = bool(interrupts)
        if interrupts:
            return interrupts[0]
        if output not in self._values:
            raise KeyError(
                f"the graph's state has no {output!r}, only {', '.join(self._keys())}: name the keys of the question "
                "and of the answer with the options `input` and `output`; a case's session state sets others"
            )
        answer = self._values[output]
        last = answer[-1] if isinstance(answer, list) and answer else None
        return _text(last) if hasattr(last, "content") and hasattr(last, "type") else answer

    def _key(self, option: str, names: tuple[str, ...]) -> str:
        """The state's key for an option. Without the option and without messages in the graph: a
        usual key of the graph, or its only key."""
        key = str(self.options[option])
        channels = self._keys()
        if key != "messages" or key in channels:
            return key
        only_channel = channels if len(channels) == 1 else ()
        return next((name for name in (*names, *only_channel) if name in channels), key)

    def _keys(self) -> list[str]:
        """The keys of the graph's state, without LangGraph's own channels."""
        return [name for name in self._graph.channels if ":" not in name and name[:2] != "__"]

    def _text_keys(self) -> list[str]:
        """The usual keys for the user's text that a graph has beside its messages."""
        kinds = {
            name: getattr(channel, "ValueType", None)
            for name, channel in self._graph.channels.items()
        }
        return [name for name in INPUTS if str in (kinds.get(name), *get_args(kinds.get(name)))]

    def final_state(self) -> Any:
        """The graph's state without its messages."""
        return {key: value for key, value in self._values.items() if key != "messages"}

    def call_report(self, tool: Any) -> Message:
        """The report of a running call. It has the model's arguments, without the graph's own."""
        number, arguments = CALL.get()
        parameters = tool.args
        if not isinstance(arguments, dict):
            arguments = dict(zip(parameters, [arguments]))  # noqa: B905 - a tool with one argument may be given just that
        args = {key: value for key, value in arguments.items() if key in parameters}
        return {"name": tool.name, "args": args, "number": number, "kind": _kind(tool)}

    def _report_refusals(self, messages: list[Any]) -> None:
        """Report a model's calls that were answered with an error before any tool ran, mostly calls
        of a missing tool."""
        calls = {
            call["id"]: call
            for message in messages
            for call in getattr(message, "tool_calls", None) or ()
        }
        for message in messages:
            number = str(getattr(message, "tool_call_id", ""))
            if getattr(message, "status", "") == "error" and number in calls:
                call = calls[number]
                self.refuse(call["name"], call["args"], number, _text(message))


def _text(message: Any) -> str:
    """The text of a message, which may consist of blocks."""
    content = message.content
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in content
        if isinstance(block, str) or block.get("type") == "text"
    )


def _watcher(session: Session) -> Any:
    """A callback handler that reports the models of one conversation."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Watcher(BaseCallbackHandler):  # type: ignore[misc]  # langchain is not installed where types are checked
        """Reports every model call of the graph."""

        run_inline = True
        """In the task of the call, so that reports keep their order."""

        def on_chat_model_start(
            self, _: Any, messages: Any, *, run_id: Any, metadata: Any = None, **__: Any
        ) -> None:
            """The system messages, and the agent or the node that asks."""
            details = metadata or {}
            author = str(details.get("lc_agent_name") or details.get("langgraph_node") or "agent")
            system = [_text(message) for message in messages[0] if message.type == "system"]
            session.model_begins(*system, author=author, key=run_id)

        def on_llm_start(self, _: Any, __: Any, *, run_id: Any, **___: Any) -> None:
            """A model of plain text, which has no messages."""
            session.model_begins(key=run_id)

        def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
            """The answer of either, with its tokens and calls."""
            answer = response.generations[0][0]
            message = getattr(answer, "message", None)
            counts = getattr(message, "usage_metadata", None) or {}
            usage = frameworks.usage_of(
                counts.get("input_tokens"),
                counts.get("output_tokens"),
                cached_tokens=(counts.get("input_token_details") or {}).get("cache_read"),
                thought_tokens=(counts.get("output_token_details") or {}).get("reasoning"),
            )
            metadata = getattr(message, "response_metadata", None) or {}
            session.record_answer(
                run_id,
                answer.text if message is None else _text(message),
                usage,
                model=metadata.get("model_name") or metadata.get("model"),
                calls=getattr(message, "tool_calls", None) or (),
            )

    return Watcher()


# --- tools ---


def _note_call(_: Session, tool: Any, run: Original, arguments: Message) -> Any:
    """Run a tool that blocks, with its call in CALL."""
    with _call_of(tool, arguments):
        return run()


async def _note_call_async(_: Session, tool: Any, run: Original, arguments: Message) -> Any:
    """The same for a coroutine."""
    with _call_of(tool, arguments):
        return await run()


def _call_of(tool: Any, arguments: Message) -> AbstractContextManager[None]:
    """Note a tool's call: its methods do not get the model's arguments, or the call's number. The
    methods of its class are reported: if one calls another, only the first."""
    frameworks.intercept(type(tool).__mro__, _run=_run_tool, _arun=_run_tool_async)
    call = (arguments.get("tool_call_id") or "", arguments["tool_input"])
    return frameworks.bound(CALL, call)


def _run_tool(session: Session, tool: Any, run: Original, _: Message) -> Any:
    """Run a tool's own method and report it."""
    return _result_of(
        tool, session.run_tool_blocking(**session.call_report(tool), run=run), session
    )


async def _run_tool_async(session: Session, tool: Any, run: Original, _: Message) -> Any:
    """The same for a coroutine."""
    return _result_of(tool, await session.run_tool(**session.call_report(tool), run=run), session)


def _kind(tool: Any) -> str:
    """`agent` for a handoff, which is a step of the graph itself, else `tool`."""
    is_handoff = tool.name.startswith("transfer_to_") or "__handoff_destination" in (
        tool.metadata or {}
    )
    return "agent" if is_handoff else "tool"


def _result_of(tool: Any, result: Any, session: Session) -> Any:
    """A tool's answer as LangGraph expects it; one that no recording can hold is an error of the
    turn."""
    if session.tools is not None and type(result).__name__ == "Command" and _kind(tool) == "tool":
        message = f"the tool {tool.name!r} answers with a Command, which cannot be recorded: mock it, or run it live"
        session.tool_error = RuntimeError(message)
    pair = isinstance(result, list) and tool.response_format == "content_and_artifact"
    return tuple(result) if pair else result


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "langgraph"
    low = "0.2.74"
    high = "2"
    session = Session
    # a graph need not be compiled
    agent_classes = ("langgraph.pregel:Pregel", "langgraph.graph:StateGraph")
    entrances = ("invoke", "ainvoke", "stream", "astream")

    def context_class(self, agent: Any) -> Any:
        """The `context_schema`."""
        return getattr(agent, "context_schema", None)

    def prepare(self) -> None:
        """Report every LangChain tool that a conversation runs, and ask about it."""
        from langchain_core.tools import BaseTool

        frameworks.intercept((BaseTool,), run=_note_call, arun=_note_call_async)
