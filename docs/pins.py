"""Writes the releases of others' actions wherever they are named, from the one list that Dependabot
keeps.

`make docs` runs it; a test fails where a file names another release than the list does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / ".github/pins/action.yml"
PLACES = (".github", "bench", "docs", "evalgate", "examples", "gate", "README.md")
SUFFIXES = {".md", ".yml", ".yaml", ".py", ".j2"}

USE = re.compile(
    r"uses: (?P<action>(?!OWNER/)[\w.-]+/[\w.-]+)(?P<part>(?:/[\w.-]+)*)"
    r"@(?P<ref>(?P<commit>[0-9a-f]{40})(?: # v[\d.]+)?|[\w.]+)"
)
"""A step of another's action, in a workflow or in a text: by its commit, or by a tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Of an action: `commit` has 40 hexadecimal digits, `version` is as v1.2.3."""

    commit: str
    version: str

    @property
    def major(self) -> str:
        """As in a moving tag: v1."""
        return self.version.split(".", maxsplit=1)[0]


def releases() -> Mapping[str, Release]:
    """The list, by owner and repository: all parts of a repository are released together."""
    entries = re.findall(
        r"uses: ([\w.-]+/[\w.-]+)\S*@([0-9a-f]{40}) # (v[\d.]+)", LIST.read_text(encoding="utf-8")
    )
    return {action: Release(commit=commit, version=version) for action, commit, version in entries}


def pinned(text: str, listed: Mapping[str, Release]) -> str:
    """The text with the listed releases: a commit stays a commit, a tag a major tag. Raises
    KeyError for an action that the list lacks."""

    def renewed(use: re.Match[str]) -> str:
        release = listed[use["action"]]
        ref = f"{release.commit} # {release.version}" if use["commit"] else release.major
        return f"uses: {use['action']}{use['part']}@{ref}"

    return USE.sub(renewed, text)


def files() -> Iterator[Path]:
    """All that may name an action and that no other program writes."""
    for place in PLACES:
        path = ROOT / place
        yield from (
            [path]
            if path.is_file()
            else (each for each in sorted(path.rglob("*")) if each.suffix in SUFFIXES)
        )


def main() -> int:
    """Write what differs."""
    listed = releases()
    for path in files():
        before = path.read_text(encoding="utf-8")
        after = pinned(before, listed)
        if after != before:
            path.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
