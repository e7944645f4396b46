"""Our judged criteria against google-adk's, by the same scripted replies: equal to the last bit under adk_compat."""

import functools
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from parity import judge_scripts as replies
from parity import scripted
from parity.adk_child import AdkChild
from parity.scripted import THRESHOLD, Scripted

from evalgate.model import NotEvaluated

pytestmark = pytest.mark.parity

PATTERNS = 300
FEWER = 150
MATCH = "final_response_match_v2"
RUBRIC_TYPES = {
    "rubric_based_final_response_quality_v1": "FINAL_RESPONSE_QUALITY",
    "rubric_based_tool_use_quality_v1": "TOOL_USE_QUALITY",
    "rubric_based_multi_turn_trajectory_quality_v1": "TRAJECTORY_QUALITY",
}
HALLUCINATIONS = "hallucinations_v1"
SINGLE_TURN = ("safety_v1", "response_evaluation_score")
SERVED = (
    *SINGLE_TURN,
    "multi_turn_task_success_v1",
    "multi_turn_trajectory_quality_v1",
    "multi_turn_tool_use_quality_v1",
)
SIMULATOR = "per_turn_user_simulator_quality_v1"
JUDGED = (MATCH, *RUBRIC_TYPES, HALLUCINATIONS, SIMULATOR)
NAMES = (*JUDGED, *SERVED)
TEXTS = (
    "The answer is polite.",
    "It names the price.",
    "No tool is called twice.",
    "“Quoted” \N{EN DASH} with a dash.",
    "Ünïcode ① ok",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One request as both sides answered it."""

    request: Scripted
    adk: dict[str, Any]


PairsOf = Callable[[str], list[Pair]]


@pytest.fixture(scope="module")
def pairs_of(adk: AdkChild) -> PairsOf:
    @functools.cache
    def pairs(name: str) -> list[Pair]:
        requests = list(itertools.islice(_made(name), PATTERNS))
        answers = adk.ask("judged.py", requests)
        return [Pair(request=request, adk=answer) for request, answer in zip(requests, answers, strict=True)]

    return pairs


@pytest.mark.parametrize("name", NAMES)
def test_under_adk_compat_every_number_is_adks(pairs_of: PairsOf, name: str) -> None:
    own = pairs_of(name)
    assert len(own) == PATTERNS
    different = [
        (pair.request, ours, theirs) for pair in own if (ours := _ours(pair.request)) != (theirs := _adks(pair.adk))
    ]
    assert different == []


@pytest.mark.parametrize("name", NAMES)
def test_the_replies_are_worth_the_comparison(pairs_of: PairsOf, name: str) -> None:
    own = pairs_of(name)
    statuses = Counter(pair.adk["status"] for pair in own)
    assert all(statuses[status] > 10 for status in ("PASSED", "FAILED", "NOT_EVALUATED")), statuses
    assert len({json.dumps([pair.request["actual"], pair.request["replies"]]) for pair in own}) > 0.9 * PATTERNS
    assert len({pair.adk["score"] for pair in own}) > 3
    partial = [pair for pair in own if pair.adk["score"] is not None and None in pair.adk["turns"]]
    assert len(partial) > 10  # turns that ADK leaves out


def test_without_adk_compat_adks_faults_are_gone(pairs_of: PairsOf) -> None:
    """Where every reply is whole, both agree; where ADK guesses, we say that we do not know."""
    for name in (*JUDGED, *SINGLE_TURN):
        graded = ((pair, scripted.grade(pair.request, adk_compat=False)) for pair in pairs_of(name)[:FEWER])
        unknown = [pair for pair, ours in graded if isinstance(ours, NotEvaluated) and pair.adk["score"] is not None]
        assert len(unknown) > 10, name


# --- our side -------------------------------------------------------------------------------------


def _ours(request: Scripted) -> dict[str, Any]:
    grade = scripted.grade(request, adk_compat=True)
    values = [None if value is None else value.hex() for value in grade.turns]
    if isinstance(grade, NotEvaluated):
        return {"score": None, "status": "NOT_EVALUATED", "turns": values if any(values) else []}
    return {"score": grade.value.hex(), "status": "PASSED" if grade.value >= THRESHOLD else "FAILED", "turns": values}


def _adks(adk: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in adk.items() if key != "error"}
    return found | {"turns": found["turns"] if any(found["turns"]) else []} if found["score"] is None else found


# --- requests -------------------------------------------------------------------------------------


def _made(name: str) -> Iterator[Scripted]:
    rng = random.Random(f"judged {name}")
    while True:
        if name == MATCH:
            yield _match(rng)
        elif name == HALLUCINATIONS:
            yield _hallucinations(rng)
        elif name == SIMULATOR:
            yield _simulator(rng)
        elif name in SERVED:
            yield _served(rng, name)
        else:
            yield _rubrics(rng, name)


def _judge(rng: random.Random) -> dict[str, Any]:
    return {"judge_model": "scripted-judge", "num_samples": rng.choice((1, 2, 3, 4, 5, 5))}


def _content(text: str, role: str = "model") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def _match(rng: random.Random) -> Scripted:
    turns = [
        {"user_content": _content(f"question @t{number}@", "user"), "final_response": _content("answer")}
        for number in range(rng.choice((1, 1, 2, 3, 4)))
    ]
    judge = _judge(rng)
    scripts = {}
    for number in range(len(turns)):
        lean = rng.choice(("valid", "invalid", "maybe"))
        scripts[f"@t{number}@"] = [replies.match(rng, lean) for _ in range(judge["num_samples"])]
    criterion = {"threshold": THRESHOLD, "judge_model_options": judge}
    expected = None if rng.random() < 0.03 else turns
    return {"metric": MATCH, "criterion": criterion, "actual": turns, "expected": expected, "replies": scripts}


def _rubrics(rng: random.Random, name: str) -> Scripted:
    own = [_rubric(f"r{number}", text) for number, text in enumerate(rng.sample(TEXTS, rng.choice((0, 1, 2, 3))))]
    judge = _judge(rng)
    turns, scripts = [], {}
    for number in range(rng.choice((1, 1, 2, 3))):
        turn: dict[str, Any] = {
            "user_content": _content(f"question @t{number}@", "user"),
            "final_response": _content("a"),
        }
        if rng.random() < 0.5 or not own:
            kinds = (RUBRIC_TYPES[name],) * 5 + (None, "OTHER")
            turn["rubrics"] = [
                _rubric(f"t{number}.{each}", rng.choice(TEXTS), rng.choice(kinds)) for each in range(rng.choice((1, 2)))
            ]
            if rng.random() < 0.04 and own:
                turn["rubrics"].append(_rubric("r0", "again", RUBRIC_TYPES[name]))
        turns.append(turn)
        given = [*own, *turn.get("rubrics", ())] or [_rubric("none", "nothing")]
        lean = {each["rubric_id"]: rng.choice(("yes", "no")) for each in given}
        scripts[f"@t{number}@"] = [replies.rubrics(rng, given, lean) for _ in range(judge["num_samples"])]
    criterion = {"threshold": THRESHOLD, "judge_model_options": judge, "rubrics": own}
    expected = rng.choice((None, [{key: turn[key] for key in turn if key != "rubrics"} for turn in turns]))
    return {"metric": name, "criterion": criterion, "actual": turns, "expected": expected, "replies": scripts}


def _rubric(rubric_id: str, text: str, kind: str | None = None) -> dict[str, Any]:
    made = {"rubric_id": rubric_id, "rubric_content": {"text_property": text}}
    return made | ({"type": kind} if kind else {})


def _hallucinations(rng: random.Random) -> Scripted:
    turns: list[dict[str, Any]] = []
    scripts: dict[str, Any] = {}

    def said(mark: str) -> dict[str, Any]:
        segmented, count = replies.segmentation(rng, mark)
        scripts[mark] = [segmented, replies.validation(rng, mark, count)]
        return _content(f"text {mark}")

    for number in range(rng.choice((1, 1, 2, 3))):
        turn: dict[str, Any] = {"user_content": _content("question", "user")}
        events = [
            {"author": "agent", "content": said(f"@t{number}.{each}@")} for each in range(rng.choice((0, 0, 1, 2)))
        ]
        if rng.random() < 0.9:
            turn["final_response"] = said(f"@t{number}.f@")
        if events:
            turn["intermediate_data"] = {"invocation_events": events}
        turns.append(turn)
    criterion = {
        "threshold": THRESHOLD,
        "judge_model_options": _judge(rng),
        "evaluate_intermediate_nl_responses": rng.random() < 0.5,
    }
    return {"metric": HALLUCINATIONS, "criterion": criterion, "actual": turns, "expected": None, "replies": scripts}


def _simulator(rng: random.Random) -> Scripted:
    """A conversation of a simulated user: its messages are marked, and the last answer, where the end is judged."""
    turns, scripts = [], {}
    judge = _judge(rng)
    count = rng.choice((1, 1, 2, 3, 4, 6))
    asked = [f"@a{count - 1}@", *(f"@u{number}@" for number in range(1, count))]
    for mark in asked:
        lean = rng.choice(("true", "true", "false", "maybe"))
        scripts[mark] = [replies.simulated(rng, lean) for _ in range(judge["num_samples"])]
    for number in range(count):
        said = _content(f"{rng.choice(('', ' '))}message @u{number}@", "user")
        if number == 0 and rng.random() < 0.1:
            said = rng.choice((_content("Something else.", "user"), {"role": "user", "parts": []}))
        turns.append({"user_content": said, "final_response": _content(f"answer @a{number}@")})
    persona = rng.choice((None, "EXPERT", "NOVICE", "EVALUATOR", _persona()))
    scenario = {"starting_prompt": rng.choice(("message @u0@", "\nmessage @u0@ ")), "conversation_plan": "Ask."}
    criterion = {"threshold": THRESHOLD, "judge_model_options": judge}
    request = {"metric": SIMULATOR, "criterion": criterion, "actual": turns, "expected": None, "replies": scripts}
    return request | ({} if rng.random() < 0.04 else {"scenario": scenario | {"user_persona": persona}})


def _persona() -> dict[str, Any]:
    habit = {"name": "Short", "description": "Brief.", "behavior_instructions": ["End with {{ stop_signal }}."]}
    return {"id": "own", "description": "Anybody.", "behaviors": [habit | {"violation_rubrics": ["It is long."]}]}


def _served(rng: random.Random, name: str) -> Scripted:
    """What Google Cloud's service says of each turn, or of the conversation."""
    turns = [
        {
            "user_content": _content(f"question @t{number}@", "user"),
            "final_response": _content(f"answer {rng.random()} to @t{number}@"),
        }
        for number in range(rng.choice((1, 2, 3, 4, 7)))
    ]
    scores = (0.0, 1.0, 1.0, rng.random(), 5 * rng.random(), 0.1, 0.7, 3, None, "nan")
    scripts = {f"@t{number}@": ["raise" if rng.random() < 0.03 else rng.choice(scores)] for number in range(len(turns))}
    criterion = {"threshold": THRESHOLD}
    expected = None if rng.random() < 0.05 else turns
    return {"metric": name, "criterion": criterion, "actual": turns, "expected": expected, "replies": scripts}
