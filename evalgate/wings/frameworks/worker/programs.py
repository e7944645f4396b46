"""The agent of a program: the program is started, and held where it asks its agent first."""

from __future__ import annotations

import asyncio
import inspect
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any

from evalgate.worker import terminal
from evalgate.worker.terminal import ProgramEnded

TYPED = "What can you do?"
"""The argument, or the answer to `input()`, before the agent is asked. The case's message replaces
it in the call."""

MOST_INPUTS = 20
LONGEST_S = 120.0
GRACE_S = 5.0


class Program:
    """A module that runs as `__main__`, in a thread of its own. `agent`: the future agent."""

    def __init__(self, module: str) -> None:
        self.agent: Future[Any] = Future()
        self._module = module
        self._end: Future[None] = Future()
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
        RUNNING.set(self)
        terminal.TYPIST.set(self.typed)
        error: BaseException = TypeError(f"{self._module} ended without asking an agent")
        try:
            sys.argv[1:] = [self.typed()] if terminal.takes_argument(self._module) else []
            runpy.run_module(self._module, run_name="__main__", alter_sys=True)
        except ProgramEnded:
            pass
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
        raise ProgramEnded


class PendingAnswer:
    """The answer of a held call: whoever waits for it, or for a part of it, waits for the end."""

    def __init__(self, end: Future[None]) -> None:
        self._end = end

    async def wait(self) -> Any:
        """Wait for the end of the program; always raises ProgramEnded."""
        await asyncio.wrap_future(self._end)
        raise ProgramEnded

    def __await__(self) -> Iterator[Any]:
        return self.wait().__await__()

    def __aiter__(self) -> PendingAnswer:
        return self

    __anext__ = __aenter__ = wait

    async def __aexit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Callable[..., PendingAnswer]:
        return lambda *_, **__: self


RUNNING: ContextVar[Program | None] = ContextVar("evalgate_program", default=None)
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
    terminal.serve()


def _hold_call(original: Any, is_agent: Callable[[Any], bool]) -> Any:
    @wraps(original)
    def replacement(*args: Any, **options: Any) -> Any:
        program = RUNNING.get()
        agent = next(filter(is_agent, (*args, *options.values())), None)
        if program is None or agent is None:
            return original(*args, **options)
        return program.hold(agent, (args[1:], options), original)

    replacement.holds = True  # type: ignore[attr-defined]  # marks it
    return replacement
