"""Replies on disk: the cache of a run, and recorded replies as a judge, with their recorder: so
a fork's pull request and a demo can gate without an account.

The cache has one small file for each reply by its address, so that a workflow can cache the folder
and a branch can contain it. Files instead of a database: folders of two jobs merge by copying, a
branch shows changes, and a renamed file is complete or absent, whatever other writers do. A failure
is never kept."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evalgate.formats import fingerprints
from evalgate.model import shapes
from evalgate.system.files import new_file
from evalgate.values import Log, digest_of, frozen_dataclass
from .base import (
    Judge,
    JudgeDriver,
    JudgeFailed,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    JudgeSetting,
)

FORMAT = 1


@frozen_dataclass
class CachedReply:
    """A kept reply with its origin. The question itself is only part of the address, so that no
    prompt is kept."""

    address: str
    reply: JudgeReply
    criterion: str = ""
    version: str = ""
    model: str = ""
    sample: int = 0
    repeat: int | str = 0
    run: str = ""
    """The workflow run that asked (`config.context.run_of`)."""


_ENTRIES = TypeAdapter(CachedReply)


def address_of(request: JudgeRequest, *, endpoint: str = "") -> str:
    """64 hexadecimal digits over every field of the question; keys in any order, `1` differs from
    `1.0`.

    `endpoint`: the server, if it is not the model's own provider: another server is another
    judge."""
    document = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    document |= dataclasses.asdict(document.pop("asker"))
    document["format"] = FORMAT
    if not request.repeat:
        del document["repeat"]
    if endpoint:
        document["endpoint"] = endpoint
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=dict)
    return digest_of(text)


def entry_of(request: JudgeRequest, reply: JudgeReply, *, endpoint: str = "") -> CachedReply:
    """The entry that keeps `reply`."""
    return CachedReply(
        address=address_of(request, endpoint=endpoint),
        reply=reply,
        criterion=request.asker.criterion,
        version=request.asker.version,
        model=request.model,
        sample=request.sample,
        repeat=request.repeat,
    )


def render_entry(entry: CachedReply, *, run: str = "") -> str:
    """One line of JSON, without its end: the entry, its reply's fields, and the workflow run."""
    fields = _ENTRIES.dump_python(entry, mode="json", exclude_defaults=True)
    reply = fields.pop("reply")
    run_field = {"run": run} if run else {}
    return json.dumps(
        {"format": FORMAT, **fields, **reply, **run_field},
        ensure_ascii=True,
        separators=(",", ":"),
    )


def parse_entry(text: str) -> CachedReply:
    """Parse an entry; its reply is `cached`. Raises ValueError for any other text."""
    try:
        raw = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(raw, dict):
        raise ValueError(f"{type(raw).__name__}, expected an object")  # noqa: TRY004 - the fault is in a file's text
    if raw.get("format") != FORMAT:
        raise ValueError(f"format {raw.get('format')}, expected {FORMAT}")
    reply = {
        name: raw[name] for name in ("parts", "usage", "model_version", "finish") if name in raw
    }
    if isinstance(reply.get("usage"), dict):
        reply["usage"] = {name: shapes.count(amount) for name, amount in reply["usage"].items()}
    try:
        return _ENTRIES.validate_python({**raw, "reply": {**reply, "cached": True}})
    except ValidationError as error:
        first_path = ".".join(map(str, error.errors()[0]["loc"]))
        raise ValueError(f"{error.error_count()} errors, the first at {first_path}") from None


