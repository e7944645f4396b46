"""Python agents and custom metrics in their own processes, and the Python that runs both."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from types import MappingProxyType

from pydantic import Field

from evalgate.model import FailureKind
from evalgate.system import git, python_env
from evalgate.system.python_env import EnvironmentRequest, InstallFailed
from evalgate.values import Environ, Json
from .base import AgentFailed, AgentSetting, DriverOptions, folder_of
from .pool import WorkerPool
from .worker_process import Launch

WORKER = Path(__file__).parent.parent / "worker" / "server.py"
METRICS_WORKER = "metrics"
"""The kind of worker that runs custom metrics; it does not load the agent's package."""

ISOLATED_FLAGS = ("-I", "-S")
"""Flags for the Python of metrics: the change cannot influence what it loads first, neither with
environment variables nor with files."""


class PythonOptions(DriverOptions):
    """The Python environment of the agent; see docs/agents/environments.md."""

    python: str = Field(
        default=python_env.AUTO,
        coerce_numbers_to_str=True,
        description="The agent's Python: a path, a command, a version, or auto.",
    )
    requirements: tuple[str, ...] = Field(
        default=(), description="Requirement files and specifiers to install."
    )


def environment_request(options: Json, root: Path, *, framework: str = "") -> EnvironmentRequest:
    """The environment that an agent's options ask for, in the checkout at `root`."""
    return EnvironmentRequest(
        folder=folder_of(options, root),
        root=root,
        python=str(options.get("python") or python_env.AUTO),
        requirements=tuple(options.get("requirements") or ()),
        framework=framework,
    )


def open_pool(
    kind: str,
    options: PythonOptions,
    setting: AgentSetting,
    *,
    framework: str,
    hello: Json = MappingProxyType({}),
    vouches_for_tools: bool = False,
) -> WorkerPool:
    """The agent, whose Python is found or created on first use; see `prepare_launch`."""

    def launch(kind: str) -> Launch:
        return prepare_launch(kind, options, setting, hello=hello, framework=framework)

    return WorkerPool(
        partial(launch, kind),
        setting=setting,
        metrics=partial(launch, METRICS_WORKER),
        vouches_for_tools=vouches_for_tools,
    )


def prepare_launch(
    kind: str, options: PythonOptions, setting: AgentSetting, *, hello: Json, framework: str
) -> Launch:
    """Find or create the agent's Python, and return the launch of a worker of this `kind` in it.

    `kind`: a module of `evalgate/worker`, or the absolute path, without `.py`, of a worker in
    another package. `hello`: options of the worker beside the agent's. `framework`: a module that a
    Python on PATH must have, "" for none.

    Metrics use the same Python in a sandbox of their own. Raises AgentFailed (INSTALL), also if
    that Python is part of the commit."""
    try:
        request = environment_request(options.model_dump(), Path(setting.root), framework=framework)
        interpreter = python_env.provide(request, setting.world)
    except InstallFailed as error:
        failure = FailureKind.INSTALL.failure(error.message, detail=error.detail)
        raise AgentFailed(failure) from error
    sandbox = setting.world.sandbox
    flags: tuple[str, ...] = ()
    if kind == METRICS_WORKER:
        _refuse_committed(interpreter.python, setting)
        sandbox, flags = setting.world.metrics, ISOLATED_FLAGS
    python, worker = interpreter.python, WORKER
    if sandbox is not None:
        try:
            python = sandbox.reachable_python(python)
            worker = sandbox.reachable(WORKER.parent) / WORKER.name
            if Path(kind).is_absolute():
                kind = str(sandbox.reachable(Path(kind).parent) / Path(kind).name)
        except OSError as error:
            message = (
                f"the agent's user cannot access {interpreter.python}, and it cannot be copied: {error}. Name a "
                "`python` of the system (/usr/bin/python3), or make the environment with one"
            )
            raise AgentFailed(FailureKind.INSTALL.failure(message)) from error
    return Launch(
        command=(python, *flags, str(worker), kind),
        cwd=setting.root,
        environment={
            **setting.world.environment,
            **_path_variables(interpreter.python, setting.world.environment),
        },
        hello={
            **options.model_dump(exclude={"python", "requirements"}, exclude_none=True),
            **hello,
            "import_roots": list(interpreter.import_roots),
        },
        about={"requirements": interpreter.fingerprint} if interpreter.fingerprint else {},
        inputs=setting.inputs,
    ).inside(sandbox)


def _path_variables(python: str, environment: Environ) -> dict[str, str]:
    """PATH and VIRTUAL_ENV as in the activated environment of this Python; empty without one."""
    environment_folder = Path(python).parent.parent
    if not (environment_folder / "pyvenv.cfg").is_file():
        return {}
    path = os.pathsep.join(
        folder
        for folder in (str(environment_folder / "bin"), environment.get("PATH", ""))
        if folder
    )
    return {"PATH": path, "VIRTUAL_ENV": str(environment_folder)}


def _refuse_committed(python: str, setting: AgentSetting) -> None:
    """Raise AgentFailed (INSTALL) if a Python, or its environment, is part of the commit, because
    the change could then contain the code that grades it."""
    path = Path(python)
    environment_folder = path.parent.parent
    places = [environment_folder, path] if (environment_folder / "pyvenv.cfg").exists() else [path]
    world = setting.world
    if git.first_committed(places, Path(setting.root), world.environment, cache=world.cache):
        message = (
            f"{python} is part of the commit, so custom metrics do not run in it. Make the environment in a step of "
            "the workflow, list `requirements`, or name a `python` of the machine"
        )
        raise AgentFailed(FailureKind.INSTALL.failure(message))
