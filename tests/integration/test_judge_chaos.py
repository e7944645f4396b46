"""Judging through random faults, and through Vertex AI with a service account, against aimock,
which is not ours.

aimock is an npm package, which the tests install for themselves; without node, npm or a registry
these are skipped."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import aimock as mock
from builders.judging import HeldClock, requests, seen, votes_in

from evalgate.config.gate_file import JudgeRule
from evalgate.judges import JUDGES, rate_limit
from evalgate.judges.base import SampledRequest, VoteResult
from evalgate.judges.panel import open_panel
from evalgate.model import Reason

pytestmark = pytest.mark.integration

FIXTURES = [
    {"match": {"userMessage": "good"}, "response": {"content": "valid"}},
    {"match": {"userMessage": "bad"}, "response": {"content": "invalid"}},
]


class BriefClock(HeldClock):
    """Its time is its own; it sleeps for a moment."""

    def sleep(self, seconds: float) -> bool:
        threading.Event().wait(min(seconds, 0.02))
        return super().sleep(seconds)


@pytest.fixture(scope="module", name="aimock")
def aimock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mock.running(tmp_path_factory.mktemp("aimock"), FIXTURES) as url:
        yield url


def judge_all(
    model: str, base_url: str, environment: dict[str, str], prompts: list[str]
) -> tuple[tuple[VoteResult, ...], Any]:
    panel = open_panel(
        [model],
        drivers=JUDGES,
        defaults=JudgeRule(base_url=base_url, timeout=5),
        environment=environment,
        cache=None,
        warn=pytest.fail,
        limiters=rate_limit.limiters_for(JudgeRule(), BriefClock()),
    )
    try:
        ballots = [
            SampledRequest(requests=requests(prompt, model=model), parse=votes_in)
            for prompt in prompts
        ]
        return panel.vote_all(ballots), panel.uses()[0]
    finally:
        panel.close()


@pytest.mark.parametrize(
    ("model", "path"),
    [("gemini-2.5-flash", "/v1beta"), ("openai/gpt-4.1", "/v1")],
    ids=["gemini", "openai"],
)
def test_a_third_of_the_calls_fail_and_every_verdict_is_right(
    model: str, path: str, aimock: str
) -> None:
    mock.set_chaos(
        aimock, dropRate=0.08, malformedRate=0.08, disconnectRate=0.08, rateLimitRate=0.08
    )
    prompts = [f"{'good' if number % 3 else 'bad'} answer {number}" for number in range(30)]
    results, account = judge_all(model, aimock + path, {}, prompts)
    assert [seen(result.items[""]).passed for result in results] == [
        bool(number % 3) for number in range(30)
    ]
    assert account.retries > 10
    assert account.calls >= 90


def test_when_everything_fails_nothing_is_measured(aimock: str) -> None:
    mock.set_chaos(aimock, disconnectRate=1.0)
    results, account = judge_all(
        "gemini-2.5-flash", f"{aimock}/v1beta", {}, ["good answer", "bad answer"]
    )
    assert all(seen(result.items[""]).undecided is Reason.JUDGE_UNAVAILABLE for result in results)
    assert set(account.failures) == {"connection"}
    assert account.calls == 0


# --- Vertex AI ------------------------------------------------------------------------------------


@pytest.fixture
def account_file(tmp_path: Path) -> Iterator[Path]:
    """A service account of our own making, whose tokens a server on loopback hands out."""
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    from cryptography.hazmat.primitives import serialization

    class Tokens(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            data = json.dumps({"access_token": "t0ken-of-the-test", "expires_in": 3600}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "account.json"
    fields = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "k",
        "private_key": pem.decode(),
        "client_email": "judge@p.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": f"http://127.0.0.1:{server.server_port}/token",
    }
    path.write_text(json.dumps(fields))
    yield path
    server.shutdown()
    server.server_close()


def test_vertex_with_a_service_account(
    aimock: str, account_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mock.set_chaos(aimock)
    # google-auth reads it there
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account_file))
    environment = {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_CLOUD_LOCATION": "global",
        "GOOGLE_VERTEX_BASE_URL": f"{aimock}/v1",
    }
    results, account = judge_all("gemini-2.5-flash", "", environment, ["good answer", "bad answer"])
    assert [seen(result.items[""]).passed for result in results] == [True, False]
    assert account.calls == 6


def test_vertex_with_a_service_account_that_is_gone(
    aimock: str, account_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account_file.unlink()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account_file))
    environment = {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "p"}
    results, account = judge_all("gemini-2.5-flash", f"{aimock}/v1", environment, ["good answer"])
    assert seen(results[0].items[""]).undecided is Reason.CREDENTIALS_MISSING
    assert set(account.failures) <= {"unauthorized", "not_configured"}
    assert "account.json" in seen(results[0].items[""]).message
