"""Files of conversation scenarios, from which `adk eval_set add_eval_case` makes cases."""

from __future__ import annotations

import json
from typing import Any

from evalgate.model.shapes import to_fields
from evalgate.values import digest_of

ENDING = "conversation_scenarios.json"
SESSION = "session_input.json"
"""The file beside the scenarios with the initial session of all cases."""


def eval_set_of(text: str, session_text: str, *, name: str) -> str:
    """The evaluation set as JSON: a case with ADK's id for each scenario.

    `session_text`: the content of SESSION, "" if it is missing. Raises ValueError, KeyError or
    TypeError if a file is not valid."""
    session = {"session_input": json.loads(session_text)} if session_text else {}
    cases = [
        {"eval_id": _id(scenario), "conversation_scenario": scenario, **session}
        for scenario in json.loads(text)["scenarios"]
    ]
    return json.dumps({"eval_set_id": name, "eval_cases": cases})


def _id(scenario: Any) -> str:
    """The id that ADK gives to a case, so that a case of both files is run once."""
    fields = {"user_persona": None, **to_fields(scenario)}
    return digest_of(json.dumps(fields, sort_keys=True), 8)
