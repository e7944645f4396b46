"""The tools: their names, arguments and results, and the method of the resources that each
calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Literal

from evalgate.model.shapes import to_camel, to_snake
from evalgate.text import words
from evalgate.values import Json, JsonObject, frozen_dataclass
from evalgate.wings.ces import read, shapes
from evalgate.wings.ces.edit import CODES, Refused
from evalgate.wings.ces.read import COLLECTION_OF, Kind
from evalgate.wings.ces.resources import Done
from .eval_cases import EvalCases
from .operations import Operation, Operations
from .resources import ServerResources

RELAXATIONS = "evalgate/relaxations"
CHANGES = "evalgate/changes"


@frozen_dataclass
class ToolAnswer:
    """The answer of a tool."""

    content: JsonObject
    """The resource, or the list."""
    awaited: Operation | None = None
    """A run whose end the caller waits for."""
    notes: tuple[str, ...] = ()
    """Sentences about a change."""
    meta: JsonObject = field(default_factory=dict)
    """The facts about a change (`_meta`)."""


_PARAMETERS = {
    "evaluations": "names",
    "evaluationDataset": "dataset",
    "evalCase": "body",
    "updateMask": "mask",
}
"""Arguments of tools that have another name in Python."""


@frozen_dataclass
class Tool:
    """A tool."""

    name: str
    description: str
    takes: JsonObject
    """The JSON schema of its arguments."""
    call: Callable[..., Any]
    """The method that gets the arguments."""
    names: Mapping[str, str] = field(default_factory=lambda: _PARAMETERS)
    """The arguments that have another name in Python."""
    gives: JsonObject = field(default_factory=lambda: {"type": "object"})
    """The JSON schema of its result."""
    kind: Literal["read", "write", "delete", "run"] = "write"
    """What it does."""

    def answer(self, arguments: JsonObject) -> ToolAnswer:
        """Check the arguments and call the tool. Raises Refused."""
        properties: JsonObject = self.takes["properties"]
        for key, value in arguments.items():
            if key not in properties:
                hint = words.suggest(key[:100], properties, prefix="; ")
                raise _wrong(key[:100], "unknown", f"unknown argument `{key[:100]}`{hint}")
            if fault := _fault(value, properties[key]):
                raise _wrong(key, fault, f"`{key}`: {fault}")
        for key in self.takes["required"]:
            if key not in arguments:
                raise _wrong(key, "missing", f"`{key}` is missing")
        parameters = {self.names.get(key, to_snake(key)): value for key, value in arguments.items()}
        match self.call(**parameters):
            case ToolAnswer() as answer:
                return answer
            case Done() as done:
                changes = [str(change) for change in done.changes]
                relaxations = list(done.relaxations)
                if self.kind == "read":  # a preview
                    facts = {"changes": changes, "relaxations": relaxations, "diff": done.diff}
                    return ToolAnswer(content={"resource": done.resource, **facts})
                # also as text: not every client shows `_meta`
                notes = tuple(f"This may relax: {relaxation}" for relaxation in relaxations)
                meta = {RELAXATIONS: relaxations, CHANGES: changes}
                return ToolAnswer(content=done.resource or {}, notes=notes, meta=meta)
            case Operation() as operation:
                return ToolAnswer(content=operation.json())
            case content:
                return ToolAnswer(content=content)


_JSON_TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}


def _fault(value: Any, schema: Json) -> str:
    """The problem of an argument, as far as its schema shows it without references."""
    kind = schema.get("type", "")
    texts: Any = value if schema.get("items") == {"type": "string"} else ()
    expected = _JSON_TYPES.get(kind, object)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        return f"expected {kind}"
    if value not in schema.get("enum", [value]):
        return f"expected {' or '.join(schema['enum'])}"
    return "" if all(isinstance(text, str) for text in texts) else "expected a list of texts"


def _wrong(field_name: str, description: str, message: str) -> Refused:
    return Refused("INVALID_ARGUMENT", message, [(field_name, description)])


def error_of(refused: Refused) -> JsonObject:
    """The error as google.rpc.Status, with a BadRequest for its fields."""
    violations = [
        {"field": path, "description": description} for path, description in refused.violations
    ]
    bad = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}
    status = {"code": CODES[refused.code], "status": refused.code, "message": refused.message}
    return {"error": {**status, **({"details": [bad]} if violations else {})}}


# --- schemas --------------------------------------------------------------------------------------


_TYPES = {
    "bool": {"type": "boolean"},
    "int32": {"type": "integer"},
    "float": {"type": "number"},
    "Struct": {"type": "object"},
}
"""JSON's types of fields; all other fields are text."""


