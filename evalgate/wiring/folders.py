"""Where what outlives a run lies."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from evalgate.wiring import committed
from evalgate.wiring.choosing import Choice


def cache_of(choice: Choice, environ: Mapping[str, str], *, say: Callable[[str], None]) -> Path:
    """The absolute folder of the agents' environments and the judges' verdicts; the user's where the named one is part
    of the commit: a change could bring the verdicts on itself along."""
    own = _user_cache(environ).absolute()
    named = Path(choice.settings.cache).expanduser().absolute() if choice.settings.cache else own
    if not committed.found_in(named, choice.root, environ):
        return named
    say(f"the cache {choice.settings.cache or named} contains committed files and was ignored")
    return own if own != named else Path(tempfile.mkdtemp(prefix="evalgate-"))


def _user_cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118 - HOME may be relative nonsense
    return Path(base) / "evalgate"
