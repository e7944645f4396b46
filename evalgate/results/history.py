"""Runs of the base branch: their results in a folder, and their history, with drift of the model.
A finished run is added to both."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from evalgate import errors
from evalgate.comparison import pairing, purse
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, EvalgateError, Place, Problem, UnavailableError
from evalgate.formats import fingerprints
from evalgate.model import (
    BaseOrigin,
    CaseKey,
    Drift,
    PastCase,
    Report,
    Run,
    Suite,
    Trend,
    VerdictKind,
)
from evalgate.model.deviations import OURS, Deviations
from evalgate.model.run import Count
from evalgate.model.trial import MOST
from evalgate.system import git
from evalgate.system.files import new_file
from evalgate.system.git import Repository
from evalgate.text import words
from evalgate.values import Log, Sentence, Wording, frozen_dataclass, grouped, member
from . import file as results_file, kept, output, shapes
from .file import Stored
from .output import Unreadable
from .shapes import Entry, fields_of

SCHEMA_VERSION = 3
"""Of history.json; a file with a later one is not overwritten."""
LAST_RUNS = 50
"""Base runs that are kept; a case without outcomes in them is forgotten."""
RECENT = 20
"""Base runs that show how reliable a case is, and make a trend."""
DRIFT_DAYS = 14
"""Days in which a new drift is reported."""
NEEDED = 20.0 * 31
"""The evidence of a drift: that of one pull request for each daily check of a month."""
WINDOWS = (1, 2, 3, 5, 8)
"""Window lengths: the last runs are compared with as many runs before them; the purse is split over
the windows."""
ENVIRONMENT = ("framework_version", "python", "requirements")
"""Environment details, reported by workers, that may change an agent with the same files."""
UNKNOWN = "unknown"
"""The fingerprint of a case if a run has none."""

Mean: TypeAlias = Annotated[float, Field(ge=-MOST, le=MOST)]
"""A mean that can be added to others."""


@frozen_dataclass
class PastRun:
    """A run of the base branch."""

    number: Count
    """It counts all runs ever."""
    commit: str
    """Its full SHA."""
    at: str
    """ISO 8601, UTC."""
    means: Mapping[str, Mean] = field(default_factory=dict)
    """The mean of each criterion."""
    agent: str = ""
    """Equal for the same agents in the same environment, "" if unknown."""
    drift: Drift | None = None
    """The drift found when this run was added."""


class PastOutcome(NamedTuple):
    """The outcome of a case in one run."""

    number: Count
    """Of the run."""
    passes: Count
    """The repeats that passed."""
    measured: Count
    """The repeats with a known outcome."""
    runs: Count
    """The repeats that were requested."""


@frozen_dataclass
class CaseHistory:
    """Outcomes of a case, oldest first, since its content or its criteria last changed."""

    suite: str
    case_id: str
    question: str = ""
    """Equal for equal content of the case."""
    fingerprint: str
    """Equal for an equal question and equal deciding criteria, thresholds included. Outcomes with
    different fingerprints are never counted together."""
    outcomes: Annotated[tuple[PastOutcome, ...], Field(min_length=1)]


@frozen_dataclass
class PastRuns:
    """The last runs of the base branch, oldest first, and the outcomes of their cases."""

    runs: tuple[PastRun, ...] = ()
    """The oldest first."""
    cases: tuple[CaseHistory, ...] = ()
    """The outcomes of the cases that ran in them."""

    def by_case(self) -> dict[CaseKey, CaseHistory]:
        """The cases by suite and case id."""
        return {(case.suite, case.case_id): case for case in self.cases}


# --- around a run --------------------------------------------------------------------------------


@frozen_dataclass
class History:
    """The store's history of base runs, and the place for a finished run."""

    settings: Settings
    context: Context
    head: str = ""
    """The checked-out commit when it was opened."""
    store: BaselineFolder | None = None
    """None if there is no store, or it cannot be used."""
    past: PastRuns | None = None
    """None if unknown: there is no store, or it is unreadable."""
    problems: tuple[Problem, ...] = ()
    """About unreadable parts."""

    def trends(self, run: Run) -> tuple[Trend, ...]:
        """The trend of each criterion over the last base runs; () for a part."""
        if self.past is None or self.settings.shard:
            return ()
        return trends(self.past, pairing.means(run.trials))

    def of_cases(self) -> dict[CaseKey, tuple[PastCase, ...]]:
        """The earlier outcomes of each case, oldest first: in the last base runs, or in runs that
        this machine kept."""
        past = self.past or PastRuns()
        runs = {run.number: run for run in past.runs[-RECENT:]}
        context = self.context
        is_kept = context.keep and context.is_attended and not self.settings.shard
        base_cases = {
            (case.suite, case.case_id): tuple(
                _past_case(outcome, runs[outcome.number])
                for outcome in case.outcomes
                if outcome.number in runs
            )
            for case in past.cases
        }
        return {**base_cases, **(kept.of_cases(self.settings.root) if is_kept else {})}

    def drift(self, run: Run, *, deviations: Deviations) -> Drift | None:
        """The last drift of the agent that the base branch still has, if it is recent. This run
        counts if it will be kept."""
        past = self.past or PastRuns()
        if self.is_wanted and not self.settings.shard and run.complete and not run.truncated:
            past = update(past, summary_of(run, run.commit, deviations=deviations))
        for drift_run in reversed(past.runs):
            if drift := drift_run.drift:
                is_of_agent = past.runs[-1].agent in ("", drift_run.agent)
                days = (self.context.moment - moment(drift.since)).days
                return drift if is_of_agent and days <= DRIFT_DAYS else None
        return None

    @property
    def is_wanted(self) -> bool:
        """True if the run is a base run, with which later runs are compared."""
        mode = self.settings.save_baseline
        return mode == "always" or (mode == "auto" and self.context.trigger.on_base_branch)

    def keep(self, report: Report) -> Report:
        """Keep a complete run on the base branch, whatever its verdict. Return the report, with a
        warning if it could not be kept."""
        run = report.run
        settings = self.settings
        results = report.files.get("results")
        # a part is not a base
        if (
            self.store is None
            or results is None
            or settings.shard
            or not self.is_wanted
            or not run.complete
        ):
            return report
        if run.truncated:  # it would replace a complete run
            self.context.say(f"the results are not stored: {run.truncated}")
            return report
        if not has_conversation(run):  # an outage: it cannot be compared with
            self.context.say("the results are not stored: the agent failed in every run")
            return report
        commit = run.commit or self.head
        revise = add_run(
            summary_of(run, commit, deviations=report.policy.deviations), warn=self.context.say
        )
        try:
            self.store.save(
                commit, Path(results), current_moment=self.context.moment, revise=revise
            )
        except EvalgateError as error:
            message = f"the results were not stored in the {self.store.name}: {error.message}"
            return replace(
                report,
                problems=(*report.problems, errors.warning("not-kept", message, hint=error.hint)),
            )
        self.context.say(f"results of {commit[:7]} stored in the {self.store.name}")
        return report


