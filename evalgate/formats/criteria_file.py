"""ADK's test_config.json: which criteria, with which thresholds and options, and the custom metrics behind them."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ConfigDict, ValidationError

from evalgate.config.gate_file import GenerationConfig
from evalgate.config.yaml import Loader
from evalgate.errors import Place
from evalgate.formats import json_source
from evalgate.formats.json_source import Path, Problems, described
from evalgate.formats.kind import CriteriaReading
from evalgate.model import CriterionUse, SimulatorUse, shapes
from evalgate.model.shapes import Wire, to_camel
from evalgate.text import templates, words

_LONGEST = 1_000_000  # characters


def parse_dataset_config(text: str, *, file: str) -> CriteriaReading:
    """Read an eval_config.yaml (or .json). It never gives criteria: agents-cli's metrics have no thresholds."""
    problems = Problems(text, file=file)
    value = _load(text, problems)
    if problems.failed:
        return CriteriaReading(problems=problems.all())
    if not isinstance(value, dict):
        message = f"expected a mapping with `metrics_to_run`, found {described(value)}"
        problems.error("not-a-config", message, place=Place(file=file, line=1))
        return CriteriaReading(problems=problems.all())
    names = _names(value)
    listed = f" ({words.listed([f'`{name[:40]}`' for name in names])})" if names else ""
    message = f"agents-cli metrics{listed} have no thresholds, so every answer would pass"
    hint = 'put a test_config.json beside the dataset: `{"criteria": {"response_match_score": 0.8}}`'
    problems.warning("no-thresholds", message, place=Place(file=file, line=1), hint=hint)
    return CriteriaReading(problems=problems.all())


def _load(text: str, problems: Problems) -> Any:
    if len(text) > _LONGEST:
        message = f"the file has {len(text):,} characters"
        problems.error("file-too-large", message, place=Place(file=problems.file, line=1))
        return None
    try:
        if problems.file.lower().endswith(".json"):
            return json.loads(text.lstrip("\ufeff"))
        return yaml.load(text, Loader=Loader)  # noqa: S506 - a SafeLoader
    except (yaml.MarkedYAMLError, json.JSONDecodeError) as error:
        problems.error("yaml-syntax", _complaint(error), place=_place(error, problems.file))
    except yaml.YAMLError as error:
        problems.error("yaml-syntax", f"this is not YAML: {error}", place=Place(file=problems.file))
    except RecursionError:
        problems.error("yaml-too-deep", "the values are nested too deeply", place=Place(file=problems.file))
    except ValueError as error:  # impossible dates and endless numbers
        problems.error("yaml-syntax", f"this is not YAML: {error}", place=Place(file=problems.file))
    return None


