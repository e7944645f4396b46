"""What people evidently mean where ADK gives up: raw values in ADK's shape, each change told to the ledger."""

from __future__ import annotations

import json
from typing import Any

from evalgate.wire import known_keys
from evalgate.wire.known_keys import REJECTED
from evalgate.wire.ledger import Ledger, Path


def mend_case(raw: Any, path: Path, ledger: Ledger) -> Any:
    """A case in ADK's shape, as far as its meaning is evident."""
    if not isinstance(raw, dict):
        return raw
    case = known_keys.ordered(raw, known_keys.CASE, path, ledger)
    if isinstance(case.get("eval_id"), int | float):
        ledger.warn(
            "adk-rejects-type", f"the id is a number; read as text. {REJECTED}", path=case.under(path, "eval_id")
        )
        case["eval_id"] = str(case["eval_id"])
    if isinstance(case.get("conversation"), list):
        case["conversation"] = [
            mend_invocation(turn, (*case.under(path, "conversation"), i), ledger)
            for i, turn in enumerate(case["conversation"])
        ]
    if isinstance(case.get("conversation_scenario"), dict):
        where = case.under(path, "conversation_scenario")
        case["conversation_scenario"] = known_keys.ordered(
            case["conversation_scenario"], known_keys.SCENARIO, where, ledger
        )
    if isinstance(case.get("session_input"), dict):
        case["session_input"] = mend_session(case["session_input"], case.under(path, "session_input"), ledger)
    if isinstance(case.get("rubrics"), list):
        case["rubrics"] = mend_rubrics(case["rubrics"], case.under(path, "rubrics"), ledger)
    return case


def mend_invocation(raw: Any, path: Path, ledger: Ledger) -> Any:
    """A turn in ADK's shape: contents as plain text, tool calls beside the answer and other tools' names are read."""
    if not isinstance(raw, dict):
        return raw
    turn = known_keys.ordered(raw, known_keys.INVOCATION, path, ledger)
    for key, role in (("user_content", "user"), ("final_response", "model")):
        if turn.get(key) is not None:
            turn[key] = mend_content(turn[key], turn.under(path, key), ledger, role=role)
    steps = turn.get("intermediate_data")
    where = turn.under(path, "intermediate_data")
    if isinstance(steps, list):
        if where[-1] in ("intermediate_data", "intermediateData"):
            ledger.warn("adk-rejects-shape", f"a list of tool calls where ADK wants an object. {REJECTED}", path=where)
        turn["intermediate_data"] = _steps_of_tools(steps, where, ledger)
    elif isinstance(steps, dict):
        turn["intermediate_data"] = mend_steps(steps, where, ledger)
    if isinstance(turn.get("rubrics"), list):
        turn["rubrics"] = mend_rubrics(turn["rubrics"], turn.under(path, "rubrics"), ledger)
    return turn


def mend_session(raw: dict[str, Any], path: Path, ledger: Ledger) -> dict[str, Any]:
    """A session; a missing app or user is left to the driver."""
    session = known_keys.ordered(raw, known_keys.SESSION, path, ledger)
    for key in ("app_name", "user_id"):
        if session.get(key) is None:
            ledger.warn("adk-rejects-missing", f"`{key}` is missing; read as unknown. {REJECTED}", path=path)
            session[key] = ""
    if session.get("state", {}) is None:
        ledger.warn(
            "adk-rejects-missing", f"`state` is null; read as empty. {REJECTED}", path=session.under(path, "state")
        )
        session["state"] = {}
    return session


def mend_rubrics(raw: list[Any], path: Path, ledger: Ledger) -> list[Any]:
    """Rubrics; a plain text is a rubric, and so is `{id, content: {text}}`."""
    made: list[Any] = []
    for i, rubric in enumerate(raw):
        where = (*path, i)
        if isinstance(rubric, str):
            ledger.warn("adk-rejects-shape", f"a rubric as plain text; read as its text. {REJECTED}", path=where)
            made.append({"rubric_id": f"rubric_{i + 1}", "rubric_content": {"text_property": rubric}})
            continue
        if isinstance(rubric, dict):
            rubric = known_keys.ordered(rubric, known_keys.RUBRIC, where, ledger)  # noqa: PLW2901 - the same rubric, in order
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
        ledger.warn(
            "adk-rejects-shape", f"plain text where ADK wants a content; read as its text. {REJECTED}", path=path
        )
        return {"role": role, "parts": [{"text": raw}]}
    if isinstance(raw, list):
        ledger.warn("adk-rejects-shape", f"a list where ADK wants a content; read as its parts. {REJECTED}", path=path)
        raw = {"role": role, "parts": raw}
    if not isinstance(raw, dict):
        return raw
    content = known_keys.ordered(raw, known_keys.CONTENT, path, ledger)
    parts = content.get("parts")
    if isinstance(parts, str):
        if content.spelling["parts"] == "parts":
            ledger.warn("adk-rejects-shape", f"plain text where ADK wants a list of parts. {REJECTED}", path=path)
        content["parts"] = [{"text": parts}]
    elif isinstance(parts, list):
        where = content.under(path, "parts")
        content["parts"] = [_mend_part(part, (*where, i), ledger) for i, part in enumerate(parts)]
    content.setdefault("role", role)
    return content


