"""Questions about a checkout that an agent may ask, and the answers of a checkout as it was on disk
at one moment.

A question is one text: `names`, `everything`, or `KIND PATH`. PATH is relative to the top of the
checkout, POSIX, "." for the top; see `spelling`. Kinds:

- `file`: content and executable bit, also through links; "absent", "folder" or "other" if it is not
  a file.
- `name`: its kind: "file", "folder", "other", "absent", for a link its target and the target's
kind. - `folder`: the names in it, with their kinds. `entries`: their contents as well.
- `module`: FOLDER/STEM: the names in FOLDER that are STEM or begin with `STEM.`, which an import
  looks for.
- `packages`: the names in the folder that describe installed packages (`NAME.dist-info`).
- `glob`: the files that match lines of a .gitignore, with their contents.
- `pyc`: content if it may run instead of a source with another content; "source" for all other
  bytecode.

`names` are all files in the checkout; `everything` is their contents as well. Both leave out
`.git`, environments, excluded folders, and bytecode that Python wrote. Questions about places in
these have no answer."""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pathspec

from evalgate.values import grouped
from evalgate.worker.inputs import EVERYTHING, FILE, FOLDER, KINDS, NAMES, spelling

GLOB = "glob"
"""A kind of questions that only evalgate asks; workers ask the others."""
OTHER = "other"
"""The kind of a pipe, a socket or a device."""
ABSENT = "absent"
"""The kind of a name that does not exist."""
LINK = "link "
"""The beginning of a link's kind; its target follows."""
APART = "apart "
"""The beginning of an excluded name's kind; its own kind follows."""
OUTSIDE = "outside"
"""The kind of a path that leaves the checkout."""

