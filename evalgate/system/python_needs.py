"""The needs that an agent's folder declares: its packages and its Python.

Poetry's own library translates projects that only Poetry reads."""

from __future__ import annotations

import codecs
import enum
import hashlib
import itertools
import logging
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from evalgate.values import Json, frozen_dataclass

T = TypeVar("T")

EVALUATION_PARTS = ("dev", "eval", "evals", "evaluation")
"""Extras and dependency groups that are installed with the agent if it has them. `adk eval` is used
with them, and an agent may import packages that only they contain."""

EXCLUDE_NEWER = "--exclude-newer="
"""An option among the specifiers: no package is newer than this day."""
OVERRIDE = "--override="
"""An option among the specifiers: any version of this package, whatever requires another."""

_NAME = re.compile(r"[\w.-]+")
"""The name at the beginning of a requirement."""
_INCLUDED = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)[\s=]\s*(\S+)")
"""A line of a requirements file that names another file."""
_LOCAL_PATHS = (
    re.compile(r"^\s*(?P<edited>-e|--editable)[\s=]\s*(?P<path>[^\s;#\[]+)"),
    re.compile(r"^\s*(?P<path>(?:file:|\.{0,2}/|[\w.-]+/|\.(?=[\s\[]|$))[^\s;#\[]*)"),
    re.compile(r"""@\s*(?P<path>(?:file:|\.{0,2}/)[^\s;,"'\[\]]+)"""),
    re.compile(r"""\b(?:path|directory)\s*=\s*["'](?P<path>[^"']+)["']"""),
)
"""Local paths in requirements, TOML tables and locks. Members of a workspace are not installed."""
_OWN_FOLDER = re.compile(r"^/*\$\{?(?:PROJECT_ROOT|PWD)\}?/")
"""A variable for the project's folder, at the beginning of a path."""
_LEFTOVER_NAMES = frozenset({".git", "__pycache__", "node_modules"})
"""Folders that are not part of a package."""
_PIN = re.compile(r"(?:c?python[-@]?)?(\d+(?:\.\d+){0,2})", re.IGNORECASE)
"""A version in `.python-version`, perhaps of a named implementation."""
_LOCKED_PYTHON = re.compile(r'^(?:requires-python|python-versions) = "([^"]*)"', re.MULTILINE)
"""The Python that a uv.lock or a poetry.lock is for."""
_UNSATISFIED = re.compile(r"(?:does not satisfy|requires) Python ?((?:[<>=!~]{1,2}[\d.*]+,?)+)")
"""uv's report of a package that needs another Python."""
_WHEELS = re.compile(r"only found wheels for \S+ [^:]*Python ABI tags?: ((?:`\w+`,? ?)+)")
"""uv's report of a package that is built for other Pythons only."""
_SETUP_PYTHON = re.compile(r"""python_requires\s*=\s*["']?([^"'\n#]+)""")
"""The Python that a setup.py or a setup.cfg requires."""


class NeedKind(enum.StrEnum):
    """The form of the declared needs."""

    LOCK = "uv.lock"
    """Installed as locked, also for a member of a workspace."""
    PROJECT = "pyproject.toml"
    """Without a lock, or with a requirements.txt beside it."""
    POETRY = "pyproject.toml of Poetry"
    """With the versions of its poetry.lock."""
    REQUIREMENTS = "requirements.txt"
    SETUP = "setup.py"
    """It, or setup.cfg beside it, has `install_requires`."""
    NAMED = "requirements"
    """Files and specifiers in settings."""


