"""One case of an evaluation file: as ADK reads it, else as it is evidently meant, else told what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from evalgate.errors import Place
from evalgate.formats.adk_shapes import (
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
from evalgate.formats.json_source import Path, Problems
from evalgate.model import Case, Content
from evalgate.model.shapes import to_snake
from evalgate.text import words

# -- The keys of every object in an evaluation file, the other names that people give them, and the rest --

REJECTED = "ADK itself rejects this"

_EXPECTED = frozenset({"expected", "expect", "expects", "expectation", "expectations", "golden", "gold", "ideal"})
_ANSWER = frozenset({"answer", "answers", "response", "reply", "reference", "output", "completion"})
_TOOLS = frozenset({"tool", "tools", "call", "calls", "function", "functions", "trajectory"})

Lost = Callable[[str, Any, Collection[str]], str]
"""The key that an unknown one (in snake_case, with its value, beside the keys that were read) probably stands for,
where dropping it would drop what is expected; "" where nothing is lost."""


def _nothing(name: str, value: Any, beside: Collection[str]) -> str:  # noqa: ARG001 - the shape of a rule
    return ""


def _holds_calls(name: str, value: Any) -> bool:
    """Whether a value is a list of tool calls; of bare names only by what it is called."""
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(item, str) for item in value):
        return not _TOOLS.isdisjoint(name.split("_"))
    return any(isinstance(item, dict) and item.keys() & {"name", "tool_name", "toolName", "function"} for item in value)


def _lost_steps(name: str, value: Any, beside: Collection[str]) -> str:  # noqa: ARG001 - the shape of a rule
    return "tool_uses" if _holds_calls(name, value) else ""


def lost_key(name: str, value: Any, beside: Collection[str]) -> str:
    """Calls where the turn has none, an answer where it has none, and whatever else is called expected."""
    said = name.split("_")
    is_expected = value is not None and not _EXPECTED.isdisjoint(said)
    is_answer = said[-1] in _ANSWER and _TOOLS.isdisjoint(said) and isinstance(value, str | list | dict) and bool(value)
    if "intermediate_data" not in beside and _holds_calls(name, value):
        return "intermediate_data"
    if "final_response" not in beside and (is_answer or is_expected):
        return "final_response"
    return "intermediate_data" if is_expected and "intermediate_data" not in beside else ""


def _lost_arguments(name: str, value: Any, beside: Collection[str]) -> str:  # noqa: ARG001 - the shape of a rule
    return "args" if isinstance(value, dict) and value and "args" not in beside else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The keys of one kind of object: ADK's own, other names for them, and whether ADK lets unknown ones pass."""

    name: str
    known: frozenset[str]
    others: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False
    lost: Lost = _nothing


def _shape(name: str, known: Iterable[str], /, *, is_open: bool = False, lost: Lost = _nothing, **others: str) -> Shape:
    """`others`: ADK's key = other names for it, separated by blanks."""
    table = {alias: key for key, aliases in others.items() for alias in aliases.split()}
    return Shape(name=name, known=frozenset(known), others=table, is_open=is_open, lost=lost)


_CALLS = "expected_tool_use expected_tool_calls expected_tools tools tool_calls"

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
    lost=lost_key,
    user_content="user query prompt user_message user_input input",
    final_response="reference expected_response reference_final_response expected_final_response expected_answer"
    " final_answer expected_final",
    intermediate_data=f"tool_uses {_CALLS}",
)
SESSION = _shape("a session", SessionInputWire.model_fields, is_open=True)
SCENARIO = _shape("a scenario", ScenarioWire.model_fields, user_persona="persona")
RUBRIC = _shape("a rubric", RubricWire.model_fields, rubric_id="id name", rubric_content="content text text_property")
STEPS = _shape(
    "intermediate_data",
    IntermediateDataWire.model_fields,
    lost=_lost_steps,
    tool_uses=_CALLS,
    invocation_events="events",
)
CONTENT = _shape("a content", ContentWire.model_fields, parts="content text")
PART = _shape("a part", PartWire.model_fields, text="content")
CALL = _shape(
    "a tool call",
    ToolCallWire.model_fields,
    lost=_lost_arguments,
    name="tool_name",
    args="arguments tool_input tool_args input parameters",
    id="tool_id",
)
RESPONSE = _shape(
    "a tool response",
    ToolResponseWire.model_fields,
    name="tool_name",
    response="content result output",
    id="tool_id",
)


