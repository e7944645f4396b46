"""The driver `http` against google-adk's own API server with a scripted model, the newest version
and an old one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from builders.nightly import ADKS

from evalgate.agents import DRIVERS
from evalgate.agents.base import Agent, AgentFailed, AgentLimits, AgentSetting
from evalgate.model import (
    AgentFailure,
    Case,
    Content,
    FailureKind,
    Invocation,
    SessionInput,
    Text,
    ToolCall,
    ToolResponse,
    TrialKey,
)
from evalgate.system.python_env import InstallSetup

pytestmark = pytest.mark.integration

REPO = Path(__file__).parents[2]
AGENTS = REPO / "tests/agents"
ENVIRONMENTS = {
    "new": ("EVALGATE_TEST_ADK", ".venv-adk"),
    "old": ("EVALGATE_TEST_ADK_OLD", ".venv-adk-old"),
}
KEY = TrialKey(suite="s", case_id="c")


# any process may end it: it is nobody's child
IN_BACKGROUND = 'cd "$1"; shift; "$@" >log 2>&1 & echo $!'


@pytest.fixture(scope="module", params=ADKS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of an API server that serves the agent `adk_full`: one for all processes of a
    test run, since an old one takes half a minute to start. Whoever comes first starts it, whoever
    leaves last ends it."""
    variable, folder = ENVIRONMENTS[request.param]
    named = Path(os.environ.get(variable, REPO / folder))
    python = named / "bin" / "python" if named.is_dir() else named
    if not python.exists():
        pytest.skip(f"no interpreter with google-adk: set {variable} or make {folder}")
    own = tmp_path_factory.getbasetemp()
    home = (
        own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    ) / f"adk-server-{request.param}"
    with using(home) as running:
        if not running:
            running.update(started(python, home))
        running["users"] += 1
        url = running["url"]
    yield url
    with using(home) as running:
        running["users"] -= 1
        if not running["users"]:
            os.kill(running["pid"], signal.SIGKILL)
            running.clear()


@contextlib.contextmanager
def using(home: Path) -> Iterator[dict[str, Any]]:
    """What the processes that use the server know of it, to be changed by one at a time."""
    home.mkdir(exist_ok=True)
    with (home / "users.json").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = json.loads(file.read() or "{}")
        yield known
        file.truncate(0)
        file.write(json.dumps(known) if known else "")


