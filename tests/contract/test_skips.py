"""A test is skipped only for what no package brings, and `make test` fails where another one was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILE = """
import pytest

@pytest.mark.parametrize("reason", {reasons})
def test_one(reason):
    if reason:
        pytest.skip(reason)
"""


@pytest.mark.parametrize(
    ("reasons", "options", "code", "line"),
    [
        # nothing skipped, nothing said
        ([""], ["--complete"], 0, ""),
        # what no package brings
        (
            ["needs an account: no model", "needs the system: root", "needs the system: /proc"],
            ["--complete"],
            0,
            "skipped: 2 need a right or feature of the system, 1 needs an account",
        ),
        # whatever else: told, and with `--complete` red
        (["no chromium"], [], 0, "skipped: 1 needs what `make test` brings"),
        (["no chromium", ""], ["--complete"], 1, "skipped: 1 needs what `make test` brings"),
        # the same where several processes share the tests
        (["no chromium", ""], ["--complete", "-n", "1"], 1, "skipped: 1 needs what `make test` brings"),
    ],
)
def test_what_may_be_skipped(tmp_path: Path, reasons: list[str], options: list[str], code: int, line: str) -> None:
    (tmp_path / "test_file.py").write_text(FILE.format(reasons=reasons))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "xdist.plugin",
        "-p",
        "builders.skips",
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),
    ]
    # what is installed beside it takes most of the start, and a process of xdist's has variables of its own
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        [*command, *options, "-ra", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=TESTS,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,  # a machine may be busy with everything else
    )
    assert done.returncode == code, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert (lines[-2] if line else "\n".join(each for each in lines if each.startswith("skipped"))) == line
