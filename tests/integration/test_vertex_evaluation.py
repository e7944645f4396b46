"""The client of Google Cloud's evaluation service against a local server, with google-auth's real
token exchange."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from builders import google_account
from builders.build import case, turn
from builders.judging import HeldClock

from evalgate import criteria, judges
from evalgate.config.gate_file import BudgetRule, JudgeRule
from evalgate.criteria.base import CriterionServices
from evalgate.judges.clients import Clients
from evalgate.judges.panel import VotingPanel
from evalgate.judges.usage import JudgeBudget, UsageLedger
from evalgate.model import CriterionUse, Grade, NotEvaluated, Reason, Score, TrialView

pytestmark = pytest.mark.integration

Answer = tuple[int, Any]


class Cloud:
    """Hands out tokens, and answers evaluations with what a test puts into `answers`, the last one
    again and again."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [
            (200, {"metricResults": [{"score": 1.0, "explanation": "harmless"}]})
        ]
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.tokens = 0
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/token":
                    cloud.tokens += 1
                    self._say(
                        200, {"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"}
                    )
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                cloud.seen.append((self.path, headers, json.loads(body)))
                self._say(*(cloud.answers.pop(0) if len(cloud.answers) > 1 else cloud.answers[0]))

            def _say(self, status: int, body: Any) -> None:
                raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    held = Cloud()
    yield held
    held.server.shutdown()
    held.server.server_close()


@pytest.fixture
def environment(cloud: Cloud, tmp_path: Path) -> dict[str, str]:
    return {
        "GOOGLE_APPLICATION_CREDENTIALS": str(
            google_account.written(tmp_path, f"{cloud.url}/token")
        ),
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_CLOUD_LOCATION": "europe-west1",
        "GOOGLE_VERTEX_BASE_URL": cloud.url,
    }


@pytest.fixture
def judged(environment: dict[str, str]) -> Callable[..., Grade]:
    def grade(name: str = "safety_v1", **changed: str) -> Grade:
        told = {**environment, **changed}
        roster = Clients(judges.JUDGES, defaults=JudgeRule(), environment=told, clock=HeldClock())
        panel = VotingPanel(roster, budget=JudgeBudget(BudgetRule()), ledger=UsageLedger())
        built = criteria.build(
            CriterionUse(name=name, threshold=0.5), CriterionServices(judge=panel)
        )
        side = (turn("what?", answer="seven"), turn("and?", answer="eight"))
        try:
            return built(TrialView(case=case("c"), actual=side, expected=side))
        finally:
            panel.close()

    return grade


def test_one_request_a_turn_with_one_token(cloud: Cloud, judged: Callable[..., Grade]) -> None:
    found = judged()
    assert isinstance(found, Score)
    assert (found.value, found.turns) == (1.0, (1.0, 1.0))
    assert {path for path, _, _ in cloud.seen} == {
        "/v1beta1/projects/p/locations/europe-west1/:evaluateInstances"
    }
    assert {headers["authorization"] for _, headers, _ in cloud.seen} == {"Bearer a-token"}
    assert sorted(body["instance"]["response"]["text"] for _, _, body in cloud.seen) == [
        "eight",
        "seven",
    ]
    assert cloud.tokens == 1


def test_an_api_key_without_a_project(cloud: Cloud, judged: Callable[..., Grade]) -> None:
    assert isinstance(judged(GOOGLE_CLOUD_PROJECT="", GOOGLE_API_KEY="k-1"), Score)
    path, headers, _ = cloud.seen[0]
    assert (path, headers["x-goog-api-key"]) == ("/v1beta1/:evaluateInstances", "k-1")


@pytest.mark.parametrize(
    ("answers", "reason", "says"),
    [
        ([(401, {"error": {"message": "bad token"}})], Reason.CREDENTIALS_MISSING, "bad token"),
        ([(403, {"error": {"message": "API is off"}})], Reason.CREDENTIALS_MISSING, "API is off"),
        ([(404, "<html>nothing here</html>")], Reason.JUDGE_UNAVAILABLE, "nothing here"),
        ([(500, "oops")], Reason.JUDGE_UNAVAILABLE, "oops"),
        ([(200, "no json")], Reason.JUDGE_UNAVAILABLE, "no json"),
        (
            [(200, {"metricResults": [{"error": {"message": "quota of the metric"}}]})],
            Reason.JUDGE_UNREADABLE,
            "quota",
        ),
    ],
)
def test_faults(
    cloud: Cloud, judged: Callable[..., Grade], answers: list[Answer], reason: Reason, says: str
) -> None:
    cloud.answers = answers
    found = judged()
    assert isinstance(found, NotEvaluated)
    assert found.reason is reason
    assert says in found.message
    assert "a-token" not in found.message


def test_a_busy_service_is_asked_again(cloud: Cloud, judged: Callable[..., Grade]) -> None:
    cloud.answers = [(429, {"error": {"message": "slow down"}}), (503, "later"), *cloud.answers]
    assert isinstance(judged(), Score)


def test_credentials_that_cannot_be_read(judged: Callable[..., Grade], tmp_path: Path) -> None:
    found = judged(GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "none.json"))
    assert isinstance(found, NotEvaluated)
    assert found.reason is Reason.CREDENTIALS_MISSING


def test_nothing_configured_says_what_to_do(judged: Callable[..., Grade]) -> None:
    found = judged(GOOGLE_CLOUD_PROJECT="")
    assert isinstance(found, NotEvaluated)
    assert found.reason is Reason.CREDENTIALS_MISSING
    assert "GOOGLE_CLOUD_PROJECT" in found.message
    assert '"judge": "llm"' in found.message