def started(python: Path, home: Path) -> dict[str, Any]:
    """Its process id and address."""
    shutil.copytree(
        AGENTS / "adk_full",
        home / "agents/adk_full",
        ignore=shutil.ignore_patterns("__pycache__", ".adk"),
        dirs_exist_ok=True,
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(python),
        "-m",
        "google.adk.cli",
        "api_server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(AGENTS)}
    shell = ["sh", "-c", IN_BACKGROUND, "sh", str(home), *command, str(home / "agents")]
    pid = int(subprocess.run(shell, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_up(url, pid, home / "log")
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise
    return {"pid": pid, "url": url, "users": 0}


def wait_until_up(url: str, pid: int, log: Path) -> None:
    for _ in range(600):
        assert Path(f"/proc/{pid}").exists() or not Path("/proc").exists(), log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"{url}/list-apps", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(log.read_text()[-3000:])


def opened(url: str, **options: Any) -> Agent:
    driver = DRIVERS["http"]
    limits = AgentLimits(turn_timeout_s=60)
    setting = AgentSetting(
        root="/", world=InstallSetup(environment={}, cache="/nowhere"), limits=limits
    )
    return driver.open(driver.options.model_validate({"url": url, **options}), setting)


def user(text: str) -> Content:
    return Content(parts=(Text(text=text),), role="user")


def text_of(invocation: Invocation) -> str:
    assert invocation.final_response is not None
    return "".join(part.text for part in invocation.final_response.parts if isinstance(part, Text))


def failure(agent: Agent, text: str, case: Case | None = None) -> AgentFailure:
    with (
        pytest.raises(AgentFailed) as failed,
        agent.converse(case or Case(case_id="c"), KEY) as talk,
    ):
        talk.send(user(text))
    return failed.value.failure


def test_a_conversation_with_tools_and_state(server: str) -> None:
    case = Case(
        case_id="c",
        session=SessionInput(app_name="adk_full", user_id="reader", state={"colour": "red"}),
    )
    with opened(server).converse(case, KEY) as talk:
        first = talk.send(
            user('call add {"a": 1, "b": 2}\ncall recall {"key": "colour"}\nsay done')
        )
        second = talk.send(user('call remember {"key": "size", "value": "XL"}\nsay kept'))
        state = talk.finish()
    assert [(call.name, call.args) for call in first.tool_calls] == [
        ("add", {"a": 1, "b": 2}),
        ("recall", {"key": "colour"}),
    ]
    assert [response.response for response in first.tool_responses] == [
        {"sum": 3},
        {"value": "red"},
    ]
    assert (text_of(first), text_of(second)) == ("done", "kept")
    assert first.invocation_id
    assert first.invocation_id != second.invocation_id
    assert first.timings is not None
    assert first.timings.total_s > 0
    kinds = [
        type(part) for event in first.events or () if event.content for part in event.content.parts
    ]
    # the answer is not among the steps again
    assert kinds == [ToolCall, ToolResponse, ToolCall, ToolResponse]
    usage = [event.usage.total_tokens for event in first.events or () if event.usage]
    assert usage == [12, 12, 12]
    assert state == {"colour": "red", "size": "XL"}


def test_the_servers_only_app_needs_no_name(server: str) -> None:
    with opened(server).converse(Case(case_id="c"), KEY) as talk:
        assert text_of(talk.send(user("say hello"))) == "hello"


def test_trials_never_share_a_session_even_where_the_case_asks_for_one(server: str) -> None:
    agent = opened(server)
    session = SessionInput(app_name="adk_full", session_id="pinned")

    def trial(number: int) -> str:
        with agent.converse(Case(case_id="c", session=session), KEY) as talk:
            talk.send(user(f'call remember {{"key": "user:n", "value": "{number}"}}\nsay ok'))
            recalled = talk.send(user('call recall {"key": "user:n"}\nsay ok'))
            return str((recalled.tool_responses[0].response or {}).get("value"))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(trial, range(8))) == [str(number) for number in range(8)]


def test_sessions_are_deleted_afterwards(server: str) -> None:
    case = Case(case_id="c", session=SessionInput(app_name="adk_full", user_id="tidy"))
    with opened(server).converse(case, KEY) as talk:
        talk.send(user("say hello"))
        assert listed(server) != "[]"
    assert listed(server) == "[]"


def listed(server: str) -> str:
    with urllib.request.urlopen(f"{server}/apps/adk_full/users/tidy/sessions", timeout=5) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        # all that the server tells of an exception
        ("raise oops", FailureKind.UNREACHABLE, "HTTP status 500"),
        (
            "error UNKNOWN_ERROR odd",
            FailureKind.MODEL_ERROR,
            "the model answered with error UNKNOWN_ERROR: odd",
        ),
        (
            "error RESOURCE_EXHAUSTED slow down",
            FailureKind.RATE_LIMITED,
            "RESOURCE_EXHAUSTED: slow down",
        ),
    ],
)
def test_a_turn_that_fails(server: str, text: str, kind: FailureKind, words: str) -> None:
    found = failure(opened(server), text)
    assert (found.kind, found.turn) == (kind, 1)
    assert words in found.message


def test_a_models_stop_code_is_its_answer(server: str) -> None:
    case = Case(case_id="c", session=SessionInput(app_name="adk_full"))
    with opened(server).converse(case, KEY) as talk:
        turn = talk.send(user("error SAFETY blocked it"))
    assert turn.final_response is None
    assert turn.stop is not None
    assert turn.stop.error == "SAFETY: blocked it"


def test_an_app_that_the_server_does_not_have(server: str) -> None:
    found = failure(opened(server, app_name="nobody"), "say hello")
    assert found.kind in {FailureKind.RAISED, FailureKind.UNREACHABLE}
    assert "HTTP status" in found.message


def test_a_server_that_is_something_else(server: str) -> None:
    found = failure(
        opened(f"{server}/docs"), "say hello", Case(case_id="c", session=SessionInput(app_name="x"))
    )
    assert found.kind is FailureKind.RAISED
    assert "404" in found.message
