"""Which Python runs an agent: one that the user names, one made by uv from its requirements, or one
that is there.

What its folder says of both is read by `python_needs`.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from evalgate.system import http, process, python_needs, redact, seals
from evalgate.system.isolation import Sandbox
from evalgate.system.python_needs import NeedKind, Needs, PythonRule
from evalgate.system.seals import Seals
from evalgate.values import Environ, frozen_dataclass

INSTALL_TIMEOUT_S = 1800.0
SILENCE_S = 30.0
"""How often a long installation is heard of."""
DETAIL_LINES = 60
_URL_PASSWORD = re.compile(r"(?<=://)[^/\s@]+@")
_VERSION = re.compile(r"3(\.\d+){0,2}")
_INSTALLED = re.compile(r"^Installed (\d+) packages?", re.MULTILINE)
_ABOUT = (
    "import platform, sys, sysconfig; "
    "print(platform.python_version(), sys.executable, "
    "platform.python_implementation(), platform.python_version(), sysconfig.get_platform(), sep=chr(10))"
)


class InstallFailed(Exception):  # noqa: N818 - it says what happened
    """The agent's environment cannot be made; `detail`: the installer's own words, secrets taken
    out."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


AUTO = "auto"
CHECK_TIMEOUT_S = 60.0


@frozen_dataclass
class EnvironmentRequest:
    """What is known of the agent's environment.

    `folder`: the agent's, `root`: the checkout's, both absolute. `python`: a path, a command, a
    version or "auto". `requirements`: files and specifiers that the user lists. `framework`: the
    module without which no Python will do, as one that is on PATH anyway is asked for it; "" for
    any."""

    folder: str
    root: str
    python: str = AUTO
    requirements: Sequence[str] = ()
    framework: str = ""


@frozen_dataclass
class World:
    """The setup for making it: the agent's `environment`, the absolute path of a `cache` folder,
    `log` for progress.

    `install_environment`: the agent's and the settings of package installers (UV_*, PIP_*), which
    may hold credentials of a package index and are for installers only. `sandbox`: runs all of it,
    as other users; `metrics`: runs custom metrics. None: they run as we do. `tell_time`: gets the
    time that it took. `seals`: of the environments in the cache."""

    environment: Environ
    cache: str
    install_environment: Mapping[str, str] = field(default_factory=dict)
    log: Callable[[str], None] = print
    tell_time: Callable[[str], None] = lambda _: None
    sandbox: Sandbox | None = None
    metrics: Sandbox | None = None
    seals: Seals = field(default_factory=Seals)


@frozen_dataclass
class Interpreter:
    """The Python to start.

    `import_roots`: folders of the project's own code; `origin`: one line for people; `fingerprint`:
    of its ingredients, "" if unknown."""

    python: str
    origin: str
    import_roots: tuple[str, ...] = ()
    fingerprint: str = ""


@frozen_dataclass
class _About:
    """A Python, as it says itself: its own path, its version, and all that packages are built
    for."""

    python: str
    version: str
    identity: str


def provide(request: EnvironmentRequest, world: World) -> Interpreter:
    """The agent's interpreter, made first if needed; the order is that of
    docs/agents/environments.md.

    Raises InstallFailed."""
    version = request.python if _VERSION.fullmatch(request.python) else ""
    path = _resolve_python(request.python, request.root, world) if _is_named(request) else ""
    nearest = python_needs.nearest_needs(request.folder, request.root)
    rules = python_needs.python_rules(request.folder, request.root, nearest)
    if path and rules:
        _tell_misfit(_about(path, world), rules, world, subject=f"`python: {request.python}` is")
    if path and not request.requirements:
        return Interpreter(python=path, origin=f"{request.python}, as configured")
    needs = needs_of(request)
    if needs is None and not version:
        return _find_interpreter(request, rules, world)
    if version:
        version_rule = PythonRule(
            specifier=python_needs.version_specifier(version),
            source=f'`python: "{version}"` (as configured)',
        )
        rules = (version_rule, *rules)
    base = _about(path, world) if path else _chosen(rules, world)
    if needs is None:
        return Interpreter(python=base.python, origin=f"Python {base.version}, as configured")
    made_of = f"{needs.kind}\0{needs.text.replace(needs.root, '')}\0{' '.join(rule.specifier for rule in rules)}"
    return Interpreter(
        python=_make_environment(needs, base, world),
        origin=f"made from {needs}",
        import_roots=needs.import_roots,
        fingerprint=hashlib.sha256(made_of.encode()).hexdigest()[:16],
    )


