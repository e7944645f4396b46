"""Requested settings, evalgate.yml and policy, and the facts in the row of a setting.

A row says each kind of fact once, as a part of its type: `Annotated[float, FILE, RUNNING, HEAD,
AGENT]`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, Flag, StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic.fields import FieldInfo


class Door(Flag):
    """A way to give a setting."""

    CLI = 1
    ACTION = 2
    FILE = 4  # evalgate.yml


class Heading(StrEnum):
    """Below which heading `run --help` shows a setting that the command line takes."""

    SELECTING = "What runs"
    RUNNING = "How it runs"
    COMPARING = "What it is compared with"
    FAILING = "What fails"
    SHOWING = "What is shown and kept"


class Decider(Enum):
    """Who is to decide a setting that the change's evalgate.yml and the base's may both hold
    (`baseline.settings`)."""

    DOOR = "door"  # addresses, keys, stores, outputs: the workflow, else the base's file
    BASE = "base"  # the base's file; head's if that says nothing
    EITHER = "either"  # what one of both asks is asked
    HEAD = "head"  # what is tested, thresholds, and how it is measured


class Trait(Flag):
    """What else is true of a setting; NONE is written as well, so that nobody forgets to ask."""

    NONE = 0
    # what an agent is given, asked or able to do depends on it: of another value its runs are
    # others
    AGENT = 1
    MEASUREMENT = 2  # which score one conversation gets depends on it
    PATH = 4  # relative to `root`, and stays below it
    # says something of one machine or one day: no part of the command that repeats a run
    MACHINE = 8


Kind = TypeVar("Kind", Door, Heading, Decider, Trait)


def rows(table: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The settings of a table; what has no description comes along."""
    return {name: field for name, field in table.model_fields.items() if field.description}


def fact(field: FieldInfo, kind: type[Kind]) -> Kind:
    """What a row says of this kind. Raises ValueError unless it says that once."""
    (mark,) = (mark for mark in field.metadata if isinstance(mark, kind))
    return mark


def names_with(table: type[BaseModel], *marks: Door | Heading | Decider | Trait) -> tuple[str, ...]:
    """The settings that have all of these marks, in the table's order. Raises ValueError for a row
    that lacks a kind of mark; marks after a false one are not looked up."""
    return tuple(
        name for name, field in rows(table).items() if all(_has(field, mark) for mark in marks)
    )


def _has(field: FieldInfo, mark: Any) -> bool:
    marks = fact(field, type(mark))
    return marks is mark or (isinstance(marks, Flag) and mark in marks)
