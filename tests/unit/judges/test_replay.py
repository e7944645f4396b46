"""A recording answers the questions that were recorded, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.judging import reply, request

from evalgate.judges import replay
from evalgate.judges.base import Judge, JudgeFailed, JudgeFailureKind, JudgeSetting
from evalgate.judges.replay import Recorder


def opened(path: Path) -> Judge:
    return replay.DRIVER.open(JudgeSetting(model="gemini-2.5-flash", path=str(path)))


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "judge.jsonl"
    recorder = Recorder(path)
    for sample in range(3):
        recorder.record(replay.entry_of(request(sample=sample), reply(f"valid #{sample}")))
    recorder.close()
    return path


@pytest.mark.parametrize("whole_folder", [False, True])
def test_what_was_recorded_is_answered(recorded: Path, whole_folder: bool) -> None:
    judge = opened(recorded.parent if whole_folder else recorded)
    assert [judge.ask(request(sample=sample)).text for sample in range(3)] == [
        "valid #0",
        "valid #1",
        "valid #2",
    ]
    assert judge.ask(request()).cached
    judge.close()


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": "another"},
        {"sample": 3},
        {"repeat": 1},
        {"version": "2"},
        {"config": {"seed": 1}},
    ],
)
def test_anything_else_is_not_recorded(recorded: Path, changed: dict[str, object]) -> None:
    with pytest.raises(JudgeFailed) as raised:
        opened(recorded).ask(request(**changed))
    assert raised.value.failure.kind is JudgeFailureKind.NO_RECORDING
    assert "record it once with an API key" in raised.value.failure.message
    assert ("fewer runs were recorded" in raised.value.failure.message) == ("repeat" in changed)


def test_what_is_missing(tmp_path: Path, recorded: Path) -> None:
    assert "needs the path" in replay.DRIVER.missing(JudgeSetting(model="m"))
    assert "record them once" in replay.DRIVER.missing(
        JudgeSetting(model="m", path=str(tmp_path / "none"))
    )
    assert replay.DRIVER.missing(JudgeSetting(model="m", path=str(recorded))) == ""
