"""Telling the pull request: never at a trial's expense, seldom, and to the end."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from builders import build

from evalgate.config.settings import Settings
from evalgate.github import check_run, comment, publish
from evalgate.github.check_run import Conclusion
from evalgate.github.client import CheckRun, Client, GitHubFailed, GitHubFault
from evalgate.github.comment import Job
from evalgate.github.publish import Posting
from evalgate.model import TrialKey

KEY = TrialKey(suite="s", case_id="c")
DOWN = GitHubFailed(GitHubFault.UNREACHABLE, "nobody answers")
DENIED = GitHubFailed(GitHubFault.FORBIDDEN, "may not", hint="grant it")


class GitHub:
    """What was asked of it, in order; `fail`: a call that fails, `hold`: calls wait for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, object]] = []
        self.comments: list[str] = []
        self.fail: set[str] = set()
        self.denied = False
        self.hold = threading.Event()
        self.hold.set()
        self.busy = threading.Event()
        monkeypatch.setattr(check_run, "start", self.start)
        monkeypatch.setattr(
            check_run, "update", lambda _, check, output: self.asked("update", output.title)
        )
        monkeypatch.setattr(
            check_run, "complete", lambda *_, conclusion, **__: self.asked("complete", conclusion)
        )
        monkeypatch.setattr(comment, "post", self.post)

    def start(self, *_: object, name: str, **__: object) -> CheckRun:
        self.asked("start", name)
        if self.denied:
            raise DENIED
        return CheckRun(id=1)

    def post(self, _: object, number: int, text: str, *, create: bool) -> None:
        self.comments.append(text)
        self.asked("comment", create)

    def asked(self, what: str, about: object) -> None:
        self.busy.set()
        assert self.hold.wait(10)
        self.calls.append((what, about))
        if what in self.fail:
            raise DOWN


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> GitHub:
    return GitHub(monkeypatch)


def opened(
    settings: Settings | None = None,
    *,
    now: Callable[[], float] = lambda: 0.0,
    number: int | None = 7,
) -> Posting:
    made = posting(settings or Settings(), now=now, number=number)
    made.start()
    return made


def posting(
    settings: Settings, *, now: Callable[[], float] = lambda: 0.0, number: int | None = 7
) -> Posting:
    client = Client(repository="o/r", token="t")
    return Posting(client, Job(run=1), settings, head_sha="a" * 40, number=number, clock=now)


def settled(made: Posting) -> None:
    """Everything that was asked for was done."""
    made._requests.join()


def let_go(github: GitHub, made: Posting) -> None:
    """The GitHub that hung answers; nothing is still asked when the test is over."""
    github.hold.set()
    made._thread.join(10)
    assert not made._thread.is_alive()


def test_a_run_is_begun_decided_and_told(github: GitHub) -> None:
    made = opened()
    made.prepare(build.report("pass"))

    assert made.finish() == ()
    assert github.calls == [
        ("start", "evalgate"),
        ("complete", Conclusion.SUCCESS),
        ("comment", True),
    ]


def test_progress_is_told_seldom_and_by_nobodys_trial(github: GitHub) -> None:
    now = 0.0
    made = opened(now=lambda: now)
    for second in range(300):
        now = float(second)
        made.show_progress(second + 1, 600)
        if second % 10 == 0:
            settled(made)
    settled(made)

    told = [about for what, about in github.calls if what == "update"]
    assert told == [f"in progress, {done}/600" for done in (61, 91, 121, 151, 181, 211, 241, 271)]
    assert sum(what == "comment" for what, _ in github.calls) == len(told)
    made.finish()


def test_a_github_that_hangs_holds_up_no_trial_and_gets_no_backlog(github: GitHub) -> None:
    now = 0.0
    made = opened(now=lambda: now)
    settled(made)
    github.hold.clear()
    github.busy.clear()
    for second in range(1_000):  # were it to wait, this would fail after ten seconds
        now = float(second)
        made.show_progress(second + 1, 10_000)
        assert second != 60 or github.busy.wait(10)
    made.prepare(build.report("pass"))
    github.hold.set()
    made.finish()

    assert [what for what, _ in github.calls] == [
        "start",
        "update",
        "comment",
        "complete",
        "comment",
    ]


