"""Fences: the same text has the same code, another text another one, and no text holds its own."""

import hashlib

from hypothesis import given, strategies as st

from evalgate.judges import prompting
from evalgate.judges.prompting import Pieces

PIECES = st.dictionaries(
    st.sampled_from(["answer", "request", "steps", "tools"]),
    st.text(max_size=80),
    min_size=1,
    max_size=4,
)


@given(PIECES)
def test_the_same_pieces_give_the_same_prompt(pieces: Pieces) -> None:
    # or no verdict would ever be found in the cache
    assert prompting.fence(pieces) == prompting.fence(dict(pieces))


@given(PIECES, PIECES)
def test_other_pieces_give_another_code(some: Pieces, others: Pieces) -> None:
    shown = [
        [(name, prompting.reveal(text)) for name, text in pieces.items()]
        for pieces in (some, others)
    ]
    assert (prompting.fence(some)[0] == prompting.fence(others)[0]) == (shown[0] == shown[1])


def test_boundaries_between_pieces_count() -> None:
    joined = prompting.fence({"a": "xy", "b": "z"})
    other = prompting.fence({"a": "x", "b": "yz"})
    assert joined[0] != other[0]


def test_a_code_that_occurs_in_a_text_is_passed_over() -> None:
    pieces_hash = hashlib.blake2b(b"pieces", digest_size=16)
    first_code = prompting.pick_code(pieces_hash, [])
    second_code = prompting.pick_code(pieces_hash, [f"... {first_code.upper()} ..."])
    assert first_code != second_code
    third_code = prompting.pick_code(pieces_hash, [first_code, f"{second_code}!"])
    assert third_code not in (first_code, second_code)
    assert prompting.pick_code(pieces_hash, [f"{first_code[:9]} {first_code[9:]}"]) == first_code


def test_what_cannot_be_seen_is_shown() -> None:
    hidden = "a\u200bb\ufeff\u202ec\U000e0041\ud800"
    assert (
        prompting.reveal(hidden) == "a<U+200B>b<U+FEFF><U+202E>c<U+E0041>\N{REPLACEMENT CHARACTER}"
    )
    # joiners carry meaning
    joined = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f680"
    assert prompting.reveal(joined) == joined
