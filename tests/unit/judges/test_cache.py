"""Entries, the cache folder and recordings: what is kept comes back, what is damaged does not."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from builders.judging import USAGE, reply, request
from hypothesis import given, strategies as st

from evalgate.judges import replay
from evalgate.judges.base import JudgeReply
from evalgate.judges.replay import Recorder, VerdictCache
from evalgate.model import Text

KEY = "AIzaSyD-very-secret-0001"

# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": "is it valid? "},
        {"model": "gemini-2.5-pro"},
        {"config": {"temperature": 0}},
        {"config": {"temperature": 0.0}},
        {"criterion": "d"},
        {"version": "2"},
        {"system": "you judge"},
        {"schema": {"type": "object"}},
        {"sample": 1},
        {"repeat": 1},  # another run of the case, though the agent gave the same answer
        {"sample": 1, "repeat": 1},
        {"repeat": "pair 0"},  # a confirmation
    ],
)
def test_every_field_counts(changed: dict[str, object]) -> None:
    others = ({}, {"sample": 2}, {"repeat": "single 0"})
    known = {replay.address_of(request(**each)) for each in others}
    assert replay.address_of(request(**changed)) not in known


def test_another_endpoint_is_another_judge() -> None:
    addresses = {
        replay.address_of(request(), endpoint=each) for each in ("", "http://a/v1", "http://b/v1")
    }
    assert len(addresses) == 3


def test_the_order_of_keys_does_not_count() -> None:
    one, other = request(config={"a": 1, "b": 2}), request(config={"b": 2, "a": 1})
    assert replay.address_of(one) == replay.address_of(other)


def test_the_address_is_the_same_tomorrow() -> None:
    """Kept replies are worthless once this changes: raise entries.FORMAT if it must."""
    assert (
        replay.address_of(request())
        == "3b04b93abcd193c9eefdcdf962befc1461e9477e570b794f1f795f1afdc03e04"
    )


# --- entries --------------------------------------------------------------------------------------

TEXTS = st.builds(
    Text, text=st.text(st.characters(exclude_categories=("Cs",))), thought=st.booleans()
)


@given(
    st.lists(TEXTS, max_size=3),
    st.none() | st.just(USAGE),
    st.none() | st.text(max_size=5),
    st.integers(0, 9),
)
def test_an_entry_comes_back(
    parts: list[Text], usage: object, version: str | None, sample: int
) -> None:
    given_reply = JudgeReply(parts=tuple(parts), usage=usage, model_version=version, finish="STOP")
    line = replay.render_entry(replay.entry_of(request(sample=sample), given_reply))
    assert "\n" not in line
    found = replay.parse_entry(line)
    assert (found.reply.parts, found.reply.usage, found.reply.model_version) == (
        tuple(parts),
        usage,
        version,
    )
    assert found.reply.cached
    assert found.sample == sample


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 99, "address": "a", "parts": []}', '{"format": 1}']
)
def test_anything_else_is_no_entry(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - pydantic's words are not ours
        replay.parse_entry(text)


def test_no_prompt_is_kept() -> None:
    line = replay.render_entry(
        replay.entry_of(request(prompt="what the customer said", system="secretive"), reply("yes"))
    )
    assert "customer" not in line
    assert "secretive" not in line


# --- the cache ------------------------------------------------------------------------------------


def kept(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.json"))


def test_a_kept_reply_says_which_workflow_run_asked(tmp_path: Path) -> None:
    run, entry = "o/r/actions/runs/99/attempts/1", replay.entry_of(request(), reply("valid"))
    VerdictCache(tmp_path, run=run).write(entry)
    (path,) = tmp_path.rglob("*.json")
    assert replay.parse_entry(path.read_text(encoding="utf-8")).run == run
    found = VerdictCache(tmp_path, run="another").read(entry.address)
    assert found is not None
    assert found.text == "valid"


def test_a_reply_is_kept_and_found(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path / "new" / "folder")
    entry = replay.entry_of(request(), reply("valid"))
    assert cache.read(entry.address) is None
    cache.write(entry)
    found = cache.read(entry.address)
    assert found is not None
    assert (found.text, found.cached, found.usage) == ("valid", True, USAGE)
    assert [path.parent.name for path in kept(tmp_path)] == [entry.address[:2]]


@pytest.mark.parametrize(
    "damage",
    [
        b"",  # cut before its first byte
        b'{"format":1,"addr',  # cut
        b"\xff\xfe\x00",  # no text
        b"null",
    ],
)
def test_a_damaged_file_is_told_and_asked_for_anew(tmp_path: Path, damage: bytes) -> None:
    warnings: list[str] = []
    cache = VerdictCache(tmp_path, warn=warnings.append)
    entry = replay.entry_of(request(), reply("valid"))
    cache.write(entry)
    kept(tmp_path)[0].write_bytes(damage)
    assert cache.read(entry.address) is None
    assert len(warnings) == 1
    assert "asked again" in warnings[0]
    cache.write(entry)
    assert cache.read(entry.address) is not None


def test_a_file_under_another_name_is_not_believed(tmp_path: Path) -> None:
    warnings: list[str] = []
    cache = VerdictCache(tmp_path, warn=warnings.append)
    one, other = (replay.entry_of(request(sample=sample), reply("valid")) for sample in (0, 1))
    cache.write(one)
    moved = tmp_path / other.address[:2] / f"{other.address}.json"
    moved.parent.mkdir(exist_ok=True)
    moved.write_text(kept(tmp_path)[0].read_text())
    assert cache.read(other.address) is None
    assert "a different question" in warnings[0]


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    warnings: list[str] = []
    (tmp_path / "file").write_text("")
    cache = VerdictCache(tmp_path / "file", warn=warnings.append)
    cache.write(replay.entry_of(request(), reply("valid")))
    assert "could not be written" in warnings[0]


def test_many_writers_leave_whole_files(tmp_path: Path) -> None:
    caches = [VerdictCache(tmp_path) for _ in range(4)]
    work = [replay.entry_of(request(sample=sample), reply("valid " * 500)) for sample in range(8)]

    def write(cache: VerdictCache) -> None:
        for _ in range(10):
            for entry in work:
                cache.write(entry)

    threads = [threading.Thread(target=write, args=(cache,)) for cache in caches]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for entry in work:
            found = caches[0].read(entry.address)
            assert found is None or found.text == "valid " * 500
    assert len(kept(tmp_path)) == 8
    assert [found.text for entry in work if (found := caches[0].read(entry.address))] == [
        "valid " * 500
    ] * 8
    assert not list(tmp_path.rglob(".new-*"))


# --- recordings -----------------------------------------------------------------------------------


def test_a_recording_is_in_order_and_without_repeats(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "judge.jsonl"
    for samples in ((2, 0), (1, 0)):
        recorder = Recorder(path)
        for sample in samples:
            recorder.record(replay.entry_of(request(sample=sample), reply(f"#{sample}")))
        recorder.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["parts"][0]["text"] for line in lines] == ["#0", "#1", "#2"]
    assert sorted(entry.sample for entry in replay.read_recordings(tmp_path).values()) == [0, 1, 2]


def test_a_killed_run_keeps_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "judge.jsonl"
    Recorder(path).record(replay.entry_of(request(), reply("valid")))
    with path.open("a") as file:
        file.write('{"format":1,"addr')  # the kill
    assert len(replay.read_recordings(path)) == 1


def test_a_reply_is_recorded_once(tmp_path: Path) -> None:
    path = tmp_path / "judge.jsonl"
    for recorder in (Recorder(path), Recorder(path)):
        for _ in range(2):
            recorder.record(replay.entry_of(request(), reply("valid")))
    # the second recorder was opened before the first one wrote
    assert len(path.read_text().splitlines()) == 2
    Recorder(path).record(replay.entry_of(request(), reply("valid")))
    assert len(path.read_text().splitlines()) == 2


def test_closing_without_a_reply_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "judge.jsonl"
    Recorder(path).close()
    assert not path.exists()


@pytest.mark.parametrize(("oldest_s", "is_there"), [(0.0, True), (1_000.0, True), (1_001.0, False)])
def test_a_reply_ages_as_trials_do(tmp_path: Path, oldest_s: float, *, is_there: bool) -> None:
    entry = replay.entry_of(request(), reply("valid"))
    VerdictCache(tmp_path).write(entry)
    (path,) = tmp_path.rglob("*.json")
    os.utime(path, (1_000, 1_000))
    assert (VerdictCache(tmp_path, oldest_s=oldest_s).read(entry.address) is not None) is is_there
