"""Telling the pull request: its comment and its check run, while the gate runs and when it has decided.

Nothing here changes a verdict: what cannot be posted is a problem to show, and the job summary has it all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from evalgate.errors import EvalgateError, Problem, Severity
from evalgate.exhibits import remarks, sentences
from evalgate.exhibits.remarks import Remark
from evalgate.github import checks, comments, layout, progress
from evalgate.github.checks import Annotation, CheckRun, Conclusion, Level, NotPermitted, Output
from evalgate.github.client import Client
from evalgate.github.events import EventContext
from evalgate.github.layout import Section
from evalgate.github.progress import Progress
from evalgate.markup import plain
from evalgate.model import AgentFailure, Outcome, Report, TrialKey, Verdict, VerdictKind
from evalgate.plugins import Watcher
from evalgate.reports import comment as comment_report
from evalgate.settings import Settings

COMMENT_KEY = "evalgate"
WEIGHTS = {VerdictKind.PASS: 0, VerdictKind.INCONCLUSIVE: 1, VerdictKind.NOT_MEASURED: 2, VerdictKind.FAIL: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Who speaks: the names by which several gates of one pull request are told apart, and this run of theirs."""

    name: str
    workflow: str
    job: str
    run: int
    address: str = ""

    @property
    def key(self) -> str:
        """Its section in the comment."""
        return layout.key_of(self.name or f"{self.workflow} {self.job}")

    @property
    def check_name(self) -> str:
        """Its check run."""
        return f"evalgate: {self.name}" if self.name else checks.NAME


def job_of(environ: Mapping[str, str], settings: Settings, *, address: str) -> Job:
    """The job that a runner's environment describes."""
    run = environ.get("GITHUB_RUN_ID", "")
    return Job(
        name=settings.name,
        workflow=environ.get("GITHUB_WORKFLOW", ""),
        job=environ.get("GITHUB_JOB", ""),
        run=int(run) if run.isdigit() else 0,
        address=address,
    )


class Posting:
    """The comment and the check run of one gate."""

    def __init__(self, client: Client, event: EventContext, job: Job, settings: Settings) -> None:
        self._client = client
        self._event = event
        self._job = job
        self._settings = settings
        self._check: CheckRun | None = None
        self._problems: list[Problem] = []
        self._lock = threading.Lock()

    def start(self) -> None:
        """Show that the gate runs."""
        if not self._settings.check_run or not self._event.head_sha:
            return
        output = Output(title="in progress", summary=["The gate is running."])
        try:
            begun = checks.start(
                self._client,
                head_sha=self._event.head_sha,
                output=output,
                name=self._job.check_name,
                details_url=self._job.address,
            )
        except EvalgateError as error:
            self._failed("check run", error)
            return
        if isinstance(begun, NotPermitted):
            self._problems.append(_problem(f"no check run: {begun.message}", begun.hint, severity=Severity.NOTE))
        else:
            self._check = begun

    def watching(self, watcher: Watcher) -> Watcher:
        """The watcher, which tells of progress here as well."""
        return _Telling(watcher, Progress(self._tell_progress, now=time.monotonic))

    def finish(self, report: Report) -> tuple[Problem, ...]:
        """Post the verdict; what could not be posted."""
        try:
            self._finish_check(report)
        except EvalgateError as error:
            self._failed("check run", error)
        try:
            self._finish_comment(report)
        except EvalgateError as error:
            self._failed("comment", error)
        return tuple(self._problems)

    def give_up(self, reason: str) -> tuple[Problem, ...]:
        """There is no verdict: the check run must not stay in progress for ever."""
        if self._check is not None:
            output = Output(title="no verdict", summary=[plain.clip(reason, 2_000)])
            try:
                checks.complete(self._client, self._check, conclusion=Conclusion.FAILURE, output=output)
            except EvalgateError as error:
                self._failed("check run", error)
        return tuple(self._problems)

    def _tell_progress(self, done: int, total: int) -> None:
        with self._lock:
            said = progress.render_progress(done, total)
            if self._check is not None:
                output = Output(title=f"in progress, {done:,}/{total:,}", summary=[said])
                checks.update(self._client, self._check, output)
            if self._event.number is not None and self._settings.comment == "always":
                self._write(
                    Section(key=self._job.key, title=self._title(), headline=said, run=self._job.run), create=True
                )

    def _finish_check(self, report: Report) -> None:
        if self._check is None:
            return
        output = Output(
            title=plain.clip_end(plain.one_line(f"{sentences.headline(report.verdict)}: {report.verdict.reason}"), 200),
            summary=[comment_report.render_head(report)],
            text=[comment_report.render_rest(report)],
        )
        checks.complete(
            self._client,
            self._check,
            conclusion=conclusion_of(report.verdict),
            output=output,
            annotations=[_annotation(each) for each in remarks.collect(report)],
        )

    def _finish_comment(self, report: Report) -> None:
        if self._event.number is None or self._settings.comment == "off":
            return
        section = Section(
            key=self._job.key,
            title=self._title(),
            headline=comment_report.render_head(report),
            details=comment_report.render_rest(report),
            weight=WEIGHTS[report.verdict.kind],
            run=self._job.run,
            revision=self._event.head_sha[:7],
        )
        self._write(section, create=is_worth_a_comment(report, self._settings.comment))

    def _write(self, section: Section, *, create: bool) -> None:
        if self._event.number is None:
            return
        comments.post_section(self._client, self._event.number, section, key=COMMENT_KEY, create=create)

    def _title(self) -> str:
        return self._job.name or "evalgate"

    def _failed(self, what: str, error: EvalgateError) -> None:
        self._problems.append(_problem(f"the {what} could not be posted: {error.message}", error.hint))


