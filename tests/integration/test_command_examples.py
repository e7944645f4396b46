"""The example agents in other languages, run by the driver `command` on their own evaluation
sets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import leftovers

from evalgate.agents import DRIVERS
from evalgate.agents.base import Agent, AgentFailed, AgentLimits, AgentSetting
from evalgate.formats import eval_set
from evalgate.model import Case, Content, FailureKind, Invocation, Text, TrialKey
from evalgate.system.python_env import InstallSetup

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    pytest.param("node agent.mjs", "node", id="node"),
    pytest.param("sh agent.sh", "shell", id="sh"),
    pytest.param(["./agent.sh"], "shell", id="executable"),
]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with leftovers.none_expected():
        yield


def opened(
    command: object, folder: str, *, root: Path = ROOT / "examples/agents", **options: object
) -> Agent:
    driver = DRIVERS["command"]
    environment = {"PATH": os.environ["PATH"]}
    setting = AgentSetting(
        root=str(root),
        world=InstallSetup(environment=environment, cache="/nowhere"),
        limits=AgentLimits(turn_timeout_s=20),
    )
    return driver.open(
        driver.options.model_validate({"command": command, "cwd": folder, **options}), setting
    )


def cases(folder: str) -> list[Case]:
    [file] = (ROOT / "examples/agents" / folder).glob("*.evalset.json")
    reading = eval_set.parse_eval_set(file.read_text(), file=file.name)
    assert reading.eval_set is not None
    assert not reading.problems
    return list(reading.eval_set.cases)


def text(content: Content | None) -> str:
    return "".join(part.text for part in content.parts if isinstance(part, Text)) if content else ""


def plain_calls(invocation: Invocation) -> list[tuple[str, object]]:
    return [(call.name, call.args) for call in invocation.tool_calls]


@pytest.mark.parametrize(("command", "folder"), EXAMPLES)
def test_an_example_agent_does_what_its_evaluation_set_expects(
    command: object, folder: str
) -> None:
    agent = opened(command, folder)
    try:
        for case in cases(folder):
            with agent.converse(case, TrialKey(suite="s", case_id=case.case_id)) as talk:
                for expected in case.conversation or ():
                    actual = talk.send(expected.user_content)
                    assert text(actual.final_response) == text(expected.final_response)
                    assert plain_calls(actual) == plain_calls(expected)
                    assert len(actual.tool_responses) == len(expected.tool_calls)
                state = talk.finish()
            assert case.expects_state is None or state == case.expects_state
    finally:
        agent.close()
    assert agent.about()["framework"]


def test_the_agent_sees_the_variables_that_it_is_given(tmp_path: Path) -> None:
    script = tmp_path / "agent.sh"
    script.write_text('echo "{\\"type\\":\\"fatal\\",\\"message\\":\\"$ONE $TWO $PWD\\"}"\n')
    agent = opened(f"sh {script}", ".", root=tmp_path, env={"ONE": "1"})
    with (
        pytest.raises(AgentFailed) as failed,
        agent.converse(Case(case_id="c"), TrialKey(suite="s", case_id="c")),
    ):
        pass
    agent.close()
    assert failed.value.failure.message == f"1  {tmp_path}"


@pytest.mark.parametrize(
    ("command", "cwd", "words"),
    [
        ("no-such-program", ".", "no-such-program: command not found"),
        ("sh agent.sh", "no/such/folder", "no/such/folder does not exist"),
        ("sh missing.sh", "shell", "before it was ready"),
    ],
)
def test_what_cannot_start_says_why(command: str, cwd: str, words: str) -> None:
    agent = opened(command, cwd)
    with (
        pytest.raises(AgentFailed) as failed,
        agent.converse(Case(case_id="c"), TrialKey(suite="s", case_id="c")),
    ):
        pass
    agent.close()
    assert failed.value.failure.kind is FailureKind.START
    assert words in failed.value.failure.message
