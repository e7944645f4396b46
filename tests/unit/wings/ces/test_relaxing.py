"""Edits that an assistant may make alone (`--no-relaxing`): over generated edits of many
evaluations, none that is let in turns a failure into a pass, or into something that is not run."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from pathlib import Path
from typing import Any

from builders.nightly import NIGHTLY

from evalgate.model import Content, Event, Invocation, Text, ToolCall, ToolResponse
from evalgate.wings.ces import cases, compare, outcomes, read, shapes
from evalgate.wings.ces.outcomes import Plan, Verdict
from evalgate.wings.ces.shapes import Evaluation, Outcome

DATA = Path(__file__).parents[3] / "data/ces"
APP = "projects/p/locations/l/apps/desk"
EDITS = 2000 if NIGHTLY else 300
WORDS = ("Hello", "Refund approved", "Denied", "See you on Friday")
TOOLS = ("find", "renew", "block")


def text(chance: random.Random) -> dict[str, Any]:
    return {"chunks": [{"text": chance.choice(WORDS)}]}


def call(chance: random.Random) -> dict[str, Any]:
    args = {"id": chance.choice("ab"), "weeks": chance.choice((2, 3))}
    return {"tool": f"{APP}/tools/{chance.choice(TOOLS)}", "args": args}


def expectation(chance: random.Random) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {"agentResponse": text(chance)},
        {"agentResponse": text(chance), "comparisonType": chance.choice(("EQUALS", "CONTAINS"))},
        {"toolCall": call(chance)},
        {"toolResponse": {"tool": f"{APP}/tools/find", "response": {"output": "x"}}},
        {"mockToolResponse": {"tool": f"{APP}/tools/find", "response": {"output": "x"}}},
        {"agentTransfer": {"targetAgent": f"{APP}/agents/loans"}},
        {"updatedVariables": {"a": chance.choice((1, 2))}},
        {"noToolCalls": True},
    ]
    return {**chance.choice(kinds), **chance.choice(({}, {}, {}, {"skipEvaluation": True}))}


def turn(chance: random.Random) -> dict[str, Any]:
    inputs = ({"text": "Hi"}, {"text": "Hi"}, {"event": {"event": "welcome"}}, {"dtmf": "1"})
    steps = [{"userInput": chance.choice(inputs)}]
    steps += [{"expectation": expectation(chance)} for _ in range(chance.randint(1, 3))]
    return {"steps": steps}


def evaluation(chance: random.Random) -> dict[str, Any]:
    expected = [
        chance.choice(
            (
                {"agentResponse": text(chance)},
                {"toolExpectation": {"expectedToolCall": call(chance)}},
            )
        )
        for _ in range(chance.randint(1, 3))
    ]
    scenario = {"task": "Get it.", "rubrics": ["polite"], "scenarioExpectations": expected}
    golden = {"turns": [turn(chance) for _ in range(chance.randint(1, 3))]}
    return {"displayName": "e", **chance.choice(({"golden": golden}, {"scenario": scenario}))}


LEVELS: list[dict[str, Any]] = [
    {"turnLevelMetricsThresholds": {"semanticSimilaritySuccessThreshold": level}}
    for level in range(5)
]
LEVELS += [
    {"expectationLevelMetricsThresholds": {"toolInvocationParameterCorrectnessThreshold": level}}
    for level in (0.0, 0.5, 1.0)
]
LEVELS += [{"toolMatchingSettings": {"extraToolCallBehavior": way}} for way in ("ALLOW", "FAIL")]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All paths of a JSON value."""
    if not isinstance(value, dict | list):
        return [path]
    children = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(below for key, child in children for below in places(child, (*path, key)))]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def edited(raw: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The same with one edit at a random place: something goes, comes or changes."""
    edit = copy.deepcopy(raw)
    way = chance.randrange(6)
    lists = [path for path in places(edit) if isinstance(at(edit, path), list)]
    path = chance.choice(lists) if lists else ()
    last = path[-1] if path else ""
    if way < 3 and lists:
        additions = {
            "turns": turn(chance),
            "steps": {"expectation": expectation(chance)},
            "scenarioExpectations": chance.choice(
                (
                    {"agentResponse": text(chance)},
                    {"toolExpectation": {"expectedToolCall": call(chance)}},
                )
            ),
            "rubrics": "brief",
        }
        elements = at(edit, path)
        where = len(elements) if way < 2 else chance.randrange(len(elements) + 1)
        elements.insert(where, additions.get(last, {"text": chance.choice(WORDS)}))
    elif way == 3:
        override = {"goldenEvaluationMetricsThresholds": chance.choice(LEVELS)}
        edit["evaluationMetricsThresholdOverride"] = override
    elif way == 4:
        path = chance.choice(places(edit)[1:])
        del at(edit, path[:-1])[path[-1]]
    else:
        leaves = [path for path in places(edit) if isinstance(at(edit, path), str | int)]
        path = chance.choice(leaves)
        at(edit, path[:-1])[path[-1]] = chance.choice((*WORDS, 0, 1, 2, True, "ALLOW", "FAIL"))
    return edit


def transcript(chance: random.Random) -> list[Invocation]:
    """What an agent did in five turns, recorded once."""
    turns = []
    for _ in range(5):
        parts: list[Any] = []
        for _ in range(chance.randrange(3)):
            args = {"id": chance.choice("ab"), "weeks": chance.choice((2, 3))}
            parts.append(ToolCall(name=chance.choice(TOOLS), args=args))
        if chance.random() < 0.3:
            parts.append(ToolResponse(name="find", response={"output": "x"}))
        if chance.random() < 0.2:
            parts.append(ToolCall(name="transfer_to_agent", args={"agent_name": "loans"}))
        events = tuple(Event(author="desk", content=Content(parts=(part,))) for part in parts)
        answer = Content(parts=(Text(text=chance.choice(WORDS)),))
        state = {"a": chance.choice((1, 2))}
        turns.append(
            Invocation(user_content=Content(), final_response=answer, events=events, state=state)
        )
    return turns


def judged(question: outcomes.JudgeQuestion) -> Verdict:
    """What a judge says who always says the same of the same texts."""
    text_of_it = f"{question.kind}\0{question.expected}\0{question.actual}"
    digest = hashlib.sha256(text_of_it.encode()).digest()[0]
    scores = {outcomes.QuestionKind.ANSWER: digest % 5, outcomes.QuestionKind.GOAL: 1}
    return Verdict(score=scores.get(question.kind, digest % 2))


def ending(raw: dict[str, Any], actual: list[Invocation], levels: Any) -> Outcome | str | None:
    """How the evaluation ends: an outcome, None for an error, or why it is not run."""
    reading = read.parse(json.dumps(raw), file="evaluations/e/e.json")
    if any(problem.severity.value == "error" for problem in reading.problems):
        return "invalid"
    message = Evaluation.model_validate(raw)
    if reason := cases.not_run_reason(message):
        return reason
    thresholds = shapes.EvaluationMetricsThresholds.model_validate(
        {"goldenEvaluationMetricsThresholds": levels}
    )
    plan = Plan(evaluation=message, thresholds=thresholds)
    # a scenario is talked over in two turns
    actual = actual[: len(plan.turns) or 2]
    result = outcomes.result_of(plan, actual, judged)
    return outcomes.status(outcomes.checks(plan, result))


def test_no_edit_that_is_let_in_saves_a_failure() -> None:
    chance = random.Random(20)
    recorded = [(evaluation(chance), transcript(chance)) for _ in range(20)]
    failing = let_in = tried = 0
    while tried < EDITS:
        raw, actual = chance.choice(recorded)
        levels = chance.choice(LEVELS)
        new = edited(raw, chance)
        after = ending(new, actual, levels) if new != raw else "invalid"
        if after == "invalid":
            continue
        tried += 1
        before = ending(raw, actual, levels)
        old_message, new_message = map(Evaluation.model_validate, (raw, new))
        changes = list(
            compare.changes(shapes.content_of(old_message), shapes.content_of(new_message))
        )
        if compare.relaxed_reasons(changes):
            continue
        let_in += 1
        if before is Outcome.FAIL:
            failing += 1
            assert after is Outcome.FAIL, (changes, after)
    # enough of them say something
    assert let_in > EDITS / 20
    assert failing > EDITS / 40
