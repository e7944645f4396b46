"""Logs of the agent protocol, and bare lists of session events: who said what in which session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evalgate.model import AgentDetails, Content, Invocation, Timings, Transcript
from evalgate.wire import assembly, complaints, eval_sets, numbers, session_events
from evalgate.wire.assembly import StepEvent
from evalgate.wire.complaints import described
from evalgate.wire.invocations import AgentDetailsWire
from evalgate.wire.json_text import BYTE_ORDER_MARK, JsonFault, JsonText
from evalgate.wire.ledger import Ledger, Path

Recorded = list[tuple[str, Transcript]]
_UNSAID = frozenset({
    "hello", "ready", "bye", "fatal", "metric", "metric_result", "started", "tool_call", "tool_response", "tool_result",
})  # fmt: skip
_AGENTS = TypeAdapter(list[AgentDetailsWire])


def is_lines(text: str) -> bool:
    """Whether a text holds one JSON object a line, more than one of them."""
    head = text[:65_536].lstrip(BYTE_ORDER_MARK).strip()
    first, _, rest = head.partition("\n")
    return first.startswith("{") and first.rstrip().endswith("}") and rest.lstrip().startswith("{")


def read_lines(text: str, ledger: Ledger) -> Recorded:
    """Read protocol messages, one a line."""
    messages: list[Any] = []
    json_text = JsonText(text)
    try:
        at = json_text.start()
        while at < len(text):
            value, end = json_text.value(at)
            messages.append(value)
            at = json_text.skip_blanks(end)
    except JsonFault as fault:
        ledger.error(fault.code, fault.message, place=ledger.place_at(fault.offset), hint=fault.hint)
        return []
    return read_items(messages, ledger)


def read_items(items: Sequence[Any], ledger: Ledger) -> Recorded:
    """Read a list of protocol messages (they have a `type`), or of the events of one ADK session."""
    if all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in items):
        return _read_messages(items, ledger)
    read = [session_events.read_event(item, path=(i,), ledger=ledger) for i, item in enumerate(items)]
    events = [event for event in read if event is not None]
    if not events or len(events) < len(items):
        return []
    return [("", Transcript(invocations=session_events.turns_of(events)))]


@dataclass(slots=True, kw_only=True)
class _Session:
    case_id: str
    turns: list[Invocation] = field(default_factory=list)
    asked: Content | None = None
    steps: list[StepEvent] = field(default_factory=list)
    state: dict[str, Any] | None = None
    failed: bool = False


def _read_messages(messages: Sequence[Mapping[str, Any]], ledger: Ledger) -> Recorded:
    sessions: dict[str, _Session] = {}
    for i, message in enumerate(messages):
        name = str(message.get("session") or "")
        if message["type"] == "start":
            sessions[name] = _Session(case_id=str(message.get("case_id") or name))
        elif message["type"] not in _UNSAID:
            _hear(message, sessions.setdefault(name, _Session(case_id=name)), (i,), ledger)
    whole = [session for session in sessions.values() if session.turns and not session.failed]
    return [
        (session.case_id, Transcript(invocations=tuple(session.turns), final_state=session.state)) for session in whole
    ]


def _hear(message: Mapping[str, Any], session: _Session, path: Path, ledger: Ledger) -> None:
    match message["type"]:
        case "turn":
            where = (*path, "content")
            session.asked = eval_sets.read_content(message.get("content"), role="user", path=where, ledger=ledger)
            session.steps = []
        case "event":
            step = _step(message, path, ledger)
            if step is not None:
                session.steps.append(step)
        case "turn_end":
            session.turns.append(_turn(message, session, path, ledger))
        case "turn_failed":
            session.failed = True
            said = str(message.get("message") or "no reason given")[:200]
            ledger.warn("recorded-failure", f"the agent failed in this session: {said}", path=path)
        case "ended":
            state = message.get("state")
            session.state = state if isinstance(state, dict) else None
        case _:
            ledger.error("unknown-message", f"`{str(message['type'])[:40]}` is not a protocol message", path=path)


def _step(message: Mapping[str, Any], path: Path, ledger: Ledger) -> StepEvent | None:
    event = session_events.read_event({k: v for k, v in message.items() if k != "session"}, path=path, ledger=ledger)
    if event is None:
        return None
    plain = event.noun()
    return StepEvent(
        author=plain.author,
        content=plain.content,
        usage=plain.usage,
        model_version=plain.model_version,
        grounding=plain.grounding,
        final=message.get("final") is True,
    )


def _turn(message: Mapping[str, Any], session: _Session, path: Path, ledger: Ledger) -> Invocation:
    return assembly.assemble(
        session.asked or Content(),
        session.steps,
        invocation_id=str(message.get("invocation_id") or ""),
        agents=_agents(message.get("agents"), (*path, "agents"), ledger),
        timings=_timings(message.get("timings"), (*path, "timings"), ledger),
    )


def _agents(raw: Any, path: Path, ledger: Ledger) -> tuple[AgentDetails, ...]:
    try:
        read = _AGENTS.validate_python(raw or [])
    except ValidationError as error:
        complaints.complain(error, raw, path=path, ledger=ledger)
        return ()
    return tuple(
        AgentDetails(name=agent.name, instructions=agent.instructions, tool_declarations=tuple(agent.tool_declarations))
        for agent in read
    )


def _timings(raw: Any, path: Path, ledger: Ledger) -> Timings | None:
    if raw is None:
        return None
    seconds = {key: raw.get(key) for key in ("total_s", "model_s", "tool_s")} if isinstance(raw, dict) else {}
    total, model, tool = (
        numbers.seconds(value) if isinstance(value, int | float) else None
        for value in (seconds.get("total_s"), seconds.get("model_s"), seconds.get("tool_s"))
    )
    if total is None:
        ledger.error("wrong-type", f"expected {{total_s: seconds}}, found {described(raw)}", path=path)
        return None
    return Timings(total_s=total, model_s=model, tool_s=tool)
