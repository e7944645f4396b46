"""Untrusted text in a prompt: every piece stands between marker lines whose code nobody can know beforehand.

The code is a hash over all pieces of the prompt. Whoever writes one piece would have to write down a hash of what they
are writing, so that no piece can hold the code; and the same pieces give the same code, so that a verdict can be
found again in the cache.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_KEY = b"evalgate fence 1"
_HIDDEN = re.compile("[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text that others wrote; `name` is ours: a word without spaces."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """The pieces between their marker lines, and the code of these lines."""

    code: str
    text: str


def fence(pieces: Sequence[Piece]) -> Fenced:
    """Put the pieces between marker lines, in order; what is invisible in them is made visible."""
    shown = [Piece(name=piece.name, text=reveal(piece.text)) for piece in pieces]
    code = pick_code(codes_of(shown), (piece.text for piece in shown))
    return Fenced(code=code, text="\n\n".join(_between(piece, code) for piece in shown))


def opening(name: str, code: str) -> str:
    """The marker line before a piece."""
    return f"<<< {name} {code}"


def closing(name: str, code: str) -> str:
    """The marker line after a piece."""
    return f">>> {name} {code}"


def reveal(text: str) -> str:
    """Characters that a reader cannot see but a model can (zero width, direction overrides, tags) by their number."""
    visible = _HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", visible)


def codes_of(pieces: Sequence[Piece]) -> Iterator[str]:
    """Codes to choose from, the same ones for the same pieces."""
    hashed = hashlib.blake2b(key=_KEY, digest_size=16)
    for word in (word for piece in pieces for word in (piece.name, piece.text)):
        raw = word.encode()
        hashed.update(f"{len(raw)}:".encode() + raw)
    for number in itertools.count():
        turn = hashed.copy()
        turn.update(str(number).encode())
        yield turn.hexdigest()


def pick_code(codes: Iterator[str], texts: Iterable[str]) -> str:
    """The first code that occurs in none of the texts."""
    lowered = [text.casefold() for text in texts]
    return next(code for code in codes if not any(code in text for text in lowered))


def _between(piece: Piece, code: str) -> str:
    return f"{opening(piece.name, code)}\n{piece.text}\n{closing(piece.name, code)}"