def open_history(settings: Settings, context: Context) -> History:
    """The store that `baseline-folder` names and its history, opened before any agent runs. Reports
    what cannot be used."""
    unknown = History(settings=settings, context=context)
    try:
        with git.open_repository(
            settings.root,
            environ=context.environ,
            token=context.trigger.token,
            under=context.cache / "bases",
        ) as repo:
            store = open_store(settings, repo, say=context.say)
            head = repo.head
    except EvalgateError as error:
        context.say(f"stored base results cannot be used: {error.message}")
        return unknown
    past: PastRuns | None = None
    problems: tuple[Problem, ...] = ()
    if store is not None:
        try:
            past = read_history(store)
        except EvalgateError as error:
            message = f"the history of base runs in the {store.name} was not read: {error.message}"
            problems = (errors.warning("history-unread", message),)
            context.say(message)
    return History(
        settings=settings, context=context, head=head, store=store, past=past, problems=problems
    )


# --- what it says --------------------------------------------------------------------------------


def _past_case(outcome: PastOutcome, run: PastRun) -> PastCase:
    """An outcome of a base run for readers."""
    kind = VerdictKind.PASS if outcome.passes == outcome.runs else VerdictKind.FAIL
    text = f"{outcome.passes} of {words.counted(outcome.runs, 'run')} passed"
    if not outcome.measured:
        kind = VerdictKind.NOT_MEASURED
        text = "not measured"
    return PastCase(at=run.at, commit=run.commit, kind=kind, place="base branch", outcome=text)


