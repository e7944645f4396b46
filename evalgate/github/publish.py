"""Telling the pull request: its comment and its check run, while the gate runs and when it has
decided.

Nothing here changes a verdict: what cannot be posted is a problem to show, and the job summary has
it all. A thread of its own speaks with GitHub, so that no trial ever waits for it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from evalgate import errors
from evalgate.config.context import Watcher
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError, ExitCode, Problem
from evalgate.github import check_run, comment as github_comment
from evalgate.github.check_run import Conclusion, Output
from evalgate.github.client import CheckRun, Client, GitHubFailed
from evalgate.github.comment import Job
from evalgate.model import AgentFailure, Outcome, Report, TrialKey, VerdictKind
from evalgate.reports import comment, moved, view, wording
from evalgate.reports.view import Remark
from evalgate.text import markdown, plain, words
from evalgate.values import Environ, frozen_dataclass

FAREWELL_S = 3.0
"""What a cancelled run may wait for a request under way and for each of its last ones: runners kill
within seconds."""
PATIENCE_S = 30.0
"""The same for a run that ends for another reason."""

PUBLISHING_S = 75.0
"""What all posting may take once the verdict is there. The longest wait that makes sense is the
minute that GitHub asks for at a secondary limit; a GitHub that does not answer must not hold the
runner for longer than that and a few tries. """

QUIET_S = 60.0
EVERY_S = 30.0
SHARE = 0.05
"""Progress is shown after the first minute, then every half minute or a twentieth of the run's time
(the longer)."""

_TITLE_WIDTH = 200
_REASON_WIDTH = 2_000


def job_of(environ: Environ, settings: Settings, *, address: str) -> Job:
    """The job that a runner's environment describes."""
    texts = (environ.get(f"GITHUB_RUN_{name}", "") for name in ("ID", "ATTEMPT"))
    run, attempt = (int(text) if text.isascii() and text.isdigit() else 0 for text in texts)
    return Job(name=settings.name, run=run, attempt=attempt, address=address)


def check_name(job: Job) -> str:
    """The job's check run: what branch protection asks for."""
    return f"{check_run.NAME}: {job.name}" if job.name else check_run.NAME


@frozen_dataclass
class Decided:
    """A verdict, ready to be posted. `create`: make a comment if it is missing."""

    conclusion: Conclusion
    output: Output
    annotations: tuple[Remark, ...]
    create: bool


def decided(report: Report, *, comment_rule: str, redact: Callable[[str], str] = str) -> Decided:
    """The texts to post for a report, rendered while its conversations can be read.

    `comment_rule`: the setting `comment`. `redact`: removes secrets."""
    headline = wording.headline(report) if report.run.complete else "cancelled"
    title = plain.clip_end(plain.one_line(f"{headline}: {report.verdict.reason}"), _TITLE_WIDTH)
    summary, details = (
        redact(render(report)) for render in (comment.render_head, comment.render_body)
    )
    output = Output(title=redact(title), summary=[summary], text=[details])
    return Decided(
        conclusion=conclusion_of(report),
        output=output,
        annotations=view.remarks(report),
        create=is_worth_a_comment(report, comment_rule),
    )


def undecided(reason: str) -> Output:
    """The check run of a run that came to no verdict."""
    return Output(
        title=plain.clip_end(plain.one_line(f"no verdict: {reason}"), _TITLE_WIDTH),
        summary=[_failure_alert(reason)],
    )


def is_worth_a_comment(report: Report, comment_rule: str) -> bool:
    """True if a missing comment is to be made; an existing one is always updated.

    `changes`: a case flipped, the run failed or could not be measured, or the change relaxes its
    own rules. A canceled run makes no comment: mostly a newer push canceled it, and its own run
    will."""
    if not report.run.complete:
        return False
    failed = report.verdict.kind is not VerdictKind.PASS
    if comment_rule == "always":
        return True
    if comment_rule == "failures":
        return failed
    comparison = report.comparison
    turned = comparison is not None and any(case.broken or case.fixed for case in comparison.cases)
    turned = turned or report.edits.decide or moved.notable(view.of(report)) is not None
    return comment_rule == "changes" and (failed or turned)


def conclusion_of(report: Report) -> Conclusion:
    """How the check run ends: what the policy lets through never blocks a required check, if its
    files could be written."""
    verdict = report.verdict
    if not report.run.complete:
        return Conclusion.CANCELLED
    lacks_files = report.exit_code is ExitCode.NOT_MEASURED and report.run.shard is None
    if lacks_files and not verdict.blocks:
        return Conclusion.ACTION_REQUIRED
    if not verdict.blocks and (verdict.kind is not VerdictKind.PASS or report.edits.decide):
        return Conclusion.NEUTRAL
    if verdict.kind is VerdictKind.PASS:
        return Conclusion.SUCCESS
    return (
        Conclusion.ACTION_REQUIRED
        if verdict.blocked_by is VerdictKind.NOT_MEASURED
        else Conclusion.FAILURE
    )