class Fields(dict[str, Any]):
    """An object under ADK's keys in snake_case, which remembers how the file spells them."""

    def __init__(self) -> None:
        super().__init__()
        self.spelling: dict[str, str] = {}

    def under(self, path: Path, key: str) -> Path:
        """The path of `key` as the file spells it."""
        return (*path, self.spelling.get(key, key))


def ordered(raw: Mapping[str, Any], shape: Shape, path: Path, problems: Problems) -> Fields:
    """`raw` with ADK's keys in snake_case; what ADK would reject is renamed or dropped, and told."""
    made = Fields()
    unknown = []
    present = {to_snake(key) for key in raw}
    for key, value in raw.items():
        name = to_snake(key)
        meant = shape.others.get(name)
        if name in shape.known:
            if key not in (name, to_camel(name)):
                problems.warning("adk-rejects-spelling", f"`{key}` is read as `{name}`. {REJECTED}", path=(*path, key))
            made[name] = value
            made.spelling[name] = key
        elif meant is not None and meant not in present and meant not in made:
            problems.warning("adk-rejects-name", f"`{key}` is read as {_named(meant)}. {REJECTED}", path=(*path, key))
            made[meant] = value
            made.spelling[meant] = key
        elif not shape.is_open:
            unknown.append(key)
    for key in unknown:
        name = to_snake(key)
        near = words.nearest(name, shape.known - present, cutoff=0.8)
        meant = near or ("" if key.startswith("_") else shape.lost(name, raw[key], made.keys()))
        _tell_unknown(key, shape, path, problems, meant=meant)
    return made


def _named(key: str) -> str:
    return "the expected tool calls" if key == "intermediate_data" else f"`{key}`"


def _tell_unknown(key: str, shape: Shape, path: Path, problems: Problems, *, meant: str) -> None:
    """Say that `key` is not ADK's: an error where dropping it would drop what is `meant`, else it is dropped."""
    where = (*path, key)
    if meant:
        problems.error(
            "unknown-key", f"unknown key `{key}` in {shape.name}", path=where, hint=f"did you mean `{meant}`?"
        )
        return
    problems.warning("adk-rejects-key", f"unknown key `{key}` in {shape.name} (ignored). {REJECTED}", path=where)


# -- What people evidently mean where ADK gives up --


def repair_case(raw: Any, path: Path, problems: Problems) -> Any:
    """A case in ADK's shape, as far as its meaning is evident."""
    if not isinstance(raw, dict):
        return raw
    case = ordered(raw, CASE, path, problems)
    if isinstance(case.get("eval_id"), int | float):
        problems.warning(
            "adk-rejects-type", f"the id is a number; read as text. {REJECTED}", path=case.under(path, "eval_id")
        )
        case["eval_id"] = str(case["eval_id"])
    if isinstance(case.get("conversation"), list):
        case["conversation"] = [
            repair_invocation(turn, (*case.under(path, "conversation"), i), problems)
            for i, turn in enumerate(case["conversation"])
        ]
    if isinstance(case.get("conversation_scenario"), dict):
        where = case.under(path, "conversation_scenario")
        case["conversation_scenario"] = ordered(case["conversation_scenario"], SCENARIO, where, problems)
    if isinstance(case.get("session_input"), dict):
        case["session_input"] = repair_session(case["session_input"], case.under(path, "session_input"), problems)
    if isinstance(case.get("rubrics"), list):
        case["rubrics"] = repair_rubrics(case["rubrics"], case.under(path, "rubrics"), problems)
    return case


