"""The difference of two texts by word: text that only the expected one has, text that only the
actual one has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import islice
from typing import Literal, TypeAlias

from . import plain, words

Mark: TypeAlias = Literal["=", "-", "+"]
"""Who has a piece: both, only the expected text, or only the actual one."""
_MARKS: dict[str, Mark] = {" ": "=", "-": "-", "+": "+"}
"""By the marks of a unified diff."""

MAX_CHARACTERS = 3_000
"""Of each text, around the first difference, that are compared by word."""
CONTEXT_LINES = 2
"""Equal lines that are shown around each change."""
MOST_PAIRS = 20_000
"""Pairs of equal words; texts with more repeat the same few words, and are shown side by side."""
LONG_LINE = 160
"""In characters: longer lines are split into sentences, so that one edit shows as one."""
MOST_ROWS = 2_000
"""Of each text; the rest is neither compared nor shown."""
_SENTENCES = re.compile(r"(?<=[.!?]) ")
"""The blank after a sentence, where a long line is split."""
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]|\w(?:(?!"
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\w)*|\s+|[^\w\s]"
)
"""A word, white space, or a mark. Scripts without blanks (kana, Han, Thai, Lao, Khmer, Burmese)
differ by the character."""


@dataclass(frozen=True, slots=True)
class DiffPiece:
    """A stretch of text."""

    mark: Mark
    """`=`: both have it; `-`: only the expected one; `+`: only the actual one."""
    text: str


def compare(expected: str, actual: str) -> tuple[Sequence[DiffPiece], float]:
    """The difference of two texts by word, and their likeness (0 to 1). They are clipped around the
    difference first: nobody reads megabytes."""
    expected_words, actual_words = (
        _WORD.findall(text) for text in excerpts(expected, actual, MAX_CHARACTERS)
    )
    if expected_words != actual_words and _pairs(expected_words, actual_words) > MOST_PAIRS:
        return _replacement("".join(expected_words), "".join(actual_words)), 0.0
    matcher = SequenceMatcher(str.isspace, expected_words, actual_words, autojunk=False)
    opcodes = matcher.get_opcodes()
    pieces: list[DiffPiece] = []
    expected_text = actual_text = ""
    for index, (tag, start, end, actual_start, actual_end) in enumerate(opcodes):
        text = "".join(expected_words[start:end])
        # blanks and single marks between two changes count as changed: three changed words read as
        # one change
        is_between = 0 < index < len(opcodes) - 1 and not any(map(str.isalnum, text))
        if tag == "equal" and not is_between:
            pieces += [*_replacement(expected_text, actual_text), DiffPiece("=", text)]
            expected_text = actual_text = ""
        else:
            expected_text += text
            actual_text += "".join(actual_words[actual_start:actual_end])
    pieces += _replacement(expected_text, actual_text)
    return pieces, matcher.ratio()


def of_lines(old_text: str, new_text: str) -> list[DiffPiece]:
    """The lines of two texts, each a piece; equal lines are included only next to a change, and
    `[...]` for others between. A long line is split at sentence ends."""
    old_rows, new_rows = (_rows(plain.visible(text)) for text in (old_text, new_text))
    if _pairs(old_rows, new_rows) > MOST_PAIRS:
        return [
            *(DiffPiece("-", row) for row in old_rows),
            *(DiffPiece("+", row) for row in new_rows),
        ]
    pieces: list[DiffPiece] = []
    lines = unified_diff(old_rows, new_rows, n=CONTEXT_LINES, lineterm="")
    for line in islice(lines, 2, None):  # after the names of the files
        if line[0] in _MARKS:
            pieces.append(DiffPiece(_MARKS[line[0]], line[1:]))
        elif not line.startswith(("@@ -0", "@@ -1 ", "@@ -1,")):
            pieces.append(DiffPiece("=", "[...]"))
    return pieces


def _rows(text: str) -> list[str]:
    """The lines of a text, long ones split into sentences; at most MOST_ROWS."""
    rows = (
        row
        for line in text.splitlines()
        for row in (_SENTENCES.split(line) if len(line) > LONG_LINE else [line])
    )
    return list(rows)[:MOST_ROWS]


def excerpts(expected: str, actual: str, limit: int) -> tuple[str, str]:
    """About `limit` characters of both texts, including the first difference. Hidden characters are
    written out; only common text is left out before the difference."""
    left, right = plain.visible(expected), plain.visible(actual)
    if max(len(left), len(right)) <= limit:
        return left, right
    room = limit // 4
    start = max(_common(left, right) - room, 0)
    end = max(_common(left[start:][::-1], right[start:][::-1]) - room, 0)
    left_excerpt, right_excerpt = (
        _gap(start) + text[start:stop] + _gap(len(text) - stop)
        for text in (left, right)
        for stop in (min(start + limit, len(text) - end),)
    )
    return left_excerpt, right_excerpt


def _gap(count: int) -> str:
    """The remark in place of omitted characters; "" for none."""
    return f" [... {words.counted(count, 'character')} left out ...] " if count else ""


def _common(left: str, right: str) -> int:
    """The length of the common beginning."""
    pairs = enumerate(zip(left, right, strict=False))
    return next(
        (index for index, (one, other) in pairs if one != other), min(len(left), len(right))
    )


def _pairs(left: Sequence[str], right: Sequence[str]) -> int:
    """The number of pairs of equal words, which is the cost of a comparison."""
    counts = Counter(right)
    return sum(counts[word] for word in left if not word.isspace())


def _replacement(expected: str, actual: str) -> list[DiffPiece]:
    """One text replaced by the other; an empty text has no piece."""
    return [DiffPiece("-", expected)] * bool(expected) + [DiffPiece("+", actual)] * bool(actual)
