"""What an agent needs, as its folder says: the nearest lock file, pyproject.toml or requirements.txt."""

from __future__ import annotations

import enum
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_INCLUDED = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)[\s=]\s*(\S+)")
_LOCAL = re.compile(r"^\s*(?:-e\b|--editable\b|\.{0,2}/|\.\s*$|\.\[|file:)|@\s*(?:file:|\.{0,2}/)")


class NeedKind(enum.StrEnum):
    """In which form the needs are written."""

    LOCK = "uv.lock"
    PROJECT = "pyproject.toml"
    REQUIREMENTS = "requirements.txt"
    NAMED = "requirements"  # files and specifiers that the user named


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What to install. `root`: the checkout's; `folder`: where paths in it start; `files`, `specifiers`: the needs.

    `text`: all that decides the outcome, to be hashed. `import_roots`: where the project's own code is imported from,
    since the project itself is never installed (that would write into its tree, and keep old code in the cache).
    """

    kind: NeedKind
    root: str
    folder: str
    files: tuple[str, ...]
    specifiers: tuple[str, ...] = ()
    text: str = ""
    import_roots: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join((*(os.path.relpath(file, self.root) for file in self.files), *self.specifiers))


def named_needs(requirements: Sequence[str], root: str) -> Needs:
    """The needs that a user lists: names of files below `root`, all else specifiers (`google-adk>=2`)."""
    files = [Path(root, entry) for entry in requirements if _looks_like_file(entry, root)]
    specifiers = [entry for entry in requirements if not _looks_like_file(entry, root)]
    texts = [_file_text(file, root) for file in files] + [*specifiers, _local_mark(specifiers, root)]
    return Needs(
        kind=NeedKind.NAMED,
        root=root,
        folder=root,
        files=tuple(str(file) for file in files),
        specifiers=tuple(specifiers),
        text="\n".join(texts),
    )


def nearest_needs(folder: str, root: str) -> Needs | None:
    """The nearest needs from `folder` up to `root`; None where there are none."""
    for place in _upward(Path(folder), Path(root)):
        found = _project_needs(place, Path(root)) or _requirements_needs(place, root)
        if found is not None:
            return found
    return None


def _upward(folder: Path, root: Path) -> Iterator[Path]:
    for place in (folder, *folder.parents):
        yield place
        if place == root:
            return


def _project_needs(place: Path, root: Path) -> Needs | None:
    project = place / "pyproject.toml"
    if not project.is_file():
        return None
    text = project.read_text(encoding="utf-8", errors="replace")
    try:
        table = tomllib.loads(text).get("project")
    except tomllib.TOMLDecodeError:
        table = {}  # let the installer say what is wrong with it
    if table is None:
        return None  # settings of tools only, or another manager's own tables
    roots = tuple(str(path) for path in (place / "src", place) if path.is_dir())
    for above in _upward(place, root):
        lock = above / "uv.lock"
        if lock.is_file() and (above == place or _is_workspace(above)):
            locked = f"{lock.read_text(encoding='utf-8', errors='replace')}\n{text}"
            return Needs(
                kind=NeedKind.LOCK,
                root=str(root),
                folder=str(place),
                files=(str(lock),),
                text=locked,
                import_roots=roots,
            )
    return Needs(
        kind=NeedKind.PROJECT, root=str(root), folder=str(place), files=(str(project),), text=text, import_roots=roots
    )


def _is_workspace(folder: Path) -> bool:
    project = folder / "pyproject.toml"
    return project.is_file() and "tool.uv.workspace" in project.read_text(encoding="utf-8", errors="replace")


def _requirements_needs(place: Path, root: str) -> Needs | None:
    file = place / "requirements.txt"
    if not file.is_file():
        return None
    return Needs(
        kind=NeedKind.REQUIREMENTS, root=root, folder=str(place), files=(str(file),), text=_file_text(file, root)
    )


def _looks_like_file(entry: str, root: str) -> bool:
    return Path(root, entry).is_file() or entry.endswith((".txt", ".toml", ".in"))


def _file_text(file: Path, root: str) -> str:
    """The text of a requirements file with those that it includes; an absent one is the installer's to report."""
    seen: set[Path] = set()
    texts: list[str] = []
    queue = [file]
    while queue:
        current = queue.pop(0).resolve()
        if current in seen or not current.is_file():
            continue
        seen.add(current)
        text = current.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()
        texts += [text, _local_mark(lines, root)]
        queue += [current.parent / match.group(1) for line in lines if (match := _INCLUDED.match(line))]
    return "\n".join(texts)


def _local_mark(lines: Sequence[str], root: str) -> str:
    """The checkout's own path where something local is installed: another checkout needs another environment."""
    return root if any(_LOCAL.search(line) for line in lines) else ""
