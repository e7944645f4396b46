"""What the API turns away for the moment is asked again, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import ces_double, google_account
from builders.ces_double import APP, Asked, CesDouble, Refusal

from evalgate.wings.ces import live
from evalgate.wings.ces.driver import CesOptions
from evalgate.wings.ces.live import Live, LiveFailed

pytestmark = pytest.mark.integration


@pytest.fixture
def double() -> Iterator[CesDouble]:
    with ces_double.running() as made:
        made.token = "a-token"
        made.is_busy = False
        yield made


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, of no length."""
    made: list[float] = []
    monkeypatch.setattr(live.time, "sleep", made.append)
    return made


@pytest.fixture
def connection(double: CesDouble, tmp_path: Path) -> Iterator[Live]:
    account = google_account.written(tmp_path, f"{double.url}/token")
    made = Live({"GOOGLE_APPLICATION_CREDENTIALS": str(account)}, endpoint=double.url)
    yield made
    made.close()


def refusing(double: CesDouble, code: int, *, times: int, **headers: str) -> None:
    """So many requests are refused."""
    left = [times]

    def before(asked: Asked) -> None:
        if left[0]:
            left[0] -= 1
            raise Refusal(code, "not now", **headers)

    double.before = before


# the method, the code, how often it is refused; how often it is asked
REFUSED: list[tuple[str, int, int, int]] = [
    ("GET", 8, 4, 5),
    ("GET", 14, 4, 5),
    ("GET", 13, 2, 3),
    ("GET", 3, 1, 1),  # it would be refused again
    ("GET", 14, 9, 5),  # not for ever
    ("DELETE", 13, 1, 2),
    ("PATCH", 14, 1, 2),  # nothing was done
    ("PATCH", 13, 1, 1),  # something may have been done
    ("POST", 8, 1, 2),
    ("POST", 14, 1, 2),
    ("POST", 13, 1, 1),
]


@pytest.mark.parametrize(("method", "code", "times", "asked"), REFUSED)
def test_what_is_asked_again(
    double: CesDouble,
    connection: Live,
    pauses: list[float],
    method: str,
    code: int,
    times: int,
    asked: int,
) -> None:
    name = f"{APP}/evaluations/greets"
    etag = double.put(name, {"displayName": "greets", "scenario": {"task": "t"}}).etag
    refusing(double, code, times=times)
    body = {"displayName": "x", "name": name, "etag": etag, "scenario": {"task": "t"}}
    target = f"{APP}/evaluations" if method == "POST" else name
    query = {"updateMask": "displayName"} if method == "PATCH" else {}
    try:
        connection.call(method, target, query=query, body=body if method[0] == "P" else None)
        is_done = True
    except LiveFailed:
        is_done = False
    assert is_done == (asked > times)
    assert len(double.asked_for(method)) == asked
    assert all(0.25 * 2**n <= pause <= 0.75 * 2**n for n, pause in enumerate(pauses))


@pytest.mark.parametrize(
    ("retry_after", "pause"), [("7", 7.0), ("0", 0.0), ("86400", live.LONGEST_PAUSE_S)]
)
def test_the_api_says_how_long_to_wait(
    double: CesDouble, connection: Live, pauses: list[float], retry_after: str, pause: float
) -> None:
    refusing(double, 8, times=1, **{"retry-after": retry_after})
    connection.get(APP)
    assert pauses == [pause]


def test_a_deletion_whose_answer_was_lost_is_done(
    double: CesDouble, connection: Live, pauses: list[float]
) -> None:
    name = f"{APP}/evaluations/greets"
    double.put(name, {"displayName": "greets", "scenario": {"task": "t"}})

    def lose(asked: Asked) -> None:
        if double.resources.pop(name, None):
            raise Refusal(13, "after it was done")

    double.before = lose
    connection.delete(name)
    assert len(pauses) == 1
    with pytest.raises(LiveFailed, match="NOT_FOUND"):  # there was nothing from the beginning
        connection.delete(name)


def test_nobody_at_the_address(connection: Live, pauses: list[float]) -> None:
    connection.base = "http://127.0.0.1:9"
    with pytest.raises(LiveFailed, match="UNREACHABLE"):
        connection.get(APP)
    assert len(pauses) == live.TRIES - 1
    pauses.clear()
    with pytest.raises(LiveFailed, match="UNREACHABLE"):
        connection.call("POST", f"{APP}:runEvaluation", body={})
    assert pauses == []


# as written, as asked; None: refused
ENDPOINTS: list[tuple[str, str | None]] = [
    ("", ""),
    ("ces.us.rep.googleapis.com", "https://ces.us.rep.googleapis.com"),
    ("https://ces.us.rep.googleapis.com/", "https://ces.us.rep.googleapis.com"),
    ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ("http://ces.googleapis.com", None),  # a token in the open
    ("ftp://127.0.0.1", None),
    ("https://", None),
]


@pytest.mark.parametrize(("written", "asked"), ENDPOINTS)
def test_the_endpoint_of_an_agent(written: str, asked: str | None) -> None:
    if asked is None:
        with pytest.raises(ValueError, match="no https:// address"):
            CesOptions(app=APP, endpoint=written)
    else:
        assert CesOptions(app=APP, endpoint=written).endpoint == asked
