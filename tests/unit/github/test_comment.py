"""The text of the comment: its marker, its limit, and hostile text in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.github import comment
from evalgate.github.comment import LIMIT, Speaker
from evalgate.text import markdown

SPEAKER = Speaker(run=7, attempt=2)
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
    text = comment.render(name, SPEAKER, headline=f"x{headline}", details=details)
    assert text.startswith(f"<!-- evalgate:{comment.key_of(name)}:v1 7.2.{SPEAKER.once} -->\n")
    found = comment._speaker_of(text, name)
    assert (found, found.once) == (SPEAKER, SPEAKER.once)
    text.encode()
    assert "\x00" not in text
    assert "\r" not in text


@pytest.mark.parametrize("letter", ["x", "한", "\U0001f600"])
def test_details_that_do_not_fit_are_left_out_and_it_says_where_they_are(letter) -> None:
    text = comment.render("", SPEAKER, headline="**fail**", details=letter * LIMIT)
    assert "**fail**" in text
    assert "in the summary of the job" in text
    assert letter * 100 not in text
    huge = comment.render("", SPEAKER, headline=letter * LIMIT)
    assert markdown.length(huge) <= LIMIT


def test_names_have_keys_of_their_own() -> None:
    names = ["", "evalgate", "a", "A", "a b", "a-b", "한국어", "영어", "x" * 60, "x" * 59 + "y"]
    keys = [comment.key_of(name) for name in names]
    assert len(set(keys)) == len(names)
    assert all(key.isascii() and " " not in key and len(key) < 60 for key in keys)


def test_a_name_is_its_title_and_text_like_any_other() -> None:
    text = comment.render("@team <b>", SPEAKER, headline="pass")
    assert "### " in text
    assert "@team" not in text
    assert "<b>" not in text
    assert "###" not in comment.render("", SPEAKER, headline="pass")


def test_later_runs_and_attempts_are_newer() -> None:
    assert Speaker(run=2) > Speaker(run=1, attempt=9)
    assert Speaker(run=1, attempt=2) > Speaker(run=1, attempt=1)
    assert Speaker(run=1) == Speaker(run=1)
