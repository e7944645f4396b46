"""The sentences of results. Their words are macros of reports/templates/sentences.txt.j2, so that a
change of wording needs one file."""

from __future__ import annotations

import functools
from typing import Any

from evalgate.text import templates, words


def phrase(name: str, /, *values: object, **named_values: object) -> str:
    """The sentence of the macro `name` for these values, on one line. Raises AttributeError without
    such a macro."""
    return templates.line(str(getattr(_macros(), name)(*values, **named_values)))


@functools.cache
def _macros() -> Any:
    return templates.load(
        "sentences.txt.j2", package="evalgate.reports", template_globals={"words": words}
    )
