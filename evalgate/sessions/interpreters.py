"""How a worker is started in the agent's own Python, whatever kind of agent it then holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalgate.model import AgentFailure, FailureKind
from evalgate.plugins import AgentFailed, AgentSetting
from evalgate.sessions.worker import Launch
from evalgate.system import python_env
from evalgate.system.python_env import InstallFailed, Interpreter, Wanted, World


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonAgent:
    """What a driver knows of its agent: `script` and `kind` make the worker's command, `hello` its options.

    `folder`: the agent's, relative to the checkout; from there upward its requirements are looked for.
    `framework`: the module that a Python found on PATH must have.
    """

    script: str
    kind: str
    folder: str
    hello: Mapping[str, Any]
    python: str = python_env.AUTO
    requirements: Sequence[str] = ()
    framework: str = ""


def launch(agent: PythonAgent, setting: AgentSetting) -> Launch:
    """Find or make the agent's Python, and say how the worker starts in it. Raises AgentFailed (INSTALL)."""
    root = Path(setting.root)
    wanted = Wanted(
        folder=str(_existing(root / agent.folder, root)),
        root=str(root),
        python=agent.python,
        requirements=agent.requirements,
        framework=agent.framework,
    )
    world = World(
        environment=setting.environment,
        install_environment=setting.install_environment,
        cache=setting.cache,
        log=setting.log,
    )
    try:
        interpreter = python_env.provide(wanted, world)
    except InstallFailed as error:
        failure = AgentFailure(kind=FailureKind.INSTALL, message=error.message, detail=error.detail)
        raise AgentFailed(failure) from error
    return Launch(
        command=(interpreter.python, agent.script, agent.kind),
        cwd=setting.root,
        environment=_with_its_scripts(setting.environment, interpreter),
        hello={**agent.hello, "import_roots": list(interpreter.import_roots)},
        about={"requirements": interpreter.fingerprint} if interpreter.fingerprint else {},
    )


def _existing(folder: Path, root: Path) -> Path:
    """The nearest folder that exists: the worker, not the installer, tells of a path that leads nowhere."""
    folder = Path(os.path.normpath(folder))
    while not folder.is_dir() and folder != root and root in folder.parents:
        folder = folder.parent
    return folder if folder == root or root in folder.parents else root


def _with_its_scripts(variables: Mapping[str, str], interpreter: Interpreter) -> dict[str, str]:
    """Commands that were installed for the agent are on its PATH, as in an activated environment."""
    home = Path(interpreter.python).parent.parent
    if not (home / "pyvenv.cfg").is_file():
        return dict(variables)
    path = os.pathsep.join(part for part in (str(home / "bin"), variables.get("PATH", "")) if part)
    return {**variables, "PATH": path, "VIRTUAL_ENV": str(home)}
