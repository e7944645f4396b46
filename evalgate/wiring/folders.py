"""Where what outlives a run lies."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs

from evalgate.config.settings import Settings
from evalgate.wiring import committed


def cache_of(settings: Settings, environ: Mapping[str, str], *, say: Callable[[str], None]) -> Path:
    """The absolute folder of the agents' environments and the judges' verdicts; the user's where the named one is part
    of the commit: a change could bring the verdicts on itself along."""
    own = platformdirs.user_cache_path("evalgate").absolute()
    named = Path(settings.cache).expanduser().absolute() if settings.cache else own
    if not committed.found_in(named, settings.root, environ):
        return named
    say(f"the cache {settings.cache or named} contains committed files and was ignored")
    return own if own != named else Path(tempfile.mkdtemp(prefix="evalgate-"))
