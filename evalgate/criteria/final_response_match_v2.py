"""final_response_match_v2: the share of turns whose answer a judge finds as good as the expected
answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from evalgate.judges import prompting
from evalgate.judges.prompting import Question
from evalgate.model import (
    Finding,
    Grade,
    Need,
    NotEvaluated,
    Reason,
    TrialView,
    not_evaluated,
    turns,
)
from evalgate.values import Sentence
from . import judged
from .base import CriterionSpec, Verdicts
from .judged import AnswerOptions, Inquiry, JudgedTurn


def grade(view: TrialView, *, ask: Inquiry) -> Grade:
    """The share of valid answers among turns with a reference; unknown if any verdict is unknown.

    An empty answer is invalid, without asking the judge. Thoughts are not part of the answer. ADK
    asks about every turn."""
    pairs = turns.pair(view)
    if isinstance(pairs, NotEvaluated):
        return pairs
    assert isinstance(ask.options, AnswerOptions)
    intermediate = ask.options.include_intermediate_responses_in_final
    plans: list[Question | JudgedTurn] = []
    for number, (actual, expected) in enumerate(pairs, start=1):
        reference = prompting.answer_of(expected, intermediate=intermediate)
        answer = prompting.answer_of(actual, intermediate=intermediate)
        if not reference.strip() and ask.deviations.reference_empty:
            plans.append(judged.without_score("turn_without_reference", number))
        elif not answer.strip() and ask.deviations.answer_empty:
            finding = Finding(
                text=Sentence("no_agent_answer"), turn=number, label="invalid", score=0.0
            )
            plans.append(JudgedTurn(scores=(0.0,), findings=(finding,)))
        else:
            request = prompting.text_of(expected.user_content)
            plans.append(ask_match(request=request, answer=answer, reference=reference))
    no_reference = not_evaluated(Reason.REFERENCE_MISSING, "no_reference")
    return judged.conclude(ask.judged(plans), nothing=no_reference, deviations=ask.deviations)


VERSION = "2"
LABELS: Mapping[str, bool] = {"valid": True, "invalid": False}

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
decided, then the verdict, then the code.
{"rationale": "...", "verdict": "valid", "code": "..."}
The verdict is one of these words: valid, invalid."""

TASK = (
    "Is the text in agent_answer valid, given reference_answer as the right answer to user_request?"
)


def ask_match(*, request: str, answer: str, reference: str) -> Question:
    """The question about one turn."""
    return prompting.build_question(
        rules=RULES,
        reply=REPLY,
        pieces={
            "user_request": request,
            "reference_answer": reference,
            "agent_answer": answer,
        },
        task=TASK,
        version=VERSION,
        labels=LABELS,
    )


SPEC = CriterionSpec(
    name="final_response_match_v2",
    summary="share of answers that a judge rates as good as the expected ones",
    options=AnswerOptions,
    build=partial(judged.with_judge, rule=grade, unready=lambda _: None),
    needs=frozenset({Need.JUDGE, Need.REFERENCE}),
    verdicts=Verdicts(labels=LABELS, prompt_version=VERSION),
)
