"""The running state, told seldom."""

from __future__ import annotations

import pytest

from evalgate.github import progress
from evalgate.github.failures import FailureKind, GitHubFailed
from evalgate.github.progress import Progress


def times_told(duration_s: int, *, fails: bool = False) -> list[int]:
    now = 0.0
    told: list[int] = []

    def tell(done: int, total: int) -> None:
        told.append(int(now))
        if fails:
            raise GitHubFailed(FailureKind.FORBIDDEN, "no")

    running = Progress(tell, now=lambda: now)
    for second in range(duration_s):
        now = float(second)
        running.report(second, duration_s)
    assert (running.failure is not None) is fails
    return told


@pytest.mark.parametrize(
    ("duration_s", "told"),
    [
        (60, []),  # over before anybody looks
        (100, [60, 90]),
        (150, [60, 90, 120]),
    ],
)
def test_long_runs_tell_every_half_minute(duration_s, told) -> None:
    assert times_told(duration_s) == told


def test_very_long_runs_tell_ever_more_seldom() -> None:
    told = times_told(4 * 3600)
    assert len(told) < 90
    assert told[-1] - told[-2] > 600


def test_a_failure_is_the_last_try() -> None:
    assert times_told(1_000, fails=True) == [60]


def test_the_end_is_told_by_the_report() -> None:
    running = Progress(lambda done, total: pytest.fail("told"), now=iter([0.0, 99.0]).__next__)
    assert running.report(120, 120) is False


def test_what_is_said() -> None:
    assert progress.render_progress(40, 1200) == "> [!NOTE]\n> In progress: 40/1,200 runs of cases."
    assert progress.render_progress(40, 120, failed=1).endswith("40/120 runs of cases. 1 case failed so far.")
