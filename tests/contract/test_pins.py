"""The actions that workflows, templates, examples and docs name: one release each, by its commit, none on Node 20."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (".github", "docs", "evalgate", "examples", "README.md")
PIN = re.compile(r"\b((?:actions|google-github-actions|github)/[\w-]+(?:/[\w-]+)?)@([0-9a-f]{40}) # (v[\d.]+)")

LAST_ON_NODE_20 = {
    "actions/cache": 4,
    "actions/checkout": 4,
    "actions/download-artifact": 6,
    "actions/setup-python": 5,
    "actions/upload-artifact": 5,
    "github/codeql-action": 3,
    "google-github-actions/auth": 2,
}
"""The last major version that runs on Node 20, of each action whose own code is run."""


def pins() -> dict[str, set[tuple[str, str]]]:
    """Commit and version by action, wherever one is named; parts of an action are released with it."""
    versions: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for place in PLACES:
        paths = [ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*")
        for path in paths:
            if path.suffix in {".md", ".yml", ".yaml", ".py", ".j2"}:
                for action, commit, version in PIN.findall(path.read_text(encoding="utf-8")):
                    versions["/".join(action.split("/")[:2])].add((commit, version))
    return versions


@pytest.mark.parametrize("action", LAST_ON_NODE_20)
def test_one_release_and_none_on_node_20(action: str) -> None:
    releases = pins()[action]
    assert len(releases) == 1, releases
    major = int(next(iter(releases))[1].lstrip("v").split(".")[0])
    assert major > LAST_ON_NODE_20[action], releases