def needs_of(request: EnvironmentRequest) -> Needs | None:
    """The needs that its environment is made from; None if none is made: it exists, or its needs
    are not declared."""
    if request.requirements:
        return python_needs.listed_needs(request.requirements, request.root)
    return None if _is_named(request) else python_needs.nearest_needs(request.folder, request.root)


def _is_named(request: EnvironmentRequest) -> bool:
    """True if a Python is named by a path or a command, not by its version."""
    return request.python not in ("", AUTO) and _VERSION.fullmatch(request.python) is None


def _resolve_python(python: str, root: str, world: World) -> str:
    """A path below the checkout (or an absolute one), else a command on PATH."""
    path = Path(root, python)
    if path.is_file():
        return str(path)
    command = shutil.which(python, path=world.environment.get("PATH"))
    if command is None:
        raise InstallFailed(
            f"the Python {python!r} does not exist, neither in the checkout nor on PATH"
        )
    return command


def _find_interpreter(
    request: EnvironmentRequest, rules: Sequence[PythonRule], world: World
) -> Interpreter:
    """The first Python that imports the framework: a `.venv` from the agent's folder up to the
    checkout's root, else PATH."""
    folder = Path(request.folder)
    root = Path(request.root)
    places = [place for place in (folder, *folder.parents) if place.is_relative_to(root)]
    local_pythons = [
        str(path) for place in places if (path := place / ".venv" / "bin" / "python").is_file()
    ]
    looked = list(dict.fromkeys([*local_pythons, *_on_path(world)]))
    for python in looked:
        if not request.framework or _can_import(python, request.framework, request.root, world):
            if rules:
                _tell_misfit(
                    _about(python, world), rules, world, subject=f"the agent runs in {python},"
                )
            return Interpreter(
                python=python,
                origin=f"{python}, from PATH (the checkout does not say what to install)",
            )
    condition = f"that has {request.framework}" if request.framework else "at all"
    start = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else request.folder
    raise InstallFailed(
        f"there is no Python {condition} for the agent. Looked for uv.lock, pyproject.toml (with [project] or "
        f"[tool.poetry]), requirements.txt and setup.py from {start} up to the checkout's root, then asked "
        f"{', '.join(looked) or 'PATH, which has no python3'}. Add a requirements.txt, or set python or requirements."
    )


def _on_path(world: World) -> list[str]:
    on_path = [
        shutil.which(name, path=world.environment.get("PATH")) for name in ("python3", "python")
    ]
    return [python for python in on_path if python]


def _can_import(python: str, module: str, root: str, world: World) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        finished = _query_python([python, "-c", code], world, cwd=root)
    except process.ChildStartError:
        return False
    return finished.returncode == 0


def _query_python(command: Sequence[str], world: World, *, cwd: str) -> process.Finished:
    """What a Python says of itself, run as the agent is. Raises ChildStartError."""
    sandbox = world.sandbox
    if sandbox is None:
        return process.run_to_end(
            command, cwd=cwd, environment=world.environment, timeout_s=CHECK_TIMEOUT_S
        )
    try:
        python = sandbox.reachable_python(command[0])
    except OSError as error:
        message = (
            f"{command[0]} lies where the agent's user may not go, and cannot be copied: {error}"
        )
        raise process.ChildStartError(message) from error
    return process.run_to_end(
        [python, *command[1:]],
        cwd=sandbox.copies.placed(cwd),
        environment=sandbox.environment(world.environment),
        timeout_s=CHECK_TIMEOUT_S,
        prefix=sandbox.agent.prefix,
    )


# --- which Python an environment is made with -----------------------------------------------------


def _chosen(rules: Sequence[PythonRule], world: World) -> _About:
    """A Python that fits: the first on PATH, another that is installed, or one that uv downloads.

    Raises InstallFailed.
    """
    fitting = [rule for rule in rules if not rule.is_pin]
    if not _can_fit(fitting):
        fix = (
            "change one of them (`uv lock` or `poetry lock` make a lock anew)"
            if len(fitting) > 1
            else "correct it (3.10 takes quotes)"
        )
        raise InstallFailed(f"no Python fits {_rules_text(fitting)}: {fix}")
    for pin in (rule for rule in rules if rule.is_pin):
        if not pin.specifier:
            world.log(f"{pin.source} is not a version of Python and is not followed")
        elif not fitting or _can_fit([*fitting, pin]):
            fitting.append(pin)
        else:
            world.log(
                f"warning: {pin.source} does not fit {_rules_text(fitting)}, which decides; correct .python-version"
            )
    preferred = {"UV_PYTHON_PREFERENCE", "UV_MANAGED_PYTHON"} & world.install_environment.keys()
    for python in [] if preferred else _on_path(world):
        with contextlib.suppress(InstallFailed):  # a shim of pyenv without a version behind it
            about = _about(python, world)
            if _fitting([about.version], fitting):
                return about
    request = ",".join(rule.specifier for rule in fitting if rule.specifier) or ">=3.10"
    installed_python = _installed(request, world)
    return _about(installed_python or _downloaded(request, _rules_text(fitting), world), world)


