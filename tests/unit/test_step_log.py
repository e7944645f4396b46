"""What a step says to its runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate import action
from evalgate.errors import ConfigError, EvalgateError
from evalgate.results.journal import Journal


@pytest.mark.parametrize("wants", [True, False])
def test_who_looks_for_a_fault_sees_the_traceback(
    *, wants: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise ConfigError("no such folder")
    except EvalgateError as error:
        action.report_error(error, {}, debug=wants)
    said = capsys.readouterr().out
    assert "::error" in said
    assert ("Traceback (most recent call last)" in said) is wants


def test_a_gate_that_still_runs_is_not_concluded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"GITHUB_WORKSPACE": str(tmp_path), "GITHUB_EVENT_NAME": "schedule"}
    said = {}
    with Journal.create(tmp_path / "evalgate-report/journal.jsonl", about={}):
        said["running"] = (action.conclude(environ, "killed"), capsys.readouterr().out)
    said["ended"] = (action.conclude(environ, "killed"), capsys.readouterr().out)
    assert {state: code for state, (code, _) in said.items()} == {"running": 3, "ended": 3}
    assert {state: "another evalgate is running" in text for state, (_, text) in said.items()} == {
        "running": True,
        "ended": False,
    }