BROKEN_RUNS = 3
"""A case without a pass in this many base runs is broken, not flaky."""


def is_broken(case: CaseHistory) -> bool:
    """True if no repeat of the last measured base runs passed, by the base's own criteria."""
    measured = [outcome for outcome in case.outcomes if outcome.measured][-BROKEN_RUNS:]
    return len(measured) == BROKEN_RUNS and not any(outcome.passes for outcome in measured)


def trends(past: PastRuns, means: Mapping[str, float]) -> tuple[Trend, ...]:
    """The trend of each criterion over the last base runs, if at least two of them have it.

    `means`: this run's means, in the order of the answer."""
    runs = past.runs[-RECENT:]
    return tuple(
        Trend(
            criterion=name,
            means=tuple(run.means.get(name) for run in runs),
            current=mean,
            since=runs[0].at,
            until=runs[-1].at,
        )
        for name, mean in means.items()
        if sum(name in run.means for run in runs) >= 2
    )


# --- one run more --------------------------------------------------------------------------------


def summary_of(run: Run, commit: str, *, deviations: Deviations = OURS) -> PastRuns:
    """A history with this run alone."""
    trials_by_case = pairing.by_case(run.trials)
    rules = {suite.key: _rules(suite, deviations=deviations) for suite in run.suites}
    cases = []
    for key, uses in pairing.uses_by_case(run).items():
        deciding_uses = pairing.deciding(uses)
        outcomes = [
            pairing.passes(pairing.pattern_of(trial, deciding_uses))
            for trial in trials_by_case.get(key, ())
        ]
        question = run.fingerprints.get(key) or UNKNOWN
        outcome = PastOutcome(
            1, outcomes.count(True), len(outcomes) - outcomes.count(None), run.repeats
        )
        fingerprint = fingerprints.digest([question, rules[key[0]]])
        cases.append(
            CaseHistory(
                suite=key[0],
                case_id=key[1],
                question=question,
                fingerprint=fingerprint,
                outcomes=(outcome,),
            )
        )
    past_run = PastRun(
        number=1,
        commit=commit,
        at=run.started_at,
        means=pairing.means(run.trials),
        agent=_agent(run),
    )
    return PastRuns(runs=(past_run,), cases=tuple(cases))


def _agent(run: Run) -> str:
    """One digest of the agents' inputs and environments; "" if one of them is unknown."""
    if not run.inputs or not all(run.inputs.values()):
        return ""
    environments = {
        key: [details.get(name, "") for name in ENVIRONMENT] for key, details in run.agents.items()
    }
    return fingerprints.digest([sorted(run.inputs.items()), environments])


