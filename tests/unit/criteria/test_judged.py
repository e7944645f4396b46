"""Judged criteria: what is asked, what comes of it, and what stays unknown."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from builders.build import call, case, text, turn
from builders.judging import ScriptedJudge, panel

from evalgate import criteria
from evalgate.criteria.base import CriterionServices
from evalgate.criteria.judged import JudgedOptions
from evalgate.judges.base import JudgeRequest
from evalgate.model import (
    AgentDetails,
    Case,
    Content,
    ConversationScenario,
    CriterionUse,
    Event,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Rubric,
    Score,
    Text,
    TrialView,
)
from evalgate.model.deviations import under
from evalgate.results import shapes

MATCH = "final_response_match_v2"
ANSWER = "rubric_based_final_response_quality_v1"
TOOLS = "rubric_based_tool_use_quality_v1"
CONVERSATION = "rubric_based_multi_turn_trajectory_quality_v1"
HALLUCINATIONS = "hallucinations_v1"
SAFETY = "safety_v1"
COHERENCE = "response_evaluation_score"
SUCCESS = "multi_turn_task_success_v1"
JUDGED = [
    name for name, spec in criteria.CRITERIA.items() if issubclass(spec.options, JudgedOptions)
]

Script = Callable[[JudgeRequest], str]


def say(*replies: str) -> Script:
    """Sample n gets the n-th reply, whatever the question; the last one is repeated."""
    return lambda request: replies[min(request.sample, len(replies) - 1)]


def valid(label: str, rationale: str = "because") -> str:
    return json.dumps({"rationale": rationale, "verdict": label})


def verdicts(**by_name: str) -> str:
    """`verdicts(P1="yes")`, or of sentences `verdicts(S1="supported")`."""
    key = "label" if all(name.startswith("S") for name in by_name) else "verdict"
    return json.dumps(
        {
            "verdicts": [
                {"id": name, "rationale": f"{name}!", key: word} for name, word in by_name.items()
            ]
        }
    )


def rubric(rubric_id: str, body: str = "", kind: str | None = None) -> Rubric:
    return Rubric(rubric_id=rubric_id, text=body or f"It is {rubric_id}.", type=kind)


def written(*rubrics: Rubric) -> dict[str, Any]:
    return {
        "rubrics": [
            {"rubric_id": each.rubric_id, "rubric_content": {"text_property": each.text}}
            for each in rubrics
        ]
    }


def grade(
    name: str,
    scripted: ScriptedJudge,
    /,
    actual: Sequence[Invocation],
    expected: Sequence[Invocation] | None = None,
    *,
    of: Case | None = None,
    adk_compat: bool = False,
    repeat: int = 0,
    **options: Any,
) -> Grade:
    held = panel(scripted)
    evidence = TrialView(
        case=of or case("c"),
        actual=tuple(actual),
        expected=None if expected is None else tuple(expected),
        repeat=repeat,
    )
    try:
        services = CriterionServices(judge=held, deviations=under(adk_compat=adk_compat))
        found = criteria.build(CriterionUse(name=name, threshold=0.5, options=options), services)(
            evidence
        )
    finally:
        held.close()
    # all of it is kept
    assert shapes.parse_grade(json.loads(json.dumps(shapes.grade_json(found)))) == found
    return found


def score(found: Grade) -> float:
    assert isinstance(found, Score), found
    return found.value


def reason(found: Grade) -> tuple[Reason, str]:
    assert isinstance(found, NotEvaluated), found
    return found.reason, found.message


ONE = turn("how much?", answer="seven")
REFERENCE = turn("how much?", answer="7")


# --- final_response_match_v2 ----------------------------------------------------------------------


def test_the_answer_is_judged_and_every_sample_kept() -> None:
    judge = ScriptedJudge(
        say(valid("valid", "first"), valid("invalid", "no"), valid("Valid"), valid("valid"))
    )
    found = grade(MATCH, judge, [ONE], [REFERENCE])
    assert score(found) == 1.0
    (finding,) = found.findings
    assert (finding.label, finding.text, finding.turn, finding.score) == ("valid", "first", 1, 1.0)
    assert [each.label for each in finding.opinions] == ["valid", "invalid", "valid", "valid"]
    assert finding.spared == 1  # four of five decide: the fifth could not have changed it
    assert len(judge.requests) == 4


def test_what_the_judge_is_asked() -> None:
    judge = ScriptedJudge(say(valid("valid")))
    options = {
        "judge_model": "gemini-9",
        "num_samples": 1,
        "judge_model_config": {"temperature": 0},
    }
    said = Event(
        author="agent",
        content=Content(parts=(Text(text="hm", thought=True), Text(text="let me look"))),
    )
    actual = Invocation(
        user_content=text("how much?"), final_response=text("seven"), events=(said,)
    )
    grade(
        MATCH,
        judge,
        [actual],
        [REFERENCE],
        judge_model_options=options,
        include_intermediate_responses_in_final=True,
    )
    (asked,) = judge.requests
    assert (asked.model, asked.config, asked.asker.criterion, asked.asker.version) == (
        "gemini-9",
        {"temperature": 0},
        MATCH,
        "2",
    )
    assert asked.schema is not None
    assert "let me look\nseven" in asked.prompt
    assert "hm" not in asked.prompt
    assert "seven" not in asked.system


@pytest.mark.parametrize(
    "written_as",
    [
        {"system_instruction": "Be strict."},
        {"systemInstruction": "Be strict."},
        {"system_instruction": {"parts": [{"text": "Be strict."}], "role": "user"}},
        {"system_instruction": {"text": "Be strict."}},
        {"system_instruction": ["Be", {"text": "strict."}]},
    ],
)
def test_a_system_instruction_is_added_to_the_rules(written_as: dict[str, Any]) -> None:
    judge = ScriptedJudge(say(valid("valid")))
    for config in ({}, written_as):
        options = {"num_samples": 1, "judge_model_config": {"temperature": 0, **config}}
        grade(MATCH, judge, [ONE], [REFERENCE], judge_model_options=options)
    without, asked = judge.requests
    # at one provider it would replace the rules, another refuses it
    assert asked.config == {"temperature": 0}
    assert asked.system.startswith(without.system)
    assert asked.system.removeprefix(without.system).split() == ["Be", "strict."]


def test_turns_without_a_reference_are_left_out_and_silence_is_invalid() -> None:
    judge = ScriptedJudge(say(valid("valid")))
    silent, unasked = turn("b"), turn("c", answer="x")
    found = grade(MATCH, judge, [ONE, silent, unasked], [REFERENCE, REFERENCE, turn("c")])
    assert score(found) == 0.5
    assert found.turns == (1.0, 0.0, None)
    # nobody was asked about the other two
    assert all("how much?" in asked.prompt for asked in judge.requests)
    assert reason(grade(MATCH, judge, [ONE], [turn("a")]))[0] is Reason.REFERENCE_MISSING
    assert reason(grade(MATCH, judge, [ONE], None))[0] is Reason.REFERENCE_MISSING
    assert reason(grade(MATCH, judge, [ONE], [REFERENCE, REFERENCE]))[0] is Reason.TURNS_MISSING


@pytest.mark.parametrize(
    ("replies", "value"),
    [
        (["<timeout>", valid("valid")], 1.0),  # one raising sample does not void its turn
        (["what?", valid("valid")], 1.0),  # nor does one that cannot be read
        ([valid("maybe"), valid("invalid")], 0.0),
        # a tie is a no
        ([valid("maybe"), valid("maybe"), valid("maybe"), valid("valid"), valid("invalid")], 0.0),
    ],
)
def test_votes(replies: list[str], value: float) -> None:
    assert score(grade(MATCH, ScriptedJudge(say(*replies)), [ONE], [REFERENCE])) == value


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<timeout>", Reason.JUDGE_UNAVAILABLE),
        ("<rate_limited>", Reason.JUDGE_UNAVAILABLE),
        ("<blocked>", Reason.JUDGE_UNAVAILABLE),
        ("<unauthorized>", Reason.CREDENTIALS_MISSING),
        ("<forbidden>", Reason.CREDENTIALS_MISSING),
        (valid("partially valid"), Reason.JUDGE_UNREADABLE),
        ("no idea", Reason.JUDGE_UNREADABLE),
    ],
)
@pytest.mark.parametrize("name", [MATCH, ANSWER, SAFETY])
def test_without_a_verdict_there_is_no_score(reply: str, expected: Reason, name: str) -> None:
    options = written(rubric("a")) if name == ANSWER else {"judge": "llm"} if name == SAFETY else {}
    assert (
        reason(grade(name, ScriptedJudge(say(reply)), [ONE], [REFERENCE], **options))[0] is expected
    )


def test_one_unknown_turn_leaves_the_score_unknown_and_keeps_the_rest() -> None:
    judge = ScriptedJudge(
        lambda asked: valid("valid") if "how much?" in asked.prompt else "<bad_request>"
    )
    found = grade(MATCH, judge, [ONE, turn("b", answer="x")], [REFERENCE, turn("b", answer="y")])
    assert reason(found)[0] is Reason.JUDGE_UNAVAILABLE
    assert str(reason(found)[1]).startswith("turn 2: ")
    assert found.turns == (1.0, None)
    assert [finding.label for finding in found.findings] == ["valid", ""]
    as_adk = grade(
        MATCH,
        judge,
        [ONE, turn("b", answer="x")],
        [REFERENCE, turn("b", answer="y")],
        adk_compat=True,
    )
    assert score(as_adk) == 1.0
    assert isinstance(as_adk, Score)
    assert str(as_adk.lacking).startswith("turn 2: ")  # which reports tell of, where it passes


# --- rubrics --------------------------------------------------------------------------------------


def test_each_turn_is_judged_by_its_own_rubrics() -> None:
    first = turn("one", answer="1")
    expected = [
        Invocation(
            user_content=text("one"), rubrics=(rubric("a"), rubric("tool", kind="TOOL_USE_QUALITY"))
        ),
        Invocation(
            user_content=text("two"),
            rubrics=(rubric("b", kind="FINAL_RESPONSE_QUALITY"), rubric("c")),
        ),
    ]
    judge = ScriptedJudge(
        lambda asked: (
            verdicts(P1="no") if "It is a." in asked.prompt else verdicts(P1="yes", P2="yes")
        )
    )
    found = grade(ANSWER, judge, [first, turn("two", answer="2")], expected)
    assert found.turns == (0.0, 1.0)
    assert score(found) == pytest.approx(2 / 3)  # pooled over rubrics, as in ADK
    assert [(each.turn, each.subject, each.label) for each in found.findings] == [
        (1, "It is a.", "no"),
        (2, "It is b.", "yes"),
        (2, "It is c.", "yes"),
    ]
    assert "It is tool." not in "".join(asked.prompt for asked in judge.requests)


def test_rubrics_of_criterion_case_and_turn_come_together() -> None:
    judge = ScriptedJudge(say(verdicts(P1="yes", P2="yes", P3="no")))
    of = Case(case_id="c", rubrics=(rubric("b"), rubric("x", kind="TRAJECTORY_QUALITY")))
    expected = Invocation(user_content=text("q"), rubrics=(rubric("c"), rubric("b")))
    found = grade(ANSWER, judge, [ONE], [expected], of=of, **written(rubric("a")))
    assert [each.subject for each in found.findings] == ["It is a.", "It is b.", "It is c."]
    assert score(found) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (("a", "b"), ("P1", "P2")),
        (("P1", "P2"), ("P1", "P2")),  # each is called what it is
        (("P2", "P1"), ("PP1", "PP2")),  # P1 would be the name of one and the id of the other
        (("p2.", '"P1"'), ("PP1", "PP2")),  # as a judge may write them
        (("P2", "PP1"), ("PPP1", "PPP2")),
        (("P1", "p1"), ("PP1", "PP2")),
    ],
)
def test_no_name_that_is_made_up_is_the_id_of_another_rubric(
    ids: tuple[str, str], names: tuple[str, str]
) -> None:
    """Whether the judge answers by the name or by the id, in whatever order, each verdict is its
    own rubric's."""
    for written_as in (names, ids):
        said = [
            {"id": name, "rationale": "so", "verdict": word}
            for name, word in zip(written_as, ("yes", "no"), strict=True)
        ]
        judge = ScriptedJudge(say(json.dumps({"verdicts": said[::-1]})))
        found = grade(ANSWER, judge, [ONE], **written(*(rubric(each) for each in ids)))
        assert [(each.subject, each.label) for each in found.findings] == [
            (f"It is {ids[0]}.", "yes"),
            (f"It is {ids[1]}.", "no"),
        ]
        assert all(f'"name": "{name}"' in judge.requests[0].prompt for name in names)


