"""One walk over the repository: the files whose names matter to us, and nothing of their content."""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from evalgate.config import globs
from evalgate.errors import Place, Problem, Severity

# -- What git ignores --


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Layers of rules, farthest first; each with its folder as a prefix (`` or `a/b/`)."""

    layers: tuple[tuple[str, pathspec.GitIgnoreSpec], ...] = ()

    def ignores(self, path: str) -> bool:
        """Whether the nearest rule that speaks of `path` ignores it; folders end with `/`."""
        for prefix, spec in reversed(self.layers):
            decision = spec.check_file(path[len(prefix) :]).include if path.startswith(prefix) else None
            if decision is not None:
                return decision
        return False

    def extended(self, prefix: str, spec: pathspec.GitIgnoreSpec) -> IgnoreRules:
        """These rules and, stronger, those of the folder at `prefix`."""
        return IgnoreRules((*self.layers, (prefix, spec)))


def parse_rules(text: str, *, file: str) -> tuple[pathspec.GitIgnoreSpec, tuple[Problem, ...]]:
    """Rules from the text of a .gitignore; a line that git itself would pass over is told as a note."""
    lines = text.splitlines()
    try:
        return globs.compiled(lines), ()
    except ValueError:
        pass
    bad = [number for number, line in enumerate(lines) if not globs.is_pattern(line)]
    problems = tuple(
        Problem(
            severity=Severity.NOTE,
            code="bad-ignore-line",
            message=f"the line {lines[number]!r} is not a valid pattern (ignored)",
            place=Place(file=file, line=number + 1),
        )
        for number in bad
    )
    return globs.compiled(line for number, line in enumerate(lines) if number not in bad), problems


def read_exclude(root: Path) -> str:
    """The text of the checkout's info/exclude, also for a linked worktree; empty where there is none."""
    git = root / ".git"
    try:
        if git.is_file():  # a linked worktree: a file that names its own folder within the main .git
            pointer = git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            git = root / pointer
            common = git / "commondir"
            if common.is_file():
                git = git / common.read_text(encoding="utf-8").strip()
        return (git / "info" / "exclude").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


# -- Files of the repository as bytes --

LARGEST_BYTES = 256 * 1024 * 1024
LARGEST_SOURCE_BYTES = 4 * 1024 * 1024


def read_bytes(root: Path, path: str, *, largest: int = LARGEST_BYTES) -> bytes | Problem:
    """The content of the file at `path` (posix, relative to `root`), or why it is not read."""
    try:
        resolved = (root / path).resolve(strict=True)
        if not resolved.is_relative_to(root.resolve()):
            return _unreadable_file("outside-root", "the file is outside the repository and is not read", path)
        return _bounded(resolved, path, largest)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links before Python 3.13
        return _unreadable(path, error)


def read_named(path: Path, *, shown: str) -> bytes | Problem:
    """The content of a file that the user named on the command line, wherever it lies; `shown` names it in problems."""
    try:
        return _bounded(path, shown, LARGEST_BYTES)
    except OSError as error:
        return _unreadable(shown, error)


def read_source(root: Path, path: str) -> str:
    """The text of a source file, with what is not UTF-8 replaced; empty where it cannot be read."""
    data = read_bytes(root, path, largest=LARGEST_SOURCE_BYTES)
    return "" if isinstance(data, Problem) else data.decode("utf-8", errors="replace")


def _bounded(path: Path, shown: str, largest: int) -> bytes | Problem:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return _unreadable_file("unreadable-file", "this is not a regular file", shown)
    if status.st_size > largest:
        size = f"{status.st_size / 1e6:,.0f} MB"
        return _unreadable_file(
            "file-too-large", f"the file has {size}, at most {largest / 1e6:,.0f} MB are allowed", shown
        )
    return path.read_bytes()


def _unreadable(path: str, error: OSError | RuntimeError) -> Problem:
    reason = getattr(error, "strerror", None) or str(error)
    return _unreadable_file("unreadable-file", f"the file cannot be read: {reason}", path)


def _unreadable_file(code: str, message: str, file: str) -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, place=Place(file=file))


EVALUATION_ENDINGS = ("evalset.json", ".test.json", "-dataset.json")
"""How the names of evaluation files end; whether they are ADK's is told by their content."""

