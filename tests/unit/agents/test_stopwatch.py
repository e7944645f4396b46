"""What counts against a case's time, by a clock that the test holds."""

from __future__ import annotations

from evalgate.agents.base import Stopwatch


def test_only_what_the_agent_takes_counts() -> None:
    now = [100.0]
    watch = Stopwatch(clock=lambda: now[0])
    for agent_s, user_s, spent_s in ((3, 1000, 3), (4, 1000, 7), (2, 0, 9)):
        with watch:
            now[0] += agent_s
            assert watch.seconds == spent_s  # it runs while the agent is waited for
        now[0] += user_s  # a simulated user thinks
        assert watch.seconds == spent_s