def test_options_in_adks_other_spelling() -> None:
    judge = ScriptedJudge(say(verdicts(P1="yes")))
    given = [{"rubricId": "a", "rubricContent": {"textProperty": "It is a."}}]
    options = {"judgeModelOptions": {"judgeModel": "gemini-9", "numSamples": 1}, "rubrics": given}
    assert score(grade(ANSWER, judge, [ONE], **options)) == 1.0
    assert [asked.model for asked in judge.requests] == ["gemini-9"]


def test_rubrics_that_clash_or_are_missing() -> None:
    judge = ScriptedJudge(say(verdicts(P1="yes")))
    of = Case(case_id="c", rubrics=(rubric("a", "another text"),))
    assert reason(grade(ANSWER, judge, [ONE], of=of, **written(rubric("a")))) == (
        Reason.CRITERION_FAILED,
        "two rubrics have the id `a`: rename one of them",
    )
    for name in (ANSWER, TOOLS, CONVERSATION):
        assert reason(grade(name, judge, [ONE]))[0] is Reason.RUBRICS_MISSING
    assert judge.requests == []


def test_a_forgotten_rubric_is_asked_for_again() -> None:
    def forgetful(asked: JudgeRequest) -> str:
        return verdicts(P2="no") if "left out P2." in asked.prompt else verdicts(P1="yes")

    judge = ScriptedJudge(forgetful)
    found = grade(
        ANSWER,
        judge,
        [ONE],
        judge_model_options={"num_samples": 1},
        **written(rubric("a"), rubric("b")),
    )
    assert score(found) == 0.5
    assert len(judge.requests) == 2