CONFIG_NAMES = frozenset(
    {"test_config.json", "eval_config.yaml", "eval_config.yml", "eval_config.json", "test-config.json"}
)
_NEAR_CONFIG = re.compile(r"test[-_. ]?configs?\.(json[5c]?|ya?ml)(\.txt)?", re.IGNORECASE)
_NEAR_SET = re.compile(r".*(eval[-_. ]?sets?|\.test|-dataset)\.(json[5cl]?|ya?ml)(\.txt)?", re.IGNORECASE)
AGENT_NAMES = frozenset({"agent.py", "__init__.py", "root_agent.yaml"})

SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages", "__pypackages__", "bower_components"})
VISIBLE_HIDDEN_FOLDERS = frozenset({".github"})
ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})
"""What stands at the top of a Python environment."""

MOST_OTHER_JSON = 5000
MOST_IGNORED_ENTRIES = 50_000
"""How many entries of folders that git ignores are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What a walk saw; every path is posix and relative to `root`, every list sorted.

    `agent_files`: names of possible agent files by folder (`.` is the root). What is not evaluated: `excluded` by the
    globs; `ignored` by git, also `ignored_configs` in folders that are not. `other_json`: the first of other names.
    `near_names`: files that git keeps and whose names are nearly those of evaluation files or criteria.
    """

    root: Path
    evaluation_files: tuple[str, ...] = ()
    config_files: frozenset[str] = frozenset()
    agent_files: Mapping[str, frozenset[str]] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    ignored_configs: frozenset[str] = frozenset()
    other_json: tuple[str, ...] = ()
    near_names: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(slots=True)
class _Seen:
    """What the walk has gathered so far."""

    evaluation_files: set[str] = field(default_factory=set)
    config_files: set[str] = field(default_factory=set)
    agent_files: dict[str, frozenset[str]] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)
    ignored_configs: set[str] = field(default_factory=set)
    ignored_folders: list[str] = field(default_factory=list)
    other_json: list[str] = field(default_factory=list)
    near_names: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def walk(root: Path, *, exclude: Iterable[str] = (), also: Iterable[str] = ()) -> Tree:
    """Walk `root`, leaving out what git ignores, environments, caches, hidden folders and `exclude` globs.

    Symbolic links to folders are not followed (git does not either); links to files only within the root.
    `also`: folders, relative to the root, that the user named: walked even where they would be skipped.
    """
    seen = _Seen()
    excluded = tuple(exclude)
    spec, problems = parse_rules(read_exclude(root), file=".git/info/exclude")
    seen.problems.extend(problems)
    _walk_from(root, "", IgnoreRules((("", spec),)), seen)
    for folder in also:
        _walk_from(root, "" if folder == "." else f"{folder}/", IgnoreRules(), seen)
    _look_into_ignored(root, seen)
    left_out = {path for path in seen.evaluation_files if globs.matches(path, excluded)}
    return Tree(
        root=root,
        evaluation_files=tuple(sorted(seen.evaluation_files - left_out)),
        config_files=frozenset(seen.config_files),
        agent_files=dict(sorted(seen.agent_files.items())),
        excluded=tuple(sorted(left_out)),
        ignored=tuple(sorted(seen.ignored - seen.evaluation_files)),
        ignored_configs=frozenset(seen.ignored_configs - seen.config_files),
        other_json=tuple(sorted(seen.other_json)),
        near_names=tuple(sorted(set(seen.near_names))),
        problems=tuple(seen.problems),
    )


def is_evaluation_name(name: str) -> bool:
    """Whether a file of this name may be an evaluation file."""
    return name.endswith(EVALUATION_ENDINGS)


def is_certain_name(path: str) -> bool:
    """Whether nobody but ADK names files so."""
    return path.endswith(("evalset.json", "test_config.json"))


def is_near_config(path: str) -> bool:
    """Whether the name is nearly that of a test_config.json."""
    return _NEAR_CONFIG.fullmatch(path.rpartition("/")[2]) is not None


def _is_near(name: str) -> bool:
    return _NEAR_CONFIG.fullmatch(name) is not None or _NEAR_SET.fullmatch(name) is not None


def _walk_from(root: Path, start: str, rules: IgnoreRules, seen: _Seen) -> None:
    """Visit the folder at prefix `start` and all below it, without recursion: trees may be deep."""
    pending = [(start, rules)]
    while pending:
        prefix, above = pending.pop()
        try:
            with os.scandir(root / prefix) as listing:
                entries = {entry.name: entry for entry in sorted(listing, key=lambda entry: entry.name)}
        except OSError as error:
            seen.problems.append(_unreadable_folder(prefix, error))
            continue
        if prefix and not ENVIRONMENT_MARKS.isdisjoint(entries):
            continue
        here = _rules_here(prefix, entries, above, seen)
        _note_files(root, prefix, entries, here, seen)
        for below in _folders(prefix, entries):
            if here.ignores(below):
                seen.ignored_folders.append(below)
            else:
                pending.append((below, here))


