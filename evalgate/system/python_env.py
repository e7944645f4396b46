"""The Python of an agent: one that the user names, one made by uv from its requirements, or an
existing one.

`python_needs` reads the declarations in its folder."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path

from evalgate.values import Environ, Log, digest_of, frozen_dataclass
from . import http, process, python_needs, redact, seals
from .isolation import Sandbox
from .process import ChildStartError, Finished, run_to_end
from .python_needs import NeedKind, Needs, PythonRule
from .seals import Seals

INSTALL_TIMEOUT_S = 1800.0
"""Of one run of uv."""
SILENCE_S = 30.0
"""Seconds between messages of a long installation."""
DETAIL_LINES = 60
"""Of an installer's output, from its end."""
_URL_PASSWORD = re.compile(r"(?<=://)[^/\s@]+@")
"""User and password in an address."""
_VERSION = re.compile(r"3(\.\d+){0,2}")
"""The value of `python` that is a version."""
_INSTALLED = re.compile(r"^Installed (\d+) packages?", re.MULTILINE)
"""uv's line with the number of installed packages."""
_REPORT_CODE = (
    "import platform, sys, sysconfig; "
    "print(platform.python_version(), sys.executable, "
    "platform.python_implementation(), platform.python_version(), sysconfig.get_platform(), sep=chr(10))"
)
"""Prints the version, the path, and three lines of the identity."""


class InstallFailed(Exception):  # noqa: N818 - the name of an outcome
    """The agent's environment cannot be made; `detail`: the installer's own output, without
    secrets."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


AUTO = "auto"
"""The value of `python` that leaves the choice to evalgate."""
CHECK_TIMEOUT_S = 60.0
"""For a question to a Python."""


@frozen_dataclass
class EnvironmentRequest:
    """The declarations for the agent's environment."""

    folder: Path
    """The agent's, absolute."""
    root: Path
    """The checkout's, absolute."""
    python: str = AUTO
    """A path, a command, a version or "auto"."""
    requirements: Sequence[str] = ()
    """Files and specifiers in settings."""
    framework: str = ""
    """A module that a Python on PATH must have; "" for none."""


@frozen_dataclass
class InstallSetup:
    """The setup for making it."""

    environment: Environ
    """The agent's."""
    cache: str
    """The absolute path of a folder."""
    install_environment: Environ = field(default_factory=dict)
    """The agent's with the settings of package installers (UV_*, PIP_*), which may contain
    credentials of a package index and are for installers only."""
    log: Log = print
    """Gets the progress."""
    tell_time: Log = lambda _: None
    """Gets the time that a start took."""
    sandbox: Sandbox | None = None
    """Runs all of it as other users; None: it runs with our rights."""
    metrics: Sandbox | None = None
    """Runs custom metrics; None: as above."""
    seals: Seals = field(default_factory=Seals)
    """Of the environments in the cache."""

    @property
    def installer_environment(self) -> Environ:
        """The environment of installers."""
        return self.install_environment or self.environment


@frozen_dataclass
class Interpreter:
    """The Python to start."""

    python: str
    """Its path."""
    import_roots: tuple[str, ...] = ()
    """Folders of the project's own code."""
    fingerprint: str = ""
    """Of the ingredients of its environment; "" if unknown."""


@frozen_dataclass
class _PythonReport:
    """A Python's own report."""

    python: str
    """Its path."""
    version: str
    """Without the `+` of unreleased builds."""
    identity: str
    """What packages are built for: implementation, version and platform."""


