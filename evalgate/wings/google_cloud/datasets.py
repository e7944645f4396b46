"""Cases of google agents-cli datasets (the Gen AI evaluation SDK's EvalCase): prompts, histories,
traces, scenarios."""

from __future__ import annotations

from functools import partial
from typing import Any

from evalgate.errors import Place
from evalgate.formats import adk_shapes, repair
from evalgate.formats.adk_shapes import ScenarioWire, SessionInputWire
from evalgate.formats.base import Format
from evalgate.formats.json_source import Problems, Spot
from evalgate.formats.kind import DATASET_KEYS, Dialect, is_dataset_case
from evalgate.model import (
    Case,
    Content,
    ConversationScenario,
    Event,
    Invocation,
    Rubric,
    SessionInput,
    Text,
    ToolCall,
    TrialView,
    events_of,
)
from evalgate.model.shapes import to_fields, to_snake
from evalgate.values import JsonObject, elements, member, without
from . import eval_config

_OF_RUN = frozenset({"prompt", "response", "responses", "eval_case_id"})
_OF_ADK = _OF_RUN | {"eval_id", "conversation", "session_input"}
_READ = DATASET_KEYS | {
    "id",
    "case_id",
    "reference",
    "responses",
    "rubric_groups",
    "session_input",
    "session_inputs",
}


def read_case(
    raw: Any, spot: Spot, *, place: Place | None = None, recorded: bool = False
) -> Case | None:
    """The case at `spot`; None, with a problem, if it is invalid.

    `recorded`: read the agent's recorded answer (`responses`) instead of the expected one
    (`reference`)."""
    if not isinstance(raw, dict):
        return repair.read_case(raw, spot, place=place)
    if not is_dataset_case(raw):
        return _read_adk_case(raw, spot, place=place)
    fields = to_fields(raw)
    scenario = _scenario(fields.get("user_scenario"), spot.at("user_scenario"))
    turns = _turns(fields, spot) if scenario is None else []
    if turns:
        last_turn = turns.pop()
        answer = _answer(fields, spot, recorded=recorded)
        if answer is None or (recorded and last_turn.final_response is not None):
            answer = last_turn.final_response
        events = last_turn.events
        if events is None:
            events = _expected_steps(fields, spot)
        last_turn = Invocation(
            user_content=last_turn.user_content,
            final_response=answer,
            events=events,
            invocation_id=last_turn.invocation_id,
        )
        turns.append(last_turn)
    elif scenario is None and not spot.is_broken:
        message = "the case has no `prompt`, no `agent_data.turns` and no `user_scenario`"
        spot.error("no-conversation", message)
    for key in sorted(fields.keys() - _READ):
        if not key.startswith("_"):
            field_spot = spot.at(key)
            report = field_spot.warning if repair.expects(key, fields[key]) else field_spot.note
            use = (
                "replaced by the agent's answer; an expected one is a `reference`"
                if key in _OF_RUN
                else "passed to metrics of eval_config.yaml; no other criterion reads it"
            )
            report("unused-key", f"`{key}` is {use}")
    if spot.is_broken:
        return None
    return Case(
        case_id=_case_id(fields, spot),
        conversation=tuple(turns) if scenario is None else None,
        scenario=scenario,
        session=_session(fields, spot),
        rubrics=_rubrics(fields),
        place=place,
        extras={key: value for key, value in raw.items() if to_snake(key) not in _OF_RUN},
    )


def _read_adk_case(raw: JsonObject, spot: Spot, *, place: Place | None) -> Case | None:
    """A case of a dataset in ADK's shape. Its other keys are passed to metrics."""
    shapes = (repair.CASE, repair.INVOCATION)
    names = {name for shape in shapes for name in (*shape.known, *shape.others)}
    fields = {key: field for key, field in raw.items() if to_snake(key) in names}
    extras = {key: field for key, field in raw.items() if to_snake(key) not in _OF_ADK}
    return repair.read_case(fields, spot, place=place, extras=extras)


def _case_id(fields: JsonObject, spot: Spot) -> str:
    """The id of a case, else one by its number, with a note."""
    for key in ("eval_case_id", "id", "case_id"):
        if isinstance(case_id := fields.get(key), str | int):
            return str(case_id)
    default_id = f"case_{spot.path[-1] if spot.path else 0}"
    spot.note("missing-eval-id", f"the case has no `eval_case_id`; using {default_id}")
    return default_id


def _scenario(raw: Any, spot: Spot) -> ConversationScenario | None:
    """The plan of a simulated user; None without one, or with an invalid one, which is a
    problem."""
    if not isinstance(raw, dict):
        return None
    fields = to_fields(raw)
    unknown_keys = fields.keys() - ScenarioWire.model_fields.keys()
    wire = spot.validated(ScenarioWire, without(fields, unknown_keys))
    return wire.to_model() if wire else None


