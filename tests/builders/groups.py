"""Which tests run together: a plugin of pytest's. `pytest --group NAME` runs one group, `make
test-NAME` with what it needs, and the workflow a job for each.

A file belongs to the first group that one of its patterns matches, so to one alone; what no other
group has is shared out among the parts of `integration`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[1]
PARTS: Final = 3
PATTERNS: Final = {
    "entrypoint": ("action/**",),
    "unit": ("unit/**", "contract/**", "golden/**", "fuzz/**"),
    "browser": ("browser/**",),
    "frameworks": ("**/test_framework*",),
    "adk": (
        "parity/**",
        "integration/agents/**",
        "integration/test_adk_*",
        "integration/test_http_adk_*",
    ),
    "benches": ("integration/test_bench*",),
    "first-try": ("first_try/**",),
}
"""Of paths below tests/, by group; `make test-action` runs those of `entrypoint` that take a
container."""
REST: Final = tuple(f"integration-{part}" for part in range(1, PARTS + 1))
NAMES: Final = (*PATTERNS, *REST)


def files() -> list[str]:
    """All files of tests, below tests/, in order."""
    return sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


def shared_out(names: Iterable[str]) -> dict[str, str]:
    """The group of each file."""
    groups = {}
    parts = 0
    for name in names:
        group = next(
            (group for group, patterns in PATTERNS.items() if _matches(name, patterns)), None
        )
        if group is None:
            group = REST[parts % PARTS]
            parts += 1
        groups[name] = group
    return groups


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """`folder/**`: all below it; `**/start*`: in any folder; else a path, with `*` for its end."""
    path = PurePosixPath(name)
    for pattern in patterns:
        folder, _, last = pattern.rpartition("/")
        if last == "**" and path.is_relative_to(folder):
            return True
        if last != "**" and path.match(last) and folder in ("**", path.parent.as_posix()):
            return True
    return False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--group", choices=NAMES, help="only the tests of this group (tests/builders/groups.py)"
    )


def pytest_configure(config: pytest.Config) -> None:
    group = config.getoption("--group")
    if group is not None:
        config.stash[_GROUP] = {
            TESTS / name for name, own in shared_out(files()).items() if own == group
        }


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of a group side by side: what takes long to load is loaded by one process of
    xdist's."""
    group_of = shared_out(files())

    def pattern(item: pytest.Item) -> str:
        group = group_of.get(os.path.relpath(item.path, TESTS), "")
        return group if group in PATTERNS else ""

    items.sort(key=pattern)


_GROUP: Final = pytest.StashKey[set[Path]]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    group = config.stash.get(_GROUP, None)
    if group is None or collection_path.is_dir() or not collection_path.name.startswith("test_"):
        return None
    return True if collection_path not in group else None
