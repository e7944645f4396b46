"""What a run without judges must not load: each client takes a second or more."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration


def test_the_table_of_judges_loads_no_client() -> None:
    script = (
        "import sys; import evalgate.judges, evalgate.judges.panel;"
        "print([name for name in ('google.genai', 'openai', 'genai_prices', 'requests') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
