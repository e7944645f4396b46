"""ADK's test_config.json: criteria with thresholds and options, and the custom metrics behind
them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ConfigDict

from evalgate.config.gate_file import GenerationConfig
from evalgate.errors import Place
from evalgate.model import OPEN, CriterionUse, Scale, SimulatorUse, shapes
from evalgate.model.shapes import Wire
from evalgate.text import templates, words
from evalgate.values import JsonObject, member, without
from . import json_source
from .json_source import Path, Problems, Spot, described
from .kind import CriteriaReading, describe_keys

_MOST_LEVELS = 100
"""Levels of nested objects and lists in an option."""
SIMULATOR_TYPES = ("llm_backed", "llm_audio")
_DEFAULTS = SimulatorUse()


class SimulatorWire(Wire):
    """ADK's LlmBackedUserSimulatorConfig. Like ADK, ignores unknown keys; `stop_signal` is
    evalgate's own."""

    model_config = ConfigDict(extra="ignore")

    type: str | None = None
    model: str = _DEFAULTS.model
    model_configuration: GenerationConfig | None = None
    max_allowed_invocations: int = 20
    custom_instructions: str | None = None
    include_function_calls: bool = False
    stop_signal: str = _DEFAULTS.stop_signal


def parse_simulator(raw: Any, spot: Spot) -> SimulatorUse | None:
    """The simulated user as configured; None, with a problem, if it is invalid."""
    if not isinstance(raw, dict):
        spot.wrong_type("an object", raw)
        return None
    field_names = {shapes.field(key) for key in raw}
    for key in raw:
        if shapes.field(key) not in SimulatorWire.model_fields:
            free_names = [name for name in SimulatorWire.model_fields if name not in field_names]
            known_names = ", ".join(SimulatorWire.model_fields)
            hint = words.suggest(key, free_names) or f"known: {known_names}"
            spot.at(key).warning("unknown-key", f"unknown key `{key}` in a simulated user", hint)
    wire = spot.validated(SimulatorWire, raw)
    if wire is None:
        return None
    _check_simulator(wire, spot)
    if spot.is_broken:
        return None
    limit = wire.max_allowed_invocations
    return SimulatorUse(
        model=wire.model,
        config=wire.model_configuration,
        max_turns=None if limit < 0 else limit,
        custom_instructions=wire.custom_instructions,
        include_function_calls=wire.include_function_calls,
        stop_signal=wire.stop_signal,
    )


def _check_simulator(wire: SimulatorWire, spot: Spot) -> None:
    if wire.type == "llm_audio":
        message = "audio from a simulated user is not supported; its turns are sent as text only"
        spot.at("type").error("not-supported", message, 'use `"type": "llm_backed"`')
    elif wire.type is not None and wire.type not in SIMULATOR_TYPES:
        hint = (
            words.suggest(wire.type, SIMULATOR_TYPES) or f"ADK has {words.listed(SIMULATOR_TYPES)}"
        )
        message = f"`{wire.type[:60]}` is not a known type of simulated user"
        spot.at("type").error("wrong-value", message, hint)
    if wire.max_allowed_invocations == 0:
        message = "with 0 turns the agent is never called"
        hint = "ADK's default is 20; -1 means no limit"
        spot.at("max_allowed_invocations").error("wrong-value", message, hint)
    if not wire.model.strip():
        spot.at("model").error("wrong-value", "the model name is missing")
    if not wire.stop_signal.strip():
        spot.at("stop_signal").error(
            "wrong-value", "an empty stop signal would end every conversation"
        )
    problem = (
        "" if wire.custom_instructions is None else templates.problem_of(wire.custom_instructions)
    )
    if problem:
        hint = (
            "ADK requires {{ stop_signal }}, {{ conversation_plan }} and {{ conversation_history }}"
        )
        message = f"the instructions cannot be used: {problem}"
        spot.at("custom_instructions").error("bad-instructions", message, hint)


# --- the file -------------------------------------------------------------------------------------

_KNOWN_KEYS = frozenset(
    {"criteria", "custom_metrics", "user_simulator_config", "live_model_config"}
)
_CRITERIA_SYNONYMS = frozenset(
    {
        "metrics",
        "evaluators",
        "thresholds",
        "evaluation_criteria",
        "metrics_to_run",
        "scorers",
        "assertions",
    }
)
_THRESHOLD_SYNONYMS = ("min_score", "pass_threshold", "minimum", "min", "value", "score", "limit")
_WITHOUT_THRESHOLD = frozenset(
    {"tool_call_count_v1", "inference_call_count_v1", "token_usage_v1", "invocation_duration_v1"}
)
OWN_FLAGS = ("informational", "lower_is_better")
"""Keys of any criterion that evalgate reads besides its options; ADK accepts and ignores them."""


