"""What in a text does its context bear out? Two questions: which sentences it has, and what each of them rests on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evalgate.model import Json
from evalgate.plugins import Vote
from evalgate.prompts import adk_replies, fence, question, replies, several_verdicts, shown
from evalgate.prompts.fence import Piece
from evalgate.prompts.question import Question

VERSION: Final = "1"
LABELS: Final[Mapping[str, bool]] = {
    "supported": True,
    "not_applicable": True,
    "unsupported": False,
    "contradictory": False,
    "disputed": False,
}
_REASONS = ("rationale", "reason")
_EXCERPTS = ("supporting_excerpt", "contradicting_excerpt")
_KEYS = frozenset({*_REASONS, *_EXCERPTS, "id", "sentence", "label"})

# --- which sentences ------------------------------------------------------------------------------

SEGMENT_RULES = """\
You take a text apart into sentences, so that each can be checked by itself.
- Copy every sentence letter by letter, with its punctuation, in the order of the text. Add none, leave none out,
  mend nothing.
- Every item of a list is a sentence of its own, an item below an item as well, and so is the line that introduces
  them. A list may also stand within a line: "* a * b" are two items.
- A table is one sentence, all its rows together.
- Marks that say nothing by themselves (a bullet, a rule, a code fence) are no sentence."""

SEGMENT_REPLY = """\
Reply with the sentences and nothing else, each between tags:
<sentence>first sentence</sentence>
<sentence>second sentence</sentence>"""

SEGMENT_TASK = "Take the text in agent_text apart."


def render_segmentation(text: str) -> Question:
    """The question which sentences a text has; both formats of the reply are the same."""
    return question.compose(
        rules=SEGMENT_RULES,
        reply=SEGMENT_REPLY,
        pieces=(Piece(name="agent_text", text=text),),
        task=SEGMENT_TASK,
        version=VERSION,
        schema=None,
    )


def has_words(text: str) -> bool:
    """Whether there is a letter or a digit in it."""
    return re.search(r"\w", text) is not None


def parse_segmentation(reply: str, text: str) -> tuple[str, ...]:
    """The sentences of `text` that a reply marks, in order, and every stretch with a letter or digit between them.

    What is not in the text, as the prompt shows it, is dropped: nothing can be made up or left out. Empty: the reply
    marks nothing.
    """
    text = fence.reveal(text)
    stretches: list[str] = []
    place, marked = 0, False
    for sentence in re.findall(r"<sentence>(.*?)</sentence>", reply, re.DOTALL | re.IGNORECASE):
        found = _find(sentence, text, place)
        if found is None:
            continue
        marked = True
        stretches.extend((text[place : found[0]], text[found[0] : found[1]]))
        place = found[1]
    stretches.append(text[place:])
    sentences = (stretch.strip() for stretch in stretches)
    return tuple(each for each in sentences if has_words(each)) if marked else ()


def _find(sentence: str, text: str, place: int) -> tuple[int, int] | None:
    """Where a sentence stands at or after `place`, whatever the blanks between its words."""
    words = sentence.split()
    if not words or not has_words(sentence):
        return None
    found = re.compile(r"\s+".join(re.escape(word) for word in words)).search(text, place)
    return found.span() if found else None


# --- what each rests on ---------------------------------------------------------------------------

VALIDATE_RULES = """\
You check whether the sentences of an AI agent's text are borne out by the context that the agent had. The context is
all that you know: use no knowledge of your own, except what is trivial.

Labels:
- supported: some part of the context, quoted as supporting_excerpt, implies the whole sentence.
- unsupported: the context does not imply it. This is also the label whenever you are in doubt.
- contradictory: some part of the context, quoted as contradicting_excerpt, says that it is false.
- disputed: the context has both a part that implies it and a part that says it is false; quote both.
- not_applicable: there is nothing to bear out, as in a greeting, a question, an opinion, a plan, a disclaimer, a
  calculation.

- Only plain and undeniable evidence makes a sentence supported, contradictory or disputed.
- What a tool put out counts only if its call made sense for the request and the output is no error.
- Grounding metadata names the sources of built-in tools, as a search, whose output may stand nowhere else. A sentence
  that grounding_supports attributes to a source is supported.
