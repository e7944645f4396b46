"""Personas of simulated users: ADK's three built-in ones in evalgate's words, each a set of
behaviors.

A behavior has instructions for the simulated user, and signs of a violation for its judge."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evalgate.model import Persona, PersonaBehavior

VERSION = "1"
"""Increase it with every change of a text below: it is part of the address of cached replies."""

_PLACEHOLDER = re.compile(r"\{\{\s*stop_signal\s*\}\}")

_FULL_REQUESTS = PersonaBehavior(
    name="Asks with all details",
    description="One goal of the plan at a time, each asked for with everything that the agent needs to know for it.",
    behavior_instructions=(
        "When the agent has done what you asked, go on to the next goal of the plan.",
        "Pass over a goal that is reached already.",
        "Name the goal and give, in the same message, every detail that the plan has for it.",
    ),
    violation_rubrics=(
        "The message asks again for something that was done in an earlier turn, or gives details for it.",
        "The message takes up a goal, or agrees to one, that the plan does not have.",
        "The message states a detail (a number, a name, an address) that the plan does not give.",
        "The message names a new goal and keeps back details that the plan has for it.",
        "The message asks for more than one goal of the plan at once.",
    ),
)

_BARE_GOALS = PersonaBehavior(
    name="Asks for goals only",
    description="One goal of the plan at a time, without details: the agent has to ask for what it needs.",
    behavior_instructions=(
        "When the agent has done what you asked, go on to the next goal of the plan.",
        "Pass over a goal that is reached already.",
        "Name only the goal. Keep every detail to yourself until the agent asks for it.",
    ),
    violation_rubrics=(
        "The message asks again for something that was done in an earlier turn, or gives details for it.",
        "The message takes up a goal that neither the plan nor the agent has brought up.",
        "The message states a detail that neither the plan nor the agent has given.",
        "The message gives a detail of a goal before the agent has asked for it.",
        "The message asks for more than one goal of the plan at once.",
    ),
)

_ANSWERS_THE_RELEVANT = PersonaBehavior(
    name="Answers what matters to the plan",
    description="Questions that serve a goal of the plan are answered; small talk and side issues are not. Where the "
    "agent asks nothing else, it is led back to the plan.",
    behavior_instructions=(
        "Answer from the plan, and only what was asked.",
        "Say so where the plan does not hold the answer; never make one up.",
        "Leave questions that have nothing to do with the plan's goals unanswered.",
    ),
    violation_rubrics=(
        "The message goes along with a question that has nothing to do with the plan's goals.",
    ),
)

_ANSWERS_EVERYTHING = PersonaBehavior(
    name="Answers every question",
    description="Whatever the agent asks gets an answer, small talk included.",
    behavior_instructions=(
        "Take up each question of the agent's last message.",
        "Answer from the plan, and only what was asked.",
        "Say that you do not know where the plan does not hold the answer; never make one up.",
    ),
    violation_rubrics=(
        "The agent asked something, and the message leaves it, or one of several questions, without an answer.",
        "The agent asked for something that the plan does not hold, and the message makes it up.",
    ),
)

_CORRECTS = PersonaBehavior(
    name="Corrects mistakes",
    description="What the agent gets wrong is pointed out.",
    behavior_instructions=(
        "Contradict what is wrong or makes no sense.",
        "Where the agent did the wrong thing, ask it to put that right.",
    ),
    violation_rubrics=(
        "The agent said something false, and the message carries on as if it were true.",
        "The agent took something risky for granted (as the text of a letter to send), and the message lets it pass.",
    ),
)

_NO_CORRECTION = PersonaBehavior(
    name="Leaves mistakes uncorrected",
    description="What the agent gets wrong is not put right; it ends the conversation.",
    behavior_instructions=(
        "Where the agent says something false or senseless, end the conversation with {{ stop_signal }}.",
    ),
    violation_rubrics=(
        "The agent made a mistake or took something for granted, and the message corrects it.",
    ),
)

_ONE_MORE_TRY = PersonaBehavior(
    name="Helps out once",
    description="A failure of the agent (a wrong call, or no answer where the plan expects one) is helped once in a "
    "conversation, never twice. Answering a question of the agent is no such help. The failures so far can be counted "
    "in the conversation.",
    behavior_instructions=(
        "At the agent's first failure, help it to get there.",
        "Where the conversation shows that you have helped once already, do not help again.",
    ),
    violation_rubrics=(
        "The message ends the conversation at the agent's first failure.",
        "The agent has failed at least twice, and the message goes on without {{ stop_signal }}.",
    ),
)

_ENDS_AFTER_TWO_FAILURES = PersonaBehavior(
    name="Ends in time, after a second failure at the latest",
    description="The conversation is over when the agent has confirmed that every goal of the plan is reached, has "
    "handed over to a person, or has failed more than once. To fail is to do a thing wrongly or not to give what the "
    "plan expects; to ask back is no failure.",
    behavior_instructions=(
        "Stay until one of these holds, and leave when it does.",
        "Wait for the agent to confirm the last goal before you leave.",
        "Leave by writing {{ stop_signal }}.",
        "Count the agent's failures in the conversation: the second one is the end.",
    ),
    violation_rubrics=(
        "One of the ends above is reached, and the message does not hold {{ stop_signal }}.",
        "The message holds {{ stop_signal }}, and none of the ends above is reached.",
    ),
)

_ENDS_AFTER_A_FAILURE = PersonaBehavior(
    name="Ends in time, at the first failure",
    description="The conversation is over when the agent has confirmed that every goal of the plan is reached, has "
    "handed over to a person, or has failed once. To fail is to do a thing wrongly or not to give what the plan "
    "expects; to ask back is no failure.",
    behavior_instructions=(
        "Stay until one of these holds, and leave when it does.",
        "Wait for the agent to confirm the last goal before you leave.",
        "Leave by writing {{ stop_signal }}.",
        "Where the agent's last message shows a failure, leave.",
    ),
    violation_rubrics=(
        "One of the ends above is reached, and the message does not hold {{ stop_signal }}.",
        "The message holds {{ stop_signal }}, and none of the ends above is reached.",
        "The agent has failed, at its last message or before, and the message goes on without {{ stop_signal }}.",
    ),
)

_MATTER_OF_FACT = PersonaBehavior(
    name="Speaks like a specialist",
    description="Clear and technical. {{ stop_signal }} is no matter of tone.",
    behavior_instructions=(
        "Use the exact terms of the field.",
        "No slang, no chains of abbreviations, no emoji, no pleasantries, nothing personal.",
    ),
    violation_rubrics=(
        "The message has slang, many abbreviations or emoji.",
        "A good part of the message is greeting, thanks or personal remark.",
        "The message is long where one plain sentence would do.",
        "The message does not sound like the user's earlier ones.",
    ),
)

_SMALL_TALK = PersonaBehavior(
    name="Speaks as people chat",
    description="Informal. {{ stop_signal }} is no matter of tone.",
    behavior_instructions=(
        "Write as somebody does who talks to a shop assistant.",
        "Neither stiff nor overly polite.",
        "Not in bare commands either: put a request in a few natural words.",
    ),
    violation_rubrics=(
        "The message is a bare command without any natural wording.",
        "The message is stiff, or more polite than people are in a chat.",
        "The message is long where one plain sentence would do.",
        "The message does not sound like the user's earlier ones.",
    ),
)

BUILT_IN: Mapping[str, Persona] = {
    persona.persona_id: persona
    for persona in (
        Persona(
            persona_id="EXPERT",
            description="Somebody who knows the field and exactly what is wanted. The agent is a tool that should "
            "do it quickly; there is no patience for chatter or needless questions.",
            behaviors=(
                _FULL_REQUESTS,
                _ANSWERS_THE_RELEVANT,
                _CORRECTS,
                _ONE_MORE_TRY,
                _ENDS_AFTER_TWO_FAILURES,
                _MATTER_OF_FACT,
            ),
        ),
        Persona(
            persona_id="NOVICE",
            description="Somebody with a problem that they only half understand, who leans on the agent. There is "
            "patience for its questions, and no knowledge to notice or mend its mistakes.",
            behaviors=(
                _BARE_GOALS,
                _NO_CORRECTION,
                _ANSWERS_EVERYTHING,
                _ENDS_AFTER_A_FAILURE,
                _SMALL_TALK,
            ),
        ),
        Persona(
            persona_id="EVALUATOR",
            description="Somebody who tries out whether the agent can reach the goals of the plan.",
            behaviors=(
                _FULL_REQUESTS,
                _ANSWERS_THE_RELEVANT,
                _ENDS_AFTER_A_FAILURE,
                _NO_CORRECTION,
                _SMALL_TALK,
            ),
        ),
    )
}
"""Personas by the id that an evaluation file names."""


def resolve(persona: Persona) -> Persona:
    """The persona with its behaviors. A built-in persona is written as its id only."""
    built_in_persona = BUILT_IN.get(persona.persona_id)
    return (
        built_in_persona
        if built_in_persona is not None and not persona.description and not persona.behaviors
        else persona
    )


def describe(persona: Persona, *, stop_signal: str, to_judge: bool) -> str:
    """The persona's behavior, as text for the model that plays it; `to_judge`: the violations of
    it, for the judge of the simulated user."""
    lines = [persona.description]
    for behavior in persona.behaviors:
        points = behavior.violation_rubrics if to_judge else behavior.behavior_instructions
        lines += ["", f"## {behavior.name}", behavior.description]
        lines += [f"- {point}" for point in points]
    return "\n".join(_PLACEHOLDER.sub(lambda _: stop_signal, line) for line in lines)
