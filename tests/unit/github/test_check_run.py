"""A check run: its texts within GitHub's limits."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from evalgate.github import check_run


@pytest.mark.parametrize(
    ("parts", "most", "fitted"),
    [
        (["a", "", "b"], 100, "a\n\nb"),
        (
            ["a" * 99, "b"],
            100,
            "b\n\n_1 section left out because of GitHub's size limit: see the job summary._",
        ),
        (
            ["one\n" + "x" * 200],
            100,
            "one\n\n_The rest was left out because of GitHub's size limit: see the job summary._",
        ),
        ([], 100, ""),
    ],
)
def test_parts_give_way(parts, most, fitted) -> None:
    assert check_run.fit(parts, most_bytes=most) == fitted


@given(st.lists(st.text(max_size=400), max_size=8), st.integers(200, 900))
def test_the_limit_is_kept_in_bytes(parts, most) -> None:
    text = check_run.fit(parts, most_bytes=most)
    assert len(text.encode("utf-8", "replace")) <= most
    shown = [part for part in parts if part.strip()]
    assert text == "\n\n".join(shown) or "left out because of" in text
