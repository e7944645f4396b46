"""hallucinations_v1: the share of sentences that the agent's context supports, or that need no
support."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial

from evalgate.judges import prompting
from evalgate.judges.base import SampledRequest, Vote
from evalgate.judges.prompting import Pieces, Question, ReplyForm
from evalgate.model import (
    Event,
    Grade,
    Invocation,
    Need,
    Reason,
    Text,
    TrialView,
    not_evaluated,
    turns,
)
from evalgate.model.deviations import Deviations
from evalgate.values import frozen_dataclass, grouped
from . import judged
from .base import CriterionSpec, Verdicts
from .judged import AnswerOptions, Inquiry, JudgedTurn


class HallucinationOptions(AnswerOptions):
    """The object form without its threshold. `include_intermediate_responses_in_final` is an option
    of all ADK's judged criteria; it has no effect here."""

    evaluate_intermediate_nl_responses: bool = False


def grade(view: TrialView, *, ask: Inquiry) -> Grade:
    """The mean over turns of the mean over a turn's texts of the share of supported sentences.
    Unknown if any turn is unknown.

    A text is split into sentences once; `num_samples` samples vote on every sentence (in ADK one).
    ADK leaves out sentences, texts and turns without a verdict."""
    options = ask.options
    assert isinstance(options, HallucinationOptions)
    passages = [
        text
        for number, invocation in enumerate(view.actual, start=1)
        for text in texts_of(
            invocation, number, intermediate=options.evaluate_intermediate_nl_responses
        )
    ]
    splits = ask.panel.vote_all([_split(passage.text, ask) for passage in passages])
    sentences_of_texts = [
        parse_split(result.samples[0].text, passage.text) if judged.lack_of(result) is None else ()
        for passage, result in zip(passages, splits, strict=True)
    ]
    plans = [
        render_validation(passage.context, sentences)
        if sentences
        else JudgedTurn(lack=judged.lack_of(result))
        for passage, sentences, result in zip(passages, sentences_of_texts, splits, strict=True)
    ]
    numbers = [passage.turn for passage in passages]
    judged_texts = ask.judged(
        plans,
        turns=numbers,
        subjects=list(map(by_name, sentences_of_texts)),
        num_samples=None if ask.deviations.hallucination_samples else 1,
    )
    texts_by_turn = grouped(zip(numbers, judged_texts, strict=True))
    judged_turns = [
        _together(texts_by_turn.get(number, ()), number, ask.deviations)
        for number in range(1, len(view.actual) + 1)
    ]
    no_text = not_evaluated(Reason.NOTHING_RECORDED, "no_answer_text")
    return judged.conclude(judged_turns, nothing=no_text, deviations=ask.deviations)


def _split(text: str, ask: Inquiry) -> SampledRequest:
    def any_sentence(reply: str) -> dict[str, Vote]:
        is_read = parse_split(reply, text) or not has_words(text)
        return {"": Vote(passed=True)} if is_read else {}

    return judged.sampled(ask, render_split(text), parse=any_sentence, num_samples=1)


def _together(
    judged_texts: Sequence[JudgedTurn], number: int, deviations: Deviations
) -> JudgedTurn:
    """The result for a turn: the mean over its texts of the share of supported sentences."""
    scores = [
        Fraction(sum(judged_text.scores)) / len(judged_text.scores)
        for judged_text in judged_texts
        if judged_text.scores
    ]
    lacks = (judged_text.lack or judged_text.dropped for judged_text in judged_texts)
    lack = next(filter(None, lacks), None)
    findings = tuple(finding for judged_text in judged_texts for finding in judged_text.findings)
    if not scores:
        empty = () if lack else judged.without_score("turn_without_text", number).findings
        return JudgedTurn(findings=(*findings, *empty), lack=lack)
    if not deviations.float_dust_judged:
        mean = turns.mean([float(score) for score in scores])
        return JudgedTurn(scores=(mean,), findings=findings, dropped=lack)
    return JudgedTurn(
        scores=(sum(scores, start=Fraction()) / len(scores),), findings=findings, lack=lack
    )


@frozen_dataclass
class AgentText:
    """A text of the agent and its context."""

    turn: int
    """Counts from 1."""
    text: str
    context: Pieces


def texts_of(invocation: Invocation, turn: int, *, intermediate: bool) -> Iterator[AgentText]:
    """The texts of a turn: with `intermediate`, first every text before the answer, each with the
    earlier events; then the answer."""
    events = invocation.steps
    for number, event in enumerate(events if intermediate else ()):
        # sources of a built-in tool arrive with the text, so they are part of its context
        known_events = [*events[:number]]
        if event.grounding:
            known_events.append(Event(author=event.author, grounding=event.grounding))
        for part in event.content.parts if event.content else ():
            if isinstance(part, Text) and part.text.strip() and not part.thought:
                yield AgentText(
                    turn=turn, text=part.text, context=_context(invocation, known_events)
                )
    answer = prompting.answer_of(invocation)
    if answer.strip():
        yield AgentText(turn=turn, text=answer, context=_context(invocation, events))


