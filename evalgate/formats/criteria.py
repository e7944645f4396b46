"""ADK's test_config.json: which criteria, with which thresholds and options, and the custom metrics behind them."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any

from evalgate.formats import simulators
from evalgate.formats.readings import CriteriaReading
from evalgate.model import CriterionUse, SimulatorUse
from evalgate.text import words
from evalgate.wire import documents, spelling
from evalgate.wire.complaints import described
from evalgate.wire.ledger import Ledger, Path

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
    ledger = Ledger(text, file=file)
    strays: list[Path] = []
    document = documents.read(text, ledger, each=lambda path, _raw, _offset: strays.append(path))
    if document is None:
        return CriteriaReading(problems=ledger.problems())
    if document.kind != "object":
        hint = 'write `{"criteria": {"tool_trajectory_avg_score": 1.0}}`'
        ledger.error("not-a-config", documents.expected("an object with `criteria`", document), hint=hint)
        return CriteriaReading(problems=ledger.problems())
    ledger.enter((), *_whole(text))
    return _conclude(document.members, ledger)


def _whole(text: str) -> tuple[int, int]:
    start = len(text) - len(text.lstrip("\ufeff \t\r\n"))
    return (start, len(text.rstrip())) if text[start : start + 1] == "{" else (0, 0)


def _conclude(members: dict[str, Any], ledger: Ledger) -> CriteriaReading:
    fields = {name: (key, value) for key, value in members.items() if (name := spelling.field(key)) in _KNOWN}
    _tell_unknown(members, ledger)
    codes = _codes(fields, ledger)
    uses = _uses(fields, codes, ledger)
    for name in codes.keys() - {use.name for use in uses}:
        hint = f'give it a threshold: `"criteria": {{"{name}": 1.0}}`'
        ledger.warn(
            "unused-key",
            "this metric is not used by any criterion, so it never runs",
            path=(fields["custom_metrics"][0], name),
            hint=hint,
        )
    return CriteriaReading(criteria=uses, simulator=_simulator(fields, ledger), problems=ledger.problems())


def _tell_unknown(members: dict[str, Any], ledger: Ledger) -> None:
    given = {spelling.field(key) for key in members}
    for key, value in members.items():
        name = spelling.field(key)
        if name in _KNOWN:
            if name == "live_model_config":
                message = "live mode is not supported; turns are sent as text, one at a time"
                ledger.warn("not-supported", message, path=(key,))
            continue
        if key.startswith(("_", "$")):
            continue
        hint = ""
        if "criteria" not in given and (name in _CRITERIA_LIKE or _is_criterion_value(value)):
            hint = 'ADK reads criteria only from `"criteria": {name: threshold}`'
        else:
            near = words.nearest(name, _KNOWN - given)
            hint = f"did you mean `{near}`?" if near else ""
        ledger.warn("unknown-key", f"unknown key `{key}` in a test_config.json (ignored)", path=(key,), hint=hint)


def _is_criterion_value(value: Any) -> bool:
    if isinstance(value, dict):
        return "threshold" in value
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- custom metrics -------------------------------------------------------------------------------


def _codes(fields: dict[str, tuple[str, Any]], ledger: Ledger) -> dict[str, str]:
    """The dotted path of each custom metric."""
    key, raw = fields.get("custom_metrics", ("custom_metrics", None))
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        hint = 'write `{"name": {"code_config": {"name": "package.module.function"}}}`'
        message = f"expected an object of metrics by name, found {described(raw)}"
        ledger.error("wrong-type", message, path=(key,), hint=hint)
        return {}
    codes: dict[str, str] = {}
    for name, metric in raw.items():
        code = _code(metric, (key, name), ledger)
        if code is not None:
            codes[name] = code
    return codes


def _code(metric: Any, path: Path, ledger: Ledger) -> str | None:
    hint = 'write `"code_config": {"name": "package.module.function"}`'
    if not isinstance(metric, dict):
        ledger.error("wrong-type", f"expected an object, found {described(metric)}", path=path, hint=hint)
        return None
    written = next((key for key in metric if spelling.field(key) == "code_config"), None)
    if written is None:
        ledger.error("missing-key", "`code_config` is missing", path=path, hint=hint)
        return None
    config = metric[written]
    name = config.get("name") if isinstance(config, dict) else None
    if not isinstance(name, str) or not name.strip():
        found = described(name if isinstance(config, dict) else config)
        ledger.error("wrong-type", f"expected a dotted path, found {found}", path=(*path, written), hint=hint)
        return None
    if "." not in name:
        message = f"`{name[:60]}` is not a dotted path (package.module.function)"
        ledger.error("wrong-value", message, path=(*path, written, "name"), hint=hint)
        return None
    return name


# --- criteria -------------------------------------------------------------------------------------


def _uses(fields: dict[str, tuple[str, Any]], codes: dict[str, str], ledger: Ledger) -> tuple[CriterionUse, ...]:
    key, raw = fields.get("criteria", ("criteria", {}))
    if not isinstance(raw, dict):
        hint = 'write `"criteria": {"tool_trajectory_avg_score": 1.0}`'
        message = f"expected an object of criteria by name, found {described(raw)}"
        ledger.error("criteria-not-an-object", message, path=(key,), hint=hint)
        return ()
    made = [_Criterion(name=name, raw=value, path=(key, name), ledger=ledger) for name, value in raw.items()]
    return tuple(use for criterion in made if (use := criterion.use(codes.get(criterion.name))) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Criterion:
    name: str
    raw: Any
    path: Path
    ledger: Ledger

    def use(self, code: str | None) -> CriterionUse | None:
        """The criterion as configured; None where its threshold cannot be read."""
        before = self.ledger.failed
        options = self._options()
        flags = {flag: self._flag(options, flag) for flag in OWN_FLAGS}
        threshold = self._threshold(options, is_optional=flags["informational"] or self.name in _THRESHOLDLESS)
        if self.ledger.failed > before:
            return None
        return CriterionUse(
            name=self.name,
            threshold=threshold,
            options=options,
            informational=flags["informational"],
            lower_is_better=flags["lower_is_better"],
            code=code,
            place=self.ledger.place_of(self.path),
        )

    def _options(self) -> dict[str, Any]:
        """The object form in snake_case at this level; what lies below, and other spellings, stay as written."""
        options: dict[str, Any] = {}
        for key, value in self.raw.items() if isinstance(self.raw, dict) else ():
            name = spelling.field(key)
            if name in options:
                self.ledger.warn("duplicate-key", f"duplicate key `{name}` in two spellings", path=(*self.path, key))
            if name not in options or key != name:  # of two spellings, ADK reads the camelCase one
                options[name] = value
        return options

    def _flag(self, options: dict[str, Any], flag: str) -> bool:
        value = options.pop(flag, False)
        if not isinstance(value, bool):
            message = f"expected true or false, found {described(value)}"
            self.ledger.error("wrong-type", message, path=(*self.path, flag))
        return value is True

    def _threshold(self, options: dict[str, Any], *, is_optional: bool) -> float | None:
        if not isinstance(self.raw, dict):
            return self._number(self.raw, self.path)
        if "threshold" in options:
            return self._number(options.pop("threshold"), (*self.path, "threshold"))
        if not is_optional:
            near = next((key for key in _THRESHOLD_LIKE if key in options), None) or words.nearest("threshold", options)
            hint = f"`{near}` is there instead" if near else 'write `"threshold": 0.8`'
            self.ledger.error("missing-threshold", "`threshold` is missing", path=self.path, hint=hint)
        return None

    def _number(self, value: Any, path: Path) -> float | None:
        """A threshold as ADK reads one: a number, true, or a number written as text."""
        number = math.nan
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value) if isinstance(value, int | float | str) else math.nan
        if not math.isfinite(number):
            hint = "write a number, such as 0.8"
            self.ledger.error("bad-threshold", f"expected a number, found {described(value)}", path=path, hint=hint)
            return None
        if isinstance(value, bool | str):
            message = f"the threshold is {described(value)}; read as {number:g}, as ADK does"
            self.ledger.note("threshold-not-a-number", message, path=path)
        return number


def _simulator(fields: dict[str, tuple[str, Any]], ledger: Ledger) -> SimulatorUse | None:
    key, raw = fields.get("user_simulator_config", ("", None))
    return None if raw is None else simulators.parse_simulator(raw, path=(key,), ledger=ledger)
