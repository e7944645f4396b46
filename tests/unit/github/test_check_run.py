"""A check run: its texts within GitHub's limits."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from evalgate.github import check_run

NOTE = "\n\n_The rest was left out because of GitHub's size limit: see the job summary._"


@pytest.mark.parametrize(
    ("text", "fitted"),
    [
        ("a\n\nb", "a\n\nb"),
        ("one\n" + "x" * 200, f"one{NOTE}"),
        ("", ""),
    ],
)
def test_a_long_text_is_cut_at_a_line(text, fitted) -> None:
    assert check_run.fit(text, most_bytes=100) == fitted


@given(st.text(max_size=2000), st.integers(200, 900))
def test_the_limit_is_kept_in_bytes(text, most) -> None:
    fitted = check_run.fit(text, most_bytes=most)
    assert len(fitted.encode("utf-8", "replace")) <= most
    assert fitted == text or fitted.endswith(NOTE)
