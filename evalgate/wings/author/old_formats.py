"""ADK's two old list formats, as ADK reads them: a list of turns, which is one case, and a list of
named cases. They can be written in the current format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from evalgate.errors import ConfigError, Place
from evalgate.formats import adk_shapes, parse_eval_set, repair
from evalgate.formats.adk_shapes import EvalCaseWire, InvocationWire
from evalgate.formats.base import Format
from evalgate.formats.json_source import Spot, instead_of
from evalgate.formats.kind import OLD_LISTS, Dialect
from evalgate.formats.repair import Fields, Repair, Shape
from evalgate.model import Case
from evalgate.values import JsonObject, json_text, member

_IGNORED = "ADK itself ignores it"


def _repair_old_text(raw: Any, spot: Spot) -> tuple[str, list[JsonObject]]:
    if isinstance(raw, str):
        spot.adk_warning("adk-rejects-shape", "plain text; read as text of any agent")
        return "", [{"text": raw}]
    author = member(raw, "author")
    text = member(raw, "text")
    if isinstance(author, str) and isinstance(text, str):
        return author, [{"text": text}]
    spot.wrong_type("{author, text}", raw)
    return "", []


_OLD_STEPS: Mapping[str, tuple[str, Repair]] = {
    "expected_tool_use": ("tool_uses", repair.repair_old_call),
    "expected_intermediate_agent_responses": ("intermediate_responses", _repair_old_text),
}


def _finish_old_turn(turn: Fields) -> Fields:
    """As in ADK, a missing `reference` is an empty answer (null: an answer without parts), and
    missing tool calls mean no calls; both are expectations."""
    turn.drop_nulls(*_OLD_STEPS)
    turn.setdefault("reference", "")
    for key, adk_key, role, kind in (
        ("query", "user_content", "user", str),
        ("reference", "final_response", "model", str | None),
    ):
        turn.rename(key, adk_key)
        text = turn.get(adk_key, "")
        if not isinstance(text, kind):
            turn.under(adk_key).wrong_type("text", text)
        if adk_key in turn:
            parts = [{"text": text}] if isinstance(text, str) else []
            turn[adk_key] = {"role": role, "parts": parts}
    steps = {}
    for key, (adk_key, repair_item) in _OLD_STEPS.items():
        items = turn.pop(key, [])
        if isinstance(items, list):
            steps[adk_key] = repair.repair_items(repair_item)(items, turn.under(key))
        else:
            turn.under(key).wrong_type("a list", items)
    turn["intermediate_data"] = steps
    return turn


OLD_TURN = Shape(
    "a turn",
    ("query", "reference", "expected_tool_use", "expected_intermediate_agent_responses"),
    is_old=True,
    remark=_IGNORED,
    unread=repair.UNREAD,
    is_lost=repair.expects,
    finish=_finish_old_turn,
    reference=f"{repair.ANSWERS} expected_final",
    expected_tool_use=f"tool_uses {repair.CALLS}",
)


def _finish_old_session(session: Fields) -> JsonObject | None:
    session.drop_nulls(*session)
    return {"app_name": "", "user_id": "", **session} if session.raw else None


OLD_SESSION = Shape(
    "a session",
    ("app_name", "user_id", "state"),
    is_open=True,
    is_old=True,
    remark=_IGNORED,
    finish=_finish_old_session,
)


def _finish_old_case(case: Fields) -> Fields:
    case.drop_nulls("initial_session")
    case.repair("initial_session", OLD_SESSION.read)
    if "data" not in case:
        case.spot.error("missing-key", "`data` is missing", instead_of("data", case.raw))
        case["data"] = []
    for key, adk_key in _OLD_NAMES.items():
        case.rename(key, adk_key)
    return case


_OLD_NAMES = {"name": "eval_id", "data": "conversation", "initial_session": "session_input"}
OLD_CASE = Shape(
    "a case",
    tuple(_OLD_NAMES),
    is_old=True,
    remark=_IGNORED,
    is_lost=repair.expects,
    members={"data": repair.repair_items(OLD_TURN.read)},
    finish=_finish_old_case,
)


class TurnList(Format):
    """A list of turns. Each is read as a case of its own, without an id."""

    name = Dialect.FLAT_LIST

    def read_case(self, raw: Any, spot: Spot, *, place: Place | None = None) -> Case | None:
        """See Format."""
        turn = spot.validated(InvocationWire, OLD_TURN.read(raw, spot))
        if turn is None:
            return None
        return Case(case_id="", conversation=(turn.to_model(),), place=place)


class CaseList(Format):
    """A list of named cases."""

    name = Dialect.NAMED_LIST

    def read_case(self, raw: Any, spot: Spot, *, place: Place | None = None) -> Case | None:
        """See Format."""
        case = spot.validated(EvalCaseWire, OLD_CASE.read(raw, spot))
        return None if case is None else case.to_model(place=place)


FORMATS = (TurnList(), CaseList())


def migrated(text: str, *, file: str, session: Any = None) -> str:
    """The file in ADK's current format, with the same meaning. `session`: ADK's `initial_session`
    for cases without one.

    Raises ConfigError if the file cannot be read, or is already in the current format."""
    reading = parse_eval_set(text, file=file)
    if reading.eval_set is None:
        raise ConfigError.collected(reading.problems)
    if reading.dialect not in OLD_LISTS:
        hint = "Old ones are a list of `{query, reference, expected_tool_use}`, or of `{name, data: [...]}`."
        raise ConfigError("is not in one of ADK's old formats", place=Place(file), hint=hint)
    eval_set = reading.eval_set
    if session is not None:
        try:
            names = {"app_name": "", "user_id": ""}  # as google-adk fills them in
            wire = {**names, **session} if isinstance(session, dict) else session
            initial_session = adk_shapes.SessionInputWire.model_validate(wire).to_model()
        except ValidationError as error:
            raise ConfigError(
                f"the initial session is not ADK's: {error.errors()[0]['msg']}", place=Place(file)
            ) from error
        cases = tuple(
            replace(case, session=initial_session) if case.session is None else case
            for case in eval_set.cases
        )
        eval_set = eval_set.with_cases(cases)
    document = {
        "eval_set_id": eval_set.eval_set_id,
        "name": eval_set.name or eval_set.eval_set_id,
        "eval_cases": [adk_shapes.case_json(case) for case in eval_set.cases],
    }
    new_text = json_text(document)
    reread_set = parse_eval_set(new_text, file=file).eval_set
    if reread_set is None or reread_set.cases != eval_set.cases:
        raise ConfigError("has something that the current format cannot express", place=Place(file))
    return new_text
