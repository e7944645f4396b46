"""Telling the pull request: its comment and its check run, while the gate runs and when it has decided.

Nothing here changes a verdict: what cannot be posted is a problem to show, and the job summary has it all. A thread of
its own speaks with GitHub, so that no trial ever waits for it.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections.abc import Callable

from evalgate.errors import EvalgateError, Problem, Severity
from evalgate.github import checks, comments
from evalgate.github.checks import CheckRun, Conclusion, NotPermitted
from evalgate.github.client import Client
from evalgate.github.layout import Section
from evalgate.github.progress import Progress
from evalgate.github.transport import Connection
from evalgate.model import AgentFailure, Outcome, Report, TrialKey
from evalgate.plugins import Watcher
from evalgate.settings import Settings
from evalgate.wiring import posts
from evalgate.wiring.posts import Decided, Job

COMMENT_KEY = "evalgate"
FAREWELL_S = 3.0
"""What a run that is cancelled may wait for a request that is under way, and for each of its last ones: a runner kills
within seconds."""
PATIENCE_S = 30.0
"""The same for a run that ends for another reason."""

PUBLISHING_S = 75.0
"""What all posting may take once the verdict is there. The longest wait that makes sense is the minute that GitHub asks
for at a secondary limit; a GitHub that does not answer must not hold the runner for longer than that and a few tries.
"""

Errand = Callable[[], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to post: `number` of a pull request, None where there is none; `head_sha`: the commit that is judged."""

    connection: Connection
    head_sha: str
    number: int | None = None


