"""What runs in an agent's own process parses with the oldest Python that frameworks allow."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "evalgate"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("**/worker/*.py"))
OLDEST = (3, 9)  # as evalgate/worker/server.py says


def test_the_workers_of_the_core_and_of_wings_are_found() -> None:
    assert {"worker/server.py", "wings/frameworks/worker/llama_index.py"} <= {*FILES}


@pytest.mark.parametrize("name", FILES)
def test_it_parses_with_the_oldest_python(name: str) -> None:
    ast.parse((PACKAGE / name).read_text(encoding="utf-8"), name, feature_version=OLDEST)
