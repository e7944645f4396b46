"""A test is skipped only for what no package brings, and `make test` fails where another one
was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = "pytester"

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
        (
            ["no chromium", ""],
            ["--complete", "-n", "1"],
            1,
            "skipped: 1 needs what `make test` brings",
        ),
    ],
)
def test_what_may_be_skipped(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    reasons: list[str],
    options: list[str],
    code: int,
    line: str,
) -> None:
    pytester.makepyfile(test_file=FILE.format(reasons=reasons))
    # what is installed beside it takes most of the start
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.syspath_prepend(TESTS)
    if "-n" in options:  # a process of xdist's has variables of its own
        for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PYTHONPATH", str(TESTS))
        options = ["-p", "xdist.plugin", *options]
    run = pytester.runpytest_subprocess if "-n" in options else pytester.runpytest_inprocess
    # else it looks through the folder of all temporary files
    folder = f"--rootdir={pytester.path}", f"--confcutdir={pytester.path}"
    done = run("-p", "builders.skips", "-c", os.devnull, *folder, *options, "-ra")
    assert done.ret == code
    lines = done.outlines
    assert (
        lines[-2] if line else "\n".join(each for each in lines if each.startswith("skipped"))
    ) == line
