"""The files that the action's image is made of, as a folder that a runner builds from."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FILES: Final = (
    "action.yml",
    "Dockerfile",
    ".dockerignore",
    "requirements.lock",
    "requirements-build.lock",
    "entrypoint.py",
)
DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}")


def copy(folder: Path, *packages: str) -> None:
    """Copy the image's files, and folders such as `evalgate`, to `folder`."""
    folder.mkdir(exist_ok=True)
    for name in FILES:
        shutil.copy2(ROOT / name, folder / name)
    for name in packages:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    take_local_base(folder / "Dockerfile")


def base() -> str:
    """The image that ours is built on, as the machine's engine knows it."""
    last_stage = (ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    return _local(last_stage.split()[0])


def take_local_base(dockerfile: Path) -> None:
    """Let a Dockerfile name its base as the machine's engine knows it."""
    dockerfile.write_text(_local(dockerfile.read_text(encoding="utf-8")), encoding="utf-8")


def _local(text: str) -> str:
    """An image that `tests/action/container_host` made is in no registry and has no digest."""
    return DIGEST.sub("", text) if os.environ.get("LOCAL_BASE") else text
