"""The local GitHub as a program of its own, as workflows under act need it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evalgate.github import check_run, comment
from evalgate.github.check_run import Output
from evalgate.github.client import Client, GitHubFailed
from evalgate.github.comment import Job

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).parents[2] / "builders" / "github_double.py"
TEXT = comment.render(Job(run=7), headline="pass")


def test_it_speaks_logs_and_ends(tmp_path) -> None:
    pytest.importorskip(
        "openapi_core", reason="GitHub's description cannot be read without openapi-core"
    )
    log = tmp_path / "log.jsonl"
    command = [
        sys.executable,
        str(PROGRAM),
        "--port",
        "0",
        "--log",
        str(log),
        "--pull",
        "12",
        "--read-only",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as running:
        try:
            speak(running.stdout.readline().strip())
        finally:
            running.terminate()
        assert running.wait(10) == 0
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["problems"] for row in rows] == [[]] * len(rows)
    assert all(row["authorized"] for row in rows)
    posted = [(row["target"], row["status"]) for row in rows if row["method"] == "POST"]
    assert posted == [("/repos/o/r/check-runs", 403), ("/repos/o/r/issues/12/comments", 403)]
    assert "ghs_x" not in log.read_text()


def speak(url: str) -> None:
    """Try to write with a token that may only read."""
    environ = {"GITHUB_API_URL": url, "GITHUB_REPOSITORY": "o/r"}
    client = Client.of(environ, token="ghs_x")
    with pytest.raises(GitHubFailed) as caught:
        check_run.start(client, head_sha="b" * 40, output=Output(title="t", summary="s"))
    assert caught.value.not_permitted
    with pytest.raises(GitHubFailed):
        comment.post(client, 12, TEXT)