def parse_criteria(
    text: str, *, file: str, locate: Callable[[Path], Place] | None = None
) -> CriteriaReading:
    """Read a test_config.json. Every criterion gets its place in the file; `locate` gives the place
    of a path if the text is part of another file."""
    problems = Problems(text, file=file)
    if locate is not None:
        problems.use_places(locate)
    spot = Spot(problems)
    members = _members(text, spot)
    if members is None:
        return CriteriaReading(problems=problems.all())
    fields = {
        name: (key, value)
        for key, value in members.items()
        if (name := shapes.field(key)) in _KNOWN_KEYS
    }
    _report_unknown_keys(members, spot)
    uses = _uses(fields, spot)
    key, raw = fields.get("user_simulator_config", ("", None))
    simulator = None if raw is None else parse_simulator(raw, spot.at(key))
    _, custom = fields.get("custom_metrics", ("", None))
    return CriteriaReading(
        criteria=uses,
        simulator=simulator,
        simulator_place=spot.at(key).place if simulator else None,
        problems=problems.all(),
        metrics=frozenset(custom if isinstance(custom, dict) else ()),
    )


def _members(text: str, spot: Spot) -> JsonObject | None:
    """The members of the file's object; None, with a problem, if it is not an object of
    criteria."""
    # a list gives its elements to the consumer: the first one shows what the file is
    values: list[Any] = []
    document = json_source.read(
        text, spot.problems, consumer=lambda _path, raw, _offset: values.append(raw)
    )
    if document is None and spot.is_broken:
        return None
    keys = next((value for value in (*values[:1], document) if isinstance(value, dict)), {})
    kind = describe_keys(keys)
    if (kind and not kind.startswith("criteria")) or "data" in keys:
        kind = kind or "an evaluation set in the old format (`data`)"
        stem = spot.problems.file.rpartition("/")[2].partition(".")[0]
        hint = f"rename it to {stem}.evalset.json, or delete it"
        message = f"expected criteria, found {kind}"
        spot.error("not-a-config", message, hint if "evaluation set" in kind else "")
        return None
    if not isinstance(document, dict):
        hint = 'write `{"criteria": {"tool_trajectory_avg_score": 1.0}}`'
        kind = "a list" if isinstance(document, list) else described(document)
        message = f"expected an object with `criteria`, found {kind}"
        spot.error("not-a-config", message, hint)
        return None
    deep_keys = [
        key for key, value in document.items() if shapes.is_deep(value, levels=_MOST_LEVELS)
    ]
    for key in deep_keys:
        spot.at(key).error("json-too-deep", "the values are nested too deeply")
    return without(document, deep_keys)


def _uses(fields: Mapping[str, tuple[str, Any]], spot: Spot) -> tuple[CriterionUse, ...]:
    """The valid criteria. `fields`: the key in the file and its value, by ADK's name of the key."""
    metrics = _metrics(*fields["custom_metrics"], spot) if "custom_metrics" in fields else {}
    key, raw = fields.get("criteria", ("criteria", {}))
    if not isinstance(raw, dict):
        hint = 'write `"criteria": {"tool_trajectory_avg_score": 1.0}`'
        message = f"expected an object of criteria by name, found {described(raw)}"
        spot.at(key).error("criteria-not-an-object", message, hint)
        raw = {}
    candidates = [
        _use(name, value, spot.at(key, name), *metrics.get(name, (None, Scale())))
        for name, value in raw.items()
    ]
    uses = tuple(filter(None, candidates))
    for name in metrics.keys() - {use.name for use in uses}:
        hint = f'give it a threshold: `"criteria": {{"{name}": 1.0}}`'
        message = "this metric is not used by any criterion, so it never runs"
        spot.at(fields["custom_metrics"][0], name).warning("unused-key", message, hint)
    return uses


def _report_unknown_keys(members: JsonObject, spot: Spot) -> None:
    field_names = {shapes.field(key) for key in members}
    for key, value in members.items():
        name = shapes.field(key)
        if name in _KNOWN_KEYS:
            if name == "live_model_config" and value is not None:
                message = (
                    "the agent cannot be run in live mode yet, so this file cannot be evaluated"
                )
                hint = f"remove `{key}` to evaluate the agent by text, one turn at a time"
                spot.at(key).error("not-supported", message, hint)
            continue
        if key.startswith(("_", "$")):
            continue
        is_criterion = (
            "threshold" in value if isinstance(value, dict) else type(value) in (int, float)
        )
        if "criteria" not in field_names and (name in _CRITERIA_SYNONYMS or is_criterion):
            hint = 'ADK reads criteria only from `"criteria": {name: threshold}`'
        else:
            hint = words.suggest(name, _KNOWN_KEYS - field_names)
        message = f"unknown key `{key}` in a test_config.json (ignored)"
        spot.at(key).warning("unknown-key", message, hint)


