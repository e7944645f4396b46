"""What people evidently mean where ADK gives up: raw values in ADK's shape, each change told to the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.alias_generators import to_camel, to_snake

from evalgate import words
from evalgate.wire.cases import EvalCaseWire, ScenarioWire, SessionInputWire
from evalgate.wire.contents import ContentWire, FunctionCallWire, FunctionResponseWire, PartWire
from evalgate.wire.invocations import IntermediateDataWire, InvocationWire, RubricWire
from evalgate.wire.ledger import Ledger, Path

_ADK = "ADK itself rejects this"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The keys of one kind of object: ADK's own, other names for them, and whether ADK lets unknown ones pass."""

    name: str
    known: frozenset[str]
    others: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False


def _shape(name: str, known: Iterable[str], /, *, is_open: bool = False, **others: str) -> Shape:
    """`others`: ADK's key = other names for it, separated by blanks."""
    table = {alias: key for key, aliases in others.items() for alias in aliases.split()}
    return Shape(name=name, known=frozenset(known), others=table, is_open=is_open)


CASE = _shape(
    "a case",
    EvalCaseWire.model_fields,
    is_open=True,
    eval_id="id case_id eval_case_id test_id name",
    conversation="turns invocations",
    conversation_scenario="scenario user_scenario",
    session_input="initial_session session_inputs",
)
INVOCATION = _shape(
    "a turn",
    InvocationWire.model_fields,
    user_content="user query prompt user_message user_input input",
    final_response="reference expected_response reference_final_response expected_final_response expected_answer",
    intermediate_data="expected_tool_use expected_tool_calls expected_tools tools tool_uses tool_calls",
)
SESSION = _shape("a session", SessionInputWire.model_fields, is_open=True)
SCENARIO = _shape("a scenario", ScenarioWire.model_fields, user_persona="persona")
RUBRIC = _shape("a rubric", RubricWire.model_fields, rubric_id="id name", rubric_content="content text text_property")
STEPS = _shape(
    "intermediate_data", IntermediateDataWire.model_fields, tool_uses="tool_calls", invocation_events="events"
)
CONTENT = _shape("a content", ContentWire.model_fields, parts="content text")
PART = _shape("a part", PartWire.model_fields, text="content")
CALL = _shape(
    "a tool call", FunctionCallWire.model_fields, name="tool_name", args="arguments tool_input input", id="tool_id"
)
RESPONSE = _shape(
    "a tool response",
    FunctionResponseWire.model_fields,
    name="tool_name",
    response="content result output",
    id="tool_id",
)


def mend_case(raw: Any, path: Path, ledger: Ledger) -> Any:
    """A case in ADK's shape, as far as its meaning is evident."""
    if not isinstance(raw, dict):
        return raw
    case = ordered(raw, CASE, path, ledger)
    if isinstance(case.get("eval_id"), int | float):
        ledger.warn("adk-rejects-type", f"the id is a number; read as text. {_ADK}", path=case.under(path, "eval_id"))
        case["eval_id"] = str(case["eval_id"])
    if isinstance(case.get("conversation"), list):
        case["conversation"] = [
            mend_invocation(turn, (*case.under(path, "conversation"), i), ledger)
            for i, turn in enumerate(case["conversation"])
        ]
    if isinstance(case.get("conversation_scenario"), dict):
        where = case.under(path, "conversation_scenario")
        case["conversation_scenario"] = ordered(case["conversation_scenario"], SCENARIO, where, ledger)
    if isinstance(case.get("session_input"), dict):
        case["session_input"] = mend_session(case["session_input"], case.under(path, "session_input"), ledger)
    if isinstance(case.get("rubrics"), list):
        case["rubrics"] = mend_rubrics(case["rubrics"], case.under(path, "rubrics"), ledger)
    return case


def mend_invocation(raw: Any, path: Path, ledger: Ledger) -> Any:
    """A turn in ADK's shape: contents as plain text, tool calls beside the answer and other tools' names are read."""
    if not isinstance(raw, dict):
        return raw
    turn = ordered(raw, INVOCATION, path, ledger)
    for key, role in (("user_content", "user"), ("final_response", "model")):
        if turn.get(key) is not None:
            turn[key] = mend_content(turn[key], turn.under(path, key), ledger, role=role)
    steps = turn.get("intermediate_data")
    where = turn.under(path, "intermediate_data")
    if isinstance(steps, list):
        if where[-1] in ("intermediate_data", "intermediateData"):
            ledger.warn("adk-rejects-shape", f"a list of tool calls where ADK wants an object. {_ADK}", path=where)
        turn["intermediate_data"] = _steps_of_tools(steps, where, ledger)
    elif isinstance(steps, dict):
        turn["intermediate_data"] = mend_steps(steps, where, ledger)
    if isinstance(turn.get("rubrics"), list):
        turn["rubrics"] = mend_rubrics(turn["rubrics"], turn.under(path, "rubrics"), ledger)
    return turn


