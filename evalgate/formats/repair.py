"""A case of an evaluation file: as ADK reads it, else with its evident meaning, else with
problems."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from evalgate.model import Case, Content
from evalgate.model.shapes import to_camel, to_snake
from evalgate.text import plain, words
from evalgate.values import Json, JsonObject, elements, member, without
from .adk_shapes import (
    STRICT,
    ContentWire,
    EvalCaseWire,
    IntermediateDataWire,
    InvocationWire,
    PartWire,
    RubricWire,
    ScenarioWire,
    SessionEventWire,
    SessionInputWire,
    ToolCallWire,
    ToolResponseWire,
)
from .json_source import REJECTED, Spot, listed_keys

_EXPECTED = frozenset(
    {"expected", "expect", "expects", "expectation", "expectations", "golden", "gold", "ideal"}
)
_ANSWER = frozenset({"answer", "answers", "response", "reply", "reference", "output", "completion"})
_TOOLS = frozenset({"tool", "tools", "call", "calls", "function", "functions", "trajectory"})


def _holds_calls(name: str, value: Any) -> bool:
    """True if a value is a list of tool calls. A list of bare names counts only by its key."""
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(member, str) for member in value):
        return not _TOOLS.isdisjoint(name.split("_"))
    return any(
        isinstance(member, dict) and member.keys() & {"name", "tool_name", "toolName", "function"}
        for member in value
    )


def lost_key(name: str, value: Any, beside: Collection[str]) -> str:
    """The key of a turn that an unknown key `name` (in snake_case) probably means.

    Calls if the turn has no calls, an answer if it has no answer, or anything else that is named as
    expected; "" if dropping the key loses nothing. `beside`: the keys that were read."""
    name_words = name.split("_")
    is_expected = value is not None and not _EXPECTED.isdisjoint(name_words)
    is_answer = (
        name_words[-1] in _ANSWER
        and _TOOLS.isdisjoint(name_words)
        and isinstance(value, str | list | dict)
        and bool(value)
    )
    if "intermediate_data" not in beside and _holds_calls(name, value):
        return "intermediate_data"
    if "final_response" not in beside and (is_answer or is_expected):
        return "final_response"
    return "intermediate_data" if is_expected and "intermediate_data" not in beside else ""


_NEVER_DROPPED = frozenset({"assertion", "assertions", "asserts", "prompt", "query", "data"})


def expects(name: str, value: Any) -> bool:
    """True if a key beside the turns (in snake_case) holds a question or an expectation. Dropping
    it would test less than its author wants."""
    name_words = name.split("_")
    # `tools` lists the available tools
    if not isinstance(value, str | list | dict) or not value or name in ("", "tools"):
        return False
    is_call_list = isinstance(value, list) and not _TOOLS.isdisjoint(name_words)
    return (
        name in _NEVER_DROPPED
        or not _EXPECTED.isdisjoint(name_words)
        or is_call_list
        or name_words[-1] in _ANSWER
    )


def report_lost(key: str, value: Any, spot: Spot, *, has_expectations: bool = False) -> None:
    """Report a key with an expectation that is not read, with its value. `has_expectations`: the
    agent has other expectations, so that a warning is enough."""
    text = plain.clip_end(json.dumps(value, ensure_ascii=False), 160)
    name = to_snake(key)
    spot = spot.at(key)
    hint = "write answers as `final_response` and tool calls as `intermediate_data` of a turn, and what an answer must be "
    hint += "as `rubrics`; or delete it"
    if has_expectations and name not in _NEVER_DROPPED and name not in INVOCATION.others:
        spot.warning("unused-key", f"`{key}` is not read: {text}", hint)
    else:
        spot.error("unknown-key", f"`{key}` is not read, so this would be lost: {text}", hint)


Repair = Callable[[Any, Spot], Any]
"""Converts a value at a place to ADK's shape, and reports its changes. A value of another type is
unchanged."""


def repair_items(repair: Repair) -> Repair:
    """The repair of a list."""
    return lambda raw, spot: (
        [repair(member, spot.at(index)) for index, member in enumerate(raw)]
        if isinstance(raw, list)
        else raw
    )


class Shape:
    """The keys of one kind of object: ADK's own, and alternative names.

    `is_open`: unknown keys are not reported. `is_old`: of a format of which ADK reads one spelling,
    and ignores other keys; `unread`: keys of that format without an effect. `is_lost`: True if an
    unknown key (in snake_case) with this value holds an expectation. `meaning`: the key that one
    probably means, beside the keys that were read; "" if it is harmless. `members`: the repairs of
    values by key; `finish`: the repair of the object after them."""

    def __init__(
        self,
        name: str,
        known: Iterable[str],
        /,
        *,
        is_open: bool = False,
        is_old: bool = False,
        remark: str = REJECTED,
        unread: Collection[str] = (),
        is_lost: Callable[[str, Any], bool] = lambda *_: False,
        meaning: Callable[[str, Any, Collection[str]], str] = lambda *_: "",
        members: Mapping[str, Repair] = MappingProxyType({}),
        finish: Callable[[Fields], Any] = lambda fields: fields,
        **alternatives: str,
    ) -> None:
        """`alternatives`: ADK's key = other names for it, separated by blanks."""
        self.name = name
        self.known = frozenset(known)
        self.is_open = is_open
        self.is_old = is_old
        self.remark = remark
        self.unread = unread
        self.is_lost = is_lost
        self.meaning = meaning
        self.members = members
        self.finish = finish
        self.others = {
            alias: key for key, aliases in alternatives.items() for alias in aliases.split()
        }

    def read(self, raw: Any, spot: Spot) -> Any:
        """See Repair."""
        if not isinstance(raw, dict):
            return raw
        fields = Fields(raw, self, spot)
        for key, repair in self.members.items():
            fields.repair(key, repair)
        return self.finish(fields)


