"""Two texts, word by word: what only the expected one says, what only the actual one says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Literal, Protocol, TypeAlias, TypeVar

from evalgate.text import plain, words
from evalgate.values import frozen_dataclass

Mark: TypeAlias = Literal["=", "-", "+"]

MAX_WORDS = 600
CLIP = 6_000
CONTEXT_LINES = 2
MOST_PAIRS = 20_000
"""Of equal words; texts with more say the same few words again and again, and are shown side by
side."""
LONG_LINE = 160
MOST_ROWS = 2_000
_SENTENCES = re.compile(r"(?<=[.!?]) ")
# Scripts that are written without blanks (kana, Han, Thai, Lao, Khmer, Burmese) differ by the
# character.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]|\w(?:(?!"
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\w)*|\s+|[^\w\s]"
)


class Marked(Protocol):
    """A line or a piece of a difference."""

    @property
    def mark(self) -> str:
        """Blank or `=` if it is in both."""


Line = TypeVar("Line", bound=Marked)


@frozen_dataclass
class DiffPiece:
    """A stretch of text: in both (`=`), only expected (`-`) or only actual (`+`)."""

    mark: Mark
    text: str


@frozen_dataclass
class Wording:
    """The difference of two texts, and how alike they are (0 to 1, by words)."""

    pieces: tuple[DiffPiece, ...]
    likeness: float


def compare(expected: str, actual: str) -> Wording:
    """The word difference of two texts, which are clipped around it first: a text of megabytes is
    no reading matter."""
    left, right = (_WORD.findall(text) for text in excerpts(expected, actual, CLIP))
    left, right = _excerpts(left, right, MAX_WORDS, gap=lambda _: [" [...] "])
    if left != right and _pairs(left, right) > MOST_PAIRS:
        return Wording(pieces=tuple(_changed("".join(left), "".join(right))), likeness=0.0)
    matcher = SequenceMatcher(str.isspace, left, right, autojunk=False)
    pieces: list[DiffPiece] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            pieces.append(DiffPiece(mark="=", text="".join(left[start:end])))
        else:
            pieces += _changed("".join(left[start:end]), "".join(right[other_start:other_end]))
    return Wording(pieces=tuple(_merged(_without_islands(pieces))), likeness=matcher.ratio())


def of_lines(old_text: str, new_text: str) -> list[DiffPiece]:
    """The lines of two texts, each a piece; equal lines are included only next to a change. A long
    line is split at the ends of its sentences."""
    left, right = (_rows(plain.visible(text)) for text in (old_text, new_text))
    if _pairs(left, right) > MOST_PAIRS:
        return [
            *(DiffPiece(mark="-", text=row) for row in left),
            *(DiffPiece(mark="+", text=row) for row in right),
        ]
    pieces: list[DiffPiece] = []
    last = 0
    for group in SequenceMatcher(None, left, right, autojunk=False).get_grouped_opcodes(
        CONTEXT_LINES
    ):
        skipped = group[0][1] - last
        pieces += (
            [DiffPiece(mark="=", text=f"[... {words.counted(skipped, 'line')} left out ...]")]
            if skipped
            else []
        )
        for tag, start, end, right_start, right_end in group:
            if tag == "equal":
                pieces += [DiffPiece(mark="=", text=row) for row in left[start:end]]
            else:
                pieces += [DiffPiece(mark="-", text=row) for row in left[start:end]]
                pieces += [DiffPiece(mark="+", text=row) for row in right[right_start:right_end]]
        last = group[-1][2]
    return pieces


def _rows(text: str) -> list[str]:
    rows = (
        row
        for line in text.splitlines()
        for row in (_SENTENCES.split(line) if len(line) > LONG_LINE else [line])
    )
    return list(rows)[:MOST_ROWS]


def excerpts(expected: str, actual: str, limit: int) -> tuple[str, str]:
    """About `limit` characters of both texts, including the first difference. Hidden characters are
    written out; only common text is left out before the difference."""
    return _excerpts(plain.visible(expected), plain.visible(actual), limit, gap=_gap)


def nearby(lines: Sequence[Line], limit: int) -> tuple[Sequence[Line], int]:
    """`limit` lines of a difference from shortly before its first mark on, and how many others are
    left out."""
    first = next((at for at, line in enumerate(lines) if line.mark.strip(" =")), 0)
    start = max(min(first - CONTEXT_LINES, len(lines) - limit), 0)
    return lines[start : start + limit], max(len(lines) - limit, 0)


Some = TypeVar("Some", str, list[str])


def _excerpts(
    left: Some, right: Some, limit: int, *, gap: Callable[[int], Some]
) -> tuple[Some, Some]:
    if max(len(left), len(right)) <= limit:
        return left, right
    room = limit // 4
    start = max(_common(left, right) - room, 0)
    end = max(_common(left[start:][::-1], right[start:][::-1]) - room, 0)
    lead = gap(start) if start else left[:0]
    one, other = (
        lead + text[start:stop] + (gap(len(text) - stop) if stop < len(text) else text[:0])
        for text in (left, right)
        for stop in (min(start + limit, len(text) - end),)
    )
    return one, other


def _gap(count: int) -> str:
    return f" [... {words.counted(count, 'character')} left out ...] "


def _common(left: Some, right: Some) -> int:
    """How much of their beginnings is the same."""
    low = 0
    high = min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[low:middle] == right[low:middle] else (low, middle - 1)
    return low


def _pairs(left: Sequence[str], right: Sequence[str]) -> int:
    """How often a word of one text is the same as one of the other, which is what a comparison
    costs."""
    counts = Counter(right)
    return sum(counts[word] for word in left if not word.isspace())


def _changed(expected: str, actual: str) -> list[DiffPiece]:
    return [DiffPiece(mark="-", text=expected)] * bool(expected) + [
        DiffPiece(mark="+", text=actual)
    ] * bool(actual)


def _without_islands(pieces: Sequence[DiffPiece]) -> Iterable[DiffPiece]:
    """Blanks and lone marks between two changes belong to both: three changed words read as one
    change."""
    for index, piece in enumerate(pieces):
        inside = 0 < index < len(pieces) - 1
        if (
            piece.mark == "="
            and inside
            and not any(character.isalnum() for character in piece.text)
        ):
            yield DiffPiece(mark="-", text=piece.text)
            yield DiffPiece(mark="+", text=piece.text)
        else:
            yield piece


def _merged(pieces: Iterable[DiffPiece]) -> Iterable[DiffPiece]:
    """Neighbouring changes as one: all that is only expected, then all that is only actual."""
    gone = come = ""
    for piece in pieces:
        if piece.mark == "-":
            gone += piece.text
        elif piece.mark == "+":
            come += piece.text
        else:
            yield from _changed(gone, come)
            gone = come = ""
            yield piece
    yield from _changed(gone, come)
