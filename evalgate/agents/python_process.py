"""Python agents in a process of their own: the Python that it starts in, and custom metrics that it grades."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from evalgate.agents import protocol
from evalgate.agents.base import AgentFailed, AgentSetting, DriverOptions
from evalgate.agents.protocol import MetricResult
from evalgate.agents.worker_process import Launch, Phase, Worker
from evalgate.model import AgentFailure, CriterionUse, Evidence, FailureKind, Grade, NotEvaluated, Reason, Score
from evalgate.system import python_env
from evalgate.system.python_env import InstallFailed, Interpreter, Wanted
from evalgate.text import words

WORKER = Path(__file__).parent / "worker" / "server.py"
METRICS = "metrics"
"""The kind of worker that runs custom metrics: the agent's package is not loaded there."""

LOADABLE = (".py", ".pyc", ".so", ".pyd")
"""How the files end that Python loads as modules."""


def run_metric(
    worker: Worker,
    code: str,
    use: CriterionUse,
    evidence: Evidence,
    *,
    timeout_s: float,
    on_timeout: Callable[[], None],
) -> Grade:
    """Grade the evidence with the function at the dotted path `code`; a worker that fails is a grade that failed."""
    deadline = time.monotonic() + timeout_s
    box = worker.boxes.open(Phase.METRIC)
    try:
        worker.say(protocol.metric(box.name, code=code, use=use, evidence=evidence), timeout_s=timeout_s)
        mail = box.mail.get(timeout=max(deadline - time.monotonic(), 0.0))
    except queue.Empty:
        on_timeout()
        message = worker.failure.message if worker.failure else f"it took longer than {words.seconds(timeout_s)}"
        return failed(code, worker.redact(message))
    finally:
        worker.boxes.close(box)
    if isinstance(mail, MetricResult):
        return grade_of(mail, code=code)
    return failed(code, worker.redact(getattr(mail, "message", "")))


def grade_of(result: MetricResult, *, code: str) -> Grade:
    """The grade that a metric's answer stands for; a status without a score is no score."""
    if result.error is not None:
        return failed(code, result.error)
    score = result.finite_score
    if result.status == "not_evaluated" or score is None:
        return NotEvaluated(
            reason=Reason.CRITERION_FAILED,
            message=f"the metric {code} {_why(result)}",
            turns=tuple(result.turns),
        )
    passed = None if result.status is None else result.status == "passed"
    return Score(value=score, turns=tuple(result.turns), passed=passed)


def _why(result: MetricResult) -> str:
    """Why an answer is no score."""
    if result.score is None:
        return "says that it could not evaluate"
    if result.finite_score is None:
        return f"gave {result.score} as its score"
    return f"says that it could not evaluate, but gave a score of {result.score:g}"


def failed(code: str, message: str) -> NotEvaluated:
    """The metric gave no answer."""
    return NotEvaluated(reason=Reason.CRITERION_FAILED, message=f"the metric {code} failed: {message}")


class PythonOptions(DriverOptions):
    """What the agent runs in; see docs/agents/environments.md."""

    python: str = Field(default=python_env.AUTO, description="The agent's Python: a path, a command, or auto.")
    requirements: tuple[str, ...] = Field(default=(), description="Requirement files and specifiers to install.")


def find_launch(
    kind: str,
    options: PythonOptions,
    setting: AgentSetting,
    *,
    folder: str,
    hello: Mapping[str, Any],
    framework: str = "",
) -> Launch:
    """Find or make the agent's Python, and say how a worker of this `kind` starts in it. Raises AgentFailed (INSTALL).

    `folder`: the agent's, relative to the checkout; from there upward its requirements are looked for. `hello`: options
    of the worker. `framework`: the module that a Python found on PATH must have. A worker for metrics starts in a
    sandbox of its own, with the same Python.
    """
    root = Path(setting.root)
    wanted = Wanted(
        folder=str(_nearest_folder(root / folder, root)),
        root=str(root),
        python=options.python,
        requirements=options.requirements,
        framework=framework,
    )
    try:
        interpreter = python_env.provide(wanted, setting.world)
    except InstallFailed as error:
        failure = AgentFailure(kind=FailureKind.INSTALL, message=error.message, detail=error.detail)
        raise AgentFailed(failure) from error
    about = {"requirements": interpreter.fingerprint} if interpreter.fingerprint else {}
    environment = _with_commands(setting.world.environment, interpreter)
    sandbox = setting.world.metrics if kind == METRICS else setting.world.sandbox
    if sandbox is None:
        hello = {**hello, "import_roots": list(interpreter.import_roots)}
        command = (interpreter.python, str(WORKER), kind)
        return Launch(command=command, cwd=setting.root, environment=environment, hello=hello, about=about)
    return Launch(
        command=(sandbox.placed(interpreter.python), str(WORKER), kind),
        cwd=sandbox.placed(setting.root),
        environment=sandbox.environment(environment),
        hello={**hello, "import_roots": [sandbox.placed(each) for each in interpreter.import_roots]},
        about=about,
        prefix=sandbox.agent.prefix,
    )


def _nearest_folder(folder: Path, root: Path) -> Path:
    """The nearest folder that exists: the worker, not the installer, tells of a path that leads nowhere."""
    folder = Path(os.path.normpath(folder))
    while not folder.is_dir() and folder != root and root in folder.parents:
        folder = folder.parent
    return folder if folder == root or root in folder.parents else root


def _with_commands(variables: Mapping[str, str], interpreter: Interpreter) -> dict[str, str]:
    """Commands that were installed for the agent are on its PATH, as in an activated environment."""
    home = Path(interpreter.python).parent.parent
    if not (home / "pyvenv.cfg").is_file():
        return dict(variables)
    path = os.pathsep.join(part for part in (str(home / "bin"), variables.get("PATH", "")) if part)
    return {**variables, "PATH": path, "VIRTUAL_ENV": str(home)}
