"""Where what outlives a run lies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from evalgate.settings import Settings


def cache_of(settings: Settings, environ: Mapping[str, str]) -> Path:
    """The absolute folder of the agents' environments and the judges' verdicts."""
    return (Path(settings.cache).expanduser() if settings.cache else _user_cache(environ)).absolute()


def _user_cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118 - HOME may be relative nonsense
    return Path(base) / "evalgate"
