"""The criteria of simulated users: how each message was, how the conversation ended, and what stays
unknown."""

from __future__ import annotations

import json

import pytest
from builders.build import turn
from builders.judging import ScriptedJudge, panel

from evalgate import criteria
from evalgate.criteria.base import CriterionServices
from evalgate.judges.base import JudgeRequest
from evalgate.model import (
    Case,
    ConversationScenario,
    CriterionUse,
    Ending,
    Grade,
    Need,
    NotEvaluated,
    Persona,
    Reason,
    Score,
    TrialView,
)
from evalgate.model.deviations import under

QUALITY = "per_turn_user_simulator_quality_v1"
RUBRICS = "rubric_based_multi_turn_trajectory_quality_v1"
RUBRIC = {"rubric_id": "polite", "rubric_content": {"text_property": "The agent is polite."}}
FEW = {"judge_model_options": {"num_samples": 1}}


def evidence(
    *users: str, ended_by: Ending | None = Ending.STOP_SIGNAL, **scenario: object
) -> TrialView:
    led = ConversationScenario(
        **{"starting_prompt": "Hello.", "conversation_plan": "Book a table.", **scenario}
    )
    actual = tuple(turn(user, answer=f"answer to {user}") for user in users)
    return TrialView(
        case=Case(case_id="c", scenario=led), actual=actual, expected=None, ended_by=ended_by
    )


def grade(
    seen: TrialView, *verdicts: str, adk_compat: bool = False
) -> tuple[Grade, list[JudgeRequest]]:
    """`verdicts`: on the second message, the third ... and the end."""
    by_message: dict[str, str] = {}

    def say(request: JudgeRequest) -> str:
        last = request.prompt.rpartition("<<< next_message_of_the_user")[2]
        verdict = by_message.setdefault(last, verdicts[len(by_message)])
        return (
            verdict
            if verdict.startswith("<")
            else json.dumps({"rationale": "so", "verdict": verdict})
        )

    judge = ScriptedJudge(say)
    held = panel(judge, calls_at_once=1)
    use = CriterionUse(name=QUALITY, threshold=0.5, options=FEW)
    try:
        made = criteria.build(
            use, CriterionServices(deviations=under(adk_compat=adk_compat), judge=held)
        )(seen)
    finally:
        held.close()
    return made, judge.requests


@pytest.mark.parametrize(
    ("users", "verdicts", "turns"),
    [
        (["Hello."], ["valid"], (1.0,)),
        ([" Hello.\n"], ["valid"], (1.0,)),  # blanks around it do not count
        (["Hi."], ["valid"], (0.0,)),
        (["Hello.", "a", "b"], ["valid", "valid", "valid"], (1.0, 1.0, 1.0)),
        (["Hello.", "a", "b"], ["invalid", "valid", "valid"], (1.0, 0.0, 1.0)),
        # it should not have ended there
        (["Hello.", "a", "b"], ["valid", "valid", "invalid"], (1.0, 1.0, 0.0)),
        (["Hello."], ["invalid"], (0.0,)),
    ],
)
def test_every_message_and_the_end_are_judged(users, verdicts, turns):
    found, asked = grade(evidence(*users), *verdicts)
    assert isinstance(found, Score)
    assert found.turns == turns
    assert found.value == pytest.approx(sum(turns) / len(turns))
    assert len(asked) == len(users)  # nobody is asked about the first message
    assert all(finding.turn for finding in found.findings)


def test_a_conversation_that_was_cut_has_no_end_to_judge():
    found, asked = grade(evidence("Hello.", "a", ended_by=Ending.TURN_LIMIT), "valid")
    assert found.turns == (1.0, 1.0)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("seen", "verdicts", "reason"),
    [
        (evidence("Hello.", "a"), ["perhaps", "valid"], Reason.JUDGE_UNREADABLE),
        (evidence("Hello.", "a"), ["valid", "<unauthorized>"], Reason.CREDENTIALS_MISSING),
        (evidence(), [], Reason.NOTHING_RECORDED),
        (
            TrialView(case=Case(case_id="c", conversation=()), actual=(), expected=()),
            [],
            Reason.NOT_APPLICABLE,
        ),
    ],
)
def test_what_stays_unknown(seen, verdicts, reason):
    for adk_compat in (False, True):
        found, _ = grade(seen, *verdicts, adk_compat=adk_compat)
        if adk_compat and reason is Reason.JUDGE_UNREADABLE:
            assert isinstance(found, Score)  # ADK counts silence as 0
        else:
            assert isinstance(found, NotEvaluated)
            assert found.reason is reason


