"""What the image's build runs of evalgate runs without a container too: a build takes minutes, and
only a machine with a container host sees it fail."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = re.findall(
    r'/opt/evalgate/bin/python -I -c "([^"]+)"',
    (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", ""),
)


def test_the_build_runs_a_script() -> None:
    assert SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_of_the_build_runs_and_compiles_every_template(script: str) -> None:
    subprocess.run([sys.executable, "-I", "-c", script], check=True)
    templates = (ROOT / "evalgate/reports/templates").glob("*.j2")
    assert all(f"'{template.name}'" in script for template in templates)
