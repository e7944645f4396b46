"""Edit a case in its file.

An edit changes the expected answer or tool calls of a turn (in every supported dialect), changes a
case's rubrics, or deletes a case. Only the value itself is replaced (`rewrite`). The result is read
again: if anything except that turn of that case would change, the edit is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evalgate.errors import ConfigError, Place
from evalgate.model import (
    Case,
    Content,
    EvalSet,
    Event,
    Invocation,
    Rubric,
    Text,
    ToolCall,
    call_diff,
    turns,
)
from evalgate.model.shapes import to_snake
from evalgate.values import JsonObject, elements, member
from . import adk_shapes, eval_set, repair, rewrite
from .json_source import Path
from .kind import Dialect

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
    case_index = _find(old_set, case_id)
    conversation = () if case_index is None else old_set.cases[case_index].turns
    if case_index is None or turn >= len(conversation):
        raise ConfigError(f"case {case_id!r} has no turn {turn + 1}", place=Place(file))
    editor = _Editor(text, dialect, case_index, turn, of=len(conversation))
    if answer is not None and answer != _answer_of(conversation[turn]):
        editor.set_answer(answer)
    calls = None
    if steps is not None:
        calls = Invocation(user_content=Content(), events=tuple(steps)).tool_calls
        if not _same(conversation[turn], calls):
            editor.set_calls(calls, steps, old_turn=conversation[turn])
    if not editor.failed and _is_exact_change(
        old_set, editor.text, file=file, at=(case_index, turn), answer=answer, calls=calls
    ):
        return editor.text
    raise _unchangeable(
        f"turn {turn + 1} of case {case_id!r}", old_set.cases[case_index].place or Place(file)
    )


def set_rubrics(text: str, *, file: str, case_id: str, rubrics: Sequence[Rubric]) -> str:
    """The text with these rubrics of a case instead of its own. Raises ConfigError as `change`."""
    cases, index, path = _locate(text, file=file, case_id=case_id)
    value = [adk_shapes.rubric_json(rubric) for rubric in rubrics]
    new_text = rewrite.put(text, (*path, "rubrics"), value) if path else None
    cases[index] = replace(cases[index], rubrics=tuple(rubrics))
    return _require_cases(new_text, cases, file=file, case_id=case_id)


def delete_case(text: str, *, file: str, case_id: str) -> str:
    """The text without a case. Raises ConfigError as `change`, and if it is the only case."""
    cases, index, path = _locate(text, file=file, case_id=case_id)
    if len(cases) == 1:
        message = f"case {case_id!r} is the only one of its file"
        raise ConfigError(message, place=Place(file), hint="Delete the file instead.")
    del cases[index]
    return _require_cases(rewrite.removed(text, path), cases, file=file, case_id=case_id)


def _find(eval_set: EvalSet, case_id: str) -> int | None:
    cases = enumerate(eval_set.cases)
    return next((index for index, case in cases if case.case_id == case_id), None)


def _locate(text: str, *, file: str, case_id: str) -> tuple[list[Case], int, Path]:
    """The cases of a file, and the index and path of one: () if the file is not in ADK's dialect
    with a list of objects. Raises ConfigError."""
    old_set, dialect = _read(text, file=file)
    index = _find(old_set, case_id)
    if index is None:
        raise ConfigError(
            f"there is no case {case_id!r}", place=Place(file), hint="Load the page again."
        )
    top = rewrite.find(text, ()) if dialect is Dialect.ADK else None
    keys = [key for key in top.value if to_snake(key) == "eval_cases"] if top is not None else []
    return list(old_set.cases), index, (keys[0], index) if len(keys) == 1 else ()


def _require_cases(
    new_text: str | None, expected_cases: list[Case], *, file: str, case_id: str
) -> str:
    """The new text, if it reads as exactly these cases. Raises ConfigError."""
    new_cases = _cases_in(new_text or "", file=file)
    if new_text and list(new_cases) == expected_cases:
        return new_text
    raise _unchangeable(f"case {case_id!r}", Place(file))


def _cases_in(text: str, *, file: str) -> Sequence[Case]:
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
    old_set: EvalSet,
    text: str,
    *,
    file: str,
    at: tuple[int, int],
    answer: str | None,
    calls: Sequence[ToolCall] | None,
) -> bool:
    """True if the file still parses, with that turn as requested and everything else unchanged."""
    new_cases = _cases_in(text, file=file)
    case, turn = at
    new_turns = new_cases[case].turns if len(new_cases) == len(old_set.cases) else ()
    if turn >= len(new_turns):
        return False
    new_turn = new_turns[turn]
    conversation = list(old_set.cases[case].turns)
    changes: JsonObject = {}
    if answer is not None:
        changes["final_response"] = new_turn.final_response
    if calls is not None:
        changes |= {"events": new_turn.events, "itemized": new_turn.itemized}
    conversation[turn] = replace(conversation[turn], **changes)
    expected_cases = list(old_set.cases)
    expected_cases[case] = replace(expected_cases[case], conversation=tuple(conversation))
    return (
        expected_cases == list(new_cases)
        and (answer is None or _answer_of(new_turn) == (answer or None))
        and (calls is None or _same(new_turn, calls))
    )


class _Editor:
    """A text that is being edited. `failed`: a value is not at its expected place."""

    def __init__(self, text: str, dialect: Dialect, case: int, turn: int, *, of: int) -> None:
        """`turn`: the turn to edit, of `of` turns in the case."""
        self.text = text
        self.failed = False
        self._dialect = dialect
        # datasets expect an answer only of the last turn
        self._is_open = dialect is not Dialect.AGENTS_CLI or turn == of - 1
        self._turn: Path = (turn,) if dialect is Dialect.FLAT_LIST else (case, "data", turn)
        if dialect not in eval_set.OLD:
            self._turn = (self._key((), "eval_cases") or "eval_cases", case)
        if dialect is Dialect.ADK:
            self._turn = (
                *self._turn,
                self._key(self._turn, "conversation", "data") or "conversation",
                turn,
            )

    def set_answer(self, answer: str) -> None:
        """Set the expected answer."""
        usual_key = (
            "reference"
            if self._dialect in (*eval_set.OLD, Dialect.AGENTS_CLI)
            else "final_response"
        )
        key = self._key(self._turn, usual_key) or self._key(self._turn, *_ANSWERS)
        if not self._is_open:
            self.failed = True
        elif key is None:
            self._put(
                (*self._turn, usual_key),
                answer if usual_key == "reference" else self._content(answer, None),
            )
        else:
            self._set_text((*self._turn, key), answer, is_plain=usual_key == "reference")

    def _set_text(self, path: Path, answer: str, *, is_plain: bool) -> None:
        value = self._value(path)
        if isinstance(value, str) or (is_plain and value is None):
            self._put(path, answer)
            return
        key = self._key(path, "parts")
        text_indexes = [
            index
            for index, part in enumerate(elements(value, key or ""))
            if isinstance(part, dict)
            and isinstance(part.get("text"), str)
            and not part.get("thought")
        ]
        if key is not None and len(text_indexes) == 1:
            self._put((*path, key, text_indexes[0], "text"), answer)
        else:
            self._put(path, self._content(answer, value))

    @staticmethod
    def _content(answer: str, old: Any) -> JsonObject:
        role = member(old, "role")
        return adk_shapes.content_json(Content(parts=(Text(text=answer),), role=role or "model"))

    def set_calls(
        self, calls: Sequence[ToolCall], steps: Sequence[Event], *, old_turn: Invocation
    ) -> None:
        """Set the expected calls, with the steps that contained them."""
        if self._dialect in eval_set.OLD:
            self._set_list(
                self._turn,
                "expected_tool_use",
                calls,
                old_turn,
                name="tool_name",
                args="tool_input",
            )
            return
        if self._dialect is Dialect.AGENTS_CLI:
            self.failed = True
            return
        key = self._key(self._turn, "intermediate_data")
        path = (*self._turn, key or "intermediate_data")
        old_value = self._value(path) if key else None
        kind_key = self._key(path, "tool_uses")
        if self._key(path, "invocation_events") is not None:
            events = [adk_shapes.event_json(event) for event in steps]
            self._put(path, {"invocation_events": events})
        elif kind_key is not None or old_value == {}:
            self._set_list(path, kind_key or "tool_uses", calls, old_turn, name="name", args="args")
        else:
            self._put(
                path,
                {
                    "tool_uses": [
                        {"name": call.name, "args": dict(call.arguments)} for call in calls
                    ]
                },
            )

    def _set_list(
        self,
        parent: Path,
        key: str,
        calls: Sequence[ToolCall],
        old_turn: Invocation,
        *,
        name: str,
        args: str,
    ) -> None:
        """Set a list of calls: only the different arguments if the tools are the same, else the
        whole list."""
        path: Path = (*parent, self._key(parent, key) or key)
        old_value = self._value(path)
        old_calls = old_turn.tool_calls
        value = [{name: call.name, args: dict(call.arguments)} for call in calls]
        is_same_length = isinstance(old_value, list) and len(old_value) == len(calls) == len(
            old_calls
        )
        if not is_same_length or any(
            old_call.name != new_call.name
            for old_call, new_call in zip(old_calls, calls, strict=True)
        ):
            self._put(path, value)
            return
        for index, (old_call, new_call) in enumerate(zip(old_calls, calls, strict=True)):
            if not call_diff.same((old_call,), (new_call,)):
                args_key = self._key((*path, index), args, *repair.ARGUMENTS) or args
                self._put((*path, index, args_key), dict(new_call.arguments))

    def _key(self, path: Path, *names: str) -> str | None:
        """The object's key with one of these names, as the file spells it."""
        value = self._value(path)
        keys = [key for key in value if to_snake(key) in names] if isinstance(value, dict) else []
        return keys[0] if len(keys) == 1 else next((key for key in keys if key == names[0]), None)

    def _value(self, path: Path) -> Any:
        place = rewrite.find(self.text, path)
        return None if place is None else place.value

    def _put(self, path: Path, value: Any) -> None:
        text = rewrite.put(self.text, path, value)
        if text is None:
            self.failed = True
        else:
            self.text = text
