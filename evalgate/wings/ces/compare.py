"""Two versions of a resource by field, and the changes that may relax, so that the new version may
fail for less."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from evalgate.agents.toolbox import args_text
from evalgate.formats.json_source import Path, path_text
from evalgate.model.json_match import MISSING
from evalgate.text import plain
from evalgate.values import canonical_text, frozen_dataclass

LONGEST_SHOWN = 200


@frozen_dataclass
class FieldChange:
    """A field that differs. Indexes in lists are those of the old version, and for additions those
    of the new version. `is_last`: the addition is at the end of the list."""

    path: Path
    old: Any
    new: Any
    is_last: bool = False

    @property
    def place(self) -> str:
        """Its path as text."""
        return path_text(self.path) or "(whole)"

    def __str__(self) -> str:
        return f"{self.place}: {value_text(self.old)} -> {value_text(self.new)}"


def value_text(value: Any) -> str:
    """A value on one line."""
    if value is MISSING:
        return "(not set)"
    return plain.clip_end(json.dumps(value, ensure_ascii=False), LONGEST_SHOWN)


def changes(old: Any, new: Any, path: Path = ()) -> Iterator[FieldChange]:
    """The differences, field by field. The entries of lists are paired, so that an insertion does
    not change all entries after it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from changes(old.get(key, MISSING), new.get(key, MISSING), (*path, key))
    elif isinstance(old, list) and isinstance(new, list):
        for pairs, removed_numbers, added_numbers in differing(old, new):
            for number, new_number in pairs:
                yield from changes(old[number], new[new_number], (*path, number))
            for number in removed_numbers:
                yield FieldChange(path=(*path, number), old=old[number], new=MISSING)
            is_last = removed_numbers.stop == len(old)
            for number in added_numbers:
                addition = new[number]
                yield FieldChange(path=(*path, number), old=MISSING, new=addition, is_last=is_last)
    elif old is not new and (old is MISSING or new is MISSING or not same(old, new)):
        yield FieldChange(path=path, old=old, new=new)


def leaves(change: FieldChange) -> Iterator[FieldChange]:
    """The changes of the single values of an object that was added or removed; any other change
    stays as it is."""
    old, new = ({} if value is MISSING else value for value in (change.old, change.new))
    is_of_object = isinstance(old, dict) and isinstance(new, dict)
    inner_changes = list(changes(old, new, change.path)) if is_of_object else []
    if not inner_changes:
        yield change
    for inner_change in inner_changes:
        yield from leaves(inner_change)


def same(expected: Any, actual: Any) -> bool:
    """True if JSON values are equal: `3` equals `3.0`, as in a Struct, and neither equals
    `true`."""
    return args_text({"": expected}) == args_text({"": actual})


def differing(
    old: Sequence[Any], new: Sequence[Any]
) -> Iterator[tuple[Iterable[tuple[int, int]], range, range]]:
    """Where two lists differ: the indexes in both of entries that replace each other, those of
    removed entries in the old list, and those of added entries in the new list."""
    old_texts, new_texts = (list(map(canonical_text, items)) for items in (old, new))
    for kind, start, end, new_start, new_end in difflib.SequenceMatcher(
        None, old_texts, new_texts, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            pairs = zip(range(start, end), range(new_start, new_end), strict=False)
            count = min(end - start, new_end - new_start)
            yield pairs, range(start + count, end), range(new_start + count, new_end)


# --- what may relax -------------------------------------------------------------------------------

_LARGEST = {
    "semanticSimilaritySuccessThreshold": 4,
    "overallToolInvocationCorrectnessThreshold": 1.0,
    "toolInvocationParameterCorrectnessThreshold": 1.0,
}
"""Thresholds and their largest values, which are at least as strict as any earlier default."""
_OPEN_LISTS = (
    ("tags",),
    ("evaluations",),
    ("golden", "evaluationExpectations"),
    ("scenario", "evaluationExpectations"),
    ("scenario", "rubrics"),
)
"""Lists to which anything may be added at the end."""


def reason_of(change: FieldChange) -> str:
    """Why an evaluation may ask for less after a change."""
    reason = "it is replaced by another"
    if change.new is MISSING:
        reason = "it is removed"
    elif change.old is MISSING:
        reason = "it is added"
    return f"{change.place}: {reason}"


def relaxed_reason(change: FieldChange) -> str:
    """`reason_of`, so that only a person makes the change; "" if it only asks for more: a raised
    threshold, or an entry at the end of one of the open lists."""
    keys = tuple(step for step in change.path if isinstance(step, str))
    last_key = keys[-1] if keys else ""
    old, new = change.old, change.new
    if last_key in _LARGEST and isinstance(new, int | float):
        # an absent threshold may have had the app's value
        is_largest = new >= _LARGEST[last_key]
        only_asks_more = (
            is_largest if old is MISSING else isinstance(old, int | float) and new > old
        )
    else:
        only_asks_more = (
            old is MISSING
            and keys in _OPEN_LISTS
            and (change.is_last or not isinstance(change.path[-1], int))
        )
    return "" if only_asks_more else reason_of(change)


def relaxed_reasons(field_changes: Iterable[FieldChange]) -> tuple[str, ...]:
    """The changes that may relax, in words."""
    return tuple(filter(None, map(relaxed_reason, field_changes)))


def removed(kind: str) -> str:
    """The relaxation that deletes a resource."""
    return f"(whole): the {kind} is removed"