def update(past: PastRuns, addition: PastRuns, *, limit: int = LAST_RUNS) -> PastRuns:
    """The history with one more run (`summary_of`). The outcomes of a case whose fingerprint
    changed start over."""
    number = past.runs[-1].number + 1 if past.runs else 1
    run = replace(addition.runs[0], number=number)
    runs = (*past.runs, run)[-limit:]
    past_cases = past.by_case()
    new_cases = addition.by_case()
    case_histories = []
    for key, case in sorted((past_cases | new_cases).items()):
        past_case = past_cases.get(key, case)
        is_same = past_case.fingerprint == case.fingerprint
        outcomes = [
            outcome
            for outcome in (past_case.outcomes if is_same and key in past_cases else ())
            if runs[0].number <= outcome.number < number
        ]
        if key in new_cases:
            outcomes.append(case.outcomes[0]._replace(number=number))
        if outcomes:
            case_histories.append(replace(case, outcomes=tuple(outcomes)))
    drift = _find_drift(runs, case_histories)
    return PastRuns(runs=(*runs[:-1], replace(run, drift=drift)), cases=tuple(case_histories))


# --- drift ---------------------------------------------------------------------------------------


def _find_drift(past_runs: Sequence[PastRun], cases: Iterable[CaseHistory]) -> Drift | None:
    """The drift of the last runs against earlier runs of the same agent, since the last drift. It
    is checked once a day, with the day's first run."""
    *earlier_runs, last_run = past_runs
    if not last_run.agent or any(run.at[:10] == last_run.at[:10] for run in earlier_runs):
        return None
    runs = [last_run]
    for run in reversed(earlier_runs):
        if run.agent != last_run.agent or run.drift is not None:
            break
        runs.insert(0, run)
    outcomes: dict[int, dict[CaseKey, float]] = {run.number: {} for run in runs}
    for case in cases:
        for number, passes, measured, _ in case.outcomes:
            if number in outcomes and measured:
                outcomes[number][case.suite, case.case_id] = passes / measured
    return _compare_windows(runs, [outcomes[run.number] for run in runs])


def _compare_windows(
    runs: Sequence[PastRun], outcomes: Sequence[Mapping[CaseKey, float]]
) -> Drift | None:
    """The drift of the last runs against the runs before them; None if chance explains the
    difference.

    A purse bets on pairs of runs, one before and one after, each run in one pair; half of it bets
    on a fall."""
    largest_evidence = total_evidence = 0.0
    facts = ("", 0.0, 0.0)
    windows = [window for window in WINDOWS if 2 * window <= len(runs)]
    for window in windows:
        late_outcomes = outcomes[-window:]
        early_outcomes = outcomes[-2 * window : -window]
        pairs = [
            (old_rates[key], new_rates[key])
            for new_rates, old_rates in zip(late_outcomes, early_outcomes, strict=True)
            for key in sorted(new_rates.keys() & old_rates)
        ]
        falls = [old_rate - new_rate for old_rate, new_rate in pairs]
        evidence = fmean(
            purse.evidence([sign * fall for fall in falls], tolerated=0.0) for sign in (1, -1)
        )
        total_evidence += evidence / len(windows)
        if pairs and evidence > largest_evidence:
            largest_evidence = evidence
            old_mean, new_mean = (fmean(rates) for rates in zip(*pairs, strict=True))
            facts = (runs[-window].at, old_mean, new_mean)
    if total_evidence < NEEDED:
        return None
    since, early_mean, late_mean = facts
    return Drift(since=since, before=early_mean, after=late_mean, evidence=total_evidence)


def drifted_at(past: PastRuns) -> datetime | None:
    """Results older than this are ignored: the provider changed then. None if it did not."""
    drifts = [run.drift for run in past.runs if run.drift]
    return moment(drifts[-1].since) if drifts else None


def _rules(suite: Suite, *, deviations: Deviations) -> list[object]:
    """Equal for equal criteria: a pass of a lower threshold is not a pass of a higher one."""
    uses = sorted(pairing.deciding(suite.criteria), key=lambda use: use.name)
    return [deviations.is_adk_compat] + [
        [
            use.name,
            float(use.threshold or 0),
            dict(use.options),
            use.code,
            use.lower_is_better,
            use.endpoint,
        ]
        for use in uses
    ]


# --- history.json --------------------------------------------------------------------------------


