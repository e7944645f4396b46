"""The programs of bench/, in forks of a process that has imported evalgate."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from builders import forked_command

BENCH = Path(__file__).parents[2] / "bench"
PATIENCE_S = 300.0


def figures(name: str, *arguments: str, **environment: str) -> Any:
    """What a benchmark that ends well measured, which is its last line."""
    command = forked_command.forked(
        [str(BENCH / name), *arguments], cwd=BENCH.parent, env={**os.environ, **environment}
    )
    try:
        printed, errors = command.communicate(timeout=PATIENCE_S)
    except BaseException:
        command.kill()
        raise
    assert command.wait() == 0, (errors or "")[-3000:]
    return json.loads(printed.splitlines()[-1])
