"""Whether the tests have the night for themselves (`make nightly`): more examples, longer fuzzing,
whole matrices."""

from __future__ import annotations

import os
from typing import Final

NIGHTLY: Final = bool(os.environ.get("NIGHTLY"))
