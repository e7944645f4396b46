"""Edit a case in its file.

An edit changes the expected answer or tool calls of a turn (in every supported dialect), changes a
case's rubrics, or deletes a case. Only the value itself is replaced (`rewrite`). The result is read
again: if anything except that turn of that case would change, the edit is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from evalgate.errors import ConfigError, Place
from evalgate.model import (
    Case,
    Content,
    EvalSet,
    Event,
    Invocation,
    Rubric,
    ToolCall,
    call_diff,
    turns,
)
from evalgate.model.shapes import to_snake
from evalgate.values import elements, member
from . import adk_shapes, eval_set, repair, rewrite
from .json_source import Path
from .kind import OLD_LISTS, Dialect

_OTHER_NAMES = repair.INVOCATION.others
_ANSWERS = (
    "final_response",
    *sorted(name for name, adk_key in _OTHER_NAMES.items() if adk_key == "final_response"),
)


def change(
    text: str,
    *,
    file: str,
    case_id: str,
    turn: int,
    answer: str | None = None,
    steps: Sequence[Event] | None = None,
) -> str:
    """The text with the turn (from 0) expecting this answer, and the tool calls in `steps`. None:
    unchanged.

    Raises ConfigError if the file cannot be read, has no such turn, or cannot be edited without
    other changes."""
    old_set, dialect = _read(text, file=file)
    index = _find(old_set, case_id)
    conversation = () if index is None else old_set.cases[index].turns
    if index is None or turn >= len(conversation):
        raise ConfigError(f"case {case_id!r} has no turn {turn + 1}", place=Place(file))
    old_turn = conversation[turn]
    calls = None
    path = _path_of(text, dialect, index, turn)
    raw = _value_at(text, path)
    values: dict[Path, Any] = {}
    # datasets expect an answer only of the last turn
    is_open = dialect is not Dialect.AGENTS_CLI or turn == len(conversation) - 1
    if answer is not None and answer != _answer_of(old_turn) and is_open:
        values |= _answer_values(raw, answer, is_plain=dialect is not Dialect.ADK)
    if steps is not None:
        calls = Invocation(user_content=Content(), events=tuple(steps)).tool_calls
        if not _same(old_turn, calls) and dialect is not Dialect.AGENTS_CLI:
            values |= _call_values(
                raw, calls, steps, old_turn.tool_calls, is_old=dialect in OLD_LISTS
            )
    new_text: str | None = text
    for value_path, value in values.items():
        new_text = new_text and rewrite.put(new_text, (*path, *value_path), value)
    new_cases = _cases_in(new_text or "", file=file)
    if new_text and _is_exact_change(
        old_set.cases, new_cases, (index, turn), answer=answer, calls=calls
    ):
        return new_text
    raise _unchangeable(
        f"turn {turn + 1} of case {case_id!r}", old_set.cases[index].place or Place(file)
    )


def set_rubrics(text: str, *, file: str, case_id: str, rubrics: Sequence[Rubric]) -> str:
    """The text with these rubrics of a case instead of its own. Raises ConfigError as `change`."""
    cases, index, path = _locate(text, file=file, case_id=case_id)
    value = [adk_shapes.rubric_json(rubric) for rubric in rubrics]
    new_text = (path and rewrite.put(text, (*path, "rubrics"), value)) or ""
    new_cases = _cases_in(new_text, file=file)
    differences = _differences(cases, new_cases)
    is_exact = all(path[:2] == (index, "rubrics") for path in differences)
    if is_exact and new_cases[index].rubrics == tuple(rubrics):
        return new_text
    raise _unchangeable(f"case {case_id!r}", Place(file))


def delete_case(text: str, *, file: str, case_id: str) -> str:
    """The text without a case. Raises ConfigError as `change`, and if it is the only case."""
    cases, index, path = _locate(text, file=file, case_id=case_id)
    if len(cases) == 1:
        message = f"case {case_id!r} is the only one of its file"
        raise ConfigError(message, place=Place(file), hint="Delete the file instead.")
    new_text = rewrite.removed(text, path) or ""
    if _cases_in(new_text, file=file) == (*cases[:index], *cases[index + 1 :]):
        return new_text
    raise _unchangeable(f"case {case_id!r}", Place(file))


def _find(eval_set: EvalSet, case_id: str) -> int | None:
    cases = enumerate(eval_set.cases)
    return next((index for index, case in cases if case.case_id == case_id), None)


def _locate(text: str, *, file: str, case_id: str) -> tuple[tuple[Case, ...], int, Path]:
    """The cases of a file, and the index and path of one: () if the file is not in ADK's dialect
    with a list of objects. Raises ConfigError."""
    old_set, dialect = _read(text, file=file)
    index = _find(old_set, case_id)
    if index is None:
        raise ConfigError(
            f"there is no case {case_id!r}", place=Place(file), hint="Load the page again."
        )
    path = _case_path(text, index) if dialect is Dialect.ADK else ()
    return old_set.cases, index, path


def _cases_in(text: str, *, file: str) -> tuple[Case, ...]:
    """The cases of a new text; none if it cannot be read."""
    new_set = eval_set.parse_eval_set(text, file=file).eval_set
    return () if new_set is None else new_set.cases


def _unchangeable(subject: str, place: Place) -> ConfigError:
    message = f"{subject} is written in a way that cannot be changed automatically"
    hint = "Change it by hand; `evalgate migrate` writes old formats in ADK's current one."
    return ConfigError(message, place=place, hint=hint)


def _read(text: str, *, file: str) -> tuple[EvalSet, Dialect]:
    reading = eval_set.parse_eval_set(text, file=file)
    if reading.eval_set is None:
        raise ConfigError.collected(reading.problems)
    return reading.eval_set, reading.dialect


def _answer_of(turn: Invocation) -> str | None:
    return turns.answer(turn) or None


def _same(turn: Invocation, calls: Sequence[ToolCall]) -> bool:
    return turn.events is not None and call_diff.same(turn.tool_calls, calls)


def _is_exact_change(
    old_cases: Sequence[Case],
    new_cases: Sequence[Case],
    at: tuple[int, int],
    *,
    answer: str | None,
    calls: Sequence[ToolCall] | None,
) -> bool:
    """True if that turn is as requested, and everything else unchanged."""
    case, turn = at
    fields = [] if answer is None else ["final_response"]
    fields += [] if calls is None else ["events", "itemized"]
    requested_paths = [(case, "conversation", turn, field) for field in fields]
    if not all(path[:4] in requested_paths for path in _differences(old_cases, new_cases)):
        return False
    new_turn = new_cases[case].turns[turn]
    return (answer is None or _answer_of(new_turn) == (answer or None)) and (
        calls is None or _same(new_turn, calls)
    )


def _differences(old: object, new: object) -> set[Path]:
    """The paths at which cases, turns, and lists of them differ, by fields that count in `==`."""
    pairs: dict[str | int, tuple[object, object]] = {}
    if isinstance(old, Case | Invocation) and isinstance(new, type(old)):
        names = [field.name for field in dataclasses.fields(old) if field.compare]
        pairs |= {name: (getattr(old, name), getattr(new, name)) for name in names}
    elif isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        pairs |= dict(enumerate(zip(old, new, strict=True)))
    elif old != new:
        return {()}
    return {(step, *path) for step, pair in pairs.items() for path in _differences(*pair)}


# --- the values of a turn, by their paths in it ---------------------------------------------------


def _path_of(text: str, dialect: Dialect, case: int, turn: int) -> Path:
    """The path of a turn; of its case in a dataset."""
    if dialect is Dialect.FLAT_LIST:
        return (turn,)
    if dialect is Dialect.NAMED_LIST:
        return case, "data", turn
    case_path = _case_path(text, case)
    if dialect is Dialect.AGENTS_CLI:
        return case_path
    case_value = _value_at(text, case_path)
    return (*case_path, _key(case_value, "conversation", "data") or "conversation", turn)


def _case_path(text: str, index: int) -> Path:
    """The path of a case of `eval_cases`."""
    return _key(_value_at(text, ()), "eval_cases") or "eval_cases", index


def _value_at(text: str, path: Path) -> Any:
    """The value at a path; None if there is none."""
    span = rewrite.find(text, path)
    return span and span.value


def _answer_values(turn: Any, answer: str, *, is_plain: bool) -> dict[Path, Any]:
    """The value for another expected answer. `is_plain`: the dialect has a text in its place."""
    usual_key = "reference" if is_plain else "final_response"
    key = _key(turn, usual_key) or _key(turn, *_ANSWERS) or usual_key
    old_value = member(turn, key)
    if isinstance(old_value, str) or (is_plain and old_value is None):
        return {(key,): answer}
    parts_key = _key(old_value, "parts") or "parts"
    text_indexes = [
        index
        for index, part in enumerate(elements(old_value, parts_key))
        if isinstance(part, dict) and isinstance(part.get("text"), str) and not part.get("thought")
    ]
    if len(text_indexes) == 1:
        return {(key, parts_key, text_indexes[0], "text"): answer}
    role = member(old_value, "role") or "model"
    return {(key,): adk_shapes.content_json(Content.of(answer, role))}


def _call_values(
    turn: Any,
    calls: Sequence[ToolCall],
    steps: Sequence[Event],
    old_calls: Sequence[ToolCall],
    *,
    is_old: bool,
) -> dict[Path, Any]:
    """The values for other expected calls, with the steps that contained them: only the different
    arguments if the tools are the same, else the whole list."""
    name, args = ("tool_name", "tool_input") if is_old else ("name", "args")
    value = [{name: call.name, args: dict(call.arguments)} for call in calls]
    path: Path = (_key(turn, "expected_tool_use") or "expected_tool_use",)
    old_value = member(turn, str(path[0]))
    if not is_old:
        key = _key(turn, "intermediate_data") or "intermediate_data"
        data = member(turn, key)
        if _key(data, "invocation_events") is not None:
            events = [adk_shapes.event_json(event) for event in steps]
            return {(key,): {"invocation_events": events}}
        list_key = _key(data, "tool_uses")
        if list_key is None and data != {}:
            return {(key,): {"tool_uses": value}}
        path = key, list_key or "tool_uses"
        old_value = member(data, path[1])
    if (
        not isinstance(old_value, list)
        or len(old_value) != len(calls)
        or [call.name for call in old_calls] != [call.name for call in calls]
    ):
        return {path: value}
    return {
        (*path, index, _key(old_value[index], args, *repair.ARGUMENTS.split()) or args): dict(
            new.arguments
        )
        for index, (old, new) in enumerate(zip(old_calls, calls, strict=True))
        if not call_diff.same((old,), (new,))
    }


def _key(value: Any, *names: str) -> str | None:
    """The object's key with one of these names, as the file spells it."""
    keys = [key for key in value if to_snake(key) in names] if isinstance(value, dict) else []
    return keys[0] if len(keys) == 1 else next((key for key in keys if key == names[0]), None)
