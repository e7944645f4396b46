"""Criteria of simulated users: did the conversation come to its end, and did the user follow its
scenario?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from evalgate.judges import prompting
from evalgate.judges.prompting import Question
from evalgate.model import (
    ConversationScenario,
    CriterionUse,
    Ending,
    Finding,
    Grade,
    Invocation,
    Need,
    Persona,
    Reason,
    Score,
    TrialView,
    not_evaluated,
)
from evalgate.simulation import personas
from evalgate.values import Sentence
from . import judged
from .base import Criterion, CriterionServices, CriterionSpec, NoOptions, Verdicts
from .judged import Inquiry, JudgedOptions, JudgedTurn


class SimulatorQualityOptions(JudgedOptions):
    """ADK's LlmBackedUserSimulatorCriterion. The default `stop_signal` is that of the simulated
    user."""

    stop_signal: str = "</finished>"


def build(
    options: SimulatorQualityOptions, use: CriterionUse, services: CriterionServices
) -> Criterion:
    """The criterion with its options. In ADK's arithmetic the threshold also applies to each
    turn."""
    threshold = 1.0 if use.threshold is None else use.threshold
    return judged.with_judge(
        options,
        use,
        services,
        partial(grade, threshold=threshold),
        unready=lambda view: (
            not_evaluated(Reason.NOT_APPLICABLE, "no_scenario")
            if view.case.scenario is None
            else judged.unready_reason(view)
        ),
    )


def grade(view: TrialView, *, ask: Inquiry, threshold: float) -> Grade:
    """The share of valid messages: the first by comparison, the others by votes. A wrong end makes
    the last message invalid. Unknown if any verdict is unknown. The end of a conversation that a
    limit cut is not judged, except in ADK."""
    scenario = view.case.scenario
    assert scenario is not None  # see `unready` in `build`
    questions = _questions(view, scenario, ask)
    count = len(view.actual)
    numbers = range(2, len(questions) + 2)
    votes = ask.judged(
        questions,
        turns=[min(number, count) for number in numbers],
        subjects=[
            {"": Sentence("conversation_end") if number > count else ""} for number in numbers
        ],
    )
    judged_turns = [_first(view.actual[0], scenario), *votes]
    if not ask.deviations.simulator_turn_unjudged:
        return _conclude_as_adk(judged_turns, threshold=threshold)
    if len(judged_turns) > count:
        # the last message is valid if it and the end are
        *judged_turns, last_turn, end_turn = judged_turns
        scores = (
            (min(*last_turn.scores, *end_turn.scores),)
            if last_turn.scores and end_turn.scores
            else ()
        )
        findings = (*last_turn.findings, *end_turn.findings)
        judged_turns.append(
            JudgedTurn(scores=scores, findings=findings, lack=last_turn.lack or end_turn.lack)
        )
    no_turn = not_evaluated(Reason.NOTHING_RECORDED, "no_turn_to_judge")
    return judged.conclude(judged_turns, nothing=no_turn)


def _conclude_as_adk(judged_turns: Sequence[JudgedTurn], *, threshold: float) -> Grade:
    """ADK's rule: a turn counts if its score reaches the threshold, and as 0 without a verdict. A
    sample that raises makes the score unknown. The verdict on the end replaces that of the last
    turn, if it is below the threshold."""
    failed_call = next(
        (
            turn.lack
            for turn in judged_turns
            if turn.lack and turn.lack.reason is not Reason.JUDGE_UNREADABLE
        ),
        None,
    )
    if failed_call is not None:
        return failed_call
    *scores, end_score = (turn.value for turn in judged_turns)
    if end_score is not None and end_score < threshold:
        scores[-1] = end_score
    total = sum(score for score in scores if score is not None and score >= threshold)
    findings = tuple(finding for turn in judged_turns for finding in turn.findings)
    lacking = next((turn.lack.message for turn in judged_turns if turn.lack), "")
    return Score(value=total / len(scores), turns=tuple(scores), findings=findings, lacking=lacking)


def _questions(view: TrialView, scenario: ConversationScenario, ask: Inquiry) -> list[Question]:
    """One question for each message from the second on, then one for the end of the
    conversation."""
    options = ask.options
    assert isinstance(options, SimulatorQualityOptions)
    messages = [prompting.text_of(turn.user_content) for turn in view.actual[1:]]
    if not ask.deviations.simulator_cut or view.ended_by is not Ending.TURN_LIMIT:
        messages.append(options.stop_signal)
    return [
        ask_quality(
            plan=scenario.conversation_plan,
            conversation=history(view.actual[:number]),
            message=message,
            stop_signal=options.stop_signal,
            persona=scenario.persona,
        )
        for number, message in enumerate(messages, start=1)
    ]


def _first(turn: Invocation, scenario: ConversationScenario) -> JudgedTurn:
    is_expected = prompting.text_of(turn.user_content).strip() == scenario.starting_prompt.strip()
    text = Sentence("starting_prompt", is_expected)
    label = "valid" if is_expected else "invalid"
    finding = Finding(text=text, turn=1, label=label, score=float(is_expected))
    return JudgedTurn(scores=(float(is_expected),), findings=(finding,))


# --- conversation_ended ---------------------------------------------------------------------------


def grade_ended(view: TrialView) -> Grade:
    """1.0 if the user ended the conversation, or its turns were fixed in the case; 0.0 if the turn
    limit ended it."""
    if view.case.scenario is None:
        return Score(value=1.0)
    match view.ended_by:
        case Ending.STOP_SIGNAL:
            return Score(value=1.0)
        case Ending.TURN_LIMIT:
            text = Sentence("turn_limit", len(view.actual))
            return Score(
                value=0.0, findings=(Finding(text=text, label=Ending.TURN_LIMIT.value, score=0.0),)
            )
        case None:
            return not_evaluated(Reason.NOTHING_RECORDED, "ending_unrecorded")


VERSION = f"2.{personas.VERSION}"
LABELS: Mapping[str, bool] = {"valid": True, "invalid": False}

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
is one, then the verdict, then the code.
{"rationale": "...", "verdict": "valid", "code": "..."}
The verdict is one of these words: valid, invalid."""