def provide(request: EnvironmentRequest, world: InstallSetup) -> Interpreter:
    """The agent's interpreter, made first if needed, in the order of docs/agents/environments.md.

    Raises InstallFailed."""
    version = request.python if _VERSION.fullmatch(request.python) else ""
    python_path = _resolve_python(request.python, request.root, world) if _is_named(request) else ""
    project_needs = python_needs.nearest_needs(request.folder, request.root)
    rules = python_needs.python_rules(request.folder, request.root, project_needs)
    if python_path and rules:
        _report_misfit(python_path, rules, world, subject=f"`python: {request.python}` is")
    if python_path and not request.requirements:
        return Interpreter(python=python_path)
    needs = needs_of(request)
    if needs is None and not version:
        return Interpreter(python=_find_python(request, rules, world))
    if version:
        version_rule = PythonRule(
            specifier=python_needs.version_specifier(version),
            source=f'`python: "{version}"` (as configured)',
        )
        rules = (version_rule, *rules)
    base = _ask_python(python_path, world) if python_path else _choose_python(rules, world)
    if needs is None:
        return Interpreter(python=base.python)
    ingredients = f"{needs.kind}\0{needs.text.replace(str(needs.root), '')}\0{' '.join(rule.specifier for rule in rules)}"
    try:
        python = _make_environment(needs, base, world)
    except InstallFailed as error:
        package_rule = PythonRule(
            specifier=python_needs.packages_python(error.detail), source=f"packages of {needs}"
        )
        if python_path or not package_rule.specifier:
            raise
        base = _choose_python([*rules, package_rule], world)
        world.log(f"packages of {needs} need Python {package_rule.specifier}")
        python = _make_environment(needs, base, world)
    return Interpreter(
        python=python,
        import_roots=needs.import_roots,
        fingerprint=digest_of(ingredients, 16),
    )


def needs_of(request: EnvironmentRequest) -> Needs | None:
    """The needs that its environment is made from; None if it already exists, or its needs are not
    declared."""
    if request.requirements:
        return python_needs.listed_needs(request.requirements, request.root)
    return None if _is_named(request) else python_needs.nearest_needs(request.folder, request.root)


def _is_named(request: EnvironmentRequest) -> bool:
    """True if a Python is named by a path or a command, not by its version."""
    return request.python not in ("", AUTO) and _VERSION.fullmatch(request.python) is None


def _resolve_python(python: str, root: Path, world: InstallSetup) -> str:
    """A path below the checkout (or an absolute one), else a command on PATH."""
    path = root / python
    if path.is_file():
        return str(path)
    command = shutil.which(python, path=world.environment.get("PATH"))
    if command is None:
        raise InstallFailed(
            f"the Python {python!r} does not exist, neither in the checkout nor on PATH"
        )
    return command


def venv_pythons(folder: Path, root: Path) -> Iterator[Path]:
    """The Pythons of each `.venv` that may be in `folder` and above it, up to `root`."""
    for place in python_needs.upward(folder, root):
        yield place / ".venv" / "bin" / "python"


def _find_python(
    request: EnvironmentRequest, rules: Sequence[PythonRule], world: InstallSetup
) -> str:
    """The first Python that imports the framework: a `.venv` from the agent's folder up to the
    checkout's root, else PATH."""
    own_pythons = filter(Path.is_file, venv_pythons(request.folder, request.root))
    candidates = list(dict.fromkeys([*map(str, own_pythons), *_on_path(world)]))
    for python in candidates:
        if not request.framework or _can_import(python, request.framework, request.root, world):
            if rules:
                _report_misfit(python, rules, world, subject=f"the agent runs in {python},")
            return python
    start = request.folder.relative_to(request.root).as_posix()
    condition = f"that has {request.framework}" if request.framework else "at all"
    raise InstallFailed(
        f"there is no Python {condition} for the agent. Looked for uv.lock, pyproject.toml (with [project] or "
        f"[tool.poetry]), requirements.txt and setup.py from {start} up to the checkout's root, then asked "
        f"{', '.join(candidates) or 'PATH, which has no python3'}. Add a requirements.txt, or set python or requirements."
    )


def _on_path(world: InstallSetup) -> list[str]:
    """The first `python3` and the first `python` on the agent's PATH."""
    path = world.environment.get("PATH")
    return list(filter(None, (shutil.which(name, path=path) for name in ("python3", "python"))))


