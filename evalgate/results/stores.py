"""Stored results of runs on the base branch: where they are kept, the nearest that there are, how old they are."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import itertools
import os
import random
import re
import secrets
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError, UnavailableError
from evalgate.model import BaseOrigin, Run
from evalgate.results import file as results_file
from evalgate.results.file import Stored
from evalgate.system import git
from evalgate.system.git import Complaint, GitFailed, Repository
from evalgate.text.words import size

RUNS = "runs"
README = "README.md"
KEPT_RUNS = 50
RUNS_OF_COMMIT = 10
"""Runs of one commit that are kept at most."""
MOST_PACKED_BYTES = 95 * 1024**2  # GitHub refuses files of 100 MiB
MOST_BYTES = 1024**3
MOST_HISTORY_BYTES = 32 * 1024**2
_CHUNK = 1024**2
_NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{40}|[0-9a-f]{64})\.json\.gz")
_STAMP = "%Y%m%dT%H%M%SZ"

README_TEXT = """\
# Results of evalgate

Written by evalgate after runs on the base branch; pull requests are compared with these results. Do not edit
the files. They can be deleted; the next run on the base branch starts over.

| File | Contents |
| --- | --- |
| `runs/TIME-COMMIT.json.gz` | results.json of the run of a commit, compressed; the newest ones are kept |
| `history.json` | how reliable each case was in recent runs |
| `badge.json` | a badge for shields.io's endpoint |
"""


class Unreadable(Exception):  # noqa: N818 - it says what is the matter
    """What is stored is not what a run wrote; the message is part of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Entry:
    """One stored run by its name; the order is that of time. `stamp`: `20260102T030405Z`."""

    stamp: str
    commit: str

    @property
    def name(self) -> str:
        """Its file name in `runs`."""
        return f"{self.stamp}-{self.commit}.json.gz"

    @property
    def saved_at(self) -> str:
        """ISO 8601, UTC."""
        stamp = self.stamp
        return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[9:11]}:{stamp[11:13]}:{stamp[13:15]}Z"


def made_now(commit: str, now: datetime) -> Entry:
    """The entry of a run that is saved now."""
    return Entry(stamp=now.astimezone(UTC).strftime(_STAMP), commit=commit)


def parse_names(names: Iterable[str]) -> list[Entry]:
    """The runs among file names of `runs`, oldest first; other files and impossible times are skipped."""
    entries = []
    for name in names:
        if found := _NAME.fullmatch(name):
            with contextlib.suppress(ValueError):
                datetime.strptime(found[1], _STAMP).replace(tzinfo=UTC)
                entries.append(Entry(stamp=found[1], commit=found[2]))
    return sorted(entries)


def pick(entries: Iterable[Entry], candidates: Sequence[str]) -> list[tuple[int, Entry]]:
    """The runs of `candidates` with their distances: nearest commit first, newest run of a commit first."""
    by_commit: dict[str, list[Entry]] = {}
    for entry in entries:
        by_commit.setdefault(entry.commit, []).append(entry)
    return [
        (distance, entry)
        for distance, commit in enumerate(candidates)
        for entry in sorted(by_commit.get(commit, ()), reverse=True)
    ]


def pick_removed(entries: Iterable[Entry], *, keep: int, new: Entry) -> list[Entry]:
    """What goes when `new` comes: the oldest runs of its commit beyond `RUNS_OF_COMMIT`, and the oldest beyond `keep`;
    never `new` itself."""
    others = sorted(entry for entry in entries if entry != new)
    repeated = [entry for entry in others if entry.commit == new.commit and entry < new][: -RUNS_OF_COMMIT + 1]
    left = [entry for entry in others if entry not in set(repeated)]
    surplus = max(len(left) + 1 - max(keep, 1), 0)
    return [*repeated, *left[:surplus]]


def pack(results: Path, to: Path) -> None:
    """Compress results.json, always to the same bytes. Raises UnavailableError where it is unreadable or too large."""
    packer = zlib.compressobj(9, wbits=31)
    try:
        with results.open("rb") as source, to.open("wb") as target:
            while chunk := source.read(_CHUNK):
                target.write(packer.compress(chunk))
            target.write(packer.flush())
        packed = to.stat().st_size
    except OSError as error:
        raise UnavailableError(f"cannot compress {results}: {error.strerror or error}") from error
    if packed > MOST_PACKED_BYTES:
        raise UnavailableError(
            f"the results are too large to store: {size(packed)} compressed, the limit is {size(MOST_PACKED_BYTES)}",
            hint="Store them as an artifact or in a folder, or split the gate into several jobs.",
        )


