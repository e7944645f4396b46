"""Our shapes beside the descriptors of google-cloud-ces: no message, field or enum value is
forgotten."""

from __future__ import annotations

import enum
import json
import re
from pathlib import Path
from typing import get_args, get_origin

import pytest
from google.cloud import ces_v1beta as library
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from evalgate.wings.ces import read, shapes
from evalgate.wings.ces.shapes import Proto, ProtoEnum

PACKAGE = "google.cloud.ces.v1beta."
DATA = Path(__file__).parents[3] / "data/ces"
ROOTS = (
    *(shape.__name__ for shape in read.RESOURCES.values()),
    "EvaluationMetricsThresholds",
    "EvaluationSettings",
)


def descriptors() -> dict[str, Descriptor | EnumDescriptor]:
    """All messages and enums of CES that can be reached from the resources, by name without the
    package."""
    found: dict[str, Descriptor | EnumDescriptor] = {}
    pending = [getattr(library, name).pb(getattr(library, name)()).DESCRIPTOR for name in ROOTS]
    while pending:
        each = pending.pop()
        name = each.full_name
        if not name.startswith(PACKAGE) or name.removeprefix(PACKAGE) in found:
            continue
        found[name.removeprefix(PACKAGE)] = each
        for field in each.fields if isinstance(each, Descriptor) else ():
            pending += [
                inner for inner in (field.message_type, field.enum_type) if inner is not None
            ]
    return found


def ours() -> dict[str, type[Proto | ProtoEnum]]:
    members = [
        each
        for each in vars(shapes).values()
        if isinstance(each, type) and each.__module__ == shapes.__name__
    ]
    bases = (Proto, shapes.Result, ProtoEnum)
    listed = [
        each
        for each in members
        if issubclass(each, (Proto, ProtoEnum)) and each not in bases and each.__doc__
    ]
    return {(each.__doc__ or "").rstrip("."): each for each in listed}


THEIRS = {
    name: each
    for name, each in descriptors().items()
    if not (hasattr(each, "fields") and each.GetOptions().map_entry)
}
MESSAGES = [name for name, each in THEIRS.items() if isinstance(each, Descriptor)]
ENUMS = [name for name, each in THEIRS.items() if isinstance(each, EnumDescriptor)]


def test_every_message_and_enum_has_its_shape() -> None:
    assert ours().keys() == THEIRS.keys()
    assert len(MESSAGES) > 67
    assert sum(len(THEIRS[name].fields) for name in MESSAGES) > 270


@pytest.mark.parametrize("name", ENUMS)
def test_values_of_an_enum(name: str) -> None:
    assert {each.name: each.value for each in ours()[name]} == {
        each.name: each.number for each in THEIRS[name].values
    }


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_of_a_message(name: str) -> None:
    shape = ours()[name]
    known = {field.alias: (key, field) for key, field in shape.model_fields.items()}
    assert known.keys() == {field.json_name for field in THEIRS[name].fields}
    for theirs in THEIRS[name].fields:
        key, field = known[theirs.json_name]
        message = shapes.fields_of(shape)[key].message
        is_map = bool(theirs.message_type and theirs.message_type.GetOptions().map_entry)
        assert shapes.fields_of(shape)[key].is_map == is_map, theirs.full_name
        assert (get_origin(field.annotation) is tuple) == (theirs.is_repeated and not is_map), (
            theirs.full_name
        )
        inner = (
            theirs.message_type.fields_by_name["value"].message_type
            if is_map
            else theirs.message_type
        )
        if inner is not None and inner.full_name.startswith(PACKAGE):
            assert message is ours()[inner.full_name.removeprefix(PACKAGE)], theirs.full_name
        if theirs.enum_type is not None:
            assert ours()[theirs.enum_type.full_name.removeprefix(PACKAGE)] in (
                field.annotation,
                *get_args(field.annotation),
            )
        # what is absent is kept apart from a zero where protobuf keeps it apart, and nowhere else
        absent = field.get_default(call_default_factory=True)
        assert (absent is None) == (theirs.has_presence and not theirs.is_repeated), (
            theirs.full_name
        )


@pytest.mark.parametrize("name", MESSAGES)
def test_oneofs_of_a_message(name: str) -> None:
    theirs = {
        each.name: tuple(field.json_name for field in each.fields)
        for each in THEIRS[name].oneofs
        if not each.name.startswith("_")
    }
    shape = ours()[name]
    assert {
        key: tuple(shapes.fields_of(shape)[field].key for field in fields)
        for key, fields in shape.oneofs.items()
    } == theirs


def test_the_table_of_the_docs_has_every_field_and_value_once() -> None:
    """docs/ces.md: made again from the descriptors, whatever shapes.json says."""
    text = (DATA.parents[2] / "docs/ces.md").read_text()
    table = text.partition("<!-- fields -->")[2].partition("<!-- /fields -->")[0]
    listed: dict[str, list[tuple[str, str]]] = {}
    for line in table.splitlines():
        names, *columns = [cell.strip() for cell in line.strip("|").split("|")] or [""]
        for name in re.findall(r"`([^`]+)`", names):
            assert name not in listed
            listed[name] = [
                each for cell in columns for each in re.findall(r"`([^`]+)`|(all)", cell)
            ]
    made = {
        name: [field.json_name for field in each.fields]
        if isinstance(each, Descriptor)
        else [value.name for value in each.values]
        for name, each in THEIRS.items()
    }
    assert listed.keys() == made.keys()
    for name, cells in listed.items():
        if cells != [("", "all")]:
            assert sorted(each for each, _ in cells) == sorted(made[name]), name


