"""The driver `command`: an agent in any language, as a program with the agent protocol."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, Field, field_validator

from evalgate.text import plain
from evalgate.values import Json
from .base import (
    LABEL_WIDTH,
    Agent,
    AgentDriver,
    AgentSetting,
    DriverOptions,
    DriverTools,
    exists,
)
from .pool import WorkerPool
from .worker_process import Launch


class CommandOptions(DriverOptions):
    """The command that starts the program."""

    command: tuple[str, ...] = Field(
        description="Program and arguments: a list, or one string split like a shell does; no shell runs it."
    )
    cwd: str = Field(default=".", description="Working directory, relative to the repository root.")
    env: dict[str, str] = Field(
        default_factory=dict,
        description="Environment variables in addition to `env`; never put secrets here.",
    )

    @field_validator("command", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return shlex.split(value)
        except ValueError as error:
            raise ValueError(f"the command cannot be parsed: {str(error).lower()}") from None

    @field_validator("command")
    @classmethod
    def _has_command(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not value[0].strip():
            raise ValueError("the command is empty")
        return value


class CommandDriver(AgentDriver):
    """A pool of programs."""

    name = "command"
    options = CommandOptions
    argument = "command"
    tools = DriverTools.ASKS

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """Open the agent; nothing starts yet."""
        assert isinstance(options, CommandOptions)
        top = setting.top()

        def launch() -> Launch:
            """The program, in the side's sandbox if it has one."""
            return Launch.inside(
                setting.world.sandbox,
                command=options.command,
                cwd=str(Path(setting.root, options.cwd)),
                environment=setting.world.environment,
                overrides=options.env,
                inputs=top,
            )

        return WorkerPool(launch, setting=setting)

    def missing(self, options: Mapping[str, str], root: Path) -> tuple[str, str] | None:
        """The working directory, if it does not exist."""
        folder = options.get("cwd", ".")
        if exists(root / folder):
            return None
        return "cwd", f"the working directory of the agent's command does not exist: `{folder}`"

    def label(self, options: Json) -> str:
        """The command, and its folder if it is not the root."""
        command = options.get("command", "")
        folder = str(options.get("cwd", "."))
        command_line = (
            shlex.join(map(str, command)) if isinstance(command, list | tuple) else str(command)
        )
        return plain.label(command_line, LABEL_WIDTH) + (
            "" if folder == "." else f" in {plain.label(folder, LABEL_WIDTH)}"
        )
