"""Telling the pull request: its comment and its check run, while the gate runs and when it has decided.

Nothing here changes a verdict: what cannot be posted is a problem to show, and the job summary has it all. A thread of
its own speaks with GitHub, so that no trial ever waits for it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError, Problem, Severity
from evalgate.github import check_run
from evalgate.github import comment as github_comment
from evalgate.github.check_run import Conclusion, Output
from evalgate.github.client import CheckRun, Client, GitHubFailed
from evalgate.github.comment import Job
from evalgate.model import AgentFailure, Outcome, Report, TrialKey, VerdictKind
from evalgate.model.watcher import Watcher
from evalgate.reports import comment, view, wording
from evalgate.reports.view import Remark
from evalgate.text import markdown, plain, words

FAREWELL_S = 3.0
"""What a run that is cancelled may wait for a request that is under way, and for each of its last ones: a runner kills
within seconds."""
PATIENCE_S = 30.0
"""The same for a run that ends for another reason."""

PUBLISHING_S = 75.0
"""What all posting may take once the verdict is there. The longest wait that makes sense is the minute that GitHub asks
for at a secondary limit; a GitHub that does not answer must not hold the runner for longer than that and a few tries.
"""

QUIET_S, EVERY_S, SHARE = 60.0, 30.0, 0.05
"""Progress is told after the first minute, then every half minute, or twentieth of the time that the run has taken."""

_TITLE_WIDTH = 200
_REASON_WIDTH = 2_000


def job_of(environ: Mapping[str, str], settings: Settings, *, address: str) -> Job:
    """The job that a runner's environment describes."""
    run, attempt = (environ.get(f"GITHUB_RUN_{name}", "") for name in ("ID", "ATTEMPT"))
    return Job(name=settings.name, run=_number(run), attempt=_number(attempt), address=address)