def test_a_rubric_forgotten_twice_is_unknown_never_absent() -> None:
    found = grade(
        ANSWER, ScriptedJudge(say(verdicts(P1="yes"))), [ONE], **written(rubric("a"), rubric("b"))
    )
    assert reason(found)[0] is Reason.JUDGE_UNREADABLE
    assert "`b`" in reason(found)[1]
    assert [(each.subject, each.label) for each in found.findings] == [
        ("It is a.", "yes"),
        ("It is b.", ""),
    ]
    compat = grade(
        ANSWER,
        ScriptedJudge(say(verdicts(P1="yes"))),
        [ONE],
        adk_compat=True,
        **written(rubric("a"), rubric("b")),
    )
    assert score(compat) == 1.0  # ADK's own fault
    assert isinstance(compat, Score)
    assert "`b`" in compat.lacking


def test_tool_use_needs_recorded_steps() -> None:
    judge = ScriptedJudge(say(verdicts(P1="yes")))
    unseen = Invocation(user_content=text("q"), final_response=text("a"))
    assert (
        reason(grade(TOOLS, judge, [unseen], **written(rubric("a"))))[0] is Reason.NOTHING_RECORDED
    )
    seen = turn("q", call("search", city="Oslo"), answer="a")
    assert score(grade(TOOLS, judge, [seen], **written(rubric("a")))) == 1.0
    assert '"city": "Oslo"' in judge.requests[-1].prompt


