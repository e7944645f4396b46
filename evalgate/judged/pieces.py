"""What a judge of rubrics is shown of a turn or of a conversation."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate.model import AgentDetails, Invocation
from evalgate.prompts import shown
from evalgate.prompts.fence import Piece


def of_answer(invocation: Invocation, *, intermediate: bool, with_thoughts: bool = False) -> tuple[Piece, ...]:
    """The answer, and everything that is evidence for it."""
    agent = answering(invocation)
    return (
        Piece(name="developer_instructions", text=agent.instructions if agent else ""),
        Piece(name="available_tools", text=shown.tools([invocation])),
        Piece(name="user_request", text=shown.text_of(invocation.user_content)),
        Piece(name="agent_steps", text=shown.steps(invocation)),
        Piece(name="grounding_metadata", text=shown.grounding(invocation.events or ())),
        Piece(
            name="final_answer", text=shown.answer(invocation, intermediate=intermediate, with_thoughts=with_thoughts)
        ),
    )


def of_tool_use(invocation: Invocation) -> tuple[Piece, ...]:
    """The tools that there were, and how they were used."""
    return (
        Piece(name="available_tools", text=shown.tools([invocation])),
        Piece(name="user_request", text=shown.text_of(invocation.user_content)),
        Piece(name="agent_steps", text=shown.steps(invocation)),
    )


def of_conversation(invocations: Sequence[Invocation], *, with_thoughts: bool = False) -> tuple[Piece, ...]:
    """Everything said and done, and what the agents were told and given."""
    told = {agent.name: agent.instructions for each in invocations for agent in each.agents if agent.instructions}
    return (
        Piece(name="developer_instructions", text=shown.as_json(told) if told else ""),
        Piece(name="available_tools", text=shown.tools(invocations)),
        Piece(name="conversation", text=shown.dialogue(invocations, with_thoughts=with_thoughts)),
    )


def answering(invocation: Invocation) -> AgentDetails | None:
    """The agent that took the first step of the turn, else the first one that is known; None where none is."""
    author = next((event.author for event in invocation.events or ()), "")
    named = next((agent for agent in invocation.agents if agent.name == author), None)
    return named or next(iter(invocation.agents), None)
