"""A local GitHub that judges every request and every answer by GitHub's own description."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from builders.github_double import Double, served

from evalgate.github import client as github_client
from evalgate.github.client import Client

TOKEN = "ghs_0123456789abcdefghijklmnopqrstuvwxyz"


class Clock:
    """A clock in which sleeping takes no time, but counts."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def time(self) -> float:
        return time.time() + sum(self.slept)

    def monotonic(self) -> float:
        return time.monotonic() + sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def double() -> Iterator[Double]:
    """Whatever is sent to it must be what GitHub describes, and so must be what it answers."""
    pytest.importorskip(
        "openapi_core", reason="GitHub's description cannot be read without openapi-core"
    )
    with served(Double()) as running:
        yield running
    assert running.problems() == []
    for seen in running.stored:
        assert "authorization" not in seen, "the storage's host was shown the token"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(github_client, "time", made)
    monkeypatch.setattr(github_client.random, "random", lambda: 0.5)
    return made


@pytest.fixture
def client(double: Double, clock: Clock) -> Iterator[Client]:
    opened = connected(double.url)
    yield opened
    opened.close()


@pytest.fixture
def another(double: Double, clock: Clock) -> Iterator[Callable[..., Client]]:
    """Further clients of the same GitHub, as other jobs have them."""
    opened: list[Client] = []

    def make(**settings) -> Client:
        opened.append(connected(**{"api_url": double.url, **settings}))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def connected(api_url: str, **settings) -> Client:
    given = {"repository": "o/r", "token": TOKEN, "timeout_s": 2.0, **settings}
    return Client(api_url=api_url, **given)
