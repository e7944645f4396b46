"""Whether the agents that somebody named are there, as far as that can be told without running anything."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from evalgate import words
from evalgate.config.yaml_places import Locator
from evalgate.errors import Problem, Severity
from evalgate.model import AgentUse
from evalgate.project import reading, source_files, tree
from evalgate.project.agent_finding import AgentFolders

_RULE = re.compile(r"agents\[(\d+)\]$")
_LOADABLE = (".py", ".pyc", ".so", ".pyd")


def problems(
    uses: Iterable[AgentUse], *, root: Path, places: Locator | None, drivers: Iterable[str]
) -> Iterator[Problem]:
    """What is wrong with the places of agents that a rule names, each agent once. `places`: of evalgate.yml, where it
    names them; `drivers`: the names of all that there are.

    An error for what no environment could make right (`adk`: neither folder, file nor module, or a folder without
    anything that Python loads; `replay`: no file; `command`: no folder to run in), a warning for a module that is
    not in the checkout and may be installed.
    """
    known = tuple(drivers)
    checks: Mapping[str, Callable[[Mapping[str, Any], Path], tuple[str, str, str] | None]] = {
        "adk": lambda options, at: _adk(options, at, known),
        "python": _python,
        "command": _command,
        "replay": _replay,
    }
    told = set()
    for use in uses:
        rule, check = _RULE.search(use.found_by), checks.get(use.driver)
        if rule is None or check is None or use.found_by in told:
            continue
        told.add(use.found_by)
        wrong = check({name: value for name, value in use.options.items() if isinstance(value, str)}, root)
        if wrong is not None:
            key, message, hint = wrong
            yield Problem(
                severity=Severity.WARNING if use.driver == "python" else Severity.ERROR,
                code="agent-missing",
                message=message,
                place=places("agents", int(rule[1]), key) if places is not None else None,
                hint=hint,
            )


def _adk(options: Mapping[str, Any], root: Path, drivers: Iterable[str]) -> tuple[str, str, str] | None:
    text = options.get("path", ".")
    place = _of_agent(text, root)
    if place is None:
        said = f"no agent at `{text}`: not a folder, file or module of the checkout"
        return "path", said, _driver_meant(text, drivers) or _agent_meant(text, root)
    if place.is_dir() and not _holds_code(place):
        said = f"no agent at `{text}`: the folder has neither a Python file nor a root_agent.yaml"
        return "path", said, _agent_meant(text, root)
    return None


def _of_agent(text: str, root: Path) -> Path | None:
    """The folder or file that an `adk` agent is loaded from, found as its worker finds it."""
    found = [Path(os.path.normpath(root / text))]
    parts = text.split(".")
    if all(part.isidentifier() for part in parts):
        found += [root.joinpath(*parts), root.joinpath(*parts[:-1], f"{parts[-1]}.py")]
    return next((each for each in found if _exists(each)), None)


def _holds_code(folder: Path) -> bool:
    try:
        names = [each.name for each in folder.iterdir()]
    except OSError:
        return True  # the run tells
    return any(name.endswith(_LOADABLE) or name in ("root_agent.yaml", "agent") for name in names)


def _driver_meant(text: str, drivers: Iterable[str]) -> str:
    """The hint where a driver may have been meant: `comand:node agent.mjs`."""
    name, colon, rest = text.partition(":")
    if not colon or len(name) < 2 or not name.isidentifier():
        return ""
    close = words.nearest(name, drivers)
    return f"Did you mean `{close}:{rest}`?" if close else f"`{name}` is not a known driver: {', '.join(drivers)}."


def _agent_meant(text: str, root: Path) -> str:
    seen = tree.walk(root)
    folders = AgentFolders(files=seen.agent_files, read=lambda path: reading.read_source(root, path))
    found = folders.outermost()
    close = words.nearest(text.strip("/"), found)
    if close is None:
        names = {folder.rpartition("/")[2]: folder for folder in found}
        name = words.nearest(PurePosixPath(text).name, names)
        close = names[name] if name else None
    if close:
        return f"Did you mean `{close}`?"
    return f"Agents of the repository: {words.listed(f'`{folder}`' for folder in found)}." if found else ""


def _python(options: Mapping[str, Any], root: Path) -> tuple[str, str, str] | None:
    module, colon, _ = options.get("call", "").partition(":")
    parts = module.split(".")
    if not colon or not all(part.isidentifier() for part in parts):
        return None  # told with the options
    for start in (root / options.get("path", "."), root):
        place = start.joinpath(*parts)
        if _exists(place) or _exists(place.with_name(f"{place.name}.py")):
            return None
    files = [PurePosixPath(path) for path in source_files.walk(root) if path.endswith(_LOADABLE)]
    if any(parts[0] in (*path.parts[:-1], path.name.partition(".")[0]) for path in files):
        return None  # a layout like src/, which the environment knows
    close = words.nearest(module, {".".join((*path.parts[:-1], path.stem)) for path in files})
    hint = f"Did you mean `{close}`?" if close else "Ignore this if it is installed in the agent's environment."
    return "call", f"there is no module `{module}` in the checkout", hint


def _command(options: Mapping[str, Any], root: Path) -> tuple[str, str, str] | None:
    folder = options.get("cwd", ".")
    if _exists(root / folder):
        return None
    return "cwd", f"there is no folder `{folder}`, which the agent's command is to run in", ""


def _replay(options: Mapping[str, Any], root: Path) -> tuple[str, str, str] | None:
    text = options.get("path")
    if text is None or _exists(root / text) or glob.glob(text, root_dir=root, recursive=True, include_hidden=True):  # noqa: PTH207 - Path.glob takes no absolute pattern
        return None
    close = words.nearest(text, tree.walk(root).other_json)
    return "path", f"there are no recordings at `{text}`", f"Did you mean `{close}`?" if close else ""


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long a name, or one that cannot be
        return False
