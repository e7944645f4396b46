"""What an evaluation says of a conversation: every rule of a golden and of a scenario is a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import template_words
from builders.ces_evidence import judge_by, question_key
from google.cloud import ces_v1beta
from google.protobuf import json_format

from evalgate.model import Content, Event, Invocation, Text, ToolCall, ToolResponse
from evalgate.wings.ces import outcomes
from evalgate.wings.ces.outcomes import Plan, QuestionKind, Verdict
from evalgate.wings.ces.shapes import (
    Evaluation,
    EvaluationMetricsConfig,
    EvaluationMetricsThresholds,
    Outcome,
)

DATA = Path(__file__).parents[3] / "data" / "ces"
APP = "projects/p/locations/l/apps/desk"
PASS, FAIL, SKIPPED, ERROR = Outcome.PASS, Outcome.FAIL, Outcome.SKIPPED, None


def did(
    said: str | None = None,
    *calls: ToolCall | ToolResponse | str,
    state: Any = None,
    recorded: bool = True,
) -> Invocation:
    """What the agent did in a turn; a text among the calls is said on the way."""
    events = []
    for each in calls:
        part = Text(text=each) if isinstance(each, str) else each
        events.append(Event(author="desk", content=Content(parts=(part,))))
    answer = None if said is None else Content(parts=(Text(text=said),))
    steps = tuple(events) if recorded else None
    return Invocation(user_content=Content(), final_response=answer, events=steps, state=state)


def tool(name: str, **args: Any) -> dict[str, Any]:
    return {"toolCall": {"tool": f"{APP}/tools/{name}", **({"args": args} if args else {})}}


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"agentResponse": {"chunks": [{"text": text}]}, **more}


def called(name: str, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args)


def match(kind: str, value: Any = None) -> dict[str, Any]:
    return {
        "$matchType": kind,
        **({} if value is None else {"$originalValue": value}),
        "$matchValue": "",
    }


def golden(
    *expected: dict[str, Any],
    turn: Any = None,
    thresholds: Any = None,
    config: Any = None,
    app: Any = None,
) -> Plan:
    """A golden of one turn."""
    steps = [{"userInput": {"text": "Hi"}}, *({"expectation": each} for each in expected)]
    raw = {"displayName": "g", "golden": {"turns": [{"steps": steps, **(turn or {})}]}}
    if thresholds:
        raw["evaluationMetricsThresholdOverride"] = thresholds
    if config:
        raw["evaluationMetricsConfigOverride"] = {"goldenMetricsConfig": config}
    app = app or {}
    return Plan(
        evaluation=Evaluation.model_validate(raw),
        thresholds=EvaluationMetricsThresholds.model_validate(app.get("thresholds", {})),
        config=EvaluationMetricsConfig.model_validate(app.get("config", {})),
    )


def of_turn(similarity: int | None = None, **more: Any) -> dict[str, Any]:
    levels = {} if similarity is None else {"semanticSimilaritySuccessThreshold": similarity}
    return {"goldenEvaluationMetricsThresholds": {"turnLevelMetricsThresholds": {**levels, **more}}}


def parameters(value: float) -> dict[str, Any]:
    return {"toolInvocationParameterCorrectnessThreshold": value}


def of_parameters(value: float) -> dict[str, Any]:
    return {
        "goldenEvaluationMetricsThresholds": {
            "expectationLevelMetricsThresholds": parameters(value)
        }
    }


def extra(value: str) -> dict[str, Any]:
    return {
        "goldenEvaluationMetricsThresholds": {
            "toolMatchingSettings": {"extraToolCallBehavior": value}
        }
    }


ANSWER = says("Hello", comparisonType="EQUALS")
FIND = tool("find", id="a", weeks=3)
SWITCHED_OFF: dict[str, Any] = {}

GOLDENS: list[tuple[str, Plan, Invocation, Any, dict[Any, int | None]]] = [
    # answers as text
    ("equal", golden(ANSWER), did("Hello"), PASS, {}),
    ("equal but for blanks around", golden(ANSWER), did("Hello\n"), PASS, {}),
    ("not equal", golden(ANSWER), did("Hello!"), FAIL, {}),
    ("equal is the last of two messages", golden(ANSWER), did("Hello", "Let me see"), PASS, {}),
    ("contained", golden(says("ell", comparisonType="CONTAINS")), did("Hello"), PASS, {}),
    (
        "contained in what is said on the way",
        golden(says("ell", comparisonType="CONTAINS")),
        did("Bye", "Hello"),
        FAIL,
        {},
    ),
    ("equal to what is said on the way", golden(ANSWER), did("Bye", "Hello"), FAIL, {}),
    ("equal at last", golden(ANSWER), did("Hello", "One moment."), PASS, {}),
    (
        "contained across messages",
        golden(says("o\nB", comparisonType="CONTAINS")),
        did("Bye", "Hello"),
        FAIL,
        {},
    ),
    (
        "contained in another case",
        golden(says("ELL", comparisonType="CONTAINS")),
        did("Hello"),
        FAIL,
        {},
    ),
    ("no answer", golden(ANSWER), did(), FAIL, {}),
    (
        "an answer that nothing expects",
        golden(tool("find")),
        did("Hello", called("find")),
        FAIL,
        {},
    ),
    (
        "nothing is expected and nothing said",
        golden(tool("find")),
        did(None, called("find")),
        PASS,
        {},
    ),
    (
        "a skipped answer expects any",
        golden(FIND, says("x", skipEvaluation=True)),
        did("y", called("find", id="a", weeks=3)),
        PASS,
        {},
    ),
    ("all is skipped", golden(says("x", skipEvaluation=True)), did("y"), SKIPPED, {}),
    (
        "an answer without words",
        golden({"agentResponse": {"chunks": [{"payload": {"a": 1}}]}}),
        did("y"),
        SKIPPED,
        {},
    ),
    # answers by meaning: 0 to 4
    ("similar enough", golden(says("Hi")), did("Hello"), PASS, {("answer", 1): 3}),
    ("not similar enough", golden(says("Hi")), did("Hello"), FAIL, {("answer", 1): 2}),
    (
        "named as such",
        golden(says("Hi", comparisonType="SEMANTIC_SIMILARITY")),
        did("Hello"),
        FAIL,
        {("answer", 1): 2},
    ),
    ("no verdict is an error", golden(says("Hi")), did("Hello"), ERROR, {("answer", 1): None}),
    ("nobody asked is an error", golden(says("Hi")), did("Hello"), ERROR, {}),
    ("silence needs no judge", golden(says("Hi")), did(), FAIL, {}),
    ("an error stays one beside a failure", golden(says("Hi"), FIND), did("Hello"), ERROR, {}),
    (
        "switched off",
        golden(says("Hi"), config={"semanticSimilarityMetricsConfig": {}}),
        did("x"),
        SKIPPED,
        {},
    ),
    (
        "switched on for one",
        golden(
            says(
                "Hi",
                agentResponseSemanticSimilarityMetricsConfigOverride={
                    "enableSemanticSimilarityMetrics": True
                },
            ),
            config={"semanticSimilarityMetricsConfig": {}},
        ),
        did("x"),
        FAIL,
        {("answer", 1): 1},
    ),
    (
        "switched off by the app",
        golden(
            says("Hi"),
            app={"config": {"goldenMetricsConfig": {"semanticSimilarityMetricsConfig": {}}}},
        ),
        did("x"),
        SKIPPED,
        {},
    ),
    # the turn's threshold before the evaluation's before the app's before 3
    (
        "lowered for the turn",
        golden(
            says("Hi"),
            turn={"turnLevelMetricsThresholdsOverride": {"semanticSimilaritySuccessThreshold": 2}},
            thresholds=of_turn(4),
        ),
        did("x"),
        PASS,
        {("answer", 1): 2},
    ),
    (
        "raised by the evaluation",
        golden(says("Hi"), thresholds=of_turn(4), app={"thresholds": of_turn(1)}),
        did("x"),
        FAIL,
        {("answer", 1): 3},
    ),
    (
        "lowered by the app",
        golden(says("Hi"), app={"thresholds": of_turn(1)}),
        did("x"),
        PASS,
        {("answer", 1): 1},
    ),
    (
        "0 of the evaluation counts",
        golden(says("Hi"), thresholds=of_turn(0), app={"thresholds": of_turn(4)}),
        did("x"),
        PASS,
        {("answer", 1): 0},
    ),
    # tool calls
    ("called", golden(FIND), did(None, called("find", id="a", weeks=3)), PASS, {}),
    ("3 is 3.0", golden(FIND), did(None, called("find", id="a", weeks=3.0)), PASS, {}),
    ("true is not 1", golden(tool("find", all=1)), did(None, called("find", all=True)), FAIL, {}),
    (
        "more arguments than expected",
        golden(FIND),
        did(None, called("find", id="a", weeks=3, more=1)),
        PASS,
        {},
    ),
    ("an argument is another", golden(FIND), did(None, called("find", id="a", weeks=2)), FAIL, {}),
    ("an argument is missing", golden(FIND), did(None, called("find", id="a")), FAIL, {}),
    (
        "half is enough for it",
        golden(
            {**FIND, "expectationLevelMetricsThresholdsOverride": parameters(0.5)},
            thresholds=of_parameters(1),
        ),
        did(None, called("find", id="a")),
        PASS,
        {},
    ),
    (
        "half is enough for the evaluation",
        golden(FIND, thresholds=of_parameters(0.5), app={"thresholds": of_parameters(1)}),
        did(None, called("find", id="a")),
        PASS,
        {},
    ),
    (
        "half is enough for the app",
        golden(FIND, app={"thresholds": of_parameters(0.5)}),
        did(None, called("find", id="a")),
        PASS,
        {},
    ),
    ("not called", golden(FIND), did(), FAIL, {}),
    ("another is called", golden(FIND), did(None, called("renew", id="a", weeks=3)), FAIL, {}),
    (
        "without parameters it is called or not",
        golden(tool("find")),
        did(None, called("find", any=1)),
        PASS,
        {},
    ),
    (
        "a toolset's tool",
        golden(
            {"toolCall": {"toolsetTool": {"toolset": f"{APP}/toolsets/desk", "toolId": "find"}}}
        ),
        did(None, called("desk_find")),
        PASS,
        {},
    ),
    (
        "two calls find their own",
        golden(tool("find", id="a"), tool("find", id="b")),
        did(None, called("find", id="b"), called("find", id="a")),
        PASS,
        {},
    ),
    (
        "one call is not two",
        golden(tool("find"), tool("find")),
        did(None, called("find")),
        FAIL,
        {},
    ),
    ("steps are not recorded", golden(FIND), did(None, recorded=False), ERROR, {}),
    (
        "calls are switched off",
        golden(
            FIND,
            says("x", comparisonType="EQUALS"),
            config={"stepToolCorrectnessMetricsConfig": {}, "toolCorrectnessMetricsConfig": {}},
        ),
        did("x"),
        PASS,
        {},
    ),
    # matchers
    (
        "contains",
        golden(tool("find", t=match("contains", "Atlas"))),
        did(None, called("find", t="The Atlas")),
        PASS,
        {},
    ),
    (
        "does not contain",
        golden(tool("find", t=match("contains", "Atlas"))),
        did(None, called("find", t="The Map")),
        FAIL,
        {},
    ),
    (
        "regexp",
        golden(tool("find", t=match("regexp", "^P-\\d+$"))),
        did(None, called("find", t="P-12")),
        PASS,
        {},
    ),
    (
        "no match",
        golden(tool("find", t=match("regexp", "^P-\\d+$"))),
        did(None, called("find", t="P-x")),
        FAIL,
        {},
    ),
    (
        "no regular expression",
        golden(tool("find", t=match("regexp", "("))),
        did(None, called("find", t="(")),
        FAIL,
        {},
    ),
    ("ignored", golden(tool("find", t=match("ignore"))), did(None, called("find", t=1)), PASS, {}),
    (
        "ignored and absent",
        golden(tool("find", t=match("ignore"))),
        did(None, called("find")),
        PASS,
        {},
    ),
    (
        "semantic and equal is not asked",
        golden(tool("find", t=match("semantic", "lost"))),
        did(None, called("find", t="lost")),
        PASS,
        {},
    ),
    (
        "semantic",
        golden(tool("find", t=match("semantic", "lost"))),
        did(None, called("find", t="gone")),
        PASS,
        {("argument", 1, "t"): 1},
    ),
    (
        "not semantic",
        golden(tool("find", t=match("semantic", "lost"))),
        did(None, called("find", t="new")),
        FAIL,
        {("argument", 1, "t"): 0},
    ),
    (
        "semantic without a verdict",
        golden(tool("find", t=match("semantic", "lost"))),
        did(None, called("find", t="new")),
        ERROR,
        {},
    ),
    (
        "a call compared by meaning",
        golden({**tool("find", t="lost"), "comparisonType": "SEMANTIC_SIMILARITY"}),
        did(None, called("find", t="gone")),
        PASS,
        {("argument", 1, "t"): 1},
    ),
    (
        "a call that contains",
        golden({**tool("find", t="ost"), "comparisonType": "CONTAINS"}),
        did(None, called("find", t="lost")),
        PASS,
        {},
    ),
    # how many of a turn's tools
    ("half of the tools", golden(tool("find"), tool("renew")), did(None, called("find")), FAIL, {}),
    (
        "half of the tools and a skipped one",
        golden(tool("find"), {**tool("renew"), "skipEvaluation": True}),
        did(None, called("find")),
        PASS,
        {},
    ),
    # extra calls
    ("an extra call", golden(tool("find")), did(None, called("find"), called("renew")), FAIL, {}),
    ("a second call", golden(tool("find")), did(None, called("find"), called("find")), FAIL, {}),
    (
        "extra calls are allowed",
        golden(tool("find"), thresholds=extra("ALLOW"), app={"thresholds": extra("FAIL")}),
        did(None, called("find"), called("renew")),
        PASS,
        {},
    ),
    (
        "extra calls are allowed by the app",
        golden(tool("find"), app={"thresholds": extra("ALLOW")}),
        did(None, called("find"), called("renew")),
        PASS,
        {},
    ),
    (
        "extra calls fail again",
        golden(tool("find"), thresholds=extra("FAIL"), app={"thresholds": extra("ALLOW")}),
        did(None, called("find"), called("renew")),
        FAIL,
        {},
    ),
    (
        "a skipped call is not extra",
        golden(ANSWER, {**tool("find"), "skipEvaluation": True}),
        did("Hello", called("find")),
        PASS,
        {},
    ),
    (
        "a transfer that nothing names",
        golden(ANSWER),
        did("Hello", called("transfer_to_agent", agent_name="loans")),
        FAIL,
        {},
    ),
    (
        "an expected transfer is no extra call",
        golden(ANSWER, {"agentTransfer": {"targetAgent": f"{APP}/agents/loans"}}),
        did("Hello", called("transfer_to_agent", agent_name="loans")),
        PASS,
        {},
    ),
    (
        "a transfer is tolerated as other calls are",
        golden(ANSWER, thresholds=extra("ALLOW")),
        did("Hello", called("transfer_to_agent", agent_name="loans")),
        PASS,
        {},
    ),
    # a text argument is compared by meaning unless it says otherwise, as the enum's text has it
    (
        "another text, the same for the judge",
        golden(tool("find", title="The Trial")),
        did(None, called("find", title="Trial, The")),
        PASS,
        {("argument", 1, "title"): 1},
    ),
    (
        "another text, another for the judge",
        golden(tool("find", title="The Trial")),
        did(None, called("find", title="The Castle")),
        FAIL,
        {("argument", 1, "title"): 0},
    ),
    (
        "another text without a verdict",
        golden(tool("find", title="The Trial")),
        did(None, called("find", title="Trial, The")),
        ERROR,
        {},
    ),
    (
        "another text, to be equal",
        golden(tool("find", title="The Trial") | {"comparisonType": "EQUALS"}),
        did(None, called("find", title="Trial, The")),
        FAIL,
        {},
    ),
    # nobody is asked what is decided already
    (
        "a number is wrong beside another text",
        golden(tool("find", title="The Trial", weeks=3)),
        did(None, called("find", title="Trial, The", weeks=2)),
        FAIL,
        {},
    ),
    (
        "half is enough beside another text",
        golden(tool("find", title="The Trial", weeks=3), thresholds=of_parameters(0.5)),
        did(None, called("find", title="Trial, The", weeks=3)),
        PASS,
        {},
    ),
    ("no call is expected", golden(ANSWER, {"noToolCalls": True}), did("Hello"), PASS, {}),
    (
        "no call is expected and one is made",
        golden(ANSWER, {"noToolCalls": True}),
        did("Hello", called("find")),
        FAIL,
        {},
    ),
    # responses
    (
        "the response",
        golden(tool("find"), {"toolResponse": {"tool": "find", "response": {"output": {"a": 1}}}}),
        did(None, called("find"), ToolResponse(name="find", response={"a": 1.0})),
        PASS,
        {},
    ),
    (
        "wrapped by a framework",
        golden(tool("find"), {"toolResponse": {"tool": "find", "response": {"output": "x"}}}),
        did(None, called("find"), ToolResponse(name="find", response={"result": "x"})),
        PASS,
        {},
    ),
    (
        "another response",
        golden(tool("find"), {"toolResponse": {"tool": "find", "response": {"output": "x"}}}),
        did(None, called("find"), ToolResponse(name="find", response={"result": "y"})),
        FAIL,
        {},
    ),
    (
        "no response",
        golden(tool("find"), {"toolResponse": {"tool": "find", "response": {"output": "x"}}}),
        did(None, called("find")),
        FAIL,
        {},
    ),
    (
        "a mock is no expectation",
        golden(ANSWER, {"mockToolResponse": {"tool": "find", "response": {}}}),
        did("Hello"),
        PASS,
        {},
    ),
    # transfers
    (
        "a transfer",
        golden({"agentTransfer": {"targetAgent": f"{APP}/agents/loans"}}),
        did(None, called("transfer_to_agent", agent_name="loans")),
        PASS,
        {},
    ),
    (
        "another agent",
        golden({"agentTransfer": {"targetAgent": f"{APP}/agents/loans"}}),
        did(None, called("transfer_to_agent", agent_name="cards")),
        FAIL,
        {},
    ),
    (
        "no transfer",
        golden({"agentTransfer": {"targetAgent": f"{APP}/agents/loans"}}),
        did(),
        FAIL,
        {},
    ),
    (
        "it speaks itself",
        golden(ANSWER, {"agentTransfer": {"targetAgent": f"{APP}/agents/desk"}}),
        did("Hello", "Hello"),
        PASS,
        {},
    ),
    # variables
    (
        "a variable",
        golden(ANSWER, {"updatedVariables": {"a": 1}}),
        did("Hello", state={"a": 1, "b": 2}),
        PASS,
        {},
    ),
    (
        "another value",
        golden(ANSWER, {"updatedVariables": {"a": 1}}),
        did("Hello", state={"a": 2}),
        FAIL,
        {},
    ),
    (
        "no variable",
        golden(ANSWER, {"updatedVariables": {"a": 1}}),
        did("Hello", state={}),
        FAIL,
        {},
    ),
    (
        "variables are not known",
        golden(ANSWER, {"updatedVariables": {"a": 1}}),
        did("Hello"),
        ERROR,
        {},
    ),
    # hallucination: counts where it is enabled, of turns with calls
    (
        "made up",
        golden(ANSWER, FIND, thresholds={"goldenHallucinationMetricBehavior": "ENABLED"}),
        did("Hello", called("find", id="a", weeks=3)),
        FAIL,
        {("hallucination", -1): 0},
    ),
    (
        "justified",
        golden(ANSWER, FIND, thresholds={"goldenHallucinationMetricBehavior": "ENABLED"}),
        did("Hello", called("find", id="a", weeks=3)),
        PASS,
        {("hallucination", -1): 1},
    ),
    (
        "no claim",
        golden(ANSWER, FIND, thresholds={"goldenHallucinationMetricBehavior": "ENABLED"}),
        did("Hello", called("find", id="a", weeks=3)),
        PASS,
        {("hallucination", -1): -1},
    ),
    (
        "made up, without a verdict",
        golden(ANSWER, FIND, thresholds={"goldenHallucinationMetricBehavior": "ENABLED"}),
        did("Hello", called("find", id="a", weeks=3)),
        ERROR,
        {},
    ),
    (
        "by the deprecated field",
        golden(ANSWER, FIND, thresholds={"hallucinationMetricBehavior": "ENABLED"}),
        did("Hello", called("find", id="a", weeks=3)),
        FAIL,
        {("hallucination", -1): 0},
    ),
    (
        "disabled for the turn",
        golden(
            ANSWER,
            FIND,
            turn={"hallucinationMetricBehaviorOverride": "DISABLED"},
            thresholds={"goldenHallucinationMetricBehavior": "ENABLED"},
        ),
        did("Hello", called("find", id="a", weeks=3)),
        PASS,
        {("hallucination", -1): 0},
    ),
    (
        "disabled by the evaluation",
        golden(
            ANSWER,
            FIND,
            thresholds={"goldenHallucinationMetricBehavior": "DISABLED"},
            app={"thresholds": {"goldenHallucinationMetricBehavior": "ENABLED"}},
        ),
        did("Hello", called("find", id="a", weeks=3)),
        PASS,
        {},
    ),
    (
        "disabled by the evaluation, with the deprecated field",
        golden(
            ANSWER,
            FIND,
            thresholds={"hallucinationMetricBehavior": "DISABLED"},
            app={"thresholds": {"goldenHallucinationMetricBehavior": "ENABLED"}},
        ),
        did("Hello", called("find", id="a", weeks=3)),
        PASS,
        {},
    ),
    (
        "enabled for an answer",
        golden(
            {
                **ANSWER,
                "agentResponseHallucinationMetricsConfigOverride": {
                    "enableHallucinationMetrics": True
                },
            },
            FIND,
        ),
        did("Hello", called("find", id="a", weeks=3)),
        FAIL,
        {("hallucination", -1): 0},
    ),
    (
        "not specified",
        golden(ANSWER, FIND),
        did("Hello", called("find", id="a", weeks=3)),
        PASS,
        {("hallucination", -1): 0},
    ),
    (
        "no call, no question",
        golden(ANSWER, thresholds={"goldenHallucinationMetricBehavior": "ENABLED"}),
        did("Hello"),
        PASS,
        {},
    ),
]


def verdicts_in(scores: dict[Any, int | None], turn: int = 0) -> dict[Any, Verdict]:
    made = {}
    for (kind, step, *argument), score in scores.items():
        made[QuestionKind(kind), turn, step, "".join(argument)] = Verdict(
            score=score, explanation="So."
        )
    return made


@pytest.mark.parametrize(
    ("plan", "done", "expected", "scores"),
    [row[1:] for row in GOLDENS],
    ids=[row[0] for row in GOLDENS],
)
def test_goldens(
    plan: Plan, done: Invocation, expected: Outcome | None, scores: dict[Any, int | None]
) -> None:
    verdicts = verdicts_in(scores)
    result = outcomes.result_of(plan, [done], judge_by(verdicts))
    assert outcomes.status(outcomes.checks(plan, result)) is expected
    # what has a verdict is asked about, but for what is not to be asked
    asked = {question_key(each) for each in outcomes.questions(plan, [done])}
    assert expected is PASS or set(verdicts) <= asked
    raw = {"goldenResult": result.json()}
    json_format.ParseDict(raw, ces_v1beta.EvaluationResult.pb(ces_v1beta.EvaluationResult()))
    assert Plan.model_validate(json.loads(json.dumps(plan.json()))) == plan


def test_every_word_of_a_check_is_a_templates() -> None:
    """With the templates' words in full-width letters, the Latin ones that are left are the
    evaluation's, the agent's, the judge's or CES's own."""
    notes = (outcomes.UNEXPECTED_CALL, outcomes.UNEXPECTED_TRANSFER, outcomes.UNEXPECTED_RESPONSE)
    labels = (*outcomes.SIMILARITY_LABELS.values(), *outcomes.HALLUCINATION_LABELS.values())
    words: dict[str, str] = {}
    with template_words.marked():
        for name, plan, done, _, scores in GOLDENS:
            result = outcomes.result_of(plan, [done], judge_by(verdicts_in(scores)))
            own = template_words.data_of((plan.json(), done, notes, labels, "So. True"))
            texts = (
                f"{check.subject} {check.explanation}" for check in outcomes.checks(plan, result)
            )
            shown = template_words.latin(" ".join(texts).replace("\\n", " "))
            words |= dict.fromkeys(shown - template_words.latin(" ".join(own)), name)
    assert words == {}


def test_metrics_of_a_turn() -> None:
    plan = golden(tool("find", id="a", weeks=3), tool("renew"), says("Hi"))
    done = did("Hello", called("renew"), called("find", id="a", weeks=2))
    result = outcomes.result_of(plan, [done], judge_by(verdicts_in({("answer", 3): 4})))
    (turn,) = result.turn_replay_results
    find, renew, answer = turn.expectation_outcome
    assert find.tool_invocation_result is not None
    assert find.tool_invocation_result.parameter_correctness_score == 0.5
    assert find.tool_invocation_result.explanation == "weeks: expected '3', got 2"
    assert find.observed_tool_call is not None
    assert find.observed_tool_call.args == {"id": "a", "weeks": 2}
    assert renew.outcome is PASS
    assert turn.overall_tool_invocation_result is not None
    assert turn.overall_tool_invocation_result.tool_invocation_score == 1.0
    assert turn.tool_ordered_invocation_score == 0.5  # only one of two in a row
    assert answer.semantic_similarity_result is not None
    assert (answer.semantic_similarity_result.score, answer.semantic_similarity_result.label) == (
        4,
        "Fully Consistent",
    )
    assert turn.semantic_similarity_result == answer.semantic_similarity_result


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({}, "got nothing"), ({"weeks": "nothing"}, "got 'nothing'")],  # missing; a text
)
def test_a_missing_argument_is_not_a_text(arguments: dict[str, Any], text: str) -> None:
    done = did("Hello", called("find", id="a", **arguments))
    result = outcomes.result_of(golden(FIND), [done], judge_by({}))
    explanations = [check.explanation for check in outcomes.checks(golden(FIND), result)]
    assert f"weeks: expected '3', {text}" in explanations


# --- scenarios ------------------------------------------------------------------------------------


def scenario(
    *expected: dict[str, Any], thresholds: Any = None, config: Any = None, **more: Any
) -> Plan:
    raw = {
        "displayName": "s",
        "scenario": {"task": "Block it.", "scenarioExpectations": list(expected), **more},
    }
    if thresholds:
        raw["evaluationMetricsThresholdOverride"] = thresholds
    if config:
        raw["evaluationMetricsConfigOverride"] = {"scenarioMetricsConfig": config}
    return Plan(
        evaluation=Evaluation.model_validate(raw), prompts={"one": "One question at a time?"}
    )


def expects(name: str, **args: Any) -> dict[str, Any]:
    return {"toolExpectation": {"expectedToolCall": {"tool": f"{APP}/tools/{name}", "args": args}}}


BLOCK = expects("block", id="a")
BLOCKED = did("Blocked.", called("block", id="a"))
ENABLED = {"scenarioHallucinationMetricBehavior": "ENABLED"}
GOAL = ("goal", -1)
NAMED = {"evaluationExpectations": [f"{APP}/evaluationExpectations/one"]}

SCENARIOS: list[tuple[str, Plan, Invocation, Any, bool | None, dict[Any, int | None]]] = [
    # the goal
    ("satisfied", scenario(), did("x"), PASS, True, {GOAL: 1}),
    ("not satisfied", scenario(), did("x"), FAIL, False, {GOAL: 0}),
    ("too vague", scenario(), did("x"), FAIL, False, {GOAL: -1}),
    ("no verdict", scenario(), did("x"), ERROR, None, {GOAL: None}),
    (
        "to be rejected and satisfied",
        scenario(userGoalBehavior="USER_GOAL_REJECTED"),
        did("x"),
        FAIL,
        True,
        {GOAL: 1},
    ),
    (
        "to be rejected",
        scenario(userGoalBehavior="USER_GOAL_REJECTED"),
        did("x"),
        PASS,
        False,
        {GOAL: 0},
    ),
    (
        "to be rejected and vague",
        scenario(userGoalBehavior="USER_GOAL_REJECTED"),
        did("x"),
        FAIL,
        False,
        {GOAL: -1},
    ),
    (
        "by the deprecated field",
        scenario(taskCompletionBehavior="TASK_REJECTED"),
        did("x"),
        PASS,
        False,
        {GOAL: 0},
    ),
    (
        "the newer field counts",
        scenario(taskCompletionBehavior="TASK_REJECTED", userGoalBehavior="USER_GOAL_SATISFIED"),
        did("x"),
        PASS,
        True,
        {GOAL: 1},
    ),
    ("ignored", scenario(BLOCK, userGoalBehavior="USER_GOAL_IGNORED"), BLOCKED, PASS, None, {}),
    (
        "ignored, and nothing else",
        scenario(userGoalBehavior="USER_GOAL_IGNORED"),
        did("x"),
        SKIPPED,
        None,
        {},
    ),
    (
        "switched off",
        scenario(BLOCK, config={"userGoalMetMetricsConfig": {}}),
        BLOCKED,
        PASS,
        None,
        {},
    ),
    # expectations
    ("called", scenario(BLOCK), BLOCKED, PASS, True, {GOAL: 1}),
    (
        "called with more",
        scenario(BLOCK),
        did("x", called("block", id="a", why="lost")),
        PASS,
        True,
        {GOAL: 1},
    ),
    (
        "called otherwise",
        scenario(BLOCK),
        did("x", called("block", id="b")),
        FAIL,
        False,
        {GOAL: 1, ("argument", 0, "id"): 0},
    ),
    (
        "one call is not two",
        scenario(BLOCK, BLOCK),
        did("x", called("block", id="a")),
        FAIL,
        False,
        {GOAL: 1},
    ),
    (
        "two calls are two",
        scenario(BLOCK, BLOCK),
        did("x", called("block", id="a"), called("block", id="a")),
        PASS,
        True,
        {GOAL: 1},
    ),
    (
        "the best of several calls",
        scenario(BLOCK),
        did("x", called("block", id="b"), called("block", id="a")),
        PASS,
        True,
        {GOAL: 1},
    ),
    ("not called", scenario(BLOCK), did("x"), FAIL, False, {GOAL: 1}),
    ("not recorded", scenario(BLOCK), did("x", recorded=False), ERROR, None, {GOAL: 1}),
    ("unexpected calls are let pass", scenario(), BLOCKED, PASS, True, {GOAL: 1}),
    (
        "said in these words, and taken back later",
        scenario(says("we block your card.")),
        did("We cannot block it after all.", "we block your card."),
        FAIL,
        False,
        {GOAL: 1, ("said", 0): 0},
    ),
    ("nothing is said", scenario(says("hello")), did(None), FAIL, False, {GOAL: 1}),
    # words amid others say nothing: "we never block your card" has them as well
    (
        "these words amid others",
        scenario(says("block your card")),
        did("We never block your card."),
        FAIL,
        False,
        {GOAL: 1, ("said", 0): 0},
    ),
    (
        "these words amid others, unjudged",
        scenario(says("card")),
        did("We block your card."),
        ERROR,
        None,
        {GOAL: 1},
    ),
    (
        "said in others",
        scenario(says("blocked")),
        did("It is void."),
        PASS,
        True,
        {GOAL: 1, ("said", 0): 1},
    ),
    (
        "not said",
        scenario(says("blocked")),
        did("It is void."),
        FAIL,
        False,
        {GOAL: 1, ("said", 0): 0},
    ),
    (
        "not said for all that is known",
        scenario(says("blocked")),
        did("It is void."),
        ERROR,
        None,
        {GOAL: 1},
    ),
    (
        "switched off expectations",
        scenario(BLOCK, config={"expectationsMetMetricsConfig": {}}),
        did("x"),
        PASS,
        None,
        {GOAL: 1},
    ),
    # hallucination
    (
        "made up",
        scenario(BLOCK, thresholds=ENABLED),
        BLOCKED,
        FAIL,
        False,
        {GOAL: 1, ("hallucination", 0): 0},
    ),
    (
        "justified",
        scenario(BLOCK, thresholds=ENABLED),
        BLOCKED,
        PASS,
        True,
        {GOAL: 1, ("hallucination", 0): 1},
    ),
    (
        "made up without a verdict",
        scenario(BLOCK, thresholds=ENABLED),
        BLOCKED,
        ERROR,
        None,
        {GOAL: 1},
    ),
    ("not enabled", scenario(BLOCK), BLOCKED, PASS, True, {GOAL: 1, ("hallucination", 0): 0}),
    # expectations of the whole conversation
    ("met", scenario(**NAMED), did("x"), PASS, True, {GOAL: 1, ("named", 0): 1}),
    ("not met", scenario(**NAMED), did("x"), FAIL, True, {GOAL: 1, ("named", 0): 0}),
    ("unknown", scenario(**NAMED), did("x"), ERROR, True, {GOAL: 1}),
    # rubrics have no threshold
    (
        "a rubric that is not met",
        scenario(rubrics=["polite"]),
        did("x"),
        PASS,
        True,
        {GOAL: 1, ("rubrics", 0): 0},
    ),
]


def key_of(kind: str, step: int, argument: str = "") -> Any:
    if kind == "hallucination":
        return QuestionKind.HALLUCINATION, step, -1, ""
    return (
        (kind, -1, step, "")
        if kind in ("named", "rubrics")
        else (QuestionKind(kind), -1, step, argument)
    )


@pytest.mark.parametrize(
    ("plan", "done", "expected", "completed", "scores"),
    [row[1:] for row in SCENARIOS],
    ids=[row[0] for row in SCENARIOS],
)
def test_scenarios(
    plan: Plan,
    done: Invocation,
    expected: Outcome | None,
    completed: bool | None,
    scores: dict[Any, int | None],
) -> None:
    verdicts = {
        key_of(*key): Verdict(score=score, explanation="So.") for key, score in scores.items()
    }
    result = outcomes.result_of(plan, [done], judge_by(verdicts))
    assert outcomes.status(outcomes.checks(plan, result)) is expected
    assert result.task_completed is completed
    raw = {"scenarioResult": result.json()}
    json_format.ParseDict(raw, ces_v1beta.EvaluationResult.pb(ces_v1beta.EvaluationResult()))


def test_fail_and_error_are_never_a_pass() -> None:
    """Of every two outcomes of the checks of a result."""
    every = [
        outcomes.Check(criterion=outcomes.EXPECTATIONS, subject="x", outcome=each)
        for each in Outcome
    ]
    for one in every:
        for other in every:
            found = outcomes.status([one, other])
            bad = {FAIL, Outcome.OUTCOME_UNSPECIFIED} & {one.outcome, other.outcome}
            assert (found is PASS) == (not bad and PASS in {one.outcome, other.outcome})
    assert outcomes.status([]) is SKIPPED
