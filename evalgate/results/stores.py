"""Stored results of runs on the base branch: their place, the nearest available ones, and their
age."""

from __future__ import annotations

import fcntl
import gzip
import itertools
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from evalgate import errors
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError, UnavailableError
from evalgate.model import BaseOrigin, Run
from evalgate.results import file as results_file, output
from evalgate.results.file import Stored
from evalgate.system import git
from evalgate.system.git import Repository
from evalgate.text.words import size
from evalgate.values import Sentence, Wording, frozen_dataclass

RUNS = "runs"
KEPT_RUNS = 50
RUNS_OF_COMMIT = 10
"""The most runs that are kept of one commit."""
MOST_PACKED_BYTES = 95 * 1024**2  # GitHub refuses files of 100 MiB
MOST_BYTES = 1024**3
MOST_HISTORY_BYTES = 32 * 1024**2
COMPRESSION = 6
"""The best takes three times as long for a fiftieth of the size."""
_CHUNK = 1024**2
_NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{40}|[0-9a-f]{64})\.json\.gz")
_STAMP = "%Y%m%dT%H%M%SZ"


class Unreadable(Exception):  # noqa: N818 - the name says it
    """A stored file is not one that a run wrote; the message is part of a sentence."""


class RunName(NamedTuple):
    """The name of a stored run; the order is that of time. `stamp`: `20260102T030405Z`."""

    stamp: str
    commit: str

    @property
    def name(self) -> str:
        """Its file name in `runs`."""
        return f"{self.stamp}-{self.commit}.json.gz"

    @property
    def saved_at(self) -> str:
        """ISO 8601, UTC."""
        return f"{datetime.strptime(self.stamp, _STAMP):%Y-%m-%dT%H:%M:%SZ}"  # noqa: DTZ007 - the stamp is in UTC


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
    distances = {commit: distance for distance, commit in enumerate(candidates)}
    newest_first = [run for run in sorted(runs, reverse=True) if run.commit in distances]
    nearest_first = sorted(newest_first, key=lambda run: distances[run.commit])
    return [(distances[run.commit], run) for run in nearest_first]


def pick_removed(runs: Iterable[RunName], *, keep: int, new: RunName) -> list[RunName]:
    """The runs to remove when `new` is added: the oldest runs of its commit beyond
    `RUNS_OF_COMMIT`, and the oldest runs beyond `keep`; never `new` itself."""
    others = sorted(run for run in runs if run != new)
    older = [run for run in others if run.commit == new.commit and run < new]
    removed = older[: -RUNS_OF_COMMIT + 1]
    others = [run for run in others if run not in removed]
    return [*removed, *others[: max(len(others) + 1 - max(keep, 1), 0)]]


def pack(results: Path, to: Path, *, prefix: bytes = b"") -> None:
    """Compress a file after `prefix`, always to the same bytes. Raises UnavailableError if it is
    unreadable or too large."""
    with errors.unavailable(f"cannot compress {results}"):
        with (
            results.open("rb") as source,
            to.open("wb") as packed_file,
            gzip.GzipFile("", "wb", COMPRESSION, mtime=0, fileobj=packed_file) as target,
        ):
            target.write(prefix)
            shutil.copyfileobj(source, target)
        packed_bytes = to.stat().st_size
    if packed_bytes > MOST_PACKED_BYTES:
        raise UnavailableError(
            f"the results are too large to store: {size(packed_bytes)} compressed, the limit is {size(MOST_PACKED_BYTES)}",
            hint="Split the gate into several jobs.",
        )