@frozen_dataclass
class Needs:
    """The needs to install: files and specifiers."""

    kind: NeedKind
    root: Path
    """The checkout's."""
    folder: Path
    """The base of its relative paths."""
    files: tuple[Path, ...]
    """The first one declares the project; a requirements.txt may follow."""
    specifiers: tuple[str, ...] = ()
    """Requirements and options of settings."""
    extras: tuple[str, ...] = ()
    """Parts of the project that are installed as well, if possible."""
    groups: tuple[str, ...] = ()
    """As extras."""
    text: str = ""
    """Everything that decides the outcome, to be hashed."""

    @property
    def import_roots(self) -> tuple[str, ...]:
        """Import folders of a project's own code, and of the members of its workspace that it
        needs. These are never installed: that would write into their trees and keep old code in the
        cache."""
        is_project = self.kind not in (NeedKind.REQUIREMENTS, NeedKind.NAMED)
        projects = [file.parent for file in self.files if file.name.endswith("pyproject.toml")]
        folders = [self.folder] if is_project else projects
        folders += [member for folder in folders for member in workspace_members(folder, self.root)]
        return tuple(
            str(place) for folder in folders for place in (folder / "src", folder) if place.is_dir()
        )

    @property
    def further_files(self) -> tuple[Path, ...]:
        """The requirements.txt beside a pyproject.toml, which may contradict it."""
        return self.files[1:] if self.kind is NeedKind.PROJECT else ()

    @property
    def is_local(self) -> bool:
        """True if part of the checkout is installed."""
        return any(line.startswith(LOCAL) for line in self.text.splitlines())

    def __str__(self) -> str:
        """Its files and specifiers, for a sentence."""
        return ", ".join(
            (*(os.path.relpath(file, self.root) for file in self.files), *self.specifiers)
        )


@frozen_dataclass
class PythonRule:
    """Versions of Python that fit."""

    specifier: str
    """As `>=3.10,<3.13`."""
    source: str
    """The place that has the rule, in words."""
    is_pin: bool = False
    """It is the author's version (`.python-version`); installers enforce the other rules."""


def packages_python(text: str) -> str:
    """The specifier of the Python that packages need, from the text of uv's failure to install
    them; "" if it names none."""
    text = " ".join(text.split())
    specifiers = [match.rstrip(",") for match in _UNSATISFIED.findall(text)]
    for tags in _WHEELS.findall(text):
        minors = [int(minor) for minor in re.findall(r"`cp3(\d+)`", tags)]
        specifiers += [f">=3.{min(minors)},<3.{max(minors) + 1}"] if minors else []
    return next(iter(specifiers), "")


def listed_needs(requirements: Sequence[str], root: Path) -> Needs:
    """The needs in settings: names of files below `root`, everything else are specifiers
    (`google-adk>=2`, `--exclude-newer=2025-06-30`)."""
    files = tuple(root / entry for entry in requirements if _is_file(entry, root))
    specifiers = tuple(entry for entry in requirements if not _is_file(entry, root))
    texts = [_file_text(file, root) for file in files]
    texts += [*specifiers, *_local_content(specifiers, root, root)]
    return Needs(
        kind=NeedKind.NAMED,
        root=root,
        folder=root,
        files=files,
        specifiers=specifiers,
        text="\n".join(texts),
    )


def nearest_needs(folder: Path, root: Path) -> Needs | None:
    """The nearest needs from `folder` up to `root`; None if not found."""
    for place in upward(folder, root):
        has_project = (place / "pyproject.toml").is_file()
        if has_project and (needs := _project_needs(place, root)) is not None:
            return needs
        file = place / "requirements.txt"
        if file.is_file():
            text = _file_text(file, root)
            return Needs(
                kind=NeedKind.REQUIREMENTS, root=root, folder=place, files=(file,), text=text
            )
        files = [place / name for name in ("setup.py", "pyproject.toml", "setup.cfg")]
        setup = next(filter(Path.is_file, files[:2]), None)
        text = "\n".join(map(_text, files)) if setup else ""
        if setup and "install_requires" in text:
            return Needs(kind=NeedKind.SETUP, root=root, folder=place, files=(setup,), text=text)
    return None