def test_the_first_failure_to_tell_progress_is_the_last_try(github: GitHub) -> None:
    github.fail = {"update"}
    now = 0.0
    made = opened(now=lambda: now)
    for second in range(0, 300, 30):
        now = float(second)
        made.show_progress(second + 1, 600)
        settled(made)
    made.prepare(build.report("pass"))

    assert made.finish() == ()
    assert [what for what, _ in github.calls] == ["start", "update", "complete", "comment"]


def test_a_missing_permission_is_told_once_and_the_comment_comes_all_the_same(
    github: GitHub,
) -> None:
    github.denied = True
    made = opened()
    made.prepare(build.report("pass"))

    (problem,) = made.finish()
    assert (problem.code, problem.severity.value, problem.hint) == (
        "not-posted",
        "notice",
        "grant it",
    )
    assert [what for what, _ in github.calls] == ["start", "comment"]


def test_what_cannot_be_posted_is_told_each_with_its_reason(github: GitHub) -> None:
    github.fail = {"start", "comment"}
    made = opened()
    made.prepare(build.report("fail"))

    told = [problem.message for problem in made.finish()]
    assert told == [
        "the check run could not be posted: nobody answers",
        "the comment could not be posted: nobody answers",
    ]
    assert [what for what, _ in github.calls] == ["start", "start", "comment"], (
        "the end tries again"
    )


@pytest.mark.parametrize(
    ("hurried", "expected"),
    [
        (True, [("complete", Conclusion.CANCELLED), ("comment", False)]),
        (False, [("complete", Conclusion.FAILURE), ("comment", True)]),
    ],
)
def test_a_run_without_a_verdict_ends_its_check_run(
    github: GitHub, expected: object, *, hurried: bool
) -> None:
    made = opened()
    settled(made)
    assert made.give_up(publish.undecided("it broke"), hurried=hurried) == ()
    assert github.calls[1:] == expected


def test_a_run_that_is_cancelled_while_it_posts_ends_with_its_verdict(github: GitHub) -> None:
    made = opened()
    settled(made)
    made.prepare(build.report("fail"))
    made.give_up(publish.undecided("cancelled"), hurried=True)
    assert github.calls[1:] == [("complete", Conclusion.FAILURE)]


def test_a_crash_after_the_verdict_is_no_success(github: GitHub) -> None:
    made = opened()
    settled(made)
    made.prepare(build.report("pass"))
    made.give_up(publish.undecided("it broke"), hurried=False)
    assert github.calls[1:] == [("complete", Conclusion.FAILURE), ("comment", True)]


def test_a_run_that_ends_before_it_began_leaves_nothing_behind(github: GitHub) -> None:
    made = posting(Settings(comment="off"))
    assert made.give_up(publish.undecided("cancelled"), hurried=True) == ()
    assert github.calls == []


def test_a_farewell_does_not_wait_for_a_github_that_hangs(
    github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "CANCEL_WAIT_S", 0.05)
    github.hold.clear()
    made = opened(Settings(comment="off"))
    assert made.give_up(publish.undecided("cancelled"), hurried=True) == ()
    made.close()
    let_go(github, made)
    assert [what for what, _ in github.calls] in ([], ["start"])


@pytest.mark.parametrize("hurried", [True, False])
def test_nor_does_one_of_a_run_that_another_process_began(
    github: GitHub, monkeypatch: pytest.MonkeyPatch, *, hurried: bool
) -> None:
    limits: list[float] = []
    monkeypatch.setattr(Client, "end_within", lambda _, seconds: limits.append(seconds))
    made = posting(Settings())
    assert made.conclude(publish.undecided("cancelled"), hurried=hurried) == ()
    assert [what for what, _ in github.calls] == ["start", "complete", "comment"]
    wait_s = publish.CANCEL_WAIT_S if hurried else publish.END_WAIT_S
    assert limits == [wait_s, 2 * wait_s]


