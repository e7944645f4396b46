"""Which Python runs an agent: one that the user names, one made by uv from its requirements, or one that is there."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import re
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evalgate.system import orphans, process, redact
from evalgate.system.isolation import Sandbox

READY = ".evalgate-ready"
INSTALL_TIMEOUT_S = 1800.0
DETAIL_LINES = 60
_URL_PASSWORD = re.compile(r"(?<=://)[^/\s@]+@")
_ABOUT = (
    "import platform, sysconfig; "
    "print(platform.python_implementation(), platform.python_version(), sysconfig.get_platform())"
)


class InstallFailed(Exception):  # noqa: N818 - it says what happened
    """The agent's environment cannot be made; `detail`: the installer's own words, secrets taken out."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


AUTO = "auto"
CHECK_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is known of the agent's environment.

    `folder`: the agent's, `root`: the checkout's, both absolute. `python`: a path, a command or "auto".
    `requirements`: files and specifiers that the user lists. `framework`: the module without which no Python will do,
    as one that is on PATH anyway is asked for it; "" for any.
    """

    folder: str
    root: str
    python: str = AUTO
    requirements: Sequence[str] = ()
    framework: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where it is made: the `environment` of the agent, the absolute path of a `cache` folder, `log` for progress.

    `install_environment`: the agent's and the settings of package installers (UV_*, PIP_*), which may hold credentials
    of a package index and are for installing children only. `sandbox`: what all of it runs in, as other users;
    `metrics`: what custom metrics run in. None: they run as we do.
    """

    environment: Mapping[str, str]
    cache: str
    install_environment: Mapping[str, str] = field(default_factory=dict)
    log: Callable[[str], None] = print
    sandbox: Sandbox | None = None
    metrics: Sandbox | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python to start; `import_roots`: folders of the project's own code; `origin`: one line for people;
    `fingerprint`: of what it was made of, "" where that is not known."""

    python: str
    origin: str
    import_roots: tuple[str, ...] = ()
    fingerprint: str = ""


def provide(wanted: Wanted, world: World) -> Interpreter:
    """The agent's interpreter, made first where that is needed; the order is that of docs/agents/environments.md.

    Raises InstallFailed.
    """
    base = "" if wanted.python in ("", AUTO) else _named(wanted.python, wanted.root, world)
    needs = named_needs(wanted.requirements, wanted.root) if wanted.requirements else None
    if needs is None and base:
        return Interpreter(python=base, origin=f"{wanted.python}, as configured")
    needs = needs or nearest_needs(wanted.folder, wanted.root)
    if needs is not None:
        base = base or next(iter(_on_path(world)), "")
        if not base:
            raise InstallFailed("there is no python3 on PATH to make the agent's environment with")
        return Interpreter(
            python=_made(needs, base, world),
            origin=f"made from {needs}",
            import_roots=needs.import_roots,
            fingerprint=hashlib.sha256(f"{needs.kind}\0{needs.text.replace(needs.root, '')}".encode()).hexdigest()[:16],
        )
    return _found(wanted, world)


def _named(python: str, root: str, world: World) -> str:
    """A path below the checkout (or an absolute one), else a command on PATH."""
    path = Path(root, python)
    if path.is_file():
        return str(path)
    command = shutil.which(python, path=world.environment.get("PATH"))
    if command is None:
        raise InstallFailed(f"the Python {python!r} does not exist, neither in the checkout nor on PATH")
    return command


def _found(wanted: Wanted, world: World) -> Interpreter:
    """Without requirements: a `.venv` from the agent's folder up to the checkout's root, else PATH, where the framework
    can be imported."""
    folder, root = Path(wanted.folder), Path(wanted.root)
    places = [place for place in (folder, *folder.parents) if place.is_relative_to(root)]
    own = [str(path) for place in places if (path := place / ".venv" / "bin" / "python").is_file()]
    looked = list(dict.fromkeys([*own, *_on_path(world)]))
    for python in looked:
        if not wanted.framework or _can_import(python, wanted.framework, wanted.root, world):
            return Interpreter(python=python, origin=f"{python}, from PATH (the checkout does not say what to install)")
    what = f"that has {wanted.framework}" if wanted.framework else "at all"
    start = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else wanted.folder
    raise InstallFailed(
        f"there is no Python {what} for the agent. Looked for uv.lock, pyproject.toml (with [project]) and "
        f"requirements.txt from {start} up to the checkout's root, then asked "
        f"{', '.join(looked) or 'PATH, which has no python3'}. Add a requirements.txt, or set python or requirements."
    )


def _on_path(world: World) -> list[str]:
    on_path = [shutil.which(name, path=world.environment.get("PATH")) for name in ("python3", "python")]
    return [python for python in on_path if python]


def _can_import(python: str, module: str, root: str, world: World) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        finished = _asked([python, "-c", code], world, cwd=root)
    except process.ChildStartError:
        return False
    return finished.returncode == 0


def _asked(command: Sequence[str], world: World, *, cwd: str) -> process.Finished:
    """What a Python says of itself, run as the agent is. Raises ChildStartError."""
    sandbox = world.sandbox
    if sandbox is None:
        return process.run_to_end(command, cwd=cwd, environment=world.environment, timeout_s=CHECK_TIMEOUT_S)
    return process.run_to_end(
        [sandbox.copies.placed(command[0]), *command[1:]],
        cwd=sandbox.copies.placed(cwd),
        environment=sandbox.environment(world.environment),
        timeout_s=CHECK_TIMEOUT_S,
        prefix=sandbox.agent.prefix,
    )


# --- what an agent needs, as its folder says --------------------------------------------------------


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
    files = [Path(root, entry) for entry in requirements if _is_file(entry, root)]
    specifiers = [entry for entry in requirements if not _is_file(entry, root)]
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
        found = _project_needs(place, Path(root))
        if found is not None:
            return found
        file = place / "requirements.txt"
        if file.is_file():
            kind, text = NeedKind.REQUIREMENTS, _file_text(file, root)
            return Needs(kind=kind, root=root, folder=str(place), files=(str(file),), text=text)
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
    text = _text(project)
    try:
        table = tomllib.loads(text).get("project")
    except tomllib.TOMLDecodeError:
        table = {}  # let the installer say what is wrong with it
    if table is None:
        return None  # settings of tools only, or another manager's own tables
    kind, file = NeedKind.PROJECT, project
    for above in _upward(place, root):
        lock = above / "uv.lock"
        if lock.is_file() and (above == place or "tool.uv.workspace" in _text(above / "pyproject.toml")):
            kind, file, text = NeedKind.LOCK, lock, f"{_text(lock)}\n{text}"
            break
    roots = tuple(str(path) for path in (place / "src", place) if path.is_dir())
    return Needs(kind=kind, root=str(root), folder=str(place), files=(str(file),), text=text, import_roots=roots)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _is_file(entry: str, root: str) -> bool:
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
        text = _text(current)
        lines = text.splitlines()
        texts += [text, _local_mark(lines, root)]
        queue += [current.parent / match.group(1) for line in lines if (match := _INCLUDED.match(line))]
    return "\n".join(texts)


def _local_mark(lines: Sequence[str], root: str) -> str:
    """The checkout's own path where something local is installed: another checkout needs another environment."""
    return root if any(_LOCAL.search(line) for line in lines) else ""


