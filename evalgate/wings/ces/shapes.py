"""The resources of Customer Engagement Suite (CES) for evaluation, in the form of protobuf's JSON.

shapes.json lists them; docs/ces_shapes.py writes it from google-cloud-ces. messages.pyi has the
same for type checkers. The docstring of a class is its name in google.cloud.ces.v1beta."""

from __future__ import annotations

import enum
import functools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, ForwardRef, get_args, get_origin

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StrictBool,
    create_model,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from evalgate.model.shapes import MOST_LEVELS, Wire, is_deep
from evalgate.text import words
from evalgate.values import Json, JsonObject, frozen_dataclass

MOST_TURNS = 100
"""Fields of a golden and of a scenario."""
LOCAL_APP = "projects/local/locations/local/apps/local"
"""The app of resources that name none."""


class Handling(enum.StrEnum):
    """The treatment of a field."""

    READ = "read"  # validated, listed, compared; decides what is asked or how it is scored
    KEPT = "kept"  # validated and kept unchanged; nothing reads it
    OUTPUT = "output only"  # the platform writes it: kept in files, ignored in updates
    # kept in files; an evaluation that has it is not run, and `validate` says so
    NOT_RUN = "not run"


class ProtoEnum(enum.IntEnum):
    """An enum in the form of protobuf's JSON: read by name or number, written by name. An absent
    one has the value 0."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read by name or number, written by name."""
        written = core_schema.plain_serializer_function_ser_schema(
            lambda value: value.name, when_used="json"
        )
        return core_schema.no_info_plain_validator_function(cls.read, serialization=written)

    @classmethod
    def read(cls, value: Any) -> ProtoEnum:
        """The member; an error names the nearest one."""
        if isinstance(value, str) and value in cls.__members__:
            return cls[value]
        if isinstance(value, int) and not isinstance(value, bool):
            with suppress(ValueError):
                return cls(value)
        is_short = isinstance(value, str) and len(value) < 100
        near = words.nearest(value, cls.__members__, cutoff=0.5) if is_short else None
        known = words.listed_names(cls.__members__)
        raise PydanticCustomError(
            "wrong_value", "expected one of {known}", {"known": known, "near": near or ""}
        )


# --- scalars, as lenient as protobuf's own reader -------------------------------------------------


def _check_number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("wrong_type", "expected a number")
    return value


Number = Annotated[float, BeforeValidator(_check_number), Field(allow_inf_nan=False)]
Int32 = Annotated[int, BeforeValidator(_check_number), Field(ge=-(2**31), lt=2**31)]
"""Numbers; text is allowed, and for whole numbers `3.0`."""


def _text(pattern: str, description: str) -> Any:
    """Text of a form."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise PydanticCustomError("wrong_value", "expected {form}", {"form": description})
        return value

    return Annotated[str, BeforeValidator(check)]


def _object(value: Any) -> Any:
    """An object that fits a Struct and can be stored."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        is_json = bool(text.encode()) and json.loads(text) == value
    except (TypeError, ValueError, RecursionError):
        is_json = False
    if not is_json or is_deep(value, levels=MOST_LEVELS):
        raise PydanticCustomError(
            "wrong_value",
            "expected JSON of at most {most} levels: keys are text, numbers are finite, characters are whole",
            {"most": MOST_LEVELS},
        )
    return value


Struct = Annotated[JsonObject, BeforeValidator(_object)]


class Proto(Wire):
    """A message: read in camelCase or snake_case, written in camelCase without absent fields.

    `oneofs`: groups of which at most one field may be set; `required`: fields that must be set and
    not empty; `handlings`: the treatment of fields that differ from the usual one."""

    # a user without CES files does not build 80 models
    model_config = ConfigDict(defer_build=True)

    oneofs: ClassVar[dict[str, tuple[str, ...]]] = {}
    required: ClassVar[tuple[str, ...]] = ()
    handlings: ClassVar[dict[str, Handling]] = {}
    building: ClassVar = threading.RLock()

    @classmethod
    def build(cls) -> None:
        """Build all messages: before pydantic 2.14, threads that use one could meet half of it."""
        with cls.building:
            for message in cls.__subclasses__():
                message.model_rebuild()
                message.build()

    def json(self) -> JsonObject:  # type: ignore[override]  # pydantic's own is deprecated
        """The message as protobuf's JSON, without fields that have the value of an absent field."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


class Result(Proto):
    """A message that only a run writes: all of its fields are output only."""


def content_of(message: Proto) -> JsonObject:
    """The message as protobuf's JSON, without fields that only the platform writes."""
    return _content(type(message), message.json())


def _content(shape: type[Proto], written: Json, *_: str | int) -> JsonObject:
    fields = fields_of(shape)
    return {
        key: fields[key].mapped(value, _content)
        for key, value in written.items()
        if fields[key].handling is not Handling.OUTPUT
    }


def values_in(message: Proto) -> Iterator[tuple[ProtoField, Any]]:
    """The fields of a message and of all messages in it, except results of runs, with their
    values."""
    for name in type(message).model_fields:
        value = getattr(message, name)
        yield fields_of(type(message))[name], value
        for member in value if isinstance(value, tuple) else (value,):
            if isinstance(member, Proto) and not isinstance(member, Result):
                yield from values_in(member)


