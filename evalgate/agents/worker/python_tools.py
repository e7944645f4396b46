"""What a Python callable is handed as `tools`, so that its tools can be recorded, replayed and mocked."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .tool_desk import ToolDesk


class Tools:
    """The tools of one conversation; `desk` None: they just run."""

    def __init__(self, desk: ToolDesk | None) -> None:
        self._desk = desk

    def call(self, name: str, args: dict[str, Any] | None = None, run: Callable[..., Any] | None = None) -> Any:
        """The result of the tool `name`; `run` is called with the arguments by name where it is to run."""
        given = dict(args or {})
        real = _real(name, given, run)
        return real() if self._desk is None else self._desk.ask(name, given).wait(real)

    async def call_async(
        self, name: str, args: dict[str, Any] | None = None, run: Callable[..., Any] | None = None
    ) -> Any:
        """The same for a coroutine function."""
        given = dict(args or {})
        real = _awaiting(_real(name, given, run))
        return await real() if self._desk is None else await self._desk.ask(name, given).settle(real)

    def wrap(self, function: Callable[..., Any], *, name: str = "") -> Callable[..., Any]:
        """The function, asked about whenever it is called; a coroutine function stays one.

        Its arguments are told by name, defaults included, so that `f("Oslo")` and `f(city="Oslo")` are one call.
        """
        tool = name or function.__name__
        signature = inspect.signature(function)

        def told(positional: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
            bound = signature.bind(*positional, **keywords)
            bound.apply_defaults()
            return dict(bound.arguments)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def asking_async(*positional: Any, **keywords: Any) -> Any:
                if self._desk is None:
                    return await function(*positional, **keywords)
                call = self._desk.ask(tool, told(positional, keywords))
                return await call.settle(lambda: function(*positional, **keywords))

            return asking_async

        @functools.wraps(function)
        def asking(*positional: Any, **keywords: Any) -> Any:
            if self._desk is None:
                return function(*positional, **keywords)
            return self._desk.ask(tool, told(positional, keywords)).wait(lambda: function(*positional, **keywords))

        return asking


def _real(name: str, args: dict[str, Any], run: Callable[..., Any] | None) -> Callable[[], Any]:
    def real() -> Any:
        if run is None:
            raise TypeError(f"the tool {name!r} has nothing to run")
        return run(**args)

    return real


def _awaiting(real: Callable[[], Any]) -> Callable[[], Any]:
    async def run() -> Any:
        result = real()
        return await result if inspect.isawaitable(result) else result

    return run
