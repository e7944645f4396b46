"""Two texts, word by word: what only the expected one says, what only the actual one says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from evalgate.text import plain

Mark: TypeAlias = Literal["=", "-", "+"]

MAX_WORDS = 600
CLIP = 6_000
MOST_PAIRS = 20_000
"""Of equal words; texts with more say the same few words again and again, and are shown side by side."""
# Scripts that are written without blanks (kana, Han, Thai, Lao, Khmer, Burmese) differ by the character.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]|\w(?:(?!"
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\w)*|\s+|[^\w\s]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of text: in both (`=`), only expected (`-`) or only actual (`+`)."""

    mark: Mark
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The difference of two texts, and how alike they are (0 to 1, by words)."""

    pieces: tuple[Piece, ...]
    likeness: float


def compare(expected: str, actual: str) -> Wording:
    """The word difference of two texts, which are clipped first: a text of megabytes is no reading matter."""
    left, right = _words(expected), _words(actual)
    if _pairs(left, right) > MOST_PAIRS:
        return Wording(pieces=tuple(_changed("".join(left), "".join(right))), likeness=0.0)
    matcher = SequenceMatcher(str.isspace, left, right, autojunk=False)
    pieces: list[Piece] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            pieces.append(Piece(mark="=", text="".join(left[start:end])))
        else:
            pieces += _changed("".join(left[start:end]), "".join(right[other_start:other_end]))
    return Wording(pieces=tuple(_merged(_without_islands(pieces))), likeness=matcher.ratio())


def _pairs(left: Sequence[str], right: Sequence[str]) -> int:
    """How often a word of one text is the same as one of the other, which is what a comparison costs."""
    others = Counter(right)
    return sum(others[word] for word in left if not word.isspace())


def _words(text: str) -> list[str]:
    found = _WORD.findall(plain.visible(plain.clip(text, CLIP)))
    return found if len(found) <= MAX_WORDS else [*found[:MAX_WORDS], " [...]"]


def _changed(expected: str, actual: str) -> list[Piece]:
    return [Piece(mark="-", text=expected)] * bool(expected) + [Piece(mark="+", text=actual)] * bool(actual)


def _without_islands(pieces: Sequence[Piece]) -> Iterable[Piece]:
    """Blanks and lone marks between two changes belong to both: three changed words read as one change."""
    for index, piece in enumerate(pieces):
        inside = 0 < index < len(pieces) - 1
        if piece.mark == "=" and inside and not any(character.isalnum() for character in piece.text):
            yield Piece(mark="-", text=piece.text)
            yield Piece(mark="+", text=piece.text)
        else:
            yield piece


def _merged(pieces: Iterable[Piece]) -> Iterable[Piece]:
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
