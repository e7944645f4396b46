"""The messages of CES that have to do with evaluation, as google-cloud-ces describes them:
shapes.json, which evalgate reads, and messages.pyi, which type checkers read.

Structure comes from the descriptors; "Required", "Output only" and what a field is from the
docstrings of the library (Apache License 2.0). What is decided here: which fields are kept and not
read, which are not run, the limits of numbers and lists. The order of the fields is that of the
file as it is; new ones come last."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from google.cloud import ces_v1beta
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

FOLDER: Final = Path(__file__).resolve().parent.parent / "evalgate" / "wings" / "ces"
PACKAGE: Final = "google.cloud.ces.v1beta."
ROOTS: Final = (
    *(
        "Evaluation",
        "EvaluationExpectation",
        "EvaluationDataset",
        "EvaluationPersona",
        "EvaluationResult",
    ),
    *("EvaluationRun", "EvaluationMetricsThresholds", "EvaluationSettings"),
)
NAMES: Final = {"EvaluationResult.SpanLatency.Type": "SpanType"}
"""Of classes that are not called like the last part of their name."""

RESULTS: Final = re.compile(
    r"(AggregatedMetrics|EvaluationResult|EvaluationRun|LatencyReport)(\..*)?"
    r"|EvaluationErrorInfo|OptimizationConfig|PersonaRunConfig"
)
"""Messages that nobody but a run writes."""

KEPT: Final[Mapping[str, str]] = {
    "Chunk": "transcript|default_variables",
    "Evaluation.GoldenTurn": "root_span",
    "Evaluation.Scenario": "scenario_execution_mode",
    "EvaluationConfig": "input_audio_config|output_audio_config",
    "EvaluationPersona": "speech_config",
    "EvaluationPersona.SpeechConfig": ".*",
    "EvaluationRunCachingSettings": ".*",
    "EvaluationSettings": "scenario_execution_mode|evaluation_run_caching_settings",
    "InputAudioConfig": ".*",
    "Message": "event_time",
    "OptimizationConfig": ".*",
    "OutputAudioConfig": ".*",
    "Span": ".*",
}
"""Fields that are checked and kept as they are written, and that nothing reads."""

NOT_RUN: Final[Mapping[str, str]] = {"SessionInput": "dtmf|audio|will_continue"}
"""Fields with which an evaluation is not run."""

MOST: Final[Mapping[str, int]] = {
    "max_turns": 100,
    "overall_tool_invocation_correctness_threshold": 1,
    "semantic_similarity_success_threshold": 4,
    "tool_invocation_parameter_correctness_threshold": 1,
    "turns": 100,
}
"""The largest number, or the longest list; the least number is 0."""

NOT_REQUIRED: Final = frozenset(
    {
        ("Evaluation.Scenario", "rubrics"),
        ("Evaluation.Scenario", "scenario_expectations"),
        ("Evaluation.ScenarioExpectation.ToolExpectation", "mock_tool_response"),
        ("EvaluationPersona", "name"),
        ("EvaluationResult", "display_name"),
    }
)
"""Fields that the library calls required, and that files lack."""

SCALARS: Final = {
    FieldDescriptor.TYPE_STRING: ("string", ""),
    FieldDescriptor.TYPE_BYTES: ("bytes", ""),
    FieldDescriptor.TYPE_BOOL: ("bool", False),
    FieldDescriptor.TYPE_INT32: ("int32", 0),
    FieldDescriptor.TYPE_FLOAT: ("float", 0.0),
    FieldDescriptor.TYPE_DOUBLE: ("float", 0.0),
}
PYTHON: Final = {
    **dict.fromkeys(("string", "bytes", "Timestamp", "Duration"), "str"),
    **dict.fromkeys(("Struct", "Status"), "JsonObject"),
    "int32": "int",
}
"""The types of Python, where they are called otherwise."""


def render() -> dict[Path, str]:
    """Both files with the text that they should have."""
    data = shapes((FOLDER / "shapes.json").read_text(encoding="utf-8"))
    return {
        FOLDER / "shapes.json": json.dumps(data, indent=1) + "\n",
        FOLDER / "messages.pyi": typed(data),
    }


def shapes(before: str) -> dict[str, Any]:
    """The enums and messages by the names of their classes; `before`: the file as it is."""
    old = json.loads(before)
    enums, messages = {}, {}
    for name, each in reachable().items():
        if isinstance(each, EnumDescriptor):
            enums[class_of(each)] = {
                "of": name,
                "values": {value.name: value.number for value in each.values},
            }
        else:
            messages[class_of(each)] = message(
                name, each, old["messages"].get(class_of(each), {}).get("fields", {})
            )
    return {"enums": enums, "messages": messages}


def reachable() -> dict[str, Descriptor | EnumDescriptor]:
    """All messages and enums that the roots hold, by name without the package; a message comes
    after what it holds."""
    found: dict[str, Descriptor | EnumDescriptor] = {}

    def visit(each: Descriptor | EnumDescriptor, above: tuple[str, ...]) -> None:
        name = each.full_name.removeprefix(PACKAGE)
        for field in each.fields if isinstance(each, Descriptor) and name not in above else ():
            for inner in (value_of(field).message_type, value_of(field).enum_type):
                if inner is not None and inner.full_name.startswith(PACKAGE):
                    visit(inner, (*above, name))
        found.setdefault(name, each)

    for root in ROOTS:
        shape = getattr(ces_v1beta, root)
        visit(shape.pb(shape()).DESCRIPTOR, ())
    return found


def message(name: str, each: Descriptor, before: Mapping[str, Any]) -> dict[str, Any]:
    """A message; `before`: its fields as they are in the file."""
    said = documented(name)
    # Python's own names have a line behind them
    named = {field.name.rstrip("_"): field for field in each.fields}
    fields = {key: described(name, key, field, said.get(key, "")) for key, field in named.items()}
    required = [
        key
        for key in fields
        if said.get(key, "").startswith("Required.") and (name, key) not in NOT_REQUIRED
    ]
    oneofs = {
        one.name: [field.name.rstrip("_") for field in one.fields]
        for one in each.oneofs
        if not one.name.startswith("_")
    }
    return {
        "of": name,
        **({"is_result": True} if RESULTS.fullmatch(name) else {}),
        **({"required": required} if required else {}),
        **({"oneofs": oneofs} if oneofs else {}),
        "fields": ordered(fields, before),
    }


def described(message_name: str, key: str, field: FieldDescriptor, said: str) -> dict[str, Any]:
    """A field: its type, its value where it is absent, its limit and what becomes of it, where that
    is not `read`."""
    value = value_of(field)
    inner = value.message_type or value.enum_type
    kind, default = (
        (class_of(inner), 0 if value.enum_type else None) if inner else SCALARS[value.type]
    )
    if value is not field:
        default = {}
    elif field.is_repeated:
        default = []
    elif field.has_presence:
        default = None
    made: dict[str, Any] = {"type": kind, "default": default}
    if key in MOST:
        made["most"] = MOST[key]
    if re.fullmatch(KEPT.get(message_name, ""), key):
        made["handling"] = "kept"
    elif re.fullmatch(NOT_RUN.get(message_name, ""), key):
        made["handling"] = "not run"
    elif said.startswith("Output only.") and not RESULTS.fullmatch(message_name):
        made["handling"] = "output only"
    if "handling" not in made and not RESULTS.fullmatch(message_name) and sentence(said):
        made["about"] = sentence(said)
    return made


def value_of(field: FieldDescriptor) -> FieldDescriptor:
    """The field itself, or that of a map's values."""
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    return field.message_type.fields_by_name["value"] if is_map else field


