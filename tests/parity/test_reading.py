"""Evaluation files mean to us what they mean to google-adk, and what it rejects is never read in
silence."""

from __future__ import annotations

import copy
import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
from parity.adk_child import AdkChild
from pydantic.alias_generators import to_camel

from evalgate import formats
from evalgate.errors import Severity
from evalgate.model import Content, Invocation, Text
from evalgate.text import plain

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "../shared/corpus"
LOADERS = ("adk_2_13_accepts", "adk_cli_loader", "adk_agent_evaluator")

pytestmark = pytest.mark.parity


def ask(adk: AdkChild, paths: list[Path]) -> list[dict]:
    """What google-adk makes of each file."""
    return adk.ask("read.py", ({"path": str(path)} for path in paths))


def ours(path: Path, name: str = "x.evalset.json"):
    text = plain.decode(path.read_bytes(), file=name)
    assert isinstance(text, str)
    return formats.parse_eval_set(text, file=name)


# --- both sides in one shape ----------------------------------------------------------------------


def texts(content: Content | dict | None) -> list[tuple[str, bool]] | None:
    if content is None:
        return None
    if isinstance(content, Content):
        return [(part.text, part.thought) for part in content.parts if isinstance(part, Text)]
    parts = content.get("parts") or []
    return [
        (part["text"], bool(part.get("thought"))) for part in parts if part.get("text") is not None
    ]


def our_turn(turn: Invocation) -> dict:
    return {
        "asked": texts(turn.user_content),
        "answer": texts(turn.final_response),
        "calls": [(call.name, call.args, call.id) for call in turn.tool_calls],
        "responses": [(response.name, response.response) for response in turn.tool_responses],
        "said": [texts(event.content) for event in turn.events or () if texts(event.content)],
        "rubrics": [(rubric.rubric_id, rubric.text) for rubric in turn.rubrics],
        "steps": turn.events is not None,
    }


def adk_turn(turn: dict) -> dict:
    steps = turn["intermediate_data"]
    by_kind = steps or {}
    parts = [
        part
        for event in by_kind.get("invocation_events") or []
        for part in (event["content"] or {}).get("parts") or []
    ]
    calls = by_kind.get("tool_uses") or [
        part["function_call"] for part in parts if part.get("function_call")
    ]
    responses = by_kind.get("tool_responses") or [
        part["function_response"] for part in parts if part.get("function_response")
    ]
    events = [event["content"] for event in by_kind.get("invocation_events") or []]
    said = events + [{"parts": parts} for _, parts in by_kind.get("intermediate_responses") or []]
    return {
        "asked": texts(turn["user_content"]),
        "answer": texts(turn["final_response"]),
        "calls": [(call["name"] or "", call["args"], call["id"]) for call in calls],
        "responses": [(response["name"] or "", response["response"]) for response in responses],
        "said": [texts(content) for content in said if texts(content)],
        "rubrics": [
            (r["rubric_id"], r["rubric_content"]["text_property"] or "")
            for r in turn["rubrics"] or []
        ],
        "steps": steps is not None,
    }


def our_case(case) -> dict:
    session, scenario = case.session, case.scenario
    return {
        "id": case.case_id,
        "turns": None
        if case.conversation is None
        else [our_turn(turn) for turn in case.conversation],
        "scenario": scenario and (scenario.starting_prompt, scenario.conversation_plan),
        "persona": scenario and scenario.persona and scenario.persona.persona_id,
        "session": session
        and (session.app_name, session.user_id, session.session_id, dict(session.state)),
        "rubrics": [(rubric.rubric_id, rubric.text) for rubric in case.rubrics],
        "state": dict(case.expects_state) if case.expects_state else None,
    }


def adk_case(case: dict) -> dict:
    session, scenario = case["session_input"], case["conversation_scenario"]
    return {
        "id": case["eval_id"],
        "turns": None
        if case["conversation"] is None
        else [adk_turn(turn) for turn in case["conversation"]],
        "scenario": scenario and (scenario["starting_prompt"], scenario["conversation_plan"]),
        "persona": scenario and scenario["user_persona"] and scenario["user_persona"]["id"],
        "session": session
        and (session["app_name"], session["user_id"], session["session_id"], session["state"]),
        "rubrics": [
            (r["rubric_id"], r["rubric_content"]["text_property"] or "")
            for r in case["rubrics"] or []
        ],
        "state": case["final_session_state"] or None,
    }


# --- files from the wild --------------------------------------------------------------------------


def readable_sets() -> list[Path]:
    if not (CORPUS / "INDEX.tsv").exists():
        return []
    with (CORPUS / "INDEX.tsv").open(encoding="utf-8", newline="") as lines:
        rows = [
            row
            for row in csv.DictReader(lines, delimiter="\t")
            if row["kind"].startswith(("evalset", "old"))
        ]
    return [
        CORPUS / "files" / row["file"]
        for row in rows
        if any(row[loader] == "yes" for loader in LOADERS)
    ]


