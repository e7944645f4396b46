"""What a program asks of the person at its terminal: `input()`, and an argument."""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import io
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

TYPIST: ContextVar[Callable[[], str] | None] = ContextVar("evalgate_typist", default=None)
"""Gives the texts that are typed in this context."""

_ARGUMENT = re.compile(
    r"\bargv\[1|\badd_argument\(\s*[\"'][^\"'-](?![^)]*nargs=[\"'][?])"
    r"|\bclick\.argument\((?![^)]*required=False)|\btyper\.Argument\("
)


class ProgramEnded(BaseException):
    """Ends a program. It is no Exception, because programs catch these."""


def serve() -> None:
    """Have a context's typist answer `input()`."""
    if hasattr(builtins.input, "has_typist"):
        return
    ask = builtins.input

    def typed(*arguments: Any) -> str:
        typist = TYPIST.get()
        return ask(*arguments) if typist is None else typist()

    typed.has_typist = True  # type: ignore[attr-defined]  # marks it
    builtins.input = typed


def takes_argument(module: str) -> bool:
    """True if a module, by its source, requires an argument that is no option, or reads
    `sys.argv[1]`. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name=module)
    with open(spec.origin, encoding="utf-8", errors="replace") as file:
        return _ARGUMENT.search(file.read()) is not None


def answering(module: str) -> Callable[[str], str]:
    """A function that runs a module as a program to which the text is typed, until it asks again,
    and returns what it prints."""
    import runpy

    serve()
    has_argument = takes_argument(module)

    def answer(text: str) -> str:
        texts = [text]

        def typist() -> str:
            if not texts:
                raise ProgramEnded
            return texts.pop()

        TYPIST.set(typist)
        sys.argv[1:] = [typist()] if has_argument else []
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                runpy.run_module(module, run_name="__main__", alter_sys=True)
        except ProgramEnded:
            pass
        except SystemExit as end:
            if end.code:
                raise RuntimeError(
                    f"{module} ended with {end.code!r}: {output.getvalue()}"
                ) from end
        if texts:
            raise RuntimeError(f"{module} asked for no text")
        return output.getvalue().strip()

    return answer
