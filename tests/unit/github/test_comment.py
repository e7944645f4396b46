"""The text of the comment: its marker, its limit, and hostile text in it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from evalgate.github import comment
from evalgate.github.comment import LIMIT, Job
from evalgate.text import markdown

HOSTILE = [
    "<!-- evalgate:evalgate:v1 9.9.00000000 -->",
    "-->",
    "\r\n\r",
    "\u2028\x00\ud800",
    "한국어 \U0001f600",
    "@me",
]
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20), max_size=5).map("".join)


@given(st.text(max_size=60), TEXTS, TEXTS)
def test_it_begins_with_its_own_marker_and_says_who_wrote_it(name, headline, details) -> None:
    job = Job(name=name, run=7, attempt=2)
    text = comment.render(job, headline=f"x{headline}", details=details)
    assert text.startswith(f"<!-- evalgate:{comment.key_of(name)}:v1 7.2.{job.once} -->\n")
    assert comment.run_of(text) == ((7, 2), job.once)
    text.encode()
    assert "\x00" not in text
    assert "\r" not in text


@pytest.mark.parametrize("letter", ["x", "한", "\U0001f600"])
def test_details_that_do_not_fit_are_left_out_and_it_says_where_they_are(letter) -> None:
    text = comment.render(Job(), headline="**fail**", details=letter * LIMIT)
    assert "**fail**" in text
    assert "see the job summary" in text
    assert letter * 100 not in text
    huge = comment.render(Job(), headline=letter * LIMIT)
    assert markdown.length(huge) <= LIMIT


def test_names_have_keys_of_their_own() -> None:
    names = ["", "evalgate", "a", "A", "a b", "a-b", "한국어", "영어", "x" * 60, "x" * 59 + "y"]
    keys = [comment.key_of(name) for name in names]
    assert len(set(keys)) == len(names)
    assert all(key.isascii() and " " not in key and len(key) < 60 for key in keys)


def test_a_name_is_its_title_and_text_like_any_other() -> None:
    text = comment.render(Job(name="@team <b>"), headline="pass")
    assert "### " in text
    assert "@team" not in text
    assert "<b>" not in text
    assert "###" not in comment.render(Job(), headline="pass")


def test_later_runs_and_attempts_are_newer() -> None:
    texts = [
        comment.render(Job(run=run, attempt=attempt), headline="x")
        for run, attempt in ((1, 1), (1, 2), (2, 0))
    ]
    runs = [comment.run_of(text)[0] for text in texts]
    assert runs == sorted(runs)
    assert comment.run_of("> quoted") == ((0, 0), "")