def _can_import(python: str, module: str, root: Path, world: InstallSetup) -> bool:
    """True if a Python finds a module; False if it does not start."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        finished = _query_python([python, "-c", code], world, cwd=str(root))
    except ChildStartError:
        return False
    return finished.returncode == 0


def _query_python(command: Sequence[str], world: InstallSetup, *, cwd: str) -> Finished:
    """Run a Python as the agent is run, to ask about itself. Raises ChildStartError."""
    sandbox = world.sandbox
    environment = world.environment
    prefix = tuple[str, ...]()
    if sandbox is not None:
        try:
            python = sandbox.reachable_python(command[0])
        except OSError as error:
            message = (
                f"{command[0]} is not accessible to the agent's user and cannot be copied: {error}"
            )
            raise ChildStartError(message) from error
        command = [python, *command[1:]]
        cwd = sandbox.placed(cwd)
        environment = sandbox.environment(environment)
        prefix = sandbox.agent.prefix
    return run_to_end(
        command, cwd=cwd, environment=environment, timeout_s=CHECK_TIMEOUT_S, prefix=prefix
    )


# --- the Python of a new environment
# ------------------------------------------------------------------


def _choose_python(rules: Sequence[PythonRule], world: InstallSetup) -> _PythonReport:
    """A Python that fits: the first on PATH, another installed one, or one that uv downloads.

    Raises InstallFailed."""
    applied_rules = [rule for rule in rules if not rule.is_pin]
    if not _can_fit(applied_rules):
        advice = (
            "change one of them (`uv lock` or `poetry lock` make a lock anew)"
            if len(applied_rules) > 1
            else "correct it (3.10 takes quotes)"
        )
        raise InstallFailed(f"no Python fits {_rules_text(applied_rules)}: {advice}")
    for pin in (rule for rule in rules if rule.is_pin):
        if not pin.specifier:
            world.log(f"{pin.source} is not a version of Python and is not followed")
        elif not applied_rules or _can_fit([*applied_rules, pin]):
            applied_rules.append(pin)
        else:
            world.log(
                f"warning: {pin.source} does not fit {_rules_text(applied_rules)}, which decides; correct .python-version"
            )
    uv_preferences = {
        "UV_PYTHON_PREFERENCE",
        "UV_MANAGED_PYTHON",
    } & world.install_environment.keys()
    for python in [] if uv_preferences else _on_path(world):
        with contextlib.suppress(InstallFailed):  # a shim of pyenv without a version
            report = _ask_python(python, world)
            if _fitting_versions([report.version], applied_rules):
                return report
    request = ",".join(rule.specifier for rule in applied_rules if rule.specifier) or ">=3.10"
    installed_python = _find_installed(request, world)
    return _ask_python(
        installed_python or _download(request, _rules_text(applied_rules), world), world
    )


def _can_fit(rules: Sequence[PythonRule]) -> bool:
    """True if any Python fits all of them. Raises InstallFailed if one is not a specifier."""
    return bool(
        _fitting_versions(
            [f"3.{minor}.{patch}" for minor in range(6, 30) for patch in range(40)], rules
        )
    )


def _fitting_versions(versions: Iterable[str], rules: Iterable[PythonRule]) -> list[str]:
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
    """The sources of the rules, for a sentence."""
    return " and ".join(rule.source for rule in rules)


def _report_misfit(
    python: str, rules: Sequence[PythonRule], world: InstallSetup, *, subject: str
) -> None:
    """Report that a Python that was not chosen by the rules does not fit them. Raises
    InstallFailed."""
    report = _ask_python(python, world)
    try:
        violated_rules = [rule for rule in rules if not _fitting_versions([report.version], [rule])]
    except InstallFailed as error:
        world.log(f"warning: {error.message}")
        return
    if violated_rules:
        advice = "set `python` to a version that fits, or change the rule"
        world.log(
            f"warning: {subject} Python {report.version}, which does not fit {_rules_text(violated_rules)}; {advice}"
        )


def _find_installed(request: str, world: InstallSetup, *, managed: Path | None = None) -> str:
    """The Python that uv finds for a specifier, "" for none; `managed`: only in this folder of its
    downloads."""
    settings = {"PATH": _search_path(world.environment)}
    if managed is not None:
        settings = {"UV_PYTHON_INSTALL_DIR": str(managed), "UV_PYTHON_PREFERENCE": "only-managed"}
    command = ("python", "find", "--no-config", "--no-project", "--system", request)
    finished = _uv(command, world, cwd="/", settings=settings)
    return finished.stdout.text().strip() if finished.returncode == 0 else ""


def _search_path(environment: Environ) -> str:
    """PATH, then the folders of pyenv and GitHub's runners with Pythons that are not on it."""
    pyenv = environment.get("PYENV_ROOT") or f"{environment.get('HOME', '')}/.pyenv"
    folders = [
        *Path(pyenv, "versions").glob("3.*/bin"),
        *Path("/opt/hostedtoolcache/Python").glob("3.*/x64/bin"),
    ]
    numbers = {
        path: [int(digits) for digits in re.findall(r"\d+", str(path).partition("3.")[2])]
        for path in folders
    }
    newest_first = sorted(folders, key=lambda path: numbers[path], reverse=True)
    return os.pathsep.join([environment.get("PATH", ""), *map(str, newest_first)])


