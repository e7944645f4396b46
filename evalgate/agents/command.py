"""The driver `command`: an agent in any language, as a program that speaks the agent protocol."""

from __future__ import annotations

import shlex
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evalgate.plugins import Agent, AgentSetting, ToolHandling
from evalgate.sessions.pool import Launch, WorkerPool


class CommandOptions(BaseModel):
    """How the program is started."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: tuple[str, ...] = Field(
        description="Program and arguments: a list, or one string split like a shell does; no shell runs it."
    )
    cwd: str = Field(default=".", description="Working directory, relative to the repository root.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment variables in addition to `env`; never put secrets here."
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
    def _names_a_program(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not value[0].strip():
            raise ValueError("the command is empty")
        return value


class CommandDriver:
    """One row of DRIVERS."""

    name = "command"
    options = CommandOptions
    tools = ToolHandling.ASKS
    runs_metrics = False

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """A pool of such programs."""
        assert isinstance(options, CommandOptions)
        launch = Launch(
            command=options.command,
            cwd=str(Path(setting.root, options.cwd)),
            environment={**setting.environment, **options.env},
        )
        return WorkerPool(launch, setting=setting, grades_metrics=False)


DRIVER = CommandDriver()