def test_a_conversation_is_judged_once_by_the_rubrics_of_all_turns() -> None:
    judge = ScriptedJudge(say(verdicts(P1="yes", P2="no")))
    early = Invocation(
        user_content=text("one"), rubrics=(rubric("early", kind="TRAJECTORY_QUALITY"),)
    )
    late = Invocation(user_content=text("two"), rubrics=(rubric("late"),))
    actual = [turn("one", call("a"), answer="1"), turn("two", answer="2")]
    found = grade(
        CONVERSATION, judge, actual, [early, late], judge_model_options={"num_samples": 1}
    )
    assert score(found) == 0.5
    assert found.turns == (None, 0.5)
    (asked,) = judge.requests
    assert '"tool_call": "a"' in asked.prompt


def test_an_unknown_agent_answers() -> None:
    stranger = Invocation(
        user_content=text("q"),
        final_response=text("a"),
        events=(Event(author="sub", content=text("hm")),),
        agents=(AgentDetails(name="root", instructions="be kind"),),
    )
    judge = ScriptedJudge(say(verdicts(P1="yes")))
    assert score(grade(ANSWER, judge, [stranger], **written(rubric("a")))) == 1.0


# --- hallucinations_v1 ----------------------------------------------------------------------------


def hallucinating(*labels: str, segments: str = "") -> Script:
    """Takes a text apart at its lines, and gives sentence n the n-th label."""

    def script(asked: JudgeRequest) -> str:
        if "<<< agent_text" in asked.prompt:
            inside = asked.prompt.split("<<< agent_text")[1].split("\n", 1)[1].split("\n>>>")[0]
            return segments or "I see " + "".join(
                f"<sentence>{line}</sentence>" for line in inside.split("\n")
            )
        return verdicts(**{f"S{number}": label for number, label in enumerate(labels, start=1)})

    return script


