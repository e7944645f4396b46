"""The nearest stored results that can be compared with: what an outage left hides no earlier
run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders import build

from evalgate.errors import ConfigError, Place, UnavailableError
from evalgate.results import file, history
from evalgate.results.history import Revise, RunName
from evalgate.system import git

A, B, C = (letter * 40 for letter in "abc")


class Shelf:
    """A store with a run of each of these commits."""

    def __init__(self, name: str, *commits: str, reachable: bool = True) -> None:
        self.name, self._commits, self._reachable = name, commits, reachable

    def find(self, candidates: Sequence[str]) -> Iterator[tuple[int, RunName, bytes]]:
        if not self._reachable:
            raise UnavailableError("no network")
        for distance, sha in enumerate(candidates):
            if sha in self._commits:
                yield distance, RunName(stamp="", commit=sha), sha.encode()

    def read(self, name: str) -> bytes | None:
        raise AssertionError(name)

    def save(
        self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None
    ) -> None:
        raise AssertionError(commit)


WHOLE, PARTLY, BROKEN = "pass pass", "error pass", "error timeout"


@pytest.mark.parametrize(
    ("shelf", "runs", "found", "said"),
    [
        (Shelf("x", A, B), {A: WHOLE, B: WHOLE}, (A, 0), []),
        (Shelf("x", A, B), {A: PARTLY, B: WHOLE}, (A, 0), []),  # what there is can be compared with
        (Shelf("x", A, B), {A: BROKEN, B: WHOLE}, (B, 1), ["the agent failed in every run"]),
        (
            Shelf("x", A, B, C),
            {A: BROKEN, B: BROKEN, C: WHOLE},
            (C, 2),
            ["failed in every run"] * 2,
        ),
        (Shelf("x", A), {A: BROKEN}, None, ["failed in every run"]),
        (Shelf("x", A, B), {A: "damaged", B: WHOLE}, (B, 1), ["is not JSON"]),
        (Shelf("x", A, B), {A: "of another", B: WHOLE}, (B, 1), ["they are of dddd"]),
        (Shelf("x", reachable=False), {}, None, ["the x was not used: no network"]),
    ],
)
def test_the_nearest_that_can_be_compared_with_is_taken(
    shelf: Shelf,
    runs: dict[str, str],
    found: tuple[str, int] | None,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def parse(commit: str, _: Place) -> SimpleNamespace:
        told = runs[commit]
        if told == "damaged":
            raise ConfigError("is not JSON")
        if told == "of another":
            return SimpleNamespace(
                run=dataclasses.replace(build.report(WHOLE).run, commit="d" * 40)
            )
        return SimpleNamespace(run=dataclasses.replace(build.report(told).run, commit=commit))

    monkeypatch.setattr(git, "ancestors", lambda _, sha: (sha, B, C))
    monkeypatch.setattr(file, "parse_json", lambda content, _: content.decode())
    monkeypatch.setattr(file, "parse", parse)
    lines: list[str] = []
    nearest = history.find(shelf, None, A, say=lines.append)  # type: ignore[arg-type]  # no git is asked
    assert (None if nearest is None else (nearest[1].commit, nearest[0])) == found
    assert len(lines) == len(said)
    assert all(words in line for words, line in zip(said, lines, strict=True))
