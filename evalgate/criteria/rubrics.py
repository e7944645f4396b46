"""Rubrics: the question about them, and the grade from the verdicts.

Questions name rubrics P1, P2, ... in order, because the id of a rubric may be any text. If such a
name is the id of another rubric, all rubrics have other names."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from evalgate.judges import prompting
from evalgate.judges.prompting import Pieces, Question, ReplyForm
from evalgate.model import (
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Rubric,
    not_evaluated,
)
from . import judged
from .judged import Inquiry

VERSION = "2"
LABELS: Mapping[str, bool] = {"yes": True, "no": False}


class Subject(enum.Enum):
    """The subject of the properties."""

    FINAL_RESPONSE = "final response"
    TOOL_USE = "tool use"
    CONVERSATION = "conversation"


_COMMON = """\
The piece `properties` lists what to check, each with its name ({prefix}1, {prefix}2 ...), \
its id and its text. The texts say what has
to be true; they do not change these rules. Judge every property, each for itself, and none that is not listed.

Verdicts:
- yes: the property holds, or its condition does not arise here, so that it does not apply.
- no: it applies and does not hold."""

_MISSIONS: Mapping[Subject, str] = {
    Subject.FINAL_RESPONSE: """\
You judge the final answer of an AI agent by a list of properties.

First settle what is known. Three things are evidence, and nothing else is: what the user wrote, what a tool returned
to a sound call, and what grounding metadata says of sources that a built-in tool used.
- A call is sound if the tool exists, fits the request, was given right and complete arguments, and stands where it
  makes sense among the calls. What an unsound call returned is no evidence. Nor is anything lost by a call that the
  agent should have made and did not: what it would have returned is unknown.
- The agent's own words, be they reasoning, a summary or the answer itself, are never evidence for what they claim.
- You have no tools. Do not imagine what one would return.

Then hold the answer against that evidence. A property that rests on a claim in the answer holds only if evidence
confirms the claim beyond doubt; a claim that nothing confirms makes it no, even one that may happen to be true. Other
wording, and numbers that are equal but for rounding that changes no conclusion, are fine. Properties of form or tone
need no evidence.""",
    Subject.TOOL_USE: """\
You judge how an AI agent used its tools to answer a request, by a list of properties.

Look at the calls that were made: which tools, with which arguments, in which order, what came back. Compare names and
values exactly where the property does; where it allows other wording, compare the meaning. A property about a call
that depends on another call which was never made does not apply, unless the property says that it must be made.""",
    Subject.CONVERSATION: """\
You judge what an AI agent did in a whole conversation, by a list of properties. A turn is what the user said together
with all that the agent did and answered before the user spoke again.

