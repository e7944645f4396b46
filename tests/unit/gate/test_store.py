"""The store: whose journals are believed, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalgate.gate import store as gate_store
from evalgate.gate.store import Store
from evalgate.github.oidc import Identity
from evalgate.model import Content, Invocation, Text, Transcript, Trial, TrialKey
from evalgate.results.journal import Journal

NOW = datetime(2026, 1, 20, tzinfo=UTC)
PULL, MAIN = "refs/pull/7/merge", "refs/heads/main"


def store_of(
    folder: Path,
    *,
    ref: str = PULL,
    key: str = "secret",
    base: str = "main",
    witness: Identity | None = None,
) -> Store:
    environ = {"GITHUB_REPOSITORY": "o/r", "GITHUB_REF": ref, "GITHUB_BASE_REF": base}
    store = gate_store.of_workflow(
        environ,
        folder,
        key=key.encode(),
        witness=witness,
    )
    assert store is not None
    return store


def keep(
    folder: Path,
    *,
    days_ago: float = 0,
    measured_days_ago: float | None = None,
    ref: str = PULL,
    **whose: Any,
) -> None:
    """What a run that many days ago kept, with one trial of `a` in the suite `s`."""
    said = Content(role="model", parts=(Text(text="yes"),))
    turn = Invocation(user_content=said, final_response=said, events=())
    key, at = TrialKey(suite="s", case_id="a"), NOW - timedelta(days=days_ago)
    measured_at = (
        "" if measured_days_ago is None else (NOW - timedelta(days=measured_days_ago)).isoformat()
    )
    with Journal.create(folder / f"{days_ago}.jsonl", about={}) as journal:
        trial = Trial(key=key, outcome=Transcript(invocations=(turn,)), seconds=1.0, attempts=1)
        journal.add_trial("address", trial, measured_at=measured_at)
        store_of(folder, ref=ref, base="" if ref == MAIN else "main", **whose).put(
            journal.path, side=0, started_at=at
        )


def ages(folder: Path, **whose: Any) -> list[float]:
    """How many days ago the trials were measured that count."""
    said: list[str] = []
    with ExitStack() as stack:
        entries = store_of(folder, **whose).open_journals(
            stack, folder, oldest=NOW - timedelta(days=7), say=said.append
        )
        times = [entry.journal.measured_at("address") for entry in entries]
        recent = [
            datetime.fromisoformat(at)
            for at, entry in zip(times, entries, strict=True)
            if entry.is_recent(at)
            and entry.journal.trial("address", TrialKey(suite="s", case_id="a"))
        ]
    return [(NOW - at).total_seconds() / 86400 for at in recent]


@pytest.mark.parametrize(
    ("made", "whose", "found"),
    [
        ([{"days_ago": 1}], {}, [1]),
        ([{"days_ago": 3}, {"days_ago": 1}], {}, [1, 3]),  # the newest first
        ([{"days_ago": 8}], {}, []),
        # taken over from a run before that one: its age is that of the first
        ([{"days_ago": 1, "measured_days_ago": 5}], {}, [5]),
        ([{"days_ago": 1, "measured_days_ago": 8}], {}, []),
        # a pull request believes its base branch after itself, and that one no pull request
        ([{"days_ago": 1, "ref": MAIN}, {"days_ago": 2}], {}, [2, 1]),
        ([{"days_ago": 1}], {"ref": MAIN, "base": ""}, []),
        ([{"days_ago": 1}], {"ref": "refs/pull/8/merge"}, []),
        ([{"days_ago": 1}], {"key": "another"}, []),
        ([{"days_ago": 1}], {"key": ""}, []),
    ],
)
def test_who_is_believed_and_for_how_long(
    tmp_path: Path, made: list[dict[str, float]], whose: dict[str, str], found: list[float]
) -> None:
    for each in made:
        keep(tmp_path, **each)  # type: ignore[arg-type]
    assert ages(tmp_path, **whose) == found


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.rename(path.with_name(path.name.replace("Z-", "Z-0", 1)[:-1])),
        lambda path: (
            path.rename(path.with_suffix(".old")),
            path.symlink_to(path.with_suffix(".old")),
        ),
    ],
)
def test_what_is_damaged_is_passed_over(tmp_path: Path, damage) -> None:
    keep(tmp_path, days_ago=1)
    keep(tmp_path, days_ago=2)
    damage(max(tmp_path.glob("2*")))
    assert ages(tmp_path) == [2]


class Herald(Identity):
    """Gives its word on any hash, for one ref."""

    def __init__(self, ref: str = PULL) -> None:
        self.ref = ref

    def sign(self, digest: str) -> str:
        return f"{self.ref} {digest}"

    def scope(self, digest: str, token: str) -> str:
        ref, _, signed = token.partition(" ")
        return f"o/r@{ref}" if signed == digest else ""


def unsigned(path: Path) -> None:
    path.with_suffix(".jwt").unlink()


def linked(path: Path) -> None:
    token = path.with_suffix(".jwt")
    token.rename(token.with_suffix(".old"))
    token.symlink_to(token.with_suffix(".old"))


@pytest.mark.parametrize(
    ("written", "key", "change", "found"),
    [
        (Herald(), "", None, [1]),
        (None, "", None, []),  # by somebody who had no word on it
        (Herald(MAIN), "", None, []),  # whose first line says another ref
        (Herald(), "", unsigned, []),
        (Herald(), "", linked, []),
        (None, "secret", None, [1]),  # a key of one's own needs no witness
    ],
)
def test_a_witness_is_believed_and_nobody_else(
    tmp_path: Path,
    written: Herald | None,
    key: str,
    change: Callable[[Path], None] | None,
    found: list[float],
) -> None:
    keep(tmp_path, days_ago=1, key=key, witness=written)
    if change is not None:
        change(next(tmp_path.glob("2*.gz")))
    assert ages(tmp_path, key=key, witness=Herald()) == found


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    for day in range(gate_store.MOST_RUNS, -1, -1):
        keep(tmp_path, days_ago=day / 10)
    names = sorted(path.name for path in tmp_path.glob("2*"))
    assert len(names) == gate_store.MOST_RUNS
    assert ages(tmp_path)[0] == 0


@pytest.mark.parametrize("lacking", ["GITHUB_REPOSITORY", "GITHUB_REF"])
def test_nothing_is_kept_outside_of_a_workflow(tmp_path: Path, lacking: str) -> None:
    environ = {"GITHUB_REPOSITORY": "o/r", "GITHUB_REF": PULL} | {lacking: ""}
    assert gate_store.of_workflow(environ, tmp_path, key=b"") is None
