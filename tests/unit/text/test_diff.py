"""Two texts, word by word."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from evalgate.text import diff, plain

TEXT = st.text(st.sampled_from("ab 東京.\n"), max_size=40)


def marked(expected: str, actual: str) -> str:
    spelled = {"=": "{}", "-": "[-{}-]", "+": "{{+{}+}}"}
    return "".join(
        spelled[piece.mark].format(piece.text) for piece in diff.compare(expected, actual)[0]
    )


@pytest.mark.parametrize(
    ("expected", "actual", "shown"),
    [
        ("the same", "the same", "the same"),
        ("in Paris now", "in Rome now", "in [-Paris-]{+Rome+} now"),
        ("a b", "a", "a[- b-]"),
        ("", "new", "{+new+}"),
        # changed words with only blanks between them are one change
        ("it is so now", "it was not now", "it [-is so-]{+was not+} now"),
        # scripts without blanks differ by the character
        ("東京は晴れ", "東京は雨", "東京は[-晴れ-]{+雨+}"),
    ],
)
def test_word_differences(expected: str, actual: str, shown: str) -> None:
    assert marked(expected, actual) == shown


@given(expected=TEXT, actual=TEXT)
def test_both_texts_can_be_read_off(expected: str, actual: str) -> None:
    pieces = diff.compare(expected, actual)[0]
    assert "".join(piece.text for piece in pieces if piece.mark != "+") == plain.visible(expected)
    assert "".join(piece.text for piece in pieces if piece.mark != "-") == plain.visible(actual)
    assert all(piece.text for piece in pieces)


def test_likeness() -> None:
    assert diff.compare("a b c", "a b c")[1] == 1.0
    assert diff.compare("a", "b")[1] == 0.0


def test_megabytes_are_clipped_first() -> None:
    pieces = diff.compare("x y " * 2_500_000, "y z " * 2_500_000)[0]
    assert sum(len(piece.text) for piece in pieces) < 20_000


@pytest.mark.parametrize("where", [0, 3, 5_999, 20_000, 60_000])
@pytest.mark.parametrize("word", ["same ", "x", "\u6771", "a\n"])
def test_what_differs_is_never_left_out(where: int, word: str) -> None:
    expected = word * 30_000
    actual = f"{expected[:where]}OTHER{expected[where + 1 :]}"
    pieces = diff.compare(expected, actual)[0]
    assert {piece.mark for piece in pieces} >= {"+"}
    assert "OTHER" in "".join(piece.text for piece in pieces if piece.mark == "+")
    one, other = diff.excerpts(expected, actual, 200)
    assert max(len(one), len(other)) < 320
    assert "OTHER" in other
    assert one != other


@given(before=TEXT, after=TEXT, one=TEXT, other=TEXT)
def test_texts_that_differ_anywhere_show_it(before: str, after: str, one: str, other: str) -> None:
    expected, actual = (f"{before * 40}{middle}{after * 40}" for middle in (one, other))
    left, right = diff.excerpts(expected, actual, 40)
    assert (left == right) is (expected == actual)
    assert any(piece.mark != "=" for piece in diff.compare(expected, actual)[0]) is (
        expected != actual
    )


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a\nb\nc", "a\nx\nc", ["=a", "-b", "+x", "=c"]),
        ("", "a", ["+a"]),
        ("a", "", ["-a"]),
        ("same", "same", []),
        # of what is the same only what stands beside a change
        ("1\n2\n3\n4\n5", "1\n2\n3\n4\n6", ["=[...]", "=3", "=4", "-5", "+6"]),
        # lines that look like the head of a difference
        ("@@ -1 @@\n--- a", "@@ -1 @@\n--- b", ["=@@ -1 @@", "---- a", "+--- b"]),
        # the sentences of a long line
        (
            f"{'b' * 200}. It is so. End.",
            f"{'b' * 200}. It is not. End.",
            [f"={'b' * 200}.", "-It is so.", "+It is not.", "=End."],
        ),
        # what is hidden is written out
        ("a\u202e", "a", ["-a[U+202E]", "+a"]),
    ],
)
def test_line_differences(before: str, after: str, shown: list[str]) -> None:
    assert [f"{piece.mark}{piece.text}" for piece in diff.of_lines(before, after)] == shown


def test_lines_that_repeat_without_end_are_not_compared() -> None:
    left, right = "\n".join(["again"] * 5_000), "\n".join(["again"] * 4_000)
    found = diff.of_lines(left, right)
    assert {piece.mark for piece in found} == {"-", "+"}
    assert len(found) == 2 * diff.MOST_ROWS