_OF_OLD = {"reference": str, "expected_tool_use": list}
"""The types of values under another name that an old turn takes."""


class Fields(JsonObject):
    """The object at `spot` with ADK's keys in snake_case; stores the spelling of the file.

    Keys that ADK would reject are renamed or dropped, and reported."""

    def __init__(self, raw: Json, shape: Shape, spot: Spot) -> None:
        super().__init__()
        self.raw = raw
        self.spot = spot
        self.spelling: dict[str, str] = {}
        unknown_keys = []
        names = {to_snake(key) for key in raw}
        for key, value in raw.items():
            name = to_snake(key)
            adk_key = shape.others.get(name)
            is_exact = key == name or (not shape.is_old and key == to_camel(name))
            code = ""
            if name in shape.known and (is_exact or not shape.is_old or name not in raw):
                adk_key = name
                code = "" if is_exact else "adk-rejects-spelling"
            elif (
                adk_key is not None
                and adk_key not in names
                and adk_key not in self
                and isinstance(value, _OF_OLD.get(adk_key, object))
            ):
                code = "adk-rejects-name"
            else:
                if not shape.is_open and name not in shape.unread:
                    unknown_keys.append(key)
                continue
            if code:
                is_calls = code == "adk-rejects-name" and adk_key == "intermediate_data"
                meaning = "the expected tool calls" if is_calls else f"`{adk_key}`"
                spot.at(key).warning(code, f"`{key}` is read as {meaning}. {shape.remark}")
            self[adk_key] = value
            self.spelling[adk_key] = key
        for key in unknown_keys:
            name = to_snake(key)
            key_spot = spot.at(key)
            near = words.nearest(name, shape.known - names, cutoff=0.8)
            if not near and shape.is_lost(name, raw[key]):
                report_lost(key, raw[key], spot)
                continue
            if not near and not key.startswith("_"):
                near = shape.meaning(name, raw[key], self.keys())
            if near:
                key_spot.unknown_key(shape.name, near=near, is_error=True)
            elif not shape.is_old:
                key_spot.adk_warning(
                    "adk-rejects-key", f"unknown key `{key}` in {shape.name} (ignored)"
                )
            elif not key.startswith("_"):
                key_spot.unknown_key(shape.name, near=None)

    def under(self, key: str) -> Spot:
        """The place of `key`, as the file spells it."""
        return self.spot.at(self.spelling.get(key, key))

    def rename(self, key: str, adk_key: str) -> None:
        """Call a key as ADK does; the file spells it as before."""
        self.spelling[adk_key] = self.spelling.get(key, key)
        if key in self:
            self[adk_key] = self.pop(key)

    def drop_nulls(self, *keys: str) -> None:
        """Leave out those of the keys whose value is null."""
        for key in keys:
            if self.get(key, "") is None:
                self.under(key).adk_warning(
                    "adk-rejects-missing", f"`{key}` is null; read as absent"
                )
                del self[key]

    def repair(self, key: str, repair: Repair) -> None:
        """Replace the value of `key`, if there is one."""
        if key in self:
            self[key] = repair(self[key], self.under(key))