# --- custom metrics -------------------------------------------------------------------------------


def _metrics(key: str, raw: Any, spot: Spot) -> dict[str, tuple[str, Scale]]:
    """The dotted path of each custom metric's function, and the metric's scale."""
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        hint = 'write `{"name": {"code_config": {"name": "package.module.function"}}}`'
        spot.at(key).wrong_type("an object of metrics by name", raw, hint)
        return {}
    metrics: dict[str, tuple[str, Scale]] = {}
    for name, metric in raw.items():
        code = _metric_path(metric, spot.at(key, name))
        scale = _scale(metric, spot.at(key, name))
        if code is not None:
            metrics[name] = code, scale
    return metrics


def _scale(metric: Any, spot: Spot) -> Scale:
    """The scale of a custom metric, by the interval in its `metric_info`."""
    # metric_info.metric_value_info.interval, each in either spelling
    interval = metric
    for step in ("metric_info", "metric_value_info", "interval"):
        interval = shapes.to_fields(interval).get(step)
    if interval is None:
        return OPEN
    ends: list[Any] = [shapes.to_fields(interval).get(end) for end in ("min_value", "max_value")]
    if any(type(end) not in (int, float) for end in ends) or not ends[0] < ends[1]:
        hint = 'write `"interval": {"min_value": 0.0, "max_value": 1.0}`'
        message = "the interval of `metric_info` needs two numbers, the smaller one first"
        spot.error("wrong-value", message, hint)
        return OPEN
    return Scale(lowest=float(ends[0]), highest=float(ends[1]))


def _metric_path(metric: Any, spot: Spot) -> str | None:
    """The dotted path in `code_config`; None, with a problem, if there is none."""
    hint = 'write `"code_config": {"name": "package.module.function"}`'
    if not isinstance(metric, dict):
        spot.wrong_type("an object", metric, hint)
        return None
    config_key = next((key for key in metric if shapes.field(key) == "code_config"), None)
    if config_key is None:
        spot.error("missing-key", "`code_config` is missing", hint)
        return None
    config = metric[config_key]
    name = member(config, "name")
    if not isinstance(name, str) or not name.strip():
        actual = name if isinstance(config, dict) else config
        spot.at(config_key).wrong_type("a dotted path", actual, hint)
        return None
    if "." not in name:
        message = f"`{name[:60]}` is not a dotted path (package.module.function)"
        spot.at(config_key, "name").error("wrong-value", message, hint)
        return None
    return name


# --- criteria -------------------------------------------------------------------------------------


def _use(name: str, raw: Any, spot: Spot, code: str | None, scale: Scale) -> CriterionUse | None:
    """The criterion as configured, with its options in snake_case at the top level; None if it is
    invalid."""
    options: JsonObject = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        option = shapes.field(key)
        if option in options:
            spot.at(key).warning("duplicate-key", f"duplicate key `{option}` in two spellings")
        # the only spelling, or the camelCase one: ADK reads that one of two
        if option not in options or key != option:
            options[option] = value
    flags = {flag: options.pop(flag, False) for flag in OWN_FLAGS}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            spot.at(flag).wrong_type("true or false", value)
    threshold = None
    if not isinstance(raw, dict):
        threshold = _threshold(raw, spot)
    elif "threshold" in options:
        threshold = _threshold(options.pop("threshold"), spot.at("threshold"))
    elif flags["informational"] is not True and name not in _WITHOUT_THRESHOLD:
        guess = next((key for key in _THRESHOLD_SYNONYMS if key in options), None) or words.nearest(
            "threshold", options
        )
        hint = f"`{guess}` is there instead" if guess else 'write `"threshold": 0.8`'
        detail = f"; found {json_source.listed_keys(options)}" if options else ""
        spot.error("missing-threshold", f"`threshold` is missing{detail}", hint)
    if spot.is_broken:
        return None
    return CriterionUse(
        name=name,
        threshold=threshold,
        options=options,
        **flags,
        code=code,
        scale=scale,
        place=spot.place,
    )


def _threshold(value: Any, spot: Spot) -> float | None:
    """A threshold as ADK reads it: a number, true, or a number as text."""
    number = math.nan
    with suppress(ValueError, OverflowError):
        number = float(value) if isinstance(value, int | float | str) else math.nan
    if not math.isfinite(number):
        hint = "write a number, such as 0.8"
        spot.error("bad-threshold", f"expected a number, found {described(value)}", hint)
        return None
    if isinstance(value, bool | str):
        message = f"the threshold is {described(value)}; read as {number:g}, as ADK does"
        spot.note("threshold-not-a-number", message)
    return number
