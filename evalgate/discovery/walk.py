"""One walk over a checkout: the files with relevant names, and their content, read at most once."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pathspec

from evalgate import errors
from evalgate.config import gate_file, places
from evalgate.errors import Place, Problem, UnavailableError
from evalgate.system import git

EVALUATION_ENDINGS = ("evalset.json", ".test.json", "-dataset.json", "conversation_scenarios.json")
"""Endings of evaluation file names. The content decides if they are ADK's."""

DATASETS = re.compile(r"(^|.*/)evals?/datasets?/")
"""Folders of agents-cli's datasets, which may have any name."""

OWN_ENDINGS = ("evalset.json", "test_config.json")
"""Endings of file names that only ADK uses."""

CONFIG_NAMES = frozenset(
    {
        "test_config.json",
        "eval_config.yaml",
        "eval_config.yml",
        "eval_config.json",
        "test-config.json",
    }
)
NEAR_CONFIG = re.compile(r"test[-_. ]?configs?\.(json[5c]?|ya?ml)(\.txt)?", re.IGNORECASE)
_NEAR_SET = re.compile(
    r".*(eval[-_. ]?sets?|\.test|-dataset)\.(json[5cl]?|ya?ml)(\.txt)?", re.IGNORECASE
)
AGENT_NAMES = frozenset({"agent.py", "__init__.py", "root_agent.yaml"})

SKIPPED_FOLDERS = frozenset(
    {"node_modules", "__pycache__", "site-packages", "__pypackages__", "bower_components"}
)
VISIBLE_HIDDEN_FOLDERS = frozenset({".github"})
ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})
"""Names at the top of a Python environment."""

MOST_OTHERS = 5000
"""The most files of one kind with other names."""
MOST_IGNORED_ENTRIES = 50_000
"""The most entries of git-ignored folders that are examined."""

LARGEST_BYTES = 256 * 1024 * 1024
LARGEST_SOURCE_BYTES = 4 * 1024 * 1024
LARGEST_KEPT_BYTES = 1024 * 1024
"""Larger files are read again when they are needed again, which is rare."""

Entries = Mapping[str, "os.DirEntry[str]"]


IgnoreRules: TypeAlias = tuple[tuple[str, pathspec.GitIgnoreSpec], ...]
"""Layers of rules, the farthest first; each with its folder as a prefix (`` or `a/b/`)."""


def is_ignored(path: str, rules: IgnoreRules) -> bool:
    """True if the nearest rule for `path` ignores it. Folders end with `/`."""
    for prefix, spec in reversed(rules):
        if path.startswith(prefix):
            decision = spec.check_file(path[len(prefix) :]).include
            if decision is not None:
                return decision
    return False


def read_checkout_rules(root: Path) -> str:
    """The text of the checkout's info/exclude, also for a linked worktree; "" if it is missing."""
    try:
        source = git.find_source(root)
        is_here = source.working_tree == root.resolve()
        return (
            (source.common_dir / "info" / "exclude").read_text("utf-8", "replace")
            if is_here
            else ""
        )
    except (UnavailableError, OSError):
        return ""


def visit(
    root: Path, pending: list[tuple[str, IgnoreRules]], *, tell: Callable[[Problem], None]
) -> Iterator[tuple[str, Entries, IgnoreRules]]:
    """Each folder of `pending` by its prefix, with its entries by name and its rules; environments
    are skipped.

    The caller appends subfolders to `pending`. There is no recursion, because trees may be deep."""
    while pending:
        prefix, rules = pending.pop()
        try:
            with os.scandir(root / prefix) as listing:
                entries = {
                    entry.name: entry for entry in sorted(listing, key=lambda entry: entry.name)
                }
        except OSError as error:
            message = f"the folder cannot be read: {error.strerror or error}"
            printable_folder = (
                (prefix.rstrip("/") or ".").encode("utf-8", "backslashreplace").decode()
            )
            tell(errors.warning("unreadable-folder", message, Place(printable_folder)))
            continue
        if prefix and not ENVIRONMENT_MARKS.isdisjoint(entries):
            continue
        ignore_file = entries.get(".gitignore")
        if ignore_file is not None and ignore_file.is_file(
            follow_symlinks=False
        ):  # git does not follow a linked .gitignore
            try:
                text = Path(ignore_file.path).read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            rules = (*rules, (prefix, places.compiled(tuple(text.splitlines()))))
        yield prefix, entries, rules