CALLS = "expected_tool_use expected_tool_calls expected_tools tools tool_calls"
ANSWERS = "expected_output expected_response reference_final_response expected_final_response expected_answer final_answer"
ARGUMENTS = "args arguments input parameters tool_args tool_arguments tool_input tool_parameters"
"""Common names for the arguments of a tool call."""


# --- tool calls and their responses ---------------------------------------------------------------


def _finish_call(call: Fields) -> Fields:
    if isinstance(call.get("args"), str):
        call["args"] = object_in(call["args"])
    return call


CALL = Shape(
    "a tool call",
    ToolCallWire.model_fields,
    meaning=lambda _, value, beside: (
        "args" if isinstance(value, dict) and value and "args" not in beside else ""
    ),
    finish=_finish_call,
    name="tool_name",
    args=ARGUMENTS,
    id="tool_id",
)


def _repair_call(raw: Any, spot: Spot) -> Any:
    if isinstance(member(raw, "function"), dict):
        spot.adk_warning("adk-rejects-shape", "a call of the form {function: {name, arguments}}")
        function = raw["function"]
        raw = {
            "id": raw.get("id"),
            "name": function.get("name"),
            "args": function.get("arguments"),
        }
    return CALL.read(raw, spot)


def repair_call(raw: Any, spot: Spot) -> Any:
    """A tool call of a list. Reads bare names, `{tool_name, tool_input}` and `{function: {name,
    arguments}}` too."""
    if isinstance(raw, str):
        spot.adk_warning("adk-rejects-shape", "a tool call as a bare name; read without arguments")
        return {"name": raw}
    return _repair_call(raw, spot)


def _finish_response(response: Fields) -> Fields:
    value = response.get("response")
    if value is not None and not isinstance(value, dict):
        response.under("response").adk_warning(
            "adk-rejects-shape", "a response that is not an object; read as `result`"
        )
        response["response"] = _as_object(value)
    return response


RESPONSE = Shape(
    "a tool response",
    ToolResponseWire.model_fields,
    finish=_finish_response,
    name="tool_name",
    response="content result output",
    id="tool_id",
)


def _steps_of_tools(raw: list[Any], spot: Spot) -> JsonObject:
    calls: list[Any] = []
    responses: list[Any] = []
    for index, tool in enumerate(raw):
        if isinstance(tool, dict) and "result" in tool:
            name = tool.get("name") or tool.get("tool_name")
            response = _as_object(tool["result"])
            responses.append({"id": tool.get("id"), "name": name, "response": response})
            tool = without(tool, ("result",))  # noqa: PLW2901 - without its result
        calls.append(repair_call(tool, spot.at(index)))
    return {"tool_uses": calls, "tool_responses": responses} if responses else {"tool_uses": calls}


def _as_object(value: Any) -> Any:
    if isinstance(value, str):
        value = object_in(value)
    return value if isinstance(value, dict) or value is None else {"result": value}


