"""What the stores remember of base runs, what starts that anew, and which runs join them."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders import build

from evalgate.comparison import pairing
from evalgate.config.context import Audience, Context, Trigger, Watcher
from evalgate.config.settings import Settings
from evalgate.errors import UnavailableError
from evalgate.model import CriterionUse, Policy, Run
from evalgate.model.deviations import under
from evalgate.results import history as results_history
from evalgate.results.history import History, PastRuns
from evalgate.system import git

EMPTY = b'{"schema_version": 3, "runs": [], "cases": []}'


class Shelf:
    """A store with one file, or one that is out of reach."""

    name = "shelf"

    def __init__(self, history: bytes | None, *, reachable: bool = True) -> None:
        self._history, self._reachable = history, reachable

    def read(self, name: str) -> bytes | None:
        if not self._reachable:
            raise UnavailableError("no network")
        return self._history


class Noting(Watcher):
    """Keeps what is said where a test looks."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def say(self, line: str) -> None:
        self.said.append(line)


@pytest.mark.parametrize(
    ("shelf", "is_known", "warned"),
    [
        (Shelf(None), True, ""),  # the first runs of all
        (Shelf(EMPTY), True, ""),
        (Shelf(None, reachable=False), False, "base runs in the shelf was not read: no network"),
        (Shelf(b"{"), False, "history of base runs in the shelf was not read: it is damaged"),
        (Shelf(b'{"schema_version": 99}'), False, "later version"),
        (None, False, ""),
    ],
)
def test_a_history_that_cannot_be_read_is_not_an_empty_one(
    shelf: Shelf | None,
    *,
    is_known: bool,
    warned: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results_history, "open_store", lambda *_, **__: shelf)
    repo = SimpleNamespace(head="c")
    monkeypatch.setattr(git, "open_repository", lambda *_, **__: contextlib.nullcontext(repo))
    context = Context(environ={}, cache=tmp_path)
    history = results_history.open_history(Settings(baseline_folder="x"), context)
    assert history.past == (PastRuns() if is_known else None)
    assert [problem.code for problem in history.problems] == ["history-unread"] * bool(warned)
    assert all(warned in problem.message for problem in history.problems)


USE = CriterionUse(name="response_match_score", threshold=0.5, options={"a": 1})
INFORMATIONAL = CriterionUse(name="token_usage_v1", threshold=None, informational=True)


@pytest.mark.parametrize(
    ("now", "adk_compat", "is_same"),
    [
        ([USE], False, True),
        ([USE, INFORMATIONAL], False, True),  # what decides nothing changes no outcome
        # what passed a lower bar has not passed this one
        ([dataclasses.replace(USE, threshold=0.9)], False, False),
        ([dataclasses.replace(USE, options={"a": 2})], False, False),
        ([dataclasses.replace(USE, lower_is_better=True)], False, False),
        # another judge
        ([dataclasses.replace(USE, endpoint="https://judge.example")], False, False),
        ([USE, dataclasses.replace(USE, name="tool_trajectory_avg_score")], False, False),
        ([USE], True, False),  # the softer arithmetic
    ],
)
def test_a_changed_bar_starts_the_history_anew(
    now: list[CriterionUse], *, adk_compat: bool, is_same: bool
) -> None:
    then = _asked()
    past_runs = results_history.summary_of(then, "c")
    assert all(case.outcomes[0].passes == 1 for case in past_runs.cases)
    head = _judged_by(then, now)
    again = results_history.update(
        past_runs, results_history.summary_of(head, "d", deviations=under(adk_compat=adk_compat))
    )
    assert {len(case.outcomes) for case in again.cases} == {2 if is_same else 1}


class Kept:
    """A store that only remembers what it was given."""

    name = "store"

    def __init__(self) -> None:
        self.saved: list[Path] = []

    def save(self, commit: str, results: Path, **_: object) -> None:
        self.saved.append(results)


@pytest.mark.parametrize(
    ("outcomes", "kept"),
    [
        ("pass fail", True),
        ("error pass", True),  # what there is can be compared with
        ("error timeout", False),  # an outage would be every pull request's base
        ("never never", False),
    ],
)
def test_a_run_without_a_conversation_is_nobodys_base(outcomes: str, *, kept: bool) -> None:
    said: list[str] = []
    store = Kept()
    report = build.changed(build.report(outcomes), files={"results": "results.json"})
    report = dataclasses.replace(report, run=dataclasses.replace(report.run, commit="c" * 40))
    context = Context(
        environ={},
        audience=Audience(watcher=Noting(said)),
        cache=Path(),
        trigger=Trigger(is_pull_request=False, on_base_branch=True),
    )
    History(settings=Settings(), context=context, store=store).keep(report)  # type: ignore[arg-type]  # all that is asked of it
    assert store.saved == [Path("results.json")] * kept
    assert any("not stored: the agent failed in every run" in line for line in said) is not kept


def _asked(content: str = "x") -> Run:
    """Two cases of this content that pass."""
    run = build.report("pass pass", policy=Policy()).run
    return _judged_by(
        dataclasses.replace(run, fingerprints=dict.fromkeys(pairing.uses_by_case(run), content)),
        [USE],
    )


def _judged_by(run: Run, criteria: list[CriterionUse]) -> Run:
    return dataclasses.replace(
        run,
        suites=tuple(dataclasses.replace(suite, criteria=tuple(criteria)) for suite in run.suites),
    )
