"""Cases as JSON-ready values in ADK's shape of an EvalCase, without nulls and defaults."""

from __future__ import annotations

from typing import Any

from evalgate.model import Case, ConversationScenario, Persona, SessionInput
from evalgate.wire import writing


def case_json(case: Case) -> dict[str, Any]:
    """What `wire.cases.EvalCaseWire` reads; nothing that a criterion or an agent may see is left out."""
    written: dict[str, Any] = {"eval_id": case.case_id}
    if case.conversation is not None:
        written["conversation"] = [writing.invocation_json(turn) for turn in case.conversation]
    if case.scenario is not None:
        written["conversation_scenario"] = scenario_json(case.scenario)
    if case.session is not None:
        written["session_input"] = _session_json(case.session)
    if case.rubrics:
        written["rubrics"] = [writing.rubric_json(rubric) for rubric in case.rubrics]
    if case.expects_state:
        written["final_session_state"] = dict(case.expects_state)
    return written


def scenario_json(scenario: ConversationScenario) -> dict[str, Any]:
    """ADK's ConversationScenario; a built-in persona by its id."""
    written: dict[str, Any] = {
        "starting_prompt": scenario.starting_prompt,
        "conversation_plan": scenario.conversation_plan,
    }
    if scenario.persona is not None:
        written["user_persona"] = _persona_json(scenario.persona)
    return written


def _persona_json(persona: Persona) -> Any:
    if not persona.description and not persona.behaviors:
        return persona.persona_id
    behaviors = [
        {
            "name": behavior.name,
            "description": behavior.description,
            "behavior_instructions": list(behavior.instructions),
            "violation_rubrics": list(behavior.violation_rubrics),
        }
        for behavior in persona.behaviors
    ]
    return {"id": persona.persona_id, "description": persona.description, "behaviors": behaviors}


def _session_json(session: SessionInput) -> dict[str, Any]:
    written: dict[str, Any] = {"app_name": session.app_name, "user_id": session.user_id}
    if session.session_id is not None:
        written["session_id"] = session.session_id
    if session.state:
        written["state"] = dict(session.state)
    return written
