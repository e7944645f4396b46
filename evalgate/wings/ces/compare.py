"""Two versions of a resource by field, and the changes that may relax, so that the new version may
fail for less."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from evalgate.agents.tools.cassette import args_text
from evalgate.formats.json_source import Path, path_text
from evalgate.model.json_match import MISSING
from evalgate.text import plain
from evalgate.values import Json, frozen_dataclass

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
    old_texts, new_texts = (
        [json.dumps(element, sort_keys=True) for element in items] for items in (old, new)
    )
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
_OPEN_LISTS = frozenset(
    {
        ("tags",),
        ("evaluations",),
        ("golden", "evaluationExpectations"),
        ("scenario", "evaluationExpectations"),
        ("scenario", "rubrics"),
    }
)
"""Lists to which anything may be added."""
_DEMANDS = frozenset({"noToolCalls", "updatedVariables"})
"""Expectations that only restrict the agent."""
_CONDITIONS = frozenset({*_DEMANDS, "agentResponse", "agentTransfer", "toolCall"})


def relaxed_reason(change: FieldChange) -> str:
    """Why an evaluation may ask for less after a change, so that only a person makes it; "" if it
    only asks for more: a raised threshold, or expectations, turns and tags at the end of a list."""
    reason = "it is replaced by another"
    if change.new is MISSING:
        reason = "it is removed"
    elif change.old is MISSING:
        reason = "it is added"
    return "" if _only_asks_more(change) else f"{change.place}: {reason}"


def relaxed_reasons(field_changes: Iterable[FieldChange]) -> tuple[str, ...]:
    """The changes that may relax, in words."""
    return tuple(filter(None, map(relaxed_reason, field_changes)))


def removed(kind: str) -> str:
    """The relaxation that deletes a resource."""
    return f"(whole): the {kind} is removed"


def _only_asks_more(change: FieldChange) -> bool:
    """True if an evaluation that failed before the change fails after it."""
    keys = tuple(step for step in change.path if isinstance(step, str))
    last_key = keys[-1] if keys else ""
    if last_key in _LARGEST:
        return _is_raised(change.old, change.new, largest=_LARGEST[last_key])
    if change.old is not MISSING:
        return False
    if change.path and isinstance(change.path[-1], int):
        return change.is_last and (keys in _OPEN_LISTS or _is_open_to(keys, change.new))
    if isinstance(change.new, dict) and "Threshold" in last_key:
        inner_changes = changes({}, change.new, change.path)
        return bool(change.new) and all(map(_only_asks_more, inner_changes))
    return keys in _OPEN_LISTS


def _is_raised(old: Any, new: Any, *, largest: float) -> bool:
    if not isinstance(new, int | float):
        return False
    # an absent threshold may have had the app's value
    return new >= largest if old is MISSING else isinstance(old, int | float) and new > old


def _is_open_to(keys: tuple[str, ...], addition: Any) -> bool:
    """True if an addition to the end of a list of turns, steps or expectations relaxes nothing."""
    if keys == ("golden", "turns"):
        return set(addition) == {"steps"} and all(map(_is_plain, addition["steps"]))
    if keys == ("golden", "turns", "steps"):
        return _is_expectation(addition, _DEMANDS)
    if keys == ("scenario", "scenarioExpectations"):
        return "mockToolResponse" not in addition.get("toolExpectation", {})
    return False


def _is_plain(step: Json) -> bool:
    """True if a step only asks the agent to answer a text, and skips nothing."""
    if set(step) == {"userInput"}:
        return set(step["userInput"]) <= {"text", "event"}
    return _is_expectation(step, _CONDITIONS)


def _is_expectation(step: Json, conditions: frozenset[str]) -> bool:
    fields = set(step.get("expectation", {})) - {"note", "comparisonType"}
    return set(step) == {"expectation"} and len(fields) == 1 and fields <= conditions
