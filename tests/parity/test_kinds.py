"""Agents of every kind give the same turns, calls, events and scores by google-adk's evaluation and
by our worker (tests/agents/adk_kinds has the agents)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders.nightly import ADKS as VERSIONS
from parity.adk_child import AdkChild
from parity.test_inference import comparable

from evalgate import criteria
from evalgate.agents.protocol import EventMessage, TurnEnd
from evalgate.criteria.base import CriterionServices
from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import InvocationWire
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    Invocation,
    Score,
    Text,
    TrialView,
)
from evalgate.model.deviations import ADKS

pytestmark = pytest.mark.parity

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]

TOOLS_AND_WORDS = "tool_trajectory_avg_score", "response_match_score", "tool_call_count_v1"
ALL = *TOOLS_AND_WORDS, "inference_call_count_v1", "token_usage_v1"

DIFFERENT = {
    # partial responses are events of ADK's turn
    "streaming": {"intermediate_data", "scores"},
    # ADK's evaluation leaves a key of its own in the session's state
    "state_of_tools": {"intermediate_data"},
    # ADK does not know which request an answer came from, once a callback has replaced the answer
    "before_model": {"app_details"},
    "after_model": {"app_details"},
    # ... or whose it was, once a plugin has renamed the author
    "app_with_plugins": {"app_details"},
    # ADK fails the case of an agent that was asked without an instruction
    "single_turn_without_instruction": {"failed"},
    # a task's turns share an invocation id, so ADK makes one turn of them, and aborts the run
    "task": {"turns"},
    # an agent that speaks as the user: ADK takes its text for the user's message
    "custom_in_the_users_name": {"user_content"},
    # ADK has no turn where no event is, and aborts the run
    "custom_that_is_silent": {"turns"},
}
"""What differs from the newest google-adk by kind; docs/adk-parity.md has each row."""

DIFFERENT_FROM_OLD = {
    "before_model": {"app_details"},
    "after_model": {"app_details"},
    "custom_in_the_users_name": {"user_content"},
    "custom_that_is_silent": {"turns"},
    "state_of_tools": {"intermediate_data"},
    # 1.18 takes the last event that is final for the answer, also one that calls or answers
    "loop": {"final_response", "intermediate_data"},
    "long_running_tool": {"intermediate_data", "scores"},
    "user_choice": {"intermediate_data", "scores"},
    "confirmation": {"intermediate_data", "scores"},
    "confirmation_of_a_tool_context": {"intermediate_data", "scores"},
}
"""The same for the oldest one, of which only calls and tool responses are compared as steps: it
records neither usage nor the texts of final events."""

LACKING = {
    "new": {"mcp_toolset"},  # its package is not in that environment
    "old": {
        # later than 1.18
        *("skills", "request_input", "model_error_answered", "task"),
        *("single_turn", "single_turn_without_instruction"),
        *("workflow", "workflow_with_agents", "workflow_with_routes", "workflow_that_joins"),
        *("workflow_in_a_workflow", "workflow_with_human_input", "workflow_that_raises"),
        # 1.18 evaluates the agent of an App, without the App
        *("app", "app_with_plugins", "app_with_a_plugin_that_answers", "app_that_resumes"),
        *("app_with_a_global_instruction", "app_that_retries_tools", "app_that_compacts"),
        "app_with_a_cache",
    },
}
"""Kinds that a version of google-adk, or its environment, does not have."""


@pytest.fixture(scope="module", params=VERSIONS)
def rows(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[Json]]:
    """The version, and what both sides say of each kind: one process for all of them."""
    which = str(request.param)
    if which == "new":
        child: AdkChild = request.getfixturevalue("adk")
        python = child.python
    else:
        python = str(ROOT / ".venv-adk-old/bin/python")
        if not Path(python).exists():
            pytest.skip("no environment with google-adk: make .venv-adk-old")
    place = tmp_path_factory.mktemp(f"kinds-{which}")
    asked = {
        "checkout": str(ROOT / "tests/agents"),
        "source": str(ROOT),
        "package": "adk_kinds",
        "kinds": None,
    }
    (place / "requests").write_text(json.dumps(asked) + "\n")
    script = Path(__file__).parent / "adk_side/kinds.py"
    command = [python, script, place / "requests", place / "answers"]
    subprocess.run(command, check=True, timeout=500)
    return which, json.loads((place / "answers").read_text("utf-8"))


def test_every_kind_is_the_same(rows: tuple[str, list[Json]]) -> None:
    which, answers = rows
    measured = [row for row in answers if "lacks" not in row["adk"]]
    is_old = which == "old"
    differing = {
        row["name"]: found for row in measured if (found := _differences(row, is_old=is_old))
    }
    assert differing == (DIFFERENT_FROM_OLD if is_old else DIFFERENT)
    assert {row["name"] for row in answers if "lacks" in row["adk"]} == LACKING[which]


def _differences(row: Json, *, is_old: bool) -> set[str]:
    """The names of what differs: fields of the turns, or all that is known."""
    adk, worker = row["adk"], row["worker"]
    if isinstance(adk, dict) or isinstance(worker, dict):
        return set() if isinstance(adk, dict) and isinstance(worker, dict) else {"failed"}
    if len(adk) != len(worker):
        return {"turns"}
    theirs = [InvocationWire.model_validate(turn).to_model() for turn in adk]
    ours = [_invocation(text, turn) for text, turn in zip(row["texts"], worker, strict=True)]
    scores = [_scores(turns, TOOLS_AND_WORDS if is_old else ALL) for turns in (theirs, ours)]
    names = {"scores"} if scores[0] != scores[1] else set()
    for one, other in zip(theirs, ours, strict=True):
        sides = [_plain(turn, is_old=is_old) for turn in (one, other)]
        names |= {
            name
            for name in sides[0].keys() | sides[1].keys()
            if sides[0].get(name) != sides[1].get(name)
        }
    return names


def _invocation(text: str, turn: Json) -> Invocation:
    """The turn as WorkerConversation makes it."""
    events = [
        EventMessage.model_validate({"type": "event", "session": "s", **event}).step()
        for event in turn["events"]
    ]
    end = TurnEnd.model_validate({"type": "turn_end", "session": "s", **turn["end"]})
    user_content = Content(role="user", parts=(Text(text=text),))
    agents = tuple(agent.to_model() for agent in end.agents)
    return adk_shapes.turn_of_steps(user_content, events, agents=agents)


def _plain(turn: Invocation, *, is_old: bool) -> Json:
    """Without ids, and without events that ADK leaves out: a model's error."""
    plain = comparable(turn)
    steps = [
        step for step in plain["intermediate_data"]["invocation_events"] if "error_code" not in step
    ]
    if is_old:
        steps = [
            {"author": step["author"], **part}
            for step in steps
            for part in step.get("content", {}).get("parts", ())
            if part.keys() & {"function_call", "function_response"}
        ]
    plain["intermediate_data"] = steps
    return _without_random(plain)


def _without_random(value: Any) -> Any:
    """Ids of calls stand in arguments, too, and OAuth has a random state."""
    if isinstance(value, list):
        return [_without_random(part) for part in value]
    if isinstance(value, dict):
        names = ("id", "functionCallId", "interruptId", "authUri", "state")
        return {key: _without_random(part) for key, part in value.items() if key not in names}
    return value


def _scores(turns: list[Invocation], names: tuple[str, ...]) -> Json:
    """By the criteria that ask nobody: against a reference that none of the agents gives."""
    reference = Invocation(
        user_content=Content(),
        final_response=Content(role="model", parts=(Text(text="say 3 of two and one"),)),
        events=(),
    )
    view = TrialView(
        case=Case(case_id="c"), actual=tuple(turns), expected=(reference,) * len(turns)
    )
    scores = {}
    for name in names:
        use = CriterionUse(name=name, threshold=0.5)
        grade = criteria.build(use, CriterionServices(deviations=ADKS))(view)
        scores[name] = grade.value if isinstance(grade, Score) else str(grade)
    return scores