def schema_of(name: str) -> JsonObject:
    """The JSON schema of a message: the fields that are read, with their types."""
    definitions: JsonObject = {}

    def describe(message: str) -> JsonObject:
        definition = shapes.DEFINITIONS["messages"][message]
        fields = shapes.fields_of(getattr(shapes, message))
        properties = {
            fields[key].key: _field_schema(field, link)
            for key, field in definition["fields"].items()
            if "handling" not in field or key == "etag"
        }
        required_keys = [fields[key].key for key in definition.get("required", ())]
        schema = {"type": "object", "properties": properties}
        if required_keys and message != name:
            return {**schema, "required": required_keys}
        return schema

    def link(message: str) -> JsonObject:
        if message not in definitions:
            definitions[message] = {}  # a message may contain itself
            definitions[message] = describe(message)
        return {"$ref": f"#/$defs/{message}"}

    return {**describe(name), "$defs": definitions}


def _field_schema(field: Json, link: Callable[[str], JsonObject]) -> JsonObject:
    kind = field["type"]
    if kind in shapes.DEFINITIONS["enums"]:
        schema: JsonObject = {"enum": list(shapes.DEFINITIONS["enums"][kind]["values"])[1:]}
    elif kind in shapes.DEFINITIONS["messages"]:
        schema = link(kind)
    else:
        schema = _TYPES.get(kind, {"type": "string"})
    if field["default"] == []:
        schema = {"type": "array", "items": schema}
    elif field["default"] == {}:
        schema = {"type": "object", "additionalProperties": schema}
    return {**schema, "description": field["about"]} if "about" in field else schema


def _object(required: tuple[str, ...], **properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _holds(required: Iterable[str] | None = None, **properties: JsonObject) -> JsonObject:
    """The result of a tool: its properties; without `required`, all are present."""
    names = list(properties if required is None else required)
    return {
        "type": "object",
        "properties": properties,
        **({"required": names} if names else {}),
    }


def _about(description: str, kind: str = "string") -> JsonObject:
    return {"type": kind, "description": description}


# --- the table ------------------------------------------------------------------------------------

_TEXT: JsonObject = {"type": "string"}
_OBJECT: JsonObject = {"type": "object"}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}
_OBJECTS: JsonObject = {"type": "array", "items": _OBJECT}
_NAME = _about("Its full name, as the list gives it.")
_MASK: JsonObject = {
    "description": "The fields to replace, such as `displayName,golden.turns`: text with commas, a list, or "
    "{paths: [...]}; `*` replaces all. A masked field that is absent is cleared. Without a mask: the fields given.",
    "anyOf": [
        _TEXT,
        _TEXTS,
        _object((), paths=_TEXTS),
    ],
}
_PARENT = _about("projects/P/locations/L/apps/A; without it all that is there.")
_ETAG = _about("The etag that was read; a stale one is refused with ABORTED.")

_CHOICES: JsonObject = {
    "evaluationDataset": _about("The name of a dataset: its evaluations."),
    "tags": {**_TEXTS, "description": "Evaluations that have one of these tags."},
}
_TELLS = " The answer says what of the change may relax (`_meta`, evalgate/relaxations)."


