"""The settings of a run, from its door, evalgate.yml and the defaults, in this order; and its
policy."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from evalgate import config, errors
from evalgate.errors import ConfigError, Place, Problem
from evalgate.model import FailOn, Policy, Suite, ThresholdRule
from evalgate.text import plain, words
from evalgate.values import Json, JsonObject, without
from . import (
    Door,
    Trait,
    gate_file as config_gate_file,
    places,
    settings as config_settings,
    variables,
    yaml,
)
from .gate_file import AgentRule, GateFile
from .settings import Settings
from .yaml import Locator


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
    if raw_settings.get("base") == "":  # as of a variable that is not set: no run without it
        raise ConfigError("`base` is empty", hint="Name a branch or a commit, or leave it out.")
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
    reading = _read_gate_file(root, door_settings.config)
    path_problems = dict(_path_problems(root, reading))
    settings = _validate({**without(reading.raw_settings, path_problems), **raw_settings})
    for name in (*places.SETTINGS, "baseline"):
        path = places.of_setting(name, getattr(settings, name))
        reason = places.refusal_reason(root, path, trusted=True) if path else ""
        if reason:
            hint = "Set a path outside `root` as an absolute path, on the command line or in the workflow."
            raise ConfigError(
                f"`{config_settings.input_name(name)}`: {path[:200]!r} {reason}", hint=hint
            )
    if settings.env:
        refuse_job_variables(settings, at_home=variables.is_terminal(os.environ))
    changed_rules: JsonObject = {
        name: getattr(GateFile(), name) for name in path_problems.keys() & GateFile.model_fields
    }
    if settings.agent:
        changed_rules["agents"] = [AgentRule.of_short_form(settings.agent)]
    fields = {
        "root": root,
        "gate_file": reading.gate_file.model_copy(update=changed_rules),
        "problems": (*reading.problems, *path_problems.values()),
        "explicit_options": dict(raw_settings),
        "places": reading.places,
    }
    return settings.model_copy(update=fields)


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
    settings: Settings,
    suites: Iterable[Suite],
    *,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Policy:
    """The policy for these suites. If several rules of evalgate.yml match a suite, the last one
    wins. `renamed`: the names of suites in evalgate.yml, if they differ."""
    rates: dict[str, float] = {}
    advisory: set[str] = set()
    for key in (suite.key for suite in suites):
        for rule in settings.gate_file.suites:
            if not places.matches(renamed.get(key, key), rule.match):
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
        criteria=settings.gate_file.compare,
    )


def _validate(raw_settings: Json) -> Settings:
    try:
        return Settings.model_validate(dict(raw_settings))
    except ValidationError as error:
        problems = [
            _setting_problem(config_settings.input_name(str(fault["loc"][0])), fault)
            for fault in error.errors()
        ]
        raise ConfigError.collected(problems) from error


def _setting_problem(key: str, fault: ErrorDetails, place: Place | None = None) -> Problem:
    """The problem of a setting; its hint is the valid form, from the setting's description."""
    name, *steps = fault["loc"]
    path = ".".join([key, *(step for step in steps if isinstance(step, str))])
    hint = ""
    setting = Settings.model_fields.get(str(name))
    if setting and fault["type"] in ("string_pattern_mismatch", "extra_forbidden"):
        hint = (setting.description or "").partition("\n")[0]
    message = f"`{path}`: {words.fault(fault)}, found {repr(fault['input'])[:200]}"
    return errors.error("bad-setting", message, place, hint)


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
        raise ConfigError(f"cannot be read: {error}", place=Place(file)) from error
    if isinstance(text, Problem):
        raise ConfigError(str(text.message), place=text.place, hint=f"Save {file} as UTF-8.")
    reading = parse_gate_file(text.removeprefix("\ufeff"), file=file)
    reading.problems += [
        errors.warning(
            "unused-gate-file",
            f"`{other_file}` is ignored because `{file}` exists, too",
            Place(other_file),
            "Delete one, or set `config`.",
        )
        for other_file in other_files
    ]
    return reading


def refuse_job_variables(settings: Settings, *, at_home: bool) -> None:
    """Raise ConfigError if `env` names a variable of the job, which no agent may get. `at_home`: at
    a terminal, where only evalgate's own keys are refused."""
    refused_names = [name for name in settings.env if variables.is_of_job(name, at_home=at_home)]
    if refused_names:
        raise ConfigError(
            f"`env` names {', '.join(refused_names)}: the workflow's own variables are never passed to an agent",
            hint="If the agent needs a token, pass a narrower one under another name.",
        )


def _path_problems(root: Path, reading: GateFileReading) -> Iterator[tuple[str, Problem]]:
    """The settings and sections whose paths leave `root`, each with its problem. Paths of `tools`
    are checked when they are used."""
    rules = reading.gate_file
    paths: list[tuple[tuple[str | int, ...], object]] = [
        ((name,), places.of_setting(name, value)) for name, value in reading.raw_settings.items()
    ]
    paths += ((("judge", name), getattr(rules.judge, name)) for name in places.OF_JUDGES)
    paths += (
        (("suites", number, "config"), rule.config) for number, rule in enumerate(rules.suites)
    )
    paths += (
        (("agents", number, name), rule.options.get(name))
        for number, rule in enumerate(rules.agents)
        for name in ("path", "cwd")
    )
    for steps, path in paths:
        if isinstance(path, str) and path and (reason := places.refusal_reason(root, path)):
            message = f"`{'.'.join(map(str, steps))}`: {path[:200]!r} {reason}"
            place = reading.places(*steps) if reading.places else None
            yield str(steps[0]), errors.error("bad-path", message, place)