def upward(folder: Path, root: Path) -> Iterator[Path]:
    """The folder and those above it, up to `root`."""
    for place in (folder, *folder.parents):
        yield place
        if place == root:
            return


def _reach(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> list[T]:
    """The starts and all that follows from them, each once."""
    reached = list(dict.fromkeys(starts))
    for start in reached:
        reached += dict.fromkeys(each for each in following(start) if each not in reached)
    return reached


def workspace_members(project: Path, root: Path) -> list[Path]:
    """The other members of a workspace of uv that a project needs, also for other members: their
    folders. `root`: where the search for the workspace ends."""
    members: dict[str, Path] = {}

    def needed_members(folder: Path) -> Iterator[Path]:
        """The members that a member names in any of its dependencies."""
        tables = _tables(folder)
        table = _table(tables, "project")
        extras = _table(table, "optional-dependencies")
        groups = _table(tables, "dependency-groups")
        for part in (table.get("dependencies"), *extras.values(), *groups.values()):
            for name in map(_plain_name, part if isinstance(part, list) else ()):
                if name in members:
                    yield members[name]

    for top in upward(project, root):
        workspace = _table(_tables(top), "tool", "uv", "workspace")
        if not workspace:
            continue
        with suppress(ValueError, NotImplementedError, TypeError):  # no patterns: uv reports it
            globs = (top.glob(pattern) for pattern in workspace.get("members", ()))
            for folder in (top, *itertools.chain.from_iterable(globs)):
                members[_plain_name(_table(_tables(folder), "project").get("name"))] = folder
        return _reach([project], needed_members)[1:]
    return []


def _tables(folder: Path) -> Json:
    """The tables of a folder's pyproject.toml; empty if there is none, those of a project without
    any if it cannot be read: the installer reports the fault."""
    try:
        return tomllib.loads(_text(folder / "pyproject.toml"))
    except tomllib.TOMLDecodeError:
        return {"project": {}}


def _plain_name(requirement: Any) -> str:
    """The normalized name of a package, from its name or a requirement."""
    name = _NAME.match(str(requirement))
    return "" if name is None else re.sub(r"[-_.]+", "-", name[0]).lower()


def _project_needs(place: Path, root: Path) -> Needs | None:
    """The needs of a project; None if the folder's pyproject.toml only has settings of tools."""
    tables = _tables(place)
    poetry = _table(tables, "tool", "poetry")
    is_poetry = any(name in poetry for name in ("dependencies", "group", "dev-dependencies"))
    is_standard = "project" in tables
    if not (is_standard or is_poetry):
        return None
    project, requirements = place / "pyproject.toml", place / "requirements.txt"
    lock = _lock_of(place, root) if is_standard else None
    kind = NeedKind.LOCK if lock else NeedKind.POETRY if is_poetry else NeedKind.PROJECT
    has_more = requirements.is_file() and (kind is NeedKind.PROJECT or not _declares(tables))
    lines = _text(project).splitlines()
    if kind is NeedKind.PROJECT:  # without a lock, the installer installs them in place
        lines += [f"-e {member}" for member in workspace_members(place, root)]
    else:
        lines += _text(lock or place / "poetry.lock").splitlines()
    texts = [*lines, *_local_content(lines, place, root)]
    files: tuple[Path, ...] = (lock or project,)
    extras, groups = _evaluation_parts(tables)
    if has_more:
        kind = NeedKind.PROJECT
        files = (project, requirements)
        if not is_standard:  # uv reads no other pyproject.toml
            files, extras, groups = (requirements,), (), ()
        texts.append(_file_text(requirements, root))
    return Needs(
        kind=kind,
        root=root,
        folder=place,
        files=files,
        extras=extras,
        groups=groups,
        text="\n".join(texts),
    )


def _lock_of(place: Path, root: Path) -> Path | None:
    """The uv.lock of a project, or of the workspace above it."""
    for folder in upward(place, root):
        lock = folder / "uv.lock"
        if lock.is_file() and (
            folder == place or "tool.uv.workspace" in _text(folder / "pyproject.toml")
        ):
            return lock
    return None


def _declares(tables: Json) -> bool:
    """True if a project names its dependencies, or says that they are elsewhere."""
    project = _table(tables, "project")
    dynamic = project.get("dynamic")
    names = {*_table(tables, "tool", "poetry", "dependencies")} - {"python"}
    is_dynamic = isinstance(dynamic, list) and "dependencies" in dynamic
    return bool(project.get("dependencies") or names or is_dynamic)


def _evaluation_parts(tables: Json) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The extras and the groups of a project that are installed with it."""
    uv = _table(tables, "tool", "uv")
    poetry = _table(tables, "tool", "poetry")
    extras = {*_table(tables, "project", "optional-dependencies"), *_table(poetry, "extras")}
    groups = {*_table(tables, "dependency-groups"), *_table(poetry, "group")}
    groups |= {"dev"} if "dev-dependencies" in uv or "dev-dependencies" in poetry else set()
    defaults = uv.get("default-groups")
    if defaults != "all":
        groups &= {*EVALUATION_PARTS, *(defaults if isinstance(defaults, list) else ())}
    return tuple(sorted(extras & {*EVALUATION_PARTS})), tuple(sorted(groups))


def _table(tables: Json, *path: str) -> Json:
    """A nested table; empty if it is missing, or if the value is not a table."""
    table: Any = tables
    for name in path:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _text(file: Path) -> str:
    """The text of a file; "" if there is none."""
    if not file.is_file():
        return ""
    raw = file.read_bytes()
    # PowerShell's `>` writes UTF-16
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return raw.decode("utf-16" if is_utf16 else "utf-8-sig", errors="replace")


def _is_file(entry: str, root: Path) -> bool:
    """True for an existing file, and for a name that only a file has."""
    return (root / entry).is_file() or entry.endswith((".txt", ".toml", ".in"))


def _present_places(path: Path) -> Iterator[Path]:
    """The path without links if it exists; none for an invalid path or circular links, which the
    installer reports."""
    with suppress(OSError, ValueError, RuntimeError):
        place = path.resolve()
        if place.exists():
            yield place


def _file_text(file: Path, root: Path) -> str:
    """The text of a requirements file with the files that it includes; the installer reports a
    missing one."""

    def needed_files(file: Path) -> Iterator[Path]:
        """The existing files that a file includes."""
        for match in filter(None, map(_INCLUDED.match, _text(file).splitlines())):
            yield from _present_places(file.parent / match[1])

    texts: list[str] = []
    for path in _reach(_present_places(file), needed_files):
        text = _text(path)
        texts += [text, *_local_content(text.splitlines(), path.parent, root)]
    return "\n".join(texts)


LOCAL = "local: "
"""Prefix of the lines of `Needs.text` for packages installed from the checkout."""


def _local_content(lines: Sequence[str], folder: Path, root: Path) -> Iterator[str]:
    """Digests of all local packages, and the checkout's own path if there are any.

    The path: another checkout needs another environment. A digest covers the files, or their names
    if they are used in place; local dependencies are included. `folder`: base of relative paths."""
    if not any(pattern.search(line) for line in lines for pattern in _LOCAL_PATHS):
        return
    yield f"{LOCAL}{root}"

    def needed_packages(package: tuple[Path, bool]) -> Iterator[tuple[Path, bool]]:
        """The local packages that a package's own files name."""
        place, _ = package
        for name in ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"):
            yield from _local_packages(_text(place / name).splitlines(), place)

    for place, is_edited in _reach(_local_packages(lines, folder), needed_packages):
        yield f"{LOCAL}{os.path.relpath(place, root)} {_digest(place, is_edited=is_edited)}"


def _local_packages(lines: Sequence[str], folder: Path) -> Iterator[tuple[Path, bool]]:
    """The existing places that lines name, each with True if it is used in place."""
    for line, pattern in itertools.product(lines, _LOCAL_PATHS):
        for match in pattern.finditer(line):
            text = unquote(match["path"]).removeprefix("file:")
            text = _OWN_FOLDER.sub("", f"/{text.lstrip('/')}" if text.startswith("//") else text)
            for place in _present_places(folder / text):
                yield place, "edited" in match.groupdict()


def _digest(place: Path, *, is_edited: bool) -> str:
    """16 hex digits over the content of a file, or over all files of a folder by their names; for a
    package used in place, over the content of its top-level files alone, which define its build."""
    digest = hashlib.sha256()
    for folder, folders, files in (
        os.walk(place) if place.is_dir() else [(str(place.parent), [], [place.name])]
    ):
        folders[:] = sorted(name for name in folders if not _is_leftover(Path(folder, name)))
        for name in sorted(files):
            file = Path(folder, name)
            digest.update(os.fsencode(os.path.relpath(file, place)) + b"\0")
            if not is_edited or file.parent == place:
                with suppress(OSError), file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


def _is_leftover(folder: Path) -> bool:
    """True if a folder is not a package's own: an environment, a cache, output of a build or a run.
    Tools mark theirs with a .gitignore of `*`."""
    is_named = folder.name in _LEFTOVER_NAMES or folder.name.endswith(".egg-info")
    return (
        is_named or (folder / "pyvenv.cfg").exists() or _text(folder / ".gitignore").strip() == "*"
    )


# --- the Python of a project
# ------------------------------------------------------------------------


def python_rules(folder: Path, root: Path, needs: Needs | None) -> tuple[PythonRule, ...]:
    """The Python rules of the project: the nearest `requires-python` or similar up to the folder of
    the needs, their lock, and the nearest `.python-version`."""
    top = needs.folder if needs and folder.is_relative_to(needs.folder) else root
    files = (
        place / name
        for place in upward(folder, top)
        for name in ("pyproject.toml", "setup.cfg", "setup.py")
    )
    rules = [*filter(None, (_required_python(file, root) for file in files if file.is_file()))][:1]
    if needs and needs.kind in (NeedKind.LOCK, NeedKind.POETRY):
        is_poetry = needs.kind is NeedKind.POETRY
        file = needs.folder / "poetry.lock" if is_poetry else needs.files[0]
        name = "python-versions" if is_poetry else "requires-python"
        for version_text in _LOCKED_PYTHON.findall(_text(file))[-1:]:
            lock_rule = _rule(name, version_text, file, root, is_poetry=is_poetry)
            if not any(_parts(rule) >= _parts(lock_rule) for rule in rules):
                rules.append(lock_rule)
    pin_files = (place / ".python-version" for place in upward(folder, root))
    pin_file = next(filter(Path.is_file, pin_files), None)
    return (*rules, *(_pin(pin_file, root) if pin_file else ()))


def _parts(rule: PythonRule) -> set[str]:
    """Its single conditions, whatever their order."""
    return {*rule.specifier.replace(" ", "").split(",")}


def _required_python(file: Path, root: Path) -> PythonRule | None:
    """The rule of a project's pyproject.toml, setup.cfg or setup.py; None if it has none."""
    if file.name != "pyproject.toml":
        match = _SETUP_PYTHON.search(_text(file))
        return _rule("python_requires", match[1].strip(), file, root) if match else None
    tables = _tables(file.parent)
    version_text = _table(tables, "project").get("requires-python")
    if isinstance(version_text, str):
        return _rule("requires-python", version_text, file, root)
    dependency = _table(tables, "tool", "poetry", "dependencies").get("python")
    version_text = dependency.get("version") if isinstance(dependency, dict) else dependency
    if isinstance(version_text, str):
        return _rule("python", version_text, file, root, is_poetry=True)
    return None


def _rule(name: str, text: str, file: Path, root: Path, *, is_poetry: bool = False) -> PythonRule:
    """The rule that an entry `name` of a file states."""
    return PythonRule(
        specifier=poetry_specifier(text) if is_poetry else text,
        source=f'`{name} = "{text}"` ({os.path.relpath(file, root)})',
    )


def _pin(file: Path, root: Path) -> Iterator[PythonRule]:
    """The rule of a `.python-version`, as pyenv and uv read it; the name of an environment in it
    fits every version."""
    lines = (line.split("#")[0].strip() for line in _text(file).splitlines())
    first_line = next((line for line in lines if line), "")
    match = _PIN.fullmatch(first_line)
    specifier = version_specifier(match[1]) if match else ""
    if first_line:
        yield PythonRule(
            specifier=specifier,
            source=f"`{first_line}` ({file.relative_to(root)})",
            is_pin=True,
        )


def version_specifier(version: str) -> str:
    """The specifier for "3", "3.12" or "3.12.4"."""
    return f"=={version}" if version.count(".") == 2 else f"=={version}.*"


# --- Poetry ---------------------------------------------------------------------------------------


class PoetryFailed(Exception):  # noqa: N818 - the name of an outcome
    """Poetry itself would refuse the project; the message is its reason."""


def poetry_specifier(constraint: str) -> str:
    """A constraint of Poetry ("^3.11") as a specifier (">=3.11,<4.0"); unchanged if it is not a
    constraint."""
    from poetry.core.constraints.version import parse_constraint  # noqa: PLC0415 - it takes 0.1 s to import
    from poetry.core.version.helpers import format_python_constraint  # noqa: PLC0415 - as above

    try:
        specifier = format_python_constraint(parse_constraint(constraint))
    except Exception:  # noqa: BLE001 - as below
        return constraint
    return {"*": "", "<empty>": constraint}.get(specifier, specifier)


def poetry_requirements(
    folder: Path, *, extras: Collection[str] = (), groups: Collection[str] = ()
) -> list[str]:
    """The requirements of the project in `folder`, one per line, with the named extras and groups.

    Raises PoetryFailed."""
    from poetry.core.factory import Factory  # noqa: PLC0415 - as above

    # otherwise its advice is written to standard error
    logging.getLogger("poetry").addHandler(logging.NullHandler())
    try:
        package = Factory().create_poetry(folder).package
        optional_names = {
            dependency.name
            for name, extra_dependencies in package.extras.items()
            if name in extras
            for dependency in extra_dependencies
        }
        dependencies = [
            dependency
            for dependency in package.requires
            if not dependency.is_optional() or dependency.name in optional_names
        ]
        for name in groups:
            if package.has_dependency_group(name):
                dependencies += package.dependency_group(name).dependencies
        return list(
            dict.fromkeys(dependency.to_pep_508(with_extras=False) for dependency in dependencies)
        )
    except Exception as error:  # foreign tables may raise any error in it
        raise PoetryFailed(" ".join(str(error).split()) or type(error).__name__) from error


def poetry_pins(folder: Path) -> Iterator[str]:
    """The versions in `poetry.lock`, as the lines of a constraints file.

    A package with several versions is left to the installer if the lock does not say when each
    applies. Raises PoetryFailed."""
    try:
        packages = tomllib.loads(_text(folder / "poetry.lock")).get("package", [])
        counts = Counter(package["name"] for package in packages)
        for package in packages:
            pin = f"{package['name']}=={package['version']}"
            markers = package.get("markers")
            if package.get("source", {}).get("type", "legacy") != "legacy":
                continue  # a folder, a repository
            if counts[package["name"]] == 1:
                yield pin
            elif markers and isinstance(markers, str):
                yield f"{pin} ; {markers}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PoetryFailed(
            f"poetry.lock: {' '.join(str(error).split()) or type(error).__name__}"
        ) from error
