"""`AgentEvaluator` in a test that has patched what the agent is made of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from evalgate import AgentEvaluator
from evalgate.errors import EvalgateError

desk = ModuleType("desk_agent.tools")


class Search:
    def find(self) -> int:
        """A tool."""
        return 1


desk.Search, desk.search = Search, len  # type: ignore[attr-defined]


def by_mock() -> str:
    with mock.patch.object(desk, "search"):
        return refusal()


def by_mock_with_a_function() -> str:
    with mock.patch.object(Search, "find", new=max):
        return refusal()


def by_decorator() -> str:
    return mock.patch("evalgate.api.run", new=print)(refusal)()


def by_monkeypatch() -> str:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(desk, "search", max)
        patches.setattr(Search, "find", max)
        return refusal()


def refusal() -> str:
    try:
        AgentEvaluator.evaluate("desk_agent", "no-such-file")
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("patched", "names"),
    [
        (by_mock, "`desk_agent.tools.search` patched by this test"),
        (by_mock_with_a_function, f"`{__name__}.Search.find` patched by this test"),
        (by_decorator, "`evalgate.api.run` patched by this test"),
        (
            by_monkeypatch,
            f"`desk_agent.tools.search` and `{__name__}.Search.find` patched by this test",
        ),
    ],
)
def test_what_is_patched_is_named(patched: Callable[[], str], names: str) -> None:
    assert names in patched()
    # and is no matter afterwards
    assert refusal() == "There is no eval file no-such-file."


def test_what_reaches_the_agent_anyway_is_no_patch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MODEL", "x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with mock.patch.dict(os.environ, {"OTHER": "y"}):
        assert refusal() == "There is no eval file no-such-file."


STRANGERS = """
import desk
from evalgate import AgentEvaluator

def test_it(monkeypatch):
    monkeypatch.setattr(desk, "search", lambda: 2)
    AgentEvaluator.evaluate("desk", "evals")
"""


def test_a_test_of_strangers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text("def search(): return 1")
    (tmp_path / "test_desk.py").write_text(STRANGERS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (
        "ValueError: `desk.search` patched by this test, and the agent runs in a process of its own"
        in done.stdout
    )


def test_an_old_file_is_migrated_by_google_adks_call(tmp_path: Path) -> None:
    old, new, session = (tmp_path / name for name in ("old.test.json", "new.test.json", "s.json"))
    uses = [{"tool_name": "roll", "tool_input": {"sides": 6}}]
    turn = {"query": "Roll.", "expected_tool_use": uses, "reference": "Rolled."}
    old.write_text(json.dumps([turn]), encoding="utf-8")
    session.write_text(json.dumps({"state": {"city": "Oslo"}}), encoding="utf-8")
    AgentEvaluator.migrate_eval_data_to_new_schema(str(old), str(new), str(session))
    [case] = json.loads(new.read_text(encoding="utf-8"))["eval_cases"]
    [written] = case["conversation"]
    assert case["session_input"] == {"app_name": "", "user_id": "", "state": {"city": "Oslo"}}
    assert written["user_content"]["parts"] == [{"text": "Roll."}]
    assert written["final_response"]["parts"] == [{"text": "Rolled."}]
    calls = [{"name": "roll", "args": {"sides": 6}}]
    assert written["intermediate_data"]["tool_uses"] == calls


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("", "new.json"), ValueError),
        (("old.json", ""), ValueError),
        (("absent.json", "new.json"), EvalgateError),
    ],
)
def test_what_cannot_be_migrated(names: tuple[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        AgentEvaluator.migrate_eval_data_to_new_schema(*names)
