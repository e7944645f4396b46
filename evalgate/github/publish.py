"""Posts to the pull request: its comment and its check run, while the gate runs and after its
decision.

Nothing here changes a verdict: a failed post is a problem to show, and the job summary has
everything. A separate thread makes the requests, so that trials never wait for them."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

from evalgate import errors
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError, Problem
from evalgate.model import Report, VerdictKind
from evalgate.reports import annotations as reports_annotations, comment, view, wording
from evalgate.reports.annotations import Remark
from evalgate.text import markdown, plain, words
from evalgate.values import Environ, Redactor, frozen_dataclass
from . import check_run, comment as github_comment
from .check_run import Conclusion, Output
from .client import CheckRun, Client, GitHubFailed
from .comment import Job

CANCEL_WAIT_S = 3.0
"""The time that a cancelled run waits for a running request and for each of its last ones: runners
kill it within seconds."""
END_WAIT_S = 30.0
"""The same time for a run that ends for another reason."""

PUBLISHING_S = 75.0
"""The time of all posts after the verdict. The longest useful wait is the minute of a secondary
limit; a GitHub that does not answer must not hold the runner much longer."""

FIRST_PROGRESS_S = 60.0
"""Shorter runs show no progress."""
PROGRESS_EVERY_S = 30.0
"""The shortest pause between two updates."""
PROGRESS_SHARE = 0.05
"""Of the run's time so far: the pause between two updates, if that is longer."""

_TITLE_WIDTH = 200
"""In characters; GitHub takes 255 of a check run's title."""


def job_of(environ: Environ, settings: Settings, *, address: str) -> Job:
    """The job that a runner's environment describes."""
    texts = (environ.get(f"GITHUB_RUN_{name}", "") for name in ("ID", "ATTEMPT"))
    run, attempt = (int(text) if text.isascii() and text.isdigit() else 0 for text in texts)
    once = environ.get("EVALGATE_JOB") or uuid.uuid4().hex[:8]  # as the step's processes agree
    return Job(name=settings.name, run=run, attempt=attempt, address=address, once=once)


@frozen_dataclass
class Decided:
    """A decision, ready to be posted."""

    conclusion: Conclusion
    """Of the check run; the comment does not have it."""
    output: Output
    """Summary and text are the headline and the details of the comment, too."""
    annotations: tuple[Remark, ...] = ()
    """The most important first."""
    create: bool = False
    """Make a comment if it is missing."""


def decided(report: Report, *, comment_rule: str, redact: Redactor = str) -> Decided:
    """The texts to post for a report, rendered while its conversations can be read.

    `comment_rule`: the setting `comment`. `redact`: removes secrets."""
    headline = wording.headline(report) if report.run.complete else "cancelled"
    title = plain.clip_end(plain.one_line(f"{headline}: {report.verdict.reason}"), _TITLE_WIDTH)
    summary, details = (
        redact(render(report)) for render in (comment.render_head, comment.render_body)
    )
    output = Output(title=redact(title), summary=summary, text=details)
    return Decided(
        conclusion=conclusion_of(report),
        output=output,
        annotations=reports_annotations.remarks(report),
        create=is_worth_a_comment(report, comment_rule),
    )


def undecided(reason: str, problems: Sequence[Problem] = (), *, details: str = "") -> Output:
    """The check run of a run without a verdict. `problems`: the errors that stopped it; `details`:
    shown below."""
    return Output(
        title=plain.clip_end(plain.one_line(f"no verdict: {reason}"), _TITLE_WIDTH),
        summary=comment.render_failure(reason, problems),
        text=details,
    )


def is_worth_a_comment(report: Report, comment_rule: str) -> bool:
    """True if a missing comment is to be created; an existing one is always updated.

    `changes`: a case flipped, the run failed or could not be measured, or the change relaxes its
    own rules. A canceled run creates no comment: mostly a newer push canceled it, whose run
    will."""
    if not report.run.complete:
        return False
    has_failed = report.verdict.kind is not VerdictKind.PASS
    if comment_rule == "always":
        return True
    if comment_rule == "failures":
        return has_failed
    has_changes = (
        any(case.broken or case.fixed for case in report.compared.cases)
        or report.edits.decide
        or view.notable(view.view_of(report)) is not None
    )
    return comment_rule == "changes" and (has_failed or has_changes)


def conclusion_of(report: Report) -> Conclusion:
    """The conclusion of the check run: a non-blocking result never blocks a required check, if its
    files could be written."""
    verdict = report.verdict
    if not report.run.complete:
        return Conclusion.CANCELLED
    if report.lacks_files:
        return Conclusion.ACTION_REQUIRED
    if verdict.kind is VerdictKind.PASS and not report.is_relaxed:
        return Conclusion.SUCCESS
    if not verdict.blocks:
        return Conclusion.NEUTRAL
    return (
        Conclusion.ACTION_REQUIRED
        if verdict.blocked_by is VerdictKind.NOT_MEASURED
        else Conclusion.FAILURE
    )


