"""Chromium for tests that look at a page: the machine's own, else one that a package of npm's
carries."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from builders import node

PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
PATIENCE_MS = 120_000  # of all waits: a machine may be busy
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-sync",
]
UNPACK = "import(process.argv[1]).then((it) => it.default.executablePath())"
# The package is made for a machine without fonts or libraries, but unpacks the latter only where it
# thinks that it is on one, and expects the former in a folder of that machine's.
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/cache</cachedir></fontconfig>
"""


def launch_options() -> dict[str, Any]:
    """What Playwright's `launch` needs to start it."""
    own = next(filter(None, map(shutil.which, NAMES)), None)
    if own is not None:
        return {"executable_path": own, "args": FLAGS}
    folder = _unpacked(node.package(PACKAGE, VERSION))
    environment = {
        "LD_LIBRARY_PATH": f"{folder}/al2023/lib",
        "FONTCONFIG_FILE": f"{folder}/fonts.conf",
    }
    return {
        "executable_path": folder / "chromium",
        "args": FLAGS,
        "env": {**os.environ, **environment},
    }


def _unpacked(package: Path) -> Path:
    folder = package.parents[2] / "unpacked"
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        configuration = folder / "fonts.conf"
        if not configuration.exists():  # written last
            environment = {
                **os.environ,
                "TMPDIR": str(folder),
                "AWS_LAMBDA_JS_RUNTIME": "nodejs24.x",
            }
            command = [node.program(), "--eval", UNPACK, str(package / "build/index.js")]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
            configuration.write_text(FONTS.format(folder=folder))
    return folder