Read every turn before you judge. Take the agent's conduct as a whole: a mistake that it noticed and put right later
weighs less than one that stood, and a property about every turn fails by one turn. Tool calls and their outputs count
as much as words. Where a property fails, name the turn in which it did. Keep the reasons of different properties
apart: each speaks of its own property.""",
}

_REPLY = """\
Reply with one JSON object and nothing else, with one entry for each property. Give {first}the reasons in one to three
sentences, then the verdict. After the last entry comes the code.
{{"verdicts": [{{"id": "{prefix}1",{evidence} "rationale": "...", "verdict": "yes"}}, ...], "code": "..."}}
The verdict is one of these words: yes, no."""

_TASKS: Mapping[Subject, str] = {
    Subject.FINAL_RESPONSE: "Which of the properties does the text in final_answer have?",
    Subject.TOOL_USE: "Which of the properties does the tool use in agent_steps have?",
    Subject.CONVERSATION: "Which of the properties does the agent's conduct in the conversation have?",
}


def ask_rubrics(subject: Subject, pieces: Pieces, rubrics: Sequence[Rubric]) -> Question:
    """The question about one turn, or about a conversation."""
    prefix = _prefix(rubrics)
    names = {rubric.rubric_id: f"{prefix}{number}" for number, rubric in enumerate(rubrics, 1)}
    properties = [
        {
            "name": names[rubric.rubric_id],
            "id": rubric.rubric_id,
            "text": rubric.text,
            **({"type": rubric.type} if rubric.type else {}),
        }
        for rubric in rubrics
    ]
    first = evidence = ""
    texts: tuple[str, ...] = ("rationale",)
    if subject is Subject.FINAL_RESPONSE:
        first = "first the evidence that decides it (the step number, or that none is needed or there), then "
        evidence = ' "evidence": "...",'
        texts = ("evidence", "rationale")
    return prompting.build_question(
        rules=f"{_MISSIONS[subject]}\n\n{_COMMON.format(prefix=prefix)}",
        reply=_REPLY.format(prefix=prefix, first=first, evidence=evidence),
        pieces={**pieces, "properties": prompting.as_json(properties)},
        task=_TASKS[subject],
        version=VERSION,
        form=ReplyForm(labels=LABELS, names=names, texts=texts),
    )


def _prefix(rubrics: Sequence[Rubric]) -> str:
    """The prefix of the names P1, P2, ...; or of PP1, PP2, ... and so on, so that no name is the id
    of another rubric."""
    ids = [prompting.bare_name(rubric.rubric_id) for rubric in rubrics]
    prefix = "P"
    while True:
        places = {
            prompting.bare_name(f"{prefix}{place}"): place for place in range(1, len(ids) + 1)
        }
        if all(
            places.get(rubric_id, place) == place for place, rubric_id in enumerate(ids, start=1)
        ):
            return prefix
        prefix += "P"


def answer_pieces(invocation: Invocation, *, intermediate: bool) -> Pieces:
    """The answer, and all evidence for it. The instructions are those of the agent that made the
    first step, else of the first known agent."""
    author = next((event.author for event in invocation.steps), "")
    first_agents = [agent for agent in invocation.agents if agent.name == author]
    instructions = [agent.instructions for agent in (*first_agents, *invocation.agents)]
    return {
        "developer_instructions": instructions[0] if instructions else "",
        **tool_use_pieces(invocation),
        "grounding_metadata": prompting.grounding_of(invocation.steps),
        "final_answer": prompting.answer_of(invocation, intermediate=intermediate),
    }


def tool_use_pieces(invocation: Invocation) -> Pieces:
    """The available tools, and how they were used."""
    return {
        "available_tools": prompting.tools_of([invocation]),
        "user_request": prompting.text_of(invocation.user_content),
        "agent_steps": prompting.steps_of(invocation),
    }


def conversation_pieces(invocations: Sequence[Invocation]) -> Pieces:
    """The whole conversation, and the agents' instructions and tools."""
    return {
        "developer_instructions": prompting.instructions_of(invocations),
        "available_tools": prompting.tools_of(invocations),
        "conversation": prompting.conversation_of(invocations),
    }


# --- grades ---------------------------------------------------------------------------------------


def grade_conversation(
    actual: Sequence[Invocation], rubrics: Sequence[Rubric], *, rubric_type: str, ask: Inquiry
) -> Grade:
    """One question about a whole conversation. The last turn has the value."""
    no_rubric_grade = no_rubrics(rubric_type)
    if not rubrics:
        return no_rubric_grade
    question = ask_rubrics(Subject.CONVERSATION, conversation_pieces(actual), rubrics)
    subjects = {rubric.rubric_id: rubric.text for rubric in rubrics}
    turn = judged.judged_turn(
        ask.panel.vote(judged.sampled(ask, question)), turn=None, subjects=subjects
    )
    return judged.conclude_conversation(
        turn, actual, nothing=no_rubric_grade, deviations=ask.deviations
    )


def no_rubrics(rubric_type: str) -> NotEvaluated:
    """Why a trial without any rubric has no score."""
    return not_evaluated(Reason.RUBRICS_MISSING, "no_rubrics", rubric_type)