def unpack(packed: bytes, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
    """Decompress `data` (see `pack`) into a new file. Raises Unreadable, OSError.

    Only a JSON object passes, judged by its first character (the reader checks the others), of at
    most `most_bytes`."""
    if len(packed) > MOST_PACKED_BYTES:
        raise Unreadable(f"is larger than {size(MOST_PACKED_BYTES)}")
    unpacker = zlib.decompressobj(wbits=31)
    written_bytes = 0
    with path.open("xb") as target:
        while packed and not unpacker.eof:
            try:
                chunk = unpacker.decompress(packed, _CHUNK)
            except zlib.error:
                raise Unreadable("is not in the expected compression format") from None
            packed = unpacker.unconsumed_tail
            if not written_bytes and chunk and not chunk.lstrip().startswith(b"{"):
                raise Unreadable("holds no results")
            written_bytes += len(chunk)
            if written_bytes > most_bytes:
                raise Unreadable(f"is larger than {size(most_bytes)}")
            target.write(chunk)
    if not unpacker.eof:
        raise Unreadable("is truncated")
    if not written_bytes:
        raise Unreadable("is empty")


HISTORY = "history.json"

Revise = Callable[[bytes | None], bytes | None]
"""From the stored history (None: none) to the history to store with the run; None: keep the stored
one."""

Warn = Callable[[str], None]
"""Reports a sentence on a file of a store that was ignored."""


@frozen_dataclass
class StoredRun:
    """Results of an earlier run on disk.

    `commit`: the commit that ran; `saved_at`: ISO 8601, UTC; `distance`: steps back from the
    requested commit; `path`: results.json, uncompressed; its contents are not trusted."""

    commit: str
    saved_at: str
    distance: int
    path: Path


LOCK = ".lock"
LEFTOVER_S = 86400.0


class BaselineFolder:
    """A folder with results of runs on the base branch; a checked-out data branch of earlier
    versions is one too.

    Writers take turns; readers do not wait, since every file appears complete. Every method raises
    UnavailableError if the folder cannot be used."""

    def __init__(
        self, folder: Path, *, scratch: Path, keep: int = KEPT_RUNS, warn: Warn = lambda _: None
    ) -> None:
        """`folder` need not exist; unpacked results go to `scratch`, which the caller removes."""
        self._folder = folder
        self._scratch = scratch
        self._keep = keep
        self._warn = warn

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"folder {self._folder}"

    def find(self, candidates: Sequence[str]) -> Iterator[StoredRun]:
        """Readable results of `candidates` (commit SHAs), nearest first, each read on demand."""
        with self._errors():
            self._scratch.mkdir(parents=True, exist_ok=True)
            for distance, run in pick(self._runs(), candidates):
                path = self._scratch / f"{run.commit}-{secrets.token_hex(4)}.json"
                try:
                    packed = read(self._folder / RUNS / run.name, MOST_PACKED_BYTES)
                    if packed is None:
                        continue
                    unpack(packed, path)
                except Unreadable as error:
                    path.unlink(missing_ok=True)
                    self._warn(f"{run.name} in the {self.name} was ignored: it {error}")
                else:
                    yield StoredRun(
                        commit=run.commit, saved_at=run.saved_at, distance=distance, path=path
                    )

    def read(self, name: str) -> bytes | None:
        """A file beside the runs (`history.json`), None if it is missing."""
        with self._errors():
            try:
                return read(self._folder / name, MOST_HISTORY_BYTES)
            except Unreadable as error:
                raise UnavailableError(f"{name} in the {self.name} {error}") from error

    def save(
        self, commit: str, results: Path, *, current_moment: datetime, revise: Revise | None = None
    ) -> None:
        """Keep the results of `commit`, and the history that `revise` returns; remove the oldest
        runs."""
        run = RunName(current_moment.astimezone(UTC).strftime(_STAMP), commit)
        runs = self._folder / RUNS
        with self._errors():
            runs.mkdir(parents=True, exist_ok=True)
            with output.new_file(runs / run.name) as packed_path:
                pack(results, packed_path)
            with self._write_lock():
                history = revise(self.read(HISTORY)) if revise else None
                if history is not None:
                    with output.new_file(self._folder / HISTORY) as new_path:
                        new_path.write_bytes(history)
                for old_run in pick_removed(self._runs(), keep=self._keep, new=run):
                    (runs / old_run.name).unlink(missing_ok=True)
                _remove_stale(runs, current_moment)

    def _errors(self) -> AbstractContextManager[None]:
        return errors.unavailable(f"cannot use the folder of base results {self._folder}")

    def _runs(self) -> list[RunName]:
        try:
            return parse_names(path.name for path in (self._folder / RUNS).iterdir())
        except FileNotFoundError:
            return []

    @contextmanager
    def _write_lock(self) -> Iterator[None]:
        lock = os.open(
            self._folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _remove_stale(folder: Path, current_moment: datetime) -> None:
    """Remove files that killed writers left at least a day ago."""
    for path in folder.glob(".new-*"):
        with suppress(FileNotFoundError):
            if current_moment.timestamp() - path.lstat().st_mtime > LEFTOVER_S:
                path.unlink()


def read(path: Path, most_bytes: int) -> bytes | None:
    """The bytes of a regular file, never through a link; None if it is missing. Raises Unreadable,
    OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        if path.is_symlink():
            raise Unreadable("is a symbolic link") from None
        raise
    with open(descriptor, "rb") as file:  # noqa: PTH123 - it is a descriptor
        if not path.is_file():
            raise Unreadable("is not a file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise Unreadable(f"is larger than {most_bytes:,} bytes")
    return content


DAY_S = 86_400
MOST_PASSED_OVER = 20
"""The most runs of a store that are read: the nearest ones may all be from one outage."""


def open_store(
    settings: Settings, repo: Repository, *, root: Path, say: Callable[[str], None]
) -> BaselineFolder | None:
    """The configured store; None for a folder with committed files: a change could write the
    results that it is compared with."""
    if not settings.baseline_folder:
        return None
    folder = root / settings.baseline_folder
    if git.is_committed(folder, repo):
        say(f"the folder {settings.baseline_folder} contains committed files and was ignored")
        return None
    return BaselineFolder(folder, scratch=repo.folder / "stored", warn=say)


def find(
    store: BaselineFolder, repo: Repository, sha: str, *, say: Callable[[str], None]
) -> tuple[StoredRun, Stored] | None:
    """The usable results nearest to the commit, of it or of one of its first-parent ancestors.
    Skipped results and problems of the store are reported."""
    commits: Sequence[str] = (sha,)
    try:
        commits = git.ancestors(repo, sha)
    except EvalgateError as error:
        say(f"the base's ancestors are not known: {error.message}")
    try:
        for run in itertools.islice(store.find(commits), MOST_PASSED_OVER):
            name = f"{run.commit[:12]} in the {store.name}"
            try:
                stored = results_file.read_results(run.path, shown_as=name)
                reason = _why_unusable(stored.run, run.commit)
                if not reason:
                    return run, stored
            except EvalgateError as error:
                reason = error.message
            say(f"the results of {name} were skipped: {reason}")
    except EvalgateError as error:
        say(f"the {store.name} was not used: {error.message}")
    return None


def _why_unusable(run: Run, commit: str) -> str:
    if run.commit and run.commit != commit:
        return f"they are of {run.commit[:12]}"
    return "" if has_conversation(run) else "the agent failed in every run"


NEVER = datetime.min.replace(tzinfo=UTC)


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
    origin: BaseOrigin,
    *,
    settings: Settings,
    current_moment: datetime,
    notes: Iterable[Wording] = (),
) -> BaseOrigin:
    """The origin with the age of its results, a note if they are older than `max_baseline_age`, and
    `notes`."""
    measured_time = moment(origin.measured_at)
    most_days = settings.max_baseline_age
    age_days = None
    if measured_time != NEVER:
        age_days = max(0.0, (current_moment - measured_time).total_seconds() / DAY_S)
    is_old = age_days is not None and age_days > most_days
    age_notes = [Sentence("base_results_old", age_days, most_days)] if is_old else []
    return replace(origin, age_days=age_days, notes=(*origin.notes, *age_notes, *notes))