def is_evaluation_name(prefix: str, name: str) -> bool:
    """True if an evaluation file may have this name in the folder `prefix`, which ends with `/`."""
    is_dataset = name.endswith(".json") and DATASETS.fullmatch(prefix) is not None
    return is_dataset or name.endswith(EVALUATION_ENDINGS)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """True for a folder, not for a link to one."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


class Tree:
    """The result of one walk of a checkout. Every path is POSIX and relative to `root`, every list
    sorted.

    `agent_files`: names of possible agent files by folder (`.` is the root). Files that are not
    evaluated: `ignored` by git. `other_json`, `other_yaml`, `other_python`: the first files with
    other names that git does not ignore. `near_names`: files with names similar to those of
    evaluation files or criteria."""

    def __init__(
        self,
        root: Path,
        *,
        exclude: Iterable[str] = (),
        extra_folders: Iterable[str] = (),
        is_base: bool = False,
    ) -> None:
        """Skip git-ignored files, environments, caches, hidden folders and `exclude` globs.

        As in git, symbolic links to folders are not followed; links to files only within the root.
        `extra_folders`: folders, relative to the root, that the user named: they are walked even if
        they would be skipped. `is_base`: the root is the checkout of a base, without a repository:
        all of its files are committed."""
        self.root = root
        self.agent_files: dict[str, frozenset[str]] = {}
        self.other_json: list[str] = []
        self.other_yaml: list[str] = []
        self.other_python: list[str] = []
        self.near_names: list[str] = []
        self.problems: list[Problem] = []
        self._contents: dict[str, bytes] = {}
        self._ignored_folders: list[str] = []
        used: set[str] = set()
        ignored: set[str] = set()
        checkout_rules = places.compiled(tuple(read_checkout_rules(root).splitlines()))
        self._walk("", (("", checkout_rules),), used, ignored)
        for folder in extra_folders:
            prefix = "" if folder == "." else f"{folder}/"
            self._walk(prefix, (), used, ignored)
        if self._ignored_folders:
            ignored.update(self._in_ignored_folders())
        # a .gitignore has no effect on committed files
        if ignored:
            tracked = ignored if is_base else git.tracked(root, sorted(ignored), os.environ)
            used |= ignored & tracked
        ignored -= used
        self.config_files = _configs(used)
        evaluation_files = used - self.config_files
        evaluation_files.update(path for path in self.other_json if holds_set(root, path))
        self._exclude = tuple(exclude)
        self.evaluation_files = tuple(
            sorted(path for path in evaluation_files if not self.is_excluded(path))
        )
        self.ignored = tuple(sorted(ignored - _configs(ignored)))
        self.agent_files = dict(sorted(self.agent_files.items()))
        for paths in (self.other_json, self.other_yaml, self.other_python, self.near_names):
            paths.sort()

    def is_excluded(self, path: str) -> bool:
        """True if a glob of `exclude` matches the path."""
        return places.matches(path, self._exclude)

    def read(self, path: str, *, largest: int = LARGEST_BYTES) -> bytes | Problem:
        """The content of a file below the root, or why it is not read."""
        if path in self._contents:
            return self._contents[path]
        content = read_bytes(self.root, path, largest=largest)
        if isinstance(content, bytes) and len(content) <= LARGEST_KEPT_BYTES:
            self._contents[path] = content
        return content

    def read_source(self, path: str) -> str:
        """The text of a source file, with invalid UTF-8 replaced; "" if it cannot be read."""
        content = self.read(path, largest=LARGEST_SOURCE_BYTES)
        return "" if isinstance(content, Problem) else content.decode("utf-8", errors="replace")

    def _walk(
        self,
        start: str,
        start_rules: IgnoreRules,
        used: set[str],
        ignored: set[str],
    ) -> None:
        """Collect the evaluation files and criteria files below `start`, a prefix like `a/b/`: the
        used and the ignored ones."""
        pending = [(start, start_rules)]
        for prefix, entries, rules in visit(self.root, pending, tell=self.problems.append):
            if markers := AGENT_NAMES.intersection(entries):
                self.agent_files[prefix.rstrip("/") or "."] = markers
            for name, entry in entries.items():
                path = f"{prefix}{name}"
                is_config = name in CONFIG_NAMES
                if not is_config and not is_evaluation_name(prefix, name):
                    self._note_other(path, entry, rules)
                elif is_ignored(path, rules):
                    if _is_own_file(entry):
                        ignored.add(path)
                elif problem := _file_problem(self.root, path, entry):
                    self.problems.append(problem)
                elif is_config or _is_file(entry):
                    used.add(path)
            for subfolder in _folders(prefix, entries):
                if is_ignored(subfolder, rules):
                    self._ignored_folders.append(subfolder)
                else:
                    pending.append((subfolder, rules))

    def _note_other(self, path: str, entry: os.DirEntry[str], rules: IgnoreRules) -> None:
        for paths, endings in (
            (self.other_json, ".json"),
            (self.other_yaml if path not in gate_file.NAMES else [], (".yaml", ".yml")),
            (self.other_python if entry.name not in AGENT_NAMES else [], ".py"),
        ):
            if path.endswith(endings) and len(paths) < MOST_OTHERS and not is_ignored(path, rules):
                paths.append(path)
        is_near = NEAR_CONFIG.fullmatch(entry.name) or _NEAR_SET.fullmatch(entry.name)
        is_new = path not in self.near_names  # a folder may be walked again
        if is_near and is_new and not is_ignored(path, rules) and _is_own_file(entry):
            self.near_names.append(path)

    def _in_ignored_folders(self) -> Iterator[str]:
        """The evaluation files in git-ignored folders, except environments and caches."""
        folders = deque(self._ignored_folders)
        remaining_entries = MOST_IGNORED_ENTRIES
        while folders and remaining_entries > 0:
            # the upper folders first: below one there may be too many entries for all others
            pending: list[tuple[str, IgnoreRules]] = [(folders.popleft(), ())]
            for prefix, entries, _ in visit(self.root, pending, tell=lambda _: None):
                remaining_entries -= len(entries) + 1
                for name, entry in entries.items():
                    if name.endswith(EVALUATION_ENDINGS) and _is_own_file(entry):
                        yield f"{prefix}{name}"
                folders.extend(_folders(prefix, entries))


def _configs(paths: Iterable[str]) -> set[str]:
    """The criteria files among the paths, by their names."""
    return {path for path in paths if path.rpartition("/")[2] in CONFIG_NAMES}


def _folders(prefix: str, entries: Entries) -> Iterator[str]:
    for name, entry in entries.items():
        if name in SKIPPED_FOLDERS or (name.startswith(".") and name not in VISIBLE_HIDDEN_FOLDERS):
            continue
        if is_folder(entry):
            yield f"{prefix}{name}/"


def _file_problem(root: Path, path: str, entry: os.DirEntry[str]) -> Problem | None:
    """Why a file with a relevant name cannot be used; only a warning if others use the name too."""
    report = errors.error if path.endswith(OWN_ENDINGS) else errors.warning
    printable_path = path.encode("utf-8", "backslashreplace").decode()
    if printable_path != path:
        return report("unusable-name", "the file name is not UTF-8", Place(printable_path))
    try:
        if entry.is_symlink() and not _is_inside(root, Path(entry.path).resolve(strict=True)):
            message = "the symbolic link points outside the repository and is not followed"
            return report("outside-root", message, Place(path))
    except (OSError, RuntimeError):
        return report("unreadable-file", "the symbolic link is broken", Place(path))
    return None


def _is_inside(root: Path, resolved: Path) -> bool:
    """True if a place without links lies below the root, and not in git's own folder."""
    top = root.resolve()
    return resolved.is_relative_to(top) and ".git" not in resolved.relative_to(top).parts


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_own_file(entry: os.DirEntry[str]) -> bool:
    """True for a regular file with a valid UTF-8 name; False for a link."""
    try:
        return entry.is_file(follow_symlinks=False) and bool(entry.name.encode("utf-8"))
    except (OSError, UnicodeEncodeError):
        return False


