"""Projects that only Poetry reads, in the words of other installers; Poetry's own library translates."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path


class NotReadable(Exception):  # noqa: N818 - it says what is the matter
    """Poetry itself would not take the project; the message says why, in its words."""


def specifier(constraint: str) -> str:
    """A constraint of Poetry ("^3.11") as a specifier (">=3.11,<4.0"); as it stands where it is none."""
    from poetry.core.constraints.version import parse_constraint  # noqa: PLC0415 - 0.1 s that nothing else needs
    from poetry.core.version.helpers import format_python_constraint  # noqa: PLC0415 - as above

    try:
        found = format_python_constraint(parse_constraint(constraint))
    except Exception:  # noqa: BLE001 - as below
        return constraint
    return {"*": "", "<empty>": constraint}.get(found, found)


def requirements(folder: Path, *, extras: Collection[str] = (), groups: Collection[str] = ()) -> list[str]:
    """The lines of a requirements file for the project in `folder`, with the named extras and groups.

    Raises NotReadable.
    """
    from poetry.core.factory import Factory  # noqa: PLC0415 - as above

    logging.getLogger("poetry").addHandler(logging.NullHandler())  # else its advice goes to standard error
    try:
        package = Factory().create_poetry(folder).package
        optional = {each.name for name, listed in package.extras.items() if name in extras for each in listed}
        wanted = [each for each in package.requires if not each.is_optional() or each.name in optional]
        for name in groups:
            if package.has_dependency_group(name):
                wanted += package.dependency_group(name).dependencies
        return list(dict.fromkeys(each.to_pep_508(with_extras=False) for each in wanted))
    except Exception as error:  # what it does with tables of a stranger is not known
        raise NotReadable(" ".join(str(error).split()) or type(error).__name__) from error


def locked(folder: Path) -> Iterator[str]:
    """The versions in `poetry.lock`, as the lines of a constraints file.

    A package with several versions is left to the installer where the lock does not say when each applies.
    """
    try:
        text = (folder / "poetry.lock").read_text("utf-8")
    except OSError:
        return
    try:
        packages = tomllib.loads(text).get("package", [])
        names = [package["name"] for package in packages]
        sources = [package.get("source", {}).get("type", "legacy") for package in packages]
        pins = [f"{package['name']}=={package['version']}" for package in packages]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotReadable(f"poetry.lock: {' '.join(str(error).split()) or type(error).__name__}") from error
    for package, pin, source in zip(packages, pins, sources, strict=True):
        markers = package.get("markers", "")
        if source != "legacy":
            continue  # a folder, a repository
        if names.count(package["name"]) == 1:
            yield pin
        elif markers and isinstance(markers, str):
            yield f"{pin} ; {markers}"
