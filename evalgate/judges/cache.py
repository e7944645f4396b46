"""Replies on disk by address: one small file each, so that a workflow can cache the folder and a
branch can contain it.

Files instead of a database: folders of two jobs merge by copying, a branch shows changes, and a
renamed file is complete or absent, whatever other writers do. A failure is never kept."""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evalgate.judges.base import JudgeReply, JudgeRequest
from evalgate.model import Text, shapes
from evalgate.system.files import new_file
from evalgate.values import Log, Redactor, digest_of, frozen_dataclass

FORMAT = 1


@frozen_dataclass
class CachedReply:
    """A kept reply with its origin. The question itself is only part of the address, so that no
    prompt is kept.

    `run`: the workflow run that asked (`config.context.run_of`)."""

    address: str
    reply: JudgeReply
    criterion: str = ""
    version: str = ""
    model: str = ""
    sample: int = 0
    repeat: int | str = 0
    run: str = ""


_ENTRIES = TypeAdapter(CachedReply)


def address_of(request: JudgeRequest, *, endpoint: str = "") -> str:
    """64 hexadecimal digits over every field of the question; keys in any order, `1` differs from
    `1.0`.

    `endpoint`: the server, if it is not the model's own provider: another server is another
    judge."""
    names = [field.name for field in dataclasses.fields(request)]
    document = {
        "format": FORMAT,
        **{name: getattr(request, name) for name in names if name != "repeat" or request.repeat},
        **({"endpoint": endpoint} if endpoint else {}),
    }
    text = json.dumps(
        document, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=dict
    )
    return digest_of(text)


def entry_of(request: JudgeRequest, reply: JudgeReply, *, endpoint: str = "") -> CachedReply:
    """The entry that keeps `reply`."""
    return CachedReply(
        address=address_of(request, endpoint=endpoint),
        reply=reply,
        criterion=request.criterion,
        version=request.version,
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


def redacted(reply: JudgeReply, redact: Redactor) -> JudgeReply:
    """The reply with secrets removed from its text."""
    parts = tuple(Text(text=redact(part.text), thought=part.thought) for part in reply.parts)
    return dataclasses.replace(reply, parts=parts)


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
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            self._warn(
                f"judge cache: {path.name} cannot be read; the judge is asked again: {type(error).__name__}"
            )
            return None
        try:
            entry = parse_entry(text)
        except ValueError as error:
            self._warn(f"judge cache: {path.name} is damaged; the judge is asked again: {error}")
            return None
        if entry.address != address:
            self._warn(
                f"judge cache: {path.name} holds the reply to a different question; the judge is asked again"
            )
            return None
        return entry.reply

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
