"""How numbers read: short, and never truer than they are."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, strategies as st

from evalgate.text import words

SCORES = st.floats(min_value=-10, max_value=10, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "beside", "shown"),
    [
        (None, None, "-"),
        (None, 0.8, "-"),
        (math.nan, None, "nan"),
        (math.inf, 1.0, "inf"),
        (0.0, None, "0.00"),
        (-0.0, None, "0.00"),
        (1.0, None, "1.00"),
        (0.5, None, "0.50"),
        (0.125, None, "0.12"),
        (2 / 3, None, "0.67"),
        (0.9996, None, "0.9996"),  # never a 1.00 that was not reached
        (0.9996, 0.5, "0.9996"),
        (0.002, None, "0.002"),  # nor a false 0.00
        (0.005, None, "0.005"),  # 0.01 would be twice as much
        (12.0001, None, "12.00"),  # nothing is reached there
        (-0.001, None, "-0.001"),
        (0.1 + 0.2, None, "0.30"),
        (2 / 3, 1.0, "0.67"),  # beside a threshold, two decimals if they keep the two apart
        (0.7999, 0.8, "0.7999"),  # and more if not: this failed, and must not read 0.80
        (0.79999999, 0.8, "0.79999999"),
        (0.8, 0.8, "0.80"),
        (0.8001, 0.8, "0.8001"),  # lower is better: this failed too
        (math.nextafter(0.8, 0), 0.8, "0.7999999999999999"),
        (1204.0, None, "1,204"),
        (1204.0, 2000.0, "1,204"),
        (1204.5, None, "1,204.50"),
    ],
)
def test_a_score_reads(value: float | None, beside: float | None, shown: str) -> None:
    assert words.score(value, beside=beside) == shown


@given(value=SCORES, threshold=st.floats(min_value=-10, max_value=10))
def test_a_score_never_reads_as_the_other_side_of_its_threshold(
    value: float, threshold: float
) -> None:
    assume(value != threshold)
    shown = float(words.score(value, beside=threshold))
    assert shown != threshold
    assert (shown < threshold) == (value < threshold)


@given(value=st.floats(min_value=0, max_value=0.9999999))
def test_a_score_alone_never_reads_as_perfect(value: float) -> None:
    assert words.score(value) != "1.00"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (0.8, "0.80"), (1, "1.00"), (0.8765, "0.8765"), (1500.0, "1,500"), (0.5, "0.50")],
)
def test_a_threshold_reads_as_it_was_written(value: float | None, shown: str) -> None:
    assert words.threshold(None if value is None else float(value)) == shown


@pytest.mark.parametrize(
    ("base", "head", "shown"),
    [
        (0.9, 0.9, ("0.90", "0.90", "0.00")),
        (0.95, 0.71, ("0.95", "0.71", "0.24")),
        (0.002, 0.005, ("0.002", "0.005", "0.003")),
        (0.625, 0.75, ("0.625", "0.750", "0.125")),  # 0.62, 0.75 and 0.12 would not add up
        (1 / 3, 2 / 3, ("0.333", "0.667", "0.33")),  # no number of decimals adds up exactly
        (1 / 3, 11 / 30, ("0.333", "0.367", "0.03")),
        (100 / 3, 110 / 3, ("33.33", "36.67", "3.3")),
        (1.0, 0.9996, ("1.0000", "0.9996", "0.0004")),
        (0.8, 0.8 + 1e-16, ("0.80", "0.80", "0.00")),
        (0.0, 1e-11, ("0.00", "0.00", "0.00")),
        (532.4, 410.66, ("532.4", "410.7", "121.7")),
        (1204.0, 900.0, ("1,204", "900", "304")),
        (0.0, 1e30, ("0", f"{1e30:,.0f}", f"{1e30:,.0f}")),
    ],
)
def test_two_numbers_and_their_difference_agree(
    base: float, head: float, shown: tuple[str, str, str]
) -> None:
    assert words.change(base, head, delta=head - base) == shown


@given(base=st.floats(min_value=0, max_value=1), head=st.floats(min_value=0, max_value=1))
def test_a_difference_shown_is_that_of_the_numbers_shown(base: float, head: float) -> None:
    texts = words.change(base, head, delta=head - base)
    left, right, delta = map(float, texts)
    last = 10 ** -len(texts[2].partition(".")[2])
    assert abs(abs(right - left) - delta) <= last * 0.5001
    assert abs(delta - abs(head - base)) <= last * 0.5001


@pytest.mark.parametrize(
    ("value", "limit", "met", "shown"),
    [
        (0.5, 0.8, False, "0.50 < 0.80"),
        (0.7999, 0.8, False, "0.7999 < 0.80"),
        (0.9, 0.8, True, "0.90 \N{GREATER-THAN OR EQUAL TO} 0.80"),
        (0.8, 0.8, True, "0.80 = 0.80"),
        (0.3, 0.2, False, "0.30 > 0.20"),  # lower is better
        (0.1, 0.2, True, "0.10 \N{LESS-THAN OR EQUAL TO} 0.20"),
        (None, 0.8, False, "-"),
        (0.5, None, True, "0.50"),
    ],
)
def test_a_score_against_its_threshold(
    value: float | None, limit: float | None, met: bool, shown: str
) -> None:
    assert words.score_and_limit(value, limit, met=met) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.999, "99%"),  # not all
        (0.001, "1%"),  # not none
        (0.25, "25%"),
    ],
)
def test_a_share_reads(share: float, shown: str) -> None:
    assert words.percent(share) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (12_345, "12.3k"),
        (123_456, "123k"),
        (999_600, "1.0M"),
        (4.1e8, "410M"),
    ],
)
def test_tokens_read(count: int, shown: str) -> None:
    assert words.tokens(int(count)) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (435.0, "435"), (2.5, "2.50"), (12345.0, "12,345")]
)
def test_a_quantity_that_is_no_score(value: float | None, shown: str) -> None:
    assert words.amount(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.7, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3900, "1 h 05 min"),
    ],
)
def test_seconds_read(value: float, shown: str) -> None:
    assert words.seconds(value) == shown


def test_counts_and_lists() -> None:
    assert words.counted(1, "case") == "1 case"
    assert words.counted(1204, "case") == "1,204 cases"
    assert words.counted(2, "entry", "entries") == "2 entries"
    assert words.share_of(1, 1, "case") == "1 of 1 cases"
    assert words.share_of(1, 2000, "case") == "1 of 2,000 cases"
    assert words.listed([]) == ""
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.listed("abcdefgh", limit=3) == "a, b and 6 more"


def test_the_nearest_name() -> None:
    assert words.nearest("Respnse_match", ["response_match", "tools"]) == "response_match"
    assert words.nearest("zzz", ["response_match"]) is None