def _failure_alert(reason: str) -> str:
    text = markdown.prose(plain.keep_advice(plain.one_line(reason), _REASON_WIDTH))
    return markdown.alert("CAUTION", f"**No verdict**: {text}")


class Posting:
    """The comment and the check run of one gate: `start`, `prepare` and `finish`; else `give_up`.

    The settings that the run was started with apply until a report says which ones decide.
    `head_sha`: the commit that is judged; `number`: its pull request, None if it has no pull
    request; `redact` takes secrets out of the posted report."""

    def __init__(
        self,
        client: Client,
        job: Job,
        settings: Settings,
        *,
        head_sha: str,
        number: int | None,
        clock: Callable[[], float] = time.monotonic,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._client = client
        self._job = job
        self._redact = redact
        self._head_sha = head_sha
        self._number = number
        self._comment: str = settings.comment if number is not None else "off"
        self._may_check = bool(head_sha)
        self._wants_check = settings.check_run and self._may_check
        self._now = clock
        self._check: CheckRun | None = None
        self._completed = False
        self._tells_progress = True
        self._decided: Decided | None = None
        self._problems: list[Problem] = []
        self._requests: queue.Queue[Callable[[], object] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="posting", daemon=True)

    def start(self) -> None:
        """Show that the gate runs; returns at once."""
        if self._wants_check:
            self._requests.put(self._begin_check)
        self._thread.start()

    def watch(self, watcher: Watcher) -> Watcher:
        """The watcher, which reports progress here as well."""
        return ProgressWatcher(watcher, self._tell_progress, clock=self._now)

    def prepare(self, report: Report) -> None:
        """Take the report in: its conversations can be read now, and not any more when the run is
        over."""
        if report.comment and self._number is not None:
            self._comment = report.comment
        self._wants_check = self._wants_check or (report.check_run and self._may_check)
        self._decided = decided(report, comment_rule=self._comment, redact=self._redact)

    def finish(self) -> tuple[Problem, ...]:
        """Post what was prepared, and wait until that is done, for PUBLISHING_S at most; what could
        not be posted."""
        self._tells_progress = False
        self._client.end_within(PUBLISHING_S)
        ready = self._decided
        if ready is not None:
            headline = ready.output.summary[0]
            details = ready.output.text[0]
            self._requests.put(lambda: self._end_check(self._client, ready))
            self._requests.put(
                lambda: self._end_comment(self._client, headline, details, create=ready.create)
            )
        self._requests.put(None)
        self._thread.join(PUBLISHING_S + FAREWELL_S)
        # some waits know no limit: a host's name that is looked up, for one
        if self._thread.is_alive():
            self._warn(f"not everything was posted: GitHub did not answer for {PUBLISHING_S:.0f} s")
        elif not self._requests.empty():
            self._warn("not everything was posted: internal error, see the traceback above")
        return tuple(self._problems)

    def give_up(self, reason: str, *, hurried: bool) -> tuple[Problem, ...]:
        """The run ends before its verdict is posted: the check run must not stay in progress for
        ever, and a comment that is there must not go on saying what an earlier run found.
        `hurried`: the runner is about to kill us."""
        self._tells_progress = False
        with suppress(queue.Empty):
            while True:
                self._requests.get_nowait()
        self._requests.put(None)
        wait_s = FAREWELL_S if hurried else PATIENCE_S
        if self._thread.is_alive():
            self._thread.join(wait_s)
        # the other may still be waiting for an answer
        client = self._client.copy(timeout_s=wait_s, patience_s=0.0 if hurried else wait_s)
        client.end_within(2 * wait_s)
        try:
            # a verdict stays valid if the process crashes after it
            if self._decided is not None and hurried:
                self._end_check(client, self._decided)
                return tuple(self._problems)
            if self._check is not None:
                conclusion = Conclusion.CANCELLED if hurried else Conclusion.FAILURE
                self._complete(client, self._check, conclusion, undecided(reason))
            address = self._job.address
            log = (
                f" See the log of {markdown.link('this workflow run', address)}." if address else ""
            )
            # what an earlier run said does not stand any more
            self._end_comment(client, _failure_alert(reason) + log, create=not hurried)
        finally:
            client.close()
        return tuple(self._problems)

    def close(self) -> None:
        """Let go of the connection, unless a request is still under way."""
        if not self._thread.is_alive():
            self._client.close()

    def _tell_progress(self, done: int, total: int) -> None:
        # skipped while earlier requests are still queued
        if self._tells_progress and self._requests.unfinished_tasks == 0:
            self._requests.put(lambda: self._show_progress(done, total))

    # --- on the thread of its own ---

    def _work(self) -> None:
        while (request := self._requests.get()) is not None:
            request()
            self._requests.task_done()

    def _begin_check(self) -> None:
        with suppress(EvalgateError):  # the verdict tries again, and tells
            self._start_check(self._client)

    def _start_check(self, client: Client) -> None:
        output = Output(title="in progress", summary=["The gate is running."])
        name = check_name(self._job)
        address = self._job.address
        try:
            self._check = check_run.start(
                client, head_sha=self._head_sha, output=output, name=name, details_url=address
            )
        except GitHubFailed as failed:
            if not failed.not_permitted:
                raise
            self._wants_check = self._may_check = False
            self._problems.append(
                errors.note("not-posted", f"no check run: {failed.message}", hint=failed.hint)
            )

    def _show_progress(self, done: int, total: int) -> None:
        """Tell how far it is. The first failure is the last try."""
        if not self._tells_progress:
            return
        text = markdown.alert(
            "NOTE", f"In progress: {done:,} of {words.counted(total, 'case run')}."
        )
        try:
            if self._check is not None:
                output = Output(title=f"in progress, {done:,}/{total:,}", summary=[text])
                check_run.update(self._client, self._check, output)
            if self._comment == "always":
                self._write(self._client, text, create=True)
        except EvalgateError:
            self._tells_progress = False

    def _end_check(self, client: Client, ready: Decided) -> None:
        if not self._wants_check or self._completed:
            return
        if self._check is None:
            try:
                self._start_check(client)
            except EvalgateError as error:
                self._warn(f"the check run could not be posted: {error.message}", error.hint)
        if self._check is not None:
            self._complete(client, self._check, ready.conclusion, ready.output, ready.annotations)

    def _complete(
        self,
        client: Client,
        check: CheckRun,
        conclusion: Conclusion,
        output: Output,
        remarks: tuple[Remark, ...] = (),
    ) -> None:
        try:
            check_run.complete(
                client, check, conclusion=conclusion, output=output, annotations=remarks
            )
            self._completed = True
        except EvalgateError as error:
            self._warn(f"the check run could not be posted: {error.message}", error.hint)

    def _end_comment(
        self, client: Client, headline: str, details: str = "", *, create: bool
    ) -> None:
        if self._comment == "off":
            return
        try:
            self._write(client, headline, details, create=create)
        except EvalgateError as error:
            self._warn(f"the comment could not be posted: {error.message}", error.hint)

    def _write(self, client: Client, headline: str, details: str = "", *, create: bool) -> None:
        if self._number is not None:
            text = github_comment.render(self._job, headline=headline, details=details)
            github_comment.post(client, self._number, self._job.name, text, create=create)

    def _warn(self, message: str, hint: str = "") -> None:
        self._problems.append(errors.warning("not-posted", message, hint=hint))


class ProgressWatcher:
    """A watcher that hands on, counts, and calls `tell(done, total)` once a run is long, then ever
    more seldom."""

    def __init__(
        self, inner: Watcher, tell: Callable[[int, int], object], *, clock: Callable[[], float]
    ) -> None:
        self._inner = inner
        self._tell = tell
        self._now = clock
        self._started = clock()
        self._told: float | None = None
        self._total = 0
        self._done = 0
        self._lock = threading.Lock()

    def begin(self, *, trials: int, done: int, reason: str = "") -> None:
        """See Watcher; further runs add to the first ones."""
        with self._lock:
            self._total += trials
            self._done += done
        self._inner.begin(trials=trials, done=done, reason=reason)

    def trial_done(
        self, key: TrialKey, outcome: Outcome | AgentFailure, seconds: float, **more: Any
    ) -> None:
        """See Watcher."""
        self._inner.trial_done(key, outcome, seconds, **more)
        with self._lock:
            self._done += 1
            moment = self._now()
            elapsed = moment - self._started
            due = self._told is None or moment - self._told >= max(EVERY_S, elapsed * SHARE)
            if due and elapsed >= QUIET_S and self._done < self._total:
                self._told = moment
                self._tell(self._done, self._total)

    def say(self, line: str) -> None:
        """See Watcher."""
        self._inner.say(line)

    def end(self) -> None:
        """See Watcher."""
        self._inner.end()
