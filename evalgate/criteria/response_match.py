"""response_match_score: word overlap of the answer with the expected answer (ROUGE-1 F)."""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace

from rouge_score import tokenize

from evalgate.model import (
    Finding,
    Grade,
    Need,
    NotEvaluated,
    Reason,
    Score,
    TrialView,
    not_evaluated,
    turns,
)
from evalgate.values import Sentence
from .base import CriterionSpec, NoOptions

# Scripts in which every character is a word, and scripts written without spaces, whose marks belong
# to the character before them: exactly the blocks that ADK lists.
_CHARACTER_SCRIPTS = ((0x4E00, 0x9FFF), (0x3040, 0x309F), (0x30A0, 0x30FF), (0xAC00, 0xD7AF))
_UNSPACED_SCRIPTS = ((0x0E00, 0x0E7F), (0x0E80, 0x0EFF), (0x1780, 0x17FF), (0x1000, 0x109F))

_PACKAGES = ("nltk", "nltk.stem")
_loading = threading.Lock()


def split(text: str) -> list[str]:
    """The unigrams of `text`, in order.

    NFKC and lower case; Chinese, Japanese and Korean by character, Thai, Lao, Khmer and Burmese by
    cluster, everything else by word. ASCII words longer than three letters are stemmed (Porter,
    NLTK's variant). Source: google-adk 2.13, final_response_match_v1; rouge-score 0.1.2,
    tokenize."""
    if text.isascii():
        words: list[str] = tokenize.tokenize(text, _STEMMER)
        return words
    spaced = unicodedata.normalize("NFKC", text).lower().translate(_SPACING)
    return [_stem(word) if word.isascii() else word for word in spaced.split()]


def count(text: str) -> int:
    """The number of unigrams of `text`. No stem is empty, so stemming is not needed."""
    return len(tokenize.tokenize(text, None)) if text.isascii() else len(split(text))


class _Spacing(dict[int, str]):
    """A translation table that adds each character on its first use: the character, with spaces
    around it if needed, or a space."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        is_mark = unicodedata.category(char).startswith("M")
        spaced = char if is_mark or char.isalnum() else " "
        if any(first <= code <= last for first, last in _CHARACTER_SCRIPTS):
            spaced = f" {char} "
        elif any(first <= code <= last for first, last in _UNSPACED_SCRIPTS):
            spaced = char if is_mark else f" {char}"
        self[code] = spaced
        return spaced


_SPACING = _Spacing()


@functools.lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    return _stemmer()(word) if len(word) > 3 else word


_STEMMER = SimpleNamespace(stem=_stem)
"""The stemmer for rouge_score.tokenize, which passes only words longer than three letters."""


@functools.cache
def _stemmer() -> Callable[[str], str]:
    """NLTK's Porter stemmer, loaded without its package modules.

    `import nltk` runs 400 modules and, if they are installed, numpy, scipy and scikit-learn: 0.4 s
    and 40 MiB or much more, for one class that needs three of them. So the two packages are in
    `sys.modules` unexecuted while the stemmer loads, and are removed afterwards."""
    with _loading:
        loaded_modules = set(sys.modules)
        for name in _PACKAGES:
            if name not in loaded_modules:
                spec = importlib.util.find_spec(name)
                if spec is None:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
                sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            stem: Callable[[str], str] = (
                importlib.import_module("nltk.stem.porter").PorterStemmer().stem
            )
        finally:
            # other threads import at the same time: list() copies in one step, a comprehension does
            # not
            for name in [
                name
                for name in list(sys.modules)
                if name.startswith("nltk") and name not in loaded_modules
            ]:
                del sys.modules[name]
    return stem


def grade(view: TrialView) -> Grade:
    """The mean of the turns' F scores, computed exactly and rounded once. Thoughts are not part of
    the answer.

    A turn whose reference has no words has no score and is left out of the mean. An answer without
    words scores 0.0."""
    pairs = turns.pair(view)
    if isinstance(pairs, NotEvaluated):
        return pairs
    scores = [f_score(turns.answer(actual), turns.answer(expected)) for actual, expected in pairs]
    known_scores = [score for score in scores if score is not None]
    turn_scores = tuple(None if score is None else float(score) for score in scores)
    if not known_scores:
        return not_evaluated(Reason.REFERENCE_MISSING, "no_reference", turns=turn_scores)
    findings = tuple(
        Finding(text=Sentence("turn_without_reference"), turn=number)
        for number, score in enumerate(scores, start=1)
        if score is None
    )
    return Score(value=turns.mean(known_scores), turns=turn_scores, findings=findings)


def grade_as_adk(view: TrialView) -> Grade:
    """ADK's rule: thoughts are part of the answer, a missing reference scores 0.0, and floats are
    added in order."""
    pairs = turns.pair(view)
    if isinstance(pairs, NotEvaluated):
        return pairs
    scores = tuple(
        f_score_as_adk(
            turns.answer(actual, with_thoughts=True), turns.answer(expected, with_thoughts=True)
        )
        for actual, expected in pairs
    )
    return Score(value=turns.running_mean(scores), turns=scores)


def f_score(answer: str, reference: str) -> Fraction | None:
    """ROUGE-1 F: twice the shared words divided by all words of both (Lin 2004). None if the
    reference has no words."""
    shared, answer_count, reference_count = _counts(answer, reference)
    return Fraction(2 * shared, answer_count + reference_count) if reference_count else None


def f_score_as_adk(answer: str, reference: str) -> float:
    """The same score in floats, from precision and recall, as rouge-score 0.1.2 computes it; 0.0 if
    both are 0."""
    shared, answer_count, reference_count = _counts(answer, reference)
    precision = shared / max(answer_count, 1)
    recall = shared / max(reference_count, 1)
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def _counts(answer: str, reference: str) -> tuple[int, int, int]:
    """The number of shared words (each counted as often as in the text that has it less often), of
    the answer's words, and of the reference's words."""
    if answer == reference:  # the usual case
        words = count(reference)
        return words, words, words
    answer_words = Counter(split(answer))
    reference_words = Counter(split(reference))
    return (answer_words & reference_words).total(), answer_words.total(), reference_words.total()


SPEC = CriterionSpec(
    name="response_match_score",
    summary="word overlap with the expected answer (ROUGE-1 F)",
    options=NoOptions,
    build=lambda _options, _use, services: (
        grade if services.deviations.exact_overlap else grade_as_adk
    ),
    needs=frozenset({Need.REFERENCE}),
)
