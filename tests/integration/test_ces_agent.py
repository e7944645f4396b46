"""The driver `ces` against a local double of the API: sessions, and what is made for a run and
deleted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from builders import ces_double, google_account
from builders.ces_double import APP, Asked, CesDouble, Refusal

from evalgate import agents
from evalgate.agents.base import Agent, AgentFailed, AgentLimits, AgentSetting
from evalgate.model import (
    AgentUse,
    Attachment,
    Case,
    Content,
    Event,
    FailureKind,
    Invocation,
    Part,
    SessionInput,
    Text,
    ToolCall,
    ToolResponse,
    TrialKey,
    TurnSetup,
)
from evalgate.system.python_env import InstallSetup
from evalgate.values import digest_of

pytestmark = pytest.mark.integration

TOKEN = "ya29.a-token-of-google"
KEY = TrialKey(suite="s", case_id="c")
TOOL = f"{APP}/tools/find_loans"


@pytest.fixture
def double() -> Iterator[CesDouble]:
    with ces_double.running() as made:
        made.token = TOKEN
        yield made


@pytest.fixture
def environment(double: CesDouble, tmp_path: Path) -> dict[str, str]:
    account = google_account.written(tmp_path, f"{double.url}/token")
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(account), "CES_API_ENDPOINT": double.url}


@pytest.fixture
def opened(environment: dict[str, str], tmp_path: Path) -> Any:
    """Opens the agent with these options, and closes it."""
    logged: list[str] = []

    @contextmanager
    def make(*, limits: AgentLimits | None = None, **options: Any) -> Iterator[Agent]:
        world = InstallSetup(
            environment=environment, cache=str(tmp_path / "cache"), log=logged.append
        )
        setting = AgentSetting(
            root=str(tmp_path / "repository"), world=world, limits=limits or AgentLimits()
        )
        use = AgentUse(driver="ces", options={"app": APP, **options})
        agent = agents.DRIVERS["ces"].open(agents.options_of(use), setting)
        try:
            yield agent
        finally:
            agent.close()

    make.logged = logged  # type: ignore[attr-defined]
    return make


def said(*parts: Part) -> Content:
    return Content(parts=parts, role="user")


def message(role: str, *chunks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "chunks": list(chunks)}


def answering(*messages: dict[str, Any], text: str = "") -> list[dict[str, Any]]:
    last: dict[str, Any] = {"turnCompleted": True, "diagnosticInfo": {"messages": list(messages)}}
    return [*([{"text": text}] if text else []), last]


CALL = {
    "toolCall": {"tool": TOOL, "displayName": "find_loans", "id": "1", "args": {"member": "M-1"}}
}
ANSWER = {"toolResponse": {"tool": TOOL, "id": "1", "response": {"output": ["L-77"]}}}
# outputs, the answer, the steps before it
TURNS: list[tuple[list[dict[str, Any]], str | None, list[Part] | None]] = [
    # nobody says which tools were called: unknown, not none
    ([{"text": "Hi", "turnCompleted": True}], "Hi", None),
    ([{"text": "Hi"}, {"text": "there", "turnCompleted": True}], "Hi\nthere", None),
    ([{"turnCompleted": True}], None, None),
    (
        answering(message("user", {"text": "hello"}), message("desk", {"text": "Hi"}), text="Hi"),
        "Hi",
        [],
    ),
    (
        answering(
            message("user", {"text": "hello"}),
            message("desk", {"text": "One moment."}),
            message("desk", CALL),
            message("user", ANSWER),
            message("desk", {"text": "You have L-77."}),
            text="One moment. You have L-77.",
        ),
        "You have L-77.",
        [
            Text(text="One moment."),
            ToolCall(name="find_loans", args={"member": "M-1"}, id="1"),
            ToolResponse(name="find_loans", response={"output": ["L-77"]}, id="1"),
        ],
    ),
    (
        answering(
            message("desk", {"agentTransfer": {"targetAgent": f"{APP}/agents/loans"}}), text="Hi"
        ),
        "Hi",
        [ToolCall(name="transfer_to_agent", args={"agent_name": "loans"})],
    ),
    (  # a tool of a toolset; a call that the client is to make
        [
            {
                "toolCalls": {
                    "toolCalls": [
                        {"toolsetTool": {"toolset": f"{APP}/toolsets/t", "toolId": "get"}}
                    ]
                }
            }
        ],
        None,
        [ToolCall(name="get", args={})],
    ),
    (
        answering(message("desk", {"payload": {"card": 1}}), text="Look"),
        "Look",
        [Attachment(data={"payload": {"card": 1.0}})],
    ),
]


@pytest.mark.parametrize(("outputs", "answer", "steps"), TURNS, ids=range(len(TURNS)))
def test_a_turn(
    double: CesDouble,
    opened: Any,
    outputs: list[dict[str, Any]],
    answer: str | None,
    steps: list[Part] | None,
) -> None:
    double.answer = lambda app, asked: outputs
    with opened() as agent, agent.converse(Case(case_id="c"), KEY) as conversation:
        found: Invocation = conversation.send(said(Text(text="hello")))
    final = found.final_response
    assert (final.parts[0].text if final and isinstance(final.parts[0], Text) else None) == answer
    assert (None if found.events is None else list(found.parts())) == steps
    assert found.timings is not None


PNG, CSV = {"mimeType": "image/png", "data": "aGk="}, {"mimeType": "text/csv", "data": "aGk="}
INPUTS: list[tuple[Part, dict[str, Any]]] = [
    (Text(text="hello"), {"text": "hello"}),
    (Text(text="<event>welcome</event>"), {"event": {"event": "welcome"}}),
    (Attachment(data={"inline_data": {"mime_type": "image/png", "data": "aGk="}}), {"image": PNG}),
    (Attachment(data={"inlineData": CSV}), {"blob": CSV}),
    (
        ToolResponse(name="find_loans", response={"output": 1}, id="1"),
        {"toolResponses": {"toolResponses": [{"tool": TOOL, "response": {"output": 1}, "id": "1"}]}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("part", "sent"), INPUTS, ids=range(len(INPUTS)))
def test_what_a_user_says(double: CesDouble, opened: Any, part: Part, sent: dict[str, Any]) -> None:
    case = Case(case_id="c", session=SessionInput(state={"member": "M-1"}))
    with opened(entry_agent="loans", tool_fakes=True) as agent:
        with agent.converse(case, KEY) as conversation:
            conversation.send(said(part))
            conversation.send(said(part))
        with agent.converse(case, KEY):
            pass
    first, second = double.asked_for("POST")
    # the state, before the first turn only
    assert first.body["inputs"] == [{"variables": {"member": "M-1"}}, sent]
    assert second.body["inputs"] == [sent]
    config = first.body["config"]
    assert config == second.body["config"]
    assert config["entryAgent"] == f"{APP}/agents/loans"
    assert config["useToolFakes"] is True
    assert config["session"].startswith(f"{APP}/sessions/evalgate-")
    assert not double.named("deployments")


def test_a_turn_after_turns_that_were_not_asked_for(double: CesDouble, opened: Any) -> None:
    """A golden's turn in a session of its own (STABLE): the turns before it are its context."""
    before = Invocation(
        user_content=said(Text(text="hello")),
        events=(
            Event(
                author="desk",
                content=Content(
                    parts=(ToolCall(name="find_loans", args={"member": "M-1"}, id="1"),)
                ),
            ),
            Event(
                author="desk",
                content=Content(
                    parts=(ToolResponse(name="find_loans", response={"n": 1}, id="1"),)
                ),
            ),
            Event(
                author="desk",
                content=Content(
                    parts=(ToolCall(name="transfer_to_agent", args={"agent_name": "x"}),)
                ),
            ),
        ),
        final_response=Content(parts=(Text(text="One."),)),
    )
    setups = (TurnSetup(state={"a": 1}, agent="loans"), TurnSetup(state={"a": 1, "b": 2}))
    case = Case(case_id="c", history=(before,), setups=setups, session=SessionInput(state={"a": 0}))
    with opened() as agent, agent.converse(case, KEY) as conversation:
        for _ in setups:
            conversation.send(said(Text(text="renew")))
    first, second = double.asked_for("POST")
    assert first.body["config"]["historicalContexts"] == [
        {"role": "user", "chunks": [{"text": "hello"}]},
        {
            "role": "agent",
            "chunks": [{"toolCall": {"tool": TOOL, "args": {"member": "M-1"}, "id": "1"}}],
        },
        {
            "role": "agent",
            "chunks": [{"toolResponse": {"tool": TOOL, "response": {"n": 1}, "id": "1"}}],
        },
        {"role": "agent", "chunks": [{"agentTransfer": {"targetAgent": f"{APP}/agents/x"}}]},
        {"role": "agent", "chunks": [{"text": "One."}]},
    ]
    assert first.body["config"]["entryAgent"] == f"{APP}/agents/loans"
    assert "entryAgent" not in second.body["config"]
    assert first.body["inputs"][0] == {"variables": {"a": 1}}
    assert second.body["inputs"][0] == {"variables": {"b": 2}}  # what is known is not said again


