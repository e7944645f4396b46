"""CES -> ADK -> CES: equal, or the loss is named; the ADK side is read from its JSON by the reader of ADK files."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from builders import ces_from_adk
from hypothesis import HealthCheck, given, settings, strategies as st

from evalgate.ces import convert, cxas, read, shapes
from evalgate.ces.convert import Effect, Loss
from evalgate.ces.shapes import Evaluation
from evalgate.formats import eval_set
from evalgate.formats.adk_shapes import case_json
from evalgate.model import Case, Content, ConversationScenario, Invocation, Persona, SessionInput as AdkSession, Text

DATA = Path(__file__).parents[2] / "data/ces"
APP = "projects/local/locations/local/apps/library-desk"
PROMPTS = {"one-question-at-a-time": "Did the agent ask for one thing at a time?", "polite": "Was it polite?"}
GONE = object()


def round_trip(evaluation: Evaluation) -> tuple[Evaluation, list[Loss]]:
    case, losses = convert.to_adk(evaluation, app=APP, prompts=PROMPTS)
    text = json.dumps({"eval_set_id": "s", "eval_cases": [case_json(case)]})
    reading = eval_set.parse_eval_set(text, file="s.evalset.json")
    assert reading.eval_set is not None, reading.problems
    back, expectations, more = ces_from_adk.to_ces(reading.eval_set.cases[0], app=APP)
    assert more == []  # what came from CES has its place there
    assert {each.display_name: each.llm_criteria.prompt for each in expectations if each.llm_criteria} == {
        rubric.rubric_id: rubric.text for rubric in case.rubrics if rubric.rubric_id in PROMPTS
    }
    return back, losses


def without(raw: dict[str, Any], losses: list[Loss]) -> dict[str, Any]:
    """An evaluation as the report says that it comes back."""
    made = copy.deepcopy(raw)
    for loss in losses:
        if loss.effect in (Effect.DROPPED, Effect.BECOMES):
            here = made
            for step in loss.path[:-1]:
                here = here[step]
            here[loss.path[-1]] = GONE if loss.effect is Effect.DROPPED else loss.becomes
    for loss in losses:
        if loss.effect is Effect.ORDER:
            turn = made["golden"]["turns"][loss.path[2]]
            kept = [turn["steps"][number] for number in loss.order]
            assert len(kept) == sum(step is not GONE for step in turn["steps"])
            turn["steps"] = kept
    return tidied(made)


def tidied(value: Any) -> Any:
    """Without what is gone, and lists and messages that nothing is left of, as protobuf writes them."""
    if isinstance(value, dict):
        return {key: tidied(each) for key, each in value.items() if each is not GONE and tidied(each) != []}
    return [tidied(each) for each in value if each is not GONE] if isinstance(value, list) else value


def normal(raw: dict[str, Any]) -> dict[str, Any]:
    """The documented equivalences: the role `agent`, first variables in one step, events as text."""
    made = copy.deepcopy(raw)
    for number, turn in enumerate(made.get("golden", {}).get("turns", ())):
        steps, first = [], {}
        for step in turn.get("steps", ()):
            expected, said = step.get("expectation", {}), step.get("userInput", {})
            if expected.get("agentResponse", {}).get("role") == "agent":
                del expected["agentResponse"]["role"]
            text = said.get("text", "")
            if text.startswith("<event>") and text.endswith("</event>"):
                steps.append({"userInput": {"event": {"event": text[7:-8]}}})
            elif number == 0 and said.get("variables") and len(steps) == bool(first):
                first |= said["variables"]
                steps = [{"userInput": {"variables": first}}]
            else:
                steps.append(step)
        turn["steps"] = steps
    return made


def assert_named(evaluation: Evaluation) -> None:
    raw = shapes.comparable(evaluation)
    back, losses = round_trip(evaluation)
    assert normal(tidied(without(raw, losses))) == normal(back.json())


def evaluation_of(path: Path) -> Evaluation:
    return Evaluation.model_validate(json.loads(path.read_text()))


@pytest.mark.parametrize("name", ["golden_library_renewal", "scenario_lost_card"])
def test_examples(name: str) -> None:
    assert_named(evaluation_of(DATA / f"{name}.json"))


def test_what_has_its_place_is_not_reported() -> None:
    """The bare golden comes back whole, without a word."""
    app = APP
    call = {"tool": f"{app}/tools/find", "id": "1", "args": {"a": [1, {"b": None}]}}
    raw = {
        "displayName": "x",
        "golden": {
            "turns": [
                {
                    "steps": [
                        {"userInput": {"variables": {"k": "v"}}},
                        {"userInput": {"event": {"event": "welcome"}}},
                        {"userInput": {"image": {"mimeType": "image/png", "data": "aGk="}}},
                        {"expectation": {"toolCall": call}},
                        {"expectation": {"toolResponse": {"tool": call["tool"], "id": "1", "response": {"output": 3}}}},
                        {"expectation": {"agentTransfer": {"targetAgent": f"{app}/agents/loans"}}},
                        {"expectation": {"agentResponse": {"role": "loans", "chunks": [{"text": "One moment."}]}}},
                        {"expectation": {"agentResponse": {"role": "agent", "chunks": [{"text": "Done."}]}}},
                    ]
                },
                {
                    "steps": [
                        {"userInput": {"text": "Thanks"}},
                        {"expectation": {"agentResponse": {"role": "agent", "chunks": [{"text": "Bye"}]}}},
                        {"expectation": {"noToolCalls": True}},
                        {"expectation": {"updatedVariables": {"done": True}}},
                    ]
                },
            ],
            "evaluationExpectations": [f"{app}/evaluationExpectations/polite"],
        },
    }
    back, losses = round_trip(Evaluation.model_validate(raw))
    assert losses == []
    assert back.json() == raw
    scenario = {
        "displayName": "x",
        "scenario": {
            "task": "Renew.",
            "userFacts": [{"name": "id", "value": "7"}],
            "rubrics": ["Polite", "Short"],
            "variableOverrides": {"k": "v"},
            "evaluationExpectations": [f"{app}/evaluationExpectations/polite"],
        },
    }
    back, losses = round_trip(Evaluation.model_validate(scenario))
    assert [each.effect for each in losses] == [Effect.NOTE]  # the words to begin with
    assert back.json() == scenario


# --- generated ---------------------------------------------------------------------------------------

TEXT = st.sampled_from(["hi", "", "two\nlines", "<event>x</event>", "é", "- a: b", "Facts"])
STRUCT = st.dictionaries(
    st.sampled_from(["a", "b", "$c"]), st.sampled_from([1, "x", None, [1], {"d": True}]), max_size=2
)
ARGUMENT = st.sampled_from(
    [1, "x", {"$matchType": "ignore"}, {"$matchType": "semantic", "$originalValue": "y"}, {"$matchType": "contains"}]
)
TOOL = st.sampled_from(
    [
        {"tool": f"{APP}/tools/find"},
        {"tool": "find"},
        {"tool": f"{APP}/tools/transfer_to_agent"},
        {"toolsetTool": {"toolset": f"{APP}/toolsets/s", "toolId": "find"}},
        {"toolsetTool": {"toolset": f"{APP}/toolsets/s"}},
    ]
)
MIME = st.sampled_from(["image/png", "text/plain"])


def one_of(**values: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of([st.fixed_dictionaries({key: value}) for key, value in values.items()])


def merged(*parts: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(*parts).map(lambda made: {key: value for part in made for key, value in part.items()})


def data() -> st.SearchStrategy:
    return st.fixed_dictionaries({"mimeType": MIME, "data": st.just("aGk=")})


def optional(**values: st.SearchStrategy) -> st.SearchStrategy:
    return st.fixed_dictionaries({}, optional=values)


ID = optional(id=st.sampled_from(["1", "2"]))
CALL = merged(TOOL, ID, optional(args=st.dictionaries(st.sampled_from("ab"), ARGUMENT, max_size=2)))
RESPONSE = merged(TOOL, ID, st.fixed_dictionaries({"response": STRUCT}))
CHUNK = one_of(text=TEXT, transcript=TEXT, image=data(), blob=data(), payload=STRUCT, toolCall=CALL)
MESSAGE = optional(
    role=st.sampled_from(["agent", "loans", "user"]),
    chunks=st.lists(CHUNK, min_size=1, max_size=2),
    eventTime=st.just("2027-02-01T10:00:00Z"),
)
AGENT = st.fixed_dictionaries({"targetAgent": st.sampled_from([f"{APP}/agents/loans", "loans"])})
EXPECTATION = merged(
    one_of(
        toolCall=CALL,
        toolResponse=RESPONSE,
        agentResponse=MESSAGE,
        agentTransfer=AGENT,
        updatedVariables=STRUCT,
        mockToolResponse=RESPONSE,
        noToolCalls=st.just(True),
    ),
    optional(note=st.just("n"), skipEvaluation=st.just(True), comparisonType=st.sampled_from(["EQUALS", "CONTAINS"])),
)
INPUT = merged(
    one_of(
        text=TEXT,
        variables=STRUCT,
        event=st.sampled_from(["welcome", "a<b"]).map(lambda name: {"event": name}),
        image=data(),
        blob=data(),
        dtmf=st.just("1"),
        audio=st.just("aGk="),
        toolResponses=st.just({"toolResponses": []}),
    ),
    optional(willContinue=st.just(True)),
)
STEP = one_of(userInput=INPUT, expectation=EXPECTATION, agentTransfer=AGENT)
TURN = merged(
    st.fixed_dictionaries({"steps": st.lists(STEP, min_size=1, max_size=6)}),
    optional(hallucinationMetricBehaviorOverride=st.just("DISABLED")),
)
NAMED = st.lists(
    st.sampled_from([f"{APP}/evaluationExpectations/polite", "polite", f"{APP}/evaluationExpectations/unknown"]),
    max_size=2,
)
FACT = st.fixed_dictionaries(
    {"name": st.sampled_from(["id", "a: b", " x", ""]), "value": st.sampled_from(["7", "", "a\nb", "c: d"])}
)
SCENARIO = merged(
    st.fixed_dictionaries({"task": TEXT}),
    optional(
        userFacts=st.lists(FACT, max_size=2),
        rubrics=st.lists(TEXT, max_size=2),
        variableOverrides=STRUCT,
        maxTurns=st.just(3),
        userGoalBehavior=st.just("USER_GOAL_REJECTED"),
        evaluationExpectations=NAMED,
        scenarioExpectations=st.lists(one_of(agentResponse=MESSAGE), max_size=1),
    ),
)
GOLDEN = merged(
    st.fixed_dictionaries({"turns": st.lists(TURN, min_size=1, max_size=3)}), optional(evaluationExpectations=NAMED)
)
EVALUATION = merged(
    st.fixed_dictionaries({"displayName": st.just("x")}),
    one_of(golden=GOLDEN, scenario=SCENARIO),
    optional(description=st.just("d"), tags=st.just(["P0"])),
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(raw=EVALUATION)
def test_generated_evaluations(raw: dict[str, Any]) -> None:
    assert_named(Evaluation.model_validate(raw))


# --- from ADK, and from cxas -----------------------------------------------------------------------------


def test_what_adk_has_and_ces_has_not_is_named() -> None:
    turn = Invocation(
        user_content=Content(parts=(Text(text="hi"), Text(text="hm", thought=True))),
        final_response=Content(parts=(Text(text="ho"),)),
    )
    case = Case(case_id="c", conversation=(turn,), session=AdkSession(user_id="u1", session_id="s"))
    evaluation, _, losses = ces_from_adk.to_ces(case, app=APP)
    assert [str(each).partition(" is dropped")[0] for each in losses] == [
        "`session_input.user_id`",
        "`session_input.session_id`",
        "`conversation[0].user_content.parts[1]`",
    ]
    assert evaluation.json()["golden"]["turns"][0]["steps"][0] == {"userInput": {"text": "hi"}}
    scenario = ConversationScenario(
        starting_prompt="I lost my card", conversation_plan="Block it.", persona=Persona(persona_id="NOVICE")
    )
    evaluation, _, losses = ces_from_adk.to_ces(Case(case_id="c", scenario=scenario), app=APP)
    assert evaluation.json()["scenario"]["task"] == "Begin with: I lost my card\n\nBlock it."
    assert [each.effect for each in losses] == [Effect.NOTE, Effect.DROPPED]


def test_a_simulation_becomes_a_scenario_with_its_goals_in_order() -> None:
    text = (
        "evals:\n  - name: s\n    tags: [P0]\n    session_parameters: {a: 1}\n"
        "    expectations: [Is polite]\n    steps:\n"
        "      - {static_utterance: Hi}\n      - {goal: Ask, success_criteria: Told, response_guide: Be short}\n"
    )
    (resource,) = read.parse(text, file="s.yaml").resources
    assert isinstance(resource.message, cxas.Simulation)
    case, losses = convert.simulation_to_adk(resource.message, app=APP)
    assert case.scenario is not None
    assert case.scenario.starting_prompt == "Hi"
    assert case.scenario.conversation_plan.splitlines()[1:] == ["1. Say exactly: Hi", "2. Ask Be short Done when: Told"]
    assert [rubric.text for rubric in case.rubrics] == ["Is polite"]
    assert case.session is not None
    assert case.session.state == {"a": 1}
    assert [str(each).partition(":")[0] for each in losses] == ["`tags` is dropped", "`steps`"]