@dataclass(slots=True, kw_only=True)
class GateFileReading:
    """What evalgate.yml says."""

    gate_file: GateFile = field(default_factory=GateFile)
    """Its rules, without invalid keys."""
    raw_settings: JsonObject = field(default_factory=dict)
    """Its settings: raw values by setting name."""
    problems: list[Problem] = field(default_factory=list)
    places: Locator | None = None
    """Finds the position of a key; None without a file."""


def parse_gate_file(text: str, *, file: str) -> GateFileReading:
    """Read evalgate.yml. Setting names may have hyphens or underscores."""
    document = yaml.load(text, file=file)
    if isinstance(document, Problem):
        return GateFileReading(problems=[document])
    if document.raw is None:
        return GateFileReading()
    if not isinstance(document.raw, dict):
        message = f"evalgate.yml must be a mapping, found a {document.places.node.id}"
        problem = errors.error("gate-file-shape", message, Place(file, 1))
        return GateFileReading(problems=[problem])
    locate = document.places
    reading = GateFileReading(places=locate)
    rules: JsonObject = {}
    for key, value in document.raw.items():
        if reason := yaml.unusable([key, value]):
            reading.problems.append(errors.error("bad-setting", f"`{key}` {reason}", locate(key)))
        elif key in GateFile.model_fields:
            rules[key] = value
        else:
            reading.problems += _read_setting(str(key), value, reading.raw_settings, locate(key))
    reading.problems += document.warnings
    try:
        reading.gate_file = GateFile.model_validate(rules)
    except ValidationError as error:
        faults = error.errors()
        reading.problems += [_rule_problem(fault, locate) for fault in faults]
        for fault in faults:
            rules.pop(str(fault["loc"][0]), None)
        reading.gate_file = GateFile.model_validate(rules)
    return reading


def line_of_input(name: str, value: str) -> str:
    """The hint for a setting that is not an input of the action: the line to write in
    evalgate.yml."""
    input_name = config_settings.input_name(name)
    if name not in {*config.names_with(Settings, Door.FILE), *GateFile.model_fields}:
        return f"Only the command line has this setting: `evalgate run --{input_name}`."
    # a text in JSON's quotes is one in YAML, and the file's settings are read as the inputs are
    text = json.dumps(value, ensure_ascii=False)
    return f"Write this line in evalgate.yml: `{input_name}: {text}`."


def _read_setting(key: str, value: Any, settings: JsonObject, place: Place) -> Iterator[Problem]:
    """Add a setting of the file to `settings`, if it is one; its problems."""
    name = key.replace("-", "_")
    if name not in config.names_with(Settings, Door.FILE):
        yield _unknown_setting(key, name, place)
        return
    try:
        Settings.model_validate({name: value})
    except ValidationError as error:
        for fault in error.errors():
            yield _setting_problem(key, fault, place)
        return
    if name in settings:  # `fail-on` and `fail_on`
        message = f"duplicate key `{key}` in two spellings; the last value is used"
        yield errors.warning("duplicate-key", message, place)
    settings[name] = value


def _unknown_setting(key: str, setting: str, place: Place) -> Problem:
    name = config_settings.input_name(setting)
    if replacement := config_settings.REMOVED.get(setting):
        message = f"the setting `{key}` was removed"
        return errors.error("removed-setting", message, place, replacement)
    message = f"unknown setting `{key}`"
    names = config.names_with(Settings, Door.FILE)
    keys = [*GateFile.model_fields, *map(config_settings.input_name, names)]
    hint = words.did_you_mean(key, keys, fallback=f"Known keys: {', '.join(keys)}.")
    if setting in config_settings.NAMES:
        message = f"`{key}` cannot be set in evalgate.yml"
        phrases = {
            Door.CLI: f"`--{name}` of the command",
            Door.ACTION: f"the input `{name}` of the action",
        }
        doors = config.fact(Settings.model_fields[setting], Door)
        hint = f"Use {' or '.join(phrases[door] for door in doors)}."
    return errors.error("unknown-setting", message, place, hint)


def _rule_problem(fault: ErrorDetails, locate: Locator) -> Problem:
    path = fault["loc"]
    message = f"`{'.'.join(map(str, path))}`: {words.fault(fault)}"
    steps = ()
    hint = ""
    if fault["type"] == "literal_error":
        message += f", found {fault['input']!r}"
    elif fault["type"] == "extra_forbidden":
        sections = GateFile.model_json_schema()["$defs"].values()
        names = [name for section in sections for name in section.get("properties", ())]
        hint = words.did_you_mean(str(path[-1]), [*GateFile.model_fields, *names])
    elif fault["type"] == config_gate_file.REFUSED:
        steps = fault["ctx"]["at"]
    return errors.error("gate-file-shape", message, locate(*path, *steps), hint)
