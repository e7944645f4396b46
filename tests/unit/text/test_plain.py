"""Text without surprises."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from evalgate.text import plain

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=80)
XML_LEGAL = re.compile("[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("plain", "plain"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc\u2028d\x85e\x0cf", "a\nb\nc\nd\ne\nf"),  # one kind of line end
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;https://evil.example\x07click\x1b]8;;\x1b\\", "click"),  # terminal links
        ("\x1b", "[U+001B]"),  # a bare escape is shown
        ("\u202etxt.exe", "[U+202E]txt.exe"),
        ("pass\u200bword", "pass[U+200B]word"),
        ("\ud800", "[U+D800]"),
        ("\uffff\x00", "[U+FFFF][U+0000]"),
        ("\U000e0041", "[U+E0041]"),  # tag characters hide whole sentences
        ("👩‍👩‍👧 क्‍ष", "👩‍👩‍👧 क्‍ष"),  # joiners where scripts and emoji need them
        ("a\u200db", "a[U+200D]b"),  # and not where they only hide
        ("\u200d", "[U+200D]"),
    ],
)
def test_nothing_stays_hidden(given_text: str, shown: str) -> None:
    assert plain.visible(given_text) == shown


@given(ANYTHING)
def test_visible_text_is_legal_everywhere(text: str) -> None:
    shown = plain.visible(text)
    assert XML_LEGAL.fullmatch(shown)
    shown.encode()
    hidden = {each for each in shown if unicodedata.category(each) in ("Cc", "Cf", "Cs")} - set(
        "\n\t\u200c\u200d"
    )
    # Arabic number signs are visible
    assert not {each for each in hidden if unicodedata.bidirectional(each) != "AN"}
    assert plain.visible(shown) == shown


@given(ANYTHING)
def test_one_line_is_one_line(text: str) -> None:
    assert len(plain.one_line(text).splitlines()) <= 1
    assert len(plain.flat(text).splitlines()) <= 1


def test_clipping_keeps_both_ends_and_counts_the_rest() -> None:
    assert plain.clip("short", 10) == "short"
    clipped = plain.clip("a" * 100 + "z" * 100, 40)
    assert clipped == f"{'a' * 30} [... 160 characters left out ...] {'z' * 10}"
    assert plain.clip_end("abcdefgh", 6) == "abc..."
    assert plain.label("", 5) == "(empty)"
    # cut in the middle, where names of one kind are alike
    assert plain.label("a\nb" * 100, 9) == "a b...a b"
    assert plain.label("refunds_of_a_business_class_ticket_case_17", 21) == "refunds_o...t_case_17"
    assert plain.label("x" * 10_000 + " end", 10) == "xxxx...end"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\nc\n", "a\nb\nc"),
        ("a\nb\nc\nd", "a\nb\nc\nd"),
        ("a\nb\nc\nd\ne", "a\nb\n[... 1 line left out ...]\nd\ne"),
        (
            "Error: no disk\n" + "at f\n" * 2_000 + "exit 1",
            "Error: no disk\nat f\n[... 1,998 lines left out ...]\nat f\nexit 1",
        ),
        # of a long line, both ends
        ("x" * 500 + "\ny\nend", f"{'x' * 30} [... 466 characters left out ...] {'x' * 4}\ny\nend"),
        (
            "begin\ny\n" + "x" * 500,
            f"begin\ny\n{'x' * 22} [... 468 characters left out ...] {'x' * 10}",
        ),
        (
            "x" * 500 + "\n1\n2\n3\nend",
            f"{'x' * 15} [... 482 characters left out ...] {'x' * 3}\n1\n[... 1 line left out ...]\n3\nend",
        ),
        ("", ""),
    ],
)
def test_both_ends_of_a_log(text: str, shown: str) -> None:
    assert plain.ends(text, most_lines=4, limit=40) == shown


@given(
    text=st.text(st.sampled_from("ab\n"), max_size=300),
    lines=st.integers(2, 9),
    limit=st.integers(20, 99),
)
def test_both_ends_of_a_log_are_bounded(text: str, lines: int, limit: int) -> None:
    shown = plain.ends(text, most_lines=lines, limit=limit).split("\n")
    assert len(shown) <= lines + 1
    assert sum(map(len, shown)) <= limit + 3 * 50  # what is said of clips, and of the lines between
    assert "".join(shown).startswith(text.strip("\n")[:1])


@given(
    text=st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=200),
    start=st.integers(0, 9),
)
def test_wrapped_lines_fit_and_lose_only_blanks(text: str, start: int) -> None:
    rows = plain.wrap(text, 10, start=start)
    assert all(plain.columns(row) <= 10 for row in rows)
    assert start + plain.columns(rows[0]) <= 10 or not rows[0].strip()
    assert "".join("".join(rows).split()) == "".join(text.split())


def test_wide_characters_take_two_columns() -> None:
    assert plain.columns("서울") == 4
    assert plain.columns("e\u0301") == 1
    assert plain.wrap("東京東京東京", 4) == ["東京", "東京", "東京"]