def test_the_state_is_what_the_app_told(double: CesDouble, opened: Any) -> None:
    told = answering(
        message("desk", {"defaultVariables": {"a": 1, "b": 1}}, {"updatedVariables": {"b": 2}}),
        text="x",
    )
    for outputs, state in ((told, {"member": "M-1", "a": 1, "b": 2}), ([{"text": "x"}], None)):
        double.answer = lambda app, asked, outputs=outputs: outputs
        case = Case(case_id="c", session=SessionInput(state={"member": "M-1"}))
        with opened() as agent, agent.converse(case, KEY) as conversation:
            conversation.send(said(Text(text="hello")))
            assert conversation.finish() == state


def refuse(code: int, text: str = "no") -> Callable[[Asked], None]:
    def before(asked: Asked) -> None:
        if asked.path.endswith(":runSession"):
            raise Refusal(code, text)

    return before


def test_failures_have_their_kind_and_no_token(double: CesDouble, opened: Any) -> None:
    for code, kind in (
        (8, FailureKind.RATE_LIMITED),
        (14, FailureKind.UNREACHABLE),
        (3, FailureKind.RAISED),
    ):
        double.before = refuse(code)
        with opened() as agent, agent.converse(Case(case_id="c"), KEY) as conversation:
            with pytest.raises(AgentFailed) as failed:
                conversation.send(said(Text(text="hello")))
            assert (failed.value.failure.kind, failed.value.failure.turn) == (kind, 1)
            assert TOKEN not in str(failed.value)
    release = threading.Event()
    double.before = lambda asked: asked.path.endswith(":runSession") and release.wait(20) and None
    limits = AgentLimits(turn_timeout_s=0.2)
    with opened(limits=limits) as agent, agent.converse(Case(case_id="c"), KEY) as conversation:
        with pytest.raises(AgentFailed, match=r"0\.2") as failed:
            conversation.send(said(Text(text="hello")))
        assert failed.value.failure.kind is FailureKind.TIMEOUT
    release.set()


