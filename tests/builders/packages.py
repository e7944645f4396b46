"""Packages, a package index and a mirror of Python itself in local folders: what installers need,
and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import pwd
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

VERSION = platform.python_version().rstrip("+")
MINOR = f"3.{sys.version_info.minor}"


def wheel(folder: Path, name: str, version: str = "1.0", requires: str = "") -> None:
    """A wheel of one module that knows its version; `requires`: more lines of its metadata."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = (
            base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        )
        record += f"{path},sha256={digest},{len(text)}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


def index(wheels: Path) -> Path:
    """A simple index of the folder's wheels, readable as file:// by uv."""
    simple = wheels / "simple"
    for file in wheels.glob("*.whl"):
        page = simple / file.name.split("-")[0] / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        with page.open("a") as out:
            out.write(f'<a href="file://{file}">{file.name}</a>\n')
    return simple


def mirror(folder: Path) -> Path:
    """What UV_PYTHON_DOWNLOADS_JSON_URL may name: one Python to download, this very one, packed
    without what is large and of no use."""
    folder.mkdir(exist_ok=True)
    stdlib = Path(sysconfig.get_path("stdlib"))
    large = {
        "test",
        "idlelib",
        "lib2to3",
        "ensurepip",
        "site-packages",
        "dist-packages",
        "__pycache__",
        "tkinter",
    }
    with tarfile.open(folder / "python.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(Path(sys.executable).resolve(), f"python/bin/python{MINOR}")
        for library in Path(sys.base_prefix, "lib").glob(f"libpython{MINOR}.so*"):
            archive.add(library, f"python/lib/{library.name}")
        for path in stdlib.iterdir():
            if path.name not in large and not path.name.startswith("config-"):
                name = f"python/lib/python{MINOR}/{path.name}"
                archive.add(
                    path.resolve(),
                    name,
                    filter=lambda each: None if "__pycache__" in each.name else each,
                )
    system = {"family": platform.machine(), "variant": None}
    major, minor, patch = (int(each) for each in VERSION.split("rc")[0].split("."))
    listed = {
        f"cpython-{VERSION}-linux-{platform.machine()}-gnu": {
            "name": "cpython",
            "arch": system,
            "os": "linux",
            "libc": "gnu",
            "major": major,
            "minor": minor,
            "patch": patch,
            "prerelease": "",
            "variant": None,
            "url": f"file://{folder / 'python.tar.gz'}",
            "sha256": None,
            "build": "20250101",
        }
    }
    (folder / "downloads.json").write_text(json.dumps(listed))
    return folder / "downloads.json"


def other_python() -> tuple[str, str] | None:
    """Another version of Python that this machine has, and its path; None where there is no
    other."""
    # HOME may name a folder made for this run: pyenv's is in the user's own
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    places = [home / ".pyenv/versions", Path("/opt/hostedtoolcache/Python")]
    for minor in (10, 12, 13, 11, 14):
        name = f"python3.{minor}"
        found = [
            str(path)
            for place in places
            if place.is_dir()
            for path in place.glob(f"3.{minor}.*/**/bin/{name}")
        ]
        python = next(iter(found), None) or shutil.which(name)
        if minor != sys.version_info.minor and python and "shims" not in python:
            return f"3.{minor}", python
    return None