# --- environments that uv makes -----------------------------------------------------------------------


def _made(needs: Needs, base: str, world: World) -> str:
    """The Python of an environment that has `needs`, made with `base` unless it is there already.

    Made in its final place, since scripts carry it, by one process at a time, and marked ready as the last step: what
    has no mark was interrupted and is made anew. Raises InstallFailed.
    """
    sandbox = world.sandbox
    key = hashlib.sha256("\0".join([_about(base, world), needs.kind, needs.text]).encode()).hexdigest()[:20]
    folder = Path(world.cache, f"env-{key}") if sandbox is None else sandbox.cache / f"env-{key}"
    python = folder / "bin" / "python"
    if _is_ready(folder):
        return str(python)
    folder.parent.mkdir(parents=True, exist_ok=True)
    alone = contextlib.nullcontext() if sandbox is None else sandbox.installing
    with _lock(folder.with_suffix(".lock"), world.log), alone:
        if not _is_ready(folder):
            world.log(f"installing {needs} for the agent")
            began = time.monotonic()
            if sandbox is not None:
                sandbox.make_folder(folder, afresh=True)
            try:
                for command in _commands(needs, base=base, folder=str(folder)):
                    _run(command, needs, folder=str(folder), world=world)
            finally:
                if sandbox is not None:
                    sandbox.seal(folder)
            _mark_ready(folder)
            world.log(f"installed in {time.monotonic() - began:.0f} s")
    return str(python)