def test_every_set_that_adk_reads_means_the_same(adk):
    paths = readable_sets()
    if not paths:
        pytest.skip("needs the corpus: public evaluation files beside the repository")
    answers = ask(adk, paths)
    assert len(paths) > 60
    differing = []  # compared one by one: a diff of whole sets takes minutes
    for path, answer in zip(paths, answers, strict=True):
        reading = ours(path)
        assert reading.eval_set is not None, path
        mine, theirs = (
            [our_case(c) for c in reading.eval_set.cases],
            [adk_case(c) for c in answer["set"]["eval_cases"]],
        )
        # ADK calls the one case by its path, we by its name
        if answer["loader"] == "agent_evaluator":
            theirs[0]["id"] = mine[0]["id"]
        differing += [
            (path.name, case["id"])
            for case, other in zip(mine, theirs, strict=True)
            if case != other
        ]
        if answer["loader"] == "schema":
            assert reading.eval_set.eval_set_id == answer["set"]["eval_set_id"]
    assert differing == []


# --- files gone wrong -----------------------------------------------------------------------------

SOUND = {
    "eval_set_id": "s",
    "name": "n",
    "eval_cases": [
        {
            "eval_id": "c",
            "conversation": [
                {
                    "invocation_id": "i",
                    "user_content": {"role": "user", "parts": [{"text": "hi"}]},
                    "final_response": {
                        "role": "model",
                        "parts": [{"text": "yo", "thought": False}],
                    },
                    "intermediate_data": {
                        "tool_uses": [{"name": "t", "args": {"a": 1}, "id": "1"}],
                        "tool_responses": [{"name": "t", "response": {"r": 1}}],
                        "intermediate_responses": [["sub", [{"text": "working"}]]],
                    },
                    "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "kind"}}],
                }
            ],
            "session_input": {"app_name": "a", "user_id": "u", "state": {"k": 1}},
        },
        {
            "eval_id": "d",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": "hi"}]},
                    "intermediate_data": {
                        "invocation_events": [
                            {
                                "author": "a",
                                "content": {
                                    "parts": [{"function_call": {"name": "t", "args": {}}}]
                                },
                            }
                        ]
                    },
                }
            ],
        },
        {
            "eval_id": "e",
            "conversation_scenario": {"starting_prompt": "p", "conversation_plan": "q"},
        },
    ],
}

OLD_TURNS = [
    {
        "query": "q",
        "reference": "r",
        "expected_tool_use": [
            {"tool_name": "t", "tool_input": {"a": 1}},
            {"tool_name": "u", "tool_input": {}},
        ],
        "expected_intermediate_agent_responses": [{"author": "a", "text": "x"}],
    },
    {"query": "q2", "expected_tool_use": [{"tool_name": "t", "tool_input": {"x": None}}]},
]
OLD_CASES = [
    {
        "name": "n",
        "data": OLD_TURNS,
        "initial_session": {"app_name": "a", "user_id": "u", "state": {"k": 1}},
    }
]


def spots(value, path=()) -> list[tuple]:
    """Every place of a value below the top."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [spot for key, below in inner for spot in [(*path, key), *spots(below, (*path, key))]]


def damaged(seed: int, sound: Any = SOUND) -> Any:
    """The sound set with one thing changed, somewhere."""
    chance = random.Random(seed)
    value = copy.deepcopy(sound)
    *above, key = chance.choice(spots(value))
    parent = value
    for part in above:
        parent = parent[part]
    kind = chance.choice(
        ["drop", "null", "number", "text", "list", "object", "camel", "extra", "slip"]
    )
    replacements = {"null": None, "number": 7, "text": "x", "list": [], "object": {}}
    if kind in replacements:
        parent[key] = replacements[kind]
    elif kind == "drop":
        del parent[key]
    elif isinstance(parent, dict) and kind == "camel":
        parent[to_camel(key)] = parent.pop(key)
    elif isinstance(parent, dict) and kind == "slip":
        parent[key + "s"] = parent.pop(key)
    elif isinstance(parent, dict):
        parent["extra_key"] = 1
    return value


def test_what_adk_rejects_is_never_read_in_silence(adk, tmp_path):
    sets = [damaged(seed) for seed in range(600)]
    paths = []
    for i, value in enumerate(sets):
        paths.append(tmp_path / f"{i}.json")
        paths[-1].write_text(json.dumps(value), encoding="utf-8")
    answers = ask(adk, paths)
    wrong = []
    for seed, (path, answer) in enumerate(zip(paths, answers, strict=True)):
        reading = ours(path)
        worst = {p.severity for p in reading.problems}
        if answer["loader"] == "schema":
            agrees = reading.eval_set is not None and [
                our_case(c) for c in reading.eval_set.cases
            ] == [adk_case(c) for c in answer["set"]["eval_cases"]]
        else:
            agrees = bool(worst & {Severity.ERROR, Severity.WARNING})
        if not agrees:
            wrong.append((answer["loader"], seed))
    accepted = sum(answer["loader"] == "schema" for answer in answers)
    assert 100 < accepted < 500  # the damage is neither harmless nor always deadly
    assert wrong == []


def test_of_old_lists_neither(adk, tmp_path):
    sets = [damaged(seed, sound) for sound in (OLD_TURNS, OLD_CASES) for seed in range(400)]
    paths = [tmp_path / f"{i}.json" for i in range(len(sets))]
    for path, value in zip(paths, sets, strict=True):
        path.write_text(json.dumps(value), encoding="utf-8")
    rejected = [
        path
        for path, answer in zip(paths, ask(adk, paths), strict=True)
        if answer["loader"] is None
    ]
    assert 100 < len(rejected) < 700
    loud = {Severity.ERROR, Severity.WARNING}
    assert [
        json.loads(path.read_text())
        for path in rejected
        if not loud & {p.severity for p in ours(path).problems}
    ] == []
