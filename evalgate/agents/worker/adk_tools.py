"""Google ADK's tools, each asked about when it is about to run: after the agent's own callbacks, before the tool."""

from __future__ import annotations

import copy
from typing import Any

from .pipe import plain
from .tool_desk import CURRENT

Message = dict[str, Any]

ADK = "google.adk."
OF_THE_AGENT = frozenset(
    ADK + module
    for module in (
        "agents.llm.task._finish_task_tool", "tools._node_tool", "tools._request_input_tool", "tools.agent_tool",
        "tools.example_tool", "tools.exit_loop_tool", "tools.get_user_choice_tool", "tools.load_artifacts_tool",
        "tools.load_memory_tool", "tools.preload_memory_tool", "tools.set_model_response_tool",
        "tools.transfer_to_agent_tool",
    )
)  # fmt: skip
"""Modules whose tools are steps of the agent itself: they reach no backend, and the agent does not work without."""

FLAGS = ("skip_summarization", "transfer_to_agent", "escalate")


def install() -> None:
    """From now on, ask about every tool that any runner of this process is about to run.

    Plugins are asked before each tool call, whoever's runner makes it. There the tool's own `run_async` is put behind
    a question, so that callbacks run as always: those before the tool may answer in its place, those after it and
    those for errors see what the recording or the rule gives.
    """
    from google.adk.plugins.plugin_manager import PluginManager

    original = PluginManager.run_before_tool_callback
    if getattr(original, "asks", False):
        return

    async def run_before_tool_callback(self: Any, *, tool: Any, **others: Any) -> Any:
        guard(tool)
        return await original(self, tool=tool, **others)

    run_before_tool_callback.asks = True  # type: ignore[attr-defined]  # marks it
    PluginManager.run_before_tool_callback = run_before_tool_callback


def guard(tool: Any) -> None:
    """Put the tool's `run_async` behind a question, once; copies of a tool (prefixed names) get one of their own."""
    run = tool.run_async
    owner = getattr(run, "asks_for", None)
    if owner is tool:
        return
    real = run if owner is None else run.real

    async def run_async(*, args: Any, tool_context: Any, **others: Any) -> Any:
        desk = CURRENT.get()
        if desk is None:
            return await real(args=args, tool_context=tool_context, **others)
        before = _seen(tool_context.actions)
        return await desk.ask(tool.name, args, kind_of(tool)).settle(
            lambda: real(args=args, tool_context=tool_context, **others),
            effects=lambda: _done(before, tool_context.actions),
            apply=lambda effects: _do(effects, tool_context),
        )

    run_async.asks_for = tool  # type: ignore[attr-defined]  # marks whose it is
    run_async.real = real  # type: ignore[attr-defined]  # for copies
    object.__setattr__(tool, "run_async", run_async)


def kind_of(tool: Any) -> str:
    """`agent` for a step of the agent itself, else `tool`."""
    modules = {base.__module__ for base in type(tool).__mro__}
    modules.add(getattr(getattr(tool, "func", None), "__module__", ""))
    return "agent" if modules & OF_THE_AGENT else "tool"


def _seen(actions: Any) -> Message:
    delta = actions.state_delta
    try:
        delta = copy.deepcopy(delta)
    except Exception:
        delta = dict(delta)
    return {"state_delta": delta, **{name: getattr(actions, name, None) for name in FLAGS}}


def _done(before: Message, actions: Any) -> Message:
    """What a call did besides answering: state that it set, and whether it transfers, escalates or ends the turn."""
    old = before["state_delta"]
    missing = object()
    changed = {key: plain(value) for key, value in actions.state_delta.items() if old.get(key, missing) != value}
    flags = {name: getattr(actions, name, None) for name in FLAGS}
    done = {name: value for name, value in flags.items() if value is not None and value != before[name]}
    return {"state_delta": changed, **done} if changed else done


def _do(effects: Message, tool_context: Any) -> None:
    for key, value in (effects.get("state_delta") or {}).items():
        tool_context.state[key] = value
    for name in FLAGS:
        if name in effects:
            setattr(tool_context.actions, name, effects[name])
