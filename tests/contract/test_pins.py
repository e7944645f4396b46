"""The actions that workflows, templates, examples and docs name: the releases of one list, none on
Node 20."""

from __future__ import annotations

import pins
import pytest
import yaml

LAST_ON_NODE_20 = {
    "actions/attest": 2,
    "actions/cache": 4,
    "actions/checkout": 4,
    "actions/download-artifact": 6,
    "actions/setup-node": 4,
    "actions/setup-python": 5,
    "actions/upload-artifact": 5,
    "github/codeql-action": 3,
    "google-github-actions/auth": 2,
}
"""The last major version that runs on Node 20, of each action whose own code is run: none that only
calls another."""

RELEASE = pins.Release(commit="a" * 40, version="v5.1.0")


def test_the_list_has_what_is_known_of_node() -> None:
    assert pins.releases().keys() == LAST_ON_NODE_20.keys(), (
        "say in the table since when an action runs on Node 24"
    )


@pytest.mark.parametrize("action", LAST_ON_NODE_20)
def test_none_on_node_20(action: str) -> None:
    assert int(pins.releases()[action].major.removeprefix("v")) > LAST_ON_NODE_20[action]


def test_only_releases_of_the_list() -> None:
    releases = pins.releases()
    texts = {path: path.read_text(encoding="utf-8") for path in pins.files()}
    others = [path for path, text in texts.items() if pins.pinned(text, releases) != text]
    assert others == [], "`make docs golden` writes the list's releases"


def test_dependabot_reads_the_list() -> None:
    updates = yaml.safe_load((pins.ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))[
        "updates"
    ]
    folders = [
        each["directory"] for each in updates if each["package-ecosystem"] == "github-actions"
    ]
    assert folders == [f"/{pins.LIST.parent.relative_to(pins.ROOT)}"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # an older commit; a part of an action; no version beside it
        (f"- uses: a/b@{'0' * 40} # v4.0.0\n", f"- uses: a/b@{'a' * 40} # v5.1.0\n"),
        (f"uses: a/b/c@{'0' * 40} # v4 and more", f"uses: a/b/c@{'a' * 40} # v5.1.0 and more"),
        (f"uses: a/b@{'0' * 40}\n", f"uses: a/b@{'a' * 40} # v5.1.0\n"),
        # by a tag, as a message says it
        ('"- uses: a/b@v4")', '"- uses: a/b@v5")'),
        ("uses: a/b@main\n", "uses: a/b@v5\n"),
        # our own action, of whoever owns it
        ("uses: OWNER/evalgate/gate@v1", "uses: OWNER/evalgate/gate@v1"),
        ("uses: ./", "uses: ./"),
    ],
)
def test_a_text_gets_the_releases_of_the_list(before: str, after: str) -> None:
    assert pins.pinned(before, {"a/b": RELEASE}) == after


def test_an_action_that_the_list_lacks_is_an_error() -> None:
    with pytest.raises(KeyError, match="x/y"):
        pins.pinned("uses: x/y@v1", {"a/b": RELEASE})