def ask_quality(
    *, plan: str, conversation: str, message: str, stop_signal: str, persona: Persona | None
) -> Question:
    """The question about one message. `conversation`: the earlier turns, as JSON lines from
    `history`."""
    pieces = {"conversation_plan": plan}
    faults = _FAULTS.format(stop_signal=stop_signal)
    if persona is not None:
        pieces["user_persona"] = personas.describe(
            personas.resolve(persona), stop_signal=stop_signal, to_judge=True
        )
        faults = _FAULTS_OF_PERSONA
    pieces |= {"conversation": conversation, "next_message_of_the_user": message}
    return prompting.build_question(
        rules=f"{_RULES.format(stop_signal=stop_signal)}\n\n{faults}",
        reply=_REPLY,
        pieces=pieces,
        task="Is the text in next_message_of_the_user a valid next message?",
        version=VERSION,
        labels=LABELS,
    )


def history(turns: Sequence[Invocation]) -> str:
    """The user's messages and the agent's answers in `turns`, one JSON object per line."""
    lines = []
    for turn in turns:
        lines.append({"user": prompting.text_of(turn.user_content)})
        answer = prompting.answer_of(turn)
        if answer:
            lines.append({"agent": answer})
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


QUALITY = CriterionSpec(
    name="per_turn_user_simulator_quality_v1",
    summary="share of turns in which the simulated user followed its scenario, as rated by a judge",
    options=SimulatorQualityOptions,
    build=build,
    needs=frozenset({Need.JUDGE, Need.SCENARIO}),
    verdicts=Verdicts(labels=LABELS, prompt_version=VERSION),
)


ENDED = CriterionSpec(
    name="conversation_ended",
    summary="whether the simulated user ended the conversation before the turn limit did",
    options=NoOptions,
    build=lambda _options, _use, _services: grade_ended,
    is_beyond_adk=True,
)


SPECS = (QUALITY, ENDED)
