"""What runs of a pull request measured, kept in the cache for the runs after them: journals, each with who wrote it.

A file is believed where its name holds the keyed hash of its bytes, and its first line says that it was written for
the same pull request or branch, not too long ago (docs/decisions/020-stored-heads.md).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalgate import __version__
from evalgate.errors import EvalgateError, UnavailableError
from evalgate.results import output, shapes, stores
from evalgate.results.journal import VERSION, Journal
from evalgate.values import Environ, frozen_dataclass

FOLDER = "kept"
MOST_FILES = 12
_NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{8})-([0-9a-f]{64})\.jsonl\.gz")


@frozen_dataclass
class Keeping:
    """Where a run keeps what it measured, and whose it may use.

    `scope`: of its pull request or branch; `believed`: those whose files it believes, nearest first. `key`: what the
    hash is keyed with; whoever does not have it can write no file that is believed.
    """

    folder: Path
    scope: str
    believed: Sequence[str]
    key: bytes = field(repr=False)
    workflow_run: str = ""
    commit: str = ""

    @contextmanager
    def opened(self, scratch: Path, *, oldest: datetime, say: Callable[[str], None]) -> Iterator[list[Kept]]:
        """The files that are believed, nearest scope and newest first; what cannot be read is said and passed over.
        `scratch`: where they are unpacked."""
        found: list[Kept] = []
        with ExitStack() as stack:
            for name in sorted(self._names(), reverse=True):
                journal = self._opened(name, scratch, say=say)
                if journal is None:
                    continue
                stack.callback(journal.close)
                kept = Kept(journal=journal, oldest=oldest)
                if kept.is_recent(kept.started_at) and str(journal.about.get("scope")) in self.believed:
                    found.append(kept)
            yield sorted(found, key=lambda kept: self.believed.index(str(kept.journal.about["scope"])))

    def keep(self, journals: Sequence[Journal], surroundings: Sequence[Mapping[str, str]], *, now: datetime) -> None:
        """Keep the journals of a run's sides, in whatever way the run ended. Raises UnavailableError."""
        try:
            output.make_folder(self.folder)
            for side, (journal, told) in enumerate(zip(journals, surroundings, strict=False)):
                if journal.trials and any(told.values()):
                    self._keep(journal, told, side=side, now=now)
            for name in sorted(self._names())[:-MOST_FILES]:
                (self.folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise UnavailableError(f"cannot write {self.folder}: {error.strerror or error}") from error

    def _keep(self, journal: Journal, surroundings: Mapping[str, str], *, side: int, now: datetime) -> None:
        about = {
            "journal": VERSION,
            "evalgate": __version__,
            "scope": self.scope,
            "workflow_run": self.workflow_run,
            "commit": self.commit,
            "started_at": now.astimezone(UTC).isoformat(timespec="seconds"),
            "surroundings": dict(surroundings),
            "side": side,
        }
        plain, packed = (self.folder / f".new-{secrets.token_hex(8)}" for _ in range(2))
        try:
            with plain.open("wb") as target, journal.path.open("rb") as source:
                target.write(shapes.encode(about) + b"\n")
                shutil.copyfileobj(source, target)
            stores.pack(plain, packed)
            stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
            packed.chmod(0o644)
            packed.replace(self.folder / f"{stamp}-{secrets.token_hex(4)}-{self._mac(packed.read_bytes())}.jsonl.gz")
        finally:
            plain.unlink(missing_ok=True)
            packed.unlink(missing_ok=True)

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        except FileNotFoundError:
            return []

    def _opened(self, name: str, scratch: Path, *, say: Callable[[str], None]) -> Journal | None:
        path, to = self.folder / name, scratch / f"{secrets.token_hex(8)}.jsonl"
        try:
            if path.is_symlink() or path.stat().st_size > stores.MOST_PACKED_BYTES:
                return None
            data = path.read_bytes()
            if not hmac.compare_digest(name.split("-")[2].removesuffix(".jsonl.gz"), self._mac(data)):
                say(f"{path} was ignored: this repository's runs did not write it, or with another key")
                return None
            stores.unpack(data, to)
            return Journal.reopen(to)
        except (stores.Unreadable, OSError, EvalgateError) as error:
            say(f"{path} was ignored: {error}")
            return None

    def _mac(self, data: bytes) -> str:
        return hmac.new(self.key, data, hashlib.sha256).hexdigest()


@frozen_dataclass
class Kept:
    """What an earlier run measured. `oldest`: from when on its trials count."""

    journal: Journal
    oldest: datetime

    @property
    def started_at(self) -> str:
        """ISO 8601."""
        return str(self.journal.about.get("started_at", ""))

    def surroundings(self, agent: str) -> str:
        """What the agent ran in and was given then; "" where nobody knows."""
        told: Any = self.journal.about.get("surroundings")
        return str(told.get(agent, "")) if isinstance(told, dict) else ""

    def agents_of_head(self) -> Mapping[str, str]:
        """What the agents of a pull request's head ran in, by `agent_key`; of any other run nothing."""
        about = self.journal.about
        told: Any = about.get("surroundings") if "@refs/pull/" in str(about.get("scope")) else None
        return told if isinstance(told, dict) and about.get("side") == 0 else {}

    def is_recent(self, at: str) -> bool:
        """Whether what was measured then counts still; not where it cannot be told."""
        return stores.moment(at) >= self.oldest


def key_of(environ: Environ, names: Collection[str]) -> bytes:
    """A key that only those know who know the values of these variables."""
    known = sorted((name, environ[name]) for name in names if environ.get(name))
    return hashlib.sha256(shapes.encode(["evalgate", known])).digest()


def of_workflow(
    environ: Environ, cache: Path, *, names: Collection[str], workflow_run: str, commit: str
) -> Keeping | None:
    """For the job of a workflow; None elsewhere. A pull request believes what runs of its base branch wrote as well."""
    repository, ref = environ.get("GITHUB_REPOSITORY", ""), environ.get("GITHUB_REF", "")
    if not (workflow_run and repository and ref):
        return None
    base = environ.get("GITHUB_BASE_REF", "")
    scopes = [f"{repository}@{ref}", *([f"{repository}@refs/heads/{base}"] if base else [])]
    key = key_of(environ, names)
    return Keeping(
        folder=cache / FOLDER, scope=scopes[0], believed=scopes, key=key, workflow_run=workflow_run, commit=commit
    )