def mend_session(raw: dict[str, Any], path: Path, ledger: Ledger) -> dict[str, Any]:
    """A session; a missing app or user is left to the driver."""
    session = ordered(raw, SESSION, path, ledger)
    for key in ("app_name", "user_id"):
        if session.get(key) is None:
            ledger.warn("adk-rejects-missing", f"`{key}` is missing; read as unknown. {_ADK}", path=path)
            session[key] = ""
    if session.get("state", {}) is None:
        session["state"] = {}
    return session


def mend_rubrics(raw: list[Any], path: Path, ledger: Ledger) -> list[Any]:
    """Rubrics; a plain text is a rubric, and so is `{id, content: {text}}`."""
    made: list[Any] = []
    for i, rubric in enumerate(raw):
        where = (*path, i)
        if isinstance(rubric, str):
            ledger.warn("adk-rejects-shape", f"a rubric as plain text; read as its text. {_ADK}", path=where)
            made.append({"rubric_id": f"rubric_{i + 1}", "rubric_content": {"text_property": rubric}})
            continue
        if isinstance(rubric, dict):
            rubric = ordered(rubric, RUBRIC, where, ledger)  # noqa: PLW2901 - the same rubric, in order
            content = rubric.get("rubric_content")
            if isinstance(content, str):
                rubric["rubric_content"] = {"text_property": content}
            elif isinstance(content, dict) and isinstance(content.get("text"), str):
                rubric["rubric_content"] = {"text_property": content["text"]}
        made.append(rubric)
    return made


def mend_content(raw: Any, path: Path, ledger: Ledger, *, role: str) -> Any:
    """A content; plain text and `{role, content}` are read as what they say."""
    if isinstance(raw, str):
        ledger.warn("adk-rejects-shape", f"plain text where ADK wants a content; read as its text. {_ADK}", path=path)
        return {"role": role, "parts": [{"text": raw}]}
    if isinstance(raw, list):
        ledger.warn("adk-rejects-shape", f"a list where ADK wants a content; read as its parts. {_ADK}", path=path)
        raw = {"role": role, "parts": raw}
    if not isinstance(raw, dict):
        return raw
    content = ordered(raw, CONTENT, path, ledger)
    parts = content.get("parts")
    if isinstance(parts, str):
        if content.spelling["parts"] == "parts":
            ledger.warn("adk-rejects-shape", f"plain text where ADK wants a list of parts. {_ADK}", path=path)
        content["parts"] = [{"text": parts}]
    elif isinstance(parts, list):
        where = content.under(path, "parts")
        content["parts"] = [_mend_part(part, (*where, i), ledger) for i, part in enumerate(parts)]
    content.setdefault("role", role)
    return content


def mend_steps(raw: dict[str, Any], path: Path, ledger: Ledger) -> dict[str, Any]:
    """The steps of a turn."""
    steps = ordered(raw, STEPS, path, ledger)
    for key, mend in (("tool_uses", mend_call), ("tool_responses", _mend_response)):
        if isinstance(steps.get(key), list):
            steps[key] = [mend(item, (*steps.under(path, key), i), ledger) for i, item in enumerate(steps[key])]
    if steps.get("invocation_events") is not None and (steps.get("tool_uses") or steps.get("tool_responses")):
        message = f"the steps stand here twice; `invocation_events` is read, the lists by kind are not. {_ADK}"
        ledger.warn("adk-rejects-shape", message, path=path)
        return {"invocation_events": steps["invocation_events"]}
    return steps


