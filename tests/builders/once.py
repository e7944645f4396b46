"""What takes long to make, once for all of pytest's processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made(name: str, factory: pytest.TempPathFactory, make: Callable[[Path], None]) -> Path:
    """The folder of that name that all processes know, with what `make` puts there. Nobody changes
    it."""
    own = factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    is_made = shared / ".made"
    shared.mkdir(exist_ok=True)
    with FileLock(shared / ".lock"):
        if not is_made.exists():
            make(shared)
            is_made.touch()
    return shared
