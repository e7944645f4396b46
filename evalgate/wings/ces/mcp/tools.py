"""The tools: what they are called, what they take and give, and which change of the resources each
is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from evalgate.model.shapes import to_camel
from evalgate.text import words
from evalgate.values import Json, JsonObject, frozen_dataclass
from evalgate.wings.ces import read, shapes
from evalgate.wings.ces.edit import CODES, Refused
from evalgate.wings.ces.mcp.operations import Operation, Operations
from evalgate.wings.ces.mcp.resources import Done, EvalCases, Resources
from evalgate.wings.ces.read import COLLECTION_OF, Kind
from evalgate.wings.ces.shapes import Proto

RELAXATIONS: Final = "evalgate/relaxations"
CHANGES: Final = "evalgate/changes"


@frozen_dataclass
class ToolAnswer:
    """What a tool says: the resource or the list, and beside it what the change was. `awaited`: a
    run whose end the caller wants to wait for."""

    content: JsonObject
    awaited: Operation | None = None
    notes: tuple[str, ...] = ()
    meta: JsonObject = field(default_factory=dict)


@frozen_dataclass
class Tool:
    """A tool; `takes` and `gives` are JSON schemas."""

    name: str
    description: str
    takes: JsonObject
    gives: JsonObject
    call: Callable[[Resources, JsonObject], ToolAnswer]
    read_only: bool = False
    destructive: bool = False
    open_world: bool = False

    def answer(self, resources: Resources, arguments: JsonObject) -> ToolAnswer:
        """Check the arguments and call it. Raises Refused."""
        properties: JsonObject = self.takes["properties"]
        for key, value in arguments.items():
            if key not in properties:
                hint = words.suggest(key[:100], properties, prefix="; ")
                raise Refused(
                    "INVALID_ARGUMENT",
                    f"unknown argument `{key[:100]}`{hint}",
                    [(key[:100], "unknown")],
                )
            kind = properties[key].get("type")
            expected = {
                "string": str,
                "integer": int,
                "boolean": bool,
                "object": dict,
                "array": list,
            }.get(kind or "", object)
            if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
                raise Refused(
                    "INVALID_ARGUMENT", f"`{key}`: expected {kind}", [(key, f"expected {kind}")]
                )
        for key in self.takes.get("required", ()):
            if key not in arguments:
                raise Refused("INVALID_ARGUMENT", f"`{key}` is missing", [(key, "missing")])
        return self.call(resources, arguments)


def error_of(refused: Refused) -> JsonObject:
    """An error as google.rpc.Status has it, with a BadRequest for its fields."""
    violations = [
        {"field": path, "description": description} for path, description in refused.violations
    ]
    bad = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}
    status = {"code": CODES[refused.code], "status": refused.code, "message": refused.message}
    return {"error": {**status, **({"details": [bad]} if violations else {})}}


# --- schemas --------------------------------------------------------------------------------------


_TYPES: Final[Mapping[str, JsonObject]] = {
    "bool": {"type": "boolean"},
    "int32": {"type": "integer"},
    "float": {"type": "number"},
    "Struct": {"type": "object"},
}
"""JSON's types of fields; of all others it is text."""


def schema_of(name: str) -> JsonObject:
    """The JSON schema of a message: the fields that are read, with what each is."""
    definitions: JsonObject = {}

    def describe(message: str) -> JsonObject:
        definition = shapes.DEFINITIONS["messages"][message]
        owner = getattr(shapes, message)
        properties = {
            shapes.key_of(owner, key): _property(field, refer)
            for key, field in definition["fields"].items()
            if "handling" not in field or key == "etag"
        }
        required = [shapes.key_of(owner, key) for key in definition.get("required", ())]
        schema: JsonObject = {"type": "object", "properties": properties}
        return {**schema, "required": required} if required and message != name else schema

    def refer(message: str) -> JsonObject:
        if message not in definitions:
            definitions[message] = {}  # it may hold itself
            definitions[message] = describe(message)
        return {"$ref": f"#/$defs/{message}"}

    return {**describe(name), "$defs": definitions}


def _property(field: Json, refer: Callable[[str], JsonObject]) -> JsonObject:
    kind = field["type"]
    if kind in shapes.DEFINITIONS["enums"]:
        schema: JsonObject = {"enum": list(shapes.DEFINITIONS["enums"][kind]["values"])[1:]}
    elif kind in shapes.DEFINITIONS["messages"]:
        schema = refer(kind)
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