def test_sentences_are_checked_one_by_one() -> None:
    judge = ScriptedJudge(hallucinating("supported", "Not applicable", "contradictory", "disputed"))
    found = grade(HALLUCINATIONS, judge, [turn("q", answer="A.\nB!\nC.\nD.")])
    assert score(found) == 0.5
    assert [(each.subject, each.label, each.score) for each in found.findings] == [
        ("A.", "supported", 1.0),
        ("B!", "not_applicable", 1.0),
        ("C.", "contradictory", 0.0),
        ("D.", "disputed", 0.0),
    ]
    # num_samples counts, with early stop; ADK asks once whatever it says
    assert len(judge.requests) == 1 + 3


def test_intermediate_texts_have_what_was_known_before_them() -> None:
    events = (
        Event(author="a", content=text("I will look.")),
        *turn("q", call("search", q="x")).events,  # type: ignore[misc]  # a turn made with a call has events
        Event(author="a", content=text("Found it.")),
    )
    actual = Invocation(user_content=text("q"), final_response=text("Done."), events=events)
    judge = ScriptedJudge(hallucinating("supported"))
    options = {
        "judge_model_options": {"num_samples": 1},
        "evaluate_intermediate_nl_responses": True,
    }
    assert score(grade(HALLUCINATIONS, judge, [actual], **options)) == 1.0
    contexts = [asked.prompt for asked in judge.requests if "<<< sentences" in asked.prompt]
    assert sorted("search" in each for each in contexts) == [False, True, True]
    assert len(contexts) == 3


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (say("no tags here"), Reason.JUDGE_UNREADABLE),  # which ADK leaves out of the mean
        (say("<timeout>"), Reason.JUDGE_UNAVAILABLE),
        (hallucinating("supported"), Reason.JUDGE_UNREADABLE),  # the second sentence was forgotten
        (hallucinating("supported", "likely"), Reason.JUDGE_UNREADABLE),
    ],
)
def test_a_text_that_cannot_be_checked_leaves_the_score_unknown(
    script: Script, expected: Reason
) -> None:
    assert (
        reason(grade(HALLUCINATIONS, ScriptedJudge(script), [turn("q", answer="A.\nB.")]))[0]
        is expected
    )


