"""What installs an optional part of evalgate into the Python that runs it."""

from __future__ import annotations

import shlex
import sys
from importlib import metadata

DISTRIBUTION = "evalgate-action"


def install_command(extra: str) -> str:
    """The command that installs what the extra asks for; the packages themselves, since only they
    are in every index, by uv, which evalgate brings along."""
    try:
        listed = metadata.requires(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:  # a checkout on PYTHONPATH
        listed = ()
    marked = (requirement.partition(";") for requirement in listed)
    packages = [
        name.strip()
        for name, _, marker in marked
        if marker.replace('"', "'").strip() == f"extra == '{extra}'"
    ]
    python = shlex.quote(sys.executable)
    return f"{python} -m uv pip install --python {python} {shlex.join(packages or [f'{DISTRIBUTION}[{extra}]'])}"
