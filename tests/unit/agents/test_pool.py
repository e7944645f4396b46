"""Where agents of several sides meet before they begin."""

from __future__ import annotations

import threading

import pytest

from evalgate.agents.pool import CommonStart


def test_who_is_ready_first_waits_for_those_who_still_start() -> None:
    line, loading, begun = CommonStart(), threading.Event(), []

    def start(name: str, entered: threading.Event, ready: threading.Event) -> None:
        with line.wait():
            entered.set()
            ready.wait(10)
        begun.append(name)

    slow_entered, quick_entered, at_once = threading.Event(), threading.Event(), threading.Event()
    at_once.set()
    slow = threading.Thread(target=start, args=("slow", slow_entered, loading))
    slow.start()
    assert slow_entered.wait(10)
    quick = threading.Thread(target=start, args=("quick", quick_entered, at_once))
    quick.start()
    quick.join(0.1)
    assert quick.is_alive()
    assert begun == []
    loading.set()
    slow.join(10)
    quick.join(10)
    assert sorted(begun) == ["quick", "slow"]


def test_a_start_that_fails_holds_nobody() -> None:
    line = CommonStart()
    with pytest.raises(ValueError, match="broken"), line.wait():
        raise ValueError("broken")
    with line.wait():
        pass
