"""Names in a store, which run is nearest and which runs go."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from evalgate.errors import UnavailableError
from evalgate.results import history, output
from evalgate.results.history import BaselineFolder, RunName
from evalgate.results.output import Unreadable

A, B, C = (letter * 40 for letter in "abc")


def test_a_name_tells_commit_and_time_in_utc(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}")
    moment = datetime(2026, 1, 2, 8, 4, 5, tzinfo=timezone(timedelta(hours=5)))
    folder = BaselineFolder(tmp_path / "stored")
    folder.save(A, tmp_path / "results.json", current_moment=moment)
    (path,) = (tmp_path / "stored/runs").iterdir()
    assert path.name == f"20260102T030405Z-{A}.json.gz"
    (run,) = history.parse_names([path.name])
    assert (run.name, run.saved_at) == (path.name, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    "name",
    [
        "",
        f"20261302T030405Z-{A}.json.gz",  # no such month
        f"20260102T030405Z-{A[1:]}.json.gz",
        f"20260102T030405Z-{A}.json",
        f"../20260102T030405Z-{A}.json.gz",
        f"20260102T030405Z-{A}.json.gz\n",
    ],
)
def test_other_names_are_passed_over(name: str) -> None:
    assert history.parse_names([name]) == []


def entry(day: int, commit: str) -> RunName:
    return RunName(stamp=f"202601{day:02d}T000000Z", commit=commit)


def test_nearest_first_and_newest_of_a_commit_first() -> None:
    stored = [entry(1, A), entry(9, C), entry(3, B), entry(5, B)]
    assert history.pick(stored, [B, "d" * 40, A]) == [
        (0, entry(5, B)),
        (0, entry(3, B)),
        (2, entry(1, A)),
    ]


@pytest.mark.parametrize(
    ("days", "new", "keep", "dropped"),
    [
        ([(1, A), (2, B)], (3, C), 3, []),
        ([(1, A), (2, B)], (3, C), 2, [(1, A)]),
        ([(1, A), (2, B)], (3, A), 3, []),  # an earlier run of the same commit counts beside it
        ([(day, A) for day in range(1, 12)], (12, A), 50, [(1, A), (2, A)]),  # ten of one commit
        ([(1, B), *((day, A) for day in range(2, 12))], (12, A), 11, [(2, A)]),
        ([(1, A), (2, B)], (3, C), 0, [(1, A), (2, B)]),  # the new one stays in any case
        ([(5, A), (6, B)], (1, C), 2, [(5, A)]),  # a clock that runs late
        ([(5, A)], (1, A), 2, []),  # the same commit, but saved later elsewhere
    ],
)
def test_what_goes(
    days: list[tuple[int, str]], new: tuple[int, str], keep: int, dropped: list[tuple[int, str]]
) -> None:
    found = history.pick_removed([entry(*each) for each in days], keep=keep, new=entry(*new))
    assert found == [entry(*each) for each in dropped]


@given(
    st.sets(st.tuples(st.integers(1, 28), st.sampled_from([A, B, C, "d" * 40]))), st.integers(1, 5)
)
def test_never_more_than_are_kept(days: set[tuple[int, str]], keep: int) -> None:
    entries, new = [entry(*each) for each in days], entry(28, A)
    left = {*entries, new} - set(history.pick_removed(entries, keep=keep, new=new))
    assert new in left
    assert len(left) <= keep


def test_what_is_packed_is_unpacked_and_always_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"a": "é"}' * 100_000
    (tmp_path / "results.json").write_text(text, encoding="utf-8")
    for name in ("one", "two"):
        output.pack(tmp_path / "results.json", tmp_path / name)
    packed = (tmp_path / "one").read_bytes()
    assert packed == (tmp_path / "two").read_bytes()
    assert b"".join(output.unpack(packed)).decode() == text
    monkeypatch.setattr(output, "MOST_BYTES", 900)
    with pytest.raises(Unreadable, match="is larger than 900 bytes"):
        list(output.unpack(packed))


@given(st.binary(max_size=300))
def test_no_bytes_upset_unpacking(data: bytes) -> None:
    with pytest.raises(Unreadable):
        list(output.unpack(data))
    with pytest.raises(Unreadable):
        list(output.unpack(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + data[:50]))


def test_results_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot compress"):
        output.pack(tmp_path / "absent", tmp_path / "packed")
