"""The settings of a run, from its door, evalgate.yml and the defaults, in this order; and its
policy."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from evalgate import config, errors
from evalgate.config import (
    Door,
    Trait,
    gate_file as config_gate_file,
    places,
    settings as config_settings,
    variables,
    yaml,
)
from evalgate.config.gate_file import (
    AgentRule,
    BudgetRule,
    CompareRule,
    GateFile,
    JudgeRule,
    QuarantineRule,
    SimulatorRule,
    SuiteRule,
    ToolsRule,
)
from evalgate.config.settings import Settings
from evalgate.config.yaml import Locator
from evalgate.errors import ConfigError, Place, Problem
from evalgate.model import CriterionRule, FailOn, Policy, Suite, ThresholdRule
from evalgate.text import plain, words
from evalgate.values import Json, JsonObject, frozen_dataclass


def load_settings(raw_settings: Json) -> Settings:
    """The settings from a door (raw values by setting name, without unset ones) and from
    evalgate.yml.

    The door's values win over the file's, and these over the defaults. Raises ConfigError for an
    invalid value of the door. Errors of the file are among the settings' problems."""
    for name, value in raw_settings.items():
        reason = "" if name == "root" else yaml.unusable(value)
        # a surrogate is a byte of a file name that is not UTF-8
        if reason and "surrogate" not in reason:
            raise ConfigError(f"`{config_settings.input_name(name)}` {reason}")
    door_settings = _validate(raw_settings)
    root = door_settings.root.resolve()
    try:
        if not root.is_dir():
            raise ConfigError(
                f"the folder {str(door_settings.root)!r} does not exist",
                hint="`root` must be a folder.",
            )
    except OSError as error:
        raise ConfigError(
            f"the folder {str(door_settings.root)!r} cannot be read: {error.strerror}"
        ) from error
    reading = _within(root, _read_gate_file(root, door_settings.config))
    settings = _validate({**reading.raw_settings, **raw_settings})
    for name in (*places.SETTINGS, "baseline"):
        path = places.of_setting(name, getattr(settings, name))
        reason = places.refusal_reason(root, path, trusted=True) if path else ""
        if reason:
            hint = "Set a path outside `root` as an absolute path, on the command line or in the workflow."
            raise ConfigError(
                f"`{config_settings.input_name(name)}`: {path[:200]!r} {reason}", hint=hint
            )
    refuse_job_variables(settings, at_home=variables.is_terminal(os.environ))
    rules = reading.gate_file
    if settings.agent:
        rules = rules.model_copy(update={"agents": [AgentRule.of_short_form(settings.agent)]})
    fields = {
        "gate_file": rules,
        "problems": reading.problems,
        "explicit_options": dict(raw_settings),
        "places": reading.places,
    }
    return settings.model_copy(update={"root": root, **fields})


def render_command(settings: Settings, *, folder: str) -> str:
    """The command of the run, to type at the top of the repository. `folder`: the root relative to
    the top; "" for the top.

    Settings for one machine, or for workflows, are left out."""
    command = ["evalgate", "run", *settings.paths, *(["--root", folder] if folder else [])]
    repeated = {*config.names_with(Settings, Door.CLI)} - {
        "paths",
        *config.names_with(Settings, Trait.MACHINE),
    }
    for name in sorted(settings.model_fields_set & repeated):
        value = getattr(settings, name)
        if isinstance(value, bool):
            command.append(f"--{'' if value else 'no-'}{config_settings.input_name(name)}")
            continue
        for text in value if isinstance(value, tuple) else (value,):
            command += [f"--{config_settings.input_name(name)}", str(text)]
    return shlex.join(command)


def policy_of(
    settings: Settings, suites: Iterable[Suite], *, names: Mapping[str, str] = MappingProxyType({})
) -> Policy:
    """The policy for these suites. If several rules of evalgate.yml match a suite, the last one
    wins. `names`: the policy's names for suites, if they differ."""
    rates: dict[str, float] = {}
    advisory: set[str] = set()
    for suite in suites:
        key = names.get(suite.key, suite.key)
        for rule in settings.gate_file.suites:
            if not places.matches(suite.key, rule.match):
                continue
            if rule.pass_rate is not None:
                rates[key] = rule.pass_rate
            if rule.severity is not None:
                (advisory.add if rule.severity == "advisory" else advisory.discard)(key)
    return Policy(
        fail_on=frozenset(FailOn(word) for word in settings.fail_on),
        pass_rate=settings.pass_rate,
        min_measured=settings.min_measured,
        suite_pass_rate=rates,
        deviations=settings.deviations,
        alpha=settings.alpha,
        max_drop=settings.max_drop,
        # ADK runs a case once, without reruns
        threshold=ThresholdRule(
            settings.threshold
            if settings.deviations.failures_confirmed or "threshold" in settings.model_fields_set
            else "all"
        ),
        advisory=frozenset(advisory),
        criteria={
            name: CriterionRule(
                gating=rule.gating, lower_is_better=rule.lower_is_better, max_drop=rule.max_drop
            )
            for name, rule in settings.gate_file.compare.items()
        },
    )


