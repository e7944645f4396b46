"""Recorded replies as a judge: a fork's pull request and a demo can gate without an account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evalgate.judging import entries, failures, recording
from evalgate.judging.entries import Entry
from evalgate.plugins import Judge, JudgeFailed, JudgeFailureKind, JudgeReply, JudgeRequest, JudgeSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """See `plugins.JudgeDriver`."""

    name: str = "replay"

    def missing(self, setting: JudgeSetting) -> str:
        """See `plugins.JudgeDriver`."""
        if not setting.path:
            return "the judge `replay` needs the path of its recordings"
        if not Path(setting.path).exists():
            return f"the judge `replay` has no recordings: there is no {setting.path}; record them once with an account"
        return ""

    def open(self, setting: JudgeSetting) -> Judge:
        """See `plugins.JudgeDriver`."""
        problem = ""
        recorded: Mapping[str, Entry] = {}
        try:
            recorded = recording.read_recordings(Path(setting.path))
        except OSError as error:
            problem = error.strerror or type(error).__name__
        if problem:
            raise JudgeFailed(failures.failure(JudgeFailureKind.NOT_CONFIGURED, setting, detail=problem))
        return ReplayJudge(setting, recorded)


class ReplayJudge:
    """Answers what was recorded for exactly this question, and nothing else."""

    def __init__(self, setting: JudgeSetting, recorded: Mapping[str, Entry]) -> None:
        self._setting = setting
        self._recorded = recorded

    def ask(self, request: JudgeRequest) -> JudgeReply:
        """See `plugins.Judge`. The reply is `cached`: it costs nothing."""
        entry = self._recorded.get(entries.address(request))
        if entry is None:
            detail = f"{request.criterion}, sample {request.sample + 1}: the answer, the prompt or the options changed"
            raise JudgeFailed(failures.failure(JudgeFailureKind.NO_RECORDING, self._setting, detail=detail))
        return entry.reply

    def close(self) -> None:
        """See `plugins.Judge`."""


DRIVER = Driver()