def _holds(*required: str, **properties: str) -> JsonObject:
    """What a tool gives: the types of its properties; without `required` all are there."""
    types = {key: {"type": kind} for key, kind in properties.items()}
    return {"type": "object", "properties": types, "required": list(required or properties)}


def _text(description: str) -> JsonObject:
    return {"type": "string", "description": description}


def _with(
    key: str, shape: type[Proto], description: str, required: tuple[str, ...], **more: JsonObject
) -> JsonObject:
    """An object with a message as one property; its definitions move to the top, where `$ref` finds
    them."""
    inner = schema_of(shape.__name__)
    definitions = inner.pop("$defs", {})
    return {
        **_object(required, **{key: {**inner, "description": description}}, **more),
        "$defs": definitions,
    }


# --- the table ------------------------------------------------------------------------------------

_NAME: Final = _text("Its full name, as the list gives it.")
_MASK: Final[JsonObject] = {
    "description": "The fields to replace, such as `displayName,golden.turns`: text with commas, a list, or "
    "{paths: [...]}; `*` replaces all. A masked field that is absent is cleared. Without a mask: the fields given.",
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}},
        _object((), paths={"type": "array", "items": {"type": "string"}}),
    ],
}
_ETAG: Final = _text("The etag that was read; a stale one is refused with ABORTED.")
_PARENT: Final = _text("projects/P/locations/L/apps/A; without it all that is there.")
_TEXTS: Final[JsonObject] = {"type": "array", "items": {"type": "string"}}
_CHOICES: Final[JsonObject] = {
    "evaluationDataset": _text("The name of a dataset: its evaluations."),
    "tags": {**_TEXTS, "description": "Evaluations that have one of these tags."},
}
_TELLS: Final = " The answer says what of the change may relax (`_meta`, evalgate/relaxations)."


_NAMES: Final = {
    Kind.EVALUATION: "evaluation",
    Kind.DATASET: "evaluation_dataset",
    Kind.EXPECTATION: "evaluation_expectation",
    Kind.RESULT: "evaluation_result",
    Kind.RUN: "evaluation_run",
}
"""What tools call a resource."""


def _chosen(arguments: JsonObject) -> JsonObject:
    """Which evaluations a caller chose, as Resources takes it."""
    return {
        "names": _texts(arguments, "evaluations"),
        "dataset": arguments.get("evaluationDataset", ""),
        "tags": _texts(arguments, "tags"),
    }


def _listing(kind: Kind) -> Callable[[Resources, JsonObject], ToolAnswer]:
    def call(resources: Resources, arguments: JsonObject) -> ToolAnswer:
        if arguments.get("orderBy", "") not in ("", "name", "name asc"):
            raise Refused(
                "UNIMPLEMENTED",
                "`orderBy`: files are ordered by name",
                [("orderBy", "not supported")],
            )
        page = {
            "page_size": arguments.get("pageSize", 0),
            "page_token": arguments.get("pageToken", ""),
        }
        view = arguments.get("view", "BASIC")
        if view not in ("BASIC", "FULL"):
            message = "expected BASIC or FULL"
            raise Refused("INVALID_ARGUMENT", f"`view`: {message}", [("view", message)])
        return ToolAnswer(
            content=resources.listed(
                kind,
                parent=arguments.get("parent", ""),
                is_full=view == "FULL",
                failing=arguments.get("failing", False),
                **_chosen(arguments),
                **page,
            )
        )

    return call


def _changed(done: Done) -> ToolAnswer:
    """A change with its relaxations, also in words: not every client shows `_meta`."""
    relaxes = [str(relaxation) for relaxation in done.relaxations]
    notes = tuple(f"This may relax: {relaxation}" for relaxation in relaxes)
    meta: JsonObject = {RELAXATIONS: relaxes, CHANGES: [str(change) for change in done.changes]}
    return ToolAnswer(content=done.resource or {}, notes=notes, meta=meta)


def _previewed(done: Done) -> ToolAnswer:
    content = {
        "resource": done.resource,
        "changes": [str(change) for change in done.changes],
        "relaxations": [str(relaxation) for relaxation in done.relaxations],
        "diff": done.diff,
    }
    return ToolAnswer(content=content)


_PREVIEW: Final = {
    "type": "object",
    "properties": {
        "resource": {"type": "object"},
        "changes": _TEXTS,
        "relaxations": _TEXTS,
        "diff": {"type": "string"},
    },
    "required": ["resource", "changes", "relaxations", "diff"],
}


