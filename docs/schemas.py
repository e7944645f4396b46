"""JSON schemas of the files that people write, for editors and SchemaStore: made from what evalgate
itself reads with; and descriptions for those of the files that evalgate writes.

They describe the current form. What evalgate reads besides, such as older dialects and camelCase
keys, is left open rather than underlined, so a file that they accept can still have a problem:
`evalgate validate` has the last word."""

from __future__ import annotations

import ast
import inspect
import itertools
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, create_model

from evalgate import config, criteria, model
from evalgate.config import Door, settings
from evalgate.config.gate_file import GateFile
from evalgate.config.settings import Settings
from evalgate.criteria.base import CriterionSpec
from evalgate.formats.adk_shapes import EvalCaseWire
from evalgate.formats.criteria_file import SimulatorWire
from evalgate.results import history

DRAFT = "https://json-schema.org/draft/2020-12/schema"
SCALARS = {"boolean", "integer", "number", "string"}
NUMBER = {"type": "number"}
OWN_FLAGS = {
    "informational": {
        "type": "boolean",
        "description": "Show the criterion, and let it decide nothing.",
    },
    "lower_is_better": {"type": "boolean", "description": "Pass at or below the threshold."},
}

NOUNS = {
    "Results": "Run",
    "AgentEntry": "AgentUse",
    "ComparisonEntry": "Comparison",
    "CriterionEntry": "CriterionUse",
    "HistoryFile": "PastRuns",
    "ShardEntry": "PlanPart",
    "SimulatorEntry": "SimulatorUse",
    "TrialEntry": "GradedTrial",
    "VerdictEntry": "Verdict",
}
"""The class behind an entry of another name."""


def of_ours(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a file that evalgate writes, with the docstrings of fields as descriptions."""
    definitions = {schema.get("title", ""): schema} | schema.get("$defs", {})
    for title, definition in definitions.items():
        name = NOUNS.get(title, title)
        noun = getattr(model, name, getattr(history, name, None))
        if noun is None:
            continue
        for field, text in _docstrings(noun).items():
            if field in definition.get("properties", {}):
                definition["properties"][field].setdefault("description", text)
    return schema


def _docstrings(noun: type) -> dict[str, str]:
    """The docstring of each field that has one, also of base classes."""
    bases = (base for base in noun.__bases__ if base.__module__ == noun.__module__)
    docstrings = {field: text for base in bases for field, text in _docstrings(base).items()}
    (definition,) = ast.parse(inspect.getsource(noun)).body
    assert isinstance(definition, ast.ClassDef)
    for field, text in itertools.pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            docstrings[ast.unparse(field.target)] = inspect.cleandoc(ast.literal_eval(text.value))
    return docstrings


def gate_file() -> dict[str, Any]:
    """evalgate.yml: its own sections, and every setting that it can hold."""
    schema = GateFile.model_json_schema()
    for name in config.names_with(Settings, Door.FILE):
        for spelling in (settings.input_name(name), name):
            schema["properties"][spelling] = _setting(name)
    return _finished(
        schema, "evalgate.yml", "Settings of evalgate, a pull-request gate for LLM agents."
    )


def _setting(name: str) -> dict[str, Any]:
    """One setting; lists and numbers may also be written as one text."""
    field = Settings.model_fields[name]
    schema = TypeAdapter(Annotated[field.annotation, field]).json_schema()
    if "$defs" in schema or schema.get("type") not in SCALARS | {"array"}:
        schema = {} if "enum" not in schema else {"enum": schema["enum"]}
    elif schema["type"] == "array":
        schema = {
            "anyOf": [{"type": "string"}, {"type": "array", "items": schema.get("items", {})}]
        }
    elif schema["type"] == "string" and "enum" not in schema:
        schema = {}  # a number, or a list on several lines, does as well
    return {**schema, "description": " ".join((field.description or "").split())}


def test_config() -> dict[str, Any]:
    """test_config.json: a threshold or an object for each criterion, custom metrics, the simulated
    user."""
    defs: dict[str, Any] = {}
    rows = {name: _criterion(spec, defs) for name, spec in criteria.CRITERIA.items()}
    custom = {
        "type": "object",
        "properties": {
            "code_config": {
                "type": "object",
                "properties": {"name": {"type": "string", "description": "`module.function`"}},
                "required": ["name"],
            },
            "description": {"type": "string"},
            "metric_info": {"type": "object", "description": "Its interval is the scale."},
        },
        "required": ["code_config"],
    }
    schema = {
        "type": "object",
        "properties": {
            "criteria": {
                "type": "object",
                "description": "By name: the lowest score that passes, or an object with `threshold` and options.",
                "properties": rows,
                "additionalProperties": {"anyOf": [NUMBER, {"type": "object"}]},  # custom metrics
            },
            "custom_metrics": {"type": "object", "additionalProperties": custom},
            "user_simulator_config": _shape(SimulatorWire, defs),
        },
        "required": ["criteria"],
        "$defs": defs,
    }
    return _finished(
        schema, "test_config.json", "Criteria of agent evaluations (Google ADK's EvalConfig)."
    )


def _criterion(spec: CriterionSpec, defs: dict[str, Any]) -> dict[str, Any]:
    options = _shape(spec.options, defs)
    properties = {
        "threshold": {"anyOf": [NUMBER, {"type": "null"}]},
        **OWN_FLAGS,
        **options.get("properties", {}),
    }
    return {
        "description": spec.summary,
        "anyOf": [NUMBER, {"type": "object", "properties": properties}],
    }


def eval_set() -> dict[str, Any]:
    """*.evalset.json and *.test.json in the current schema."""
    shape: type[BaseModel] = create_model(
        "EvalSet",
        eval_set_id=(str, ...),
        name=(str | None, None),
        description=(str | None, None),
        eval_cases=(list[EvalCaseWire], ...),
        creation_timestamp=(float, 0.0),
    )
    schema = shape.model_json_schema(by_alias=False)
    case = schema["$defs"]["EvalCaseWire"]
    case["oneOf"] = [{"required": ["conversation"]}, {"required": ["conversation_scenario"]}]
    return _finished(schema, "evalset.json", "Cases of an agent evaluation (Google ADK's EvalSet).")


def _shape(model: type[BaseModel], defs: dict[str, Any]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=False)
    defs.update(schema.pop("$defs", {}))
    return schema


def _finished(schema: dict[str, Any], title: str, description: str) -> dict[str, Any]:
    """With what a catalog wants to know; keys that are not named stay open, but those of
    evalgate.yml itself."""
    closed = title == "evalgate.yml"
    _clean(schema, closed=closed)
    return {"$schema": DRAFT, **schema, "title": title, "description": description}


def _clean(value: Any, *, closed: bool) -> None:
    """Without the titles that repeat a key, and without closing objects of formats that may
    grow."""
    if isinstance(value, list):
        for each in value:
            _clean(each, closed=closed)
    elif isinstance(value, dict):
        if isinstance(value.get("title"), str):
            del value["title"]
        if not closed and value.get("additionalProperties") is False:
            del value["additionalProperties"]
        for each in value.values():
            _clean(each, closed=closed)
