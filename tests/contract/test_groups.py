"""Every file of tests is run by exactly one job of the workflow, and one job speaks for all of
them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import groups

ROOT = Path(__file__).parents[2]


def jobs(workflow: str) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(
        (ROOT / f".github/workflows/{workflow}.yml").read_text("utf-8")
    )["jobs"]
    return jobs


def test_every_group_has_its_job() -> None:
    assert sorted(jobs("ci")["tests"]["strategy"]["matrix"]["group"]) == sorted(groups.NAMES)


def test_every_file_is_in_a_group_and_no_group_is_empty() -> None:
    own = groups.shared_out(groups.files())
    assert own.keys() == {
        path.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("test_*.py")
    }
    assert set(own.values()) == set(groups.NAMES)


def test_the_parts_of_the_rest_are_of_one_size() -> None:
    sizes = Counter(groups.shared_out(groups.files()).values())
    assert len({sizes[part] for part in groups.REST}) <= 2


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("unit/text/test_diff.py", "unit"),
        ("integration/test_benches.py", "benches"),
        # the first group counts
        ("integration/agents/test_framework_agents.py", "frameworks"),
        ("integration/agents/test_adk_trace.py", "adk"),
        ("first_try/test_frameworks.py", "frameworks"),
        # a folder that no pattern names
        ("new/test_all.py", "integration-1"),
    ],
)
def test_where_a_file_belongs(name: str, group: str) -> None:
    assert groups.shared_out([name]) == {name: group}


def test_a_group_is_run_whole_and_alone() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--group",
        "benches",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "xdist.plugin",
    ]
    # what is installed beside it takes most of the start
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    files = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    own = groups.shared_out(groups.files()).items()
    assert files == {f"tests/{name}" for name, group in own if group == "benches"}


@pytest.mark.parametrize("name", groups.NAMES)
def test_make_runs_each_group(name: str) -> None:
    done = subprocess.run(
        ["make", "-n", f"test-{name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"--group {name} " in done.stdout


def test_coverage_is_measured_where_the_makefile_says() -> None:
    measured = re.search(
        r"^MEASURED := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    assert measured is not None
    assert jobs("ci")["measured"]["strategy"]["matrix"]["group"] == measured[1].split()
    assert set(measured[1].split()) <= set(groups.NAMES)


def test_one_job_requires_all_others() -> None:
    others = jobs("ci")
    last = others.pop("ci")
    assert sorted(last["needs"]) == sorted(others)
    assert last["if"] == "always()"


def test_what_grows_by_night_is_run_by_night() -> None:
    texts = {name: (ROOT / "tests" / name).read_text("utf-8") for name in groups.files()}
    growing = {
        name
        for name, text in texts.items()
        if "from hypothesis import" in text or "builders.nightly" in text
    }
    own = groups.shared_out(groups.files())
    run = jobs("nightly")["nightly"]["strategy"]["matrix"]["group"]
    assert sorted(run) == sorted({own[name] for name in growing})