def _context(invocation: Invocation, events: Sequence[Event]) -> Pieces:
    """The agents' instructions and tools, the user's request, and earlier events."""
    return {
        "developer_instructions": prompting.instructions_of([invocation]),
        "user_request": prompting.text_of(invocation.user_content),
        "available_tools": prompting.tools_of([invocation]),
        "grounding_metadata": prompting.grounding_of(events),
        "steps_before": prompting.json_piece(prompting.events_json(events)),
    }


VERSION = "2"
LABELS: Mapping[str, bool] = {
    "supported": True,
    "not_applicable": True,
    "unsupported": False,
    "contradictory": False,
    "disputed": False,
}
_EXCERPTS = ("supporting_excerpt", "contradicting_excerpt")

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


def render_split(text: str) -> Question:
    """The question for the sentences of a text."""
    return prompting.build_question(
        rules=SEGMENT_RULES,
        reply=SEGMENT_REPLY,
        pieces={"agent_text": text},
        task=SEGMENT_TASK,
        version=VERSION,
    )


def has_words(text: str) -> bool:
    """True if the text has a letter or a digit."""
    return re.search(r"\w", text) is not None


def parse_split(reply: str, text: str) -> tuple[str, ...]:
    """The sentences of `text` that a reply marks, in order, and every stretch between them that has
    a letter or a digit.

    A sentence that is not in the text, as the prompt shows it, is dropped, so the judge can neither
    invent nor omit text. Empty if the reply marks no sentence."""
    text = prompting.reveal(text)
    letters, places = _without_blanks(text)
    stretches: list[str] = []
    end_place = 0
    start = 0
    misses = 0
    for sentence in _marked(reply):
        needle, _ = _without_blanks(sentence)
        position = (
            letters.find(needle, start) if has_words(needle) and misses < _MOST_MISSES else -1
        )
        if position < 0:
            misses += 1
            continue
        start = position + len(needle)
        begin = places[position]
        stop = places[start - 1] + 1
        stretches.extend((text[end_place:begin], text[begin:stop]))
        end_place = stop
    stretches.append(text[end_place:])
    sentences = (stretch.strip() for stretch in stretches)
    return tuple(sentence for sentence in sentences if has_words(sentence)) if end_place else ()


def _marked(reply: str) -> Iterator[str]:
    """The texts between the tags. Without an end tag, the text until the end of the reply."""
    inside: list[str] | None = None
    for piece in re.split(r"(</?sentence>)", reply, flags=re.IGNORECASE):
        if inside is None:
            inside = [] if piece.lower() == "<sentence>" else None
        elif piece.lower() == "</sentence>":
            yield "".join(inside)
            inside = None
        else:
            inside.append(piece)


_MOST_MISSES = 500
"""The search stops after this many sentences that are not in the text."""


def _without_blanks(text: str) -> tuple[str, list[int]]:
    """The words of a text with one blank between them, and the position of each character in the
    text."""
    matches = [(match.start(), match[0]) for match in re.finditer(r"\S+", text)]
    places = [
        place
        for start, word in matches
        for place in (*range(start, start + len(word)), start + len(word))
    ]
    return " ".join(word for _, word in matches), places


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
rationale in a sentence or two, then the excerpts ("" where the label needs none), then the label. After the last entry
comes the code.
{"verdicts": [{"id": "S1", "rationale": "...", "supporting_excerpt": "...", "contradicting_excerpt": "", "label":
"supported"}, ...], "code": "..."}
The label is one of these words: supported, unsupported, contradictory, disputed, not_applicable."""

VALIDATE_TASK = "Which label does each of the sentences have, given the context?"


def render_validation(context: Pieces, sentences: Sequence[str]) -> Question:
    """The question about the support of the sentences."""
    names = by_name(sentences)
    entries = [{"id": name, "sentence": sentence} for name, sentence in names.items()]
    return prompting.build_question(
        rules=VALIDATE_RULES,
        reply=VALIDATE_REPLY,
        pieces={**context, "sentences": prompting.as_json(entries)},
        task=VALIDATE_TASK,
        version=VERSION,
        form=ReplyForm(
            labels=LABELS, key="label", names={name: name for name in names}, quoted=_EXCERPTS
        ),
    )


def by_name(sentences: Iterable[str]) -> Mapping[str, str]:
    """The sentences by their names S1, S2, ..."""
    return {f"S{number}": sentence for number, sentence in enumerate(sentences, start=1)}


SPEC = CriterionSpec(
    name="hallucinations_v1",
    summary="share of sentences supported by the agent's context, as rated by a judge",
    options=HallucinationOptions,
    build=partial(judged.with_judge, rule=grade),
    needs=frozenset({Need.JUDGE}),
    verdicts=Verdicts(labels=LABELS, prompt_version=VERSION, unit="sentence"),
)