def repair_invocation(raw: Any, path: Path, problems: Problems) -> Any:
    """A turn in ADK's shape: contents as plain text, tool calls beside the answer and other tools' names are read."""
    if not isinstance(raw, dict):
        return raw
    turn = ordered(raw, INVOCATION, path, problems)
    for key, role in (("user_content", "user"), ("final_response", "model")):
        if turn.get(key) is not None:
            turn[key] = repair_content(turn[key], turn.under(path, key), problems, role=role)
    steps = turn.get("intermediate_data")
    where = turn.under(path, "intermediate_data")
    if isinstance(steps, list):
        if where[-1] in ("intermediate_data", "intermediateData"):
            problems.warning(
                "adk-rejects-shape", f"a list of tool calls where ADK wants an object. {REJECTED}", path=where
            )
        turn["intermediate_data"] = _steps_of_tools(steps, where, problems)
    elif isinstance(steps, dict):
        turn["intermediate_data"] = repair_steps(steps, where, problems)
    if isinstance(turn.get("rubrics"), list):
        turn["rubrics"] = repair_rubrics(turn["rubrics"], turn.under(path, "rubrics"), problems)
    return turn


def repair_session(raw: dict[str, Any], path: Path, problems: Problems) -> dict[str, Any]:
    """A session; a missing app or user is left to the driver."""
    session = ordered(raw, SESSION, path, problems)
    for key in ("app_name", "user_id"):
        if session.get(key) is None:
            problems.warning("adk-rejects-missing", f"`{key}` is missing; read as unknown. {REJECTED}", path=path)
            session[key] = ""
    if session.get("state", {}) is None:
        problems.warning(
            "adk-rejects-missing", f"`state` is null; read as empty. {REJECTED}", path=session.under(path, "state")
        )
        session["state"] = {}
    return session


def repair_rubrics(raw: list[Any], path: Path, problems: Problems) -> list[Any]:
    """Rubrics; a plain text is a rubric, and so is `{id, content: {text}}`."""
    made: list[Any] = []
    for i, rubric in enumerate(raw):
        where = (*path, i)
        if isinstance(rubric, str):
            problems.warning("adk-rejects-shape", f"a rubric as plain text; read as its text. {REJECTED}", path=where)
            made.append({"rubric_id": f"rubric_{i + 1}", "rubric_content": {"text_property": rubric}})
            continue
        if isinstance(rubric, dict):
            rubric = ordered(rubric, RUBRIC, where, problems)  # noqa: PLW2901 - the same rubric, in order
            content = rubric.get("rubric_content")
            if isinstance(content, str):
                rubric["rubric_content"] = {"text_property": content}
            elif isinstance(content, dict) and isinstance(content.get("text"), str):
                rubric["rubric_content"] = {"text_property": content["text"]}
        made.append(rubric)
    return made


def repair_content(raw: Any, path: Path, problems: Problems, *, role: str) -> Any:
    """A content; plain text and `{role, content}` are read as what they say."""
    if isinstance(raw, str):
        problems.warning(
            "adk-rejects-shape", f"plain text where ADK wants a content; read as its text. {REJECTED}", path=path
        )
        return {"role": role, "parts": [{"text": raw}]}
    if isinstance(raw, list):
        problems.warning(
            "adk-rejects-shape", f"a list where ADK wants a content; read as its parts. {REJECTED}", path=path
        )
        raw = {"role": role, "parts": raw}
    if not isinstance(raw, dict):
        return raw
    content = ordered(raw, CONTENT, path, problems)
    parts = content.get("parts")
    if isinstance(parts, str):
        if content.spelling["parts"] == "parts":
            problems.warning("adk-rejects-shape", f"plain text where ADK wants a list of parts. {REJECTED}", path=path)
        content["parts"] = [{"text": parts}]
    elif isinstance(parts, list):
        where = content.under(path, "parts")
        content["parts"] = [_repair_part(part, (*where, i), problems) for i, part in enumerate(parts)]
    content.setdefault("role", role)
    return content