def test_a_turn_without_text_is_left_out() -> None:
    judge = ScriptedJudge(hallucinating("supported"))
    found = grade(HALLUCINATIONS, judge, [turn("q"), turn("q", answer="A.")])
    assert (score(found), found.turns) == (1.0, (None, 1.0))
    assert reason(grade(HALLUCINATIONS, judge, [turn("q")]))[0] is Reason.NOTHING_RECORDED


# --- Google Cloud's service, and the judge that stands in for it ----------------------------------


def service(**by_answer: Any) -> Script:
    """What the service says of a body that holds a word."""

    def script(asked: JudgeRequest) -> str:
        json.loads(asked.prompt)  # the question is a body
        return next(
            reply if isinstance(reply, str) else json.dumps({"metricResults": [reply]})
            for word, reply in by_answer.items()
            if f'"{word}"' in asked.prompt
        )

    return script


def test_safety_asks_the_service_once_a_turn() -> None:
    judge = ScriptedJudge(
        service(seven={"score": 1.0, "explanation": "harmless"}, bomb={"score": 0.0})
    )
    found = grade(SAFETY, judge, [ONE, turn("b", answer="bomb")])
    assert score(found) == 0.5
    assert [finding.text for finding in found.findings] == ["harmless"]
    asked = judge.requests[0]
    assert asked.model == "vertex_evaluation/safety_v1"
    assert json.loads(asked.prompt)["metrics"] == [
        {"predefinedMetricSpec": {"metricSpecName": "safety_v1"}}
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<unauthorized>", Reason.CREDENTIALS_MISSING),
        ("<timeout>", Reason.JUDGE_UNAVAILABLE),
        ({"error": {"message": "quota"}}, Reason.JUDGE_UNREADABLE),
        ("not json", Reason.JUDGE_UNREADABLE),
        ('{"metricResults": [{"score": NaN}]}', Reason.JUDGE_UNREADABLE),
    ],
)
def test_a_service_without_a_score_is_unknown(reply: Any, expected: Reason) -> None:
    judge = ScriptedJudge(service(seven=reply, bomb={"score": 1.0}))
    found = grade(SAFETY, judge, [ONE, turn("b", answer="bomb")])
    assert reason(found)[0] is expected
    # nobody who was refused is asked about the next turn
    if expected is not Reason.CREDENTIALS_MISSING:
        assert found.turns == (None, 1.0)


def test_adk_leaves_out_turns_without_a_score_but_not_a_service_that_fails() -> None:
    actual = [ONE, turn("b", answer="bomb")]
    unscored = ScriptedJudge(service(seven={"score": None}, bomb={"score": 1.0}))
    found = grade(SAFETY, unscored, actual, adk_compat=True)
    assert score(found) == 1.0
    assert isinstance(found, Score)
    assert str(found.lacking).startswith("turn 1: ")
    failing = ScriptedJudge(service(seven="<timeout>", bomb={"score": 1.0}))
    assert reason(grade(SAFETY, failing, actual, adk_compat=True))[0] is Reason.JUDGE_UNAVAILABLE


def test_coherence_is_on_its_own_scale() -> None:
    judge = ScriptedJudge(
        say(json.dumps({"coherenceResult": {"score": 4.0, "explanation": "smooth"}}))
    )
    found = grade(COHERENCE, judge, [ONE], expected=[REFERENCE])
    assert score(found) == 4.0
    assert json.loads(judge.requests[0].prompt)["coherenceInput"]["instance"] == {
        "prediction": "seven"
    }


def test_a_conversation_goes_to_the_service_whole() -> None:
    verdict = {
        "evaluatedRubric": {"content": {"property": {"description": "books"}}},
        "reasoning": "never did",
    }
    judge = ScriptedJudge(
        say(json.dumps({"metricResults": [{"score": 0.5, "rubricVerdicts": [verdict]}]}))
    )
    found = grade(SUCCESS, judge, [turn("one", call("a"), answer="1"), turn("two", answer="2")])
    assert (score(found), found.turns) == (0.5, (None, 0.5))
    assert [(each.subject, each.label, each.text) for each in found.findings] == [
        ("books", "no", "never did")
    ]
    body = json.loads(judge.requests[0].prompt)["instance"]["agentData"]
    assert [each["turnIndex"] for each in body["turns"]] == [0, 1]
    assert [event["author"] for event in body["turns"][0]["events"]] == ["user", "agent", "agent"]


