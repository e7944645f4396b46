"""What our worker and assembly record of an agent equals what google-adk's own inference records of
it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from parity.adk_child import AdkChild

from evalgate.agents import DRIVERS
from evalgate.agents.base import AgentFailed, AgentLimits, AgentSetting
from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import InvocationWire
from evalgate.model import Case, Content, Invocation, SessionInput, Text, TrialKey
from evalgate.system.python_env import InstallSetup

pytestmark = pytest.mark.parity

ROOT = Path(__file__).parents[2]
AGENTS = ROOT / "tests" / "agents"

SCRIPTS: list[list[str]] = [
    # an answer, several, none of words
    ["say hello"],
    ["say one", "say two", "say three"],
    ["say "],
    # calls: one, many, with odd arguments, of a tool that does not exist in the answer's place
    ['call add {"a": 1, "b": 2}\nsay three'],
    ['call add {"a": 1, "b": 2}\ncall add {"a": 3, "b": 4}\ncall recall {"key": "x"}\nsay many'],
    ['call recall {"key": "日本 \\u00e9 \\ud83d\\ude00"}\nsay 日本 é 😀'],
    ["call list_files\nsay none"],
    # thoughts beside the answer
    ["think deep"],
    ['call add {"a": 1, "b": 2}\nthink deep'],
    # another agent of the tree answers, and goes on answering in the next turn
    ["transfer helper\nsay from the helper"],
    ["transfer helper\nsay first", 'call add {"a": 1, "b": 1}\nsay second'],
    ['call add {"a": 0, "b": 0}\ntransfer helper\ncall add {"a": 5, "b": 5}\nsay last'],
    # state and artifacts
    ['call remember {"key": "k", "value": "v"}\nsay kept', 'call recall {"key": "k"}\nsay told'],
    [
        'call remember {"key": "user:k", "value": "v"}\nsay kept',
        'call recall {"key": "user:k"}\nsay told',
    ],
    ['call save_file {"name": "a.txt", "text": "x"}\ncall list_files\nsay saved'],
    # text after the script's end
    ['call add {"a": 1, "b": 2}'],
    ["say a", "say b", "say c", "say d", "say e"],
    # an answer of several lines cannot be scripted; long ones can
    ["say " + "long " * 2000],
    # faults: a tool that raises, a model that raises
    ["call boom"],
    ["say fine", "raise 429"],
]


def ours(python: str, agent: str, tmp_path: Path) -> list[Any]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    setting = AgentSetting(
        root=str(AGENTS),
        world=InstallSetup(environment=kept, cache=str(tmp_path)),
        limits=AgentLimits(),
    )
    driver = DRIVERS["adk"]
    opened = driver.open(driver.options.model_validate({"path": agent, "python": python}), setting)
    try:
        return [run(opened, number, texts) for number, texts in enumerate(SCRIPTS)]
    finally:
        opened.close()


def run(opened: Any, number: int, texts: list[str]) -> Any:
    session = SessionInput(app_name="app", user_id=f"user-{number}")
    case = Case(case_id=f"case-{number}", conversation=(), session=session)
    try:
        with opened.converse(case, TrialKey(suite="s", case_id=case.case_id)) as conversation:
            turns = [
                conversation.send(Content(role="user", parts=(Text(text=text),))) for text in texts
            ]
            conversation.finish()
            return turns
    except AgentFailed:
        return "failed"


def theirs(adk: AdkChild, agent: str) -> list[Any]:
    [found] = adk.ask("infer.py", [{"checkout": str(AGENTS), "agent": agent, "cases": SCRIPTS}])
    return [
        "failed"
        if isinstance(each, dict)
        else [InvocationWire.model_validate(turn).to_model() for turn in each]
        for each in found
    ]


def comparable(invocation: Invocation) -> dict[str, Any]:
    """All but what differs from run to run: ids and seconds."""
    data = adk_shapes.invocation_json(invocation)
    for name in (
        "invocation_id",
        "duration",
        "model_duration",
        "tool_duration",
        "creation_timestamp",
    ):
        data.pop(name, None)
    return _without_ids(data)


def _without_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ids(item) for item in value]
    if isinstance(value, dict):
        return {
            key: {name: _without_ids(inner) for name, inner in item.items() if name != "id"}
            if key in ("function_call", "function_response")
            else _without_ids(item)
            for key, item in value.items()
        }
    return value


@pytest.mark.parametrize("agent", ["adk_full", "adk_app_only"])
def test_recorded_invocations_are_the_same(
    adk: AdkChild, adk_python: Path, tmp_path: Path, agent: str
) -> None:
    expected = theirs(adk, agent)
    actual = ours(str(adk_python), agent, tmp_path)
    assert len(expected) == len(actual) == len(SCRIPTS)
    for script, wanted, found in zip(SCRIPTS, expected, actual, strict=True):
        if wanted == "failed":
            assert found == "failed", script
            continue
        assert [comparable(turn) for turn in found] == [comparable(turn) for turn in wanted], script
        for mine, theirs_ in zip(found, wanted, strict=True):
            assert (mine.timings is None) == (theirs_.timings is None)
    if agent == "adk_full":
        assert expected.count("failed") == 2
