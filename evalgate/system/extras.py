"""The command that installs an optional part of evalgate into its own Python."""

from __future__ import annotations

import shlex
import sys
from importlib import metadata

DISTRIBUTION = "evalgate-action"


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra. It names the packages, since every index
    has them, and uses uv, which evalgate includes."""
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
