"""The check run `evalgate`: in progress, then a conclusion, with annotations, within GitHub's limits."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from evalgate.errors import EvalgateError
from evalgate.github import client as github_client
from evalgate.github.client import CheckReply, Client, FailureKind, GitHubFailed
from evalgate.text import markdown, plain, words

NAME: Final = "evalgate"
MOST_BYTES: Final = 65_535
BATCH: Final = 50
MOST_ANNOTATIONS: Final = 500
QUIET_S = 60.0
EVERY_S = 30.0
SHARE = 0.05
_LONGEST_TITLE = 255
_LONGEST_MESSAGE_BYTES = 8 * 1024  # GitHub takes 64 KB; nobody reads that beside a line


class Conclusion(enum.StrEnum):
    """How a check run ends; the verdict decides, by policy."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"  # inconclusive; does not block a required check
    ACTION_REQUIRED = "action_required"  # not measured, where a person has to do something
    CANCELLED = "cancelled"  # somebody, or a newer push, ended the run


class Level(enum.StrEnum):
    """How an annotation is shown."""

    FAILURE = "failure"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A remark at a line of a file, counted from 1."""

    path: str
    line: int
    message: str
    title: str = ""
    level: Level = Level.FAILURE
    end_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a check run shows: a title, and Markdown in parts, the most important first. Parts that do not fit are
    left out, and `where` says where they can be read."""

    title: str
    summary: Sequence[str]
    text: Sequence[str] = ()
    where: str = "the job summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """A check run that is there; `left_out` annotations found no room or no favour with GitHub."""

    id: int
    url: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPermitted:
    """The token may not write check runs: the job's own status has to do. In words for people."""

    message: str
    hint: str


def start(
    client: Client, *, head_sha: str, output: Output, name: str = NAME, details_url: str = ""
) -> CheckRun | NotPermitted:
    """Create it, in progress. Raises GitHubFailed for anything but a missing permission."""
    body = {"name": name, "head_sha": head_sha, "status": "in_progress", "started_at": _moment()}
    link = {"details_url": details_url} if details_url else {}
    return _create(client, {**body, **link, "output": _shown(output)})


def update(client: Client, check: CheckRun, output: Output) -> None:
    """Show how far it is. Raises GitHubFailed."""
    body = {"status": "in_progress", "output": _shown(output)}
    client.send(github_client.UPDATE_CHECK, CheckReply, body=body, check_run_id=check.id)


def complete(
    client: Client, check: CheckRun, *, conclusion: Conclusion, output: Output, annotations: Sequence[Annotation] = ()
) -> CheckRun:
    """End it; `annotations` most important first. Raises GitHubFailed.

    The conclusion goes out with the first fifty annotations, or without any, should GitHub refuse those: it never waits
    for them. The rest is added fifty by fifty.
    """
    batches = _batches(annotations)
    ending = {"status": "completed", "conclusion": conclusion.value, "completed_at": _moment()}
    shown = _shown(output)
    first = [_row(each) for each in batches[0]] if batches else []
    try:
        reply = _patch(client, check.id, {**ending, "output": {**shown, "annotations": first}})
        left = len(annotations) - len(first)
    except GitHubFailed as failed:
        if failed.kind is not FailureKind.INVALID or not first:
            raise
        reply = _patch(client, check.id, {**ending, "output": shown})
        left = len(annotations)
    for batch in batches[1:]:
        try:
            _patch(client, check.id, {"output": {**shown, "annotations": [_row(each) for each in batch]}})
        except GitHubFailed as failed:
            if failed.kind is not FailureKind.INVALID:
                break  # limits, faults: the verdict stands there, and that is what counts
            continue
        left -= len(batch)
    return CheckRun(id=check.id, url=reply.html_url or check.url, left_out=left)


