"""Asking for new conversation scenarios that test an agent, and reading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from evalgate.judges import prompting
from evalgate.judges.prompting import Piece, Question
from evalgate.model import AgentDetails, ConversationScenario, Json, Persona
from evalgate.prompts import personas

VERSION: Final = "1"
_LONGEST: Final = 4_000  # characters of a prompt or plan

_RULES = """\
You design tests for an AI agent. Each test is a conversation scenario: a simulated user follows it and talks to the
agent. You write scenarios that a thoughtful tester would write after reading what the agent is told and given.

- starting_prompt: the user's first message, as a person would write it. It does not tell everything at once.
- conversation_plan: for whoever plays the user. What the user wants, in order; every fact that the user knows and may
  be asked for (names, dates, numbers), written out; what the user does when things go another way; when it is content.
  Nobody may have to make anything up. The agent never sees the plan.
- user_persona: EXPERT knows the field and wants it quick, NOVICE needs guidance and never corrects, EVALUATOR tries the
  agent out.
- A scenario fits what this agent can do. Between them, the scenarios use different tools and rules of its instructions,
  ordinary wishes first, then what is likely to go wrong: missing details, a change of mind, a wish that the agent must
  decline by its own rules, two wishes that depend on each other.
- No two scenarios test the same, and none tests what one of scenarios_that_there_are does.
- The piece wishes, where it holds something, says what the developer wants tested: of all pieces, this one is followed,
  as far as it speaks of the scenarios."""

_REPLY = """\
Reply with one JSON object and nothing else:
{"scenarios": [{"starting_prompt": "...", "conversation_plan": "...", "user_persona": "NOVICE"}]}"""

_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        "scenarios": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "starting_prompt": {"type": "string"},
                    "conversation_plan": {"type": "string"},
                    "user_persona": {"type": "string", "enum": list(personas.BUILT_IN)},
                },
                "required": ["starting_prompt", "conversation_plan", "user_persona"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["scenarios"],
    "additionalProperties": False,
}


def render(
    *,
    agents: Sequence[AgentDetails],
    introduction: str,
    instruction: str,
    count: int,
    have: Sequence[ConversationScenario] = (),
) -> Question:
    """The question for `count` scenarios beside those that there are. `introduction`: what the agent says of itself;
    `instruction`: what the developer wishes for, empty: nothing in particular."""
    told = [
        {
            "name": agent.name,
            "instructions": agent.instructions,
            "tools": prompting.declared_tools(agent),
        }
        for agent in agents
    ]
    return prompting.compose(
        rules=_RULES,
        reply=_REPLY,
        pieces=(
            Piece(name="agents", text=prompting.as_json(told) if told else ""),
            Piece(name="what_the_agent_says_of_itself", text=introduction),
            Piece(name="wishes", text=instruction),
            Piece(name="scenarios_that_there_are", text="\n".join(each.starting_prompt for each in have)),
        ),
        task=f"Write {count} new scenario{'s' if count != 1 else ''} for this agent.",
        version=VERSION,
        schema=_SCHEMA,
    )


def parse(text: str) -> list[ConversationScenario]:
    """The scenarios in a reply; what lacks a prompt or a plan, or is far too long, is passed over."""
    found = []
    for entry in prompting.json_entries(text, key="starting_prompt"):
        prompt, plan = (_text(entry.get(key)) for key in ("starting_prompt", "conversation_plan"))
        if prompt and plan:
            named = str(entry.get("user_persona") or "").strip().upper()
            persona = Persona(persona_id=named) if named in personas.BUILT_IN else None
            found.append(ConversationScenario(starting_prompt=prompt, conversation_plan=plan, persona=persona))
    return found


def _text(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    return text if len(text) <= _LONGEST else ""
