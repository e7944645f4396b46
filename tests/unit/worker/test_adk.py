"""What the ADK worker leaves out: here what needs no google-adk."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from google.genai import errors as genai_errors

from evalgate.worker import adk, modules, server


def test_a_module_that_is_known_to_be_absent_gives_the_error_that_it_gave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = ModuleNotFoundError("No module named 'a2a'", name="a2a")
    finder = modules.Finder(partial(adk.raise_known, "evalgate_absent_module", error))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    raised = []
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError) as found:
            importlib.import_module("evalgate_absent_module")
        raised.append(found.value)
    assert [(str(each), each.name) for each in raised] == [("No module named 'a2a'", "a2a")] * 2
    assert raised[0] is not raised[1]  # or one would carry the tracebacks of all
    assert importlib.import_module("colorsys").__name__ == "colorsys"


def test_an_old_google_adk_is_run_without_what_it_does_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before 1.7 there are no plugins, before 1.14 no one place that calls functions, before 1.15
    one module for telemetry, before 1.18 no model_version."""
    tool = type("FunctionTool", (), {})
    monkeypatch.setitem(sys.modules, "google.adk.plugins.base_plugin", None)
    function_tool = ModuleType("google.adk.tools.function_tool")
    function_tool.FunctionTool = tool  # type: ignore[attr-defined]
    for name in ("google", "google.adk", "google.adk.tools", "google.adk.telemetry"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "google.adk.tools.function_tool", function_tool)

    assert adk.instrument() == ()
    adk.run_plain_tools_in_threads()
    assert not hasattr(tool, "_invoke_callable")
    adk.skip_unrecorded_descriptions()
    home = modules.Home(name="bot", file=None, folder=None, roots=(), aliases=())
    found = adk.ImportedAgent(root_agent="agent", app=None, name=home.name, closing=None)
    assert adk._target(found, (), "bot") == {"app_name": "bot", "agent": "agent"}
    event = SimpleNamespace(
        author="bot", content=None, usage_metadata=None, is_final_response=lambda: True
    )
    assert adk._event(event) == {"author": "bot", "final": True}


@pytest.mark.parametrize(
    ("outcome", "attempts"),
    [
        ({}, None),  # before any outcome
        ({"error": ConnectionRefusedError("nobody listens")}, None),
        ({"error": genai_errors.ServerError(503, {})}, 7),  # overloaded, but there
        ({"llm_response": SimpleNamespace()}, 7),
    ],
)
def test_only_a_service_that_has_answered_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, outcome: dict[str, Any], attempts: int | None
) -> None:
    base_plugin = ModuleType("google.adk.plugins.base_plugin")
    base_plugin.BasePlugin = SimpleNamespace  # type: ignore[attr-defined]
    for name in ("google.adk", "google.adk.plugins"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, base_plugin.__name__, base_plugin)
    first, last = adk.instrument()
    context = SimpleNamespace(invocation_id="1", agent_name="bot")
    request = SimpleNamespace(config=None)
    watch = SimpleNamespace(begins=lambda *_, **__: None, ends=lambda *_, **__: None)
    token = server.CURRENT.set(watch)  # type: ignore[arg-type]
    try:
        if outcome:
            asyncio.run(first.after_model_callback(callback_context=context, **outcome))
        asyncio.run(last.before_model_callback(callback_context=context, llm_request=request))
    finally:
        server.CURRENT.reset(token)
    options = request.config and request.config.http_options.retry_options
    assert (options and options.attempts) == attempts


def test_a_function_that_waits_when_its_turn_is_given_up_does_not_run() -> None:
    begun, given_up = threading.Event(), threading.Event()
    ran: list[str] = []

    def first() -> None:
        begun.set()
        given_up.wait(20)

    async def converse() -> None:
        thread = adk.ToolThread()
        functions = (first, partial(ran.append, "second"))
        turns = [asyncio.ensure_future(thread.result(function)) for function in functions]
        await asyncio.to_thread(begun.wait, 20)
        for turn in turns:
            turn.cancel()
        await asyncio.wait(turns)
        given_up.set()
        await thread.result(partial(ran.append, "later"))

    asyncio.run(converse())
    assert ran == ["later"]


def test_a_thread_that_could_not_start_is_started_by_the_next_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread = adk.ToolThread()
    ran = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", partial(pytest.fail, "can't start new thread"))
        with pytest.raises(BaseException, match="new thread"):
            thread.submit(ran.set)
    thread.submit(ran.set)
    assert ran.wait(20)


def test_a_thread_without_a_function_is_idle_at_once() -> None:
    """The next conversation, which may follow at once, gets it."""
    idle_threads: list[adk.ToolThread] = []
    for _ in range(20):
        thread = idle_threads.pop() if idle_threads else adk.ToolThread()
        asyncio.run(thread.result(dict))
        thread.join(idle_threads)
        assert idle_threads == [thread]