def test_what_a_judge_is_shown():
    _, asked = grade(evidence("Hello.", "For two.", "Bye."), "valid", "valid", "valid")
    # turns are judged side by side; later ones show more
    asked = sorted(asked, key=lambda each: len(each.prompt))
    second = asked[1]
    assert "Book a table." in second.prompt
    before, _, message = second.prompt.partition("<<< next_message_of_the_user")
    assert '{"agent": "answer to For two."}' in before
    assert "Bye." not in before
    assert "Bye." in message
    assert "</finished>" in second.system
    assert (
        asked[2].prompt.rpartition("<<< next_message_of_the_user")[2].splitlines()[1]
        == "</finished>"
    )


def test_with_a_persona_its_rubrics_are_the_faults():
    free, played = (
        grade(evidence("Hello.", "a", persona=who), "valid", "valid")[1][0]
        for who in (None, NOVICE)
    )
    assert "Tells too much" in free.system
    assert "Tells too much" not in played.system
    assert "before the agent has asked for it" in played.prompt


NOVICE = Persona(persona_id="NOVICE")


@pytest.mark.parametrize(
    ("ended_by", "expected"),
    [(Ending.STOP_SIGNAL, 1.0), (Ending.TURN_LIMIT, 0.0), (None, Reason.NOTHING_RECORDED)],
)
def test_how_a_conversation_ended(ended_by, expected):
    made = criteria.build(
        CriterionUse(name="conversation_ended", threshold=1.0), CriterionServices()
    )
    found = made(evidence("Hello.", ended_by=ended_by))
    assert (found.reason if isinstance(found, NotEvaluated) else found.value) == expected
    written = TrialView(case=Case(case_id="c", conversation=()), actual=(), expected=())
    assert made(written).value == 1.0  # its turns are written down: it ends with the last one


@pytest.mark.parametrize(
    "name",
    [
        "multi_turn_task_success_v1",
        "multi_turn_trajectory_quality_v1",
        "multi_turn_tool_use_quality_v1",
        RUBRICS,
    ],
)
def test_multi_turn_criteria_judge_simulated_conversations(name):
    """They need no expected turns: one judgement on all of the conversation, at its end."""

    def say(request: JudgeRequest) -> str:
        said = [{"id": f"P{number}", "rationale": "so", "verdict": "yes"} for number in range(1, 6)]
        return json.dumps({"verdicts": said})

    judge = ScriptedJudge(say)
    held = panel(judge)
    options = {**FEW, "judge": "llm"} if name != RUBRICS else {**FEW, "rubrics": [RUBRIC]}
    made = criteria.build(
        CriterionUse(name=name, threshold=0.5, options=options), CriterionServices(judge=held)
    )
    found = made(evidence("Hello.", "For two.", "At seven."))
    held.close()
    assert isinstance(found, Score), found
    assert (found.value, found.turns) == (1.0, (None, None, 1.0))
    assert all("For two." in request.prompt for request in judge.requests)


@pytest.mark.parametrize(
    "name", [name for name, spec in criteria.CRITERIA.items() if Need.REFERENCE in spec.needs]
)
def test_criteria_that_compare_know_no_score_of_a_simulated_conversation(name):
    """The linter refuses such a file; should one get by, it is no 0 and no pass."""
    held = panel(ScriptedJudge(lambda _: "nothing"))
    found = criteria.build(CriterionUse(name=name, threshold=0.5), CriterionServices(judge=held))(
        evidence("Hello.")
    )
    held.close()
    assert isinstance(found, NotEvaluated)
    assert found.reason is Reason.REFERENCE_MISSING