def check_name(job: Job) -> str:
    """The job's check run: what branch protection asks for."""
    return f"{check_run.NAME}: {job.name}" if job.name else check_run.NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A verdict, ready to be posted. `create`: whether a comment is to be made where there is none."""

    conclusion: Conclusion
    output: Output
    annotations: tuple[Remark, ...]
    create: bool


def decided(report: Report, *, when: str) -> Decided:
    """What is posted of a report, rendered while its conversations can be read; `when`: the setting `comment`."""
    headline = wording.headline(report.verdict) if report.run.complete else "cancelled"
    title = plain.clip_end(plain.one_line(f"{headline}: {report.verdict.reason}"), _TITLE_WIDTH)
    output = Output(title=title, summary=[comment.render_head(report)], text=[comment.render_rest(report)])
    return Decided(
        conclusion=conclusion_of(report),
        output=output,
        annotations=view.remarks(report),
        create=is_worth_a_comment(report, when),
    )


def render_progress(done: int, total: int) -> str:
    """What the comment and the check run say meanwhile."""
    return markdown.alert("NOTE", f"In progress: {done:,} of {words.counted(total, 'case run')}.")


def undecided(reason: str) -> Output:
    """The check run of a run that came to no verdict."""
    return Output(title=plain.clip_end(plain.one_line(f"no verdict: {reason}"), _TITLE_WIDTH), summary=[_why(reason)])


def comment_undecided(job: Job, reason: str) -> str:
    """The comment of a run that came to no verdict: what an earlier run said does not stand any more."""
    log = f" See the log of {markdown.link('this workflow run', job.address)}." if job.address else ""
    return _why(reason) + log


def is_worth_a_comment(report: Report, when: str) -> bool:
    """Whether a comment is to be made where there is none; one that is there is always brought up to date.

    `changes`: something turned, failed or could not be measured, or the change lowers its own bar. A run that was
    cancelled makes none: mostly a newer push did that, and its own run will speak.
    """
    if not report.run.complete:
        return False
    failed = report.verdict.kind is not VerdictKind.PASS
    if when == "always":
        return True
    if when == "failures":
        return failed
    comparison = report.comparison
    turned = comparison is not None and (
        bool(comparison.relaxed) or any(case.broken or case.fixed for case in comparison.cases)
    )
    return when == "changes" and (failed or turned)


def conclusion_of(report: Report) -> Conclusion:
    """How the check run ends: what the policy lets through never blocks a required check."""
    verdict = report.verdict
    if not report.run.complete:
        return Conclusion.CANCELLED
    if verdict.kind is VerdictKind.PASS:
        return Conclusion.SUCCESS
    if not verdict.blocks:
        return Conclusion.NEUTRAL
    return Conclusion.ACTION_REQUIRED if verdict.blocked_by is VerdictKind.NOT_MEASURED else Conclusion.FAILURE


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _why(reason: str) -> str:
    said = markdown.prose(plain.clip_end(plain.one_line(reason), _REASON_WIDTH))
    return markdown.alert("CAUTION", f"**No verdict**: {said}")


class Posting:
    """The comment and the check run of one gate: `start`, `prepare` and `finish`; `give_up` where it does not come to
    that.

    `head_sha`: the commit that is judged; `number`: of its pull request, None where there is none.
    """

    def __init__(
        self,
        client: Client,
        job: Job,
        settings: Settings,
        *,
        head_sha: str,
        number: int | None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._job = job
        self._head_sha = head_sha
        self._number = number
        self._comment = settings.comment if number is not None else "off"
        self._wants_check = settings.check_run and bool(head_sha)
        self._now = now
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
        """The watcher, which tells of progress here as well."""
        return ProgressWatcher(watcher, self._tell_progress, now=self._now)

    def prepare(self, report: Report) -> None:
        """Take the report in: its conversations can be read now, and not any more when the run is over."""
        self._decided = decided(report, when=self._comment)

    def finish(self) -> tuple[Problem, ...]:
        """Post what was prepared, and wait until that is done, for PUBLISHING_S at most; what could not be posted."""
        self._tells_progress = False
        self._client.end_within(PUBLISHING_S)
        ready = self._decided
        if ready is not None:
            headline, details = ready.output.summary[0], ready.output.text[0]
            self._requests.put(lambda: self._end_check(self._client, ready))
            self._requests.put(lambda: self._end_comment(self._client, headline, details, create=ready.create))
        self._requests.put(None)
        self._thread.join(PUBLISHING_S + FAREWELL_S)
        if self._thread.is_alive():  # some waits know no limit: a host's name that is looked up, for one
            self._problem(f"not everything was posted: GitHub did not answer for {PUBLISHING_S:.0f} s")
        elif not self._requests.empty():
            self._problem("not everything was posted: internal error, see the traceback above")
        return tuple(self._problems)

    def give_up(self, reason: str, *, hurried: bool) -> tuple[Problem, ...]:
        """The run ends before its verdict is posted: the check run must not stay in progress for ever, and a comment
        that is there must not go on saying what an earlier run found. `hurried`: the runner is about to kill us.
        """
        self._tells_progress = False
        while not self._requests.empty():
            try:
                self._requests.get_nowait()
            except queue.Empty:
                break
        self._requests.put(None)
        wait_s = FAREWELL_S if hurried else PATIENCE_S
        if self._thread.is_alive():
            self._thread.join(wait_s)
        # the other may still be waiting for an answer
        client = self._client.copy(timeout_s=wait_s, patience_s=0.0 if hurried else wait_s)
        client.end_within(2 * wait_s)
        try:
            if self._decided is not None and hurried:  # a verdict that was reached stands; a crash after it is none
                self._end_check(client, self._decided)
                return tuple(self._problems)
            if self._check is not None:
                conclusion = Conclusion.CANCELLED if hurried else Conclusion.FAILURE
                self._complete(client, self._check, conclusion, undecided(reason))
            self._end_comment(client, comment_undecided(self._job, reason), create=not hurried)
        finally:
            client.close()
        return tuple(self._problems)

    def close(self) -> None:
        """Let go of the connection, unless a request is still under way."""
        if not self._thread.is_alive():
            self._client.close()

    def _tell_progress(self, done: int, total: int) -> None:
        """Have it told, unless there is something to tell that nobody has told yet."""
        if self._tells_progress and self._requests.unfinished_tasks == 0:
            self._requests.put(lambda: self._show_progress(done, total))

    # --- on the thread of its own ---

    def _work(self) -> None:
        while (request := self._requests.get()) is not None:
            request()
            self._requests.task_done()

    def _begin_check(self) -> None:
        try:
            self._start_check(self._client)
        except EvalgateError:
            return  # the verdict tries again, and tells

    def _start_check(self, client: Client) -> None:
        output = Output(title="in progress", summary=["The gate is running."])
        name, address = check_name(self._job), self._job.address
        try:
            self._check = check_run.start(
                client, head_sha=self._head_sha, output=output, name=name, details_url=address
            )
        except GitHubFailed as failed:
            if not failed.not_permitted:
                raise
            self._wants_check = False
            self._problem(f"no check run: {failed.message}", failed.hint, severity=Severity.NOTE)

    def _show_progress(self, done: int, total: int) -> None:
        """Tell how far it is. The first failure is the last try."""
        if not self._tells_progress:
            return
        text = render_progress(done, total)
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
                self._failed("check run", error)
        if self._check is not None:
            self._complete(client, self._check, ready.conclusion, ready.output, ready.annotations)

    def _complete(
        self,
        client: Client,
        check: CheckRun,
        conclusion: Conclusion,
        output: Output,
        annotations: tuple[Remark, ...] = (),
    ) -> None:
        try:
            check_run.complete(client, check, conclusion=conclusion, output=output, annotations=annotations)
            self._completed = True
        except EvalgateError as error:
            self._failed("check run", error)

    def _end_comment(self, client: Client, headline: str, details: str = "", *, create: bool) -> None:
        if self._comment == "off":
            return
        try:
            self._write(client, headline, details, create=create)
        except EvalgateError as error:
            self._failed("comment", error)

    def _write(self, client: Client, headline: str, details: str = "", *, create: bool) -> None:
        if self._number is not None:
            text = github_comment.render(self._job, headline=headline, details=details)
            github_comment.post(client, self._number, self._job.name, text, create=create)

    def _failed(self, what: str, error: EvalgateError) -> None:
        self._problem(f"the {what} could not be posted: {error.message}", error.hint)

    def _problem(self, message: str, hint: str = "", *, severity: Severity = Severity.WARNING) -> None:
        self._problems.append(Problem(severity=severity, code="not-posted", message=message, hint=hint))


class ProgressWatcher:
    """A watcher that hands on, counts, and calls `tell(done, total)` once a run is long, then ever more seldom."""

    def __init__(self, inner: Watcher, tell: Callable[[int, int], object], *, now: Callable[[], float]) -> None:
        self._inner = inner
        self._tell = tell
        self._now = now
        self._started = now()
        self._told: float | None = None
        self._total = 0
        self._done = 0
        self._lock = threading.Lock()

    def begin(self, *, trials: int, done: int) -> None:
        """See Watcher; further runs add to the first ones."""
        with self._lock:
            self._total += trials
            self._done += done
        self._inner.begin(trials=trials, done=done)

    def trial_done(self, key: TrialKey, outcome: Outcome | AgentFailure, seconds: float) -> None:
        """See Watcher."""
        self._inner.trial_done(key, outcome, seconds)
        with self._lock:
            self._done += 1
            if self._is_time():
                self._told = self._now()
                self._tell(self._done, self._total)

    def say(self, line: str) -> None:
        """See Watcher."""
        self._inner.say(line)

    def end(self) -> None:
        """See Watcher."""
        self._inner.end()

    def _is_time(self) -> bool:
        now = self._now()
        elapsed = now - self._started
        if self._done >= self._total or elapsed < QUIET_S:
            return False
        return self._told is None or now - self._told >= max(EVERY_S, elapsed * SHARE)