def _download(request: str, rules_text: str, world: InstallSetup) -> str:
    """A Python that uv downloads into the cache. Raises InstallFailed."""
    key = digest_of(f"{request}\0{sysconfig.get_platform()}", 12)
    folder = _cache(world) / f"python-{key}"

    def fill() -> str:
        """Have uv download it into the folder. Raises InstallFailed."""
        reason = f"no Python here fits {rules_text}" if rules_text else "PATH has none"
        world.log(f"downloading Python {request} with uv: {reason}")
        settings = {"UV_PYTHON_INSTALL_DIR": str(folder), "UV_PYTHON_INSTALL_BIN": "0"}
        finished = _uv(
            ("python", "install", "--no-config", request), world, cwd="/", settings=settings
        )
        if finished.returncode != 0:
            advice = "install one, or name a mirror in UV_PYTHON_INSTALL_MIRROR"
            message = f"{reason}, and uv could not download one; {advice}"
            raise InstallFailed(message, _last_lines(finished, world.installer_environment))
        return ""

    def find() -> str:
        """The Python in the folder; "" if none there fits."""
        return _find_installed(request, world, managed=folder)

    _fill_once(folder, world, fill=fill, is_complete=lambda: bool(find()))
    return find()


# --- environments that uv makes -------------------------------------------------------------------


def _make_environment(needs: Needs, base: _PythonReport, world: InstallSetup) -> str:
    """The Python of an environment with `needs`, made with `base` unless it exists.

    Made in its final place, since scripts contain it. Raises InstallFailed."""
    key = digest_of(f"{base.identity}\0{needs.kind}\0{needs.text}", 20)
    folder = _cache(world) / f"env-{key}"
    python = folder / "bin" / "python"

    def fill() -> str:
        """Install into the folder; returns a note on omitted parts. Raises InstallFailed."""
        locked_count = needs.text.count("[[package]]") if needs.kind is NeedKind.LOCK else 0
        count_text = f", {locked_count} packages locked" if locked_count else ""
        world.log(
            f"installing the agent's environment from {needs} with uv (Python {base.version}{count_text}) ..."
        )
        started_at = time.monotonic()
        count, omission_note = _install(needs, base, folder, world)
        world.log(
            f"installed {count} package{'s' if count != 1 else ''} in {time.monotonic() - started_at:.0f} s"
        )
        return omission_note

    def is_whole() -> bool:
        """True if the environment can be used: its Python still exists, and is verified if it is
        one of the cache."""
        base = python.resolve()
        cache = _cache(world).resolve()
        is_verified = not base.is_relative_to(cache) or any(
            base.is_relative_to(sealed_folder.resolve()) for sealed_folder in world.seals.verified
        )
        return is_verified and base.exists()

    omission_note = _fill_once(folder, world, fill=fill, is_complete=is_whole)
    if omission_note:
        world.log(omission_note)
    return str(python)


def _cache(world: InstallSetup) -> Path:
    """The folder of environments, with those of one sandbox only."""
    return Path(world.cache) if world.sandbox is None else world.sandbox.cache