def _readers(kind: Kind, one: str) -> tuple[Tool, ...]:
    listed = {"type": "array", "items": {"type": "object"}}
    page = {"pageSize": {"type": "integer"}, "pageToken": _text("Of the page before.")}
    filters: JsonObject = {
        "view": {
            "enum": ["BASIC", "FULL"],
            "description": "BASIC, the default, has what a list needs.",
        }
    }
    if kind is Kind.EVALUATION:
        about = "Only those whose last run here did not pass."
        filters |= {"failing": {"type": "boolean", "description": about}, **_CHOICES}
    takes = _object((), parent=_PARENT, **page, orderBy=_text("`name`, nothing else."), **filters)
    gives = {
        "type": "object",
        "properties": {COLLECTION_OF[kind]: listed, "nextPageToken": {"type": "string"}},
    }
    return (
        Tool(
            name=f"list_{one}s",
            description=f"Lists the {one.replace('_', ' ')}s.",
            takes=takes,
            gives=gives,
            call=_listing(kind),
            read_only=True,
        ),
        Tool(
            name=f"get_{one}",
            description=f"Gets one {one.replace('_', ' ')}, with the etag of its content.",
            takes=_object(("name",), name=_NAME),
            gives={"type": "object"},
            call=lambda resources, arguments: ToolAnswer(
                content=resources.get(kind, arguments["name"])
            ),
            read_only=True,
        ),
    )


def _deleter(kind: Kind, one: str) -> Tool:
    return Tool(
        name=f"delete_{one}",
        description=f"Deletes the specified {one.replace('_', ' ')}.{_TELLS}",
        takes=_object(
            ("name",),
            name=_NAME,
            etag=_ETAG,
            force={"type": "boolean", "description": "Drop references to it."},
        ),
        gives={"type": "object"},
        call=lambda resources, arguments: _changed(
            resources.delete(
                kind,
                arguments["name"],
                etag=arguments.get("etag", ""),
                force=arguments.get("force", False),
            )
        ),
        destructive=True,
    )


def _writers(kind: Kind, one: str) -> tuple[Tool, ...]:
    shape = read.RESOURCES[kind]
    key = to_camel(one)
    noun = one.replace("_", " ")
    gives: JsonObject = {"type": "object"}
    description = f"The {noun}, with its `name`; an `etag` guards against changes of others."
    takes_update = _with(key, shape, description, (key,), updateMask=_MASK)
    # the schema stands once: tools are listed together, and cannot refer to each other
    same = {"type": "object", "description": f"The {noun}, as update_{one} takes it."}
    takes_new = _object(
        (key,),
        **{key: same, f"{key}Id": _text("Without it one is made of the displayName.")},
        parent=_PARENT,
    )
    takes_preview = _object((key,), **{key: same}, updateMask=_MASK)
    return (
        Tool(
            name=f"create_{one}",
            description=f"Creates the {noun} in a file of its own.",
            takes=takes_new,
            gives=gives,
            call=lambda resources, arguments: _changed(
                resources.create(
                    kind,
                    arguments[key],
                    parent=arguments.get("parent", ""),
                    resource_id=arguments.get(f"{key}Id", ""),
                )
            ),
        ),
        Tool(
            name=f"update_{one}",
            description=f"Updates the specified {noun}. Always pass an update mask.{_TELLS}",
            takes=takes_update,
            gives=gives,
            call=lambda resources, arguments: _changed(
                resources.update(kind, arguments[key], mask=arguments.get("updateMask"))
            ),
        ),
        Tool(
            name=f"preview_update_{one}",
            description=f"Tells what update_{one} would change and may relax, with the difference of its file; no write.",
            takes=takes_preview,
            gives=_PREVIEW,
            call=lambda resources, arguments: _previewed(
                resources.update(
                    kind, arguments[key], mask=arguments.get("updateMask"), preview=True
                )
            ),
            read_only=True,
        ),
    )


# --- ADK evaluation sets --------------------------------------------------------------------------

_FILE: Final = _text("The evaluation file, as list_eval_sets gives it.")
_EVAL_ID: Final = _text("The id of the case.")


