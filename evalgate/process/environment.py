"""Which Python runs an agent: one that the user names, one made from the agent's requirements, or one on PATH."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalgate.process import child, requirements, virtualenv
from evalgate.process.virtualenv import InstallFailed

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
    """Where it is made: `environment` of the agent, that of installers, the `cache` folder, `log` for progress."""

    environment: Mapping[str, str]
    install_environment: Mapping[str, str]
    cache: str
    log: Callable[[str], None] = print


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
    needs = requirements.named_needs(wanted.requirements, wanted.root) if wanted.requirements else None
    if needs is None and base:
        return Interpreter(python=base, origin=f"{wanted.python}, as configured")
    needs = needs or requirements.nearest_needs(wanted.folder, wanted.root)
    if needs is not None:
        base = base or _base(world)
        python = virtualenv.provide(needs, base=base, cache=world.cache, environment=_installers(world), log=world.log)
        return Interpreter(
            python=python,
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


def _base(world: World) -> str:
    for name in ("python3", "python"):
        command = shutil.which(name, path=world.environment.get("PATH"))
        if command is not None:
            return command
    raise InstallFailed("there is no python3 on PATH to make the agent's environment with")


def _found(wanted: Wanted, world: World) -> Interpreter:
    """Without requirements: a `.venv` of the checkout, else PATH, where the framework can be imported."""
    looked = []
    for python in _candidates(wanted, world):
        if not wanted.framework or _can_import(python, wanted.framework, wanted.root, world):
            return Interpreter(python=python, origin=f"{python}, from PATH (the checkout does not say what to install)")
        looked.append(python)
    what = f"that has {wanted.framework}" if wanted.framework else "at all"
    raise InstallFailed(
        f"there is no Python {what} for the agent. Looked for uv.lock, pyproject.toml (with [project]) and "
        f"requirements.txt from {_relative(wanted.folder, wanted.root)} up to the checkout's root, then asked "
        f"{', '.join(looked) or 'PATH, which has no python3'}. Add a requirements.txt, or set python or requirements."
    )


def _candidates(wanted: Wanted, world: World) -> list[str]:
    places = [place for place in (Path(wanted.folder), *Path(wanted.folder).parents) if _is_below(place, wanted.root)]
    found = [str(python) for place in places if (python := place / ".venv" / "bin" / "python").is_file()]
    on_path = [shutil.which(name, path=world.environment.get("PATH")) for name in ("python3", "python")]
    return list(dict.fromkeys([*found, *(python for python in on_path if python)]))


def _is_below(place: Path, root: str) -> bool:
    return place == Path(root) or Path(root) in place.parents


def _can_import(python: str, module: str, root: str, world: World) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        finished = child.run_to_end(
            [python, "-c", code], cwd=root, environment=world.environment, timeout_s=CHECK_TIMEOUT_S
        )
    except child.ChildStartError:
        return False
    return finished.returncode == 0


def _installers(world: World) -> Mapping[str, str]:
    return world.install_environment or world.environment


def _relative(path: str, root: str) -> str:
    try:
        return Path(path).relative_to(root).as_posix()
    except ValueError:
        return path