def _validate(raw_settings: Json) -> Settings:
    try:
        return Settings.model_validate(dict(raw_settings))
    except ValidationError as error:
        problems = [
            errors.error(
                "bad-setting",
                f"`{config_settings.input_name(name)}`: {words.fault(finding)}, found {repr(finding['input'])[:200]}",
                hint=_valid_form(name) if finding["type"] == "string_pattern_mismatch" else "",
            )
            for finding in error.errors()
            for name in (str(finding["loc"][0]),)
        ]
        raise ConfigError.collected(problems) from error


def _valid_form(name: str) -> str:
    """The valid form of a setting: the first line of its description."""
    return (Settings.model_fields[name].description or "").partition("\n")[0]


def _read_gate_file(root: Path, config_name: str) -> GateFileReading:
    names = (config_name,) if config_name else config_gate_file.NAMES
    for name in names:
        reason = places.refusal_reason(root, name, trusted=bool(config_name))
        if reason:
            raise ConfigError(
                f"the configuration {name[:200]!r} {reason}", hint="It must be a file below `root`."
            )
    existing_files = [root / name for name in names if (root / name).is_file()]
    if not existing_files:
        if config_name:
            raise ConfigError(
                f"the configuration {config_name!r} does not exist in {root}",
                hint="Check `config`.",
            )
        return GateFileReading()
    file, *other_files = (
        path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        for path in existing_files
    )
    try:
        text = plain.decode(existing_files[0].read_bytes(), file=file)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error}", place=Place(file=file)) from error
    if isinstance(text, Problem):
        raise ConfigError(str(text.message), place=text.place, hint=f"Save {file} as UTF-8.")
    reading = parse_gate_file(text.removeprefix("\ufeff"), file=file)
    ignored_files = (
        errors.warning(
            "unused-gate-file",
            f"`{other_file}` is ignored because `{file}` exists, too",
            Place(file=other_file),
            "Delete one, or set `config`.",
        )
        for other_file in other_files
    )
    return replace(reading, problems=(*reading.problems, *ignored_files))


def refuse_job_variables(settings: Settings, *, at_home: bool) -> None:
    """Raise ConfigError if `env` names a variable of the job, which no agent may get. `at_home`: at
    a terminal, where only evalgate's own keys are refused."""
    refused_names = [
        name
        for name in settings.env
        if name == variables.STORE_KEY or (variables.is_of_ci(name) and not at_home)
    ]
    if refused_names:
        raise ConfigError(
            f"`env` names {', '.join(refused_names)}: the workflow's own variables are never passed to an agent",
            hint="If the agent needs a token, pass a narrower one under another name.",
        )


def _within(root: Path, reading: GateFileReading) -> GateFileReading:
    """The reading without the settings and sections whose paths leave `root`; a problem reports
    each."""
    path_problems: dict[str, Problem] = {}
    paths = [
        ((name,), path)
        for name, value in reading.raw_settings.items()
        if (path := places.of_setting(name, value))
    ]
    for steps, path in (*paths, *places.of_gate_file(reading.gate_file)):
        reason = places.refusal_reason(root, path) if path else ""
        if reason:
            setting = ".".join(str(step) for step in steps)
            place = reading.places(*steps) if reading.places else Place(file="evalgate.yml")
            path_problems[str(steps[0])] = errors.error(
                "bad-path", f"`{setting}`: {path[:200]!r} {reason}", place
            )
    return replace(
        reading,
        raw_settings={
            name: value for name, value in reading.raw_settings.items() if name not in path_problems
        },
        gate_file=reading.gate_file.model_copy(
            update={
                name: getattr(GateFile(), name)
                for name in path_problems
                if name in GateFile.model_fields
            }
        ),
        problems=(*reading.problems, *path_problems.values()),
    )


@frozen_dataclass
class GateFileReading:
    """The file's rules, its settings (raw values by setting name), and all its problems. Invalid
    keys are left out of the rules.

    `places`: finds the position of a key; None without a file."""

    gate_file: GateFile = field(default_factory=GateFile)
    raw_settings: JsonObject = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    places: Locator | None = None


def parse_gate_file(text: str, *, file: str) -> GateFileReading:
    """Read evalgate.yml. Setting names may have hyphens or underscores."""
    document = yaml.load(text, file=file)
    if isinstance(document, Problem):
        return GateFileReading(problems=(document,))
    raw = document.raw
    if raw is None:
        return GateFileReading()
    if not isinstance(raw, dict):
        message = f"evalgate.yml must be a mapping, found {_kind(raw)}"
        return GateFileReading(
            problems=(errors.error("gate-file-shape", message, Place(file=file, line=1)),)
        )

    locate = Locator(document.node, file)
    unusable_keys = {
        key: reason for key, value in raw.items() if (reason := yaml.unusable([key, value]))
    }
    raw = {key: value for key, value in raw.items() if key not in unusable_keys}
    rules = {key: value for key, value in raw.items() if key in GateFile.model_fields}
    raw_settings = {key: value for key, value in raw.items() if key not in GateFile.model_fields}
    settings, problems = _read_settings(raw_settings, locate)
    problems += [
        errors.error("bad-setting", f"`{key}` {reason}", locate(key))
        for key, reason in unusable_keys.items()
    ]
    problems.extend(document.warnings)
    gate_file = GateFile()
    try:
        gate_file = GateFile.model_validate(rules)
    except ValidationError as error:
        problems.extend(_validation_problems(error, locate, model=GateFile))
        invalid_keys = {finding["loc"][0] for finding in error.errors()}
        gate_file = GateFile.model_validate(
            {key: value for key, value in rules.items() if key not in invalid_keys}
        )
    return GateFileReading(
        gate_file=gate_file, raw_settings=settings, problems=tuple(problems), places=locate
    )