def _of_cases() -> tuple[Tool, ...]:
    view = _holds(file="string", evalId="string", evalCase="object", etag="string")
    case = {
        "type": "object",
        "description": "ADK's EvalCase, or the fields of it that change, in the file's spelling.",
    }
    takes = _object(
        ("file", "evalId", "evalCase"),
        file=_FILE,
        evalId=_EVAL_ID,
        evalCase=case,
        updateMask={
            **_MASK,
            "description": "Fields of the case, such as `conversation,rubrics`; as for evaluations.",
        },
        etag=_ETAG,
    )

    def update(resources: Resources, arguments: JsonObject, *, preview: bool) -> Done:
        more = {
            "mask": arguments.get("updateMask"),
            "etag": arguments.get("etag", ""),
            "preview": preview,
        }
        return EvalCases(resources).update(
            arguments["file"], arguments["evalId"], arguments["evalCase"], **more
        )

    return (
        Tool(
            name="list_eval_sets",
            description="Lists ADK's evaluation sets with the ids of their cases.",
            takes=_object(()),
            gives={
                "type": "object",
                "properties": {"evalSets": {"type": "array", "items": {"type": "object"}}},
            },
            call=lambda resources, arguments: ToolAnswer(content=EvalCases(resources).listed()),  # noqa: ARG005 - none
            read_only=True,
        ),
        Tool(
            name="get_eval_case",
            description="Gives one case of an ADK evaluation set as it is written, with the etag of its content.",
            takes=_object(("file", "evalId"), file=_FILE, evalId=_EVAL_ID),
            gives=view,
            call=lambda resources, arguments: ToolAnswer(
                content=EvalCases(resources).get(arguments["file"], arguments["evalId"])
            ),
            read_only=True,
        ),
        Tool(
            name="update_eval_case",
            description=f"Updates one case of an ADK evaluation set. Always pass an update mask.{_TELLS}",
            takes=takes,
            gives=view,
            call=lambda resources, arguments: _changed(update(resources, arguments, preview=False)),
        ),
        Tool(
            name="preview_update_eval_case",
            description="Tells what update_eval_case would change and may relax, with the file's difference; no write.",
            takes=takes,
            gives=_PREVIEW,
            call=lambda resources, arguments: _previewed(
                update(resources, arguments, preview=True)
            ),
            read_only=True,
        ),
    )


# --- runs -----------------------------------------------------------------------------------------

_OPERATION: Final = _holds(
    *("name", "done", "metadata"),
    name="string",
    done="boolean",
    metadata="object",
    response="object",
    error="object",
)


def _runners(operations: Operations) -> tuple[Tool, ...]:
    def run(resources: Resources, arguments: JsonObject) -> ToolAnswer:
        resources.insist_writable()
        chosen = resources.selections(**_chosen(arguments))
        paths = (*chosen.values(), *_texts(arguments, "evalCases"))
        operation = operations.start(paths, names=chosen, runs=arguments.get("runCount", 1))
        return ToolAnswer(
            content=operation.json(), awaited=operation if arguments.get("wait") else None
        )

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
                runCount={"type": "integer", "description": "How often each is run; 1 without it."},
                wait={
                    "type": "boolean",
                    "description": "Answer when it is done, and report progress meanwhile.",
                },
            ),
            gives=_OPERATION,
            call=run,
            open_world=True,
        ),
        Tool(
            name="cancel_operation",
            description="Ends a run; what is measured by then is kept.",
            takes=_object(("name",), name=_text("Of the operation, as run_evaluation gives it.")),
            gives=_OPERATION,
            call=lambda resources, arguments: ToolAnswer(  # noqa: ARG005 - of runs
                content=operations.cancel(arguments["name"]).json()
            ),
        ),
        Tool(
            name="get_operation",
            description="Tells how far a run is, and what came of it.",
            takes=_object(("name",), name=_text("Of the operation, as run_evaluation gives it.")),
            gives=_OPERATION,
            call=lambda resources, arguments: ToolAnswer(  # noqa: ARG005 - of runs
                content=operations.get(arguments["name"]).json()
            ),
            read_only=True,
        ),
    )


def _texts(arguments: JsonObject, key: str) -> list[str]:
    texts = arguments.get(key, [])
    if not all(isinstance(text, str) for text in texts):
        raise Refused(
            "INVALID_ARGUMENT",
            f"`{key}`: expected a list of texts",
            [(key, "expected a list of texts")],
        )
    return list(texts)


def tools(operations: Operations) -> dict[str, Tool]:
    """Every tool by its name; `operations`: those of this server."""
    catalog: list[Tool] = []
    for kind, one in _NAMES.items():
        catalog += _readers(kind, one)
        catalog += _writers(kind, one) if kind in (Kind.EVALUATION, Kind.DATASET) else ()
        catalog += (_deleter(kind, one),) if kind is not Kind.EXPECTATION else ()
    catalog += (*_of_cases(), *_runners(operations))
    return {tool.name: tool for tool in catalog}
