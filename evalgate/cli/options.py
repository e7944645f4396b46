"""Command-line options, made from the table of settings."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import click

from evalgate.config import settings
from evalgate.config.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])

SELECTING = ("root", "config", "criteria", "agent", "grep", "python", "requirements", "env", "strict", "runs")
"""What `list` and `validate` take; `run` takes everything."""

DECIDING = (
    *("root", "config", "fail_on", "threshold", "confirm", "alpha", "max_drop", "policy", "admission", "pass_rate"),
    *("min_measured", "output"),
)
"""What `merge` and `compare` take: they measure nothing."""


def options(*names: str) -> Callable[[Command], Command]:
    """Adds `PATHS...` and an option for each named setting (all where none is named)."""

    def add(command: Command) -> Command:
        return click.argument("paths", nargs=-1)(settings_options(*names)(command))

    return add


def settings_options(*names: str) -> Callable[[Command], Command]:
    """Adds an option for each named setting (all where none is named)."""
    chosen = names or tuple(name for name in Settings.model_fields if "cli" in settings.doors_of(name))

    def add(command: Command) -> Command:
        for name in reversed(chosen):
            if name != "paths":
                command = _option(name)(command)
        return command

    return add


def given(values: dict[str, Any]) -> dict[str, Any]:
    """The settings that were really given on the command line."""
    return {name: value for name, value in values.items() if value not in (None, ())}


def _option(name: str) -> Callable[[Command], Command]:
    field = Settings.model_fields[name]
    flag = f"--{settings.input_name(name)}"
    description = field.description or ""
    if field.annotation is bool:
        return click.option(f"{flag}/--no-{settings.input_name(name)}", name, default=None, help=description)
    if _is_listed(field.annotation):
        return click.option(flag, name, multiple=True, metavar="ITEM", help=f"{description} May be repeated.")
    description += _default(field.default)
    return click.option(flag, name, default=None, metavar=_metavar(field.annotation), help=description)


def _default(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return "" if value == () or not text else f" [default: {text}]"


def _is_listed(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (tuple, types.GenericAlias)


def _metavar(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return "|".join(typing.get_args(annotation))
    return {int: "N", float: "NUMBER"}.get(annotation, "TEXT")
