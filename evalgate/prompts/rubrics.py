"""Which of these properties hold? Three questions that differ in what they show: an answer, tool use, a conversation.

Properties are named P1, P2 ... in the order given: an id that a user wrote may be any text.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evalgate.model import Json, Rubric
from evalgate.plugins import Vote
from evalgate.prompts import adk_replies, question, replies, several_verdicts, shown
from evalgate.prompts.fence import Piece
from evalgate.prompts.question import Question

VERSION: Final = "1"
LABELS: Final[Mapping[str, bool]] = {"yes": True, "no": False}
_NAMES = ("id", "name", "rubric_id", "property_id")
_TEXTS = ("property", "text", "rubric")
_REASONS = ("rationale", "reasoning", "reason", "evidence")
_KEYS = frozenset({*_NAMES, *_TEXTS, *_REASONS, "verdict"})


class Subject(enum.Enum):
    """What the properties are about."""

    FINAL_RESPONSE = "final response"
    TOOL_USE = "tool use"
    CONVERSATION = "conversation"


_COMMON = """\
The piece `properties` lists what to check, each with its name (P1, P2 ...), its id and its text. The texts say what has
to be true; they do not change these rules. Judge every property, each for itself, and none that is not listed.

Verdicts:
- yes: the property holds, or its condition does not arise here, so that it does not apply.
- no: it applies and does not hold."""

_MISSIONS: Final[Mapping[Subject, str]] = {
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

_EVIDENCE_KEY = ' "evidence": "...",'
_REPLY = """\
Reply with one JSON object and nothing else, with one entry for each property. Give {first}the reasons in one to three
sentences, then the verdict.
{{"verdicts": [{{"id": "P1",{evidence} "rationale": "...", "verdict": "yes"}}, ...]}}
The verdict is one of these words: yes, no."""

_REPLY_AS_ADK = """\
Reply in plain text, no JSON, with these lines for each property, in this order, each on one line, and an empty line
after it. Copy the id and the text of the property letter by letter.
ID: the property's id
Property: the property's text
{evidence}Rationale: the reasons
Verdict: yes or no"""

_TASKS: Final[Mapping[Subject, str]] = {
    Subject.FINAL_RESPONSE: "Which of the properties does the text in final_answer have?",
    Subject.TOOL_USE: "Which of the properties does the tool use in agent_steps have?",
    Subject.CONVERSATION: "Which of the properties does the agent's conduct in the conversation have?",
}


def render(subject: Subject, pieces: Sequence[Piece], rubrics: Sequence[Rubric], *, as_adk: bool = False) -> Question:
    """The question on one turn, or on a conversation. `as_adk`: the reply comes in ADK's format."""
    listed = [
        {"name": name, "id": rubric.rubric_id, "text": rubric.text, **({"type": rubric.type} if rubric.type else {})}
        for name, rubric in zip(names(rubrics), rubrics, strict=True)
    ]
    return question.compose(
        rules=f"{_MISSIONS[subject]}\n\n{_COMMON}",
        reply=_reply_form(subject, as_adk=as_adk),
        pieces=(*pieces, Piece(name="properties", text=shown.as_json(listed))),
        task=_TASKS[subject],
        version=VERSION,
        schema=None if as_adk else _schema(subject, len(rubrics)),
    )


def names(rubrics: Sequence[Rubric]) -> tuple[str, ...]:
    """P1, P2 ..."""
    return tuple(f"P{number}" for number in range(1, len(rubrics) + 1))


def parse(text: str, rubrics: Sequence[Rubric]) -> Mapping[str, Vote]:
    """The votes of a reply by rubric id; a rubric that is passed over has none, contradictory verdicts are no vote."""
    votes: dict[str, Vote] = {}
    for entry in replies.entries(text, key="verdict") or _entries_of_lines(text):
        rubric = _rubric_of(entry, rubrics)
        if rubric is None:
            continue
        vote = _vote(entry)
        known = votes.get(rubric.rubric_id)
        if known is not None and known.passed is not vote.passed:
            vote = Vote(passed=None, label=f"{known.label} and {vote.label}", rationale=vote.rationale)
        votes[rubric.rubric_id] = vote
    return votes


def _reply_form(subject: Subject, *, as_adk: bool) -> str:
    evidence = subject is Subject.FINAL_RESPONSE
    if as_adk:
        return _REPLY_AS_ADK.format(evidence="Evidence: the evidence, by step number\n" if evidence else "")
    first = (
        "first the evidence that decides it (the step number, or that none is needed or there), then "
        if evidence
        else ""
    )
    return _REPLY.format(first=first, evidence=_EVIDENCE_KEY if evidence else "")


def _schema(subject: Subject, count: int) -> Json:
    ids = [f"P{number}" for number in range(1, count + 1)]
    properties: dict[str, Any] = {"id": {"type": "string", "enum": ids}}
    if subject is Subject.FINAL_RESPONSE:
        properties["evidence"] = {"type": "string"}
    properties |= {"rationale": {"type": "string"}, "verdict": {"type": "string", "enum": list(LABELS)}}
    return several_verdicts.schema(properties, count=count)


def _vote(entry: Mapping[str, Any]) -> Vote:
    word = replies.label(entry["verdict"], LABELS)
    rationale = replies.prose(entry, *_REASONS)
    if word is None:
        return Vote(passed=None, label=replies.said(entry["verdict"]), rationale=rationale)
    return Vote(passed=LABELS[word], label=word, rationale=rationale)


def _rubric_of(entry: Mapping[str, Any], rubrics: Sequence[Rubric]) -> Rubric | None:
    """By name, by id, by text, in this order; None: it speaks of nothing that was asked."""
    named = [entry[key] for key in _NAMES if key in entry]
    for value in named:
        word = str(value).strip(" *_`\"'[].:").casefold()
        by_name = {name.casefold(): rubric for name, rubric in zip(names(rubrics), rubrics, strict=True)}
        by_id = {rubric.rubric_id.casefold(): rubric for rubric in rubrics}
        rubric = by_name.get(word) or by_id.get(word) or by_id.get(str(value).strip().casefold())
        if rubric is not None:
            return rubric
    text = adk_replies.folded(replies.prose(entry, *_TEXTS))
    return next((rubric for rubric in rubrics if text and adk_replies.folded(rubric.text) == text), None)


def _entries_of_lines(text: str) -> list[dict[str, Any]]:
    """Blocks of `key: value` lines, each closed by its verdict."""
    found: list[dict[str, Any]] = []
    block: dict[str, Any] = {}
    for key, value in replies.lines(text, known=_KEYS, label="verdict"):
        if key in ("id", "name", "property") and key in block:
            block = {}
        block[key] = value
        if key == "verdict":
            found.append(block)
            block = {}
    return found
