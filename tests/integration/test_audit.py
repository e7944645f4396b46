"""`make audit` against a server that answers as osv.dev does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ADVISORY = {
    "id": "GHSA-0000-0000-0000",
    "summary": "A request follows a redirect to any host.",
    "published": "2026-01-01T00:00:00Z",
    "aliases": ["CVE-2026-0001"],
    "affected": [
        {
            "package": {"name": "urllib3", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "999"}]}],
        }
    ],
}


class Advisories(ThreadingHTTPServer):
    """Knows of `vulnerable` packages; with `status` 503 it knows nothing."""

    daemon_threads = True

    def __init__(self, *, vulnerable: set[str], status: int) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.vulnerable = vulnerable
        self.status = status
        self.questions: list[dict[str, Any]] = []


class Answer(BaseHTTPRequestHandler):
    server: Advisories

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.questions.append(question)
        is_vulnerable = question["package"]["name"] in self.server.vulnerable
        body = json.dumps({"vulns": [ADVISORY]} if is_vulnerable else {}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def advisories(request: pytest.FixtureRequest) -> Iterator[Advisories]:
    vulnerable, status = request.param
    with Advisories(vulnerable=vulnerable, status=status) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("advisories", "is_green", "words"),
    [
        ((set(), 200), True, "No known vulnerabilities found"),
        (({"urllib3"}, 200), False, "CVE-2026-0001"),
        # osv.dev is down: nothing is known
        ((set(), 503), False, "503"),
    ],
    indirect=["advisories"],
    ids=["nothing known", "one known", "no answer"],
)
def test_what_is_known_or_unknown_fails(
    advisories: Advisories, is_green: bool, words: str, tmp_path: Path
) -> None:
    address = f"http://127.0.0.1:{advisories.server_address[1]}"
    recipe = subprocess.run(
        [
            "make",
            "--no-print-directory",
            "--dry-run",
            "--old-file=.venv/.ready",
            "audit",
            f"OSV_URL={address}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path)}
    command = recipe.stdout.replace(".venv/bin", str(Path(sys.executable).parent))
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    output = done.stdout + done.stderr
    assert (done.returncode == 0) is is_green, output
    assert words in output
    if is_green:
        names = {question["package"]["name"] for question in advisories.questions}
        assert {"pydantic", "uv", "setuptools"} <= names
