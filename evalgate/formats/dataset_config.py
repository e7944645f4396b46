"""agents-cli's eval_config.yaml: metrics without thresholds, so nothing that a gate could assert."""

from __future__ import annotations

import json
from typing import Any

import yaml

from evalgate.errors import Place
from evalgate.formats.readings import CriteriaReading
from evalgate.text import words
from evalgate.wire.complaints import described
from evalgate.wire.ledger import Ledger

_LONGEST = 1_000_000  # characters


def parse_dataset_config(text: str, *, file: str) -> CriteriaReading:
    """Read an eval_config.yaml (or .json). It never gives criteria: agents-cli's metrics have no thresholds."""
    ledger = Ledger(text, file=file)
    value = _load(text, ledger)
    if ledger.failed:
        return CriteriaReading(problems=ledger.problems())
    if not isinstance(value, dict):
        message = f"expected a mapping with `metrics_to_run`, found {described(value)}"
        ledger.error("not-a-config", message, place=Place(file=file, line=1))
        return CriteriaReading(problems=ledger.problems())
    names = _names(value)
    listed = f" ({words.listed([f'`{name[:40]}`' for name in names])})" if names else ""
    ledger.warn(
        "no-thresholds",
        f"agents-cli metrics{listed} have no thresholds, so this file checks nothing",
        place=Place(file=file, line=1),
        hint='put a test_config.json beside the dataset: `{"criteria": {"response_match_score": 0.8}}`',
    )
    return CriteriaReading(problems=ledger.problems())


def _load(text: str, ledger: Ledger) -> Any:
    if len(text) > _LONGEST:
        ledger.error("file-too-large", f"the file has {len(text):,} characters", place=Place(file=ledger.file, line=1))
        return None
    try:
        if ledger.file.lower().endswith(".json"):
            return json.loads(text.lstrip("\ufeff"))
        return yaml.safe_load(text)
    except (yaml.MarkedYAMLError, json.JSONDecodeError) as error:
        ledger.error("yaml-syntax", _complaint(error), place=_place(error, ledger.file))
    except yaml.YAMLError as error:
        ledger.error("yaml-syntax", f"this is not YAML: {error}", place=Place(file=ledger.file))
    except RecursionError:
        ledger.error("yaml-too-deep", "the values are nested too deeply", place=Place(file=ledger.file))
    except ValueError as error:  # impossible dates and endless numbers
        ledger.error("yaml-syntax", f"this is not YAML: {error}", place=Place(file=ledger.file))
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
