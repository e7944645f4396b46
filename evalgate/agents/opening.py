"""Open the agents of a side, each once, with its share of workers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from evalgate import agents
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.model import (
    AgentFailure,
    AgentUse,
    Case,
    Content,
    CriterionUse,
    FailureKind,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Suite,
    TrialKey,
    TrialView,
)
from evalgate.system import git, python_env
from evalgate.system.isolation import Sandbox
from evalgate.system.python_env import InstallSetup
from evalgate.system.seals import Seals
from evalgate.text import words
from evalgate.values import Environ, grouped
from . import toolbox
from .base import (
    Agent,
    AgentFailed,
    AgentLimits,
    AgentSetting,
    Conversation,
    folder_of,
)
from .pool import CommonStart, PythonOptions

TRIALS_WORTH_A_WORKER = 32
"""The number of trials per worker. Starting a worker costs seconds of imports, and a conversation
mostly waits for its model."""


class AbsentAgent(Agent):
    """An agent that cannot be opened."""

    def __init__(self, failure: AgentFailure) -> None:
        self._failure = failure

    def converse(self, case: Case, key: TrialKey) -> AbstractContextManager[Conversation]:  # noqa: ARG002 - the shape of Agent
        """Always raises AgentFailed."""
        raise AgentFailed(self._failure)

    def run_metric(self, code: str, use: CriterionUse, evidence: TrialView) -> Grade:  # noqa: ARG002 - the shape of Agent
        """NotEvaluated: the agent has no environment."""
        return NotEvaluated(reason=Reason.AGENT_FAILED, message=self._failure.message)

    def start(self) -> None:
        """Always raises AgentFailed."""
        raise AgentFailed(self._failure)


@contextmanager
def open_agents(
    suites: Sequence[Suite],
    settings: Settings,
    context: Context,
    *,
    root: Path,
    judge_keys: Collection[str],
    starting: CommonStart | None = None,
    sandboxes: tuple[Sandbox, Sandbox] | None = None,
) -> Iterator[dict[str, Agent]]:
    """Open the agents of one side's suites, by `AgentUse.key`; close them at the end.

    `root`: absolute path of the side's checkout. `settings`: head's; its tool recordings answer
    both sides, after a side's own. `judge_keys`: see `AgentVariables`. `starting`: makes the sides
    start together. `sandboxes`: of the side and of its metrics; None: everything runs with
    evalgate's rights."""
    suites_by_agent = grouped((suite.agent.key, suite) for suite in suites)
    starting = starting or CommonStart()
    variables = AgentVariables.of(settings, context, judge_keys)
    if root == settings.root and (withheld := variables.withheld()):
        names = words.listed(withheld)
        them = "it" if len(withheld) == 1 else "them"
        context.say(
            f"{names}: credentials for installers, withheld because `env` does not name {them}"
        )
    with ExitStack() as stack:
        pools: dict[str, Agent] = {}
        for key, agent_suites in suites_by_agent.items():
            use = agent_suites[0].agent
            setting = _setting(
                settings,
                context,
                variables,
                root=root,
                starting=starting,
                suites=agent_suites,
                sandboxes=sandboxes or (None, None),
            )
            try:
                if use.is_absent:
                    message = str(use.options["why"])
                    failure = FailureKind.NO_RECORDING.failure(message)
                    pools[key] = AbsentAgent(failure)
                elif context.opening.host is not None:
                    pools[key] = context.opening.host(setting)
                else:
                    python = missing_python(use, root=root, lender=settings.root)
                    if python and _is_lent(python, settings.root, context.environ):
                        use = use.with_options({**use.options, "python": str(python)})
                    pools[key] = agents.DRIVERS[use.driver].open(agents.options_of(use), setting)
            except AgentFailed as failed:
                pools[key] = AbsentAgent(failed.failure)
            stack.callback(pools[key].close)
        yield pools


def ask_once(
    suite: Suite,
    question: str,
    settings: Settings,
    context: Context,
    *,
    judge_keys: Collection[str] = (),
    sandboxes: tuple[Sandbox, Sandbox] | None = None,
) -> tuple[Agent, Invocation | None]:
    """The agent of a suite, closed after a conversation for its first case, and its turn for the
    question; None if that is "". Raises AgentFailed."""
    case = suite.cases[0]
    turn = None
    with open_agents(
        [suite], settings, context, root=settings.root, judge_keys=judge_keys, sandboxes=sandboxes
    ) as pools:
        agent = pools[suite.agent.key]
        with agent.converse(case, TrialKey(suite=suite.key, case_id=case.case_id)) as conversation:
            if question:
                turn = conversation.send(Content.of(question, "user"))
                conversation.finish()
    return agent, turn


