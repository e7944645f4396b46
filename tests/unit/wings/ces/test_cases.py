"""CES evaluations as cases: what is said and mocked turn by turn, and which criteria decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.discovery.walk import Tree
from evalgate.model import Attachment, Case, Text, ToolCall, ToolResponse
from evalgate.system import patterns
from evalgate.wings.ces import cases, outcomes, read

DATA = Path(__file__).parents[3] / "data" / "ces"
APP = "projects/p/locations/l/apps/desk"


def made(*files: dict[str, Any], app: dict[str, Any] | None = None) -> list[Case]:
    texts = {
        f"evaluations/e{number}/e{number}.json": json.dumps(raw) for number, raw in enumerate(files)
    }
    if app:
        texts["app.json"] = json.dumps({"displayName": "desk", **app})
    found = read.library(texts)
    assert not [each for each in found.problems if each.severity == "error"], found.problems
    sets, _ = cases.eval_sets(found, {})
    return [case for each in sets.values() for case in each.cases]


def golden(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"displayName": "g", "golden": {"turns": [{"steps": list(steps)}]}, **more}


def says(text: str) -> dict[str, Any]:
    return {"userInput": {"text": text}}


def expects(**expected: Any) -> dict[str, Any]:
    return {"expectation": expected}


def call(name: str, number: str = "", **args: Any) -> dict[str, Any]:
    return expects(toolCall={"tool": f"{APP}/tools/{name}", "id": number, "args": args})


def gives(
    name: str, response: Any, number: str = "", kind: str = "mockToolResponse"
) -> dict[str, Any]:
    return expects(**{kind: {"tool": f"{APP}/tools/{name}", "id": number, "response": response}})


def test_an_evaluation_that_is_not_text_is_an_error_of_the_run(tmp_path: Path) -> None:
    file = "evaluations/a/a.json"
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_bytes(b'{"displayName": "\xff"}')
    files = cases.FORMAT.read(Tree(tmp_path), [file], chosen=[file])
    sets, (problem,) = files.eval_sets({})
    assert (sets, problem.code) == ({}, "not-utf-8")


def test_the_examples() -> None:
    texts = {
        "evaluations/g/g.json": (DATA / "golden_library_renewal.json").read_text(),
        "evaluations/s/s.json": (DATA / "scenario_lost_card.json").read_text(),
        "evaluationExpectations/e.json": (DATA / "expectation_one_question.json").read_text(),
    }
    sets, problems = cases.eval_sets(read.library(texts), {})
    assert problems == ()
    (golden_case,), (scenario,) = (each.cases for each in sets.values())
    assert golden_case.isolated
    assert golden_case.criteria == {
        outcomes.PLATFORM,
        outcomes.EXPECTATIONS, outcomes.SIMILARITY, outcomes.HALLUCINATION, outcomes.NAMED,
    }  # fmt: skip
    first, second, third = golden_case.setups
    assert first.state == {"patron_id": "P-2041", "branch": "riverside"}
    assert second.mocks
    assert second.tools["find_loan"] == (
        {"response": {"loan_id": "L-77", "due": "2027-03-04", "renewals_left": 1}},
    )
    # of the stable method what is expected of a tool is what it answers, and no more than that
    assert not third.mocks
    assert {"renew_loan", "circulation_renew_loan"} <= set(third.tools)
    said = [turn.user_content.parts for turn in golden_case.conversation or ()]
    assert said[0] == (Text(text="<event>welcome</event>"),)
    # what was said before has all that happened, what a mock answered and what is not evaluated
    # among it
    _, before, last = golden_case.conversation or ()
    assert [type(part) for part in before.parts()] == [ToolCall, ToolCall, ToolResponse]
    assert last.final_response is not None
    assert last.final_response.parts == (Text(text="Enjoy the book!"),)

    assert scenario.scenario is not None
    assert (scenario.scenario.starting_prompt, scenario.scenario.max_turns) == ("", 12)
    assert "- full_name: Ines Okafor" in scenario.scenario.conversation_plan
    assert scenario.session is not None
    assert scenario.session.state["channel"] == "phone"
    assert scenario.setup_of(7).tools["block_card"][-1]["response"]["status"] == "BLOCKED"
    assert scenario.criteria == {
        outcomes.PLATFORM,
        outcomes.EXPECTATIONS, outcomes.SIMILARITY, outcomes.HALLUCINATION, outcomes.NAMED, outcomes.GOAL, outcomes.RUBRICS,
    }  # fmt: skip


ANSWERS = [
    # the result is what `output` holds, or the whole; an error is raised
    ({"output": {"a": 1}}, {"response": {"a": 1}}),
    ({"output": "x"}, {"response": "x"}),
    ({"a": 1}, {"response": {"a": 1}}),
    ({"output": 1, "a": 2}, {"response": {"output": 1, "a": 2}}),
    ({"error": "gone"}, {"error": {"type": "RuntimeError", "message": "gone"}}),
    ({}, {"response": {}}),
]


@pytest.mark.parametrize(("response", "rule"), ANSWERS)
def test_what_a_mock_answers(response: Any, rule: Any) -> None:
    (case,) = made(golden(says("x"), call("find"), gives("find", response)))
    assert case.setups[0].tools == {"find": (rule,)}


def test_mocks_answer_the_call_that_they_are_for_else_in_order_and_the_last_one_all_others() -> (
    None
):
    first, second = gives("find", {"output": 1}, "a"), gives("find", {"output": 2}, "b")
    (case,) = made(
        golden(says("x"), call("find", "a", id=1), call("find", "b", id=2), first, second)
    )
    assert case.setups[0].tools["find"] == (
        {"args": {"id": 1}, "response": 1},
        {"args": {"id": 2}, "response": 2},
        {"times": 1, "response": 1},
        {"response": 2},
    )


FAKE = {"goldenRunMethod": "NAIVE", "goldenEvaluationToolCallBehaviour": "FAKE"}
METHODS = [
    # settings of the app; whether each turn stands alone, real tools may run, an expected response
    # is answered
    ({}, True, False, True),
    ({"goldenRunMethod": "STABLE"}, True, False, True),
    ({"goldenRunMethod": "NAIVE"}, False, False, False),
    ({"goldenEvaluationToolCallBehaviour": "REAL"}, True, False, True),
    (FAKE, False, True, True),
]


@pytest.mark.parametrize(("settings", "isolated", "fakes", "answers"), METHODS)
def test_methods(settings: dict[str, Any], isolated: bool, fakes: bool, answers: bool) -> None:
    response = gives("find", {"output": 1}, kind="toolResponse")
    turn = {"steps": [says("x"), call("find"), response]}
    raw = {"displayName": "g", "golden": {"turns": [turn, turn]}}
    (case,) = made(raw, app={"evaluationSettings": settings})
    assert (case.isolated, case.setups[0].fakes, bool(case.setups[0].tools)) == (
        isolated,
        fakes,
        answers,
    )


def test_what_a_user_gives() -> None:
    image = {"image": {"mimeType": "image/png", "data": "aGk="}}
    tool = {
        "toolResponses": {"toolResponses": [{"tool": "pick", "id": "1", "response": {"output": 1}}]}
    }
    steps = [
        {"userInput": each}
        for each in ({"variables": {"a": 1}}, {"variables": {"b": 2}}, image, tool)
    ]
    (case,) = made(
        golden(*steps, says("Hi"), {"agentTransfer": {"targetAgent": f"{APP}/agents/loans"}})
    )
    (turn,) = case.conversation or ()
    assert (dict(case.setups[0].state), case.setups[0].agent) == ({"a": 1, "b": 2}, "loans")
    assert turn.user_content.parts == (
        Attachment(data={"inline_data": {"mime_type": "image/png", "data": "aGk="}}),
        ToolResponse(name="pick", response={"output": 1}, id="1"),
        Text(text="Hi"),
    )


def changes(name: str) -> dict[str, Any]:
    return {"expectation": {"updatedVariables": {name: 1}}}


def answers(text: str, **more: Any) -> dict[str, Any]:
    return expects(agentResponse={"chunks": [{"text": text}], **more})


SKIPPED = {"expectation": {**answers("y")["expectation"], "skipEvaluation": True}}
TOOLSET = expects(toolCall={"toolsetTool": {"toolset": f"{APP}/toolsets/s", "toolId": "find"}})
IGNORED = {
    "a": {"$matchType": "ignore"},
    "b": {"$matchType": "semantic", "$originalValue": "y"},
    "c": 1,
}
HISTORIES = [
    # what is expected; who does what on the way (None: nothing is said of calls), and what is said
    # in the end
    ([], None, None),
    ([answers("y")], None, "y"),
    ([SKIPPED, expects(updatedVariables={"a": 1})], None, "y"),
    ([answers("y"), expects(noToolCalls=True)], [], "y"),
    (
        [answers("x", role="loans"), answers("y"), call("find")],
        [("loans", "x"), ("agent", ("find", {}))],
        "y",
    ),
    ([answers("x", role="user"), answers("y")], [("agent", "x")], "y"),
    # a payload is no answer
    ([answers("y"), expects(agentResponse={"chunks": [{"payload": {"a": 1}}]})], None, "y"),
    # of arguments that say how they are compared the value
    ([call("find", **IGNORED)], [("agent", ("find", {"b": "y", "c": 1}))], None),
    ([TOOLSET], [("agent", ("find", None))], None),
    # a tool that is called like a transfer is none
    ([call("transfer_to_agent")], [("agent", ("transfer_to_agent_tool", {}))], None),
    (
        [expects(agentTransfer={"targetAgent": f"{APP}/agents/loans"})],
        [("agent", ("transfer_to_agent", {"agent_name": "loans"}))],
        None,
    ),
    # what a mock answers, unless another response is expected
    ([gives("find", {"output": 1})], [("agent", {"output": 1})], None),
    (
        [gives("find", {"output": 1}), gives("find", {"output": 2}, kind="toolResponse")],
        [("agent", {"output": 2})],
        None,
    ),
    ([changes("a")], None, None),
]


@pytest.mark.parametrize(("expected", "events", "answer"), HISTORIES)
def test_what_was_said_and_done_before_a_turn(
    expected: list[Any], events: list[Any] | None, answer: str | None
) -> None:
    (case,) = made(golden(says("hi"), *expected))
    (turn,) = case.conversation or ()
    done = [
        (each.author, part)
        for each in turn.events or ()
        if each.content
        for part in each.content.parts
    ]
    shown = [
        (
            who,
            (part.name, part.args)
            if isinstance(part, ToolCall)
            else getattr(part, "text", None) or part.response,
        )
        for who, part in done
    ]
    assert (None if turn.events is None else shown) == events
    said = turn.final_response.parts if turn.final_response else ()
    assert [part.text for part in said if isinstance(part, Text)] == ([answer] if answer else [])


CRITERIA = [
    (golden(says("x"), expects(agentResponse={"chunks": [{"text": "y"}]})), {outcomes.SIMILARITY}),
    (
        golden(
            says("x"),
            expects(agentResponse={"chunks": [{"text": "y"}]}, skipEvaluation=True),
            changes("a"),
        ),
        set(),
    ),
    (
        golden(
            says("x"), expects(agentResponse={"chunks": [{"text": "y"}]}, comparisonType="EQUALS")
        ),
        set(),
    ),
    (
        golden(says("x"), call("find", a={"$matchType": "semantic", "$originalValue": "y"})),
        {outcomes.SIMILARITY},
    ),
    (golden(says("x"), call("find", a={"$matchType": "ignore"})), set()),
    # an argument of text is compared by its meaning, another one is not
    (golden(says("x"), call("find", a="y")), {outcomes.SIMILARITY}),
    (golden(says("x"), call("find", a=3)), set()),
]


@pytest.mark.parametrize(("raw", "more"), CRITERIA)
def test_a_judge_decides_only_what_nobody_else_can(raw: dict[str, Any], more: set[str]) -> None:
    (case,) = made(raw)
    assert case.criteria == {outcomes.PLATFORM, outcomes.EXPECTATIONS, *more}


def test_which_criteria_score_is_known_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = {"$matchType": "regexp", "$originalValue": "^y"}
    library = read.library(
        {"evaluations/e/e.json": json.dumps(golden(says("x"), call("find", a=matcher)))}
    )
    # one that takes too long raises
    monkeypatch.delattr(patterns, "search")
    sets, _ = cases.eval_sets(library, {})
    (case,) = sets["evaluations/e/e.json"].cases
    assert case.criteria == {outcomes.PLATFORM, outcomes.EXPECTATIONS}


def scenario(**more: Any) -> dict[str, Any]:
    return {"displayName": "s", "scenario": {"task": "Get it.", **more}}


def test_personas_initiator_and_limits() -> None:
    personas = [
        {"name": f"{APP}/evaluationPersonas/{n}", "displayName": n, "personality": f"Is {n}."}
        for n in "ab"
    ]
    settings = {"scenarioConversationInitiator": "AGENT"}
    (case,) = made(scenario(), app={"evaluationPersonas": personas, "evaluationSettings": settings})
    (again,) = made(
        scenario(), app={"evaluationPersonas": personas[::-1], "evaluationSettings": settings}
    )
    assert case.scenario is not None
    assert case.scenario.persona is not None
    assert case.scenario.persona.description == f"Is {case.scenario.persona.persona_id}."
    assert case.scenario == again.scenario, "the same persona, in whatever order they stand"
    assert case.scenario.starting_prompt == cases.WELCOME
    assert case.scenario.max_turns == 100


def test_a_simulation() -> None:
    text = """