def test_a_verdict_does_not_wait_for_a_github_that_hangs_and_says_so(
    github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "PUBLISHING_S", 0.04)
    monkeypatch.setattr(publish, "CANCEL_WAIT_S", 0.01)
    github.hold.clear()
    made = opened()
    made.prepare(build.report("pass"))
    (problem,) = made.finish()
    made.close()
    let_go(github, made)
    assert problem.message.startswith("not everything was posted: GitHub did not answer for")


@pytest.mark.parametrize(
    ("settings", "number", "expected"),
    [
        (Settings(comment="off"), 7, ["start", "complete"]),
        (Settings(check_run=False), 7, ["comment"]),
        # a push: no pull request to comment on
        (Settings(), None, ["start", "complete"]),
    ],
)
def test_only_what_is_wanted_is_posted(
    github: GitHub, settings: Settings, number: int | None, expected: list[str]
) -> None:
    made = opened(settings, number=number)
    made.prepare(build.report("pass"))
    made.finish()
    assert [what for what, _ in github.calls] == expected


@pytest.mark.parametrize(
    ("words", "when", "expected"),
    [
        ("pass", "always", True),
        ("pass", "changes", False),
        ("pass", "failures", False),
        ("fail", "changes", True),
        ("fail", "failures", True),
        ("error", "failures", True),  # nobody knows whether it would have passed
        ("fail", "off", False),
    ],
)
def test_when_a_comment_is_made(words: str, when: str, *, expected: bool) -> None:
    report = build.report(words)
    assert publish.is_worth_a_comment(report, when) is (expected if when != "off" else False)


def test_a_named_gate_has_a_check_run_of_its_own(github: GitHub) -> None:
    for name in ("", "travel"):
        client = Client(repository="o/r", token="t")
        job = Job(run=1, name=name)
        named = Posting(client, job, Settings(), head_sha="a" * 40, number=None)
        named.start()
        settled(named)
    assert github.calls == [("start", "evalgate"), ("start", "evalgate: travel")]


def test_a_reason_can_neither_ping_nor_render(github: GitHub) -> None:
    opened().give_up(publish.undecided("@team <b>\n> # `x` ![i](http://x)"), hurried=False)
    (said,) = github.comments
    assert "team" in said
    assert "@team" not in said
    assert "<b>" not in said
    assert len(publish.undecided("x" * 100_000).title) <= 200


def times_told(github: GitHub, duration_s: int) -> list[int]:
    now = 0.0
    made = opened(now=lambda: now)
    told: list[int] = []
    for second in range(duration_s):
        now = float(second)
        made.show_progress(second + 1, duration_s)
        settled(made)
        if sum(what == "update" for what, _ in github.calls) > len(told):
            told.append(second)
    made.finish()
    return told


@pytest.mark.parametrize(
    ("duration_s", "told"),
    [
        (60, []),  # over before anybody looks
        (100, [60, 90]),
        (150, [60, 90, 120]),
    ],
)
def test_long_runs_tell_every_half_minute(github: GitHub, duration_s: int, told: list[int]) -> None:
    assert times_told(github, duration_s) == told


def test_very_long_runs_tell_ever_more_seldom(github: GitHub) -> None:
    told = times_told(github, 4 * 3600)
    assert len(told) < 90
    assert told[-1] - told[-2] > 600


def test_the_end_is_told_by_the_report(github: GitHub) -> None:
    made = opened(now=iter([0.0, 99.0]).__next__)
    made.show_progress(1, 1)
    made.finish()
    assert [what for what, _ in github.calls] == ["start"]


def test_what_is_said_meanwhile(github: GitHub) -> None:
    now = 0.0
    made = opened(now=lambda: now)
    settled(made)
    now = 61.0
    made.show_progress(40, 1200)
    settled(made)
    made.finish()
    assert github.comments[0].endswith("> [!NOTE]\n> In progress: 40 of 1,200 case runs.")