def _can_fit(rules: Sequence[PythonRule]) -> bool:
    """True if any Python fits all of them. Raises InstallFailed if one is not a specifier."""
    return bool(
        _fitting([f"3.{minor}.{patch}" for minor in range(6, 30) for patch in range(40)], rules)
    )


def _fitting(versions: Iterable[str], rules: Iterable[PythonRule]) -> list[str]:
    """The versions that fit all the rules. Raises InstallFailed if a rule is not a specifier."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - as filelock

    for rule in rules:
        try:
            versions = SpecifierSet(rule.specifier).filter(versions, prereleases=True)
        except InvalidSpecifier as error:
            raise InstallFailed(
                f"{rule.source} is not a version specifier such as `>=3.10,<3.13`"
            ) from error
    return list(versions)


def _rules_text(rules: Sequence[PythonRule]) -> str:
    return " and ".join(rule.source for rule in rules)


def _tell_misfit(about: _About, rules: Sequence[PythonRule], world: World, *, subject: str) -> None:
    """Say that a Python that was not chosen by the rules does not fit them."""
    try:
        broken = [rule for rule in rules if not _fitting([about.version], [rule])]
    except InstallFailed as error:
        world.log(f"warning: {error.message}")
        return
    if broken:
        fix = "set `python` to a version that fits, or change the rule"
        world.log(
            f"warning: {subject} Python {about.version}, which does not fit {_rules_text(broken)}; {fix}"
        )


def _installed(request: str, world: World, *, managed: Path | None = None) -> str:
    """The Python that uv finds for a specifier, "" for none; `managed`: only in the folder of those
    that it downloaded."""
    settings = {"PATH": _search_path(world.environment)}
    if managed is not None:
        settings = {"UV_PYTHON_INSTALL_DIR": str(managed), "UV_PYTHON_PREFERENCE": "only-managed"}
    command = ("python", "find", "--no-config", "--no-project", "--system", request)
    finished = _uv(command, world, cwd="/", settings=settings)
    return finished.stdout_tail.strip() if finished.returncode == 0 else ""


def _search_path(environment: Environ) -> str:
    """PATH, and behind it where pyenv and GitHub's runners keep Pythons that are not on it."""
    pyenv = environment.get("PYENV_ROOT") or f"{environment.get('HOME', '')}/.pyenv"
    folders = [
        *Path(pyenv, "versions").glob("3.*/bin"),
        *Path("/opt/hostedtoolcache/Python").glob("3.*/x64/bin"),
    ]
    numbers = {
        path: [int(digits) for digits in re.findall(r"\d+", str(path).partition("3.")[2])]
        for path in folders
    }
    newest = sorted(folders, key=lambda path: numbers[path], reverse=True)
    return os.pathsep.join([environment.get("PATH", ""), *map(str, newest)])


def _downloaded(request: str, rules_text: str, world: World) -> str:
    """A Python that uv downloads into the cache and keeps there. Raises InstallFailed."""
    key = hashlib.sha256(f"{request}\0{sysconfig.get_platform()}".encode()).hexdigest()[:12]
    folder = _cache(world) / f"python-{key}"

    def fill() -> str:
        reason = f"no Python here fits {rules_text}" if rules_text else "PATH has none"
        world.log(f"downloading Python {request} with uv: {reason}")
        settings = {"UV_PYTHON_INSTALL_DIR": str(folder), "UV_PYTHON_INSTALL_BIN": "0"}
        done = _uv(("python", "install", "--no-config", request), world, cwd="/", settings=settings)
        if done.returncode != 0:
            fix = "install one, or name a mirror in UV_PYTHON_INSTALL_MIRROR"
            message = f"{reason}, and uv could not download one; {fix}"
            raise InstallFailed(
                message, _last_lines(done, world.install_environment or world.environment)
            )
        return ""

    def find() -> str:
        return _installed(request, world, managed=folder)

    _once(folder, world, fill=fill, is_whole=lambda: bool(find()))
    return find()