def mend_call(raw: Any, path: Path, ledger: Ledger) -> Any:
    """A tool call: the bare name, `{tool_name, tool_input}` and `{function: {name, arguments}}` are read too."""
    if isinstance(raw, str):
        ledger.warn("adk-rejects-shape", f"a tool call as a bare name; read without arguments. {_ADK}", path=path)
        return {"name": raw}
    if not isinstance(raw, dict):
        return raw
    if isinstance(raw.get("function"), dict):
        ledger.warn("adk-rejects-shape", f"a call of the form {{function: {{name, arguments}}}}. {_ADK}", path=path)
        raw = {"id": raw.get("id"), "name": raw["function"].get("name"), "args": raw["function"].get("arguments")}
    call = ordered(raw, CALL, path, ledger)
    if isinstance(call.get("args"), str):
        call["args"] = _unpacked(call["args"])
    return call


class Fields(dict[str, Any]):
    """An object under ADK's keys in snake_case, which remembers how the file spells them."""

    def __init__(self) -> None:
        super().__init__()
        self.spelling: dict[str, str] = {}

    def under(self, path: Path, key: str) -> Path:
        """The path of `key` as the file spells it."""
        return (*path, self.spelling.get(key, key))


def ordered(raw: Mapping[str, Any], shape: Shape, path: Path, ledger: Ledger) -> Fields:
    """`raw` with ADK's keys in snake_case; what ADK would reject is renamed or dropped, and told."""
    made = Fields()
    present = {to_snake(key) for key in raw}
    for key, value in raw.items():
        name = to_snake(key)
        meant = shape.others.get(name)
        if name in shape.known:
            if key not in (name, to_camel(name)):
                ledger.warn("adk-rejects-spelling", f"`{key}` is read as `{name}`. {_ADK}", path=(*path, key))
            made[name] = value
            made.spelling[name] = key
        elif meant is not None and meant not in present and meant not in made:
            ledger.warn("adk-rejects-name", f"`{key}` is read as {_named(meant)}. {_ADK}", path=(*path, key))
            made[meant] = value
            made.spelling[meant] = key
        elif not shape.is_open:
            unknown_key(key, shape, path, ledger, absent=shape.known - present)
    return made


def _named(key: str) -> str:
    return "the expected tool calls" if key == "intermediate_data" else f"`{key}`"


def unknown_key(key: str, shape: Shape, path: Path, ledger: Ledger, *, absent: Iterable[str]) -> None:
    """Say that `key` is not ADK's: an error where it is probably one of the `absent` keys, else it is dropped."""
    near = words.nearest(to_snake(key), absent, cutoff=0.8)
    if near:
        ledger.error(
            "unknown-key", f"`{key}` is no key of {shape.name}", path=(*path, key), hint=f"did you mean `{near}`?"
        )
        return
    ledger.warn("adk-rejects-key", f"`{key}` is no key of {shape.name}; it is dropped. {_ADK}", path=(*path, key))


def _mend_part(raw: Any, path: Path, ledger: Ledger) -> Any:
    if isinstance(raw, str):
        ledger.warn("adk-rejects-shape", f"a part as plain text; read as its text. {_ADK}", path=path)
        return {"text": raw}
    if not isinstance(raw, dict):
        return raw
    part = ordered(raw, PART, path, ledger)
    if isinstance(part.get("function_call"), dict):
        part["function_call"] = mend_call(part["function_call"], (*path, "function_call"), ledger)
    if isinstance(part.get("function_response"), dict):
        part["function_response"] = _mend_response(part["function_response"], (*path, "function_response"), ledger)
    return part


def _mend_response(raw: Any, path: Path, ledger: Ledger) -> Any:
    if not isinstance(raw, dict):
        return raw
    response = ordered(raw, RESPONSE, path, ledger)
    if "response" in response:
        response["response"] = _as_object(response["response"])
    return response


def _steps_of_tools(raw: list[Any], path: Path, ledger: Ledger) -> dict[str, Any]:
    calls: list[Any] = []
    responses: list[Any] = []
    for i, tool in enumerate(raw):
        if isinstance(tool, dict) and "result" in tool:
            result = _as_object(tool["result"])
            responses.append(
                {"id": tool.get("id"), "name": tool.get("name") or tool.get("tool_name"), "response": result}
            )
            tool = {key: value for key, value in tool.items() if key != "result"}  # noqa: PLW2901 - without its result
        calls.append(mend_call(tool, (*path, i), ledger))
    return {"tool_uses": calls, "tool_responses": responses} if responses else {"tool_uses": calls}


def _as_object(value: Any) -> Any:
    if isinstance(value, str):
        value = _unpacked(value)
    return value if isinstance(value, dict) or value is None else {"result": value}


def _unpacked(text: str) -> Any:
    """The object that a text holds as JSON, or the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
