"""How often this process looks for garbage that only a search finds."""

from __future__ import annotations

import gc

SELDOM = (50_000, 20, 20)


def collect_seldom() -> None:
    """To be called before all that is heavy is imported. What importing and a run make is mostly kept to their end, and
    looking through it again and again takes a tenth of the one and a twentieth of the other."""
    gc.set_threshold(*SELDOM)
