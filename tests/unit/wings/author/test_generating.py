"""Reading scenarios that a model wrote, and asking for them."""

from __future__ import annotations

import json

import pytest

from evalgate.model import AgentDetails, ConversationScenario, Persona
from evalgate.wings.author import generate

GOOD = {"starting_prompt": "Hi.", "conversation_plan": "Ask.", "user_persona": "expert"}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (json.dumps({"scenarios": [GOOD, GOOD]}), 2),
        (json.dumps([GOOD]), 1),
        (f"Here you are:\n```json\n{json.dumps({'scenarios': [GOOD]})}\n```", 1),
        (json.dumps({"scenarios": [GOOD | {"starting_prompt": "  "}]}), 0),
        (json.dumps({"scenarios": [GOOD | {"conversation_plan": None}]}), 0),
        (json.dumps({"scenarios": [GOOD | {"starting_prompt": ["Hi."]}]}), 0),
        (json.dumps({"scenarios": [GOOD | {"conversation_plan": "x" * 10_000}]}), 0),
        ("I would rather not.", 0),
        ("", 0),
    ],
)
def test_what_is_read(text, count):
    found = generate.parse(text)
    assert len(found) == count
    for scenario in found:
        assert (scenario.starting_prompt, scenario.conversation_plan) == ("Hi.", "Ask.")
        assert scenario.persona == Persona(persona_id="EXPERT")


def test_an_unknown_persona_is_left_out():
    (scenario,) = generate.parse(json.dumps({"scenarios": [GOOD | {"user_persona": "WIZARD"}]}))
    assert scenario.persona is None


def test_what_is_asked():
    agents = [
        AgentDetails(
            name="desk", instructions="Book tables.", tool_declarations=({"name": "book"},)
        )
    ]
    have = [ConversationScenario(starting_prompt="Another one.", conversation_plan="p")]
    question = generate.render_question(
        agents=agents, introduction="I book.", instruction="Dinners.", count=3, existing=have
    )
    for part in (
        "Book tables.",
        '"book"',
        "I book.",
        "Dinners.",
        "Another one.",
        "3 new scenarios",
    ):
        assert part in question.prompt
        assert part not in question.system
