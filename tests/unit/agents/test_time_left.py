"""What counts against a case's time, by a clock that the test holds."""

from __future__ import annotations

from evalgate.agents.conversation import TimeLeft


def test_only_what_the_agent_takes_counts() -> None:
    now = [100.0]
    allowance = TimeLeft(10, clock=lambda: now[0])
    for agent_s, user_s, left_s in ((3, 1000, 7), (4, 1000, 3), (2, 0, 1)):
        with allowance:
            now[0] += agent_s
            assert allowance.left_s == left_s  # it runs while the agent is waited for
        now[0] += user_s  # a simulated user thinks
        assert allowance.left_s == left_s
    with allowance:
        now[0] += 5
        assert allowance.left_s == 0
    assert allowance.left_s == 0