@fields_of(PastRuns)
class HistoryFile(Entry):
    """The whole file. An outcome is four numbers: the run, and the repeats that passed, were
    measured, were requested."""

    schema_version: int


def schema() -> dict[str, Any]:
    """The JSON schema of history.json."""
    return {"$schema": shapes.DIALECT} | TypeAdapter(HistoryFile).json_schema(by_alias=False)


def render_history(past: PastRuns) -> bytes:
    """history.json."""
    entry = shapes.entry_of(HistoryFile, past, schema_version=SCHEMA_VERSION)
    text = json.dumps(shapes.written(entry), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")  # for lone surrogates, which JSON readers refuse


def parse_history(text: bytes) -> PastRuns:
    """The history in a file. Raises Unreadable."""
    version: Any = None
    with suppress(ValueError, RecursionError):
        version = member(json.loads(text), "schema_version")
    if type(version) is int and version != SCHEMA_VERSION:
        newer = version > SCHEMA_VERSION
        age = "a later" if newer else "an earlier"
        raise Unreadable(
            f"schema_version {version} was written by {age} version of evalgate", newer=newer
        )
    try:
        past = shapes.restored(PastRuns, HistoryFile.model_validate_json(text))
    except ValidationError as error:
        first_fault = error.errors(include_url=False, include_input=False)[0]
        raise Unreadable(words.fault_with_place(first_fault, most_steps=4)) from None
    for case in past.cases:
        if any(not passes <= measured <= runs for _, passes, measured, runs in case.outcomes):
            raise Unreadable(
                f"{case.case_id[:80]}: more repeats passed than were measured, or more were measured than requested"
            )
    by_case = [[outcome.number for outcome in case.outcomes] for case in past.cases]
    for numbers in ([run.number for run in past.runs], *by_case):
        if numbers != sorted({*numbers}):
            raise Unreadable("the runs are not in order")
    return past


def read_history(store: BaselineFolder) -> PastRuns:
    """The history of a store; an empty one if it has none.

    Raises UnavailableError if the store cannot be reached or its history cannot be read: that is
    not an empty history."""
    stored = store.read(HISTORY)
    if stored is None:
        return PastRuns()
    try:
        return parse_history(stored)
    except Unreadable as error:
        raise UnavailableError(
            f"it is damaged: {error}" if not error.newer else str(error)
        ) from error


def add_run(run: PastRuns, *, warn: Log = lambda _: None) -> Revise:
    """The revision of the history for `BaselineFolder.save`: it adds this run.

    An unreadable history starts over, with a warning. The history of a later evalgate stays as it
    is, with a warning."""

    def revise(stored: bytes | None) -> bytes | None:
        """The stored history with the run; None: keep the stored one."""
        try:
            past = parse_history(stored) if stored is not None else PastRuns()
        except Unreadable as error:
            if error.newer:
                warn(f"this run is not in the history: {error}")
                return None
            warn(f"the history cannot be read and starts over: {error}")
            past = PastRuns()
        return render_history(update(past, run))

    return revise


# --- the folder ----------------------------------------------------------------------------------

RUNS = "runs"
"""The store's folder of runs."""
KEPT_RUNS = 50
"""The most runs of all commits together."""
RUNS_OF_COMMIT = 10
"""The most runs that are kept of one commit."""
MOST_HISTORY_BYTES = 32 * 1024**2
"""Of a history.json that is read."""
_NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{40}|[0-9a-f]{64})\.json\.gz")
"""When a run was saved, and its commit, with SHA-1 or SHA-256."""


class RunName(NamedTuple):
    """The name of a stored run; the order is that of time."""

    stamp: str
    """Such as `20260102T030405Z`."""
    commit: str
    """Its full SHA."""

    @property
    def name(self) -> str:
        """Its file name in `runs`."""
        return f"{self.stamp}-{self.commit}.json.gz"

    @property
    def saved_at(self) -> str:
        """ISO 8601, UTC."""
        return f"{datetime.strptime(self.stamp, kept.STAMP):%Y-%m-%dT%H:%M:%SZ}"  # noqa: DTZ007 - the stamp is in UTC


