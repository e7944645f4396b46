"""Cassettes on disk: read, written at the end of a conversation, merged over repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents import toolbox
from evalgate.agents.base import PendingCall, ToolMode, ToolReply
from evalgate.agents.toolbox import ConversationTools, Toolbox
from evalgate.config.gate_file import GateFile, ToolsRule
from evalgate.config.settings import Settings
from evalgate.errors import UnavailableError
from evalgate.model import Case, TrialKey


def made(
    root: Path,
    mode: ToolMode = ToolMode.RECORD,
    *,
    is_resumed: bool = False,
    own: Path | None = None,
) -> Toolbox:
    settings = Settings(
        root=root, resume=is_resumed, gate_file=GateFile(tools=ToolsRule(cassettes="kept/"))
    )
    return Toolbox(settings, mode=mode, checkout=own or root, redact=str)


def opened(box: Toolbox, case: str = "c", repeat: int = 0) -> ConversationTools:
    key = TrialKey(suite="s.evalset.json", case_id=case, number=repeat)
    return box.open(key, Case(case_id=case))


def record(box: Toolbox, *calls: tuple[str, Any], case: str = "c", repeat: int = 0) -> None:
    tools = opened(box, case, repeat)
    for number, (city, result) in enumerate(calls):
        call = PendingCall(number=number, tool="weather", args={"city": city})
        tools.answer(call)
        tools.keep(call, ToolReply(response=result))
    tools.finish()


def file(root: Path, case: str = "c") -> Path:
    return root / toolbox.file_of("kept", "s.evalset.json", case)


def held(root: Path, case: str = "c") -> dict[str, Any]:
    return {
        call["args"]["city"]: call["response"]
        for call in json.loads(file(root, case).read_text())["calls"]
    }


def test_what_is_recorded_is_replayed(tmp_path: Path) -> None:
    record(made(tmp_path), ("Oslo", 1), ("Rome", 2))
    tools = opened(made(tmp_path, ToolMode.REPLAY), repeat=3)
    answer = tools.answer(PendingCall(number=1, tool="weather", args={"city": "Rome"}))
    assert answer.reply
    assert answer.reply.response == 2
    other = opened(made(tmp_path, ToolMode.REPLAY), "another")
    assert other.answer(PendingCall(number=1, tool="weather", args={"city": "Rome"})).refusal


def test_a_base_finds_what_was_recorded_for_it_and_for_head(tmp_path: Path) -> None:
    record(made(tmp_path / "head"), ("Oslo", "head"), ("Rome", "head"))
    record(made(tmp_path / "base"), ("Oslo", "base"))
    for own, expected in (
        ("base", ["base", "head"]),
        ("nowhere", ["head", "head"]),
        ("head", ["head", "head"]),
    ):
        box = made(tmp_path / "head", ToolMode.REPLAY, own=tmp_path / own)
        tools = opened(box)
        found = []
        for number, city in enumerate(("Oslo", "Rome")):
            answer = tools.answer(PendingCall(number=number, tool="weather", args={"city": city}))
            assert answer.reply
            found.append(answer.reply.response)
        assert found == expected


def test_a_new_recording_replaces_an_older_one(tmp_path: Path) -> None:
    record(made(tmp_path), ("Oslo", 1), ("Rome", 2))
    record(made(tmp_path), ("Oslo", 5))
    assert held(tmp_path) == {"Oslo": 5}


def test_the_lowest_repeat_counts_in_whatever_order_repeats_end(tmp_path: Path) -> None:
    box = made(tmp_path)
    record(box, ("Oslo", "second"), ("Rome", "second"), repeat=1)
    record(box, ("Oslo", "first"), repeat=0)
    assert held(tmp_path) == {"Oslo": "first", "Rome": "second"}
    other = made(tmp_path / "other")
    record(other, ("Oslo", "first"), repeat=0)
    record(other, ("Oslo", "second"), ("Rome", "second"), repeat=1)
    assert file(tmp_path / "other").read_bytes() == file(tmp_path).read_bytes()


def test_a_resumed_run_keeps_what_its_beginning_recorded(tmp_path: Path) -> None:
    record(made(tmp_path), ("Oslo", 1), repeat=0)
    record(made(tmp_path, is_resumed=True), ("Rome", 2), repeat=1)
    assert held(tmp_path) == {"Oslo": 1, "Rome": 2}


def test_a_case_without_calls_has_no_cassette_and_loses_an_old_ones_calls(tmp_path: Path) -> None:
    record(made(tmp_path))
    assert not file(tmp_path).exists()
    record(made(tmp_path), ("Oslo", 1))
    record(made(tmp_path))
    assert held(tmp_path) == {}


def test_cassettes_that_cannot_be_understood_are_named(tmp_path: Path) -> None:
    record(made(tmp_path), ("Oslo", 1))
    file(tmp_path, "bad").write_text("{")
    cases = [("s.evalset.json", name) for name in ("c", "bad", "absent")]
    (problem,) = toolbox.check_files(tmp_path, "kept", cases)
    assert problem.place is not None
    assert problem.place.file == toolbox.file_of("kept", "s.evalset.json", "bad")
    assert "`bad`" in problem.message


def test_the_digest_follows_contents_and_names(tmp_path: Path) -> None:
    record(made(tmp_path), ("Oslo", 1))
    before = toolbox.digest(tmp_path, ["kept"])
    assert toolbox.digest(tmp_path, ["kept"]) == before
    record(made(tmp_path), ("Oslo", 2))
    changed = toolbox.digest(tmp_path, ["kept"])
    assert changed != before
    file(tmp_path).rename(file(tmp_path).with_name("other.json"))
    assert toolbox.digest(tmp_path, ["kept"]) not in {before, changed}
    assert toolbox.digest(tmp_path, ["nowhere"]) == toolbox.digest(tmp_path, [])


def test_a_cassette_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file in the way")
    with pytest.raises(UnavailableError):
        record(made(tmp_path), ("Oslo", 1))
