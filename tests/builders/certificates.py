"""Files of certificates are read once in a process and its forks: each client of google-genai reads
them twice, which takes longer than what a test asks it."""

from __future__ import annotations

import functools
import os
import ssl
from pathlib import Path
from typing import Any

import certifi


def keep() -> None:
    """For this process and its forks; a file that changes is read again."""
    made = ssl.create_default_context

    @functools.cache
    def kept(_state: tuple[int, int], *purpose: Any, **files: Any) -> ssl.SSLContext:
        return made(*purpose, **files)

    def create(*purpose: Any, **files: Any) -> ssl.SSLContext:
        try:
            state = Path(files["cafile"]).stat()
        except (KeyError, TypeError, OSError):  # no file is named, or it is not there
            return made(*purpose, **files)
        return kept((state.st_mtime_ns, state.st_size), *purpose, **files)

    ssl.create_default_context = create  # type: ignore[assignment]


def load() -> None:
    """What clients of google-genai ask for, where the environment says nothing and as it is."""
    ssl.create_default_context(cafile=certifi.where(), capath=None)
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    ssl.create_default_context(cafile=file or certifi.where(), capath=folder)