def object_in(text: str) -> Any:
    """The object that a text contains as JSON, or the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _finish_steps(steps: Fields) -> Any:
    steps.drop_nulls(*steps)
    spot = steps.under("tool_uses")
    calls = steps.get("tool_uses")
    if spot.path[-1] in ("tool_uses", "toolUses"):
        steps.repair("tool_uses", repair_items(repair_call))
    # under another name, a call may have its result beside it
    elif isinstance(calls, list):
        steps.update(without(_steps_of_tools(calls, spot), steps.keys() - {"tool_uses"}))
    if steps.get("invocation_events") is not None and (
        steps.get("tool_uses") or steps.get("tool_responses")
    ):
        message = "the steps are given twice; `invocation_events` is used, `tool_uses` and the other lists are ignored"
        steps.spot.adk_warning("adk-rejects-shape", message)
        return {"invocation_events": steps["invocation_events"]}
    return steps


STEPS = Shape(
    "intermediate_data",
    IntermediateDataWire.model_fields,
    meaning=lambda name, value, _: "tool_uses" if _holds_calls(name, value) else "",
    members={"tool_responses": repair_items(RESPONSE.read)},
    finish=_finish_steps,
    tool_uses=CALLS,
    invocation_events="events",
)


def _repair_steps(raw: Any, spot: Spot) -> Any:
    """The steps of a turn; a list is one of tool calls."""
    if not isinstance(raw, list):
        return STEPS.read(raw, spot)
    if spot.path[-1] in ("intermediate_data", "intermediateData"):
        spot.adk_warning("adk-rejects-shape", "a list of tool calls where ADK wants an object")
    return _steps_of_tools(raw, spot)


# --- contents and turns ---------------------------------------------------------------------------

PART = Shape(
    "a part",
    PartWire.model_fields,
    members={"function_call": _repair_call, "function_response": RESPONSE.read},
    text="content",
)


def _repair_part(raw: Any, spot: Spot) -> Any:
    if isinstance(raw, str):
        spot.adk_warning("adk-rejects-shape", "a part as plain text; read as its text")
        return {"text": raw}
    return PART.read(raw, spot)


CONTENT = Shape(
    "a content",
    ContentWire.model_fields,
    members={"parts": repair_items(_repair_part)},
    parts="content text",
)


def repair_content(raw: Any, spot: Spot, *, role: str) -> Any:
    """A content. Reads plain text, lists of parts, and `{role, content}` too."""
    if isinstance(raw, str):
        spot.adk_warning(
            "adk-rejects-shape", "plain text where ADK wants a content; read as its text"
        )
        return {"role": role, "parts": [{"text": raw}]}
    if isinstance(raw, list):
        spot.adk_warning("adk-rejects-shape", "a list where ADK wants a content; read as its parts")
        raw = {"role": role, "parts": raw}
    if not isinstance(raw, dict):
        return raw
    if raw and {to_snake(key) for key in raw}.isdisjoint({*CONTENT.known, *CONTENT.others}):
        keys = listed_keys(raw)
        if role == "user":  # an agent that is triggered by events
            message = f"an object where ADK wants a content; sent as its JSON ({keys})"
            spot.adk_warning("adk-rejects-shape", message)
            return {"role": role, "parts": [{"text": json.dumps(raw, ensure_ascii=False)}]}
        spot.error(
            "wrong-type", f"expected a content (`role`, `parts`) or plain text, found {keys}"
        )
        return {"role": role, "parts": []}
    content = CONTENT.read(raw, spot)
    parts = content.get("parts")
    if isinstance(parts, str):
        if content.spelling["parts"] == "parts":
            spot.adk_warning("adk-rejects-shape", "plain text where ADK wants a list of parts")
        content["parts"] = [{"text": parts}]
    content.setdefault("role", role)
    return content


def _finish_rubric(rubric: Fields) -> Fields:
    content = rubric.get("rubric_content")
    text = content.get("text") if isinstance(content, dict) else content
    if isinstance(text, str):
        rubric["rubric_content"] = {"text_property": text}
    return rubric


RUBRIC = Shape(
    "a rubric",
    RubricWire.model_fields,
    finish=_finish_rubric,
    rubric_id="id name",
    rubric_content="content text text_property",
)


def _repair_rubric(raw: Any, spot: Spot) -> Any:
    """A rubric of a list. A plain text is one, and so is `{id, content: {text}}`."""
    if isinstance(raw, str):
        spot.adk_warning("adk-rejects-shape", "a rubric as plain text; read as its text")
        number = int(spot.path[-1]) + 1
        return {"rubric_id": f"rubric_{number}", "rubric_content": {"text_property": raw}}
    return RUBRIC.read(raw, spot)


INVOCATION = Shape(
    "a turn",
    InvocationWire.model_fields,
    is_lost=lambda name, value: name in _NEVER_DROPPED and bool(value),
    meaning=lost_key,
    members={
        "user_content": partial(repair_content, role="user"),
        "final_response": partial(repair_content, role="model"),
        "intermediate_data": _repair_steps,
        "rubrics": repair_items(_repair_rubric),
    },
    user_content="user query prompt user_message user_input input",
    final_response=f"reference {ANSWERS} expected_final",
    intermediate_data=f"tool_uses {CALLS}",
)


def repair_invocation(raw: Any, spot: Spot) -> Any:
    """A turn in ADK's shape: reads contents as plain text, tool calls beside the answer, and other
    tools' names."""
    if isinstance(raw, dict) and "role" in raw and raw.keys() & {"parts", "content"}:
        message = f"found a chat message (`role`, `{'parts' if 'parts' in raw else 'content'}`), expected a turn"
        hint = "a turn has what the user says and what the agent answers: `user_content` and `final_response`"
        spot.error("wrong-type", message, hint)
        return {"user_content": {"parts": []}}
    return INVOCATION.read(raw, spot)


