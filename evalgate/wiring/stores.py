"""Stored results of runs on the base branch: where they are kept, the nearest that there are, how old they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evalgate.baseline import commit
from evalgate.baseline.branch import DataBranch
from evalgate.baseline.folder import Folder
from evalgate.baseline.store import Store
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError
from evalgate.model import BaseOrigin, Run
from evalgate.results import file as results_file
from evalgate.results.file import Stored
from evalgate.system.git import Repository
from evalgate.wiring import committed

DAY_S = 86_400
MOST_PASSED_OVER = 20
"""Runs of a store that are read at most: the nearest ones may all be of one outage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Stored results, and how far they are from the commit that was looked for."""

    stored: Stored
    commit: str
    saved_at: str
    distance: int


def opened(settings: Settings, repo: Repository, *, root: Path, say: Callable[[str], None]) -> list[Store]:
    """The stores that the settings name, but no folder that the commit brings along: a change could write what it is
    compared with. Raises UnavailableError for an impossible name."""
    stores: list[Store] = []
    if settings.baseline_folder:
        folder = root / settings.baseline_folder
        if committed.holds(folder, repo):
            say(f"the folder {settings.baseline_folder} contains committed files and was ignored")
        else:
            stores.append(Folder(folder, scratch=repo.folder / "stored", warn=say))
    if settings.data_branch:
        stores.append(DataBranch(repo, branch=settings.data_branch, warn=say))
    return stores


def find(stores: Sequence[Store], repo: Repository, sha: str, *, say: Callable[[str], None]) -> Found | None:
    """The usable results nearest to the commit, on it or on one of its first-parent ancestors. What is passed over, or
    wrong with a store, is said, and the next nearest is taken."""
    if not stores:
        return None
    try:
        candidates = commit.ancestors(repo, sha)
    except EvalgateError as error:
        say(f"the base's ancestors are not known: {error.message}")
        candidates = (sha,)
    found: Found | None = None
    for store in stores:
        found = _nearest(store, candidates[: None if found is None else found.distance], say=say) or found
    return found


def _nearest(store: Store, candidates: Sequence[str], *, say: Callable[[str], None]) -> Found | None:
    """What one store has; a run that cannot be compared with hides no earlier one."""
    behind = 0
    for _ in range(MOST_PASSED_OVER):
        try:
            kept = store.find(candidates[behind:])
        except EvalgateError as error:
            say(f"the {store.name} was not used: {error.message}")
            return None
        if kept is None:
            return None
        distance = behind + kept.distance
        try:
            stored = results_file.read_results(kept.path, shown_as=f"{kept.commit[:12]} in the {store.name}")
            why = _unusable(stored.run, kept.commit)
        except EvalgateError as error:
            why = error.message
        else:
            if not why:
                return Found(stored=stored, commit=kept.commit, saved_at=kept.saved_at, distance=distance)
        say(f"the results of {kept.commit[:12]} in the {store.name} were skipped: {why}")
        behind = distance + 1
    return None


def _unusable(run: Run, commit: str) -> str:
    if run.commit and run.commit != commit:
        return f"they are of {run.commit[:12]}"
    return "" if has_conversation(run) else "the agent failed in every run"


def has_conversation(run: Run) -> bool:
    """Whether at least one conversation came to its end: without, nothing can be compared with the run."""
    return any(trial.failure is None for trial in run.trials)


def aged(origin: BaseOrigin, *, settings: Settings, now: datetime) -> BaseOrigin:
    """The origin with the age of its results in days, and a note where they are older than `max_baseline_age`."""
    try:
        measured = datetime.fromisoformat(origin.measured_at)
    except ValueError:
        return origin
    if measured.tzinfo is None:
        measured = measured.replace(tzinfo=UTC)
    age_days = max(0.0, (now - measured).total_seconds() / DAY_S)
    notes = origin.notes
    if age_days > settings.max_baseline_age:
        most = settings.max_baseline_age
        stale = f"the base's results are {age_days:.0f} days old, more than max-baseline-age ({most:g})"
        notes = (*notes, stale)
    return dataclasses.replace(origin, age_days=age_days, notes=notes)
