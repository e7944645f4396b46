"""Words as ROUGE-1 counts them, in every script."""

import sys

import pytest
from hypothesis import given, strategies as st

from evalgate.criteria import response_match

# ruff: noqa: RUF001 - letters of every script are the subject here


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("The CATS are running", ["the", "cat", "are", "run"]),
        ("e-mail foo_bar don't", ["e", "mail", "foo", "bar", "don", "t"]),
        ("3.14 $1,000", ["3", "14", "1", "000"]),
        # NLTK's variant of Porter; three letters are kept
        ("flies dies skies was", ["fli", "die", "sky", "was"]),
        ("你好, 世界", ["你", "好", "世", "界"]),
        ("東京2020タワー", ["東", "京", "2020", "タ", "ワ", "ー"]),
        ("서울 날씨", ["서", "울", "날", "씨"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),  # vowel signs stay with their consonant
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("Cafés running café", ["cafés", "run", "café"]),  # only ASCII words are stemmed
        ("ﬁne Ｈｅｌｌｏ １２３ ²", ["fine", "hello", "123", "2"]),  # NFKC
        ("cafe\u0301", ["café"]),
        ("👍 👩‍🚀 —", []),
        ("a\x1fb\u00a0c", ["a", "b", "c"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert response_match.split(text) == words


@given(st.text())
def test_no_word_is_empty_or_has_a_space(text: str) -> None:
    for word in response_match.split(text):
        assert word.split() == [word]


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_text_takes_no_other_way_than_the_same_text_beside_another_script(text: str) -> None:
    assert response_match.split(f"{text} é") == [*response_match.split(text), "é"]


def test_the_stemmer_loads_while_another_thread_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    class Name(str):
        """A module's name; another thread's import ends just when it is looked at."""

        __slots__ = ()

        def startswith(self, *given: object) -> bool:
            sys.modules[f"another-{len(sys.modules)}"] = sys
            return str.startswith(self, *given)

    with_it = {**sys.modules, Name("a-module"): sys}
    monkeypatch.setattr(sys, "modules", with_it)
    assert response_match._stemmer.__wrapped__()("running") == "run"


@given(st.text() | st.text(st.sampled_from("abcdeilnorstvyz .-é東")))
def test_counting_them_needs_no_stems(text: str) -> None:
    assert response_match.count(text) == len(response_match.split(text))