def _turns(fields: JsonObject, spot: Spot) -> list[Invocation]:
    """Earlier messages, recorded turns, and the prompt."""
    turns = _history(fields, spot)
    recorded_turns = member(fields.get("agent_data"), "turns")
    recorded_spot = spot.at("agent_data", "turns")
    if recorded_turns is not None and not isinstance(recorded_turns, list):
        recorded_spot.wrong_type("a list", recorded_turns)
        recorded_turns = None
    for index, turn in enumerate(recorded_turns or ()):
        raw_events = member(turn, "events")
        if not isinstance(raw_events, list):
            recorded_spot.at(index).error("missing-key", "`events` is missing")
            continue
        events = repair.read_events(raw_events, recorded_spot.at(index, "events"))
        name = turn.get("turn_id") or turn.get("turnId") or ""
        turns.append(adk_shapes.turn_of(events, invocation_id=str(name)))
    raw = fields.get("prompt")
    prompt = None if raw is None else repair.read_content(raw, spot.at("prompt"), role="user")
    # compare the parts only: the roles may differ
    if prompt is not None and not (turns and turns[-1].user_content.parts == prompt.parts):
        turns.append(Invocation(user_content=prompt))
    return turns


def _history(fields: JsonObject, spot: Spot) -> list[Invocation]:
    """Earlier messages: each user message begins a turn, each agent message is its answer."""
    key = "messages" if "messages" in fields else "conversation_history"
    exchanges: list[tuple[Content, Content | None]] = []
    for index, message in enumerate(elements(fields, key)):
        raw = message.get("content", message) if isinstance(message, dict) else message
        author = member(message, "author") or member(message, "role")
        content = repair.read_content(raw, spot.at(key, index), role="user")
        if content is None:
            continue
        if str(author or content.role or "user") == "user":
            exchanges.append((content, None))
        elif exchanges:
            exchanges[-1] = exchanges[-1][0], content
    return [
        Invocation(user_content=question, final_response=answer) for question, answer in exchanges
    ]


def _answer(fields: JsonObject, spot: Spot, *, recorded: bool) -> Content | None:
    """The expected answer of the last turn, or the recorded one."""
    if recorded:
        responses = elements(fields, "responses")
        raw = responses[-1] if responses else None
        spot = spot.at("responses", len(responses) - 1)
    else:
        key = "reference"
        raw = fields.get(key)
        aliases = _names_for("final_response", fields)
        if raw is None and aliases:
            key = aliases[0]
            raw = fields.pop(key)
            spot.at(key).warning("adk-rejects-name", f"`{key}` is read as `reference`")
        spot = spot.at(key)
    if isinstance(raw, dict) and "response" in raw:
        raw = raw["response"]
        spot = spot.at("response")
    return None if raw is None else repair.read_content(raw, spot, role="model")


def _names_for(adk_key: str, fields: JsonObject) -> list[str]:
    """The fields that are other names for a key of an ADK turn."""
    return [name for name in fields if repair.INVOCATION.others.get(name) == adk_key]


def _expected_steps(fields: JsonObject, spot: Spot) -> tuple[Event, ...] | None:
    """The expected calls of another dialect's key (`expected_tool_use`); None without such a key,
    or if it is invalid, which is reported."""
    keys = _names_for("intermediate_data", fields)
    key = next((key for key in keys if isinstance(fields[key], list)), None)
    if key is None:
        return None
    calls: list[ToolCall] = []
    for index, raw in enumerate(fields[key]):
        quiet_spot = Spot(Problems("", file=""))  # ADK does not read datasets
        call = repair.repair_old_call(raw, quiet_spot)
        if quiet_spot.is_broken or not call["name"]:
            message = 'expected tool calls, such as {"tool_name": ..., "tool_input": {...}}'
            spot.at(key, index).error("wrong-type", message)
            return None
        calls.append(ToolCall(**call))
    del fields[key]
    return events_of(calls)


def _session(fields: JsonObject, spot: Spot) -> SessionInput | None:
    """The session of a case, missing fields empty; None without one."""
    for key in ("session_input", "session_inputs"):
        if isinstance(fields.get(key), dict):
            session = {"app_name": "", "user_id": "", "state": {}, **to_fields(fields[key])}
            wire = spot.at(key).validated(SessionInputWire, session)
            if wire is not None:
                return wire.to_model()
    return None


