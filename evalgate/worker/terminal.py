"""What a program asks of the person at its terminal: `input()`, and required arguments."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import io
import re
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

TYPIST: ContextVar[Callable[[], str] | None] = ContextVar("evalgate_typist", default=None)
"""Gives the texts that are typed in this context."""

_ARGUMENT = re.compile(r"\bargv\[1")


class ProgramEnded(BaseException):
    """Ends a program. It is no Exception, because programs catch these."""


def serve() -> None:
    """Have a context's typist answer `input()`, and arguments that a program requires and lacks."""
    import argparse

    if hasattr(builtins.input, "has_typist"):
        return
    ask, parse = builtins.input, argparse.ArgumentParser.parse_known_args

    def typed(*arguments: Any) -> str:
        typist = TYPIST.get()
        return ask(*arguments) if typist is None else typist()

    def parsed(parser: Any, args: Any = None, namespace: Any = None) -> Any:
        typist = TYPIST.get()
        if typist is not None and not (sys.argv[1:] if args is None else args):
            args = [*_arguments(parser, typist)]
        return parse(parser, args, namespace)

    typed.has_typist = True  # type: ignore[attr-defined]  # marks it
    builtins.input = typed
    argparse.ArgumentParser.parse_known_args = parsed  # type: ignore[assignment,method-assign]  # replaces it


def _serve_commands(module: str) -> None:
    """The same for commands of Click, or of Typer's own copy of it."""
    try:
        command_class = importlib.import_module(module).Command
    except ImportError:
        return
    make_context = command_class.make_context

    def new_context(command: Any, info_name: Any, args: Any, *more: Any, **settings: Any) -> Any:
        typist = TYPIST.get()
        if typist is not None and not args:
            args = [*_parameters(command, typist)]
        return make_context(command, info_name, args, *more, **settings)

    command_class.make_context = new_context


def _parameters(command: Any, typist: Callable[[], str]) -> Iterator[str]:
    """Values for what a command requires, as in `_arguments`; the first command of a group."""
    if not getattr(command, "invoke_without_command", True):
        yield from [*command.commands][:1]
    for parameter in command.params:
        if parameter.required:
            yield from parameter.opts[:1] if parameter.param_type_name == "option" else ()
            kind = getattr(parameter, "type", None) or parameter.type_descriptor
            name = getattr(kind, "name", None) or kind.annotation
            yield _text_for(getattr(kind, "choices", None), name, typist)


def _text_for(choices: Any, kind: Any, typist: Callable[[], str]) -> str:
    for choice in choices or ():
        return str(getattr(choice, "value", choice))
    return "1" if kind in (int, float, "integer", "float") else typist()


def _arguments(parser: Any, typist: Callable[[], str]) -> Iterator[str]:
    """Values for the arguments that a parser requires: the first choice, 1, or what is typed."""
    fields = vars(parser)  # argparse shows its arguments nowhere else
    groups = (group for group in fields["_mutually_exclusive_groups"] if group.required)
    actions = [action for action in fields["_actions"] if action.required]
    for action in [*actions, *(vars(group)["_group_actions"][0] for group in groups)]:
        yield from action.option_strings[:1]
        if action.nargs != 0:
            yield _text_for(action.choices, action.type, typist)


def answering(module: str) -> Callable[[str], str]:
    """A function that runs a module as a program to which the text is typed, until it asks again,
    and returns what it prints."""
    import runpy

    serve()
    spec = importlib.util.find_spec(module)
    with open(str(spec and spec.origin), encoding="utf-8", errors="replace") as file:
        code = file.read()
    takes_argument = _ARGUMENT.search(code) is not None
    if "click" in code or "typer" in code:
        _serve_commands("click")
        _serve_commands("typer._click")

    def answer(text: str) -> str:
        texts = [text]

        def typist() -> str:
            if not texts:
                raise ProgramEnded
            return texts.pop()

        TYPIST.set(typist)
        sys.argv[1:] = [typist()] if takes_argument else []
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
