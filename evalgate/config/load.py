"""What a run is asked for: the doors over evalgate.yml over the defaults; its policy, its agents' environment."""

from __future__ import annotations

import dataclasses
import fnmatch
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalgate import formats
from evalgate.config import gate_file as gate_files
from evalgate.config import globs
from evalgate.config import settings as settings_table
from evalgate.config.gate_file import AgentRule, GateFile
from evalgate.config.settings import Settings
from evalgate.config.yaml import Locator
from evalgate.errors import ConfigError, Place, Problem, Severity
from evalgate.model import CriterionRule, FailOn, Policy, Suite, ThresholdRule

DRIVER_ARGUMENT = {"adk": "path", "python": "call", "command": "command", "http": "url", "replay": "path"}
"""Which option of each driver the text after the colon of `agent: driver:text` fills."""

HARMLESS = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "CI",
)  # fmt: skip
"""What every agent sees."""

INSTALLING = ("UV_*", "PIP_*", "NETRC", "XDG_CACHE_HOME")
"""What only installing children see besides."""

NEVER = (
    "GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_*", "INPUT_*", "GITHUB_*", "RUNNER_*",
)  # fmt: skip
"""What no pattern passes on: it belongs to the workflow."""


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


def load_settings(given: Mapping[str, Any]) -> Choice:
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


def policy_of(choice: Choice, suites: Iterable[Suite]) -> Policy:
    """The policy for these suites; of several rules in evalgate.yml that match one, the last wins."""
    settings = choice.settings
    rates: dict[str, float] = {}
    advisory: set[str] = set()
    for suite in suites:
        for rule in choice.gate_file.suites:
            if not globs.matches(suite.key, rule.match):
                continue
            if rule.pass_rate is not None:
                rates[suite.key] = rule.pass_rate
            if rule.severity is not None:
                (advisory.add if rule.severity == "advisory" else advisory.discard)(suite.key)
    return Policy(
        fail_on=frozenset(FailOn(word) for word in settings.fail_on),
        pass_rate=settings.pass_rate,
        min_measured=settings.min_measured,
        suite_pass_rate=rates,
        adk_compat=settings.adk_compat,
        alpha=settings.alpha,
        max_drop=settings.max_drop,
        threshold=ThresholdRule(settings.threshold),
        confirm=settings.confirm,
        advisory=frozenset(advisory),
        criteria={
            name: CriterionRule(gating=rule.gating, lower_is_better=rule.lower_is_better, max_drop=rule.max_drop)
            for name, rule in choice.gate_file.compare.items()
        },
        admission=settings.admission,
    )


def agent_environment(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The variables of `environ` that are harmless or match one of `names` (globs), the workflow's own excepted."""
    patterns = (*HARMLESS, *names)
    return {name: value for name, value in environ.items() if _matches(name, patterns) and not _matches(name, NEVER)}


def why_absent(name: str, environ: Mapping[str, str], names: Iterable[str]) -> str:
    """Why an agent does not see a variable, and what to do: it is not set, or not named."""
    if _matches(name, NEVER):
        return f"{name} is the workflow's own and never reaches an agent; give it a narrower one by another name"
    if _matches(name, names):
        how = f"`{name}: ${{{{ secrets.{name} }}}}` below the step's own `env:`"
        return f"`env` names {name}, but it is not set here; a workflow sets it by {how}, a shell by `export`"
    if _matches(name, HARMLESS):
        return f"{name} is not set here"
    unset = "" if name in environ else ", and it is not set here either"
    return f"the setting `env` does not name {name}{unset}; agents see only what it names (`env: {name}`)"


def installer_environment(environ: Mapping[str, str], agent: Mapping[str, str]) -> dict[str, str]:
    """What children that install packages see."""
    return dict(agent) | {name: value for name, value in environ.items() if _matches(name, INSTALLING)}


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
        message=f"`{other}` is not read: `{file}` is there too, and the first that exists counts",
        place=Place(file=other),
        hint="Delete one, or name the one that is meant: `config`.",
    )


def _refuse_secrets(merged: Settings) -> None:
    refused = [name for name in merged.env if _matches(name, NEVER)]
    if refused:
        raise ConfigError(
            f"`env` names {', '.join(refused)}: the workflow's own variables never reach an agent",
            hint="If the agent needs such a token, give it a narrower one under a name of its own.",
        )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
