"""The driver `http` with a mapped endpoint: a real server that answers, refuses, hangs, floods and
redirects."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from evalgate.agents import DRIVERS
from evalgate.agents.base import Agent, AgentFailed, AgentLimits, AgentSetting
from evalgate.model import AgentFailure, Case, Content, FailureKind, Text, TrialKey
from evalgate.system.python_env import InstallSetup

pytestmark = pytest.mark.integration

SECRET = "very-secret-value"


class Endpoint(BaseHTTPRequestHandler):
    """Answers with what it was asked; the path says how."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.seen.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]  # set by `served`
        match self.path.split("/")[1:]:
            case ["echo", *_]:
                asked = json.loads(body) if body else {}
                calls = [{"name": "look_up", "args": {"q": asked.get("q")}}]
                self._answer(
                    200,
                    {
                        "answer": f"you said {asked.get('q')}",
                        "calls": calls,
                        "state": {"seen": True},
                    },
                )
            case ["status", code]:
                self._answer(
                    int(code), {"error": "no"}, {"retry-after": "3"} if code == "429" else {}
                )
            case ["hang"]:
                time.sleep(30)
            case ["trickle"]:
                self._trickle()
            case ["flood"]:
                self._flood()
            case ["cut"]:
                self.send_response(200)
                self.send_header("content-length", "100")
                self.end_headers()
                self.wfile.write(b"{")
                self.close_connection = True
            case ["trickle-chunks"]:
                self._trickle(chunked=True)
            case ["cut-chunks"]:
                self._trickle(chunked=True, times=3, pause=0)
                self.close_connection = True
            case ["page"]:
                self._raw(200, b"<html>Sign in</html>")
            case ["redirect", code, *rest]:
                self._answer(int(code), {}, {"location": "/".join(rest)})
            case _:
                self._answer(404, {"error": "nothing here"})

    def _answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self._raw(status, json.dumps(value).encode(), headers)

    def _raw(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _trickle(self, *, chunked: bool = False, times: int = 300, pause: float = 0.1) -> None:
        self.send_response(200)
        if chunked:
            self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(times):
                self.wfile.write(b"1\r\n \r\n" if chunked else b" ")
                time.sleep(pause)

    def _flood(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(1000):
                self.wfile.write(b"x" * 100_000)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Endpoint)
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as running:
        yield running


@contextlib.contextmanager
def served() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.shutdown()
        running.server_close()
        thread.join(5)


def opened(url: str, *, environment: dict[str, str] | None = None, **options: Any) -> Agent:
    driver = DRIVERS["http"]
    limits = AgentLimits(turn_timeout_s=1.0, output_bytes=1_000_000)
    setting = AgentSetting(
        root="/", world=InstallSetup(environment=environment or {}, cache="/nowhere"), limits=limits
    )
    shape = {
        "request": {"q": "{text}"},
        "response": {"text": "answer", "tool_calls": "calls", "state": "state"},
    }
    return driver.open(driver.options.model_validate({"url": url} | shape | options), setting)


def ask(agent: Agent, *texts: str) -> tuple[list[str], Any]:
    answers = []
    with agent.converse(
        Case(case_id="c", conversation=()), TrialKey(suite="s", case_id="c")
    ) as talk:
        for text in texts:
            invocation = talk.send(Content(parts=(Text(text=text),), role="user"))
            assert invocation.timings is not None
            assert [call.args for call in invocation.tool_calls] == [{"q": text}]
            assert invocation.final_response is not None
            answers += [
                part.text for part in invocation.final_response.parts if isinstance(part, Text)
            ]
        return answers, talk.finish()


def failure(agent: Agent) -> AgentFailure:
    with pytest.raises(AgentFailed) as failed:
        ask(agent, "hi")
    return failed.value.failure


def test_a_conversation(server: Server) -> None:
    agent = opened(f"{server.url}/echo")
    assert ask(agent, "one", "zwölf ☃") == (["you said one", "you said zwölf ☃"], {"seen": True})
    assert agent.about() == {"url": f"{server.url}/echo", "flavour": "mapped"}


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        (
            "status/429",
            FailureKind.RATE_LIMITED,
            'HTTP status 429 (Retry-After: 3): {"error": "no"}',
        ),
        ("status/500", FailureKind.UNREACHABLE, "HTTP status 500"),
        ("status/503", FailureKind.UNREACHABLE, "HTTP status 503"),
        ("status/401", FailureKind.UNAUTHORIZED, "HTTP status 401"),
        ("nowhere", FailureKind.RAISED, "HTTP status 404"),
        ("hang", FailureKind.TIMEOUT, "the agent timed out after 1.0 s (`turn-timeout`)"),
        ("trickle", FailureKind.TIMEOUT, "the agent timed out after 1.0 s (`turn-timeout`)"),
        ("trickle-chunks", FailureKind.TIMEOUT, "the agent timed out after 1.0 s (`turn-timeout`)"),
        ("flood", FailureKind.FLOODED, "the answer is larger than 1,000,000 bytes"),
        ("cut", FailureKind.UNREACHABLE, ""),
        ("page", FailureKind.PROTOCOL, "the answer is not JSON: '<html>Sign in</html>'"),
        ("cut-chunks", FailureKind.UNREACHABLE, ""),
        ("redirect/307", FailureKind.RAISED, "HTTP status 307"),  # to nowhere
    ],
)
def test_a_fault_is_a_typed_failure(
    server: Server, path: str, kind: FailureKind, words: str
) -> None:
    began = time.monotonic()
    found = failure(opened(f"{server.url}/{path}"))
    assert (found.kind, found.turn) == (kind, 1)
    assert words in found.message
    assert found.retry_after_s == (3.0 if path == "status/429" else None)
    assert time.monotonic() - began < 5