def present_field(message: Proto) -> str:
    """The field of its oneofs that a message has; "" for none."""
    names = (name for group in type(message).oneofs.values() for name in group)
    return next((name for name in names if getattr(message, name) is not None), "")


@frozen_dataclass
class ProtoField:
    """A field of a message. `key`: in protobuf's JSON; `message`: what it holds, itself, in a list
    or in a map; `is_map`: a map of messages; `is_list`: a list or such a map; `excluded_keys`:
    those of the fields that exclude it."""

    name: str
    key: str
    message: type[Proto] | None
    is_map: bool
    is_list: bool
    handling: Handling
    excluded_keys: tuple[str, ...]

    def mapped(self, value: Any, change: Callable[..., Any]) -> Any:
        """The field's value in JSON with each message in it changed. `change` gets the shape and
        the message, and the message's position in a list or key in a map."""
        if self.message is None:
            return value
        if isinstance(value, list):
            return [change(self.message, element, at) for at, element in enumerate(value)]
        if self.is_map and isinstance(value, dict):
            return {key: change(self.message, element, key) for key, element in value.items()}
        return change(self.message, value)


@functools.cache
def fields_of(shape: type[Proto]) -> dict[str, ProtoField]:
    """The fields of a message by each spelling of their keys: `displayName` and `display_name`."""
    usual = Handling.OUTPUT if issubclass(shape, Result) else Handling.READ
    keys = {name: field.alias or name for name, field in shape.model_fields.items()}
    fields = {}
    for name, key in keys.items():
        annotation = shape.model_fields[name].annotation
        message = _message_in(annotation)
        is_map = get_origin(annotation) is dict and message is not None
        groups = (group for group in shape.oneofs.values() if name in group)
        fields[name] = fields[key] = ProtoField(
            name=name,
            key=key,
            message=message,
            is_map=is_map,
            is_list=is_map or get_origin(annotation) is tuple,
            handling=shape.handlings.get(name, usual),
            excluded_keys=tuple(
                keys[other] for group in groups for other in group if other != name
            ),
        )
    return fields


def _message_in(annotation: Any) -> type[Proto] | None:
    """The message that a field of this type holds, itself, in a list or in a map."""
    if isinstance(annotation, type) and issubclass(annotation, Proto):
        return annotation
    return next(filter(None, map(_message_in, get_args(annotation))), None)


# --- the messages and enums of shapes.json --------------------------------------------------------

_SCALARS = {
    "string": str,
    "bytes": _text(r"[A-Za-z0-9+/_-]*={0,2}", "base64"),
    "bool": StrictBool,
    "int32": Int32,
    "float": Number,
    "Duration": _text(r"-?\d{1,12}(\.\d{1,9})?s", "a duration such as 1.250s"),
    "Status": Struct,
    "Struct": Struct,
    "Timestamp": _text(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)",
        "a time such as 2027-02-01T10:00:00Z",
    ),
}


DEFINITIONS: JsonObject = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
"""The enums and messages by name, as docs/ces_shapes.py writes them."""


def _read_shapes() -> dict[str, Any]:
    """The class of each enum and message, whose docstring is its name in
    google.cloud.ces.v1beta."""
    classes: dict[str, Any] = {
        name: ProtoEnum(name, definition["values"], module=__name__)  # type: ignore[call-arg]
        for name, definition in DEFINITIONS["enums"].items()
    }
    # a message comes after the messages in it
    for name, definition in DEFINITIONS["messages"].items():
        types = {**_SCALARS, name: ForwardRef(name), **classes}
        listed = definition["fields"].items()
        fields: dict[str, Any] = {key: _field(types[field["type"]], field) for key, field in listed}
        shape = create_model(
            name,
            __base__=Result if "is_result" in definition else Proto,
            __module__=__name__,
            **fields,
        )
        shape.required = tuple(definition.get("required", ()))
        shape.oneofs = {key: tuple(names) for key, names in definition.get("oneofs", {}).items()}
        shape.handlings = {
            key: Handling(field["handling"]) for key, field in listed if "handling" in field
        }
        classes[name] = shape
    for name, definition in (DEFINITIONS["enums"] | DEFINITIONS["messages"]).items():
        classes[name].__doc__ = f"{definition['of']}."
    return classes


def _field(kind: Any, definition: JsonObject) -> tuple[Any, Any]:
    """The annotation of a field, and the value of an absent one."""
    default = definition["default"]
    most = definition.get("most")
    if default == []:
        return Annotated[tuple[kind, ...], Field(max_length=most)], ()
    if default == {}:
        return dict[str, kind], Field(default_factory=dict)
    if most is not None:
        kind = Annotated[kind, Field(ge=0, le=most)]
    if default is None:
        return kind | None, None
    is_enum = isinstance(kind, type) and issubclass(kind, ProtoEnum)
    return kind, kind(default) if is_enum else default


globals().update(_read_shapes())
if TYPE_CHECKING:
    from .messages import *  # noqa: F403 - all of them