def repair_steps(raw: dict[str, Any], path: Path, problems: Problems) -> dict[str, Any]:
    """The steps of a turn."""
    steps = ordered(raw, STEPS, path, problems)
    for key in [key for key, value in steps.items() if value is None]:
        problems.warning(
            "adk-rejects-missing", f"`{key}` is null; read as absent. {REJECTED}", path=steps.under(path, key)
        )
        del steps[key]
    if isinstance(steps.get("tool_responses"), list):
        where = steps.under(path, "tool_responses")
        steps["tool_responses"] = [
            _repair_response(item, (*where, i), problems) for i, item in enumerate(steps["tool_responses"])
        ]
    if isinstance(steps.get("tool_uses"), list):
        _repair_uses(steps, steps.under(path, "tool_uses"), problems)
    if steps.get("invocation_events") is not None and (steps.get("tool_uses") or steps.get("tool_responses")):
        message = f"the steps are given twice; `invocation_events` is used, the lists by kind are ignored. {REJECTED}"
        problems.warning("adk-rejects-shape", message, path=path)
        return {"invocation_events": steps["invocation_events"]}
    return steps


def _repair_uses(steps: dict[str, Any], path: Path, problems: Problems) -> None:
    """The calls; under a name that is not ADK's, a call may stand beside its result."""
    if path[-1] in ("tool_uses", "toolUses"):
        steps["tool_uses"] = [repair_call(item, (*path, i), problems) for i, item in enumerate(steps["tool_uses"])]
        return
    made = _steps_of_tools(steps["tool_uses"], path, problems)
    steps["tool_uses"] = made["tool_uses"]
    if "tool_responses" in made:
        steps.setdefault("tool_responses", made["tool_responses"])


def repair_call(raw: Any, path: Path, problems: Problems) -> Any:
    """A tool call: the bare name, `{tool_name, tool_input}` and `{function: {name, arguments}}` are read too."""
    if isinstance(raw, str):
        problems.warning(
            "adk-rejects-shape", f"a tool call as a bare name; read without arguments. {REJECTED}", path=path
        )
        return {"name": raw}
    if not isinstance(raw, dict):
        return raw
    if isinstance(raw.get("function"), dict):
        problems.warning(
            "adk-rejects-shape", f"a call of the form {{function: {{name, arguments}}}}. {REJECTED}", path=path
        )
        raw = {"id": raw.get("id"), "name": raw["function"].get("name"), "args": raw["function"].get("arguments")}
    call = ordered(raw, CALL, path, problems)
    if isinstance(call.get("args"), str):
        call["args"] = object_in(call["args"])
    return call


def _repair_part(raw: Any, path: Path, problems: Problems) -> Any:
    if isinstance(raw, str):
        problems.warning("adk-rejects-shape", f"a part as plain text; read as its text. {REJECTED}", path=path)
        return {"text": raw}
    if not isinstance(raw, dict):
        return raw
    part = ordered(raw, PART, path, problems)
    if isinstance(part.get("function_call"), dict):
        part["function_call"] = repair_call(part["function_call"], (*path, "function_call"), problems)
    if isinstance(part.get("function_response"), dict):
        part["function_response"] = _repair_response(part["function_response"], (*path, "function_response"), problems)
    return part


def _repair_response(raw: Any, path: Path, problems: Problems) -> Any:
    if not isinstance(raw, dict):
        return raw
    response = ordered(raw, RESPONSE, path, problems)
    value = response.get("response")
    if value is not None and not isinstance(value, dict):
        where = response.under(path, "response")
        problems.warning(
            "adk-rejects-shape", f"a response that is not an object; read as `result`. {REJECTED}", path=where
        )
        response["response"] = _as_object(value)
    return response


