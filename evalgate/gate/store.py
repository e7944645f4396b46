"""The store: results of earlier runs, used instead of a new run.

A trial is looked up in their journals by its address before the agent runs. A transcript counts if
the agent received the same input, a grade if the criterion is the same too; everything else is run
or graded again.

A journal is trusted if its name contains the keyed hash of its bytes, and its first line names the
same pull request, branch or folder. A witness, if there is one, needs no key; it must confirm the
hash and the scope as well (docs/decisions/020-stored-heads.md)."""

from __future__ import annotations

import hmac
import itertools
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from evalgate import __version__, errors
from evalgate.baseline import base as baseline_base
from evalgate.baseline.base import Base
from evalgate.baseline.rules import Rules
from evalgate.config.context import Context, is_of_run
from evalgate.config.settings import Settings
from evalgate.discovery import agents as discovery_agents
from evalgate.errors import ConfigError, EvalgateError, Place
from evalgate.formats import fingerprints
from evalgate.github import events, oidc
from evalgate.github.oidc import Identity
from evalgate.model import (
    AgentFailure,
    CaseKey,
    CaseStatus,
    CriterionRule,
    Grade,
    GradedTrial,
    Inputs,
    Links,
    Purpose,
    Score,
    Suite,
    Trial,
    TrialKey,
    cases_of,
)
from evalgate.results import history, journal, kept, output, shapes
from evalgate.results.file import Stored
from evalgate.results.history import History
from evalgate.results.journal import VERSION, Journal
from evalgate.runner.session import Session, Side
from evalgate.runner.trials import Task
from evalgate.system import git
from evalgate.system.files import top_of
from evalgate.system.inputs import Snapshot
from evalgate.text import words
from evalgate.values import Environ, Log, frozen_dataclass

FOLDER = "store"
"""Below the cache; each gate has a folder in it."""
MOST_RUNS = 12
"""The newest runs that a store keeps; the journals of both sides of a run begin with its time."""
MOST_BYTES = 500_000_000
"""Of the packed journals in a store; the newest run stays, whatever its size."""
WITNESSED = ".jwt"
"""The suffix of the file beside a journal with its witness's token."""
MOST_TOKEN_BYTES = 16_384
"""Of that file: GitHub's tokens have about 2 KB."""
STAMP_LENGTH = len("20260102T030405Z")
"""Characters of the time at the beginning of a journal's name."""
_NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{8})-([0-9a-f]{64})\.jsonl\.gz")
"""The time at which the run began, a random number, and the keyed hash of the file's bytes."""
HEAD = 0
"""The side of the change, as an index of sides, journals and sandboxes."""
BASE = 1
"""The base's index; a run that does not measure the base has no such side."""
JOURNALS = ("journal.jsonl", "base-journal.jsonl")
"""The journals of head and of the base, in the output folder."""