def _setting(
    settings: Settings,
    context: Context,
    variables: AgentVariables,
    *,
    root: Path,
    starting: CommonStart,
    suites: Sequence[Suite],
    sandboxes: tuple[Sandbox | None, Sandbox | None],
) -> AgentSetting:
    """The setting of the agent of these suites, with its share of workers."""
    environment = variables.environment()
    world = InstallSetup(
        environment=environment,
        install_environment=variables.installer_environment(),
        cache=str(context.cache),
        log=context.audience.watcher.say,
        tell_time=(lambda _: None) if context.is_attended else context.say,
        sandbox=sandboxes[0],
        metrics=sandboxes[1],
        seals=Seals(key=context.store_key, verified=context.opening.environments),
    )
    trials = sum(len(suite.cases) for suite in suites) * settings.runs
    workers = min(settings.workers, max(1, math.ceil(trials / TRIALS_WORTH_A_WORKER)))
    limits = AgentLimits(
        turn_timeout_s=settings.turn_timeout,
        case_timeout_s=settings.case_timeout,
        start_timeout_s=settings.start_timeout,
        output_bytes=settings.max_output * 10**6,
        memory_bytes=settings.memory * 10**6 or None,
        workers=workers,
        sessions=math.ceil(settings.concurrency / workers),
        isolate_cases=settings.isolation == "case",
    )
    return AgentSetting(
        root=str(root),
        world=world,
        limits=limits,
        seed=settings.seed,
        tools=toolbox.source(settings, checkout=root, environment=environment, suites=suites),
        trace=settings.trace,
        meeting=starting.wait,
        variables=variables,
    )


def absent(reason: str, **marks: bool) -> AgentUse:
    """An agent for which every trial ends with NO_RECORDING and this reason. `unusable`: its own
    side's configuration prevents opening it."""
    return AgentUse(driver=AgentUse.ABSENT, options={"why": reason, **marks})


def missing() -> AgentUse:
    """The agent of a suite for which the base has none. This is not an error: nothing can have
    become worse."""
    return absent("the base has no agent for this suite", missing=True)


def is_missing(use: AgentUse) -> bool:
    """True if the side has no agent for the suite. An agent that cannot run is not missing."""
    return use.is_absent and bool(use.options.get("missing"))


def missing_pythons(
    uses: Iterable[AgentUse], *, root: Path, lender: Path, environ: Environ
) -> tuple[tuple[str, bool], ...]:
    """Relative paths of the Pythons of `lender` that agents at `root` need and lack, each with True
    if it is lent."""
    paths = dict.fromkeys(
        path for use in uses if (path := missing_python(use, root=root, lender=lender)) is not None
    )
    return tuple((str(path.relative_to(lender)), _is_lent(path, lender, environ)) for path in paths)


def _is_lent(python: Path, lender: Path, environ: Environ) -> bool:
    """True if an agent may use head's Python: git does not contain it, otherwise a change could
    decide what runs the base."""
    folder = python.parent.parent
    environment = folder if (folder / "pyvenv.cfg").is_file() else python
    return git.first_committed([environment], lender, environ) is None


def missing_python(use: AgentUse, *, root: Path, lender: Path) -> Path | None:
    """Head's Python that an agent needs and its own checkout lacks: the one that `python` names, or
    that of the nearest `.venv` if nothing lists requirements. None if not needed."""
    python = use.options.get("python", python_env.AUTO)
    driver = agents.DRIVERS.get(use.driver)
    takes_python = driver is not None and issubclass(driver.options, PythonOptions)
    if not takes_python or root == lender or use.options.get("requirements"):
        return None
    pythons: Iterable[Path] = ()
    if python not in ("", python_env.AUTO):
        if not (root / str(python)).is_file():
            pythons = [lender / str(python)]
    elif agents.needs_of(use, root) is None:
        folder = folder_of(use.options, root)
        pythons = (
            lender / python_path.relative_to(root)
            for python_path in python_env.venv_pythons(folder, root)
        )
    return next(filter(Path.is_file, pythons), None)