def _mark_ready(folder: Path) -> None:
    """Whatever the installed packages left under that name: it may be a link that leads elsewhere."""
    (folder / READY).unlink(missing_ok=True)
    (folder / READY).touch(exist_ok=False)


@contextlib.contextmanager
def _lock(file: Path, log: Callable[[str], None]) -> Iterator[None]:
    """Hold `file` against other threads and processes; the system lets go of it however we end."""
    import filelock  # noqa: PLC0415 - it takes 0.05 s to import, and most runs make no environment

    lock = filelock.FileLock(file)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        log("another process is making the agent's environment; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _is_ready(folder: Path) -> bool:
    """A mark alone is not enough: the Python that it was made with may be gone."""
    return (folder / READY).is_file() and (folder / "bin" / "python").exists()


def _about(base: str, world: World) -> str:
    """Implementation, version and platform of a Python, as it says itself."""
    try:
        finished = _asked([base, "-c", _ABOUT], world, cwd="/")
    except process.ChildStartError as error:
        raise InstallFailed(f"cannot start the Python {base}: {error}") from error
    if finished.returncode != 0 or not finished.stdout_tail.strip():
        raise InstallFailed(f"{base} is not a working Python", _last_lines(finished, world.environment))
    return finished.stdout_tail.strip()


def _commands(needs: Needs, *, base: str, folder: str) -> Iterator[Sequence[str]]:
    import uv  # noqa: PLC0415 - as filelock

    try:
        program = uv.find_uv_bin()
    except FileNotFoundError as error:
        raise InstallFailed(
            f"uv is needed to install {needs}, and the one that evalgate was installed with is gone: install evalgate "
            "again, or set python."
        ) from error
    python = f"{folder}/bin/python"
    yield [program, "venv", "--no-config", "--no-project", "--clear", "--python", base, folder]
    if needs.kind is NeedKind.LOCK:
        yield [
            program, "sync", "--project", needs.folder, "--frozen", "--no-dev", "--no-install-project",
            "--no-install-workspace", "--python", python,
        ]  # fmt: skip
        return
    files = [part for file in needs.files for part in ("-r", file)]
    yield [program, "pip", "install", "--python", python, *files, "--", *needs.specifiers]


def _run(command: Sequence[str], needs: Needs, *, folder: str, world: World) -> None:
    environment = world.install_environment or world.environment
    settings = {name: value for name, value in environment.items() if name != "VIRTUAL_ENV"}
    cwd, sandbox = needs.folder, world.sandbox
    prefix: tuple[str, ...] = ()
    if sandbox is not None:
        cache = sandbox.cache / f"uv-{sandbox.installer.uid}"
        sandbox.make_folder(cache, afresh=False)
        settings = sandbox.environment(settings, sandbox.installer) | {"UV_CACHE_DIR": str(cache)}
        command = [sandbox.copies.placed(each) if each.startswith("/") else each for each in command]
        cwd, prefix = sandbox.copies.placed(cwd), sandbox.installer.prefix
    settings |= {"UV_PROJECT_ENVIRONMENT": folder, "UV_NO_PROGRESS": "1"}
    settings.setdefault("UV_COMPILE_BYTECODE", "1")
    try:
        finished = process.run_to_end(
            command,
            cwd=cwd,
            environment=settings,
            timeout_s=INSTALL_TIMEOUT_S,
            prefix=prefix,
            watch=orphans.Orphans(command[0]).look,
        )
    except process.ChildStartError as error:
        raise InstallFailed(f"uv cannot be started: {error}") from error
    if finished.timed_out:
        message = f"installing {needs} took longer than {INSTALL_TIMEOUT_S:.0f} s"
        raise InstallFailed(message, _last_lines(finished, environment))
    if finished.returncode != 0:
        what = " ".join(["uv", *command[1:3]])
        raise InstallFailed(
            f"installing {needs} failed: `{what}` ended with {finished.returncode}", _last_lines(finished, environment)
        )


def _last_lines(finished: process.Finished, environment: Mapping[str, str]) -> str:
    text = finished.stderr_tail.strip() or finished.stdout_tail.strip()
    lines = text.splitlines()[-DETAIL_LINES:]
    return _URL_PASSWORD.sub("***@", redact.redactor(environment)("\n".join(lines)))
