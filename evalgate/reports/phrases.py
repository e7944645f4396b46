"""The sentences of results. Their words are in reports/templates/sentences.txt.j2, so that a change
of wording needs one file."""

from __future__ import annotations

import functools

from evalgate.text import templates, words

_TEMPLATE = templates.Template(
    "sentences.txt.j2", package="evalgate.reports", names={"words": words}
)
"""Its macros are functions, mappings by kind, or texts."""


def phrase(name: str, /, *values: object) -> str:
    """The sentence `name` for these values, on one line. Raises AttributeError without such a
    sentence."""
    is_constant = all(isinstance(value, CONSTANTS) for value in values)
    return _constant(name, *values) if is_constant else _render(name, *values)


def _render(name: str, *values: object) -> str:
    """The sentence, rendered anew. `values` of a mapping: its key."""
    sentence = getattr(_TEMPLATE.macros, name)
    if isinstance(sentence, dict):  # words by kind
        (kind,) = values
        sentence = sentence[kind]
    elif callable(sentence):
        sentence = sentence(*values)
    return templates.line(str(sentence))


CONSTANTS = (str, int, float, type(None))
"""Types of values that can never change."""
_constant = functools.lru_cache(maxsize=4096, typed=True)(_render)
"""The same for facts that cannot change: 10,000 cases have the same few sentences."""