def is_worth_a_comment(report: Report, when: str) -> bool:
    """Whether a comment is to be made where there is none; one that is there is always brought up to date.

    `changes`: something turned, failed or could not be measured, or the change lowers its own bar.
    """
    failed = report.verdict.kind is not VerdictKind.PASS
    if when == "always":
        return True
    if when == "failures":
        return failed
    comparison = report.comparison
    turned = comparison is not None and (
        bool(comparison.loosened) or any(case.broken or case.fixed for case in comparison.cases)
    )
    return when == "changes" and (failed or turned)


def conclusion_of(verdict: Verdict) -> Conclusion:
    """How the check run ends: what the policy lets through never blocks a required check."""
    if verdict.kind is VerdictKind.PASS:
        return Conclusion.SUCCESS
    if not verdict.blocks:
        return Conclusion.NEUTRAL
    return Conclusion.ACTION_REQUIRED if verdict.kind is VerdictKind.NOT_MEASURED else Conclusion.FAILURE


def _annotation(remark: Remark) -> Annotation:
    level = Level.FAILURE if remark.level is remarks.Level.ERROR else Level.WARNING
    return Annotation(path=remark.file, line=remark.line or 1, message=remark.message, title=remark.title, level=level)


def _problem(message: str, hint: str, *, severity: Severity = Severity.WARNING) -> Problem:
    return Problem(severity=severity, code="not-posted", message=message, hint=hint)


class _Telling:
    """A watcher that hands on, and counts."""

    def __init__(self, inner: Watcher, told: Progress) -> None:
        self._inner = inner
        self._told = told
        self._total = 0
        self._done = 0
        self._lock = threading.Lock()

    def begin(self, *, trials: int, done: int) -> None:
        """See Watcher; further runs add to the first ones."""
        self._total += trials
        self._inner.begin(trials=trials, done=done)

    def trial_done(self, key: TrialKey, outcome: Outcome | AgentFailure, seconds: float) -> None:
        """See Watcher."""
        self._inner.trial_done(key, outcome, seconds)
        with self._lock:
            self._done += 1
            done, total = self._done, self._total
            self._told.report(done, total)

    def say(self, line: str) -> None:
        """See Watcher."""
        self._inner.say(line)

    def end(self) -> None:
        """See Watcher."""
        self._inner.end()