def _look_into_ignored(root: Path, seen: _Seen) -> None:
    """Note the evaluation files in folders that git ignores, as far as these are no environments or caches."""
    pending = seen.ignored_folders
    left = MOST_IGNORED_ENTRIES
    while pending and left > 0:
        prefix = pending.pop(0)
        try:
            with os.scandir(root / prefix) as listing:
                entries = {entry.name: entry for entry in itertools.islice(listing, left)}
        except OSError:
            continue
        left -= len(entries) + 1
        if ENVIRONMENT_MARKS.isdisjoint(entries):
            named = (name for name, entry in entries.items() if is_evaluation_name(name) and _is_own_file(entry))
            seen.ignored.update(f"{prefix}{name}" for name in named)
            pending.extend(_folders(prefix, entries))


def _rules_here(prefix: str, entries: Mapping[str, os.DirEntry[str]], above: IgnoreRules, seen: _Seen) -> IgnoreRules:
    entry = entries.get(".gitignore")
    if entry is None or not entry.is_file(follow_symlinks=False):  # git does not follow a linked .gitignore
        return above
    try:
        text = Path(entry.path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return above
    spec, problems = parse_rules(text, file=f"{prefix}.gitignore")
    seen.problems.extend(problems)
    return above.extended(prefix, spec)


def _folders(prefix: str, entries: Mapping[str, os.DirEntry[str]]) -> Iterator[str]:
    for name, entry in entries.items():
        if name in SKIPPED_FOLDERS or (name.startswith(".") and name not in VISIBLE_HIDDEN_FOLDERS):
            continue
        if _is_folder(entry):
            yield f"{prefix}{name}/"


def _note_files(
    root: Path, prefix: str, entries: Mapping[str, os.DirEntry[str]], rules: IgnoreRules, seen: _Seen
) -> None:
    markers = AGENT_NAMES.intersection(entries)
    if markers:
        seen.agent_files[prefix.rstrip("/") or "."] = markers
    for name, entry in entries.items():
        is_config = name in CONFIG_NAMES
        if not is_config and not is_evaluation_name(name):
            if name.endswith(".json") and len(seen.other_json) < MOST_OTHER_JSON:
                seen.other_json.append(f"{prefix}{name}")
            if _is_near(name) and not rules.ignores(f"{prefix}{name}") and _is_own_file(entry):
                seen.near_names.append(f"{prefix}{name}")
            continue
        path = f"{prefix}{name}"
        if rules.ignores(path):
            if _is_own_file(entry):
                (seen.ignored_configs if is_config else seen.ignored).add(path)
            continue
        problem = _file_problem(root, path, entry)
        if problem is not None:
            seen.problems.append(problem)
        elif is_config:
            seen.config_files.add(path)
        elif _is_file(entry):
            seen.evaluation_files.add(path)


def _file_problem(root: Path, path: str, entry: os.DirEntry[str]) -> Problem | None:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        shown = path.encode("utf-8", "backslashreplace").decode()
        return _folder_problem("unusable-name", "the file name is not UTF-8", shown)
    if not entry.is_symlink():
        return None
    try:
        target = Path(entry.path).resolve(strict=True)
    except (OSError, RuntimeError):
        return _folder_problem("unreadable-file", "the symbolic link is broken", path)
    if not target.is_relative_to(root.resolve()):
        return _folder_problem(
            "outside-root", "the symbolic link points outside the repository and is not followed", path
        )
    return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_own_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a regular file of a name that can be told, and no link."""
    try:
        return entry.is_file(follow_symlinks=False) and bool(entry.name.encode("utf-8"))
    except (OSError, UnicodeEncodeError):
        return False


def _folder_problem(code: str, message: str, file: str) -> Problem:
    """An error for files that are certainly meant for us; a name that others use as well is only warned of."""
    severity = Severity.ERROR if is_certain_name(file) else Severity.WARNING
    return Problem(severity=severity, code=code, message=message, place=Place(file=file))


def _unreadable_folder(prefix: str, error: OSError) -> Problem:
    shown = prefix.rstrip("/") or "."
    return Problem(
        severity=Severity.WARNING,
        code="unreadable-folder",
        message=f"the folder cannot be read: {error.strerror or error}",
        place=Place(file=shown.encode("utf-8", "backslashreplace").decode()),
    )
