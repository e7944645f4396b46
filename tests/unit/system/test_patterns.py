"""Regular expressions of users: a search ends, whatever they wrote."""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from evalgate.system import patterns

LETTERS = "".join(random.Random(1).choices("ab", k=300_000))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 60 + "b"),
        (r"^(?=a)(a|aa)+$", "a" * 60 + "b"),
        ("a[ab]{5000}c", LETTERS),  # an engine without backtracking takes long, too
        (r"(?:(a)|(b)|(ab))*(?!)", LETTERS * 10),  # memory
    ],
)
def test_a_search_without_an_end_is_neither_found_nor_missed(
    pattern: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "LONGEST_SEARCH_S", 0.2)
    began = time.monotonic()
    with pytest.raises(patterns.SearchFailed, match=r"needed more than .*: write it without"):
        patterns.search(pattern, [text])
    assert time.monotonic() - began < 20
    assert patterns.search("a|b", ["b", "c"]) == [True, False]  # the next one is not its heir


def test_threads_get_their_own_answers() -> None:
    def search(number: int) -> list[bool]:
        return patterns.search(f"^{number}$", [str(other) for other in range(40)])

    with ThreadPoolExecutor(8) as pool:
        for number, hits in enumerate(pool.map(search, range(40))):
            assert hits == [other == number for other in range(40)]


def test_a_search_that_is_interrupted_leaves_no_answer_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patterns.search("a", ["a"])
    child = patterns._CHILDREN[os.getpid()]

    def interrupt() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(child.stdin, "flush", interrupt)
        with pytest.raises(KeyboardInterrupt):
            patterns.search("a", ["a", "a", "a"])
    assert patterns.search("a", ["b"]) == [False]