def unpack(data: bytes, to: Path, *, most_bytes: int = MOST_BYTES) -> None:
    """Write what `data` holds, compressed as `pack` does, to a new file. Raises Unreadable, OSError.

    Only one JSON object passes, by its first character (who reads it checks the rest), and at most `most_bytes`.
    """
    if len(data) > MOST_PACKED_BYTES:
        raise Unreadable(f"is larger than {size(MOST_PACKED_BYTES)}")
    unpacker = zlib.decompressobj(wbits=31)
    written = 0
    with to.open("xb") as target:
        while data and not unpacker.eof:
            try:
                piece = unpacker.decompress(data, _CHUNK)
            except zlib.error:
                raise Unreadable("is not in the expected compression format") from None
            data = unpacker.unconsumed_tail
            if not written and piece and not piece.lstrip().startswith(b"{"):
                raise Unreadable("holds no results")
            written += len(piece)
            if written > most_bytes:
                raise Unreadable(f"is larger than {size(most_bytes)}")
            target.write(piece)
    if not unpacker.eof:
        raise Unreadable("is truncated")
    if not written:
        raise Unreadable("is empty")


HISTORY = "history.json"
BADGE = "badge.json"

Revise = Callable[[bytes | None], Mapping[str, bytes]]
"""From the history that is stored (None: none) to the files to store beside the run: `history.json`, `badge.json`.

Called again with a newer history where another run was faster: it must have no effects of its own.
"""

Warn = Callable[[str], None]
"""Told of what was found in a store and ignored, in a sentence."""


