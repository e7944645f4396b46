"""Requested settings, evalgate.yml and policy, and the facts about each setting.

The type of a setting states one fact of each kind: `Annotated[float, FILE, RUNNING, HEAD,
AGENT]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, Flag, StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic.fields import FieldInfo


class Door(Flag):
    """A place where a setting can be set."""

    CLI = 1
    ACTION = 2
    FILE = 4  # evalgate.yml


class Heading(StrEnum):
    """The heading of `run --help` for a command-line setting."""

    SELECTING = "What runs"
    RUNNING = "How it runs"
    COMPARING = "What it is compared with"
    FAILING = "What fails"
    SHOWING = "What is shown and kept"


class Decider(Enum):
    """Whose value is used if both the change's evalgate.yml and the base's have a setting
    (`baseline.rules`)."""

    DOOR = "door"  # addresses, keys, stores, outputs: the workflow, else the base's file
    BASE = "base"  # the base's file; head's if the base's does not set it
    EITHER = "either"  # a requirement of either file applies
    HEAD = "head"  # tested cases, thresholds, and how they are measured


class Trait(Flag):
    """More facts about a setting. NONE must be written too, so that nobody forgets the choice."""

    NONE = 0
    # changes the agent's input or abilities: runs with another value cannot be reused
    AGENT = 1
    MEASUREMENT = 2  # changes the score of a conversation
    PATH = 4  # a path relative to `root` that stays below it
    # specific to one machine or one day: left out of the command that repeats a run
    MACHINE = 8


Kind = TypeVar("Kind", bound=Enum)


def rows(table: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The settings of a table: the fields that have a description."""
    return {name: field for name, field in table.model_fields.items() if field.description}


def fact(field: FieldInfo, kind: type[Kind]) -> Kind:
    """The fact of this kind about a setting. Raises ValueError unless there is exactly one."""
    (mark,) = (mark for mark in field.metadata if isinstance(mark, kind))
    return mark


def names_with(table: type[BaseModel], *marks: Door | Heading | Decider | Trait) -> tuple[str, ...]:
    """The settings with all of these marks, in the table's order. Raises ValueError for a row
    without a kind of mark; marks after the first missing one are not looked up."""
    names = []
    for name, field in rows(table).items():
        row_marks: Iterator[tuple[Any, Any]] = ((fact(field, type(mark)), mark) for mark in marks)
        if all(
            mark in row_mark if isinstance(row_mark, Flag) else row_mark is mark
            for row_mark, mark in row_marks
        ):
            names.append(name)
    return tuple(names)
