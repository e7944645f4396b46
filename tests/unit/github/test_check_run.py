"""A check run: its texts within GitHub's limits, the running state told seldom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.github import check_run
from evalgate.github.check_run import Progress
from evalgate.github.client import FailureKind, GitHubFailed


@pytest.mark.parametrize(
    ("parts", "most", "fitted"),
    [
        (["a", "", "b"], 100, "a\n\nb"),
        (["a" * 99, "b"], 100, "b\n\n_1 section left out here for want of room: see it._"),
        (["one\ntwo " + "x" * 200], 100, "one\n\n_The rest left out here for want of room: see it._"),
        ([], 100, ""),
    ],
)
def test_parts_give_way(parts, most, fitted) -> None:
    assert check_run.fit(parts, where="it", most_bytes=most) == fitted


@given(st.lists(st.text(max_size=400), max_size=8), st.integers(200, 900))
def test_the_limit_is_kept_in_bytes(parts, most) -> None:
    text = check_run.fit(parts, where="the job summary", most_bytes=most)
    assert len(text.encode("utf-8", "replace")) <= most
    shown = [part for part in parts if part.strip()]
    assert text == "\n\n".join(shown) or "left out here" in text


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
    assert check_run.render_progress(40, 1200) == "> [!NOTE]\n> In progress: 40/1,200 runs of cases."