def mend_steps(raw: dict[str, Any], path: Path, ledger: Ledger) -> dict[str, Any]:
    """The steps of a turn."""
    steps = known_keys.ordered(raw, known_keys.STEPS, path, ledger)
    for key in [key for key, value in steps.items() if value is None]:
        ledger.warn("adk-rejects-missing", f"`{key}` is null; read as absent. {REJECTED}", path=steps.under(path, key))
        del steps[key]
    if isinstance(steps.get("tool_responses"), list):
        where = steps.under(path, "tool_responses")
        steps["tool_responses"] = [
            _mend_response(item, (*where, i), ledger) for i, item in enumerate(steps["tool_responses"])
        ]
    if isinstance(steps.get("tool_uses"), list):
        _mend_uses(steps, steps.under(path, "tool_uses"), ledger)
    if steps.get("invocation_events") is not None and (steps.get("tool_uses") or steps.get("tool_responses")):
        message = f"the steps are given twice; `invocation_events` is used, the lists by kind are ignored. {REJECTED}"
        ledger.warn("adk-rejects-shape", message, path=path)
        return {"invocation_events": steps["invocation_events"]}
    return steps


def _mend_uses(steps: dict[str, Any], path: Path, ledger: Ledger) -> None:
    """The calls; under a name that is not ADK's, a call may stand beside its result."""
    if path[-1] in ("tool_uses", "toolUses"):
        steps["tool_uses"] = [mend_call(item, (*path, i), ledger) for i, item in enumerate(steps["tool_uses"])]
        return
    made = _steps_of_tools(steps["tool_uses"], path, ledger)
    steps["tool_uses"] = made["tool_uses"]
    if "tool_responses" in made:
        steps.setdefault("tool_responses", made["tool_responses"])


def mend_call(raw: Any, path: Path, ledger: Ledger) -> Any:
    """A tool call: the bare name, `{tool_name, tool_input}` and `{function: {name, arguments}}` are read too."""
    if isinstance(raw, str):
        ledger.warn("adk-rejects-shape", f"a tool call as a bare name; read without arguments. {REJECTED}", path=path)
        return {"name": raw}
    if not isinstance(raw, dict):
        return raw
    if isinstance(raw.get("function"), dict):
        ledger.warn("adk-rejects-shape", f"a call of the form {{function: {{name, arguments}}}}. {REJECTED}", path=path)
        raw = {"id": raw.get("id"), "name": raw["function"].get("name"), "args": raw["function"].get("arguments")}
    call = known_keys.ordered(raw, known_keys.CALL, path, ledger)
    if isinstance(call.get("args"), str):
        call["args"] = unpacked(call["args"])
    return call


def _mend_part(raw: Any, path: Path, ledger: Ledger) -> Any:
    if isinstance(raw, str):
        ledger.warn("adk-rejects-shape", f"a part as plain text; read as its text. {REJECTED}", path=path)
        return {"text": raw}
    if not isinstance(raw, dict):
        return raw
    part = known_keys.ordered(raw, known_keys.PART, path, ledger)
    if isinstance(part.get("function_call"), dict):
        part["function_call"] = mend_call(part["function_call"], (*path, "function_call"), ledger)
    if isinstance(part.get("function_response"), dict):
        part["function_response"] = _mend_response(part["function_response"], (*path, "function_response"), ledger)
    return part


def _mend_response(raw: Any, path: Path, ledger: Ledger) -> Any:
    if not isinstance(raw, dict):
        return raw
    response = known_keys.ordered(raw, known_keys.RESPONSE, path, ledger)
    value = response.get("response")
    if value is not None and not isinstance(value, dict):
        where = response.under(path, "response")
        ledger.warn("adk-rejects-shape", f"a response that is not an object; read as `result`. {REJECTED}", path=where)
        response["response"] = _as_object(value)
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
        value = unpacked(value)
    return value if isinstance(value, dict) or value is None else {"result": value}


def unpacked(text: str) -> Any:
    """The object that a text holds as JSON, or the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