# --- environments that uv makes -------------------------------------------------------------------


def _make_environment(needs: Needs, base: _About, world: World) -> str:
    """The Python of an environment that has `needs`, made with `base` unless it is there already.

    Made in its final place, since scripts carry it. Raises InstallFailed.
    """
    key = hashlib.sha256(f"{base.identity}\0{needs.kind}\0{needs.text}".encode()).hexdigest()[:20]
    folder = _cache(world) / f"env-{key}"
    python = folder / "bin" / "python"

    def fill() -> str:
        locked = needs.text.count("[[package]]") if needs.kind is NeedKind.LOCK else 0
        many = f", {locked} packages locked" if locked else ""
        world.log(
            f"installing the agent's environment from {needs} with uv (Python {base.version}{many}) ..."
        )
        began = time.monotonic()
        count, left_out = _install(needs, base, folder, world)
        world.log(
            f"installed {count} package{'s' if count != 1 else ''} in {time.monotonic() - began:.0f} s"
        )
        return left_out

    def is_whole() -> bool:
        """A seal alone is not enough: the Python that it was made with may be gone, or be one of
        the cache that nobody has looked at."""
        base = python.resolve()
        cache = _cache(world).resolve()
        is_known = not base.is_relative_to(cache) or any(
            base.is_relative_to(sealed_folder.resolve()) for sealed_folder in world.seals.verified
        )
        return is_known and base.exists()

    left_out = _once(folder, world, fill=fill, is_whole=is_whole)
    if left_out:
        world.log(left_out)
    return str(python)


def _cache(world: World) -> Path:
    return Path(world.cache) if world.sandbox is None else world.sandbox.cache


def _once(
    folder: Path, world: World, *, fill: Callable[[], str], is_whole: Callable[[], bool]
) -> str:
    """Have `folder` filled unless that was done before; what `fill` had to say of it then.

    It is filled by one process at a time, and sealed as the last step: what has no seal was
    interrupted or is not ours, what differs from its seal was changed, and both are made anew.
    Raises InstallFailed."""

    def compare() -> str:
        """The reason to make it; "" if usable."""
        if folder not in world.seals.verified:
            reason, note = seals.compare(folder, key=world.seals.key)
            if reason:
                return reason
            world.seals.verified[folder] = note
        return "" if is_whole() else "lacks its Python"

    if compare():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.with_suffix(".lock"), world.log), _alone(world):
            reason = compare()
            if reason:
                if os.path.lexists(folder):
                    world.log(f"the environment {folder.name} {reason}: making it again")
                world.seals.verified.pop(folder, None)
                world.seals.verified[folder] = _fill_afresh(folder, world, fill)
    return world.seals.verified[folder]


def _fill_afresh(folder: Path, world: World, fill: Callable[[], str]) -> str:
    """Fill `folder` in place of what lies there, and seal it."""
    sandbox = world.sandbox
    seals.remove(folder)
    if os.path.lexists(folder):
        with tempfile.TemporaryDirectory(
            prefix="old-", dir=folder.parent, ignore_cleanup_errors=True
        ) as old:
            folder.rename(Path(old, folder.name))  # what cannot be removed is in nobody's way there
    if sandbox is not None:
        sandbox.make_folder(folder, afresh=True)
    try:
        note = fill()
    finally:
        if sandbox is not None:
            sandbox.seal(folder)
    seals.write(folder, key=world.seals.key, note=note)
    return note


def _alone(world: World) -> contextlib.AbstractContextManager[object]:
    """While no other agent of the side lets its installer do anything; it may be entered again."""
    return contextlib.nullcontext() if world.sandbox is None else world.sandbox.installing


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


def _about(base: str, world: World) -> _About:
    """What a Python says of itself. Raises InstallFailed."""
    try:
        finished = _query_python([base, "-c", _ABOUT], world, cwd="/")
    except process.ChildStartError as error:
        raise InstallFailed(f"cannot start the Python {base}: {error}") from error
    lines = finished.stdout_tail.strip().splitlines()[-5:]
    if finished.returncode != 0 or len(lines) < 5:
        raise InstallFailed(
            f"{base} is not a working Python", _last_lines(finished, world.environment)
        )
    # that of Debian's unreleased builds ends in "+"
    return _About(python=lines[1], version=lines[0].rstrip("+"), identity=" ".join(lines[2:]))