evals:
  - name: card
    max_turns: 5
    session_parameters: {channel: web}
    steps:
      - {static_utterance: Hello there, inject_variables: {id: 7}}
      - {goal: Block it., success_criteria: It is blocked.}
      - {goal: Name a branch.}
    expectations: [Be polite.]
"""
    sets, _ = cases.eval_sets(read.library({"evals/card.yaml": text}), {})
    (case,) = sets["evals/card.yaml"].cases
    assert case.scenario is not None
    assert (case.scenario.starting_prompt, case.scenario.max_turns) == ("Hello there", 5)
    assert case.session is not None
    assert case.session.state == {"channel": "web", "id": 7}
    assert case.criteria == {outcomes.PLATFORM, outcomes.GOALS, outcomes.NAMED}
    plan = outcomes.Plan.model_validate(case.ces or {})
    assert plan.goals == (
        "Goal 2 was reached: Block it. It counts as reached when: It is blocked. Goal 1 was reached before it.",
        "Goal 3 was reached: Name a branch. Goal 2 was reached before it.",
    )
    assert [plan.prompts[name.rpartition("/")[2]] for name in plan.conversation_expectations] == [
        "Be polite."
    ]
    assert case.scenario.conversation_plan.splitlines()[1:] == [
        "1. Say exactly: Hello there",
        "2. Block it. Done when: It is blocked.",
        "3. Name a branch.",
    ]


def test_a_list_with_nothing_in_it_and_a_broken_file_beside_it() -> None:
    text = "common_expectations:\nconversations:\n- conversation: a\n  expectations: [Hi.]\n  turns: [{user: Hi}]\n"
    broken = "conversations:\n- x\n- turns: 1\n"
    texts = {"evals/a.yaml": text, "evals/b.yaml": broken}
    sets, _ = cases.eval_sets(read.library(texts), {})
    (case,) = sets["evals/a.yaml"].cases
    assert list(outcomes.Plan.model_validate(case.ces or {}).prompts.values()) == ["Hi."]


NOT_RUN = [
    (golden({"userInput": {"dtmf": "1"}}), "`dtmf` is not text"),
    (golden({"userInput": {"audio": "aGk="}}), "`audio` is not text"),
    (golden({"userInput": {"text": "x", "willContinue": True}}), "`willContinue` is not text"),
    (
        golden(
            says("x"),
            evaluationMetricsThresholdOverride={
                "goldenEvaluationMetricsThresholds": {
                    "turnLevelMetricsThresholds": {"semanticSimilarityChannel": "AUDIO"}
                }
            },
        ),
        "its answers are compared as audio",
    ),
    (
        golden(says("x"), expects(agentResponse={"chunks": [{"text": "y"}]}, skipEvaluation=True)),
        "it skips every expectation",
    ),
]


@pytest.mark.parametrize(("raw", "why"), NOT_RUN)
def test_what_is_no_text_is_not_run_and_told(raw: dict[str, Any], why: str) -> None:
    sets, (problem,) = cases.eval_sets(read.library({"evaluations/e/e.json": json.dumps(raw)}), {})
    assert sets == {}
    assert (problem.code, problem.severity.value) == ("ces-not-run", "warning")
    assert why in problem.message


TALK = {"displayName": "s", "scenario": {"task": "t"}}


CHANGED = [
    # the older one, the newer one with its app, and what is listed of it
    (golden(says("x")), golden(says("x")), {}, []),
    (
        golden(says("x")),
        golden(says("x"), call("find")),
        {},
        ["tool: (not set) -> ", "args: (not set) -> {}"],
    ),
    (
        TALK,
        TALK,
        {"evaluationSettings": {"scenarioConversationInitiator": "AGENT"}},
        ['startingPrompt: (not set) -> "<event>welcome</event>"'],
    ),
    (golden(says("x"), call("find")), golden(says("x")), {}, ["-> (not set)", "-> (not set)"]),
    (golden(says("x")), golden(says("y")), {}, ['text: "x" -> "y"']),
    (
        golden(says("x")),
        golden(says("x")),
        {
            "evaluationMetricsThresholds": {
                "goldenEvaluationMetricsThresholds": {
                    "turnLevelMetricsThresholds": {"semanticSimilaritySuccessThreshold": 1}
                }
            }
        },
        ["semanticSimilaritySuccessThreshold: (not set) -> 1"],
    ),
    (
        golden(says("x")),
        golden(says("x")),
        {"evaluationSettings": {"goldenEvaluationToolCallBehaviour": "FAKE"}},
        ['toolCallBehaviour: (not set) -> "FAKE"'],
    ),
]


ANGRY, CALM = (
    {"displayName": name, "personality": f"You are {name}."} for name in ("angry", "calm")
)
PERSONAS = [
    # the app's personas before, and after; each scenario has one of them
    ([ANGRY], [ANGRY], []),
    ([ANGRY], [CALM], ['persona: "angry: You are angry." -> "calm: You are calm."']),
    (
        [ANGRY],
        [{**ANGRY, "personality": "You are easily content."}],
        ['persona: "angry: You are angry." -> "angry: You are easily content."'],
    ),
    ([ANGRY], [], ['persona: "angry: You are angry." -> (not set)']),
    ([], [CALM], ['persona: (not set) -> "calm: You are calm."']),
]


@pytest.mark.parametrize(("before", "after", "expected"), PERSONAS)
def test_another_user_may_be_easier_to_please(
    before: list[Any], after: list[Any], expected: list[str]
) -> None:
    (older,), (newer,) = (
        made(scenario(), app={"evaluationPersonas": each}) for each in (before, after)
    )
    assert cases.differences(older, newer) == expected


def test_a_turn_less_is_no_other_method() -> None:
    turn = {"steps": [says("x")]}
    (older,), (newer,) = (
        made({"displayName": "a", "golden": {"turns": [turn] * count}}) for count in (2, 1)
    )
    assert older.isolated
    (change,) = cases.differences(older, newer)
    assert change.startswith("steps: ")
    assert change.endswith(" -> (not set)")


@pytest.mark.parametrize(("base", "head", "app", "expected"), CHANGED)
def test_what_differs(
    base: dict[str, Any], head: dict[str, Any], app: dict[str, Any], expected: list[str]
) -> None:
    (older,), (newer,) = made(base), made(head, app=app)
    told = cases.differences(older, newer)
    assert len(told) == len(expected)
    for text, wanted in zip(told, expected, strict=True):
        assert wanted in text
