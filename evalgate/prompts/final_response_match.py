"""Does the answer give what the reference answer gives? One label: valid or invalid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalgate.plugins import Vote
from evalgate.prompts import question, single_label
from evalgate.prompts.fence import Piece
from evalgate.prompts.question import Question

VERSION: Final = "1"
LABELS: Final[Mapping[str, bool]] = {"valid": True, "invalid": False}

RULES = """\
You compare an AI agent's answer with a reference answer to the same request, and decide whether the agent's answer is
valid.

What counts:
- The reference was checked by a person and is right. Do not work out the result anew: no arithmetic, no dates, no
  reading of tables or files in the request. Where your own result differs from the reference, the reference holds.
- Valid: the answer conveys what the request asked for as the reference has it. Find the key facts of the reference
  (names, values, items, the decision) and look for each of them in the answer.
- The reference may be terse and name key facts only. More detail, more explanation or more correct facts in the
  answer do no harm; a contradiction of the reference does.
- Form is free unless the request, or an interface that it describes, asks for one: prose for a list or a table, another
  order, longer or shorter, a name for its abbreviation, 1,000,000 for 1000000.
- Units are part of a value: 100 km is not 100 miles.
- Rounding: where nobody asked for a precision, accept what is usual for that kind of value and leads to the same
  conclusion.
- An answer that asks back, refuses, or says that something is unknown or out of reach is invalid where the reference
  answers. Where the reference itself asks back or declines, an answer that does the same is valid.
- Either may also be code or a tool call; then compare what it would do."""

REPLY = """\
Reply with one JSON object and nothing else: first the reasons, in one to three sentences that name the facts that
decided, then the verdict.
{"rationale": "...", "verdict": "valid"}
The verdict is one of these words: valid, invalid."""

REPLY_AS_ADK = """\
Reply with one JSON object and nothing else: first the reasons, then the verdict, which is valid or invalid.
{
  "reasoning": "...",
  "is_the_agent_response_valid": "valid"
}"""

TASK = "Is the text in agent_answer valid, given reference_answer as the right answer to user_request?"


def render(*, request: str, answer: str, reference: str, as_adk: bool = False) -> Question:
    """The question on one turn. `as_adk`: the reply comes in ADK's format."""
    return question.compose(
        rules=RULES,
        reply=REPLY_AS_ADK if as_adk else REPLY,
        pieces=(
            Piece(name="user_request", text=request),
            Piece(name="reference_answer", text=reference),
            Piece(name="agent_answer", text=answer),
        ),
        task=TASK,
        version=VERSION,
        schema=None if as_adk else single_label.schema(LABELS),
    )


def parse(text: str) -> Mapping[str, Vote]:
    """The vote in a reply; ADK's key is understood as well."""
    return single_label.parse(text, LABELS, keys=("verdict", "is_the_agent_response_valid"))
