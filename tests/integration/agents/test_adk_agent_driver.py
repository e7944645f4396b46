"""The adk and python drivers from end to end: an interpreter is found or made, a pool runs,
failures have kinds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents import DRIVERS
from evalgate.agents.base import Agent, AgentFailed
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    FailureKind,
    NotEvaluated,
    Reason,
    Score,
    SessionInput,
    Text,
    Transcript,
    TrialKey,
    TrialView,
)
from tests.integration.agents.line_client import adk_python, forked_adk

pytestmark = pytest.mark.integration


def talk(
    agent: Agent, *texts: str, name: str = "case", state: dict[str, Any] | None = None
) -> Transcript:
    case = Case(case_id=name, conversation=(), session=SessionInput(state=state or {}))
    with agent.converse(case, TrialKey(suite="s", case_id=name)) as conversation:
        turns = tuple(
            conversation.send(Content(role="user", parts=(Text(text=text),))) for text in texts
        )
        return Transcript(invocations=turns, final_state=conversation.finish())


def failure_of(agent: Agent, *texts: str) -> Any:
    with pytest.raises(AgentFailed) as caught:
        talk(agent, *texts)
    return caught.value.failure


def test_an_adk_agent_converses(opened) -> None:
    agent = opened("adk", {"path": "adk_full", "python": adk_python("new")})
    script = 'call remember {"key": "mood", "value": "fine"}\nsay noted'
    transcript = talk(agent, script, "say bye", state={"city": "Oslo"})
    first, second = transcript.invocations
    assert [call.name for call in first.tool_calls] == ["remember"]
    assert second.final_response == Content(role="model", parts=(Text(text="bye"),))
    assert first.timings is not None
    assert first.agents[0].name == "full"
    assert transcript.final_state == {"city": "Oslo", "mood": "fine"}
    assert agent.about()["framework"] == "google-adk"


def test_turn_two_may_raise_and_turn_one_is_kept(opened) -> None:
    agent = opened("adk", {"path": "adk_full", "python": forked_adk("new")})
    failure = failure_of(agent, "say fine", "call boom")
    assert (failure.kind, failure.turn) == (FailureKind.RAISED, 2)
    assert len(failure.partial) == 1
    assert "the tool broke" in failure.detail
    assert talk(agent, "say still here").invocations


CRASHING = """
import subprocess
import sys

from google.adk.agents import LlmAgent
from google.adk.tools.base_toolset import BaseToolset


class McpToolset(BaseToolset):
    async def get_tools(self, readonly_context=None):
        subprocess.run([sys.executable, "-c", "import os; os.environ['NO_SUCH_KEY']"])
        raise ConnectionError("Connection closed")

    async def close(self):
        pass


root_agent = LlmAgent(name="desk", model="gemini-2.5-flash", tools=[McpToolset()])
"""


def test_a_tool_server_that_ends_says_why(opened, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "agent.py").write_text(CRASHING)
    options = {"path": "a", "python": forked_adk("new")}
    failure = failure_of(opened("adk", options, root=tmp_path), "hello")
    assert failure.kind is FailureKind.UNREACHABLE
    assert "McpToolset cannot be reached, so the agent lacks its tools" in failure.message
    assert "KeyError: 'NO_SUCH_KEY'" in failure.detail


def test_an_agent_that_hangs_is_given_up(opened) -> None:
    agent = opened("adk", {"path": "adk_full", "python": forked_adk("new")}, turn_timeout_s=1.0)
    failure = failure_of(agent, 'call nap {"seconds": 60}')
    assert failure.kind is FailureKind.TIMEOUT
    assert talk(agent, "say back").invocations


def test_custom_metrics_run_where_the_agent_is(opened) -> None:
    agent = opened("adk", {"path": "adk_full", "python": forked_adk("new")})
    said = talk(agent, "say yes").invocations
    case = Case(case_id="c", conversation=said)
    evidence = TrialView(case=case, actual=said, expected=said)
    use = CriterionUse(name="mine", threshold=0.5, code="agent.metrics.exact_answer")
    grade = agent.run_metric("agent.metrics.exact_answer", use, evidence)
    assert isinstance(grade, Score)
    assert (grade.value, grade.turns) == (1.0, (1.0,))
    broken = agent.run_metric("agent.metrics.raising", use, evidence)
    assert isinstance(broken, NotEvaluated)
    assert broken.reason is Reason.CRITERION_FAILED
    assert "the metric broke" in broken.message


def test_what_cannot_be_imported_is_a_failure_to_start(opened, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "agent.py").write_text("import no_such_dependency\n")
    failure = failure_of(
        opened("adk", {"path": "a", "python": forked_adk("new")}, root=tmp_path), "hello"
    )
    assert failure.kind is FailureKind.START
    assert "no_such_dependency" in failure.message
    assert "agent.py" in failure.detail


def test_a_path_that_leads_nowhere_is_named(opened, tmp_path: Path) -> None:
    failure = failure_of(
        opened("adk", {"path": "no/such", "python": forked_adk("new")}, root=tmp_path), "hello"
    )
    assert failure.kind is FailureKind.START
    assert "no/such" in failure.message


def test_a_python_that_does_not_exist_is_a_failed_install(opened) -> None:
    failure = failure_of(opened("adk", {"path": "adk_full", "python": "no-such-python"}), "hello")
    assert failure.kind is FailureKind.INSTALL
    assert "no-such-python" in failure.message


def test_an_install_that_fails_is_shown_in_uvs_words(opened, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "agent.py").write_text("root_agent = None\n")
    (tmp_path / "requirements.txt").write_text("this is no requirement\n")
    failure = failure_of(opened("adk", {"path": "a"}, root=tmp_path), "hello")
    assert failure.kind is FailureKind.INSTALL
    assert "requirements.txt" in failure.message
    assert "no requirement" in failure.detail or "requirements.txt" in failure.detail


def test_a_python_function_converses(opened) -> None:
    agent = opened(
        "python", {"call": "bots:with_state", "path": "python_kinds", "python": sys.executable}
    )
    transcript = talk(agent, "one", "two")
    assert [turn.final_response.parts[0].text for turn in transcript.invocations] == [
        "turn 1",
        "turn 2",
    ]
    assert transcript.final_state == {"turns": 2}


def test_the_project_of_a_python_agent_is_importable_without_an_install(
    opened, tmp_path: Path
) -> None:
    (tmp_path / "src" / "library").mkdir(parents=True)
    (tmp_path / "src" / "library" / "__init__.py").write_text("WORD = 'found'\n")
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "one.py").write_text(
        "import library\ndef answer(text):\n    return library.WORD\n"
    )
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "p"\nversion = "0"\ndependencies = []\n'
    )
    agent = opened("python", {"call": "bots.one:answer"}, root=tmp_path)
    assert talk(agent, "hello").invocations[0].final_response.parts == (Text(text="found"),)


@pytest.mark.parametrize("call", ["no colon", "mod:fn()", ":x", "a b:c"])
def test_a_call_has_its_form(call: str) -> None:
    with pytest.raises(ValueError, match="call"):
        DRIVERS["python"].options.model_validate({"call": call})