# --- cases ----------------------------------------------------------------------------------------


def _finish_session(session: Fields) -> Fields:
    """A missing app or user is left to the driver."""
    for key in ("app_name", "user_id"):
        if session.get(key) is None:
            session.spot.adk_warning("adk-rejects-missing", f"`{key}` is missing; read as unknown")
            session[key] = ""
    session.drop_nulls("state")
    return session


def _finish_case(case: Fields) -> Fields:
    if isinstance(case.get("eval_id"), int | float):
        case.under("eval_id").adk_warning("adk-rejects-type", "the id is a number; read as text")
        case["eval_id"] = str(case["eval_id"])
    _read_beside(case)
    return case


SESSION = Shape("a session", SessionInputWire.model_fields, is_open=True, finish=_finish_session)
SCENARIO = Shape("a scenario", ScenarioWire.model_fields, user_persona="persona")
CASE = Shape(
    "a case",
    EvalCaseWire.model_fields,
    is_open=True,
    members={
        "conversation": repair_items(repair_invocation),
        "conversation_scenario": SCENARIO.read,
        "session_input": SESSION.read,
        "rubrics": repair_items(_repair_rubric),
    },
    finish=_finish_case,
    eval_id="id case_id eval_case_id test_id name",
    conversation="turns invocations data",
    conversation_scenario="scenario user_scenario",
    session_input="initial_session session_inputs",
)


def _read_beside(case: Fields) -> None:
    """Move questions and expectations beside the turns into the only turn that they fit; report
    others."""
    raw = case.raw
    spot = case.spot
    other_keys = {
        key: to_snake(key)
        for key in raw.keys() - set(case.spelling.values())
        if not key.startswith("_")
    }
    adk_keys = {
        key: INVOCATION.others.get(name, name)
        for key, name in other_keys.items()
        if name != "tools"
    }
    turn_values = {
        key: raw[key] for key in raw if adk_keys.get(key) in _OF_TURN and raw[key] is not None
    }
    if case.keys().isdisjoint(_TALKS):
        if "user_content" not in map(adk_keys.get, turn_values):
            return
        case["conversation"] = [repair_invocation(turn_values, spot)]
        other_keys = without(other_keys, turn_values)
    objects = [turn for turn in elements(case, "conversation") if isinstance(turn, dict)]
    missing_keys = CASE.known - case.keys()
    for key, name in sorted(other_keys.items()):
        if key in turn_values and _move_to_turn(raw[key], adk_keys[key], objects, spot.at(key)):
            continue
        if expects(name, raw[key]) or adk_keys.get(key) in _OF_TURN[1:]:
            has_expectations = any(turn.get(field) for turn in objects for field in _OF_TURN[1:])
            report_lost(key, raw[key], spot, has_expectations=has_expectations)
        else:
            spot.at(key).unknown_key("a case", near=words.nearest(name, missing_keys, cutoff=0.8))


_TALKS = ("conversation", "conversation_scenario")
_OF_TURN = ("user_content", "final_response", "intermediate_data")


def _move_to_turn(value: Any, adk_key: str, turns: list[Any], spot: Spot) -> bool:
    """True if a value beside the turns could be moved into a turn without it, or repeats a turn's
    value. An answer moves to the last turn, calls move to the only turn."""
    if not turns or (adk_key == "user_content" and len(turns) > 1):
        return False
    last_turn = turns[-1]
    if last_turn.get(adk_key) is not None:
        parts = elements(last_turn[adk_key], "parts")
        part_texts = [member(part, "text") for part in parts]
        text = "\n".join(text for text in part_texts if isinstance(text, str))
        return isinstance(value, str) and text.strip() == value.strip()
    if adk_key == "final_response" and isinstance(value, str | dict):
        last_turn[adk_key] = repair_content(value, spot, role="model")
    elif adk_key == "intermediate_data" and len(turns) == 1 and isinstance(value, list):
        last_turn[adk_key] = _steps_of_tools(value, spot)
    else:
        return False
    expectation = "expected answer" if adk_key == "final_response" else "expected tool calls"
    turn = "turn" if len(turns) == 1 else "last turn"
    message = f"`{spot.path[-1]}` is read as the {expectation} of the {turn}; ADK ignores it"
    spot.warning("adk-rejects-name", message)
    return True


# --- an expected call of ADK's old formats, and of other dialects ---------------------------------

