"""Recorded replies as a judge, and their recorder: a fork's pull request and a demo can gate
without an account."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from evalgate.formats import fingerprints
from evalgate.judges import cache
from evalgate.judges.base import (
    Judge,
    JudgeDriver,
    JudgeFailed,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    JudgeSetting,
)
from evalgate.judges.cache import CachedReply


def read_recordings(path: Path) -> Mapping[str, CachedReply]:
    """All entries of a file, or of every `*.jsonl` in a folder, by address; invalid lines are
    skipped.

    Raises OSError if the path cannot be read."""
    entries: dict[str, CachedReply] = {}
    for file in sorted(path.glob("**/*.jsonl")) if path.is_dir() else [path]:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                entry = cache.parse_entry(line)
                entries[entry.address] = entry
    return entries


def digest(path: str) -> str:
    """16 hex digits over the recorded replies, whatever their path; "" if there are no replies."""
    try:
        return fingerprints.digest(read_recordings(Path(path))) if path else ""
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
                file.write(cache.render_entry(entry) + "\n")
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
            ordered_path = self._path.with_suffix(".ordered")
            ordered_path.write_text(
                "".join(cache.render_entry(entry) + "\n" for entry in entries), encoding="utf-8"
            )
            ordered_path.replace(self._path)


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
        entry = self._replies.get(cache.address_of(request))
        if entry is None:
            detail = f"{request.criterion}, sample {request.sample + 1}: the answer, the prompt or the options changed"
            if request.repeat:
                detail += f", or fewer runs were recorded (this is run {request.repeat})"
            return self._setting.failure(JudgeFailureKind.NO_RECORDING, detail)
        return entry.reply


DRIVER = JudgeDriver(name="replay", missing=missing, open=open_client)