_NAMES = {
    Kind.EVALUATION: "evaluation",
    Kind.DATASET: "evaluation_dataset",
    Kind.EXPECTATION: "evaluation_expectation",
    Kind.RESULT: "evaluation_result",
    Kind.RUN: "evaluation_run",
}
"""The tools' name for a resource."""


_PREVIEW = _holds(resource=_OBJECT, changes=_TEXTS, relaxations=_TEXTS, diff=_TEXT)


def _read_tools(resources: ServerResources, kind: Kind, tool_noun: str) -> tuple[Tool, ...]:
    noun = tool_noun.replace("_", " ")
    takes = _object(
        (),
        parent=_PARENT,
        pageSize={"type": "integer"},
        pageToken=_about("Of the page before."),
        view={
            "enum": ["BASIC", "FULL"],
            "description": "BASIC, the default, has what a list needs.",
        },
    )
    if kind is Kind.EVALUATION:
        failing = _about("Only those whose last run here did not pass.", "boolean")
        takes["properties"].update(failing=failing, **_CHOICES)
    return (
        Tool(
            name=f"list_{tool_noun}s",
            description=f"Lists the {noun}s.",
            takes=takes,
            gives=_holds((), **{COLLECTION_OF[kind]: _OBJECTS}, nextPageToken=_TEXT),
            call=partial(resources.listed, kind),
            kind="read",
        ),
        Tool(
            name=f"get_{tool_noun}",
            description=f"Gets one {noun}, with the etag of its content.",
            takes=_object(("name",), name=_NAME),
            call=partial(resources.get, kind),
            kind="read",
        ),
    )


def _write_tools(resources: ServerResources, kind: Kind, tool_noun: str) -> tuple[Tool, ...]:
    key = to_camel(tool_noun)
    noun = tool_noun.replace("_", " ")
    names = {key: "body", f"{key}Id": "resource_id", "updateMask": "mask"}
    description = f"The {noun}, with its `name`; an `etag` guards against changes of others."
    # the schema occurs once: tools are listed together, and cannot refer to each other
    same = _about(f"The {noun}, as update_{tool_noun} takes it.", "object")
    new_fields = {key: same, f"{key}Id": _about("Without it one is made of the displayName.")}
    definition = {**schema_of(read.RESOURCES[kind].__name__), "description": description}
    definitions = definition.pop("$defs")  # at the top, because `$ref` finds them there
    takes_fields = _object((key,), **{key: definition}, updateMask=_MASK)
    return (
        Tool(
            name=f"create_{tool_noun}",
            description=f"Creates the {noun} in a file of its own.",
            takes=_object((key,), **new_fields, parent=_PARENT),
            call=partial(resources.create, kind),
            names=names,
        ),
        Tool(
            name=f"update_{tool_noun}",
            description=f"Updates the specified {noun}. Always pass an update mask.{_TELLS}",
            takes={**takes_fields, "$defs": definitions},
            call=partial(resources.update, kind),
            names=names,
        ),
        Tool(
            name=f"preview_update_{tool_noun}",
            description=f"Tells what update_{tool_noun} would change and may relax, with the difference of its file; no write.",
            takes=_object((key,), **{key: same}, updateMask=_MASK),
            gives=_PREVIEW,
            call=partial(resources.update, kind, preview=True),
            names=names,
            kind="read",
        ),
    )


# --- ADK evaluation sets --------------------------------------------------------------------------