- Excerpts may be several, or a summary where they would be long. They are not the rationale."""

VALIDATE_REPLY = """\
Reply with one JSON object and nothing else, with one entry for each sentence of the piece `sentences`. Give the
rationale in a sentence or two, then the excerpts ("" where the label needs none), then the label.
{"verdicts": [{"id": "S1", "rationale": "...", "supporting_excerpt": "...", "contradicting_excerpt": "", "label":
"supported"}, ...]}
The label is one of these words: supported, unsupported, contradictory, disputed, not_applicable."""

VALIDATE_REPLY_AS_ADK = """\
Reply in plain text with these five lines for each sentence, in this order, and an empty line after them. Write null
for an excerpt that the label does not need.
sentence: the sentence, copied
label: supported, unsupported, contradictory, disputed or not_applicable
rationale: the reasons
supporting_excerpt: the excerpt, or null
contradicting_excerpt: the excerpt, or null"""

VALIDATE_TASK = "Which label does each of the sentences have, given the context?"


def render_validation(context: Sequence[Piece], sentences: Sequence[str], *, as_adk: bool = False) -> Question:
    """The question what the sentences rest on. `as_adk`: the reply comes in ADK's format."""
    listed = [{"id": name, "sentence": each} for name, each in zip(names(sentences), sentences, strict=True)]
    return question.compose(
        rules=VALIDATE_RULES,
        reply=VALIDATE_REPLY_AS_ADK if as_adk else VALIDATE_REPLY,
        pieces=(*context, Piece(name="sentences", text=shown.as_json(listed))),
        task=VALIDATE_TASK,
        version=VERSION,
        schema=None if as_adk else _schema(len(sentences)),
    )


def names(sentences: Sequence[str]) -> tuple[str, ...]:
    """S1, S2 ..."""
    return tuple(f"S{number}" for number in range(1, len(sentences) + 1))


def parse_validation(text: str, sentences: Sequence[str]) -> Mapping[str, Vote]:
    """The votes of a reply by the sentence's name; one that is passed over has none, contradictions are no vote."""
    votes: dict[str, Vote] = {}
    for entry in replies.entries(text, key="label") or _entries_of_lines(text):
        name = _named(entry, sentences)
        if name is None:
            continue
        vote = _vote(entry)
        known = votes.get(name)
        if known is not None and known.passed is not vote.passed:
            vote = Vote(passed=None, label=f"{known.label} and {vote.label}", rationale=vote.rationale)
        votes[name] = vote
    return votes


def _vote(entry: Mapping[str, Any]) -> Vote:
    word = replies.label(entry["label"], LABELS)
    excerpts = [replies.prose(entry, key) for key in _EXCERPTS]
    quoted = [f"\N{LEFT DOUBLE QUOTATION MARK}{each}\N{RIGHT DOUBLE QUOTATION MARK}" for each in excerpts if each]
    rationale = " ".join([replies.prose(entry, *_REASONS), *quoted]).strip()
    if word is None:
        return Vote(passed=None, label=replies.said(entry["label"]), rationale=rationale)
    return Vote(passed=LABELS[word], label=word, rationale=rationale)


def _named(entry: Mapping[str, Any], sentences: Sequence[str]) -> str | None:
    """By name, else by the sentence itself; None: it speaks of nothing that was asked."""
    known = {name.casefold(): name for name in names(sentences)}
    name = known.get(str(entry.get("id", "")).strip(" *_`\"'[].:").casefold())
    if name is not None:
        return name
    wanted = adk_replies.folded(replies.prose(entry, "sentence"))
    pairs = zip(names(sentences), sentences, strict=True)
    return next((each for each, sentence in pairs if wanted and adk_replies.folded(sentence) == wanted), None)


def _entries_of_lines(text: str) -> list[dict[str, Any]]:
    """Blocks of `key: value` lines, each opened by its sentence or its id."""
    found: list[dict[str, Any]] = []
    block: dict[str, Any] = {}
    for key, value in [*replies.lines(text, known=_KEYS, label="label"), ("sentence", "")]:
        if key in ("id", "sentence") and (key in block or "label" in block):
            found.extend([block] if "label" in block else [])
            block = {}
        block[key] = value
    return found


def _schema(count: int) -> Json:
    properties: dict[str, Any] = {"id": {"type": "string", "enum": [f"S{number}" for number in range(1, count + 1)]}}
    properties |= {key: {"type": "string"} for key in ("rationale", "supporting_excerpt", "contradicting_excerpt")}
    properties |= {"label": {"type": "string", "enum": list(LABELS)}}
    return several_verdicts.schema(properties, count=count)