UNREAD = ("mock_tool_output", "actual_tool_use", "response")
OLD_CALL = Shape(
    "an expected tool call",
    ("tool_name", "tool_input"),
    is_old=True,
    unread=(*UNREAD, "id", "tool_output"),
    meaning=lambda _, value, beside: (
        "tool_input" if isinstance(value, dict) and "tool_input" not in beside else ""
    ),
    tool_name="name tool",
    tool_input=ARGUMENTS,
)


def repair_old_call(raw: Any, spot: Spot) -> JsonObject:
    """An expected call, in ADK's shape. Other forms than `{tool_name, tool_input}` are read with a
    warning, because ADK rejects them. A key that may hold arguments is either read or an error,
    because a call without arguments asserts less."""
    if isinstance(raw, dict) and not isinstance(raw.get("function"), dict):
        call = Fields(raw, OLD_CALL, spot)
        if "tool_input" not in call and not spot.is_broken:
            spot.adk_warning("adk-rejects-missing", "`tool_input` is missing; read as no arguments")
        elif isinstance(call.get("tool_input"), str) and "tool_input" not in raw:
            call["tool_input"] = object_in(call["tool_input"])
        call.rename("tool_name", "name")
        call.rename("tool_input", "args")
    else:
        call = repair_call(raw, spot)
    name = member(call, "name")
    args = member(call, "args")
    if not isinstance(name, str):
        spot.error("missing-key", "`tool_name` is missing")
        name = ""
    if not isinstance(args, dict | None):
        spot.at("tool_input").wrong_type("an object", args)
        args = None
    return {"name": name, "args": args}


# --- a whole case ---------------------------------------------------------------------------------

_KNOWN = frozenset(EvalCaseWire.model_fields) | {
    to_camel(name) for name in EvalCaseWire.model_fields
}


def read_case(raw: Any, spot: Spot, **facts: Any) -> Case | None:
    """The case at `spot`; None, with a problem, if it is invalid. `facts`: see
    EvalCaseWire.to_model."""
    with suppress(ValidationError):
        case = EvalCaseWire.model_validate(raw, context=STRICT)
        unused_keys = sorted(raw.keys() - _KNOWN)
        if not any(expects(to_snake(key), raw[key]) for key in unused_keys):
            missing_keys = CASE.known - {to_snake(key) for key in raw} if unused_keys else ()
            for key in unused_keys:
                nearest_name = words.nearest(to_snake(key), missing_keys, cutoff=0.8)
                if nearest_name or not key.startswith("_"):
                    spot.at(key).unknown_key("a case", near=nearest_name)
            return case.to_model(**facts)
    repaired_case = CASE.read(raw, spot)
    if isinstance(repaired_case, dict) and repaired_case.keys().isdisjoint(_TALKS):
        message = "the case has neither a `conversation` nor a `conversation_scenario`; it has "
        spot.error("no-conversation", f"{message}{listed_keys(raw)}")
        return None
    if isinstance(repaired_case, dict) and repaired_case.get("eval_id") is None:
        default_id = f"case_{spot.path[-1] if spot.path else 0}"
        message = f"the case has no `eval_id`; using {default_id}"
        spot.adk_warning("missing-eval-id", message)
        repaired_case["eval_id"] = default_id
    wire = spot.validated(EvalCaseWire, repaired_case)
    return wire.to_model(**facts) if wire else None


def read_content(raw: Any, spot: Spot, *, role: str) -> Content | None:
    """A content in any spelling; None, with a problem, if it is invalid."""
    wire = spot.validated(ContentWire, repair_content(raw, spot, role=role))
    return wire.to_model() if wire else None


def read_events(raw: Sequence[Any], spot: Spot) -> list[SessionEventWire]:
    """The valid ones of the stored events at `spot`, with problems for the others."""
    events = (read_event(event, spot.at(index)) for index, event in enumerate(raw))
    return list(filter(None, events))


def read_event(raw: Any, spot: Spot) -> SessionEventWire | None:
    """One stored event; None, with a problem, if it is invalid. Its text may stand beside its
    author."""
    if isinstance(raw, dict) and "content" not in raw and isinstance(raw.get("text"), str):
        raw = raw | {"content": raw["text"]}
    with suppress(ValidationError):
        return SessionEventWire.model_validate(raw)
    if isinstance(raw, dict) and raw.get("content") is not None:
        role = "user" if raw.get("author") == "user" else "model"
        content = repair_content(raw["content"], spot.at("content"), role=role)
        raw = raw | {"content": content}
    return spot.validated(SessionEventWire, raw)
