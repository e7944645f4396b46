"""Virtual environments kept by what went into them: made once, whole or not at all, by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from evalgate.process import child, redaction
from evalgate.process.requirements import NeedKind, Needs

LAYOUT = "1"  # part of every key: a change of how environments are made must not meet old ones
READY = ".evalgate-ready"
INSTALL_TIMEOUT_S = 1800.0
ASK_TIMEOUT_S = 60.0
LOCK_PAUSE_S = 0.2
DETAIL_LINES = 60
_URL_PASSWORD = re.compile(r"(?<=://)[^/\s@]+@")
_ABOUT = (
    "import json, platform, sys, sysconfig; print(json.dumps([getattr(sys, '_base_executable', '') or sys.executable, "
    "platform.python_implementation(), platform.python_version(), sysconfig.get_platform()]))"
)


class InstallFailed(Exception):  # noqa: N818 - it says what happened
    """The agent's environment cannot be made; `detail`: the installer's own words, secrets taken out."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


def provide(needs: Needs, *, base: str, cache: str, environment: Mapping[str, str], log: Callable[[str], None]) -> str:
    """The Python of an environment that has `needs`, made with `base` unless the cache has it already.

    Built in its final place, since scripts carry it, and marked ready as the last step: what has no mark was
    interrupted and is made anew. Raises InstallFailed.
    """
    executable, *identity = _about(base, environment)
    uv = shutil.which("uv", path=environment.get("PATH"))
    key = hashlib.sha256("\0".join([LAYOUT, *identity, needs.kind, needs.text]).encode()).hexdigest()[:20]
    folder = Path(cache, f"env-{key}")
    python = folder / "bin" / "python"
    if _is_ready(folder):
        return str(python)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock"), log):
        if _is_ready(folder):
            return str(python)
        shutil.rmtree(folder, ignore_errors=True)
        log(f"installing {needs} for the agent")
        began = time.monotonic()
        for command in _commands(needs, uv=uv, base=executable, folder=str(folder)):
            _run(command, needs, folder=str(folder), environment=environment)
        (folder / READY).write_text(json.dumps({"made_from": str(needs), "python": identity[1]}), encoding="utf-8")
        log(f"installed in {time.monotonic() - began:.0f} s")
    return str(python)


def _is_ready(folder: Path) -> bool:
    """A mark alone is not enough: the Python that it was made with may be gone."""
    return (folder / READY).is_file() and (folder / "bin" / "python").exists()


def _about(base: str, environment: Mapping[str, str]) -> list[str]:
    """Executable, implementation, version and platform of a Python, as it says itself."""
    try:
        finished = child.run_to_end([base, "-c", _ABOUT], cwd="/", environment=environment, timeout_s=ASK_TIMEOUT_S)
    except child.ChildStartError as error:
        raise InstallFailed(f"cannot start the Python {base}: {error}") from error
    try:
        executable, implementation, version, platform = json.loads(finished.stdout_tail)
    except ValueError as error:
        raise InstallFailed(f"{base} is not a working Python", _tail(finished, environment)) from error
    return [str(executable), str(implementation), str(version), str(platform)]


def _commands(needs: Needs, *, uv: str | None, base: str, folder: str) -> Iterator[Sequence[str]]:
    python = f"{folder}/bin/python"
    if uv is None:
        yield from _pip_commands(needs, base=base, folder=folder)
        return
    yield [uv, "venv", "--no-config", "--no-project", "--python", base, folder]
    if needs.kind is NeedKind.LOCK:
        yield [
            uv, "sync", "--project", needs.folder, "--frozen", "--no-dev", "--no-install-project",
            "--no-install-workspace", "--python", python,
        ]  # fmt: skip
        return
    files = [part for file in needs.files for part in ("-r", file)]
    yield [uv, "pip", "install", "--python", python, *files, "--", *needs.specifiers]


def _pip_commands(needs: Needs, *, base: str, folder: str) -> Iterator[Sequence[str]]:
    """Without uv: Python's own tools, which read neither lock files nor a pyproject.toml's dependencies alone."""
    if needs.kind in (NeedKind.LOCK, NeedKind.PROJECT):
        raise InstallFailed(
            f"uv is needed to install {needs} and is not on PATH. "
            "See https://docs.astral.sh/uv/getting-started/installation/, or set python or requirements."
        )
    yield [base, "-m", "venv", folder]
    files = [part for file in needs.files for part in ("-r", file)]
    yield [f"{folder}/bin/python", "-m", "pip", "install", "--no-input", *files, "--", *needs.specifiers]


def _run(command: Sequence[str], needs: Needs, *, folder: str, environment: Mapping[str, str]) -> None:
    settings = {name: value for name, value in environment.items() if name != "VIRTUAL_ENV"}
    settings |= {"UV_PROJECT_ENVIRONMENT": folder, "UV_NO_PROGRESS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    settings.setdefault("UV_COMPILE_BYTECODE", "1")
    try:
        finished = child.run_to_end(command, cwd=needs.folder, environment=settings, timeout_s=INSTALL_TIMEOUT_S)
    except child.ChildStartError as error:
        raise InstallFailed(f"{Path(command[0]).name} cannot be started: {error}") from error
    if finished.timed_out:
        message = f"installing {needs} took longer than {INSTALL_TIMEOUT_S:.0f} s"
        raise InstallFailed(message, _tail(finished, environment))
    if finished.returncode != 0:
        what = " ".join([Path(command[0]).name, *command[1:3]])
        raise InstallFailed(
            f"installing {needs} failed: `{what}` ended with {finished.returncode}", _tail(finished, environment)
        )


def _tail(finished: child.Finished, environment: Mapping[str, str]) -> str:
    text = finished.stderr_tail.strip() or finished.stdout_tail.strip()
    lines = text.splitlines()[-DETAIL_LINES:]
    return _URL_PASSWORD.sub("***@", redaction.redactor(environment)("\n".join(lines)))


@contextlib.contextmanager
def _locked(file: Path, log: Callable[[str], None]) -> Iterator[None]:
    """Hold `file` against other threads and processes; the system lets go of it however we end."""
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        told = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    log("another process is making the agent's environment; waiting for it")
                    told = True
                time.sleep(LOCK_PAUSE_S)
        yield
    finally:
        os.close(descriptor)