def parse_names(names: Iterable[str]) -> list[RunName]:
    """The runs among file names of `runs`, oldest first; other files and impossible times are
    skipped."""
    runs = []
    for match in filter(None, map(_NAME.fullmatch, names)):
        run = RunName(stamp=match[1], commit=match[2])
        with suppress(ValueError):
            if run.saved_at:  # an impossible time has none
                runs.append(run)
    return sorted(runs)


def pick(runs: Iterable[RunName], candidates: Sequence[str]) -> list[tuple[int, RunName]]:
    """The runs of `candidates` with their distances: nearest commit first, newest run of a commit
    first."""
    runs_by_commit = grouped((run.commit, run) for run in sorted(runs, reverse=True))
    return [
        (distance, run)
        for distance, commit in enumerate(candidates)
        for run in runs_by_commit.get(commit, ())
    ]


def pick_removed(runs: Iterable[RunName], *, keep: int, new: RunName) -> list[RunName]:
    """The runs to remove when `new` is added: the oldest runs of its commit beyond
    `RUNS_OF_COMMIT`, and the oldest runs beyond `keep`; never `new` itself."""
    others = sorted(run for run in runs if run != new)
    older = [run for run in others if run.commit == new.commit and run < new]
    removed = older[: -RUNS_OF_COMMIT + 1]
    others = [run for run in others if run not in removed]
    return [*removed, *others[: max(len(others) + 1 - max(keep, 1), 0)]]


HISTORY = "history.json"
"""The file beside the folder of runs."""

Revise = Callable[[bytes | None], bytes | None]
"""From the stored history (None: none) to the history to store with the run; None: keep the stored
one."""

LOCK = ".lock"
"""The file that a writer locks."""
DAY_S = 86_400
"""Seconds of a day."""


