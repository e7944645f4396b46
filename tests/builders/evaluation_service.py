"""A double of Google Cloud's evaluation service, and of the server of its tokens: it speaks
`:evaluateInstances` with the real clients of evalgate and of Google."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from builders import google_account
from builders.judging import HeldClock
from evalgate import criteria
from evalgate.config.gate_file import BudgetRule, JudgeRule
from evalgate.criteria.base import CriterionServices
from evalgate.judges import rate_limit
from evalgate.judges.clients import Clients
from evalgate.judges.panel import JudgeBudget, UsageLedger, VotingPanel
from evalgate.model import CriterionUse, Grade, TrialView

Answer = tuple[int, Any]


class EvaluationService:
    """Hands out tokens, and answers evaluations with what a test puts into `answers`, the last one
    again and again. `seen`: path, headers and body of each request."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [
            (200, {"metricResults": [{"score": 1.0, "explanation": "harmless"}]})
        ]
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.tokens = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/token":
                    service.tokens += 1
                    token = {
                        "access_token": "a-token",
                        "expires_in": 3600,
                        "token_type": "Bearer",
                    }
                    self._say(200, token)
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                service.seen.append((self.path, headers, json.loads(body)))
                answers = service.answers
                self._say(*(answers.pop(0) if len(answers) > 1 else answers[0]))

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

    def close(self) -> None:
        """End it."""
        self.server.shutdown()
        self.server.server_close()

    def environment(self, folder: Path) -> dict[str, str]:
        """The variables by which a judge finds it; the account's file is in `folder`."""
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(
                google_account.written(folder, f"{self.url}/token")
            ),
            "GOOGLE_CLOUD_PROJECT": "p",
            "GOOGLE_CLOUD_LOCATION": "europe-west1",
            "GOOGLE_VERTEX_BASE_URL": self.url,
        }


def grade(use: CriterionUse, view: TrialView, environment: dict[str, str]) -> Grade:
    """The grade of a criterion by the judges of an environment."""
    roster = Clients(
        defaults=JudgeRule(),
        environment=environment,
        limiters=rate_limit.limiters_for(JudgeRule(), HeldClock()),
    )
    panel = VotingPanel(roster, budget=JudgeBudget(BudgetRule()), ledger=UsageLedger())
    try:
        return criteria.build(use, CriterionServices(judge=panel))(view)
    finally:
        panel.close()