def test_without_credentials_that_were_passed_nothing_is_asked(
    double: CesDouble, opened: Any, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """google-auth would look into our own environment, which is not what `env` lets an agent
    have."""
    monkeypatch.setenv(
        "GOOGLE_APPLICATION_CREDENTIALS", environment.pop("GOOGLE_APPLICATION_CREDENTIALS")
    )
    with opened() as agent, pytest.raises(AgentFailed, match="no Google Cloud credentials"):
        agent.start()
    assert not double.asked


# --- what is made for a run -----------------------------------------------------------------------


def written(folder: Path, answer: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "app.json").write_text(json.dumps({"displayName": "desk"}))
    (folder / "script.json").write_text(json.dumps({"hello": answer}))


def scripted(double: CesDouble) -> None:
    """An imported app says what its script says; a version what it is called."""

    def answer(app: str, asked: Asked) -> list[dict[str, Any]]:
        text = asked.body["inputs"][-1]["text"]
        script = double.contents.get(app, {}).get("script.json")
        if script is not None:
            return [{"text": json.loads(script)[text], "turnCompleted": True}]
        deployment = double.resources[asked.body["config"]["deployment"]]
        return [{"text": deployment.app_version.rpartition("/")[2], "turnCompleted": True}]

    double.answer = answer


# the options, what is made for the run, what it says
MADE: list[tuple[dict[str, str], str, str]] = [
    ({"path": "app"}, "apps", "Good morning"),
    ({"version": "v-2"}, "deployments", "v-2"),
]


@pytest.mark.parametrize(("options", "collection", "answer"), MADE, ids=["app", "version"])
def test_what_is_made_is_deleted(
    double: CesDouble,
    opened: Any,
    tmp_path: Path,
    options: dict[str, str],
    collection: str,
    answer: str,
) -> None:
    written(tmp_path / "repository/app", "Good morning")
    (tmp_path / "repository/app/link").symlink_to("/etc/passwd")
    # of the job: the app may be anybody's
    for name in (".git/config", ".netrc", "gha-creds-1.json"):
        (tmp_path / "repository/app" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "repository/app" / name).write_text("a token")
    scripted(double)
    before = set(double.resources)
    with opened(**options) as agent:
        agent.start()
        (made,) = set(double.resources) - before
        assert made.split("/")[-2] == collection
        assert (
            not {"link", ".git/config", ".netrc", "gha-creds-1.json"}
            & double.contents.get(made, {}).keys()
        )
        with agent.converse(Case(case_id="c"), KEY) as conversation:
            final = conversation.send(said(Text(text="hello"))).final_response
            assert final is not None
            assert final.parts[0] == Text(text=answer)
    assert set(double.resources) == before
    (folder,) = (tmp_path / "cache/ces").iterdir()
    assert not list(folder.iterdir())


def test_what_cannot_be_deleted_is_left_to_the_next_run(
    double: CesDouble, opened: Any, tmp_path: Path
) -> None:
    written(tmp_path / "repository/app", "Good morning")
    before = set(double.resources)

    def no_deletion(asked: Asked) -> None:
        if asked.method == "DELETE":
            raise Refusal(9, "locked")

    double.before = no_deletion
    with opened(path="app") as agent:
        agent.start()
    assert len(set(double.resources) - before) == 1
    assert (
        "the next run deletes the resources of this one: FAILED_PRECONDITION: locked"
        in opened.logged
    )
    double.before = lambda asked: None
    with opened() as agent:
        agent.start()
    assert set(double.resources) == before
    assert "deleted CES resources of 1 earlier run" in opened.logged


def test_nothing_is_deleted_but_what_runs_make(
    double: CesDouble, opened: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "cache/ces" / digest_of(double.url, 16)
    folder.mkdir(parents=True)
    forged = (
        APP,
        f"{APP}/deployments/production",
        f"{APP}/evaluations/evalgate-{'0' * 16}",
        f"{APP}/../x/apps/evalgate-{'0' * 16}",
        f"{APP}/deployments/evalgate-{'0' * 15}",  # cut
        "",
    )
    (folder / "x.names").write_text("\n".join(forged))
    before = set(double.resources)
    with opened() as agent:
        agent.start()
    assert set(double.resources) == before
    assert not [each for each in double.asked if each.method == "DELETE"]
    assert not list(folder.iterdir())


def test_an_import_that_fails_leaves_nothing(
    double: CesDouble, opened: Any, tmp_path: Path
) -> None:
    written(tmp_path / "repository/app", "Good morning")
    imports = ces_double.CesDouble._import

    def half(self: CesDouble, name: str, body: Any) -> Any:
        imports(self, name, body)
        raise Refusal(9, "made, and then something broke")

    with pytest.MonkeyPatch.context() as patch, opened(path="app") as agent:
        patch.setattr(CesDouble, "_import", half)
        before = set(double.resources)
        for _ in range(2):  # each trial says why
            with (
                pytest.raises(AgentFailed, match="something broke"),
                agent.converse(Case(case_id="c"), KEY),
            ):
                pass
        assert len(set(double.resources) - before) == 1
    assert set(double.resources) == before


EVALSET = {
    "eval_set_id": "s",
    "eval_cases": [
        {
            "eval_id": "greets",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": "hello"}]},
                    "final_response": {"role": "model", "parts": [{"text": "Good morning"}]},
                }
            ],
        }
    ],
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Its base greets, and its head does not."""
    root = tmp_path / "repository"
    written(root / "app", "Good morning")
    (root / "greet.evalset.json").write_text(json.dumps(EVALSET))
    (root / "test_config.json").write_text(json.dumps({"criteria": {"response_match_score": 0.9}}))
    (root / "evalgate.yml").write_text(f"agents: [{{driver: ces, app: {APP}, path: app}}]\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(root))
    for args in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", "base")):
        subprocess.run([*git, *args], check=True, capture_output=True)
    subprocess.run([*git, "checkout", "-qb", "change"], check=True, capture_output=True)
    written(root / "app", "What?")
    subprocess.run([*git, "commit", "-qam", "change"], check=True, capture_output=True)
    return root


def gate(repository: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    cache = str(repository.parent / "cache")
    args = [
        "run",
        "--base",
        "main",
        "--cache",
        cache,
        "--env",
        "CES_API_ENDPOINT,GOOGLE_APPLICATION_CREDENTIALS",
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "evalgate", *args],
        cwd=repository,
        env={**os.environ, **environment, "XDG_CACHE_HOME": cache, "GITHUB_ACTIONS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_base_and_head_are_two_apps_and_a_killed_run_leaves_nothing_for_long(
    double: CesDouble, repository: Path, environment: dict[str, str]
) -> None:
    scripted(double)
    before, asked = set(double.resources), threading.Event()
    release = threading.Event()

    def hold(request: Asked) -> None:
        if request.path.endswith(":runSession"):
            asked.set()
            release.wait(60)

    double.before = hold
    with gate(repository, environment) as child:
        assert asked.wait(60)
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=60)
    release.set()
    double.before = lambda request: None
    left = set(double.resources) - before
    assert left  # nobody deleted it

    with gate(repository, environment) as child:
        output, _ = child.communicate(timeout=120)
    assert child.returncode == 1, output  # the base greets, the change does not
    assert set(double.resources) == before
    sessions = {
        each.path.partition("/sessions/")[0]
        for each in double.asked
        if each.path.endswith(":runSession")
    }
    assert (
        len(
            {
                name
                for name in sessions
                if name.rpartition("/")[2] not in {each.rpartition("/")[2] for each in left}
            }
        )
        == 2
    )
    kept = [
        path for path in repository.parent.rglob("*") if path.is_file() and ".git" not in path.parts
    ]
    assert TOKEN not in output
    assert not [path for path in kept if TOKEN.encode() in path.read_bytes()]
