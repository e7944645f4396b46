"""Turns of ADK's two old file formats: `{query, reference, expected_tool_use, ...}`."""

from __future__ import annotations

from typing import Any

from evalgate import words
from evalgate.model import Content, Event, Invocation, SessionInput, Text, ToolCall
from evalgate.wire import mending
from evalgate.wire.complaints import described
from evalgate.wire.ledger import Ledger, Path
from evalgate.wire.spelling import to_snake

KEYS = frozenset({"query", "reference", "expected_tool_use", "expected_intermediate_agent_responses"})
_UNREAD = frozenset({"mock_tool_output", "actual_tool_use", "response"})  # ADK's own, of no use for an expectation


def read_turn(raw: Any, *, path: Path, ledger: Ledger) -> Invocation | None:
    """The turn at `path` as ADK converts it; None where it cannot be understood, and the ledger says why.

    A missing `reference` is an empty answer (null: one without parts), and missing tool calls are none: both are
    expectations, as in ADK.
    """
    if not isinstance(raw, dict):
        ledger.error("wrong-type", f"expected a turn with a `query`, found {described(raw)}", path=path)
        return None
    before = ledger.failed
    query = _text(raw, "query", path, ledger, required=True)
    reference = _text(raw, "reference", path, ledger, required=False)
    calls = _calls(raw.get("expected_tool_use"), (*path, "expected_tool_use"), ledger)
    said = _said(
        raw.get("expected_intermediate_agent_responses"),
        (*path, "expected_intermediate_agent_responses"),
        ledger,
    )
    _tell_unused(raw, path, ledger)
    if ledger.failed > before:
        return None
    answer = (Text(text=reference),) if raw.get("reference", "") is not None else ()
    steps = [Event(author="", content=Content(parts=calls))] if calls else []
    return Invocation(
        user_content=Content(parts=(Text(text=query),), role="user"),
        final_response=Content(parts=answer, role="model"),
        events=(*steps, *said),
        itemized=False,
    )


def read_session(raw: Any, *, path: Path, ledger: Ledger) -> SessionInput | None:
    """`initial_session`; an absent or empty one is none."""
    if raw is None or raw == {}:
        return None
    if not isinstance(raw, dict):
        ledger.error("wrong-type", f"expected an object, found {described(raw)}", path=path)
        return None
    fields = {to_snake(key): value for key, value in raw.items()}
    state = fields.get("state") or {}
    if not isinstance(state, dict):
        ledger.error("wrong-type", f"expected an object, found {described(state)}", path=(*path, "state"))
        return None
    return SessionInput(
        app_name=str(fields.get("app_name") or ""), user_id=str(fields.get("user_id") or ""), state=state
    )


def _text(raw: dict[str, Any], key: str, path: Path, ledger: Ledger, *, required: bool) -> str:
    value = raw.get(key)
    if value is None and not required:
        return ""
    if isinstance(value, str):
        return value
    if key in raw:
        ledger.error("wrong-type", f"expected text, found {described(value)}", path=(*path, key))
        return ""
    near = words.nearest(key, [str(name) for name in raw], cutoff=0.8)
    found = f"`{near}` stands there instead" if near else f"found there: {words.listed([f'`{n}`' for n in raw])}"
    ledger.error("missing-key", f"`{key}` is missing", path=path, hint=found)
    return ""


def _calls(raw: Any, path: Path, ledger: Ledger) -> tuple[ToolCall, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        ledger.error("wrong-type", f"expected a list, found {described(raw)}", path=path)
        return ()
    made: list[ToolCall] = []
    for i, item in enumerate(raw):
        where = (*path, i)
        if isinstance(item, dict) and not item.keys().isdisjoint(("tool_name", "tool_input")):
            call = {"name": item.get("tool_name"), "args": item.get("tool_input")}
        else:
            call = mending.mend_call(item, where, ledger)
        name, args = (call.get("name"), call.get("args")) if isinstance(call, dict) else (None, None)
        if isinstance(name, str) and (args is None or isinstance(args, dict)):
            made.append(ToolCall(name=name, args=args))
        elif isinstance(name, str):
            message = f"expected an object, found {described(args)}"
            ledger.error("wrong-type", message, path=(*where, "tool_input"))
        else:
            ledger.error("missing-key", "`tool_name` is missing", path=where)
    return tuple(made)


def _said(raw: Any, path: Path, ledger: Ledger) -> tuple[Event, ...]:
    made: list[Event] = []
    for i, item in enumerate(raw if isinstance(raw, list) else ()):
        author, text = (item.get("author"), item.get("text")) if isinstance(item, dict) else (None, None)
        if isinstance(author, str) and isinstance(text, str):
            made.append(Event(author=author, content=Content(parts=(Text(text=text),))))
        else:
            ledger.error("wrong-type", f"expected {{author, text}}, found {described(item)}", path=(*path, i))
    if raw is not None and not isinstance(raw, list):
        ledger.error("wrong-type", f"expected a list, found {described(raw)}", path=path)
    return tuple(made)


def _tell_unused(raw: dict[str, Any], path: Path, ledger: Ledger) -> None:
    for key in raw.keys() - KEYS - _UNREAD:
        near = words.nearest(key, KEYS - raw.keys(), cutoff=0.8)
        if near:
            hint = f"did you mean `{near}`?"
            ledger.error("unknown-key", f"`{key}` is no key of a turn", path=(*path, key), hint=hint)
        elif not key.startswith("_"):
            ledger.note("unused-key", f"`{key}` is no key of a turn; nothing reads it", path=(*path, key))
