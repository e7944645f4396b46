"""The check run `evalgate`: in progress, then a conclusion with annotations, within GitHub's
limits."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import UTC, datetime

from evalgate.errors import Severity
from evalgate.reports.annotations import Remark
from evalgate.text import plain
from evalgate.values import Json, JsonObject, frozen_dataclass
from . import client as github_client
from .client import CheckRun, Client, GitHubFailed, GitHubFault

NAME = "evalgate"
"""The name of the check run; a gate with a name appends its own. Branch protection requires it."""
MOST_BYTES = 65_535
"""GitHub's limit for `summary` and for `text`, counted in bytes of UTF-8 to be safe."""
BATCH = 50
"""GitHub's limit of annotations per request."""
MOST_ANNOTATIONS = 500
"""Ours, of ten requests: the least important ones are left out."""
_LEVELS = {Severity.ERROR: "failure", Severity.WARNING: "warning"}
"""GitHub's `annotation_level` by severity; a remark is an error or a warning."""
_LONGEST_TITLE = 255
"""In characters: of a check run and of an annotation."""
_CUT_NOTE = "\n\n_The rest was left out because of GitHub's size limit: see the job summary._"
"""The end of a text that was cut. ASCII, since its length is subtracted from a number of bytes."""
_LONGEST_MESSAGE_BYTES = 8 * 1024
"""Of an annotation, in UTF-8: GitHub takes 64 KB, which is too long beside a line."""


class Conclusion(enum.StrEnum):
    """The conclusion of a check run, by the verdict and the policy."""

    SUCCESS = "success"
    """A pass by rules that the change does not relax."""
    FAILURE = "failure"
    """A verdict that blocks, or a run that broke off; blocks a required check."""
    NEUTRAL = "neutral"
    """A result that does not block, not even a required check."""
    ACTION_REQUIRED = "action_required"
    """Not measured, and a person has to act."""
    CANCELLED = "cancelled"
    """A person, or a newer push, ended the run."""


@frozen_dataclass
class Output:
    """The content of a check run."""

    title: str
    """Plain text; it is cut to 255 characters when it is sent."""
    summary: str
    """Markdown."""
    text: str = ""
    """Markdown, shown below the summary."""


def start(
    client: Client, *, head_sha: str, output: Output, name: str = NAME, details_url: str = ""
) -> CheckRun:
    """Create the check run, in progress. Raises GitHubFailed."""
    body: JsonObject = {
        "name": name,
        "head_sha": head_sha,
        "status": "in_progress",
        "started_at": _timestamp(),
        "output": _output_json(output),
    }
    if details_url:
        body["details_url"] = details_url
    return client.call(github_client.CREATE_CHECK, CheckRun, body=body)


def update(client: Client, check: CheckRun, output: Output) -> None:
    """Show the progress. Raises GitHubFailed."""
    _update(client, check, {"status": "in_progress", "output": _output_json(output)})


def complete(
    client: Client,
    check: CheckRun,
    *,
    conclusion: Conclusion,
    output: Output,
    annotations: Sequence[Remark] = (),
) -> None:
    """Complete the check run; `annotations`: most important first. Raises GitHubFailed.

    The conclusion is sent with the first fifty annotations, or without any if GitHub refuses them;
    the others follow."""
    rows = [_row(remark) for remark in annotations[:MOST_ANNOTATIONS]]
    ending = {"status": "completed", "conclusion": conclusion.value, "completed_at": _timestamp()}
    document = _output_json(output)
    try:
        _update(client, check, {**ending, "output": {**document, "annotations": rows[:BATCH]}})
    except GitHubFailed as error:
        if error.kind is not GitHubFault.INVALID or not rows:
            raise
        _update(client, check, {**ending, "output": document})
    for start in range(BATCH, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        try:
            _update(client, check, {"output": {**document, "annotations": batch}})
        except GitHubFailed as error:
            if error.kind is not GitHubFault.INVALID:
                return  # limits or faults: the verdict is posted already


def fit(text: str, *, most_bytes: int = MOST_BYTES, note: str = _CUT_NOTE) -> str:
    """The text; one of more than `most_bytes` of UTF-8 is cut at the end of a line, before
    `note`."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most_bytes:
        return text
    prefix = encoded[: most_bytes - len(note)].decode("utf-8", "ignore")
    return (prefix.rpartition("\n")[0] or prefix) + note


def _update(client: Client, check: CheckRun, body: Json) -> None:
    """Change the check run; what `body` lacks stays as it is. Raises GitHubFailed."""
    client.call(github_client.UPDATE_CHECK, CheckRun, body=body, check_run_id=check.id)


def _output_json(output: Output) -> JsonObject:
    """GitHub's `output` within its limits; `text` is left out if it is empty."""
    document = {"title": plain.label(output.title, _LONGEST_TITLE), "summary": fit(output.summary)}
    return {**document, "text": fit(output.text)} if output.text else document


def _row(remark: Remark) -> JsonObject:
    """GitHub's annotation for a remark; one without a known line is shown at line 1."""
    row: JsonObject = {
        "path": remark.file,
        "start_line": remark.line or 1,
        "end_line": remark.line or 1,
        "annotation_level": _LEVELS[remark.level],
        "message": fit(plain.visible(remark.message), most_bytes=_LONGEST_MESSAGE_BYTES, note="")
        or "(empty)",
    }
    return {**row, "title": plain.label(remark.title, _LONGEST_TITLE)} if remark.title else row


def _timestamp() -> str:
    """The current time as the API expects it: ISO 8601 in UTC, without fractions of a second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
