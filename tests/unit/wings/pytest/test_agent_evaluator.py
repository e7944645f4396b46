"""`AgentEvaluator` as far as it takes no agent (with agents: tests/parity/test_guest.py)."""

from __future__ import annotations

import asyncio
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


@pytest.mark.parametrize(
    ("name", "argument", "advice"),
    [
        ("initial_session_file", "x", "`evalgate migrate FILE --initial-session SESSION`"),
        ("output_file", "x", "results.json of the report folder"),
        # a manager may be a collection, and empty
        ("eval_set_results_manager", {}, "results.json of the report folder"),
    ],
)
def test_arguments_that_are_refused(name: str, argument: Any, advice: str) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` is not supported: .*{advice}"):
        AgentEvaluator.evaluate("desk_agent", "desk.test.json", **{name: argument})


def test_old_files_are_migrated_by_a_command() -> None:
    with pytest.raises(ValueError, match="Use `evalgate migrate OLD NEW"):
        AgentEvaluator.migrate_eval_data_to_new_schema("old.test.json", "new.test.json")
