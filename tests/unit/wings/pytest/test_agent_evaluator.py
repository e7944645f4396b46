"""`AgentEvaluator` as far as it takes no agent (with agents: tests/parity/test_guest.py)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evalgate import AgentEvaluator
from evalgate.config import gate_file, load
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError
from evalgate.gate import run as gate_run
from evalgate.wings.pytest import guest


def test_without_google_adk_the_test_is_told(tmp_path: Path) -> None:
    file = tmp_path / "desk.test.json"
    file.write_text("[]")
    with pytest.raises(EvalgateError, match="google-adk is not installed in the Python") as error:
        AgentEvaluator.evaluate("desk_agent", str(file))
    assert "`evalgate run`" in error.value.hint


@pytest.fixture
def gate_that_tells_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs: the error of an evaluation names the `concurrency` that it would have had."""

    @asynccontextmanager
    async def open_agent(*_: Any, **__: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(open=None)

    def run(settings: Settings, _: object) -> None:
        raise EvalgateError(f"concurrency: {settings.concurrency}")

    monkeypatch.setattr(guest, "open_agent", open_agent)
    monkeypatch.setattr(gate_run, "run", run)


@pytest.mark.usefixtures("gate_that_tells_a_setting")
@pytest.mark.parametrize("name", gate_file.NAMES)
def test_the_repositorys_own_settings_count_under_each_of_their_names(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("concurrency: 7\n")
    (tmp_path / "desk.test.json").write_text("[]")
    with pytest.raises(EvalgateError, match="concurrency: 7"):
        AgentEvaluator.evaluate("desk_agent", str(tmp_path / "desk.test.json"))


@pytest.mark.usefixtures("gate_that_tells_a_setting")
def test_calls_at_the_same_time_do_not_read_half_a_file_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share a folder if they have the same agent and files."""

    def write_slowly(path: Path, text: str, encoding: str) -> None:
        with path.open("w", encoding=encoding) as file:
            time.sleep(0.4)
            file.write(text)

    def load_later(options: dict[str, Any]) -> Settings:
        time.sleep(0.2)
        return load_settings(options)

    load_settings = load.load_settings
    (tmp_path / ".git").mkdir()
    (tmp_path / "evalgate.yml").write_text("concurrency: 7\n")
    (tmp_path / "desk.test.json").write_text("[]")
    monkeypatch.setattr(load, "load_settings", load_later)
    monkeypatch.setattr(Path, "write_text", write_slowly)

    async def evaluate_twice() -> list[Any]:
        calls = [
            AgentEvaluator.evaluate("desk_agent", str(tmp_path / "desk.test.json"))
            for _ in range(2)
        ]
        return await asyncio.gather(*calls, return_exceptions=True)

    assert list(map(str, asyncio.run(evaluate_twice()))) == ["concurrency: 7"] * 2


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