def read_bytes(root: Path, path: str, *, largest: int = LARGEST_BYTES) -> bytes | Problem:
    """The content of the file at `path` (POSIX, relative to `root`), or why it is not read."""
    try:
        resolved = (root / path).resolve(strict=True)
        if not _is_inside(root, resolved):
            return errors.error(
                "outside-root",
                "the file is outside the repository and is not read",
                Place(path),
            )
    # RuntimeError: a loop of symbolic links before Python 3.13
    except (OSError, RuntimeError) as error:
        return _unreadable(error, path)
    return read_user_file(resolved, label=path, largest=largest)


def read_head(root: Path, path: str, *, size: int) -> bytes:
    """The first bytes of a file below the root; empty if it cannot be read, or is a link that leads
    outside."""
    full_path = root / path
    try:
        if full_path.is_symlink() and not _is_inside(root, full_path.resolve(strict=True)):
            return b""
        if not stat.S_ISREG(full_path.stat().st_mode):
            return b""
        with full_path.open("rb") as file:
            return file.read(size)
    except (OSError, RuntimeError, ValueError):
        return b""


_SET = (re.compile(rb'"eval_set_id"\s*:'), re.compile(rb'"eval_cases"\s*:\s*\['))
_SET_HEAD_BYTES = 4096


def holds_set(root: Path, path: str) -> bool:
    """True if a file begins like ADK's evaluation sets, whatever its name."""
    head = read_head(root, path, size=_SET_HEAD_BYTES)
    return all(mark.search(head) for mark in _SET)


def read_user_file(path: Path, *, label: str, largest: int = LARGEST_BYTES) -> bytes | Problem:
    """The content of a file at any place that the user named. `label` names it in problems."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return errors.error("unreadable-file", "this is not a regular file", Place(label))
        if status.st_size > largest:
            message = f"the file has {status.st_size / 1e6:,.0f} MB, at most {largest / 1e6:,.0f} MB are allowed"
            return errors.error("file-too-large", message, Place(label))
        return path.read_bytes()
    except OSError as error:
        return _unreadable(error, label)


def _unreadable(error: OSError | RuntimeError, file: str) -> Problem:
    reason = getattr(error, "strerror", None) or str(error)
    return errors.error("unreadable-file", f"the file cannot be read: {reason}", Place(file))
