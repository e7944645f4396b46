"""Every judge stands in its table and on its docs page, and says what it lacks without asking
anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.judges import JUDGES
from evalgate.judges.base import (
    FINAL_KINDS,
    RETRIABLE,
    JudgeFailed,
    JudgeFailureKind,
    JudgeSetting,
)

ROOT = Path(__file__).parents[2]


def test_every_file_is_a_row() -> None:
    files = [
        path
        for path in (ROOT / "evalgate" / "judges").glob("*.py")
        if "\nDRIVER = " in path.read_text("utf-8")
    ]
    assert {path.stem for path in files} == {
        driver.open.__module__.rpartition(".")[2]
        for driver in JUDGES.values()
        if ".wings." not in driver.open.__module__
    }


@pytest.mark.parametrize("name", list(JUDGES))
def test_the_row_is_named_as_its_key_and_documented(name: str) -> None:
    assert JUDGES[name].name == name
    assert f"`{name}`" in (ROOT / "docs" / "judges.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(JUDGES))
def test_without_key_or_recordings_it_says_what_to_do(name: str) -> None:
    lacking = JUDGES[name].missing(JudgeSetting(model="m", api_key_env=("THE_KEY",)))
    assert "replay" in lacking
    assert "THE_KEY" in lacking or "record" in lacking


@pytest.mark.parametrize("kind", list(JudgeFailureKind))
def test_every_failure_names_the_next_step_and_is_documented(kind: JudgeFailureKind) -> None:
    found = JudgeSetting(model="m", api_key_env=("THE_KEY",)).failure(kind)
    what, _, step = str(found.message).partition("; ")
    assert what.startswith("judge `m`: ")
    assert step
    assert f"`{kind.value}`" in (ROOT / "docs" / "judges.md").read_text(encoding="utf-8")


def test_what_a_repeat_may_cure_is_not_final() -> None:
    assert not RETRIABLE & FINAL_KINDS


def test_a_replay_without_a_file_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(JudgeFailed) as raised:
        JUDGES["replay"].open(JudgeSetting(model="m", path=str(tmp_path / "none.jsonl")))
    assert raised.value.failure.kind is JudgeFailureKind.NOT_CONFIGURED