_KINDS = frozenset({*KINDS, GLOB})
"""The kinds of questions; `Snapshot._answer_KIND` answers them."""
MOST_LINKS = 40
"""On the way of one path, as on Linux; with more it is absent."""
MOST_BYTES = 1 << 30
"""The limit of a file; a larger one has no answer."""
BLOCK_BYTES = 1 << 20
"""Of a file that is hashed, at a time."""
LINUX_COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE, which stamps files and has no name in Python."""
MODULE_ENDS = (".py", ".pyc", ".pyd", ".pyw", ".so")
"""The ends of names that an import looks for."""
PACKAGE_ENDS = (".dist-info", ".egg-info", ".egg", ".egg-link")
"""The ends of names that describe installed packages, in lower case."""


class Unknown(Exception):  # noqa: N818 - the name of an outcome
    """The answer cannot be known."""


def question(kind: str, path: str) -> str:
    """The question of this kind; `path` is relative to the top."""
    return f"{kind} {spelling(path)}"


def parse(question: str) -> tuple[str, str]:
    """Kind and path of a question; the path is "" for `names` and `everything`. Raises
    ValueError."""
    kind, _, text = question.partition(" ")
    if question in (NAMES, EVERYTHING):
        return question, ""
    if kind not in _KINDS or kind in (NAMES, EVERYTHING):
        raise ValueError(f"unknown kind {kind[:20]!r}")
    path = os.fsdecode(unquote_to_bytes(text))
    if kind == GLOB:
        return kind, path
    if path != "." and any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError("the path is not relative and normal")
    return kind, path


def files_of(answers: Mapping[str, str]) -> dict[str, str]:
    """The existing files among the questions for content, each with 12 hex digits of its digest."""
    pairs = (
        (text.removeprefix("file "), answer)
        for text, answer in answers.items()
        if text.startswith("file ")
    )
    return {
        os.fsdecode(unquote_to_bytes(path)): answer[:12]
        for path, answer in pairs
        if answer not in (ABSENT, FOLDER, OTHER) and " " not in answer
    }


class Snapshot:
    """The checkout at `top`, as it is on disk at construction.

    `apart`: excluded folders, absolute or relative to the top. `environments`: relative paths of
    folders that are excluded because they have a `pyvenv.cfg`, or ignore themselves. `is_excluded`:
    True for a file that does not count among `names`: nothing looks for it without opening it.
    `is_committed`: True if a commit has files in a folder, which could hide behind such a file."""

    def __init__(
        self,
        top: Path,
        apart: Collection[str] = (),
        *,
        is_excluded: Callable[[str], bool] = lambda _: False,
        is_committed: Callable[[Path], bool] = lambda _: False,
    ) -> None:
        """Lists all folders; contents are read when a question needs them."""
        self._is_excluded = is_excluded
        self._is_committed = is_committed
        self.top = top
        self.apart = frozenset(apart)
        self.environments: list[str] = []
        self._top = os.path.realpath(top)
        """Without links."""
        self._apart = {os.path.normpath(Path(self._top, path)) for path in apart}
        """Absolute paths."""
        self._folders: dict[str, dict[str, str]] = {}
        """By folder, relative to the top: its names with their kinds."""
        self._stems: dict[str, dict[str, list[str]]] = {}
        """By folder: its names by their part before the first dot."""
        self._contents: dict[str, str] = {}
        """By absolute path: digest and executable bit."""
        self._answers: dict[str, str] = {}
        """By question, without unknown ones."""
        self._moment = _moment()
        """Nanoseconds: a file that changed later has no answer."""
        self._scan()

    def answer(self, question: str) -> str:
        """The answer; if it cannot be known, one that equals no other."""
        answer = self._answers.get(question)
        if answer is None:
            try:
                kind, path = parse(question)
                answer = self._answers[question] = getattr(self, f"_answer_{kind}")(path)
            # KeyError: a folder that cannot be listed, or that is excluded
            except (Unknown, KeyError, ValueError, OSError):
                return f"unknown {secrets.token_hex(16)}"
        return answer

    def answers(self, questions: Iterable[str]) -> dict[str, str]:
        """The answer to each question."""
        return {question: self.answer(question) for question in questions}

    def first_difference(self, answers: Mapping[str, str]) -> str | None:
        """The first question with another answer in this tree; questions about names come first."""
        order = sorted(
            answers,
            key=lambda question: (
                question == EVERYTHING,
                question.startswith((FILE, "entries")),
                question,
            ),
        )
        return next(
            (question for question in order if self.answer(question) != answers[question]), None
        )

    def differing(self, other: Snapshot) -> Iterator[str]:
        """The files that one of two checkouts lacks, or that differ, among those of
        `everything`."""
        for path in sorted({*self._files(), *other._files()}):
            text = question(FILE, path)
            if self.answer(text) != other.answer(text):
                yield path

    def contents(self) -> Iterator[str]:
        """A question for the content of each file that counts among `names`."""
        return (question(FILE, path) for path in self._files() if not self._is_excluded(path))

    def _files(self) -> Iterator[str]:
        """The paths of all files that are part of the checkout."""
        for folder in self._folders:
            yield from (
                _join(folder, name)
                for name in self._visible(folder)
                if self._folders[folder][name] != FOLDER
            )

    # --- the names ---

    def _scan(self) -> None:
        """List every folder that is part of the checkout, with the kinds of its names."""
        pending_folders = ["."]
        while pending_folders:
            folder = pending_folders.pop()
            try:
                with os.scandir(f"{self._top}/{folder}") as entries:
                    names = {entry.name: _kind_of(entry) for entry in entries}
            except OSError:
                continue  # a folder that cannot be listed has no answers
            parent, name = _split(folder)
            # tools mark what they leave with a .gitignore of `*`
            is_ignored = (
                names.get(".gitignore") == FILE
                and _first_bytes(f"{self._top}/{folder}/.gitignore").strip() == b"*"
            )
            is_environment = ("pyvenv.cfg" in names or is_ignored) and folder != "."
            if is_environment and not self._is_committed(Path(self._top, folder)):
                self.environments.append(folder)
                self._folders[parent][name] = APART + FOLDER
                continue
            self._folders[folder] = names
            for name, kind in names.items():
                place = _join(folder, name)
                if name == ".git" or f"{self._top}/{place}" in self._apart:
                    names[name] = APART + kind
                elif kind == FOLDER:
                    pending_folders.append(place)

    def _find(self, path: str, *, follows: bool = True) -> tuple[str, str]:
        """The kind and normal path of a path's target; the absolute path if it is OUTSIDE. Raises
        KeyError."""
        parts = path.split("/")[::-1]
        folder = "."
        link_count = 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if folder == ".":
                    return OUTSIDE, "/".join((self._top, "..", *parts[::-1]))
                folder = _split(folder)[0]
                continue
            place = _join(folder, part)
            kind = self._folders[folder].get(part, ABSENT)
            if kind.startswith(LINK) and (parts or follows):
                link_count += 1
                target = kind.removeprefix(LINK)
                if target.startswith(f"{self._top}/"):
                    target = target.removeprefix(f"{self._top}/")
                    folder = "."
                if target.startswith("/"):
                    return OUTSIDE, "/".join((target, *parts[::-1]))
                if link_count > MOST_LINKS:
                    return ABSENT, place
                parts.extend(target.split("/")[::-1])
            elif not parts:
                return kind, place
            elif kind in (FOLDER, APART + FOLDER):
                folder = place
            else:
                return ABSENT, place
        return FOLDER, folder

    def _target_kind(self, place: str) -> str:
        """The kind of a place, through links."""
        kind, path = self._find(place)
        return _outside_kind(path) if kind == OUTSIDE else kind.removeprefix(APART)

    def _descriptions(self, folder: str, names: Iterable[str]) -> Iterator[str]:
        """Names with their kinds, in order."""
        kinds = self._folders[folder]
        for name in sorted(names):
            kind = kinds[name].removeprefix(APART)
            yield from (
                name,
                kind,
                self._target_kind(_join(folder, name)) if kind.startswith(LINK) else "",
            )

    def _resolve_folder(self, path: str) -> tuple[str, str]:
        """The kind of a path's target, and its folder. Raises Unknown for a target outside the
        checkout."""
        kind, folder = self._find(path)
        if kind == OUTSIDE:
            raise Unknown
        return kind.removeprefix(APART), folder

    def _visible(self, folder: str) -> list[str]:
        """The names that are part of the checkout, in order."""
        names = self._folders[folder].items()
        return sorted(
            name for name, kind in names if not kind.startswith(APART) and name != "__pycache__"
        )

    # --- the contents ---

    def _content(self, place: str) -> str:
        """Digest and executable bit of a file at an absolute place without links. Raises Unknown,
        OSError."""
        if place not in self._contents:
            digest = hashlib.sha256()
            size = 0
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Unknown
                while block := os.read(descriptor, BLOCK_BYTES):
                    digest.update(block)
                    size += len(block)
                    if size > MOST_BYTES:
                        raise Unknown
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if status.st_ctime_ns >= self._moment:
                raise Unknown
            self._contents[place] = digest.hexdigest()[:32] + (
                "x" if status.st_mode & stat.S_IXUSR else ""
            )
        return self._contents[place]

    def _answer_file(self, path: str) -> str:
        """The content of a file, else the kind. Raises Unknown for an excluded file."""
        kind, place = self._find(path)
        if kind == OUTSIDE:
            kind = _outside_kind(place)
            return self._content(place) if kind == FILE else kind
        if kind == APART + FILE:
            raise Unknown
        return self._content(f"{self._top}/{place}") if kind == FILE else kind.removeprefix(APART)

    def _answer_name(self, path: str) -> str:
        """The kind; of a link, also that of its target. Raises Unknown outside the checkout."""
        kind = self._find(path, follows=False)[0]
        if kind == OUTSIDE:
            raise Unknown
        if kind.startswith(LINK):
            return f"{kind}\n{self._target_kind(path)}"
        return kind.removeprefix(APART)

    def _answer_folder(self, path: str) -> str:
        """A digest of the names with their kinds; the kind if it is not a folder."""
        kind, folder = self._resolve_folder(path)
        if kind == FOLDER:
            return _digest(self._descriptions(folder, self._visible(folder)))
        return kind

    def _answer_entries(self, path: str) -> str:
        """A digest of the names and of the contents; the kind if it is not a folder."""
        kind, folder = self._resolve_folder(path)
        if kind != FOLDER:
            return kind
        contents = (self._answer_file(_join(folder, name)) for name in self._visible(folder))
        return _digest([self._answer_folder(path), *contents])

    def _answer_module(self, path: str) -> str:
        """The names that an import of the last part of `path` finds, with their kinds; "" without
        the folder."""
        parent, stem = _split(path)
        kind, folder = self._resolve_folder(parent)
        if kind != FOLDER:
            return ""
        if folder not in self._stems:
            names = self._folders[folder]
            self._stems[folder] = grouped((name.partition(".")[0], name) for name in names)
        same_stem_names = self._stems[folder].get(stem.partition(".")[0], ())
        modules = [
            name
            for name in same_stem_names
            if name.startswith(f"{stem}.") and name.endswith(MODULE_ENDS)
        ]
        return "\0".join(self._descriptions(folder, [*({stem} & {*same_stem_names}), *modules]))

    def _answer_packages(self, path: str) -> str:
        """The names that describe packages, with their kinds; "" without the folder."""
        kind, folder = self._resolve_folder(path)
        if kind != FOLDER:
            return ""
        names = [
            name
            for name in self._folders[folder]
            if name.lower().endswith(PACKAGE_ENDS) or name == "egg-info"
        ]
        return "\0".join(self._descriptions(folder, names))

    def _answer_glob(self, lines: str) -> str:
        """A digest of the matching files and their contents."""
        globs = pathspec.GitIgnoreSpec.from_lines(lines.split("\n"))
        return _digest(
            f"{path}\0{self._answer_file(path)}"
            for path in sorted(self._files())
            if globs.match_file(path)
        )

    def _answer_pyc(self, path: str) -> str:
        """The content of bytecode that runs whatever its source is, else "source"."""
        kind, place = self._find(path)
        if kind not in (FILE, OUTSIDE):
            return "source"
        absolute = place if kind == OUTSIDE else f"{self._top}/{place}"
        return self._content(absolute) if _is_hash_based(absolute) else "source"

    def _everything(self, _path: str, *, contents: bool) -> str:
        """A digest of all files that count; `contents`: with their contents, also those of excluded
        ones."""
        parts: list[str] = []
        for folder in sorted(self._folders):
            is_cache = _split(folder)[1] == "__pycache__"
            for name in self._visible(folder):
                place = _join(folder, name)
                kind = self._folders[folder][name]
                is_bytecode = is_cache and name.endswith(".pyc")
                if is_bytecode and not _is_hash_based(f"{self._top}/{place}"):
                    continue
                if kind == FOLDER:  # commits have no empty folders
                    continue
                if contents or not self._is_excluded(place):
                    parts += (place, kind)
                if contents:
                    parts.append(self._answer_file(place))
        return _digest(parts)

    _answer_names = functools.partialmethod(_everything, contents=False)
    """Of `names`."""
    _answer_everything = functools.partialmethod(_everything, contents=True)
    """Of `everything`."""


def _moment() -> int:
    """The current nanoseconds of the clock that stamps files; earlier writes have an earlier
    stamp."""
    is_linux = sys.platform == "linux"
    clock = (
        functools.partial(time.clock_gettime_ns, LINUX_COARSE_CLOCK) if is_linux else time.time_ns
    )
    start_ns = time.time_ns()  # stamps may use this clock, or the coarse one
    while (moment := clock()) <= start_ns:
        time.sleep(0.001)
    return moment


def _kind_of(entry: os.DirEntry[str]) -> str:
    """The kind of an entry; a link with its target."""
    if entry.is_symlink():
        return LINK + os.readlink(entry.path)  # noqa: PTH115 - an entry is no Path
    if entry.is_dir(follow_symlinks=False):
        return FOLDER
    return FILE if entry.is_file(follow_symlinks=False) else OTHER


def _outside_kind(place: str) -> str:
    """The kind of a file at an absolute path, through all links."""
    try:
        mode = Path(place).stat().st_mode
    except (OSError, ValueError):
        return ABSENT
    return FILE if stat.S_ISREG(mode) else FOLDER if stat.S_ISDIR(mode) else OTHER


def _join(folder: str, name: str) -> str:
    """A path from the top; the folder "." is the top."""
    return name if folder == "." else f"{folder}/{name}"


def _split(place: str) -> tuple[str, str]:
    """Folder and name; the folder is "." at the top."""
    folder, _, name = place.rpartition("/")
    return folder or ".", name


def _digest(parts: Iterable[str]) -> str:
    """32 hex digits over texts, in their order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(os.fsencode(part) + b"\0")
    return digest.hexdigest()[:32]


def _first_bytes(place: str) -> bytes:
    """The first 8 bytes of a file; none if it cannot be read."""
    try:
        with Path(place).open("rb") as file:
            return file.read(8)
    except OSError:
        return b""


def _is_hash_based(place: str) -> bool:
    """True if bytecode runs instead of its source, whatever its time and size."""
    header = _first_bytes(place)
    return len(header) == 8 and bool(header[4] & 1)