def _of_cases(cases: EvalCases) -> tuple[Tool, ...]:
    view = _holds(file=_TEXT, evalId=_TEXT, evalCase=_OBJECT, etag=_TEXT)
    case = _about(
        "ADK's EvalCase, or the fields of it that change, in the file's spelling.", "object"
    )
    mask = {
        **_MASK,
        "description": "Fields of the case, such as `conversation,rubrics`; as for evaluations.",
    }
    place = {
        "file": _about("The evaluation file, as list_eval_sets gives it."),
        "evalId": _about("The id of the case."),
    }
    takes = _object(
        ("file", "evalId", "evalCase"), **place, evalCase=case, updateMask=mask, etag=_ETAG
    )

    return (
        Tool(
            name="list_eval_sets",
            description="Lists ADK's evaluation sets with the ids of their cases.",
            takes=_object(()),
            gives=_holds((), evalSets=_OBJECTS),
            call=cases.listed,
            kind="read",
        ),
        Tool(
            name="get_eval_case",
            description="Gives one case of an ADK evaluation set as it is written, with the etag of its content.",
            takes=_object(("file", "evalId"), **place),
            gives=view,
            call=cases.get,
            kind="read",
        ),
        Tool(
            name="update_eval_case",
            description=f"Updates one case of an ADK evaluation set. Always pass an update mask.{_TELLS}",
            takes=takes,
            gives=view,
            call=cases.update,
        ),
        Tool(
            name="preview_update_eval_case",
            description="Tells what update_eval_case would change and may relax, with the file's difference; no write.",
            takes=takes,
            gives=_PREVIEW,
            call=partial(cases.update, preview=True),
            kind="read",
        ),
    )


# --- runs -----------------------------------------------------------------------------------------

_OPERATION = _holds(
    ("name", "done", "metadata"),
    name=_TEXT,
    done={"type": "boolean"},
    metadata=_OBJECT,
    response=_OBJECT,
    error=_OBJECT,
)


def _run_tools(resources: ServerResources) -> tuple[Tool, ...]:
    operations = Operations(resources)

    def run(
        *,
        eval_cases: Sequence[str] = (),
        run_count: int = 1,
        wait: bool = False,
        **chosen: Any,
    ) -> ToolAnswer | Operation:
        resources.require_writable()
        names = resources.selections(**chosen)
        operation = operations.start((*names.values(), *eval_cases), names=names, runs=run_count)
        return ToolAnswer(content=operation.json(), awaited=operation) if wait else operation

    name = _about("Of the operation, as run_evaluation gives it.")
    return (
        Tool(
            name="run_evaluation",
            description="Runs evaluations, or cases of ADK evaluation sets, against the agent of the "
            "repository. Returns an operation; get_operation returns its progress and "
            "outcome.",
            takes=_object(
                (),
                evaluations={**_TEXTS, "description": "Names of evaluations."},
                **_CHOICES,
                evalCases={
                    **_TEXTS,
                    "description": "Or ADK's: `file.evalset.json`, or `file.evalset.json:case`.",
                },
                runCount=_about("How often each is run; 1 without it.", "integer"),
                wait=_about("Answer when it is done, and report progress meanwhile.", "boolean"),
            ),
            gives=_OPERATION,
            call=run,
            kind="run",
        ),
        Tool(
            name="cancel_operation",
            description="Ends a run; what is measured by then is kept.",
            takes=_object(("name",), name=name),
            gives=_OPERATION,
            call=operations.cancel,
        ),
        Tool(
            name="get_operation",
            description="Tells how far a run is, and what came of it.",
            takes=_object(("name",), name=name),
            gives=_OPERATION,
            call=operations.get,
            kind="read",
        ),
    )


def tools(resources: ServerResources) -> dict[str, Tool]:
    """Every tool by its name."""
    catalog: list[Tool] = []
    for kind, tool_noun in _NAMES.items():
        row = (resources, kind, tool_noun)
        catalog += _read_tools(*row)
        catalog += _write_tools(*row) if kind in (Kind.EVALUATION, Kind.DATASET) else ()
        if kind is not Kind.EXPECTATION:
            tool = Tool(
                name=f"delete_{tool_noun}",
                description=f"Deletes the specified {tool_noun.replace('_', ' ')}.{_TELLS}",
                takes=_object(("name",), name=_NAME, etag=_ETAG),
                call=partial(resources.delete, kind),
                kind="delete",
            )
            catalog.append(tool)
    catalog += (*_of_cases(EvalCases(resources)), *_run_tools(resources))
    return {tool.name: tool for tool in catalog}