def parse(raw: dict, name: str) -> dict:
    """Through google-cloud-ces: what it takes, as it writes it."""
    message = getattr(library, name)
    return json_format.MessageToDict(json_format.ParseDict(raw, message.pb(message())))


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_examples_are_read_as_the_library_reads_them(path: Path) -> None:
    raw, text = json.loads(path.read_text()), path.read_text()
    reading = read.parse(text, file=path.name)
    assert [str(each) for each in reading.problems if "ces-reference" not in each.code] == []
    message = reading.resources[0].message
    assert message.json() == raw
    assert parse(message.json(), type(message).__name__) == parse(raw, type(message).__name__)


SCALARS = [  # a field, a value as JSON, whether protobuf takes it
    ("maxTurns", 3, True),
    ("maxTurns", 3.0, True),
    ("maxTurns", "3", True),
    ("maxTurns", 3.5, False),
    ("maxTurns", True, False),
    ("maxTurns", 2**40, False),
    ("task", 3, False),
    ("task", None, True),
    ("userGoalBehavior", "USER_GOAL_REJECTED", True),
    ("userGoalBehavior", 3, True),
    ("userGoalBehavior", "USER_GOAL", False),
    ("rubrics", "one", False),
    ("rubrics", ["one"], True),
    ("variableOverrides", {"a": [1, None, {"b": True}]}, True),
    ("variableOverrides", [], False),
]


@pytest.mark.parametrize(("key", "value", "is_taken"), SCALARS)
def test_scalars_are_taken_as_protobuf_takes_them(key: str, value: object, is_taken: bool) -> None:
    raw = {"displayName": "x", "scenario": {"task": "t", key: value}}
    if is_taken:
        parse(raw, "Evaluation")
    else:
        with pytest.raises(json_format.ParseError):
            parse(raw, "Evaluation")
    problems = read.parse(json.dumps(raw), file="x.json").problems
    wrong = [each.code for each in problems if key in str(each.place)]
    # stricter: what is required must not be null
    assert bool(wrong) == (not is_taken)


def value_of(field: FieldDescriptor, depth: int) -> st.SearchStrategy:
    if field.message_type is not None:
        name = field.message_type.full_name
        made = {
            "google.protobuf.Struct": st.dictionaries(
                st.text(max_size=3), st.integers(-9, 9) | st.text(max_size=3)
            ),
            "google.protobuf.Timestamp": st.just("2027-02-01T10:00:00Z"),
            "google.protobuf.Duration": st.just("1.250s"),
            "google.rpc.Status": st.just({"code": 3}),
        }.get(name)
        return made if made is not None else message_of(field.message_type, depth + 1)
    if field.enum_type is not None:
        return st.sampled_from([value.name for value in field.enum_type.values])
    kinds = {
        FieldDescriptor.TYPE_STRING: st.text(max_size=5),
        FieldDescriptor.TYPE_BYTES: st.just("aGk="),
        FieldDescriptor.TYPE_BOOL: st.booleans(),
        FieldDescriptor.TYPE_INT32: st.integers(0, 4),
    }
    return kinds.get(field.type, st.sampled_from([0.0, 0.5, 1.0]))


def message_of(theirs: Descriptor, depth: int = 0) -> st.SearchStrategy:
    """JSON of a message: some of its fields, of a oneof at most one."""

    @st.composite
    def draw_message(draw: st.DrawFn) -> dict:
        if depth > 5:
            return {}
        taken, made = set(), {}
        for field in draw(
            st.lists(
                st.sampled_from(list(theirs.fields)), max_size=4, unique_by=lambda each: each.name
            )
        ):
            oneof = field.containing_oneof
            if oneof is not None and oneof.name in taken:
                continue
            taken |= {oneof.name} if oneof is not None else set()
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                made[field.json_name] = {
                    "k": draw(value_of(field.message_type.fields_by_name["value"], depth))
                }
            elif field.is_repeated:
                made[field.json_name] = draw(st.lists(value_of(field, depth), max_size=2))
            else:
                made[field.json_name] = draw(value_of(field, depth))
        return made

    return draw_message()


@pytest.mark.parametrize("name", ["Evaluation", "EvaluationResult", "EvaluationRun"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_we_write_is_what_the_library_writes(name: str, data: st.DataObject) -> None:
    raw = data.draw(message_of(THEIRS[name]))
    assert getattr(shapes, name).model_validate(raw).json() == parse(raw, name)


def test_an_enum_names_what_was_meant() -> None:
    with pytest.raises(ValidationError) as told:
        shapes.Scenario.model_validate({"userGoalBehavior": "USER_GOAL_IGNORE"})
    assert told.value.errors()[0]["ctx"]["near"] == "USER_GOAL_IGNORED"
    assert isinstance(shapes.UserGoalBehavior(3), enum.IntEnum)


def test_whoever_reads_a_file_finds_all_messages_built() -> None:
    """Before pydantic 2.14, two threads that build one at once fail."""

    class Late(Proto):
        text: str = ""

    class Later(Late):
        pass

    assert not Later.__pydantic_complete__
    read.parse("{}", file="a.json")
    assert Late.__pydantic_complete__
    assert Later.__pydantic_complete__
