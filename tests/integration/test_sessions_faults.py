"""Workers that misbehave in every way we know: a typed failure each, quickly, and nothing left
behind."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import leftovers

from evalgate.agents.base import AgentFailed, AgentLimits, AgentSetting
from evalgate.agents.pool import WorkerPool
from evalgate.agents.worker_process import Launch
from evalgate.model import AgentFailure, Case, Content, FailureKind, SessionInput, Text, TrialKey
from evalgate.system.python_env import InstallSetup

pytestmark = pytest.mark.integration

ROGUE = Path(__file__).parents[1] / "agents/rogue.py"
KEY = TrialKey(suite="suite", case_id="case")
SECRET = "sk-very-secret-value"
LIMITS = AgentLimits(turn_timeout_s=20, start_timeout_s=20, output_bytes=1024 * 1024)


def limits(**changes: float | bool | None) -> AgentLimits:
    return AgentLimits(
        **{  # type: ignore[arg-type]  # names and values of fields
            "turn_timeout_s": 20.0,
            "start_timeout_s": 20.0,
            "output_bytes": 1024 * 1024,
            **changes,
        }
    )


@contextlib.contextmanager
def pool(
    *arguments: str, sessions: int = 4, bounds: AgentLimits = LIMITS, **variables: str
) -> Iterator[WorkerPool]:
    environment = {"PATH": os.environ["PATH"], "SOME_API_KEY": SECRET, **variables}
    command = (sys.executable, str(ROGUE), str(sessions), *arguments)
    launch = Launch(command=command, cwd="/", environment=environment)
    setting = AgentSetting(
        root="/", world=InstallSetup(environment=environment, cache="/nowhere"), limits=bounds
    )
    opened = WorkerPool(lambda: launch, setting=setting)
    try:
        yield opened
    finally:
        opened.close()


def user(text: str) -> Content:
    return Content(parts=(Text(text=text),), role="user")


def talk(agent: WorkerPool, *texts: str, **state: object) -> list[str]:
    """What is answered to each text, in one conversation."""
    case = Case(case_id="case", session=SessionInput(app_name="app", user_id="user", state=state))
    answers = []
    with agent.converse(case, KEY) as conversation:
        for text in texts:
            invocation = conversation.send(user(text))
            assert invocation.final_response is not None
            [part] = invocation.final_response.parts
            assert isinstance(part, Text)
            answers.append(part.text)
        conversation.finish()
    return answers


def failure(agent: WorkerPool, *texts: str, **state: object) -> AgentFailure:
    with pytest.raises(AgentFailed) as failed:
        talk(agent, *texts, **state)
    return failed.value.failure


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with leftovers.none_expected():
        yield


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("exit 3", FailureKind.EXITED, "the agent's process exited with code 3"),
        # no way to end a turn
        ("exit 0", FailureKind.EXITED, "the agent's process exited with code 0"),
        ("kill", FailureKind.KILLED, "signal 9 (SIGKILL) (out of memory?)"),
        ("half", FailureKind.EXITED, 'in the middle of a line: \'{"type": "event", "sess'),
        (
            "flood-line 100000000",
            FailureKind.FLOODED,
            "the agent produced more than 1 MiB in one line",
        ),
        (
            "flood-lines 100000000",
            FailureKind.FLOODED,
            "the agent produced more than 1 MiB in one turn",
        ),
        (
            "raw Starting up ...\\n",
            FailureKind.PROTOCOL,
            "is not JSON (logs belong on standard error): 'Starting up",
        ),
        ("raw \\xff\\xfe\\n", FailureKind.PROTOCOL, "is not UTF-8"),
        ('raw {"type":"wave"}\\n', FailureKind.PROTOCOL, "has an unknown type 'wave'"),
        ("raw [1]\\n", FailureKind.PROTOCOL, "is not a JSON object"),
        (
            'raw {"type":"ready","protocol":9}\\n',
            FailureKind.PROTOCOL,
            "the agent uses protocol version 9",
        ),
        (
            'raw {"type":"fatal","kind":"model_error","message":"broke"}\\n',
            FailureKind.MODEL_ERROR,
            "broke",
        ),
        ("wrong-session", FailureKind.PROTOCOL, "for 'somebody else', an unknown conversation"),
        ("future-session", FailureKind.PROTOCOL, "for 's999', an unknown conversation"),
        ("close-stdout", FailureKind.EXITED, "the agent"),
        ("fail rate_limited slow down", FailureKind.RATE_LIMITED, "slow down (HTTP status 429)"),
        ("fail unreachable no route", FailureKind.UNREACHABLE, "no route"),
        ("fail model_error safety", FailureKind.MODEL_ERROR, "safety"),
        ("fail whatever it broke", FailureKind.RAISED, "it broke"),
    ],
)
def test_a_fault_in_a_turn_is_a_typed_failure(text: str, kind: FailureKind, words: str) -> None:
    began = time.monotonic()
    before = leftovers.resident_mib()
    with pool() as agent:
        found = failure(agent, "hello", text)
        assert (found.kind, found.turn, len(found.partial)) == (kind, 2, 1)
        assert words in found.message
        assert found.retry_after_s == (7 if kind is FailureKind.RATE_LIMITED else None)
        assert len(found.message) < 500
        assert talk(agent, "hello") == ["hello"]  # the next trial has a worker that works
    assert leftovers.resident_mib() - before < 40
    assert time.monotonic() - began < 15


def test_the_last_words_on_standard_error_are_the_detail() -> None:
    with pool() as agent:
        assert failure(agent, "exit 3").detail == "about to leave"


def test_a_flood_on_standard_error_neither_blocks_nor_fills_memory() -> None:
    before = leftovers.resident_mib()
    with pool() as agent:
        assert talk(agent, "flood-stderr 100000000", "and now?") == ["still here", "and now?"]
        assert failure(agent, "exit 1").detail.endswith("last words\nabout to leave")
    assert leftovers.resident_mib() - before < 20


def test_secrets_of_the_environment_are_not_told() -> None:
    with pool() as agent:
        found = failure(agent, "secret")
    assert found.message == "bad key ***"
    assert found.detail == "connecting with ***"


def test_a_worker_sees_only_its_environment() -> None:
    os.environ["GITHUB_TOKEN_OF_THIS_TEST"] = "leak"
    try:
        with pool(EXTRA="1") as agent:
            [seen] = talk(agent, "environment")
    finally:
        del os.environ["GITHUB_TOKEN_OF_THIS_TEST"]
    assert set(json.loads(seen)) - {"LC_CTYPE"} <= {
        "PATH", "SOME_API_KEY", "EXTRA",
        "PYENV_DIR", "PYENV_HOOK_PATH", "PYENV_ROOT", "PYENV_VERSION",
    }  # fmt: skip


# --- time -----------------------------------------------------------------------------------------


def test_a_turn_that_hangs_times_out_and_costs_its_worker() -> None:
    with pool(bounds=limits(turn_timeout_s=0.5)) as agent:
        [pid] = talk(agent, "pid")
        found = failure(agent, "hello", "hang")
        assert (found.kind, found.turn) == (FailureKind.TIMEOUT, 2)
        assert found.message == "the agent timed out after 0.5 s (`turn-timeout`)"
        assert talk(agent, "pid") != [pid]
        assert not Path(f"/proc/{pid}").exists()


def test_a_case_has_a_limit_over_all_its_turns() -> None:
    with pool(bounds=limits(case_timeout_s=0.8)) as agent:
        found = failure(agent, *["slow 0.3"] * 5)
    assert found.kind is FailureKind.TIMEOUT
    assert found.turn in {2, 3}
    assert found.message == "the case timed out after 0.8 s (`case-timeout`)"


def test_other_conversations_of_a_worker_go_on_when_one_times_out() -> None:
    with pool(bounds=limits(turn_timeout_s=1.0)) as agent:
        pids: list[str] = []
        others = [
            threading.Thread(target=lambda: pids.extend(talk(agent, "pid", *["slow 0.5"] * 3)))
            for _ in range(3)
        ]
        for thread in others:
            thread.start()
        assert failure(agent, "hang").kind is FailureKind.TIMEOUT
        [fresh] = talk(agent, "pid")
        for thread in others:
            thread.join(20)
        assert len(pids) == 3 * 4  # every one of them came to its end
        assert len({pid for pid in pids if pid.isdecimal()}) == 1
        assert fresh not in pids


def test_an_answer_that_comes_late_reaches_nobody() -> None:
    with pool(bounds=limits(turn_timeout_s=1.5)) as agent:
        # keeps the worker alive
        company = threading.Thread(target=lambda: talk(agent, *["slow 1.0"] * 3))
        company.start()
        assert failure(agent, "slow 2.0").kind is FailureKind.TIMEOUT
        company.join(20)  # the late answer has come in between
        assert talk(agent, "hello") == ["hello"]


def test_a_worker_that_reads_nothing_cannot_block_us() -> None:
    with pool(bounds=limits(turn_timeout_s=0.5)) as agent:
        began = time.monotonic()
        found = failure(agent, "x" * 10**6, deaf=True)
        assert found.kind is FailureKind.TIMEOUT
        assert time.monotonic() - began < 5


def test_a_second_answer_to_a_turn_is_not_taken_for_the_next() -> None:
    with pool() as agent, agent.converse(Case(case_id="case"), KEY) as conversation:
        conversation.send(user("twice"))
        time.sleep(0.5)  # the second answer comes while no turn runs
        with pytest.raises(AgentFailed) as failed:
            conversation.send(user("hello"))
    assert failed.value.failure.kind is FailureKind.PROTOCOL
    assert "'event' for a conversation that is not in a turn" in failed.value.failure.message


# --- starting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "kind", "words", "detail"),
    [
        (
            "exit",
            FailureKind.START,
            "the agent's process exited with code 7, before it was ready",
            "ModuleNotFoundError: no module named 'agent_of_mine'",
        ),
        ("fatal", FailureKind.START, "no root_agent in agent.py", "looked in agent.py"),
        ("install", FailureKind.INSTALL, "cannot make the environment", ""),
        ("hang", FailureKind.START, "the agent was not ready within 0.5 s", ""),
        ("junk", FailureKind.START, "'Welcome to my agent!', before it was ready", ""),
        (
            "version",
            FailureKind.START,
            "the agent uses protocol version 2, evalgate uses version 1, before it was ready",
            "",
        ),
    ],
)
def test_a_worker_that_does_not_start_says_why(
    fault: str, kind: FailureKind, words: str, detail: str
) -> None:
    with pool(fault, bounds=limits(start_timeout_s=0.5 if fault == "hang" else 20.0)) as agent:
        found = failure(agent, "hello")
    assert (found.kind, found.turn, found.detail) == (kind, None, detail)
    assert found.message.endswith(words)


def test_a_start_that_failed_twice_alike_is_not_tried_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    with pool("count", COUNT=str(count)) as agent:
        messages = {failure(agent, "hello").message for _ in range(50)}
    assert len(count.read_text().splitlines()) == 2
    assert len(messages) == 1, "so that a report tells all of them as one"


def test_a_missing_program_is_a_failed_start() -> None:
    launch = Launch(command=("no-such-agent",), cwd="/", environment={"PATH": os.environ["PATH"]})
    setting = AgentSetting(root="/", world=InstallSetup(environment={}, cache="/nowhere"))
    agent = WorkerPool(lambda: launch, setting=setting)
    found = failure(agent, "hello")
    agent.close()
    assert found.kind is FailureKind.START
    assert found.message == "the agent cannot be started: no-such-agent: command not found"


def test_a_launch_is_made_once_and_its_failure_is_everybodys() -> None:
    made: list[int] = []

    def launch() -> Launch:
        made.append(1)
        raise AgentFailed(
            AgentFailure(kind=FailureKind.INSTALL, message="no such package", detail="uv: no")
        )

    agent = WorkerPool(
        launch, setting=AgentSetting(root="/", world=InstallSetup(environment={}, cache="/nowhere"))
    )
    found = [failure(agent, "hello") for _ in range(5)]
    agent.close()
    assert len(made) == 1
    assert {(each.kind, each.message, each.detail) for each in found} == {
        (FailureKind.INSTALL, "no such package", "uv: no")
    }


def test_a_session_that_is_refused_leaves_the_worker_in_use() -> None:
    with pool() as agent:
        [pid] = talk(agent, "pid")
        found = failure(agent, "hello", refuse=True)
        assert (found.kind, found.turn, found.message) == (FailureKind.RAISED, None, "no such user")
        assert talk(agent, "pid") == [pid]


# --- memory and processes -------------------------------------------------------------------------


def test_memory_beyond_the_cap_is_refused() -> None:
    with pool(bounds=limits(memory_bytes=300 * 2**20, turn_timeout_s=2.0)) as agent:
        if talk(agent, "memory-limit") != [str(300 * 2**20)]:
            pytest.skip("needs the system: this one takes no memory limit for another process")
        assert "MemoryError" in failure(agent, "memory 600000000").detail


def test_grandchildren_end_with_their_worker() -> None:
    with pool() as agent:
        [pid] = talk(agent, "grandchild")
        assert Path(f"/proc/{pid}").exists()
    deadline = time.monotonic() + 5
    while leftovers.runs(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not leftovers.runs(pid)