def _fill_once(
    folder: Path, world: InstallSetup, *, fill: Callable[[], str], is_complete: Callable[[], bool]
) -> str:
    """Have `folder` filled, unless it was before; return the note of `fill` from then.

    One process at a time fills it, and seals it as the last step. A folder without a seal was
    interrupted or is not ours, one that differs from its seal was changed; both are made again.
    Raises InstallFailed."""

    def compare() -> str:
        """The reason to make it; "" if it is usable."""
        if folder not in world.seals.verified:
            reason, note = seals.compare(folder, key=world.seals.key)
            if reason:
                return reason
            world.seals.verified[folder] = note
        return "" if is_complete() else "lacks its Python"

    if compare():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.with_suffix(".lock"), world.log), _installer_lock(world):
            reason = compare()
            if reason:
                if os.path.lexists(folder):
                    world.log(f"the environment {folder.name} {reason}: making it again")
                world.seals.verified.pop(folder, None)
                world.seals.verified[folder] = _fill_again(folder, world, fill)
    return world.seals.verified[folder]


def _fill_again(folder: Path, world: InstallSetup, fill: Callable[[], str]) -> str:
    """Replace `folder`, fill it, and seal it."""
    sandbox = world.sandbox
    seals.remove(folder)
    if os.path.lexists(folder):
        with tempfile.TemporaryDirectory(
            prefix="old-", dir=folder.parent, ignore_cleanup_errors=True
        ) as old_folder:
            folder.rename(
                Path(old_folder, folder.name)
            )  # files that cannot be removed do no harm there
    if sandbox is not None:
        sandbox.make_folder(folder, is_empty=True)
    try:
        note = fill()
    finally:
        if sandbox is not None:
            sandbox.seal(folder)
    seals.write(folder, key=world.seals.key, note=note)
    return note


def _installer_lock(world: InstallSetup) -> contextlib.AbstractContextManager[object]:
    """A lock for the installer of a side, so that it works for one agent at a time; reentrant."""
    return contextlib.nullcontext() if world.sandbox is None else world.sandbox.installing


@contextlib.contextmanager
def _lock(file: Path, log: Log) -> Iterator[None]:
    """Hold `file` against other threads and processes; the system releases it at our end."""
    import filelock  # noqa: PLC0415 - it takes 0.05 s to import, and most runs make no environments

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


def _ask_python(base: str, world: InstallSetup) -> _PythonReport:
    """The report of a Python about itself. Raises InstallFailed."""
    try:
        finished = _query_python([base, "-c", _REPORT_CODE], world, cwd="/")
    except ChildStartError as error:
        raise InstallFailed(f"cannot start the Python {base}: {error}") from error
    lines = finished.stdout.text().strip().splitlines()[-5:]
    if finished.returncode != 0 or len(lines) < 5:
        raise InstallFailed(
            f"{base} is not a working Python", _last_lines(finished, world.environment)
        )
    # the version of Debian's unreleased builds ends in "+"
    return _PythonReport(
        python=lines[1], version=lines[0].rstrip("+"), identity=" ".join(lines[2:])
    )


def _install(
    needs: Needs, base: _PythonReport, folder: Path, world: InstallSetup
) -> tuple[int, str]:
    """Make the environment; return its number of packages, and a note on omitted parts. Raises
    InstallFailed."""
    _run(
        ["venv", "--no-config", "--no-project", "--clear", "--python", base.python, str(folder)],
        needs,
        folder,
        world,
    )
    optional_parts = [
        *(f"extra {name}" for name in needs.extras),
        *(f"group {name}" for name in needs.groups),
        *(os.path.relpath(file, needs.root) for file in needs.further_files),
    ]
    with _without_leftovers(needs):
        try:
            return _run(_command(needs, folder, world, complete=True), needs, folder, world), ""
        except InstallFailed as error:
            if not optional_parts:
                raise
            reason = " ".join(error.detail.split())[-500:]
            names = ", ".join(optional_parts)
        count = _run(_command(needs, folder, world, complete=False), needs, folder, world)
    cause = f"warning: installed without {names} of {needs}, which cannot be installed"
    return count, f"{cause} (remove the cache to try again): {reason}"


@contextlib.contextmanager
def _without_leftovers(needs: Needs) -> Iterator[None]:
    """Remove the files that setuptools leaves in a project when it reads metadata."""

    def leftovers() -> set[Path]:
        """Such files that exist now."""
        return {*needs.folder.glob("*.egg-info"), *needs.folder.glob("src/*.egg-info")}

    old_folders = leftovers()
    try:
        yield
    finally:
        for path in leftovers() - old_folders:
            shutil.rmtree(path, ignore_errors=True)


