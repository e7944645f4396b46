"""What Google says about waiting."""

from __future__ import annotations

import pytest

from evalgate.judges import gemini
from evalgate.system import http


@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        ([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "53s"}], 53.0),
        (
            [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45.837906927s"}],
            45.837906927,
        ),
        (
            [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{10**400}s"}],
            http.LONGEST_WAIT_S,
        ),
        ([{"@type": "type.googleapis.com/google.rpc.Help"}, "junk", None], None),
        ([{"@type": "type.googleapis.com/google.rpc.RetryInfo"}], None),
        ([], None),
    ],
)
def test_google(details: list[object], seconds: float | None) -> None:
    assert gemini.parse_google(details) == seconds


def quota(quota_id: str) -> list[object]:
    return [
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": quota_id}],
        }
    ]


@pytest.mark.parametrize(
    ("details", "daily"),
    [
        (quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), True),
        (quota("GenerateRequestsPerMinutePerProjectPerModel"), False),
        ([{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": "junk"}], False),
        ([], False),
    ],
)
def test_a_quota_of_the_day_cannot_be_outwaited(details: list[object], daily: bool) -> None:
    assert gemini.is_daily_quota(details) is daily