def _files_beside(
    known: Collection[str], revise: Revise | None, read_history: Callable[[], bytes | None]
) -> dict[str, bytes]:
    """What a save writes beside the run: README where it is not `known`, and what `revise` makes of the history."""
    readme = {} if README in known else {README: README_TEXT.encode()}
    return {**readme, **(revise(read_history()) if revise else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """Results of an earlier run, as they lie on disk.

    `commit`: what was run; `saved_at`: ISO 8601, UTC; `distance`: steps back from the commit that was looked for;
    `path`: results.json, plain, ours to read and not to be trusted.
    """

    commit: str
    saved_at: str
    distance: int
    path: Path


class Store(Protocol):
    """Keeps results of runs on the base branch. Every method raises UnavailableError where it cannot be reached."""

    @property
    def name(self) -> str:
        """As people call it: `data branch evalgate-data`."""
        ...

    def find(self, candidates: Sequence[str]) -> Iterator[StoredRun]:
        """Readable results of `candidates` (commit SHAs), the nearest first, each read when it is asked for."""
        ...

    def read(self, name: str) -> bytes | None:
        """A file beside the runs (`history.json`), None where there is none."""
        ...

    def save(self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None) -> None:
        """Keep the results of `commit`, and the files that `revise` makes of the history; drop the oldest runs."""
        ...


def _unpacked(
    picked: Iterable[tuple[int, Entry]], read: Callable[[Entry], bytes | None], *, scratch: Path, where: str, warn: Warn
) -> Iterator[StoredRun]:
    """The runs that can be unpacked to `scratch`. `read`: what is stored, None if dropped; raises Unreadable."""
    scratch.mkdir(parents=True, exist_ok=True)
    for distance, entry in picked:
        path = scratch / f"{entry.commit}-{secrets.token_hex(4)}.json"
        try:
            data = read(entry)
            if data is None:
                continue
            unpack(data, path)
        except Unreadable as error:
            path.unlink(missing_ok=True)
            warn(f"{entry.name} {where} was ignored: it {error}")
        else:
            yield StoredRun(commit=entry.commit, saved_at=entry.saved_at, distance=distance, path=path)


PATIENCE_S = 300.0
LONGEST_PAUSE_S = 8.0
AUTHOR = ("evalgate", "evalgate@users.noreply.invalid")
_HISTORY = "Evalgate-History"
_BRANCH_NAME = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|@\{|\.lock$|\.lock/|/\.|[/.]$))[^\s\x00-\x1f\x7f~^:?*\[\\]+")
"""Near enough; what git refuses beyond this it says itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """The branch as it was fetched; `commit` "": there is none; `others`: names of links and folders at its top."""

    commit: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    history: int = 0

    @property
    def entries(self) -> list[Entry]:
        """The runs that it holds."""
        return parse_names(name.removeprefix(f"{RUNS}/") for name in self.files if name.startswith(f"{RUNS}/"))

    @property
    def has_more(self) -> bool:
        """Whether others keep something there."""
        ours = {README, HISTORY, BADGE, *(f"{RUNS}/{each.name}" for each in self.entries)}
        return bool(self.files.keys() - ours or self.others - {RUNS})


class DataBranch:
    """See `Store`. Only what is asked for is fetched; each save is one commit on top of the newest.

    After twice `keep` commits the branch starts anew with what it holds, so that clones of the repository do not
    carry old runs for ever; where others keep something there, or the remote allows no such push, it goes on growing.
    """

    def __init__(
        self,
        repo: Repository,
        *,
        branch: str,
        keep: int = KEPT_RUNS,
        warn: Warn = lambda _: None,
        pause: Callable[[float], None] = time.sleep,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`repo`: any repository whose remote holds the branch. Raises UnavailableError for an impossible name."""
        if not _BRANCH_NAME.fullmatch(branch):
            raise UnavailableError(f"{branch!r} is not a valid branch name")
        self._repo = git.empty_beside(repo, f"data-{random.randrange(16**8):08x}")  # noqa: S311 - no secret
        self._branch = branch
        self._ref = f"refs/heads/{branch}"
        self._keep = keep
        self._warn = warn
        self._pause = pause
        self._patience_s = patience_s
        self._may_start_anew = True

    @property
    def name(self) -> str:
        """See `Store`."""
        return f"data branch {self._branch}"

    def find(self, candidates: Sequence[str]) -> Iterator[StoredRun]:
        """See `Store`."""
        tip = self._fetched()

        def read(entry: Entry) -> bytes | None:
            try:
                return self._read(tip, f"{RUNS}/{entry.name}", MOST_PACKED_BYTES)
            except GitFailed as error:
                raise Unreadable(error.words) from error

        picked = pick(tip.entries, candidates)
        yield from _unpacked(picked, read, scratch=self._repo.folder, where=f"on the {self.name}", warn=self._warn)

    def read(self, name: str) -> bytes | None:
        """See `Store`."""
        tip = self._fetched()
        if name in tip.others:
            raise UnavailableError(f"{name} on the {self.name} is not a plain file")
        return self._read(tip, name)

    def save(self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None) -> None:
        """See `Store`. Raises GitFailed where others push faster for `patience_s`, or the token may not, and
        UnavailableError for a branch that holds other things and no run."""
        entry = made_now(commit, now)
        packed = self._repo.folder / "packed.gz"
        pack(results, packed)
        run = self._repo.run("hash-object", "-w", "--no-filters", str(packed))
        deadline = time.monotonic() + self._patience_s
        for tries in itertools.count():
            tip = self._fetched()
            if tip.has_more and not tip.entries:  # a branch of code is no place for results
                raise UnavailableError(
                    f"the branch {self._branch} contains other files and no results, so none are stored there",
                    hint="Set `data-branch` to a separate branch; it need not exist yet.",
                )
            lease = f"--force-with-lease={self._ref}:{tip.commit}"  # provided that it still holds `tip`
            try:
                made = self._made(tip, entry, run=run, revise=revise, now=now)
                self._repo.run_with_remote("push", "--quiet", "--no-verify", lease, "origin", f"{made}:{self._ref}")
            except GitFailed as error:
                if self._may_start_anew and self._starts_anew(tip) and "remote rejected" in error.words:
                    self._may_start_anew = False
                elif error.complaint is not Complaint.LOST_RACE or time.monotonic() > deadline:
                    raise
                longest = min(0.1 * 2 ** min(tries, 10), LONGEST_PAUSE_S)
                self._pause(random.uniform(0, longest))  # noqa: S311 - never two runs alike; no secret
            else:
                return

    # --- reading -----------------------------------------------------------------------------------

    def _fetched(self) -> _Branch:
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--depth=1", "--filter=blob:none")
        try:
            self._repo.run_with_remote("fetch", *options, "origin", f"+{self._ref}:refs/evalgate/data")
        except GitFailed as error:
            if error.complaint is Complaint.MISSING and "couldn't find remote ref" in error.words:
                return _Branch()
            raise
        commit = self._repo.run("rev-parse", "--verify", "refs/evalgate/data")
        message = self._repo.run_bytes("cat-file", "commit", commit).decode("utf-8", "replace")
        found = re.findall(rf"^{_HISTORY}: (\d{{1,9}})$", message, re.MULTILINE)
        listed = list(self._listed(commit))
        return _Branch(
            commit=commit,
            files={name: blob for name, blob in listed if blob},
            others=frozenset(name for name, blob in listed if not blob),
            history=int(found[-1]) if found else 1,
        )

    def _listed(self, commit: str) -> Iterator[tuple[str, str]]:
        """What is at the top and in `runs`: plain files with their object names, all else with ""."""
        for tree in (f"{commit}:", f"{commit}:{RUNS}"):
            try:
                listed = self._repo.run_bytes("ls-tree", "-z", tree).decode("utf-8", "surrogateescape")
            except GitFailed:
                continue  # no `runs` yet
            prefix = f"{RUNS}/" if tree.endswith(RUNS) else ""
            for line in listed.split("\0"):
                about, _, name = line.partition("\t")
                if name:
                    yield prefix + name, about.split()[2] if about.startswith("100644 blob ") else ""

    def _read(self, tip: _Branch, name: str, most_bytes: int = MOST_HISTORY_BYTES) -> bytes | None:
        if name not in tip.files:
            return None
        return self._repo.run_with_remote("cat-file", "blob", tip.files[name], most_bytes=most_bytes)

    # --- writing -----------------------------------------------------------------------------------

    def _made(self, tip: _Branch, entry: Entry, *, run: str, revise: Revise | None, now: datetime) -> str:
        files = {f"{RUNS}/{entry.name}": run}
        for name, data in _files_beside(tip.files.keys(), revise, lambda: self._read(tip, HISTORY)).items():
            path = self._repo.folder / "file"
            path.write_bytes(data)
            files[name] = self._repo.run("hash-object", "-w", "--no-filters", str(path))
        dropped = pick_removed(tip.entries, keep=self._keep, new=entry)
        lines = [f"100644 {blob}\t{name}\0" for name, blob in files.items()]
        lines += [f"0 {'0' * len(run)}\t{RUNS}/{each.name}\0" for each in dropped]
        index = self._repo.folder / "index"
        index.unlink(missing_ok=True)
        at_index = {"GIT_INDEX_FILE": str(index)}
        if tip.commit:
            self._repo.run("read-tree", tip.commit, environment=at_index)
        self._repo.run("update-index", "-z", "--index-info", given="".join(lines).encode(), environment=at_index)
        tree = self._repo.run("write-tree", "--missing-ok", environment=at_index)
        anew = not tip.commit or (self._may_start_anew and self._starts_anew(tip))
        # [skip ci]: a push with a personal token would start the workflows of every push
        history = 1 if anew else tip.history + 1
        message = f"Results of {entry.commit[:12]} [skip ci]\n\n{_HISTORY}: {history}\n"
        about = {"NAME": AUTHOR[0], "EMAIL": AUTHOR[1], "DATE": f"{int(now.timestamp())} +0000"}
        who = {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in about.items()}
        parents = () if anew else ("-p", tip.commit)
        return self._repo.run("commit-tree", tree, *parents, given=message.encode(), environment=who)

    def _starts_anew(self, tip: _Branch) -> bool:
        return tip.history >= 2 * self._keep and not tip.has_more


LOCK = ".lock"
LEFTOVER_S = 86400.0


class Folder:
    """See `Store`. Writers take turns; readers need not wait, since every file appears whole."""

    def __init__(self, folder: Path, *, scratch: Path, keep: int = KEPT_RUNS, warn: Warn = lambda _: None) -> None:
        """`folder` need not exist; unpacked results go to `scratch`, which the caller removes."""
        self._folder = folder
        self._scratch = scratch
        self._keep = keep
        self._warn = warn

    @property
    def name(self) -> str:
        """See `Store`."""
        return f"folder {self._folder}"

    def find(self, candidates: Sequence[str]) -> Iterator[StoredRun]:
        """See `Store`."""
        with _unavailable(self._folder):
            yield from _unpacked(
                pick(self._entries(), candidates),
                lambda entry: _read(self._folder / RUNS / entry.name, MOST_PACKED_BYTES),
                scratch=self._scratch,
                where=f"in the {self.name}",
                warn=self._warn,
            )

    def read(self, name: str) -> bytes | None:
        """See `Store`."""
        with _unavailable(self._folder):
            try:
                return _read(self._folder / name, MOST_HISTORY_BYTES)
            except Unreadable as error:
                raise UnavailableError(f"{name} in the {self.name} {error}") from error

    def save(self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None) -> None:
        """See `Store`."""
        entry = made_now(commit, now)
        runs = self._folder / RUNS
        with _unavailable(self._folder):
            runs.mkdir(parents=True, exist_ok=True)
            packed = _fresh(runs)
            try:
                pack(results, packed)
                with self._turn():
                    packed.replace(runs / entry.name)
                    known = {README} if (self._folder / README).exists() else frozenset[str]()
                    for name, data in _files_beside(known, revise, lambda: self.read(HISTORY)).items():
                        fresh = _fresh(self._folder)
                        fresh.write_bytes(data)
                        fresh.replace(self._folder / name)
                    for dropped in pick_removed(self._entries(), keep=self._keep, new=entry):
                        (runs / dropped.name).unlink(missing_ok=True)
                    _remove_stale(runs, now)
            finally:
                packed.unlink(missing_ok=True)

    def _entries(self) -> list[Entry]:
        try:
            return parse_names(path.name for path in (self._folder / RUNS).iterdir())
        except FileNotFoundError:
            return []

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        lock = os.open(self._folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _fresh(folder: Path) -> Path:
    """A name in `folder` for a file that is not yet whole; it gets the usual rights, so that later steps can read."""
    return folder / f".new-{secrets.token_hex(8)}"


def _remove_stale(folder: Path, now: datetime) -> None:
    """Remove what killed writers left a day ago and longer."""
    for path in folder.glob(".new-*"):
        with contextlib.suppress(FileNotFoundError):
            if now.timestamp() - path.lstat().st_mtime > LEFTOVER_S:
                path.unlink()


def _read(path: Path, most_bytes: int) -> bytes | None:
    """A plain file, never through a link; None where there is none. Raises Unreadable, OSError."""
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
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise Unreadable(f"is larger than {most_bytes:,} bytes")
    return data


@contextlib.contextmanager
def _unavailable(folder: Path) -> Iterator[None]:
    """Raises UnavailableError for what the system says of the folder."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"cannot use the folder of base results {folder}: {error.strerror or error}") from error


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
        if git.is_committed(folder, repo):
            say(f"the folder {settings.baseline_folder} contains committed files and was ignored")
        else:
            stores.append(Folder(folder, scratch=repo.folder / "stored", warn=say))
    if settings.data_branch:
        stores.append(DataBranch(repo, branch=settings.data_branch, warn=say))
    return stores


def find(stores: Sequence[Store], repo: Repository, sha: str, *, say: Callable[[str], None]) -> Found | None:
    """The usable results nearest to the commit, on it or on one of its first-parent ancestors. What is passed over, or
    wrong with a store, is said, and the next nearest is taken."""
    candidates = _candidates(repo, sha, say=say) if stores else ()
    found: Found | None = None
    for store in stores:
        nearer = candidates[: None if found is None else found.distance]
        found = next(_usable(store, nearer, say=say), found)
    return found


def _candidates(repo: Repository, sha: str, *, say: Callable[[str], None]) -> Sequence[str]:
    try:
        return git.ancestors(repo, sha)
    except EvalgateError as error:
        say(f"the base's ancestors are not known: {error.message}")
        return (sha,)


def moment(written: str) -> datetime:
    """A time as it was written; the earliest where it cannot be read."""
    try:
        read = datetime.fromisoformat(written)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def _usable(store: Store, candidates: Sequence[str], *, say: Callable[[str], None]) -> Iterator[Found]:
    """What one store has, the nearest first; a run that cannot be compared with hides no earlier one."""
    try:
        for kept in itertools.islice(store.find(candidates), MOST_PASSED_OVER):
            try:
                stored = results_file.read_results(kept.path, shown_as=f"{kept.commit[:12]} in the {store.name}")
                run = stored.run
                why = "" if has_conversation(run) else "the agent failed in every run"
                if run.commit and run.commit != kept.commit:
                    why = f"they are of {run.commit[:12]}"
            except EvalgateError as error:
                why = error.message
            else:
                if not why:
                    yield Found(stored=stored, commit=kept.commit, saved_at=kept.saved_at, distance=kept.distance)
                    continue
            say(f"the results of {kept.commit[:12]} in the {store.name} were skipped: {why}")
    except EvalgateError as error:
        say(f"the {store.name} was not used: {error.message}")


def has_conversation(run: Run) -> bool:
    """Whether at least one conversation came to its end: without, nothing can be compared with the run."""
    return any(trial.failure is None for trial in run.trials)


def aged(origin: BaseOrigin, *, settings: Settings, now: datetime, notes: Iterable[str] = ()) -> BaseOrigin:
    """The origin with the age of its results, a note where they are older than `max_baseline_age`, and `notes`."""
    age_days, told = origin.age_days, list(origin.notes)
    with contextlib.suppress(ValueError):
        measured = datetime.fromisoformat(origin.measured_at)
        measured = measured if measured.tzinfo is not None else measured.replace(tzinfo=UTC)
        age_days, most = max(0.0, (now - measured).total_seconds() / DAY_S), settings.max_baseline_age
        if age_days > most:
            told.append(f"the base's results are {age_days:.0f} days old, more than max-baseline-age ({most:g})")
    return dataclasses.replace(origin, age_days=age_days, notes=(*told, *notes))
