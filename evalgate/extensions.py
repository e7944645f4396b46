"""Extensions of evalgate by packages, with our own wings among them, found by their entry points
(docs/extending.md); and the command that installs an optional part of evalgate."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar

from evalgate.errors import ConfigError
from evalgate.values import frozen_dataclass

OURS = "evalgate_action"
"""The package of the wings, as a folder of metadata spells it."""
PREFIX = "evalgate."
"""The beginning of the groups of entry points that are read."""
DISTRIBUTION = "evalgate-action"
"""The name for pip; `evalgate` on PyPI is another project."""
Row = TypeVar("Row")


@frozen_dataclass
class EntryPoint:
    """One line of a package's entry points: `name = module:attribute`."""

    package: str
    """In lower case, with underscores."""
    group: str
    """The table, such as `evalgate.criteria`."""
    name: str
    value: str
    """The `module:attribute`, without extras."""

    def load(self) -> object:
        """The named object. Raises ConfigError if loading fails, or the original error if the
        package is ours."""
        module, _, path = self.value.partition(":")
        try:
            loaded_object: object = importlib.import_module(module)
            for attribute in filter(None, path.split(".")):
                loaded_object = getattr(loaded_object, attribute)
        except Exception as error:
            if self.package == OURS:
                raise
            raise self.fault(f"{type(error).__name__}: {error}") from error
        return loaded_object

    def fault(self, reason: str) -> ConfigError:
        """The error of a package that cannot be used."""
        package = self.package.replace("_", "-")
        message = (
            f"the package {package} has a broken entry point {self.name!r} ({self.group}): {reason}"
        )
        return ConfigError(
            message, hint=f"Update {package}, or uninstall it: pip uninstall {package}"
        )


class Table(Mapping[str, Row]):
    """Rows by name: the core's own, then those of the wings, then those of other packages. Packages
    are read when a name is not the core's, or when all rows are needed: most runs need none.

    An entry point names a row, or a tuple of rows. `shape`: the class of a row, which has a `name`.
    Reading raises ConfigError for a package that is broken, or that uses the name of another
    row."""

    def __init__(self, group: str, shape: type[Any], core_rows: Iterable[Row] = ()) -> None:
        """`group`: of the entry points with further rows."""
        self._group = group
        self._shape = shape
        self._core_rows = {_name(row): row for row in core_rows}

    def __getitem__(self, name: str) -> Row:
        """Raises KeyError for an unknown name."""
        return self._core_rows[name] if name in self._core_rows else self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def _rows(self) -> dict[str, Row]:
        """All rows, in the order of their packages. Raises ConfigError."""
        rows = dict(self._core_rows)
        for entry in entries():
            if entry.group != self._group:
                continue
            loaded_object = entry.load()
            for row in loaded_object if type(loaded_object) is tuple else (loaded_object,):
                if not isinstance(row, self._shape):
                    raise entry.fault(f"{row!r} is no {self._shape.__name__}")
                if _name(row) in rows:
                    raise entry.fault(f"the name {_name(row)!r} is taken")
                rows[_name(row)] = row
        return rows


def _name(row: object) -> str:
    """The name of a row; "" if it has none."""
    return str(getattr(row, "name", ""))


@cache
def entries() -> tuple[EntryPoint, ...]:
    """The entry points of evalgate's environment, ours first. They are read here since
    importlib.metadata takes longer than `--help` may. The working folder, which `python -m` puts on
    the path, may be an agent's and is skipped.

    Ours are read from a copy beside this file, since the image and the action contain evalgate
    without its metadata."""
    packages = {OURS: f"{os.path.dirname(__file__)}/entry_points.txt"}  # noqa: PTH120 - as below
    for folder in dict.fromkeys(sys.path):
        if folder and folder != os.getcwd():  # noqa: PTH109 - compared as the text that it is on the path
            with suppress(OSError):
                for name in sorted(os.listdir(folder)):  # noqa: PTH208 - pathlib is slower
                    if name.endswith(".dist-info"):
                        packages.setdefault(
                            name.partition("-")[0].lower(), f"{folder}/{name}/entry_points.txt"
                        )
    own_package, *other_packages = packages
    return tuple(
        entry
        for package in (own_package, *sorted(other_packages))
        for entry in _read(package, packages[package])
    )


def _read(package: str, file: str) -> Iterator[EntryPoint]:
    """The entry points in a file, of groups that are ours; none if it cannot be read."""
    text = ""
    with suppress(OSError), open(file, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123 - as above
        text = stream.read()
    group = ""
    for line in text.splitlines():
        name, separator, target = (part.strip() for part in line.partition("="))
        if line.startswith("["):
            group = line.strip("[] ")
        elif separator and group.startswith(PREFIX):
            yield EntryPoint(
                package=package, group=group, name=name, value=target.partition(" ")[0]
            )


class Command(NamedTuple):
    """A row of `evalgate.commands`."""

    name: str
    """As it is typed after `evalgate`."""
    about: str
    """Its line in `evalgate --help`."""
    target: str
    """The `module:name` of a click command, which is imported when it is called."""
    comes_first: bool = False
    """`evalgate --help` lists it above the core's commands: users need it before them."""


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra. It names the packages, since every index
    has them, and uses uv, which evalgate includes."""
    from importlib import metadata  # noqa: PLC0415 - takes longer than `--help` may

    try:
        requirements = metadata.requires(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:  # a checkout on PYTHONPATH
        requirements = ()
    split_requirements = (requirement.partition(";") for requirement in requirements)
    packages = [
        name.strip()
        for name, _, marker in split_requirements
        if marker.replace('"', "'").strip() == f"extra == '{extra}'"
    ]
    python = shlex.quote(sys.executable)
    return f"{python} -m uv pip install --python {python} {shlex.join(packages or [f'{DISTRIBUTION}[{extra}]'])}"
