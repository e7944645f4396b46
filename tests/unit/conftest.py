"""A small language for suites and repositories in tests."""

import json

import pytest
from pydantic import BaseModel

from evalgate.criteria import informational, with_facts
from evalgate.criteria.base import CriterionSpec
from evalgate.discovery import criteria, discover
from evalgate.errors import Place
from evalgate.model import (
    OPEN,
    AgentUse,
    Case,
    ConfigOrigin,
    Content,
    ConversationScenario,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Event,
    Invocation,
    Need,
    SessionInput,
    Suite,
    Text,
    ToolCall,
)


class Anything(BaseModel):
    model_config = {"extra": "allow"}


def _spec(name, *needs, **rest):
    return CriterionSpec(
        name=name,
        summary="",
        options=Anything,
        build=lambda *_: None,
        needs=frozenset(needs),
        **rest,
    )


@pytest.fixture(scope="session")
def specs():
    """The table of this version, and some of ADK's that need more."""
    rows = (
        _spec("tool_trajectory_avg_score", Need.REFERENCE),
        _spec("response_match_score", Need.REFERENCE),
        _spec("final_session_state"),
        _spec("rubric_based_final_response_quality_v1", Need.JUDGE, Need.RUBRICS),
        _spec("per_turn_user_simulator_quality_v1", Need.JUDGE, Need.SCENARIO),
        _spec("safety_v1", Need.VERTEX),
        _spec("token_usage_v1", informational=True, scale=OPEN),
    )
    return {row.name: row for row in rows}


@pytest.fixture
def few_criteria(specs, monkeypatch):
    """Discovery knows these criteria alone."""
    for module in (criteria, discover):
        monkeypatch.setattr(module, "CRITERIA", specs)
    monkeypatch.setattr(informational, "SPECS", (specs["token_usage_v1"],))


def _turn(text):
    """`hi`, `hi -> hello`, `hi -> roll(6) -> hello`, `hi -> () -> hello` (no tool expected,
    explicitly)."""
    said, *rest = (part.strip() for part in text.split("->"))
    answer = rest.pop() if rest else ""
    steps = None
    if rest:
        name, _, inner = rest[0].partition("(")
        call = ToolCall(name=name, args={"x": inner.rstrip(")")}) if name else None
        steps = (Event(author="agent", content=Content(parts=(call,))),) if call else ()
    return Invocation(
        user_content=Content(parts=(Text(text=said),), role="user"),
        final_response=Content(parts=(Text(text=answer),)) if answer else None,
        events=steps,
    )


@pytest.fixture(scope="session")
def case():
    """`case("a", "hi -> hello", "bye")`: a case of two turns; `scenario="..."` for a simulated
    user."""

    def make(case_id, *turns, scenario=None, app_name="", line=None, **rest):
        return Case(
            case_id=case_id,
            conversation=None if scenario else tuple(_turn(turn) for turn in turns),
            scenario=ConversationScenario(starting_prompt=scenario, conversation_plan="Ask.")
            if scenario
            else None,
            session=SessionInput(app_name=app_name) if app_name else None,
            place=Place(file="x.evalset.json", line=line) if line else None,
            **rest,
        )

    return make


@pytest.fixture(scope="session")
def suite(specs):
    """`suite("x.evalset.json", case(...), criteria="response_match_score")`; `more`: further rows
    of the table."""

    def make(key, *cases, criteria="", options=None, set_id=None, more=()):
        rows = specs | {row.name: row for row in more}
        uses = [
            CriterionUse(name=name, threshold=0.5, options=options or {})
            for name in criteria.split()
        ]
        uses = tuple(with_facts(use, rows[use.name]) if use.name in rows else use for use in uses)
        return Suite(
            key=key,
            eval_set=EvalSet(
                eval_set_id=key.removesuffix(".evalset.json") if set_id is None else set_id,
                cases=cases,
            ),
            criteria=uses,
            criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE, file="test_config.json"),
            agent=AgentUse(driver="adk", options={"path": "."}),
        )

    return make


AGENT = "root_agent = 1\n"


@pytest.fixture
def repo(tmp_path):
    """`repo({"a/b.txt": "text", "c.json": {...}})`: files below a fresh root; `agent()` and
    `evalset()` in values."""

    def make(files):
        root = tmp_path / "repo"
        for path, content in files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                file.write_bytes(content)
            else:
                file.write_text(
                    content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
                )
        root.mkdir(exist_ok=True)
        return root

    return make


@pytest.fixture(scope="session")
def evalset():
    """`evalset("x", "case_1: hi -> hello", app="bot")`: an evaluation set as ADK writes it."""

    def make(set_id, *lines, app=""):
        cases = []
        for line in lines:
            case_id, _, text = line.partition(":")
            said, _, answer = (part.strip() for part in text.partition("->"))
            turn = {"user_content": {"role": "user", "parts": [{"text": said}]}}
            if answer:
                turn["final_response"] = {"role": "model", "parts": [{"text": answer}]}
                turn["intermediate_data"] = {
                    "tool_uses": [{"name": "look_up", "args": {"x": said}}]
                }
            made = {"eval_id": case_id, "conversation": [turn]}
            if app:
                made["session_input"] = {"app_name": app, "user_id": "u"}
            cases.append(made)
        return {"eval_set_id": set_id, "eval_cases": cases}

    return make
