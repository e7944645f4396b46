"""Whether the tests have the night for themselves (`make nightly`): more examples, longer fuzzing,
whole matrices."""

from __future__ import annotations

import os
from typing import Final

import pytest

NIGHTLY: Final = bool(os.environ.get("NIGHTLY"))
BY_NIGHT: Final = pytest.mark.nightly
"""Marks what else is left out: `make nightly` runs it."""
ADKS: Final = ("new", pytest.param("old", marks=BY_NIGHT))
"""Both ends of the supported range of google-adk. By day, the old one runs an agent of every kind
(tests/parity/test_kinds.py)."""