def _steps_of_tools(raw: list[Any], path: Path, problems: Problems) -> dict[str, Any]:
    calls: list[Any] = []
    responses: list[Any] = []
    for i, tool in enumerate(raw):
        if isinstance(tool, dict) and "result" in tool:
            result = _as_object(tool["result"])
            responses.append(
                {"id": tool.get("id"), "name": tool.get("name") or tool.get("tool_name"), "response": result}
            )
            tool = {key: value for key, value in tool.items() if key != "result"}  # noqa: PLW2901 - without its result
        calls.append(repair_call(tool, (*path, i), problems))
    return {"tool_uses": calls, "tool_responses": responses} if responses else {"tool_uses": calls}


def _as_object(value: Any) -> Any:
    if isinstance(value, str):
        value = object_in(value)
    return value if isinstance(value, dict) or value is None else {"result": value}


def object_in(text: str) -> Any:
    """The object that a text holds as JSON, or the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


STREAMED = frozenset({"eval_cases"})
_KNOWN = frozenset(EvalCaseWire.model_fields) | {to_camel(name) for name in EvalCaseWire.model_fields}


def read_case(raw: Any, *, path: Path, place: Place, problems: Problems) -> Case | None:
    """The case at `path`; None where it cannot be understood, which is then a problem."""
    try:
        case = EvalCaseWire.model_validate(raw, context=STRICT)
    except ValidationError:
        return _read_repaired(raw, path=path, place=place, problems=problems)
    unused = raw.keys() - _KNOWN
    if unused:
        _tell_unused(unused, raw, path, problems)
    return case.noun(place=place)


def read_content(raw: Any, *, role: str, path: Path, problems: Problems) -> Content | None:
    """A content in any spelling; None where it cannot be understood, which is then a problem."""
    repaired = repair_content(raw, path, problems, role=role)
    try:
        return ContentWire.model_validate(repaired).noun()
    except ValidationError as error:
        problems.validation(error, repaired, path=path)
        return None


def read_event(raw: Any, *, path: Path, problems: Problems) -> SessionEventWire | None:
    """One stored event; None where it cannot be understood, which is then a problem."""
    try:
        return SessionEventWire.model_validate(raw)
    except ValidationError:
        repaired = raw
    if isinstance(raw, dict) and raw.get("content") is not None:
        role = "user" if raw.get("author") == "user" else "model"
        repaired = raw | {"content": repair_content(raw["content"], (*path, "content"), problems, role=role)}
    try:
        return SessionEventWire.model_validate(repaired)
    except ValidationError as error:
        problems.validation(error, repaired, path=path)
        return None


def _read_repaired(raw: Any, *, path: Path, place: Place, problems: Problems) -> Case | None:
    repaired = repair_case(raw, path, problems)
    if isinstance(repaired, dict) and repaired.get("eval_id") is None:
        made = f"case_{path[-1] if path else 0}"
        problems.warning(
            "missing-eval-id", f"the case has no `eval_id`; using {made}. ADK itself rejects this", path=path
        )
        repaired["eval_id"] = made
    try:
        return EvalCaseWire.model_validate(repaired).noun(place=place)
    except ValidationError as error:
        problems.validation(error, repaired, path=path)
        return None


def _tell_unused(unused: set[str], raw: dict[str, Any], path: Path, problems: Problems) -> None:
    absent = EvalCaseWire.model_fields.keys() - {to_snake(key) for key in raw}
    for key in sorted(unused):
        near = words.nearest(to_snake(key), absent, cutoff=0.8)
        if near:
            hint = f"did you mean `{near}`?"
            problems.warning("unused-key", f"unknown key `{key}` in a case (ignored)", path=(*path, key), hint=hint)
        elif not key.startswith("_"):
            problems.note("unused-key", f"unknown key `{key}` in a case (ignored)", path=(*path, key))
