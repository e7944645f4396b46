"""What servers say about waiting, and addresses that nobody serves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from evalgate.system import http

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),  # no RFC, but sent
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0.0),  # over already
        ({"retry-after": "Saturday, 21-Nov-26 12:01:00 GMT"}, 60.0),  # the obsolete form
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),  # OpenAI's finer word
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1" + "0" * 400}, http.LONGEST_WAIT_S),
        ({"retry-after-ms": "1e300"}, http.LONGEST_WAIT_S / 1000),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, http.LONGEST_WAIT_S),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 +999999999999999999"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_header(headers: dict[str, str], seconds: float | None) -> None:
    assert http.parse_retry_after(headers, current_moment=NOW) == seconds


@given(st.text(max_size=40))
def test_any_header_is_a_time_or_nothing(value: str) -> None:
    found = http.parse_retry_after({"retry-after": value}, current_moment=NOW)
    assert found is None or found >= 0


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://127.0.0.1:9/chat", "127.0.0.1:9 accepts no connection: Connection refused"),
        (
            "http://me:secret@127.0.0.1:9/?key=secret",
            "127.0.0.1:9 accepts no connection: Connection refused",
        ),
        ("http://me:secret@127.0.0.1:x/", "the address is not an HTTP URL"),
        ("https://{app_name}.example.invalid/", ""),  # known in a case only
    ],
)
def test_an_address_that_accepts_no_connection_is_named_without_secrets(
    url: str, problem: str
) -> None:
    assert http.connection_problem(url, {}) == problem


def test_a_proxy_may_reach_an_address() -> None:
    assert http.connection_problem("http://127.0.0.1:9", {"http_proxy": "http://proxy:80"}) == ""