def line_of_input(name: str, value: str) -> str:
    """The hint for a setting that is not an input of the action: the line to write in
    evalgate.yml."""
    input_name = config_settings.input_name(name)
    if name not in {*config.names_with(Settings, Door.FILE), *GateFile.model_fields}:
        return f"Only the command line has this setting: `evalgate run --{input_name}`."
    lines = [line.strip() for line in value.splitlines() if line.strip()]
    text = json.dumps(lines) if len(lines) > 1 else value
    document = yaml.load(f"{input_name}: {text}", file="")
    parsed_value = None if isinstance(document, Problem) else document.raw[input_name]
    is_plain = parsed_value == text or isinstance(parsed_value, int | float | list)
    return f"Write this line in evalgate.yml: `{input_name}: {text if is_plain else json.dumps(text)}`."


def _unknown_setting(key: str, names: Sequence[str], place: Place) -> Problem:
    name = config_settings.input_name(key.replace("-", "_"))
    if replacement := config_settings.REMOVED.get(key.replace("-", "_")):
        return errors.error(
            "removed-setting", f"the setting `{key}` was removed", place, replacement
        )
    if name.replace("-", "_") in config_settings.NAMES:
        doors = config.fact(Settings.model_fields[name.replace("-", "_")], Door)
        phrases = {
            Door.CLI: f"`--{name}` of the command",
            Door.ACTION: f"the input `{name}` of the action",
        }
        message = f"`{key}` cannot be set in evalgate.yml"
        return errors.error(
            "unknown-setting",
            message,
            place,
            f"Use {' or '.join(phrases[door] for door in doors)}.",
        )
    keys = [*GateFile.model_fields, *(config_settings.input_name(setting) for setting in names)]
    hint = words.did_you_mean(key, keys, fallback=f"Known keys: {', '.join(keys)}.")
    return errors.error("unknown-setting", f"unknown setting `{key}`", place, hint)


def _read_settings(
    raw_settings: dict[Any, Any], locate: Locator
) -> tuple[JsonObject, list[Problem]]:
    settings: JsonObject = {}
    problems: list[Problem] = []
    names = config.names_with(Settings, Door.FILE)
    for key, value in raw_settings.items():
        name = str(key).replace("-", "_")
        if name not in names:
            problems.append(_unknown_setting(str(key), names, locate(key)))
            continue
        try:
            Settings.model_validate({name: value})
        except ValidationError as error:
            message = "; ".join(words.fault(finding) for finding in error.errors())
            hint = (
                _valid_form(name) if error.errors()[0]["type"] == "string_pattern_mismatch" else ""
            )
            problems.append(
                errors.error(
                    "bad-setting",
                    f"`{key}`: {message}, found {repr(value)[:200]}",
                    locate(key),
                    hint,
                )
            )
            continue
        if name in settings:  # `fail-on` and `fail_on`
            message = f"duplicate key `{key}` in two spellings; the last value is used"
            problems.append(errors.warning("duplicate-key", message, locate(key)))
        settings[name] = value
    return settings, problems


def _validation_problems(
    error: ValidationError, locate: Locator, *, model: type[BaseModel]
) -> list[Problem]:
    problems = []
    rules = (
        model,
        SuiteRule,
        AgentRule,
        JudgeRule,
        BudgetRule,
        SimulatorRule,
        ToolsRule,
        CompareRule,
        QuarantineRule,
    )
    field_names = [name for rule in rules for name in rule.model_fields]
    for finding in error.errors():
        path = finding["loc"]
        hint = ""
        steps = ()
        if finding["type"] == "extra_forbidden":
            hint = words.did_you_mean(str(path[-1]), field_names)
        elif finding["type"] == config_gate_file.REFUSED:
            steps = finding["ctx"]["at"]
            nearest_name = finding["ctx"]["near"]
            hint = f"Did you mean `{nearest_name}`?" if nearest_name else ""
        dotted_path = ".".join(str(step) for step in path)
        detail = f", found {finding['input']!r}" if finding["type"] == "literal_error" else ""
        problems.append(
            errors.error(
                "gate-file-shape",
                f"`{dotted_path}`: {words.fault(finding)}{detail}",
                locate(*path, *steps),
                hint,
            )
        )
    return problems


def _kind(value: Any) -> str:
    names = {
        list: "a list",
        str: "a text",
        int: "a number",
        float: "a number",
        bool: "true or false",
    }
    return names.get(type(value), type(value).__name__)