def test_nobody_at_home() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = failure(opened(f"http://127.0.0.1:{free.getsockname()[1]}/"))
    assert found.kind is FailureKind.UNREACHABLE
    assert "refused" in found.message
    assert "object at 0x" not in found.message


def test_a_host_that_does_not_exist() -> None:
    found = failure(opened("http://no-such-host.invalid/"))
    assert found.kind is FailureKind.UNREACHABLE
    assert "object at 0x" not in found.message


# --- headers and redirects ------------------------------------------------------------------------


def test_headers_take_variables_of_the_agent_and_of_nobody_else(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_OWN", "leak")
    headers = {"Authorization": "Bearer ${AGENT_KEY}", "X-Plain": "1"}
    agent = opened(f"{server.url}/echo/headers", environment={"AGENT_KEY": SECRET}, headers=headers)
    ask(agent, "hi")
    sent = next(seen for path, seen, _ in server.seen if path == "/echo/headers")
    assert (sent["Authorization"], sent["X-Plain"]) == (f"Bearer {SECRET}", "1")
    with pytest.raises(AgentFailed) as failed:
        opened(server.url, environment={"AGENT_KEY": SECRET}, headers={"X": "${OUR_OWN}"})
    assert failed.value.failure.kind is FailureKind.START
    assert "${OUR_OWN}" in failed.value.failure.message


def test_a_header_that_comes_back_is_not_told(server: Server) -> None:
    headers = {"X-Any": "${NOT_NAMED_LIKE_ONE}"}
    agent = opened(
        f"{server.url}/status/400", environment={"NOT_NAMED_LIKE_ONE": SECRET}, headers=headers
    )
    assert failure(agent).kind is FailureKind.RAISED
    broken = opened(server.url, environment={"K": f"{SECRET}\n"}, headers={"X-Any": "${K}"})
    assert SECRET not in failure(broken).message


@pytest.mark.parametrize(
    ("code", "method_kept"), [(301, True), (302, True), (303, False), (307, True), (308, True)]
)
def test_a_redirect_is_followed_with_its_headers_only_at_home(
    server: Server, code: int, method_kept: bool
) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    with served() as elsewhere:
        for target, to in (
            (server, f"/echo/home{code}"),
            (elsewhere, f"{elsewhere.url}/echo/away{code}"),
        ):
            agent = opened(f"{server.url}/redirect/{code}/{to}", headers=headers)
            with contextlib.suppress(AssertionError):
                ask(agent, "hi")
            path, seen, body = target.seen[-1]
            assert path == to.removeprefix(elsewhere.url)
            assert bool(body) is method_kept
            assert ("Authorization" in seen) is (target is server)


def test_going_round_in_circles(server: Server) -> None:
    agent = opened(f"{server.url}/redirect/307/{server.url}/redirect/307/")
    assert failure(agent).kind in {FailureKind.PROTOCOL, FailureKind.RAISED}


def test_a_proxy_of_the_agents_environment_is_used_and_ours_is_not(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert ask(opened(f"{server.url}/echo"), "hi")[0] == ["you said hi"]
    proxied = opened("http://agent.invalid/echo", environment={"HTTP_PROXY": server.url})
    failure(proxied)  # this server is no proxy, but it is asked
    assert server.seen[-1][0] == "http://agent.invalid/echo"
    direct = opened(
        "http://agent.invalid/echo", environment={"HTTP_PROXY": server.url, "NO_PROXY": ".invalid"}
    )
    assert failure(direct).kind is FailureKind.UNREACHABLE


def test_many_conversations_at_once(server: Server) -> None:
    agent = opened(f"{server.url}/echo")
    with ThreadPoolExecutor(16) as threads:
        done = [
            answer
            for answers in threads.map(
                lambda number: ask(agent, f"{number} a", f"{number} b")[0], range(16)
            )
            for answer in answers
        ]
    assert sorted(done) == sorted(
        f"you said {number} {letter}" for number in range(16) for letter in "ab"
    )