class BaselineFolder:
    """A folder with results of runs on the base branch; a checked-out data branch of earlier
    versions is one too.

    Writers take turns; readers do not wait, since every file appears complete. Every method raises
    UnavailableError if the folder cannot be used."""

    def __init__(self, folder: Path, *, keep: int = KEPT_RUNS, warn: Log = lambda _: None) -> None:
        """`folder` need not exist."""
        self._folder = folder
        """It need not exist before the first run is saved."""
        self._keep = keep
        """The most runs in it."""
        self._warn = warn
        """Reports results that were ignored."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"folder {self._folder}"

    def find(self, candidates: Sequence[str]) -> Iterator[tuple[int, RunName, bytes]]:
        """Readable results of `candidates` (commit SHAs), nearest first, each read on demand: their
        index in `candidates`, their name, and their results.json, which is not trusted."""
        with self._errors():
            for distance, run in pick(self._runs(), candidates):
                try:
                    packed = output.read(self._folder / RUNS / run.name, output.MOST_PACKED_BYTES)
                    if packed is not None:
                        yield distance, run, b"".join(output.unpack(packed))
                except Unreadable as error:
                    self._warn(f"{run.name} in the {self.name} was ignored: it {error}")

    def read(self, name: str) -> bytes | None:
        """A file beside the runs (`history.json`), None if it is missing."""
        with self._errors():
            try:
                return output.read(self._folder / name, MOST_HISTORY_BYTES)
            except Unreadable as error:
                raise UnavailableError(f"{name} in the {self.name} {error}") from error

    def save(
        self, commit: str, results: Path, *, current_moment: datetime, revise: Revise | None = None
    ) -> None:
        """Keep the results of `commit`, and the history that `revise` returns; remove the oldest
        runs."""
        run = RunName(current_moment.astimezone(UTC).strftime(kept.STAMP), commit)
        runs = self._folder / RUNS
        with self._errors():
            runs.mkdir(parents=True, exist_ok=True)
            with new_file(runs / run.name) as packed_path:
                output.pack(results, packed_path)
            with self._write_lock():
                history = revise(self.read(HISTORY)) if revise else None
                if history is not None:
                    with new_file(self._folder / HISTORY) as new_path:
                        new_path.write_bytes(history)
                for old_run in pick_removed(self._runs(), keep=self._keep, new=run):
                    (runs / old_run.name).unlink(missing_ok=True)
                # what killed writers left at least a day ago
                for path in runs.glob(".new-*"):
                    with suppress(FileNotFoundError):
                        if current_moment.timestamp() - path.lstat().st_mtime > DAY_S:
                            path.unlink()

    def _errors(self) -> AbstractContextManager[None]:
        """Errors of the system become UnavailableError, which names the folder."""
        return errors.unavailable(f"cannot use the folder of base results {self._folder}")

    def _runs(self) -> list[RunName]:
        """The names of the stored runs, oldest first."""
        try:
            return parse_names(path.name for path in (self._folder / RUNS).iterdir())
        except FileNotFoundError:
            return []

    @contextmanager
    def _write_lock(self) -> Iterator[None]:
        """One writer at a time."""
        lock = os.open(
            self._folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


MOST_PASSED_OVER = 20
"""The most runs of a store that are read: the nearest ones may all be from one outage."""


def open_store(settings: Settings, repo: Repository, *, say: Log) -> BaselineFolder | None:
    """The configured store; None for a folder with committed files: a change could write the
    results that it is compared with."""
    folder = settings.root / settings.baseline_folder
    if git.is_committed(folder, repo):
        say(f"the folder {settings.baseline_folder} contains committed files and was ignored")
        return None
    return BaselineFolder(folder, warn=say)


def find(
    store: BaselineFolder, repo: Repository, sha: str, *, say: Log
) -> tuple[int, RunName, Stored] | None:
    """The usable results nearest to the commit, of it or of one of its first-parent ancestors; the
    steps back to them, and their name. Skipped results and problems of the store are reported."""
    commits: Sequence[str] = (sha,)
    try:
        commits = git.ancestors(repo, sha)
    except EvalgateError as error:
        say(f"the base's ancestors are not known: {error.message}")
    try:
        for distance, run, content in itertools.islice(store.find(commits), MOST_PASSED_OVER):
            place = Place(f"{run.commit[:12]} in the {store.name}")
            try:
                stored = results_file.parse(results_file.parse_json(content, place), place)
                commit = stored.run.commit
                if commit not in ("", run.commit):
                    raise ConfigError(f"they are of {commit[:12]}")
                if has_conversation(stored.run):
                    return distance, run, stored
                raise ConfigError("the agent failed in every run")
            except EvalgateError as error:
                say(f"the results of {place} were skipped: {error.message}")
    except EvalgateError as error:
        say(f"the {store.name} was not used: {error.message}")
    return None


NEVER = datetime.min.replace(tzinfo=UTC)
"""The time of results without a readable one: before all others."""


def moment(text: str) -> datetime:
    """Parse a written time; `NEVER` if it cannot be read."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return NEVER
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def has_conversation(run: Run) -> bool:
    """True if at least one conversation was completed: otherwise the run cannot be compared
    with."""
    return any(trial.failure is None for trial in run.trials)


def aged(
    origin: BaseOrigin, settings: Settings, context: Context, *, notes: Iterable[Wording] = ()
) -> BaseOrigin:
    """The origin with the age of its results, a note if they are older than `max_baseline_age`, and
    `notes`."""
    measured_time = moment(origin.measured_at)
    most_days = settings.max_baseline_age
    all_notes = [*notes]
    age_days = None
    if measured_time != NEVER:
        age_days = max(0.0, (context.moment - measured_time).total_seconds() / DAY_S)
        if age_days > most_days:
            all_notes.insert(0, Sentence("base_results_old", age_days, most_days))
    return origin.with_notes(all_notes, age_days=age_days)
