"""The unigrams of a text as ROUGE-1 counts them, in every script."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import threading
import unicodedata
from collections.abc import Callable

from rouge_score import tokenize  # light; rouge_score.rouge_scorer would bring in numpy, absl and all of nltk

# Scripts whose every character is a word of its own, and scripts written without spaces whose marks
# belong to the character before them: the blocks that ADK lists, no more.
_ONE_BY_ONE = ((0x4E00, 0x9FFF), (0x3040, 0x309F), (0x30A0, 0x30FF), (0xAC00, 0xD7AF))
_CLUSTERED = ((0x0E00, 0x0E7F), (0x0E80, 0x0EFF), (0x1780, 0x17FF), (0x1000, 0x109F))

_PACKAGES = ("nltk", "nltk.stem")
_loading = threading.Lock()


def split(text: str) -> list[str]:
    """The unigrams of `text`, in order.

    NFKC and lower case; Chinese, Japanese and Korean by character, Thai, Lao, Khmer and Burmese by cluster, all
    else by word. ASCII words longer than three letters are stemmed (Porter, NLTK's variant), others kept whole.
    Source: google-adk 2.13, final_response_match_v1; rouge-score 0.1.2, tokenize.
    """
    if text.isascii():
        words: list[str] = tokenize.tokenize(text, _STEMMER)
        return words
    spaced = unicodedata.normalize("NFKC", text).lower().translate(_SPACING)
    return [_stem(word) if word.isascii() else word for word in spaced.split()]


def count(text: str) -> int:
    """How many unigrams `text` has. No stem is empty, so that none need be found."""
    return len(tokenize.tokenize(text, None)) if text.isascii() else len(split(text))


class _Spacing(dict[int, str]):
    """A translation table that learns each character on its first use: itself, spaced apart, or a space."""

    def __missing__(self, code: int) -> str:
        replacement = self[code] = _spaced(chr(code))
        return replacement


_SPACING = _Spacing()


def _spaced(char: str) -> str:
    code = ord(char)
    mark = unicodedata.category(char).startswith("M")
    if any(first <= code <= last for first, last in _ONE_BY_ONE):
        return f" {char} "
    if any(first <= code <= last for first, last in _CLUSTERED):
        return char if mark else f" {char}"
    return char if mark or char.isalnum() else " "


class _Stemmer:
    """What rouge_score.tokenize takes for a stemmer; it asks for words longer than three letters only."""

    def stem(self, word: str) -> str:
        """The stem of a lower-case ASCII word."""
        return _stem(word)


_STEMMER = _Stemmer()


@functools.lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    return _stemmer()(word) if len(word) > 3 else word


@functools.cache
def _stemmer() -> Callable[[str], str]:
    """NLTK's Porter stemmer, loaded without running the package modules above it.

    `import nltk` runs 400 modules and, where they are installed, numpy, scipy and scikit-learn: 0.4 s and 40 MiB
    or much more, for one class that needs three of them. So the two packages stand in `sys.modules` unexecuted
    while the stemmer loads, and nothing half-loaded is left behind.
    """
    with _loading:
        before = set(sys.modules)
        for name in _PACKAGES:
            if name not in before:
                spec = importlib.util.find_spec(name)
                if spec is None:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
                sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            stem: Callable[[str], str] = importlib.import_module("nltk.stem.porter").PorterStemmer().stem
        finally:
            # list() is one step for other threads, which import at the same time; a comprehension is not
            for name in [name for name in list(sys.modules) if name.startswith("nltk") and name not in before]:
                del sys.modules[name]
    return stem