def _install(needs: Needs, base: _About, folder: Path, world: World) -> tuple[int, str]:
    """Make the environment; returns its number of packages, and the omitted parts. Raises
    InstallFailed."""
    _run(
        ["venv", "--no-config", "--no-project", "--clear", "--python", base.python, str(folder)],
        needs,
        folder,
        world,
    )
    extra = [
        *(f"extra {name}" for name in needs.extras),
        *(f"group {name}" for name in needs.groups),
    ]
    with _nothing_left_beside(needs):
        try:
            return _run(_command(needs, folder, world, complete=True), needs, folder, world), ""
        except InstallFailed as error:
            if not extra:
                raise
            reason = " ".join(error.detail.split())[-500:]
            names = ", ".join(extra)
        count = _run(_command(needs, folder, world, complete=False), needs, folder, world)
    cause = f"warning: installed without {names} of {needs}, which cannot be installed"
    return count, f"{cause} (remove the cache to try again): {reason}"


@contextlib.contextmanager
def _nothing_left_beside(needs: Needs) -> Iterator[None]:
    """Take away what setuptools leaves in a project that it is only asked about."""

    def leftovers() -> set[Path]:
        folder = Path(needs.folder)
        return {*folder.glob("*.egg-info"), *folder.glob("src/*.egg-info")}

    old_folders = leftovers()
    try:
        yield
    finally:
        for path in leftovers() - old_folders:
            shutil.rmtree(path, ignore_errors=True)


def _command(needs: Needs, folder: Path, world: World, *, complete: bool) -> list[str]:
    """What installs the needs into the environment; `complete`: with extras and groups. Raises
    InstallFailed."""
    python = f"{folder}/bin/python"
    extras, groups = (needs.extras, needs.groups) if complete else ((), ())
    chosen = [part for name in extras for part in ("--extra", name)]
    # of a folder uv's cache knows the age of pyproject.toml and setup.py alone
    is_offline = (world.install_environment or world.environment).get("UV_OFFLINE")
    afresh = ["--no-cache" if is_offline else "--refresh"] if needs.is_local else []
    if needs.kind is NeedKind.LOCK:
        chosen += [part for name in groups for part in ("--group", name)]
        return [
            *(
                "sync",
                "--project",
                needs.folder,
                "--frozen",
                "--no-install-project",
                "--no-install-workspace",
            ),
            *("--no-default-groups", *afresh, *chosen, "--python", python),
        ]
    pip = ["pip", "install", *afresh, "--python", python]
    if needs.kind is NeedKind.POETRY:
        return [*pip, *_of_poetry(needs, folder, world, extras=extras, groups=groups)]
    files = [part for file in needs.files for part in ("-r", file)]
    chosen += [part for name in groups for part in ("--group", f"{needs.files[0]}:{name}")]
    return [*pip, *files, *chosen, "--", *needs.specifiers]


def _of_poetry(
    needs: Needs, folder: Path, world: World, *, extras: Iterable[str], groups: Iterable[str]
) -> Iterator[str]:
    """The requirements and constraints files of a Poetry project, written into the environment."""
    place = Path(needs.folder)
    try:
        lines = python_needs.poetry_requirements(place, extras=[*extras], groups=[*groups])
        pins = [*python_needs.poetry_pins(place)]
    except python_needs.PoetryFailed as error:
        raise InstallFailed(f"{needs} cannot be read as a project of Poetry: {error}") from error
    if world.sandbox is not None:  # a path beside the project is one in the copy
        lines = [
            line.replace(needs.root, world.sandbox.copies.placed(needs.root)) for line in lines
        ]
    for option, name, text in (("-r", "requirements", lines), ("-c", "constraints", pins)):
        file = folder / f"poetry-{name}.txt"
        file.unlink(missing_ok=True)
        # whatever a build has put there may lead elsewhere
        with file.open("x", encoding="utf-8") as out:
            os.fchmod(out.fileno(), 0o644)
            out.writelines(f"{line}\n" for line in text)
        yield from (option, str(file))