def _command(needs: Needs, folder: Path, world: InstallSetup, *, complete: bool) -> list[str]:
    """The uv command that installs the needs into the environment; `complete`: with extras and
    groups. Raises InstallFailed."""
    python = f"{folder}/bin/python"
    extras, groups = (needs.extras, needs.groups) if complete else ((), ())
    selection = [part for name in extras for part in ("--extra", name)]
    # uv's cache knows only the age of a folder's pyproject.toml and setup.py
    is_offline = world.installer_environment.get("UV_OFFLINE")
    cache_options = ["--no-cache" if is_offline else "--refresh"] if needs.is_local else []
    if needs.kind is NeedKind.LOCK:
        selection += [part for name in groups for part in ("--group", name)]
        return [
            *("sync", "--project", str(needs.folder), "--frozen", "--no-default-groups"),
            *("--no-install-project", "--no-install-workspace"),
            *(*cache_options, *selection, "--python", python),
        ]
    newest = [text for text in needs.specifiers if text.startswith(python_needs.EXCLUDE_NEWER)]
    pip = ["pip", "install", *cache_options, *newest, "--python", python]
    if needs.kind is NeedKind.POETRY:
        return [*pip, *_poetry_arguments(needs, folder, world, extras=extras, groups=groups)]
    omitted_files = () if complete else needs.further_files
    files = [
        part for file in needs.files if file not in omitted_files for part in ("-r", str(file))
    ]
    selection += [part for name in groups for part in ("--group", f"{needs.files[0]}:{name}")]
    overrides = [text for text in needs.specifiers if text.startswith(python_needs.OVERRIDE)]
    if overrides:
        names = (text.removeprefix(python_needs.OVERRIDE) for text in overrides)
        selection += ["--override", _written(folder, "overrides", names)]
    specifiers = [text for text in needs.specifiers if text not in (*newest, *overrides)]
    return [*pip, *files, *selection, "--", *specifiers]


def _written(folder: Path, name: str, lines: Iterable[str]) -> str:
    """The path of a file with these lines for the installer, in the environment."""
    file = folder / f"{name}.txt"
    file.unlink(missing_ok=True)
    # a file from a build may be a link to another place
    with file.open("x", encoding="utf-8") as stream:
        os.fchmod(stream.fileno(), 0o644)
        stream.writelines(f"{line}\n" for line in lines)
    return str(file)


def _poetry_arguments(
    needs: Needs, folder: Path, world: InstallSetup, *, extras: Iterable[str], groups: Iterable[str]
) -> Iterator[str]:
    """The arguments for requirements and constraints files of a Poetry project, written into the
    environment."""
    try:
        lines = python_needs.poetry_requirements(needs.folder, extras=[*extras], groups=[*groups])
        pins = [*python_needs.poetry_pins(needs.folder)]
    except python_needs.PoetryFailed as error:
        raise InstallFailed(f"{needs} cannot be read as a project of Poetry: {error}") from error
    if world.sandbox is not None:  # paths in the project are paths in the copy
        root = str(needs.root)
        lines = [line.replace(root, world.sandbox.placed(root)) for line in lines]
    yield from ("-r", _written(folder, "poetry-requirements", lines))
    yield from ("-c", _written(folder, "poetry-constraints", pins))


def _run(command: Sequence[str], needs: Needs, folder: Path, world: InstallSetup) -> int:
    """Run one step of uv; return the number of packages that it reports as installed. Raises
    InstallFailed."""
    settings = {"UV_PROJECT_ENVIRONMENT": str(folder)}
    finished = _uv(command, world, cwd=str(needs.folder), settings=settings)
    detail = _last_lines(finished, world.installer_environment)
    if finished.timed_out:
        raise InstallFailed(
            f"installing {needs} took longer than {INSTALL_TIMEOUT_S:.0f} s", detail
        )
    if finished.returncode != 0:
        cause = (
            _cause(detail) or f"`{' '.join(['uv', *command[:2]])}` ended with {finished.returncode}"
        )
        raise InstallFailed(f"installing {needs} failed: {cause}", detail)
    match = _INSTALLED.search(finished.stderr.text())
    return int(match[1]) if match else 0