class Posting:
    """The comment and the check run of one gate: `start`, `prepare` and `finish`; `give_up` where it does not come to
    that.

    Raises ConfigError where the connection cannot be used at all.
    """

    def __init__(
        self, place: Place, job: Job, settings: Settings, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._place = place
        self._job = job
        self._comment = settings.comment if place.number is not None else "off"
        self._wants_check = settings.check_run and bool(place.head_sha)
        self._now = now
        self._client = Client(place.connection)
        self._check: CheckRun | None = None
        self._completed = False
        self._tells_progress = True
        self._decided: Decided | None = None
        self._problems: list[Problem] = []
        self._errands: queue.Queue[Errand | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="posting", daemon=True)

    def start(self) -> None:
        """Show that the gate runs; returns at once."""
        if self._wants_check:
            self._errands.put(self._begin_check)
        self._thread.start()

    def watching(self, watcher: Watcher) -> Watcher:
        """The watcher, which tells of progress here as well."""
        return _Telling(watcher, Progress(self._tell_progress, now=self._now))

    def prepare(self, report: Report) -> None:
        """Take the report in: its conversations can be read now, and not any more when the run is over."""
        self._decided = posts.decided(self._job, report, comment=self._comment)

    def finish(self) -> tuple[Problem, ...]:
        """Post what was prepared, and wait until that is done, for PUBLISHING_S at most; what could not be posted."""
        self._tells_progress = False
        self._client.end_within(PUBLISHING_S)
        decided = self._decided
        if decided is not None:
            self._errands.put(lambda: self._end_check(self._client, decided))
            self._errands.put(lambda: self._end_comment(self._client, decided))
        self._errands.put(None)
        self._thread.join(PUBLISHING_S + FAREWELL_S)
        if self._thread.is_alive():  # some waits know no limit: a host's name that is looked up, for one
            self._problem(f"not everything was posted: GitHub did not answer for {PUBLISHING_S:.0f} s", "")
        elif not self._errands.empty():
            self._problem("not everything was posted: internal error, see the traceback above", "")
        return tuple(self._problems)

    def give_up(self, reason: str, *, hurried: bool) -> tuple[Problem, ...]:
        """The run ends before its verdict is posted: the check run must not stay in progress for ever, and a comment
        that is there must not go on saying what an earlier run found. `hurried`: the runner is about to kill us.
        """
        self._tells_progress = False
        self._drop_errands()
        self._errands.put(None)
        wait_s = FAREWELL_S if hurried else PATIENCE_S
        if self._thread.is_alive():
            self._thread.join(wait_s)
        connection = dataclasses.replace(
            self._place.connection, timeout_s=wait_s, patience_s=0.0 if hurried else wait_s
        )
        client = Client(connection)  # the other may still be waiting for an answer
        client.end_within(2 * wait_s)
        try:
            if self._decided is not None and hurried:  # a verdict that was reached stands; a crash after it is none
                self._end_check(client, self._decided)
            else:
                self._end_check_without(client, reason, hurried=hurried)
                self._end_comment_without(client, reason, hurried=hurried)
        finally:
            client.close()
        return tuple(self._problems)

    def close(self) -> None:
        """Let go of the connection, unless a request is still under way."""
        if not self._thread.is_alive():
            self._client.close()

    # --- on the thread of its own ---------------------------------------------------------------------

    def _work(self) -> None:
        while (errand := self._errands.get()) is not None:
            errand()
            self._errands.task_done()

    def _begin_check(self) -> None:
        output, name, address = posts.begun(), self._job.check_name, self._job.address
        try:
            begun = checks.start(
                self._client, head_sha=self._place.head_sha, output=output, name=name, details_url=address
            )
        except EvalgateError:
            return  # the verdict tries again, and tells
        self._took(begun)

    def _took(self, begun: CheckRun | NotPermitted) -> None:
        if isinstance(begun, CheckRun):
            self._check = begun
            return
        self._wants_check = False
        self._problem(f"no check run: {begun.message}", begun.hint, severity=Severity.NOTE)

    def _show_progress(self, done: int, total: int) -> None:
        """Tell how far it is. The first failure is the last try."""
        if not self._tells_progress:
            return
        try:
            if self._check is not None:
                checks.update(self._client, self._check, posts.under_way(done, total))
            if self._comment == "always":
                self._write(self._client, posts.section_under_way(self._job, done, total), create=True)
        except EvalgateError:
            self._tells_progress = False

    def _end_check(self, client: Client, decided: Decided) -> None:
        if not self._wants_check or self._completed:
            return
        conclusion, output, annotations = decided.conclusion, decided.output, decided.annotations
        try:
            if self._check is None:
                name, address, sha = self._job.check_name, self._job.address, self._place.head_sha
                self._took(checks.start(client, head_sha=sha, output=posts.begun(), name=name, details_url=address))
            if self._check is not None:
                checks.complete(client, self._check, conclusion=conclusion, output=output, annotations=annotations)
                self._completed = True
        except EvalgateError as error:
            self._failed("check run", error)

    def _end_comment(self, client: Client, decided: Decided) -> None:
        if self._comment == "off":
            return
        try:
            self._write(client, decided.section, create=decided.create)
        except EvalgateError as error:
            self._failed("comment", error)

    def _write(self, client: Client, section: Section, *, create: bool) -> None:
        if self._place.number is not None:
            comments.post_section(client, self._place.number, section, key=COMMENT_KEY, create=create)

    # --- on the thread that runs the gate -------------------------------------------------------------

    def _tell_progress(self, done: int, total: int) -> None:
        """Have it told, unless there is something to tell that nobody has told yet."""
        if self._tells_progress and self._errands.unfinished_tasks == 0:
            self._errands.put(lambda: self._show_progress(done, total))

    def _drop_errands(self) -> None:
        try:
            while True:
                self._errands.get_nowait()
        except queue.Empty:
            return

    def _end_check_without(self, client: Client, reason: str, *, hurried: bool) -> None:
        if self._check is None:
            return
        conclusion = Conclusion.CANCELLED if hurried else Conclusion.FAILURE
        try:
            checks.complete(client, self._check, conclusion=conclusion, output=posts.undecided(reason))
        except EvalgateError as error:
            self._failed("check run", error)

    def _end_comment_without(self, client: Client, reason: str, *, hurried: bool) -> None:
        if self._comment == "off":
            return
        try:
            self._write(client, posts.section_undecided(self._job, reason), create=not hurried)
        except EvalgateError as error:
            self._failed("comment", error)

    def _failed(self, what: str, error: EvalgateError) -> None:
        self._problem(f"the {what} could not be posted: {error.message}", error.hint)

    def _problem(self, message: str, hint: str, *, severity: Severity = Severity.WARNING) -> None:
        self._problems.append(Problem(severity=severity, code="not-posted", message=message, hint=hint))


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
        with self._lock:
            self._total += trials
            self._done += done
        self._inner.begin(trials=trials, done=done)

    def trial_done(self, key: TrialKey, outcome: Outcome | AgentFailure, seconds: float) -> None:
        """See Watcher."""
        self._inner.trial_done(key, outcome, seconds)
        with self._lock:
            self._done += 1
            self._told.report(self._done, self._total)

    def say(self, line: str) -> None:
        """See Watcher."""
        self._inner.say(line)

    def end(self) -> None:
        """See Watcher."""
        self._inner.end()