def publish(
    client: Client,
    *,
    head_sha: str,
    conclusion: Conclusion,
    output: Output,
    annotations: Sequence[Annotation] = (),
    name: str = NAME,
    details_url: str = "",
) -> CheckRun | NotPermitted:
    """Create and end it at once, where nothing was started. Raises GitHubFailed."""
    begun = start(client, head_sha=head_sha, output=output, name=name, details_url=details_url)
    if isinstance(begun, NotPermitted):
        return begun
    return complete(client, begun, conclusion=conclusion, output=output, annotations=annotations)


def fit(parts: Sequence[str], *, where: str, most_bytes: int = MOST_BYTES) -> str:
    """The parts that fit into `most_bytes` of UTF-8, in their order, and a note on those that do not.

    A first part that alone is too large is cut at the end of a line.
    """
    told = [part for part in parts if part.strip()]
    text = "\n\n".join(told)
    if _size(text) <= most_bytes:
        return text
    note = f"_{{}} left out here for want of room: see {where}._"
    room = most_bytes - _size(note) - 20
    kept: list[str] = []
    for part in told:
        if _size(part) + 2 <= room:
            kept.append(part)
            room -= _size(part) + 2
    left_out = note.format(words.counted(len(told) - len(kept), "section"))
    if not kept:
        kept, left_out = [_cut(told[0], room)], note.format("The rest")
    return "\n\n".join([*kept, left_out])


class Progress:
    """Calls `tell(done, total)` once a run is long, then at most every half minute, and ever more seldom.

    The first failure is the last try: a run never waits for a comment that cannot be written.
    """

    def __init__(self, tell: Callable[[int, int], object], *, now: Callable[[], float]) -> None:
        self._tell = tell
        self._now = now
        self._started = now()
        self._told: float | None = None
        self.failure: EvalgateError | None = None

    def report(self, done: int, total: int) -> bool:
        """Tell, if it is time; whether it was told."""
        now = self._now()
        elapsed = now - self._started
        if self.failure is not None or done >= total or elapsed < QUIET_S:
            return False
        if self._told is not None and now - self._told < max(EVERY_S, elapsed * SHARE):
            return False
        self._told = now
        try:
            self._tell(done, total)
        except EvalgateError as failure:
            self.failure = failure
            return False
        return True


def render_progress(done: int, total: int) -> str:
    """What the comment and the check run say meanwhile."""
    return markdown.alert("NOTE", f"In progress: {done:,}/{words.counted(total, 'run')} of cases.")


def _create(client: Client, body: Mapping[str, Any]) -> CheckRun | NotPermitted:
    try:
        reply = client.send(github_client.CREATE_CHECK, CheckReply, body=body)
    except GitHubFailed as failed:
        if failed.not_permitted:
            return NotPermitted(message=failed.message, hint=failed.hint)
        raise
    return CheckRun(id=reply.id, url=reply.html_url or "")


def _patch(client: Client, check_id: int, body: Mapping[str, Any]) -> CheckReply:
    return client.send(github_client.UPDATE_CHECK, CheckReply, body=body, check_run_id=check_id)


def _shown(output: Output) -> dict[str, Any]:
    shown = {"title": plain.label(output.title, _LONGEST_TITLE), "summary": fit(output.summary, where=output.where)}
    return {**shown, "text": fit(output.text, where=output.where)} if output.text else shown


def _batches(annotations: Sequence[Annotation]) -> list[Sequence[Annotation]]:
    kept = annotations[:MOST_ANNOTATIONS]
    return [kept[at : at + BATCH] for at in range(0, len(kept), BATCH)]


def _row(annotation: Annotation) -> dict[str, Any]:
    row: dict[str, Any] = {
        "path": annotation.path,
        "start_line": annotation.line,
        "end_line": annotation.end_line or annotation.line,
        "annotation_level": annotation.level.value,
        "message": _cut(plain.visible(annotation.message), _LONGEST_MESSAGE_BYTES) or "(empty)",
    }
    return {**row, "title": plain.label(annotation.title, _LONGEST_TITLE)} if annotation.title else row


def _moment() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _cut(text: str, most_bytes: int) -> str:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most_bytes:
        return text
    kept = encoded[: max(most_bytes, 0)].decode("utf-8", "ignore")
    return kept.rpartition("\n")[0] or kept