_COULD_NOT = re.compile("^\\s*+(?:error:|\N{MULTIPLICATION SIGN}) *+")
"""The beginning of a line in which uv reports a failure."""
_BECAUSE = re.compile("^\\s*+(?:cause:|\\S\\S\N{BLACK RIGHT-POINTING TRIANGLE}) *+")
"""The beginning of a line in which uv gives a reason."""


def _cause(detail: str) -> str:
    """uv's sentence on its failure, from its output lines; "" if there is none."""
    lines = itertools.dropwhile(lambda line: not _COULD_NOT.match(line), detail.splitlines())
    sentence_lines = itertools.takewhile(
        lambda line: line.strip() and not line.startswith("hint:"), itertools.islice(lines, 5)
    )
    sentence = " ".join(_BECAUSE.sub(": ", line, count=1).strip() for line in sentence_lines)
    return _COULD_NOT.sub("", sentence, count=1).replace(" : ", ": ").replace(":: ", ": ")


def _uv(command: Sequence[str], world: InstallSetup, *, cwd: str, settings: Environ) -> Finished:
    """Run uv as an installer, with these settings added. Raises InstallFailed if it cannot
    start."""
    import uv  # noqa: PLC0415 - as filelock

    try:
        program = uv.find_uv_bin()
    except FileNotFoundError as error:
        raise InstallFailed(
            "uv is needed for the agent's environment, and the one that evalgate was installed with is gone: install "
            "evalgate again, or set python."
        ) from error
    environment = world.installer_environment
    settings = {**environment, **settings}
    settings.pop("VIRTUAL_ENV", None)
    full_command = [program, *command]
    sandbox = world.sandbox
    prefix = tuple[str, ...]()
    if sandbox is not None:
        full_command[0] = str(sandbox.reachable(Path(program)))
        # a cache for this run only: files that a hook leaves there are not installed later
        cache = sandbox.folder / "uv"
        sandbox.make_folder(cache, is_empty=False)
        settings = sandbox.environment(settings, sandbox.installer) | {"UV_CACHE_DIR": str(cache)}
        full_command = [*map(sandbox.placed, full_command)]
        cwd = sandbox.placed(cwd)
        prefix = sandbox.installer.prefix
    settings["UV_NO_PROGRESS"] = "1"
    settings["UV_LINK_MODE"] = "copy"  # an edit of an environment's file must not change uv's cache
    # it costs ten times its benefit, except if an agent cannot keep compiled bytecode
    if sandbox or world.environment.get("PYTHONDONTWRITEBYTECODE"):
        settings.setdefault("UV_COMPILE_BYTECODE", "1")
    if http.system_certificates():
        settings.setdefault("UV_SYSTEM_CERTS", "1")
    started_at = last_report = time.monotonic()
    orphans = process.Orphans(full_command[0])

    def watch(pid: int, stderr: str) -> None:
        """End leftover processes, and log the last line of output after a long silence."""
        nonlocal last_report
        orphans.look(pid)
        if time.monotonic() - last_report >= SILENCE_S:
            last_report = time.monotonic()
            last_line = _without_secrets(stderr.strip().rpartition("\n")[2], environment)
            world.log(
                f"still installing after {last_report - started_at:.0f} s{f': {last_line}' if last_line else ''}"
            )

    try:
        with _installer_lock(world):
            return run_to_end(
                full_command,
                cwd=cwd,
                environment=settings,
                timeout_s=INSTALL_TIMEOUT_S,
                prefix=prefix,
                watch=watch,
            )
    except ChildStartError as error:
        raise InstallFailed(f"uv cannot be started: {error}") from error


def _last_lines(finished: Finished, environment: Environ) -> str:
    """The end of its standard error, else of its standard output, without secrets."""
    text = finished.stderr.text().strip() or finished.stdout.text().strip()
    return _without_secrets("\n".join(text.splitlines()[-DETAIL_LINES:]), environment)


def _without_secrets(text: str, environment: Environ) -> str:
    """An installer's output without secrets."""
    return _URL_PASSWORD.sub("***@", redact.redactor(environment)(text))