def class_of(each: Descriptor | EnumDescriptor) -> str:
    """The name of its class."""
    return NAMES.get(each.full_name.removeprefix(PACKAGE), each.name)


def documented(name: str) -> dict[str, str]:
    """What the library says of the fields of a message, each on one line."""
    shape: Any = ces_v1beta
    for part in name.split("."):
        shape = getattr(shape, part)
    text = re.sub(r"\n +This field is a member of `oneof`_.*", "", shape.__doc__ or "")
    found = re.finditer(r"^( +)(\w+) \([^\n]*\):\n((?:\1 +\S[^\n]*\n)+)", text + "\n", re.MULTILINE)
    return {each[2].rstrip("_"): " ".join(each[3].split()) for each in found}


def sentence(said: str) -> str:
    """What a field is, without whether it is required: the first sentence of it."""
    text = re.sub(r"^(Required|Optional|Output only|Identifier)\.\s*", "", said)
    return re.split(r"(?<=[a-z)])\.(?:\s|$)", text.replace("``", "`"), maxsplit=1)[0][:160]


def ordered(made: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """In the order of before; what is new comes last."""
    return {
        key: made[key] for key in dict.fromkeys((*(key for key in before if key in made), *made))
    }


# --- for type checkers ----------------------------------------------------------------------------


def typed(data: Mapping[str, Any]) -> str:
    """The classes that evalgate makes of the data."""
    lines = [
        "# Written by docs/ces_shapes.py: the classes that shapes.py makes of shapes.json.",
        "# ruff: noqa: PYI052 - the values of an enum have no annotations",
        "from evalgate.values import JsonObject",
        "from evalgate.wings.ces.shapes import Proto, ProtoEnum, Result",
    ]
    for name, each in data["enums"].items():
        lines += ["", f"class {name}(ProtoEnum):"]
        lines += [f"    {key} = {number}" for key, number in each["values"].items()]
    for name, each in data["messages"].items():
        lines += ["", f"class {name}({'Result' if each.get('is_result') else 'Proto'}):"]
        lines += [f"    {key}: {type_of(field)} = ..." for key, field in each["fields"].items()]
    return "\n".join(lines) + "\n"


def type_of(field: Mapping[str, Any]) -> str:
    """The type of a field in Python."""
    kind = PYTHON.get(field["type"], field["type"])
    match field["default"]:
        case None:
            return f"{kind} | None"
        case []:
            return f"tuple[{kind}, ...]"
        case {}:
            return f"dict[str, {kind}]"
    return kind
