"""The store: journals of earlier runs. A trial is looked up there by its address before the agent
runs.

A journal is trusted if its name contains the keyed hash of its bytes, and its first line names the
same pull request, branch or folder (docs/decisions/020-stored-heads.md). A witness, if there is
one, needs no key; it must confirm the hash and the scope as well."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from evalgate import __version__, errors
from evalgate.errors import EvalgateError
from evalgate.results import output, shapes, stores
from evalgate.results.journal import VERSION, Journal
from evalgate.values import Environ, frozen_dataclass

FOLDER = "store"
MOST_RUNS = 12
MOST_BYTES = 500_000_000
WITNESSED = ".jwt"
MOST_TOKEN_BYTES = 16_384
STAMP_LENGTH = len("20260102T030405Z")
_NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{8})-([0-9a-f]{64})\.jsonl\.gz")


class Witness(Protocol):
    """A service whose signature of a hash cannot be forged."""

    def sign(self, digest: str) -> str:
        """A public token that signs the hash. Raises UnavailableError."""

    def scope(self, digest: str, token: str) -> str:
        """The scope of the run for which the hash was signed; "" without one."""


@frozen_dataclass
class Store:
    """A folder of journals, for the runs of one pull request, branch or checkout."""

    folder: Path
    scope: str  # the pull request, branch or folder of this run
    believed: Sequence[str]  # the scopes whose journals count, nearest first
    # of the hash: nobody can write a trusted journal without it
    key: bytes = field(repr=False)
    witness: Witness | None = None

    @contextmanager
    def open_journals(
        self, scratch: Path, *, oldest: datetime, say: Callable[[str], None]
    ) -> Iterator[list[EarlierSide]]:
        """The trusted journals, nearest scope and newest first; unreadable ones are reported and
        skipped. `scratch`: the folder to unpack them in. `oldest`: older trials do not count."""
        entries: list[EarlierSide] = []
        with ExitStack() as stack:
            for name in sorted(self._names(), reverse=True):
                journal = self._open_journal(name, scratch, say=say)
                if journal is None:
                    continue
                stack.callback(journal.close)
                entry = EarlierSide(journal=journal, oldest=oldest)
                if entry.scope in self.believed and entry.is_recent(entry.started_at):
                    entries.append(entry)
            yield sorted(entries, key=lambda entry: self.believed.index(entry.scope))

    def put(self, journal: Path, *, side: int, started_at: datetime) -> None:
        """Keep the journal of a run, however it ended. Raises UnavailableError."""
        first_line = {
            "journal": VERSION,
            "evalgate": __version__,
            "scope": self.scope,
            "started_at": started_at.astimezone(UTC).isoformat(timespec="seconds"),
            "side": side,
        }
        stamp = started_at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        draft = self.folder / f".new-{secrets.token_hex(8)}"
        try:
            with errors.unavailable(f"cannot write {self.folder}"):
                output.make_folder(self.folder)
                stores.pack(journal, draft, prefix=shapes.encode(first_line) + b"\n")
                draft.chmod(0o644)
                mac = self._mac(draft.read_bytes())
                place = self.folder / f"{stamp}-{secrets.token_hex(4)}-{mac}.jsonl.gz"
                if self.witness is not None:
                    place.with_suffix(WITNESSED).write_text(self.witness.sign(mac))
                draft.replace(place)
                self._remove_old()
        finally:
            draft.unlink(missing_ok=True)

    def _remove_old(self) -> None:
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
        try:
            return [path.name for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        except FileNotFoundError:
            return []

    def _open_journal(
        self, name: str, scratch: Path, *, say: Callable[[str], None]
    ) -> Journal | None:
        path = self.folder / name
        unpacked_path = scratch / f"{secrets.token_hex(8)}.jsonl"
        try:
            packed = stores.read(path, stores.MOST_PACKED_BYTES) or b""
            mac = self._mac(packed)
            is_signed = hmac.compare_digest(name.split("-")[2].removesuffix(".jsonl.gz"), mac)
            scope = (
                self.witness.scope(mac, _token(path))
                if is_signed and self.witness is not None
                else None
            )
            if not is_signed or scope == "":
                say(
                    f"{path} was ignored: this repository's runs did not write it, or its key was another"
                )
                return None
            stores.unpack(packed, unpacked_path)
            journal = Journal.read(unpacked_path)
        except (stores.Unreadable, OSError, EvalgateError) as error:
            say(f"{path} was ignored: {error}")
            return None
        if scope not in (None, journal.about.get("scope")):
            journal.close()
            return None
        return journal

    def _mac(self, packed: bytes) -> str:
        return hmac.new(self.key, packed, hashlib.sha256).hexdigest()


@frozen_dataclass
class EarlierSide:
    """The measurements of one side of an earlier run. `oldest`: the earliest time of trials that
    count; `is_continued`: the run was interrupted, and this run continues it."""

    journal: Journal
    oldest: datetime
    is_continued: bool = False

    @property
    def scope(self) -> str:
        """The scope of the run."""
        return str(self.journal.about.get("scope", ""))

    @property
    def started_at(self) -> str:
        """ISO 8601."""
        return str(self.journal.about.get("started_at", ""))

    @property
    def is_head(self) -> bool:
        """True if the side was that of a change, and not of its base branch."""
        return self.journal.about.get("side") == 0

    def is_recent(self, at: str) -> bool:
        """True if a measurement of this time still counts; False if the time is unknown."""
        return stores.moment(at) >= self.oldest


def _token(path: Path) -> str:
    """The witness's token for a journal; "" without one."""
    token = stores.read(path.with_suffix(WITNESSED), MOST_TOKEN_BYTES) or b""
    return token.decode("ascii", "replace")


def of_workflow(
    environ: Environ, cache: Path, *, key: bytes, witness: Witness | None = None
) -> Store | None:
    """The store for the job of a workflow; None elsewhere. A pull request also trusts journals of
    its base branch. `witness`: needed only without a `key`."""
    repository = environ.get("GITHUB_REPOSITORY", "")
    ref = environ.get("GITHUB_REF", "")
    if not (repository and ref):
        return None
    base = environ.get("GITHUB_BASE_REF", "")
    scopes = [f"{repository}@{ref}", *([f"{repository}@refs/heads/{base}"] if base else [])]
    return Store(
        folder=cache / FOLDER,
        scope=scopes[0],
        believed=scopes,
        key=key,
        witness=None if key else witness,
    )


def of_checkout(root: Path, cache: Path, *, key: bytes) -> Store:
    """The store for runs of one person in one folder, on any branch."""
    scope = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return Store(folder=cache / FOLDER / scope, scope=scope, believed=[scope], key=key)