def test_tools_that_are_declared_by_name_alone_stand_in_no_ones_way() -> None:
    agents = (
        AgentDetails(name="desk", tool_declarations=("search_by_name", {"name": "book"}, None)),
    )
    asked = dataclasses.replace(turn("one", answer="1"), agents=agents)
    rubrics = [{"rubric_id": "r", "rubric_content": {"text_property": "p"}}]
    for name in (ANSWER, TOOLS, CONVERSATION):
        judge = ScriptedJudge(say("?"))
        assert isinstance(grade(name, judge, [asked], rubrics=rubrics), NotEvaluated)
        assert any("search_by_name" in request.prompt for request in judge.requests), name
    served = ScriptedJudge(say(json.dumps({"metricResults": [{"score": 1.0}]})))
    assert score(grade(SUCCESS, served, [asked])) == 1.0
    body = json.loads(served.requests[0].prompt)["instance"]["agentData"]
    assert body["agents"]["desk"]["tools"] == [{"name": "book"}]  # the service takes objects alone


def test_a_stand_in_says_so() -> None:
    safe = grade(SAFETY, ScriptedJudge(say(valid("safe"))), [ONE, turn("b")], judge="llm")
    assert score(safe) == 1.0
    assert safe.turns == (1.0, None)
    assert safe.findings[0].label == "stand-in"
    assert "`gemini-2.5-flash`" in safe.findings[0].text
    grades = ScriptedJudge(say(valid("5"), valid("2"), valid("3"), "what?", valid("4")))
    # the median of 5, 2, 3 and 4
    assert score(grade(COHERENCE, grades, [ONE], [REFERENCE], judge="llm")) == 3.5
    held = ScriptedJudge(say(verdicts(P1="yes", P2="no", P3="yes")))
    assert score(grade(SUCCESS, held, [ONE], judge="llm")) == pytest.approx(2 / 3)
    lacking = grade(SUCCESS, ScriptedJudge(say("<timeout>")), [ONE], judge="llm")
    assert reason(lacking)[0] is Reason.JUDGE_UNAVAILABLE
    assert lacking.findings[0].label == "stand-in"


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JUDGED)
def test_without_a_judge_they_are_skipped(name: str) -> None:
    built = criteria.build(CriterionUse(name=name, threshold=0.5), CriterionServices())
    assert (
        reason(built(TrialView(case=case("c"), actual=(ONE,), expected=(REFERENCE,))))[0]
        is Reason.SKIPPED
    )


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize("adk_compat", [False, True])
def test_nothing_to_judge_is_no_score(name: str, adk_compat: bool) -> None:
    judge = ScriptedJudge(say("unused"))
    assert isinstance(grade(name, judge, [], [], adk_compat=adk_compat), NotEvaluated)
    assert isinstance(
        grade(name, judge, [ONE], [REFERENCE, REFERENCE], adk_compat=adk_compat), NotEvaluated
    )
    assert judge.requests == []


@pytest.mark.parametrize("name", [name for name in JUDGED if not name.startswith("ces_")])
def test_every_run_of_a_case_is_asked_about_for_itself(name: str) -> None:
    scenario = ConversationScenario(
        starting_prompt="how much?", conversation_plan="Ask for a price."
    )
    of = dataclasses.replace(case("c"), scenario=scenario, rubrics=(rubric("a"),))
    seen = [turn("how much?", call("price"), answer="seven")] * 2
    judge = ScriptedJudge(say("what no criterion can read"))
    grade(name, judge, seen, seen, of=of, repeat=7)
    assert {asked.repeat for asked in judge.requests} == {7}, (
        "every question, the repeated ones among them"
    )


def test_nineteen_criteria_ask_a_judge() -> None:
    assert len(JUDGED) == 19