def _rubrics(fields: JsonObject) -> tuple[Rubric, ...]:
    """The rubrics of all groups, in order."""
    groups = fields.get("rubric_groups")
    rubrics: list[Rubric] = []
    for group in groups.values() if isinstance(groups, dict) else ():
        for rubric in elements(group, "rubrics"):
            if isinstance(rubric, dict):
                rubrics.append(_rubric(rubric, number=len(rubrics) + 1))
    return tuple(rubrics)


def _rubric(raw: JsonObject, *, number: int) -> Rubric:
    """A rubric in either spelling of Google's; without an id it is named by its number, from 1."""
    content = raw.get("content") or raw.get("rubric_content") or {}
    text = content
    if isinstance(content, dict):
        rubric_property = content.get("property")
        text = content.get("text_property")
        if isinstance(rubric_property, dict):
            text = rubric_property.get("description")
    name = raw.get("rubric_id") or raw.get("rubricId") or f"rubric_{number}"
    kind = raw.get("type")
    return Rubric(rubric_id=str(name), text=str(text or ""), type=str(kind) if kind else None)


def instance_json(view: TrialView, *, needs_prompt: bool = False) -> JsonObject:
    """The input of a metric's `evaluate(instance)` in agents-cli: the case as written, and prompt,
    response and agent data of the run.

    A case that is written as turns has no prompt there; `needs_prompt`: it has its last one."""
    case = view.case
    turns = view.actual
    agents = {agent.name: agent for turn in turns for agent in turn.agents}
    others = {key: field for key, field in case.extras.items() if to_snake(key) != "agent_data"}
    is_by_turns = len(others) < len(case.extras)
    instance = {
        **others,
        "eval_case_id": case.case_id,
        "agent_data": {
            "agents": {
                name: {
                    "agent_id": name,
                    "agent_type": "LlmAgent",
                    "instruction": agent.instructions,
                    "tools": list(agent.tool_declarations),
                }
                for name, agent in agents.items()
            },
            "turns": [
                {
                    "turn_index": index,
                    "turn_id": f"turn_{index}",
                    "events": events_json(
                        turn, answers=_author_of(turn), with_user=is_by_turns or len(turns) > 1
                    ),
                }
                for index, turn in enumerate(turns)
            ],
        },
    }
    reference = instance.get("reference")
    if isinstance(reference, str):
        instance["reference"] = {"response": {"role": "model", "parts": [{"text": reference}]}}
    if turns:
        if needs_prompt or not is_by_turns:
            instance["prompt"] = adk_shapes.content_json(turns[-1].user_content)
        response = response_of(turns[-1])
        if response is not None:
            instance["response"] = adk_shapes.content_json(response)
    return instance


def service_instance(view: TrialView) -> JsonObject:
    """The same input as agents-cli sends it to Google Cloud's evaluation service."""
    instance = instance_json(view)
    messages = {
        "prompt": instance.get("prompt"),
        "response": instance.get("response"),
        "reference": member(instance.get("reference"), "response"),
    }
    service: JsonObject = {
        name: {"contents": {"contents": [message]}} for name, message in messages.items() if message
    }
    if "rubric_groups" in instance:
        service["rubric_groups"] = instance["rubric_groups"]
    return {**service, "agent_eval_data": instance["agent_data"]}


def response_of(turn: Invocation) -> Content | None:
    """The text that agents-cli uses as the response: that of the turn's last message with one."""
    contents = [event.content for event in turn.steps] + [turn.final_response]
    for content in reversed(contents):
        parts = content.parts if content is not None else ()
        text = "".join(part.text for part in parts if isinstance(part, Text))
        if content is not None and text:
            return Content.of(text, content.role or "model")
    return None


def _author_of(turn: Invocation) -> str:
    """The author of the answer: of the last event, else the root agent."""
    names = [agent.name for agent in turn.agents[:1]]
    names += [event.author for event in turn.steps if event.author and event.content is not None]
    return next(reversed(names), "agent")


def events_json(turn: Invocation, *, answers: str, with_user: bool = True) -> list[JsonObject]:
    """The events of a turn, whose answer is by `answers`. As in agents-cli, a single prompt is not
    among them."""
    contents = [("user", turn.user_content)] if with_user else []
    contents += [(event.author or "agent", event.content) for event in turn.steps if event.content]
    contents += [(answers, turn.final_response)] if turn.final_response is not None else []
    return [
        {"author": author, "content": adk_shapes.content_json(content)}
        for author, content in contents
    ]


class AgentsCli(Format):
    """Datasets and their eval_config.yaml."""

    name = Dialect.AGENTS_CLI
    read_case = staticmethod(read_case)
    read_recorded_case = staticmethod(partial(read_case, recorded=True))
    read_criteria = staticmethod(eval_config.parse_eval_config)
    instance = staticmethod(instance_json)


FORMAT = AgentsCli()
