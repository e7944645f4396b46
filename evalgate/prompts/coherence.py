"""How coherent is the answer, from 1 to 5? Asked where Google Cloud's evaluation service is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalgate.plugins import Vote
from evalgate.prompts import question, single_label
from evalgate.prompts.fence import Piece
from evalgate.prompts.question import Question

VERSION: Final = "1"
GRADES: Final[Mapping[str, bool]] = dict.fromkeys(("1", "2", "3", "4", "5"), True)

RULES = """\
You grade how coherent an AI agent's answer to a request is: whether its ideas follow from each other, belong together
and are easy to follow. Nothing else counts, neither whether it is true nor whether it is friendly.

- 5: everything follows; each part has its place and leads to the next; one subject throughout.
- 4: it follows well; a joint here or there could be smoother.
- 3: by and large it can be followed, with gaps, jumps or repetition.
- 2: hard to follow; parts stand beside each other without a reason.
- 1: it cannot be followed; parts contradict each other or have nothing to do with each other or with the request."""

REPLY = """\
Reply with one JSON object and nothing else: first the reasons, in a sentence or two, then the grade as a word of one
digit.
{"rationale": "...", "verdict": "4"}
The verdict is one of these: 1, 2, 3, 4, 5."""

TASK = "How coherent is the text in agent_answer?"


def render(*, request: str, answer: str) -> Question:
    """The question on one turn."""
    return question.compose(
        rules=RULES,
        reply=REPLY,
        pieces=(Piece(name="user_request", text=request), Piece(name="agent_answer", text=answer)),
        task=TASK,
        version=VERSION,
        schema=single_label.schema(GRADES),
    )


def parse(text: str) -> Mapping[str, Vote]:
    """The grade in a reply as the vote's label; `passed` only says that it is one."""
    return single_label.parse(text, GRADES)
