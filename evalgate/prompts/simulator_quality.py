"""Did the simulated user say what its scenario asks for at this point? One label: valid or invalid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from evalgate.model import Invocation, Persona
from evalgate.plugins import Vote
from evalgate.prompts import adk_replies, personas, question, shown, single_label
from evalgate.prompts.fence import Piece
from evalgate.prompts.question import Question

VERSION: Final = f"1.{personas.VERSION}"
LABELS: Final[Mapping[str, bool]] = {"valid": True, "invalid": False}

_RULES = """\
You check a simulated user that talks to an AI agent in a test. You judge the user's next message, never the agent: is
it what a user with this plan would say at this point of the conversation?

- The plan says what the user wants, in which order, and all that the user knows. It is no script: the words are free.
- The conversation holds what was said before the message. It may be empty of what came with it (tools, steps).
- The user ends the conversation by writing {stop_signal}, and in no other way. A message that holds it ends the
  conversation; one that does not keeps it going.
- The message is valid unless one of the faults below is in it. Look for each of them."""

_FAULTS = """\
Faults:
1. Off the plan: it asks again for what is done already, or gives details for it; takes up or agrees to something that
   the plan does not have; states a fact that neither the plan nor the conversation gives.
2. Ends wrongly: the plan is fulfilled, or the agent has handed the user over to a person, and the message does not hold
   {stop_signal}; or it holds it while the plan is unfulfilled and the agent has not failed.
3. Tells too much: it gives details of a goal before the agent has asked for them, or pursues several goals at once.
4. Wrong patience: it ends the conversation at the agent's first failure, or goes on after the second one. Count them.
5. Does not answer: the agent asked something, and the message passes over it; or the agent asked for what the plan does
   not hold, and the message makes it up instead of saying that it is not known.
6. Lets mistakes pass: the agent said something false or took something risky for granted, and the message carries on.
7. Does not sound like a person: stiff, far too polite, a bare command, needless jargon, or long where a sentence would
   do."""

_FAULTS_OF_PERSONA = """\
The user plays the character in the piece user_persona. The points listed there are the faults: the message is invalid
where one of them holds. Where a point contradicts the plan, the plan holds."""

_REPLY = """\
Reply with one JSON object and nothing else: first the reasons, in one to three sentences that name the fault if there
is one, then the verdict.
{"rationale": "...", "verdict": "valid"}
The verdict is one of these words: valid, invalid."""

_REPLY_AS_ADK = """\
Reply with one JSON object and nothing else: each fault by name with reasons and whether the message is free of it, then
whether it is free of all of them.
{
  "criteria": [{"name": "...", "reasoning": "...", "passes": true}],
  "is_valid": true
}"""


def render(
    *,
    plan: str,
    before: str,
    message: str,
    stop_signal: str,
    persona: Persona | None,
    as_adk: bool = False,
) -> Question:
    """The question on one message. `before`: the conversation until then, as `history` tells it."""
    pieces = [Piece(name="conversation_plan", text=plan)]
    faults = _FAULTS.format(stop_signal=stop_signal)
    if persona is not None:
        rules = personas.violations(personas.resolve(persona), stop_signal=stop_signal)
        pieces.append(Piece(name="user_persona", text=rules))
        faults = _FAULTS_OF_PERSONA
    pieces += [Piece(name="conversation", text=before), Piece(name="next_message_of_the_user", text=message)]
    return question.compose(
        rules=f"{_RULES.format(stop_signal=stop_signal)}\n\n{faults}",
        reply=_REPLY_AS_ADK if as_adk else _REPLY,
        pieces=pieces,
        task="Is the text in next_message_of_the_user a valid next message?",
        version=VERSION,
        schema=None if as_adk else single_label.schema(LABELS),
    )


def history(turns: Sequence[Invocation], *, with_thoughts: bool = False) -> str:
    """What was said in `turns`: the user's words and the agent's answers, one JSON object a line."""
    lines = []
    for turn in turns:
        lines.append({"user": shown.text_of(turn.user_content, with_thoughts=with_thoughts)})
        answer = shown.answer(turn, with_thoughts=with_thoughts)
        if answer:
            lines.append({"agent": answer})
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


def parse(text: str) -> Mapping[str, Vote]:
    """The vote in a reply; one in ADK's format is understood as well."""
    votes = single_label.parse(text, LABELS)
    verdict = None if votes else adk_replies.simulator_verdict(text)
    return votes if verdict is None else {"": Vote(passed=verdict, label="valid" if verdict else "invalid")}