def _complaint(error: yaml.MarkedYAMLError | json.JSONDecodeError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"this is not JSON: {error.msg}"
    said = ", ".join(part for part in (error.context, error.problem) if part)
    return f"this is not YAML: {said}"


def _place(error: yaml.MarkedYAMLError | json.JSONDecodeError, file: str) -> Place:
    if isinstance(error, json.JSONDecodeError):
        return Place(file=file, line=error.lineno, column=error.colno)
    mark = error.problem_mark or error.context_mark
    return Place(file=file, line=mark.line + 1, column=mark.column + 1) if mark else Place(file=file)


def _names(value: dict[Any, Any]) -> list[str]:
    wanted = value.get("metrics_to_run")
    custom = value.get("custom_metrics")
    names = [name for name in wanted if isinstance(name, str)] if isinstance(wanted, list) else []
    for metric in custom if isinstance(custom, list) else ():
        name = metric.get("name") if isinstance(metric, dict) else None
        if isinstance(name, str) and name not in names:
            names.append(name)
    return names


TYPES = ("llm_backed", "llm_audio")
_DEFAULTS = SimulatorUse()


class SimulatorWire(Wire):
    """ADK's LlmBackedUserSimulatorConfig. ADK keeps unknown keys and reads none; `stop_signal` is ours."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, protected_namespaces=()
    )

    type: str | None = None
    model: str = _DEFAULTS.model
    model_configuration: GenerationConfig | None = None
    max_allowed_invocations: int = 20
    custom_instructions: str | None = None
    include_function_calls: bool = False
    stop_signal: str = _DEFAULTS.stop_signal


def parse_simulator(raw: Any, *, path: Path, problems: Problems) -> SimulatorUse | None:
    """The simulated user as configured; None where it cannot be understood, which is then a problem."""
    if not isinstance(raw, dict):
        problems.error("wrong-type", f"expected an object, found {described(raw)}", path=path)
        return None
    before = problems.failed
    _tell_unknown_user_keys(raw, path, problems)
    try:
        wire = SimulatorWire.model_validate(raw)
    except ValidationError as error:
        problems.validation(error, raw, path=path)
        return None
    _check(wire, path, problems)
    if problems.failed > before:
        return None
    limit = wire.max_allowed_invocations
    return SimulatorUse(
        model=wire.model,
        config=wire.model_configuration,
        max_turns=None if limit < 0 else limit,
        custom_instructions=wire.custom_instructions,
        include_function_calls=wire.include_function_calls,
        stop_signal=wire.stop_signal,
        place=problems.place_of(path),
    )


def _tell_unknown_user_keys(raw: dict[str, Any], path: Path, problems: Problems) -> None:
    given = {shapes.field(key) for key in raw}
    for key in raw:
        if shapes.field(key) not in SimulatorWire.model_fields:
            near = words.nearest(key, [name for name in SimulatorWire.model_fields if name not in given])
            hint = f"did you mean `{near}`?" if near else f"known: {', '.join(SimulatorWire.model_fields)}"
            problems.warning("unknown-key", f"unknown key `{key}` in a simulated user", path=(*path, key), hint=hint)


def _check(wire: SimulatorWire, path: Path, problems: Problems) -> None:
    if wire.type == "llm_audio":
        message = "audio from a simulated user is not supported; its turns are sent as text only"
        problems.error("not-supported", message, path=(*path, "type"), hint='use `"type": "llm_backed"`')
    elif wire.type is not None and wire.type not in TYPES:
        near = words.nearest(wire.type, TYPES)
        hint = f"did you mean `{near}`?" if near else f"ADK has {words.listed(TYPES)}"
        message = f"`{wire.type[:60]}` is not a known type of simulated user"
        problems.error("wrong-value", message, path=(*path, "type"), hint=hint)
    if wire.max_allowed_invocations == 0:
        message = "with 0 turns the agent is never called"
        hint = "ADK's default is 20; -1 means no limit"
        problems.error("wrong-value", message, path=(*path, "max_allowed_invocations"), hint=hint)
    if not wire.model.strip():
        problems.error("wrong-value", "the model name is missing", path=(*path, "model"))
    if not wire.stop_signal.strip():
        problems.error("wrong-value", "an empty stop signal would end every conversation", path=(*path, "stop_signal"))
    problem = "" if wire.custom_instructions is None else templates.problem_of(wire.custom_instructions)
    if problem:
        hint = "ADK requires {{ stop_signal }}, {{ conversation_plan }} and {{ conversation_history }}"
        message = f"the instructions cannot be used: {problem}"
        problems.error("bad-instructions", message, path=(*path, "custom_instructions"), hint=hint)


_KNOWN = frozenset({"criteria", "custom_metrics", "user_simulator_config", "live_model_config"})
_CRITERIA_LIKE = frozenset(
    {"metrics", "evaluators", "thresholds", "evaluation_criteria", "metrics_to_run", "scorers", "assertions"}
)
_THRESHOLD_LIKE = ("min_score", "pass_threshold", "minimum", "min", "value", "score", "limit")
_THRESHOLDLESS = frozenset(
    {"tool_call_count_v1", "inference_call_count_v1", "token_usage_v1", "invocation_duration_v1"}
)
OWN_FLAGS = ("informational", "lower_is_better")
"""What evalgate reads of any criterion beside its options; ADK keeps it and reads it nowhere."""


def parse_criteria(text: str, *, file: str) -> CriteriaReading:
    """Read a test_config.json; every criterion keeps the place where it stands."""
    problems = Problems(text, file=file)
    strays: list[Path] = []
    document = json_source.read(text, problems, each=lambda path, _raw, _offset: strays.append(path))
    if document is None:
        return CriteriaReading(problems=problems.all())
    if document.kind != "object":
        hint = 'write `{"criteria": {"tool_trajectory_avg_score": 1.0}}`'
        problems.error("not-a-config", json_source.expected("an object with `criteria`", document), hint=hint)
        return CriteriaReading(problems=problems.all())
    problems.enter((), *_whole(text))
    return _conclude(document.members, problems)


def _whole(text: str) -> tuple[int, int]:
    start = len(text) - len(text.lstrip("\ufeff \t\r\n"))
    return (start, len(text.rstrip())) if text[start : start + 1] == "{" else (0, 0)


def _conclude(members: dict[str, Any], problems: Problems) -> CriteriaReading:
    fields = {name: (key, value) for key, value in members.items() if (name := shapes.field(key)) in _KNOWN}
    _tell_unknown_keys(members, problems)
    codes = _codes(fields, problems)
    uses = _uses(fields, codes, problems)
    for name in codes.keys() - {use.name for use in uses}:
        hint = f'give it a threshold: `"criteria": {{"{name}": 1.0}}`'
        message = "this metric is not used by any criterion, so it never runs"
        problems.warning("unused-key", message, path=(fields["custom_metrics"][0], name), hint=hint)
    return CriteriaReading(criteria=uses, simulator=_simulator(fields, problems), problems=problems.all())


def _tell_unknown_keys(members: dict[str, Any], problems: Problems) -> None:
    given = {shapes.field(key) for key in members}
    for key, value in members.items():
        name = shapes.field(key)
        if name in _KNOWN:
            if name == "live_model_config":
                message = "live mode is not supported; turns are sent as text, one at a time"
                problems.warning("not-supported", message, path=(key,))
            continue
        if key.startswith(("_", "$")):
            continue
        hint = ""
        if "criteria" not in given and (name in _CRITERIA_LIKE or _is_criterion_value(value)):
            hint = 'ADK reads criteria only from `"criteria": {name: threshold}`'
        else:
            near = words.nearest(name, _KNOWN - given)
            hint = f"did you mean `{near}`?" if near else ""
        problems.warning("unknown-key", f"unknown key `{key}` in a test_config.json (ignored)", path=(key,), hint=hint)


def _is_criterion_value(value: Any) -> bool:
    if isinstance(value, dict):
        return "threshold" in value
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- custom metrics -------------------------------------------------------------------------------


def _codes(fields: dict[str, tuple[str, Any]], problems: Problems) -> dict[str, str]:
    """The dotted path of each custom metric."""
    key, raw = fields.get("custom_metrics", ("custom_metrics", None))
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        hint = 'write `{"name": {"code_config": {"name": "package.module.function"}}}`'
        message = f"expected an object of metrics by name, found {described(raw)}"
        problems.error("wrong-type", message, path=(key,), hint=hint)
        return {}
    codes: dict[str, str] = {}
    for name, metric in raw.items():
        code = _code(metric, (key, name), problems)
        if code is not None:
            codes[name] = code
    return codes


def _code(metric: Any, path: Path, problems: Problems) -> str | None:
    hint = 'write `"code_config": {"name": "package.module.function"}`'
    if not isinstance(metric, dict):
        problems.error("wrong-type", f"expected an object, found {described(metric)}", path=path, hint=hint)
        return None
    written = next((key for key in metric if shapes.field(key) == "code_config"), None)
    if written is None:
        problems.error("missing-key", "`code_config` is missing", path=path, hint=hint)
        return None
    config = metric[written]
    name = config.get("name") if isinstance(config, dict) else None
    if not isinstance(name, str) or not name.strip():
        found = described(name if isinstance(config, dict) else config)
        problems.error("wrong-type", f"expected a dotted path, found {found}", path=(*path, written), hint=hint)
        return None
    if "." not in name:
        message = f"`{name[:60]}` is not a dotted path (package.module.function)"
        problems.error("wrong-value", message, path=(*path, written, "name"), hint=hint)
        return None
    return name


# --- criteria -------------------------------------------------------------------------------------


def _uses(fields: dict[str, tuple[str, Any]], codes: dict[str, str], problems: Problems) -> tuple[CriterionUse, ...]:
    key, raw = fields.get("criteria", ("criteria", {}))
    if not isinstance(raw, dict):
        hint = 'write `"criteria": {"tool_trajectory_avg_score": 1.0}`'
        message = f"expected an object of criteria by name, found {described(raw)}"
        problems.error("criteria-not-an-object", message, path=(key,), hint=hint)
        return ()
    made = [_Criterion(name=name, raw=value, path=(key, name), problems=problems) for name, value in raw.items()]
    return tuple(use for criterion in made if (use := criterion.use(codes.get(criterion.name))) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Criterion:
    name: str
    raw: Any
    path: Path
    problems: Problems

    def use(self, code: str | None) -> CriterionUse | None:
        """The criterion as configured; None where its threshold cannot be read."""
        before = self.problems.failed
        options = self._options()
        flags = {flag: self._flag(options, flag) for flag in OWN_FLAGS}
        threshold = self._threshold(options, is_optional=flags["informational"] or self.name in _THRESHOLDLESS)
        if self.problems.failed > before:
            return None
        return CriterionUse(
            name=self.name,
            threshold=threshold,
            options=options,
            informational=flags["informational"],
            lower_is_better=flags["lower_is_better"],
            code=code,
            place=self.problems.place_of(self.path),
        )

    def _options(self) -> dict[str, Any]:
        """The object form in snake_case at this level; what lies below, and other spellings, stay as written."""
        options: dict[str, Any] = {}
        for key, value in self.raw.items() if isinstance(self.raw, dict) else ():
            name = shapes.field(key)
            if name in options:
                message = f"duplicate key `{name}` in two spellings"
                self.problems.warning("duplicate-key", message, path=(*self.path, key))
            if name not in options or key != name:  # of two spellings, ADK reads the camelCase one
                options[name] = value
        return options

    def _flag(self, options: dict[str, Any], flag: str) -> bool:
        value = options.pop(flag, False)
        if not isinstance(value, bool):
            message = f"expected true or false, found {described(value)}"
            self.problems.error("wrong-type", message, path=(*self.path, flag))
        return value is True

    def _threshold(self, options: dict[str, Any], *, is_optional: bool) -> float | None:
        if not isinstance(self.raw, dict):
            return self._number(self.raw, self.path)
        if "threshold" in options:
            return self._number(options.pop("threshold"), (*self.path, "threshold"))
        if not is_optional:
            near = next((key for key in _THRESHOLD_LIKE if key in options), None) or words.nearest("threshold", options)
            hint = f"`{near}` is there instead" if near else 'write `"threshold": 0.8`'
            self.problems.error("missing-threshold", "`threshold` is missing", path=self.path, hint=hint)
        return None

    def _number(self, value: Any, path: Path) -> float | None:
        """A threshold as ADK reads one: a number, true, or a number written as text."""
        number = math.nan
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value) if isinstance(value, int | float | str) else math.nan
        if not math.isfinite(number):
            hint = "write a number, such as 0.8"
            self.problems.error("bad-threshold", f"expected a number, found {described(value)}", path=path, hint=hint)
            return None
        if isinstance(value, bool | str):
            message = f"the threshold is {described(value)}; read as {number:g}, as ADK does"
            self.problems.note("threshold-not-a-number", message, path=path)
        return number


def _simulator(fields: dict[str, tuple[str, Any]], problems: Problems) -> SimulatorUse | None:
    key, raw = fields.get("user_simulator_config", ("", None))
    return None if raw is None else parse_simulator(raw, path=(key,), problems=problems)