def _run(command: Sequence[str], needs: Needs, folder: Path, world: World) -> int:
    """Have uv do one step; how many packages it says that it installed. Raises InstallFailed."""
    settings = {"UV_PROJECT_ENVIRONMENT": str(folder)}
    finished = _uv(command, world, cwd=needs.folder, settings=settings)
    detail = _last_lines(finished, world.install_environment or world.environment)
    if finished.timed_out:
        raise InstallFailed(
            f"installing {needs} took longer than {INSTALL_TIMEOUT_S:.0f} s", detail
        )
    if finished.returncode != 0:
        cause = (
            _cause(detail) or f"`{' '.join(['uv', *command[:2]])}` ended with {finished.returncode}"
        )
        raise InstallFailed(f"installing {needs} failed: {cause}", detail)
    counted = _INSTALLED.search(finished.stderr_tail)
    return int(counted[1]) if counted else 0


_COULD_NOT = re.compile("^\\s*+(?:error:|\N{MULTIPLICATION SIGN}) *+")
_BECAUSE = re.compile("^\\s*+(?:cause:|\\S\\S\N{BLACK RIGHT-POINTING TRIANGLE}) *+")
"""How the lines begin in which uv says what it could not do, and why."""


def _cause(detail: str) -> str:
    """uv's own sentence on why it failed, from its output lines; "" if not found."""
    lines = itertools.dropwhile(lambda line: not _COULD_NOT.match(line), detail.splitlines())
    sentence_lines = itertools.takewhile(
        lambda line: line.strip() and not line.startswith("hint:"), itertools.islice(lines, 5)
    )
    sentence = " ".join(_BECAUSE.sub(": ", line, count=1).strip() for line in sentence_lines)
    return _COULD_NOT.sub("", sentence, count=1).replace(" : ", ": ").replace(":: ", ": ")


def _uv(
    command: Sequence[str], world: World, *, cwd: str, settings: Mapping[str, str]
) -> process.Finished:
    """Run uv as installers run, with these settings added. Raises InstallFailed if it cannot
    start."""
    import uv  # noqa: PLC0415 - as filelock

    try:
        program = uv.find_uv_bin()
    except FileNotFoundError as error:
        raise InstallFailed(
            "uv is needed for the agent's environment, and the one that evalgate was installed with is gone: install "
            "evalgate again, or set python."
        ) from error
    environment = world.install_environment or world.environment
    settings = {name: value for name, value in environment.items() if name != "VIRTUAL_ENV"} | dict(
        settings
    )
    full_command = [program, *command]
    sandbox = world.sandbox
    prefix = tuple[str, ...]()
    if sandbox is not None:
        full_command[0] = str(sandbox.reachable(Path(program)))
        # of this run: what a hook leaves there is installed in none after it
        cache = sandbox.folder / "uv"
        sandbox.make_folder(cache, afresh=False)
        settings = sandbox.environment(settings, sandbox.installer) | {"UV_CACHE_DIR": str(cache)}
        full_command = [
            sandbox.copies.placed(part) if part.startswith("/") else part for part in full_command
        ]
        cwd = sandbox.copies.placed(cwd)
        prefix = sandbox.installer.prefix
    settings["UV_NO_PROGRESS"] = "1"
    settings["UV_LINK_MODE"] = "copy"  # who edits a file of an environment edits none of uv's cache
    # it costs ten times what it saves, except where an agent cannot keep what Python compiles
    if sandbox is not None or "PYTHONDONTWRITEBYTECODE" in world.environment:
        settings.setdefault("UV_COMPILE_BYTECODE", "1")
    if http.system_certificates():
        settings.setdefault("UV_SYSTEM_CERTS", "1")
    began = last_report = time.monotonic()
    orphans = process.Orphans(full_command[0])

    def watch(pid: int, stderr: str) -> None:
        nonlocal last_report
        orphans.look(pid)
        if time.monotonic() - last_report >= SILENCE_S:
            last_report = time.monotonic()
            last = _without_secrets(stderr.strip().rpartition("\n")[2], environment)
            world.log(
                f"still installing after {last_report - began:.0f} s{f': {last}' if last else ''}"
            )

    try:
        with _alone(world):
            return process.run_to_end(
                full_command,
                cwd=cwd,
                environment=settings,
                timeout_s=INSTALL_TIMEOUT_S,
                prefix=prefix,
                watch=watch,
            )
    except process.ChildStartError as error:
        raise InstallFailed(f"uv cannot be started: {error}") from error


def _last_lines(finished: process.Finished, environment: Environ) -> str:
    text = finished.stderr_tail.strip() or finished.stdout_tail.strip()
    return _without_secrets("\n".join(text.splitlines()[-DETAIL_LINES:]), environment)


def _without_secrets(text: str, environment: Environ) -> str:
    """What an installer said, secrets taken out."""
    return _URL_PASSWORD.sub("***@", redact.redactor(environment)(text))