class Posting:
    """The comment and the check run of one gate: `start`, `prepare` and `finish`; else `give_up`.

    The initial settings apply until a report has those that decide. `head_sha`: the judged commit;
    `number`: its pull request, or None; `suffix`: of the check run's name; `redact` removes secrets
    from what is posted."""

    def __init__(
        self,
        client: Client,
        job: Job,
        settings: Settings,
        *,
        head_sha: str,
        number: int | None,
        suffix: str = "",
        clock: Callable[[], float] = time.monotonic,
        redact: Redactor = str,
    ) -> None:
        """Makes no request yet. `clock`: monotonic seconds."""
        self._client = client
        self._job = job
        self._redact = redact
        self._head_sha = head_sha
        self._check_name = f"{check_run.NAME}{f': {job.name}' if job.name else ''}{suffix}"
        """Branch protection requires the check run by this name."""
        self._number = number
        self._comment: str = settings.comment if number is not None else "off"
        """The setting `comment`; `off` without a pull request."""
        self._may_check = bool(head_sha)
        """False without a commit, and once the permission turns out to be missing."""
        self._wants_check = settings.check_run and self._may_check
        """By the first settings; a report's settings can only add it."""
        self._now = clock
        self._started = clock()
        self._next_progress_at = self._started + FIRST_PROGRESS_S
        """In seconds of the clock."""
        self._check: CheckRun | None = None
        """None until it is created."""
        self._completed = False
        """The check run has the decision."""
        self._shows_progress = True
        """False after a failure, and from the end on."""
        self._decided: Decided | None = None
        """Set by `prepare`."""
        self._problems: list[Problem] = []
        self._requests: queue.Queue[Callable[[], object] | None] = queue.Queue()
        """For the thread, which None ends."""
        self._thread = threading.Thread(target=self._work, name="posting", daemon=True)

    def start(self) -> None:
        """Show that the gate runs; return at once."""
        if self._wants_check:
            self._requests.put(self._begin_check)
        self._thread.start()

    def show_progress(self, done: int, total: int) -> None:
        """Show the number of runs of cases, first after a minute, then ever more rarely, and not
        while earlier requests wait; return at once."""
        moment = self._now()
        if moment < self._next_progress_at or done >= total:
            return
        pause_s = max(PROGRESS_EVERY_S, (moment - self._started) * PROGRESS_SHARE)
        self._next_progress_at = moment + pause_s
        if self._shows_progress and self._requests.unfinished_tasks == 0:
            self._requests.put(lambda: self._post_progress(done, total))

    def prepare(self, report: Report) -> None:
        """Render the report now: its conversations cannot be read after the run."""
        channels = report.display.channels
        if channels.comment and self._number is not None:
            self._comment = channels.comment
        self._wants_check = self._wants_check or (channels.check_run and self._may_check)
        self._decided = decided(report, comment_rule=self._comment, redact=self._redact)

    def finish(self, reason: str = "") -> tuple[Problem, ...]:
        """Post the prepared texts, and wait for that, at most PUBLISHING_S. Return the problems.

        `reason`: why the decision does not count; its details are posted below."""
        self._shows_progress = False
        self._client.end_within(PUBLISHING_S)
        decision = self._decided
        if decision is not None and reason:
            output = undecided(reason, details=decision.output.text)
            decision = Decided(conclusion=Conclusion.ACTION_REQUIRED, output=output, create=True)
        if decision is not None:
            self._requests.put(lambda: self._post(decision))
        self._requests.put(None)
        self._thread.join(PUBLISHING_S + CANCEL_WAIT_S)
        # some waits have no limit, such as the lookup of a host's name
        if self._thread.is_alive():
            self._warn(f"not everything was posted: GitHub did not answer for {PUBLISHING_S:.0f} s")
        elif not self._requests.empty():
            self._warn("not everything was posted: internal error, see the traceback above")
        return tuple(self._problems)

    def post(self, decision: Decided) -> tuple[Problem, ...]:
        """Post a decision at once; return the problems."""
        self._client.end_within(PUBLISHING_S)
        self._post(decision)
        return tuple(self._problems)

    def give_up(self, output: Output, *, hurried: bool) -> tuple[Problem, ...]:
        """The run ends before its verdict is posted: the check run must not stay in progress, and
        an existing comment must not show an earlier result. `output`: says why; `hurried`: the
        runner will kill the process soon."""
        self._shows_progress = False
        with suppress(queue.Empty):
            while True:
                self._requests.get_nowait()
        self._requests.put(None)
        wait_s = CANCEL_WAIT_S if hurried else END_WAIT_S
        if self._thread.is_alive():
            self._thread.join(wait_s)
        # the thread's client may still wait for an answer
        client = self._client.copy(timeout_s=wait_s, patience_s=0.0 if hurried else wait_s)
        client.end_within(2 * wait_s)
        try:
            # a verdict stays valid if the process crashes after it
            if self._decided is not None and hurried:
                if not self._completed:
                    self._end_check(client, self._decided)
                return tuple(self._problems)
            output = Output(title=self._redact(output.title), summary=self._redact(output.summary))
            if self._check is not None:
                conclusion = Conclusion.CANCELLED if hurried else Conclusion.FAILURE
                self._end_check(client, Decided(conclusion=conclusion, output=output))
            log = markdown.link("this workflow run", self._job.address)
            text = f"{output.summary}\n>\n> See the log of {log}."
            # an earlier result is no longer valid
            self._end_comment(client, Output(title="", summary=text), create=not hurried)
        finally:
            client.close()
        return tuple(self._problems)

    def conclude(self, output: Output, *, hurried: bool) -> tuple[Problem, ...]:
        """Post that the run, which is not begun here, has no verdict. See `give_up`."""
        if self._wants_check:
            self._client.end_within(CANCEL_WAIT_S if hurried else END_WAIT_S)
            self._begin_check()
        return self.give_up(output, hurried=hurried)

    def close(self) -> None:
        """Close the connection, unless a request is still running."""
        if not self._thread.is_alive():
            self._client.close()

    # --- on the separate thread ---

    def _work(self) -> None:
        """Make the queued requests one after another, until None; an error ends the thread."""
        while (request := self._requests.get()) is not None:
            request()
            self._requests.task_done()

    def _post(self, decision: Decided) -> None:
        """Complete the check run and write the comment; either is tried if the other fails."""
        self._end_check(self._client, decision)
        self._end_comment(self._client, decision.output, create=decision.create)

    def _begin_check(self) -> None:
        """Create the check run. A failure is not reported: the final post tries again."""
        with suppress(EvalgateError):  # the final post tries again, and reports it
            self._start_check(self._client)

    def _start_check(self, client: Client) -> None:
        """Create the check run, in progress; without permission, note that and try no more. Raises
        GitHubFailed."""
        output = Output(title="in progress", summary="The gate is running.")
        address = self._job.address
        try:
            self._check = check_run.start(
                client,
                head_sha=self._head_sha,
                output=output,
                name=self._check_name,
                details_url=address,
            )
        except GitHubFailed as error:
            if not error.not_permitted:
                raise
            self._wants_check = self._may_check = False
            self._problems.append(
                errors.note("not-posted", f"no check run: {error.message}", hint=error.hint)
            )

    def _post_progress(self, done: int, total: int) -> None:
        """Show the progress. After a failure, it is not tried again."""
        if not self._shows_progress:
            return
        text = markdown.alert(
            "NOTE", f"In progress: {done:,} of {words.counted(total, 'case run')}."
        )
        output = Output(title=f"in progress, {done:,}/{total:,}", summary=text)
        try:
            if self._check is not None:
                check_run.update(self._client, self._check, output)
            if self._comment == "always":
                self._write(self._client, output, create=True)
        except EvalgateError:
            self._shows_progress = False

    def _end_check(self, client: Client, decision: Decided) -> None:
        """Complete the check run, which is created if it is missing. A failure is a problem."""
        if not self._wants_check:
            return
        try:
            if self._check is None:
                self._start_check(client)
            if self._check is not None:
                check_run.complete(
                    client,
                    self._check,
                    conclusion=decision.conclusion,
                    output=decision.output,
                    annotations=decision.annotations,
                )
                self._completed = True
        except EvalgateError as error:
            self._warn(f"the check run could not be posted: {error.message}", error.hint)

    def _end_comment(self, client: Client, output: Output, *, create: bool) -> None:
        """Write the comment, unless the setting is `off`. A failure is a problem."""
        if self._comment == "off":
            return
        try:
            self._write(client, output, create=create)
        except EvalgateError as error:
            self._warn(f"the comment could not be posted: {error.message}", error.hint)

    def _write(self, client: Client, output: Output, *, create: bool) -> None:
        """Render and post the comment, if there is a pull request. Raises GitHubFailed."""
        if self._number is not None:
            text = github_comment.render(self._job, headline=output.summary, details=output.text)
            github_comment.post(client, self._number, text, create=create)

    def _warn(self, message: str, hint: str = "") -> None:
        """Add a problem to those that `finish` and `give_up` return."""
        self._problems.append(errors.warning("not-posted", message, hint=hint))
