"""The files that an agent may be made of: what git would keep of a checkout, without what evaluates it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from evalgate.config import gate_file
from evalgate.project import ignoring, tree
from evalgate.project.ignoring import IgnoreRules

FOR_PEOPLE = ("readme", "changelog", "contributing", "code_of_conduct", "security", "license", "licence", "notice")
"""How the names of files begin that no agent is made of; within its own folder they count as well."""

REPORTS = frozenset({
    "journal.jsonl", "base-journal.jsonl", "results.json", "base.json", "durations.json",
    "junit.xml", "comment.md", "summary.md", "report.html", "findings.sarif",
})  # fmt: skip
"""What a run writes into its output folder, whatever the folder is called."""

_OURS = {"journal.jsonl": b'{"journal":', "results.json": b'{"schema_version":'}
"""How the files begin that tell such a folder."""


def walk(root: Path, *, apart: Collection[str] = (), own: str | None = None) -> Iterator[str]:
    """Paths relative to `root`, posix, in a fixed order.

    Left out: what a .gitignore of the tree names, hidden folders and files, environments, `node_modules`, caches,
    evaluation files and their criteria, evalgate.yml, files for people (README, LICENSE ...), what runs wrote into any
    folder, and the folders `apart` (posix, relative). `own`: the agent's own folder or file, of which all counts but
    the hidden, caches, evaluation files and what runs wrote.
    """
    seen = set()
    if own is not None and (root / own).is_dir():
        for path in _files(root, "" if own in ("", ".") else f"{own.strip('/')}/", apart, ignored=own in ("", ".")):
            seen.add(path)
            yield path
    elif own is not None and (root / own).is_file():
        seen.add(own)
        yield own
    for path in _files(root, "", apart, ignored=True):
        if path not in seen and not _is_for_people(path):
            yield path


def _files(root: Path, start: str, apart: Collection[str], *, ignored: bool) -> Iterator[str]:
    """All files below the prefix `start`; with `ignored` without what git ignores."""
    pending: list[tuple[str, IgnoreRules]] = [(start, IgnoreRules())]
    while pending:
        prefix, above = pending.pop()
        entries = _entries(root / prefix)
        if prefix and not tree.ENVIRONMENT_MARKS.isdisjoint(entries):
            continue
        rules = _rules(prefix, entries, above) if ignored else above
        written = REPORTS if _is_output(entries) else frozenset()
        for name, entry in entries.items():
            path = f"{prefix}{name}"
            if name.startswith(".") or name in tree.SKIPPED_FOLDERS or path in apart or name in written:
                continue
            if _is_folder(entry):
                if not rules.ignores(f"{path}/"):
                    pending.append((f"{path}/", rules))
            elif not rules.ignores(path) and not _evaluates(path):
                yield path


def _entries(folder: Path) -> Mapping[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return {entry.name: entry for entry in sorted(listing, key=lambda entry: entry.name)}
    except OSError:
        return {}


def _is_output(entries: Mapping[str, os.DirEntry[str]]) -> bool:
    """Whether a run wrote into the folder: only what it wrote is left out, never what else lies there."""
    return any(name in entries and _begins(Path(entries[name].path), head) for name, head in _OURS.items())


def _begins(path: Path, head: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(head)) == head
    except OSError:
        return False


def _rules(prefix: str, entries: Mapping[str, os.DirEntry[str]], above: IgnoreRules) -> IgnoreRules:
    entry = entries.get(".gitignore")
    if entry is None or not entry.is_file(follow_symlinks=False):
        return above
    try:
        text = Path(entry.path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return above
    return above.extended(prefix, ignoring.parse_rules(text, file=f"{prefix}.gitignore")[0])


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _evaluates(path: str) -> bool:
    name = path.rpartition("/")[2]
    return tree.is_evaluation_name(name) or name in tree.CONFIG_NAMES or path in gate_file.NAMES


def _is_for_people(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name.startswith(FOR_PEOPLE) and not name.endswith((".py", ".js", ".ts", ".json", ".yml", ".yaml", ".toml"))
