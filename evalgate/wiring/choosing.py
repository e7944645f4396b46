"""From what was typed, set or written in evalgate.yml to one Settings and one GateFile."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalgate import formats
from evalgate import settings as settings_table
from evalgate.config import gate_file as gate_files
from evalgate.config.gate_file import AgentRule, GateFile
from evalgate.config.yaml_places import Locator
from evalgate.errors import ConfigError, Place, Problem, Severity
from evalgate.settings import Settings
from evalgate.wiring import surroundings

DRIVER_ARGUMENT = {"adk": "path", "python": "call", "command": "command", "http": "url", "replay": "path"}
"""Which option of each driver the text after the colon of `agent: driver:text` fills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the user chose, all sources merged; `problems` of the gate file, found on the way. `given`: what the door
    was given, raw: it holds for the base as well. `places`: of what stands in the gate file.
    """

    settings: Settings
    gate_file: GateFile
    root: Path
    problems: tuple[Problem, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    places: Locator | None = None


def choose(given: Mapping[str, Any]) -> Choice:
    """Merge what a door was given (raw values by setting name, unset ones absent) with evalgate.yml.

    The door wins over the file, the file over the defaults. Raises ConfigError for a value that a door was given
    and that cannot be; what is wrong in the file is among the choice's problems.
    """
    doors = _validate(given)
    root = Path(doors.root).resolve()
    if not root.is_dir():
        raise ConfigError(f"the folder {doors.root!r} does not exist", hint="`root` must be a folder.")
    reading = _read_gate_file(root, doors.config)
    merged = _validate({**reading.given, **given})
    _refuse_secrets(merged)
    rules = reading.gate_file
    if merged.agent:
        rules = rules.model_copy(update={"agents": [agent_rule(merged.agent)]})
    return Choice(
        settings=merged,
        gate_file=rules,
        root=root,
        problems=reading.problems,
        given=dict(given),
        places=reading.places,
    )


def render_command(choice: Choice, *, folder: str) -> str:
    """The run as it is typed at the top of the repository; `folder`: the choice's root there, "" where it is the top.

    What is said of this machine alone, or only to a workflow, is left out.
    """
    words = ["evalgate", "run", *choice.settings.paths, *(["--root", folder] if folder else [])]
    for name in sorted(choice.settings.model_fields_set - {"paths", "root", "output", "cache", "resume", "debug"}):
        if "cli" not in settings_table.doors_of(name):
            continue
        value = getattr(choice.settings, name)
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{settings_table.input_name(name)}")
            continue
        for item in value if isinstance(value, tuple) else (value,):
            words += [f"--{settings_table.input_name(name)}", str(item)]
    return shlex.join(words)


def agent_rule(text: str) -> AgentRule:
    """`adk:agents/x`, `command:node agent.mjs` ... as a rule for every suite; a bare path is an ADK agent."""
    driver, colon, rest = text.partition(":")
    if not colon or driver not in DRIVER_ARGUMENT:
        driver, rest = "adk", text
    return AgentRule.model_validate({"driver": driver, DRIVER_ARGUMENT[driver]: rest})


def _validate(given: Mapping[str, Any]) -> Settings:
    try:
        return Settings.model_validate(dict(given))
    except ValidationError as error:
        problems = [
            Problem(
                severity=Severity.ERROR,
                code="bad-setting",
                message=f"`{settings_table.input_name(str(each['loc'][0]))}`: {each['msg']}, found {each['input']!r}",
            )
            for each in error.errors()
        ]
        raise ConfigError.collected(problems) from error


def _read_gate_file(root: Path, named: str) -> gate_files.GateFileReading:
    names = (named,) if named else gate_files.NAMES
    there = [root / name for name in names if (root / name).is_file()]
    if not there:
        if named:
            raise ConfigError(f"the configuration {named!r} does not exist in {root}", hint="Check `config`.")
        return gate_files.GateFileReading()
    file, *others = (path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path) for path in there)
    try:
        text = formats.decode(there[0].read_bytes(), file=file)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error}", where=Place(file=file)) from error
    if isinstance(text, Problem):
        raise ConfigError(text.message, where=text.place, hint=f"Save {file} as UTF-8.")
    reading = gate_files.parse_gate_file(text.removeprefix("\ufeff"), file=file)
    return dataclasses.replace(reading, problems=(*reading.problems, *(_unused(other, file) for other in others)))


def _unused(other: str, file: str) -> Problem:
    return Problem(
        severity=Severity.WARNING,
        code="unused-gate-file",
        message=f"`{other}` is ignored because `{file}` exists, too",
        place=Place(file=other),
        hint="Delete one, or set `config`.",
    )


def _refuse_secrets(merged: Settings) -> None:
    refused = surroundings.refused(merged.env)
    if refused:
        raise ConfigError(
            f"`env` names {', '.join(refused)}: the workflow's own variables are never passed to an agent",
            hint="If the agent needs a token, pass a narrower one under another name.",
        )