class VerdictCache:
    """The folder of replies; safe for many threads and processes. Its errors are reported and never
    stop a run."""

    def __init__(
        self,
        folder: Path,
        *,
        run: str = "",
        warn: Log = lambda _: None,
        oldest_s: float = 0.0,
    ) -> None:
        """`run`: the workflow run, which is part of every entry. `oldest_s`: older replies do not
        count, in seconds since 1970."""
        self._folder = folder
        self._oldest_s = oldest_s
        self._run = run
        self._warn = warn

    def read(self, address: str) -> JudgeReply | None:
        """The reply stored at `address`, marked as cached; None if no readable one exists."""
        path = self._path(address)
        try:
            if path.stat().st_mtime < self._oldest_s:  # the judge may have changed since
                return None
            entry = parse_entry(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot be read; the judge is asked again: {type(error).__name__}"
        except ValueError as error:
            problem = f"is damaged; the judge is asked again: {error}"
        else:
            if entry.address == address:
                return entry.reply
            problem = "holds the reply to a different question; the judge is asked again"
        self._warn(f"judge cache: {path.name} {problem}")
        return None

    def write(self, entry: CachedReply) -> None:
        """Keep a reply; the last writer wins."""
        path = self._path(entry.address)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with new_file(path) as draft:
                draft.write_text(render_entry(entry, run=self._run) + "\n", encoding="utf-8")
                draft.chmod(0o644)
        except OSError as error:
            self._warn(
                f"judge cache: {path.name} could not be written: {error.strerror or type(error).__name__}"
            )

    def forget(self, address: str) -> None:
        """Drop a reply, if there is one."""
        with suppress(OSError):
            self._path(address).unlink()

    def _path(self, address: str) -> Path:
        return self._folder / address[:2] / f"{address}.json"


# --- recordings --------------------------------------------------------------------------------


def read_recordings(path: Path) -> Mapping[str, CachedReply]:
    """All entries of a file, or of every `*.jsonl` in a folder, by address; invalid lines are
    skipped.

    Raises OSError if the path cannot be read."""
    entries: dict[str, CachedReply] = {}
    for file in sorted(path.glob("**/*.jsonl")) if path.is_dir() else [path]:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                entry = parse_entry(line)
                entries[entry.address] = entry
    return entries


def digest(path: str) -> str:
    """16 hex digits over the recorded replies, whatever their path; "" if they cannot be read."""
    try:
        return fingerprints.digest(read_recordings(Path(path)))
    except OSError:
        return ""


class Recorder:
    """Adds replies to a file as they arrive, so that a killed run keeps them; safe for many
    threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._addresses = set(read_recordings(path)) if path.exists() else set()
        path.parent.mkdir(parents=True, exist_ok=True)

    def record(self, entry: CachedReply) -> None:
        """Add a reply, unless the file has its question. Raises OSError."""
        with self._lock:
            if entry.address in self._addresses:
                return
            with self._path.open("a", encoding="utf-8") as file:
                file.write(render_entry(entry) + "\n")
            self._addresses.add(entry.address)

    def close(self) -> None:
        """Sort the file: by criterion, model, repeat, sample and address. Raises OSError."""
        with self._lock:
            if not self._path.exists():
                return
            entries = sorted(
                read_recordings(self._path).values(),
                key=lambda cached_reply: (
                    cached_reply.criterion,
                    cached_reply.model,
                    str(cached_reply.repeat),
                    cached_reply.sample,
                    cached_reply.address,
                ),
            )
            lines = (render_entry(entry) + "\n" for entry in entries)
            with new_file(self._path) as draft:
                draft.write_text("".join(lines), encoding="utf-8")


def missing(setting: JudgeSetting) -> str:
    """See JudgeDriver."""
    if not setting.path:
        return "the judge `replay` needs the path of its recordings"
    if not Path(setting.path).exists():
        return f"the judge `replay` has no recordings: there is no {setting.path}; record them once with an API key"
    return ""


def open_client(setting: JudgeSetting) -> Judge:
    """See JudgeDriver."""
    try:
        return ReplayJudge(setting, read_recordings(Path(setting.path)))
    except OSError as error:
        problem = error.strerror or type(error).__name__
    raise JudgeFailed(setting.failure(JudgeFailureKind.NOT_CONFIGURED, problem))


class ReplayJudge(Judge):
    """Answers only exactly the recorded questions."""

    def __init__(self, setting: JudgeSetting, replies: Mapping[str, CachedReply]) -> None:
        super().__init__(setting)
        self._replies = replies

    def _ask(self, request: JudgeRequest) -> JudgeReply | JudgeFailure:
        """The reply is `cached`: it costs nothing."""
        entry = self._replies.get(address_of(request))
        if entry is None:
            detail = f"{request.asker.criterion}, sample {request.sample + 1}: the answer, the prompt or the options changed"
            if request.repeat:
                detail += f", or fewer runs were recorded (this is run {request.repeat})"
            return self._setting.failure(JudgeFailureKind.NO_RECORDING, detail)
        return entry.reply


DRIVER = JudgeDriver(name="replay", missing=missing, open=open_client)