@frozen_dataclass
class Store:
    """A folder of journals, for the runs of one pull request, branch or checkout."""

    folder: Path
    """Created with its first journal."""
    scopes: Sequence[str]
    """The pull requests, branches or folders whose journals count: that of this run, then
    others."""
    key: bytes = field(repr=False)
    """Of the hash: nobody can write a trusted journal without it."""
    witness: Identity | None = None
    """Confirms hash and scope, if there is no key."""

    def open_journals(
        self, stack: ExitStack, scratch: Path, *, oldest: datetime, say: Log
    ) -> list[EarlierSide]:
        """The trusted journals, nearest scope and newest first, which `stack` closes; unreadable
        ones are reported and skipped. `scratch`: the folder to unpack them in. `oldest`: older
        trials do not count."""
        entries: list[EarlierSide] = []
        for name in sorted(self._names(), reverse=True):
            journal = self._open_journal(name, scratch, say=say)
            if journal is None:
                continue
            stack.callback(journal.close)
            entry = EarlierSide(journal=journal, oldest=oldest)
            if entry.scope in self.scopes and entry.is_recent(entry.started_at):
                entries.append(entry)
        return sorted(entries, key=lambda entry: self.scopes.index(entry.scope))

    def put(self, journal: Path, *, side: int, started_at: datetime) -> None:
        """Keep the journal of a run, however it ended. Raises UnavailableError."""
        started_at = started_at.astimezone(UTC)
        first_line = {
            "journal": VERSION,
            "evalgate": __version__,
            "scope": self.scopes[0],
            "started_at": started_at.isoformat(timespec="seconds"),
            "side": side,
        }
        draft = self.folder / f".new-{secrets.token_hex(8)}"
        try:
            with errors.unavailable(f"cannot write {self.folder}"):
                output.make_folder(self.folder)
                output.pack(journal, draft, prefix=shapes.encode(first_line) + b"\n")
                draft.chmod(0o644)
                mac = self._mac(draft.read_bytes())
                stamp = f"{started_at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
                place = self.folder / f"{stamp}-{mac}.jsonl.gz"
                if self.witness is not None:
                    place.with_suffix(WITNESSED).write_text(self.witness.sign(mac))
                draft.replace(place)
                self._remove_old()
        finally:
            draft.unlink(missing_ok=True)

    def _remove_old(self) -> None:
        """Remove the oldest journals beyond MOST_RUNS and MOST_BYTES, with their tokens."""
        size = 0
        stamps = set[str]()
        for name in sorted(self._names(), reverse=True):
            path = self.folder / name
            size += path.stat().st_size
            is_of_newest = stamps <= {name[:STAMP_LENGTH]}
            stamps.add(name[:STAMP_LENGTH])
            if not is_of_newest and (len(stamps) > MOST_RUNS or size > MOST_BYTES):
                path.unlink(missing_ok=True)
                path.with_suffix(WITNESSED).unlink(missing_ok=True)

    def _names(self) -> list[str]:
        """The names of the journals in any order; none if the folder does not exist."""
        try:
            return [path.name for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        except FileNotFoundError:
            return []

    def _open_journal(self, name: str, scratch: Path, *, say: Log) -> Journal | None:
        """The journal, unpacked below `scratch`; None if it is not trusted or cannot be read."""
        path = self.folder / name
        unpacked_path = scratch / f"{secrets.token_hex(8)}.jsonl"
        try:
            packed = output.read(path, output.MOST_PACKED_BYTES) or b""
            mac = self._mac(packed)
            is_signed = hmac.compare_digest(name.split("-")[2].removesuffix(".jsonl.gz"), mac)
            scope = None
            if is_signed and self.witness is not None:
                token = output.read(path.with_suffix(WITNESSED), MOST_TOKEN_BYTES) or b""
                scope = self.witness.scope(mac, token.decode("ascii", "replace"))
            if not is_signed or scope == "":
                say(
                    f"{path} was ignored: this repository's runs did not write it, or its key was another"
                )
                return None
            with unpacked_path.open("xb") as unpacked_file:
                unpacked_file.writelines(output.unpack(packed))
            journal = Journal.read(unpacked_path)
        except (output.Unreadable, OSError, EvalgateError) as error:
            say(f"{path} was ignored: {error}")
            return None
        if scope not in (None, journal.about.get("scope")):
            journal.close()
            return None
        return journal

    def _mac(self, packed: bytes) -> str:
        """The keyed hash of a packed journal, in hex. Anybody can compute it if the key is empty:
        then a witness decides."""
        return hmac.new(self.key, packed, "sha256").hexdigest()


@frozen_dataclass
class EarlierSide:
    """The measurements of one side of an earlier run."""

    journal: Journal
    """Its first line has the scope, the side and the time of the run."""
    oldest: datetime
    """The earliest time of trials that count."""
    is_continued: bool = False
    """True if the run was interrupted, and this run continues it."""

    @property
    def scope(self) -> str:
        """The scope of the run."""
        return str(self.journal.about.get("scope", ""))

    @property
    def started_at(self) -> str:
        """ISO 8601."""
        return str(self.journal.about.get("started_at", ""))

    def is_recent(self, at: str) -> bool:
        """True if a measurement of this time still counts; False if the time is unknown."""
        return history.moment(at) >= self.oldest


def of_workflow(
    environ: Environ, folder: Path, *, key: bytes, witness: Identity | None = None
) -> Store | None:
    """The store in `folder` for the job of a workflow; None elsewhere. A pull request also trusts
    journals of its base branch. `witness`: needed only without a `key`."""
    repository = environ.get("GITHUB_REPOSITORY", "")
    ref = environ.get("GITHUB_REF", "")
    if not (repository and ref):
        return None
    base = environ.get("GITHUB_BASE_REF", "")
    scopes = [f"{repository}@{ref}", *([f"{repository}@refs/heads/{base}"] if base else [])]
    return Store(folder=folder, scopes=scopes, key=key, witness=None if key else witness)


@frozen_dataclass
class EarlierRuns:
    """The results of earlier runs."""

    trees: tuple[Snapshot, ...]
    """The checkouts of head and base."""
    store: Store | None
    """Keeps the results of this run."""
    entries: Sequence[EarlierSide]
    """Nearest first."""
    unchanged: frozenset[str]
    """The suites whose agent is the same on both sides."""
    unread: frozenset[str]
    """The suites of which no earlier run knows what their agent, the same on both sides by its
    settings, reads."""

    @contextmanager
    def keep_journals(self, session: Session, context: Context) -> Iterator[None]:
        """Keep the measurements of the sides, however the block ends. The merge keeps those of
        parts."""
        try:
            yield
        finally:
            for number, side in enumerate(session.sides):
                if not session.settings.shard and side.journal.trials:
                    _put(self.store, side.journal.path, number, context.moment, context)

    def other_agents(self, session: Session) -> int:
        """The number of other agents that this pull request's runs measured before: each was a
        chance of a false alarm."""
        head = session.sides[HEAD]
        other_inputs = list[Mapping[str, Inputs]]()
        scopes = [] if self.store is None else self.store.scopes[:1]
        for entry in self.entries:
            inputs = entry.journal.inputs
            is_of_head = entry.journal.about.get("side") == HEAD
            is_of_pull = entry.scope in scopes and "@refs/pull/" in entry.scope
            if (
                is_of_head
                and is_of_pull
                and not all(head.inputs.stands(key, inputs[key]) for key in inputs)
                and not any(_may_be_same(inputs, known_inputs) for known_inputs in other_inputs)
            ):
                other_inputs.append(inputs)
        return len(other_inputs)

    def take(self, session: Session, rules: Rules) -> None:
        """Add reusable results to the journals of the sides, unless a criterion that decides is
        read from a clock."""
        uses = (use for suite in rules.suites for use in suite.criteria)
        criteria = rules.policy.criteria
        if any(
            use.scale.clocked and criteria.get(use.name, CriterionRule()).gating for use in uses
        ):
            return
        head = session.sides[HEAD]
        for side in session.sides:
            halves = None if side is head else head.reused
            for suite in (suite for suite in side.suites if suite.key not in side.shared):
                take(self.entries, suite, side, repeats=session.settings.runs, halves=halves)


def progress(path: Path, *, workflow_run: str) -> str:
    """How far a gate that was killed came, by its journal and the base's beside it; "" if they are
    of another workflow run. Raises OSError."""
    done, total = 0, 0
    for file in (path, path.with_name(JOURNALS[BASE])):
        _, journal_run, is_finished = journal.peek(file) or ("", "", True)
        if not is_finished and journal_run == workflow_run:
            trials, expected = journal.progress(file)
            done, total = done + trials, total + expected
    return f"{done:,} of {total:,} trials were run" if total else ""


def keep_parts(folders: Iterable[Path], rules: Rules, context: Context) -> None:
    """Keep the journals that the parts of this workflow run left in their folders."""
    store = _store(rules, context)
    run = context.workflow_run
    for folder in folders:
        for number, name in enumerate(JOURNALS):
            part = journal.peek(folder / name)
            if part is not None and (not run or is_of_run(part[1], run)):
                _put(store, folder / name, number, context.moment, context)


def _put(
    store: Store | None, path: Path, side: int, started_at: datetime, context: Context
) -> None:
    """Keep the journal of a side in the store, if there is one."""
    try:
        if store is not None:
            store.put(path, side=side, started_at=started_at)
    except EvalgateError as error:
        context.say(f"the results are not kept for later runs: {error.message}")


def _may_be_same(first: Mapping[str, Inputs], second: Mapping[str, Inputs]) -> bool:
    """True if both may be inputs of the same agents: no question has two answers."""
    if first.keys() != second.keys():
        return False
    pairs = [(inputs, second[key]) for key, inputs in first.items()]
    return all(
        inputs.environment == other.environment
        and all(
            other.answers.get(question, answer) == answer
            for question, answer in inputs.answers.items()
        )
        for inputs, other in pairs
    )


@contextmanager
def open_earlier_runs(
    rules: Rules, base: Base | None, context: Context, base_history: History
) -> Iterator[EarlierRuns]:
    """The reusable results of earlier runs. A run of the base branch, which later runs will use,
    reuses nothing; results from before the last change of the provider's model do not count."""
    settings = rules.settings
    top_folders = (top_of(settings.root), base and base.top)
    trees = tuple(_tree(top, settings, context) for top in top_folders if top)
    store = _store(rules, context)
    past = base_history.past
    drift_time = history.drifted_at(past) if past else None
    oldest = max(filter(None, (context.moment - timedelta(days=settings.reuse_days), drift_time)))
    with ExitStack() as stack:
        entries: Sequence[EarlierSide] = ()
        if store is not None or settings.resume:
            is_fresh = base_history.is_wanted or settings.fresh
            entries = _entries(stack, settings, context, store, oldest=oldest, is_fresh=is_fresh)
        known_sides = {
            suite.key: _known_sides(suite, entries, trees)
            for suite in rules.suites
            if base is not None and baseline_base.is_same_use(suite, base, settings)
        }
        unchanged = frozenset(key for key, count in known_sides.items() if count == len(trees))
        unread = frozenset(key for key, count in known_sides.items() if not count)
        yield EarlierRuns(
            trees=trees, store=store, entries=entries, unchanged=unchanged, unread=unread
        )


def _known_sides(suite: Suite, entries: Iterable[EarlierSide], trees: tuple[Snapshot, ...]) -> int:
    """The most checkouts that do not differ from an earlier run in the files that the suite's agent
    read there; all of them if they are equal."""
    if len({tree.answer("everything") for tree in trees}) == 1:
        return len(trees)
    all_inputs = (entry.journal.inputs.get(suite.agent.key, Inputs()) for entry in entries)
    counts = (
        sum(not tree.first_difference(inputs.answers) for tree in trees)
        for inputs in all_inputs
        if inputs.is_known
    )
    return max(counts, default=0)


def _entries(
    stack: ExitStack,
    settings: Settings,
    context: Context,
    store: Store | None,
    *,
    oldest: datetime,
    is_fresh: bool,
) -> Sequence[EarlierSide]:
    """The reusable results, nearest first; empty if the run `is_fresh`."""
    try:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evalgate-store-")))
    except OSError as error:
        context.say(f"results of earlier runs are not read: {error.strerror or error}")
        return ()
    leftovers = list(
        _leftovers(
            settings,
            context,
            store,
            scratch,
            oldest=history.NEVER if settings.resume else oldest,
        )
    )
    for entry in leftovers:
        stack.callback(entry.journal.close)
    # a scheduled run, or one that was started by hand, measures the agent anew
    is_asked_anew = context.workflow_run and not (
        context.trigger.is_pull_request or events.is_of_repository(context.environ)
    )
    if is_fresh or is_asked_anew or store is None:
        return () if settings.fresh else leftovers
    return [*leftovers, *store.open_journals(stack, scratch, oldest=oldest, say=context.say)]


def _leftovers(
    settings: Settings, context: Context, store: Store | None, scratch: Path, *, oldest: datetime
) -> Iterator[EarlierSide]:
    """The journals that an interrupted run left in the output folder. They are put into the store,
    if there is one. Raises ConfigError if `resume` would continue a committed journal."""
    for side, name in enumerate(JOURNALS):
        path = settings.root / settings.output / name
        leftover = journal.peek(path)
        if leftover is None:
            continue
        started_at, workflow_run, is_finished = leftover
        is_interrupted = context.keep and context.is_attended and not is_finished
        if not (settings.resume or is_interrupted) or not journal.is_free(path):
            continue
        is_committed = git.first_committed([path], settings.root, context.environ) is not None
        if is_committed and not settings.resume:
            continue
        if is_committed and not context.is_attended:
            raise _not_continued(path, "is part of the commit", settings)
        repository = context.workflow_run.partition("/actions/")[0]
        if repository and workflow_run.partition("/actions/")[0] != repository:
            raise _not_continued(
                path, f"was not written by a workflow run of {repository}", settings
            )
        copy = scratch / name
        shutil.copyfile(path, copy)
        try:
            entry = EarlierSide(journal=Journal.read(copy), oldest=oldest, is_continued=True)
        except EvalgateError as error:
            context.say(f"{path} was ignored: {error.message}")
            continue
        if entry.journal.damaged:
            lines = words.counted(entry.journal.damaged, "line")
            context.say(f"{path}: {lines} cannot be read; those runs are repeated")
        # in case this run is killed before it reuses them
        _put(store, path, side, history.moment(started_at), context)
        yield entry


def _not_continued(path: Path, reason: str, settings: Settings) -> ConfigError:
    """The error for a journal that `--resume` must not use, as a change could contain it."""
    return ConfigError(
        f"{reason}, so --resume does not continue from it",
        place=Place(os.path.relpath(path, settings.root)),
        hint=f"Delete it, and add `{settings.output}/` to .gitignore.",
    )


def _tree(top: Path, settings: Settings, context: Context) -> Snapshot:
    """The checkout at `top`, of head or of the base, with all of its committed files, without our
    own folders."""
    root = settings.root
    folders = (settings.output, settings.baseline_folder, settings.cache, kept.FOLDER)

    def is_committed(path: Path) -> bool:
        """True if git has the file; always true for a base's checkout, which has no other files."""
        return (
            not root.is_relative_to(top)
            or git.first_committed([path], root, context.environ) is not None
        )

    paths = (context.cache, *map(Path, filter(None, folders)))
    absolute = (Path(os.path.normpath(root / path)) for path in paths)
    return Snapshot(
        top,
        frozenset(
            path.relative_to(top).as_posix() for path in absolute if path.is_relative_to(top)
        ),
        is_excluded=discovery_agents.is_evaluation_file,
        is_committed=is_committed,
    )


def root_of(root: Path, links: Links) -> str | None:
    """The path of a gate's folder in its repository, "" for the top; None without a repository."""
    if links.repository:
        return links.folder
    top = top_of(root)
    if not (top / ".git").exists():
        return None
    folder = root.resolve().relative_to(top).as_posix()
    return "" if folder == "." else folder


def _store(rules: Rules, context: Context) -> Store | None:
    """The gate's own store: at a terminal, or in a workflow for a push or for a change from the
    same repository. Authors of a fork's workflow could write its results. None without
    `reuse-days`."""
    settings = rules.settings
    if not settings.reuse_days:
        return None
    is_personal = context.keep and context.is_attended
    is_of_repository = context.workflow_run and events.is_of_repository(context.environ)
    if not (is_personal or is_of_repository):
        return None
    # the jobs of a workflow run have their checkouts in other folders
    root = settings.root if is_personal else root_of(settings.root, context.trigger.links)
    gate = fingerprints.digest([root, settings.name])
    folder = context.cache / FOLDER / gate
    if is_personal:  # of one person, on any branch
        return Store(folder=folder, scopes=[gate], key=context.store_key)
    witness = oidc.identity(context.environ)
    return of_workflow(context.environ, folder, key=context.store_key, witness=witness)


# --- in the journal of a side ---------------------------------------------------------------------


def take(
    entries: Sequence[EarlierSide],
    suite: Suite,
    side: Side,
    *,
    repeats: int,
    halves: Collection[TrialKey] | None = None,
) -> None:
    """Put earlier trials of the suite's agent into the side's journal, if its inputs are the same:
    the first runs of every case, and its reruns up to the first missing one. Other cases or seeds
    have other addresses. Trials in which the agent failed run again. `halves`: for a base, head's
    reused runs; a rerun of the base counts only beside its half of the pair."""
    agent = suite.agent.key
    entries = [
        entry
        for entry in entries
        if side.inputs.stands(
            agent, entry.journal.inputs.get(agent, Inputs()), is_continued=entry.is_continued
        )
    ]
    for case in suite.cases if entries else ():
        for purpose in Purpose:
            for number in range(repeats) if purpose is Purpose.FIRST else itertools.count():
                key = TrialKey(
                    suite=suite.key, case_id=case.case_id, purpose=purpose, number=number
                )
                if not (key.is_first or halves is None or key in halves):
                    break
                is_reused = _take_trial(entries, Task(key=key, suite=suite, case=case), side)
                if not (is_reused or key.is_first):
                    break


def _take_trial(entries: Sequence[EarlierSide], task: Task, side: Side) -> bool:
    """Put an earlier trial into the side's journal; True if that was possible."""
    address, grade_addresses = side.addresses(task)
    if side.journal.knows(address):
        return False
    agent = task.suite.agent.key
    # custom metrics of this checkout: addresses name only the base's code, and its edits
    unnamed_code = {use.name for use in task.suite.criteria if use.code and not use.code_commit}
    for entry in entries:
        trial = entry.journal.trial(address, task.key)
        if trial is None or isinstance(trial.outcome, AgentFailure):
            continue
        measured_at = entry.journal.measured_at(address)
        if entry.is_recent(measured_at):
            side.journal.add_inputs(agent, entry.journal.inputs.get(agent, Inputs()))
            grades = {
                name: entry.journal.grade(grade_address)
                for name, grade_address in grade_addresses.items()
                if entry.is_continued or name not in unnamed_code
            }
            _put_trial(side, task, trial, grades, measured_at=measured_at, agent=agent)
            return True
    return False


def take_results(
    stored: Stored, tasks: Iterable[Task], side: Side, *, renamed: Mapping[str, str]
) -> dict[CaseKey, CaseStatus]:
    """Put the trials of results.json for these tasks into the side's journal, at the addresses that
    the side looks up. Returns the cases in which the stored run cannot be compared.

    Trials in which the agent failed are not reused, because the agent may work now. `renamed`: for
    each evaluation file with another name in the stored run, its name there."""
    cases = cases_of(stored.run.suites)
    stored_trials = {trial.key: trial for trial in stored.run.all_trials}
    unpaired: dict[CaseKey, CaseStatus] = {}
    for task in tasks:
        stored_key = task.key.renamed(renamed)
        stored_case = cases.get(stored_key.case)
        stored_print = stored.run.fingerprints.get(stored_key.case)
        is_same = stored_print == side.prints_of(task)[1]
        if stored_case is None:
            unpaired[task.key.case] = CaseStatus.NEW
        # the simulated user is part of the input, which only the fingerprint of the case includes
        elif not is_same and (
            task.case.scenario is not None
            or fingerprints.of_task(stored_case) != fingerprints.of_task(task.case)
        ):
            unpaired[task.key.case] = CaseStatus.CHANGED
        elif stored_key in stored_trials:
            outcome = stored.outcomes.find(stored_key)
            if outcome is not None and not outcome.redacted:
                stored_trial = stored_trials[stored_key]
                trial = Trial(
                    key=task.key,
                    outcome=outcome,
                    seconds=stored_trial.seconds,
                    attempts=stored_trial.attempts,
                )
                grades = dict(_current_grades(stored_trial, task, stored, side)) if is_same else {}
                _put_trial(side, task, trial, grades, measured_at=stored.run.started_at)
    return unpaired


def _current_grades(
    stored_trial: GradedTrial, task: Task, stored: Stored, side: Side
) -> Iterator[tuple[str, Grade | None]]:
    """The stored grades that the same criteria gave, except custom metrics, whose code may have
    changed. `stored_trial`: under the stored run's own key."""
    for use in task.suite.criteria:
        setting = stored.criteria.get((stored_trial.key.suite, use.name))
        if use.code is None and setting == side.criterion_prints[task.suite.key, use.name]:
            yield use.name, stored_trial.grades.get(use.name)


def _put_trial(
    side: Side,
    task: Task,
    trial: Trial,
    grades: Mapping[str, Grade | None],
    *,
    measured_at: str,
    agent: str = "",
) -> None:
    """Put a trial into the side's journal if it is not there, and the scores among its grades that
    the side does not compute by itself. `agent`: see `Journal.add_inputs`."""
    address, grade_addresses = side.addresses(task)
    side.reused[task.key] = measured_at
    if side.journal.knows(address):
        return
    side.journal.add_trial(address, trial, agent=agent, measured_at=measured_at)
    for name, grade_address in grade_addresses.items():
        grade = grades.get(name)
        if isinstance(grade, Score):
            side.journal.add_grade(grade_address, grade)
