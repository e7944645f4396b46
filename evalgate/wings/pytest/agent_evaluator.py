"""ADK's `AgentEvaluator` on evalgate's engine (docs/pytest.md). It has the same calls and the same
rule for failures, and it reports missing results."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from evalgate import reports
from evalgate.agents.python import PythonDriver
from evalgate.config import gate_file, load
from evalgate.config.context import Audience, Opening
from evalgate.gate import prepare, run as gate_run
from evalgate.model import (
    CriterionUse,
    GradedTrial,
    Report,
    Score,
)
from evalgate.system.files import top_of
from evalgate.values import digest_of, grouped
from . import guest

TEST_FILE = ".test.json"
ARGUMENT_ADVICE = {
    "initial_session_file": "write it into the file, with `evalgate migrate FILE --initial-session SESSION`",
    "output_file": "all results are in results.json of the report folder",
    "eval_set_results_manager": "all results are in results.json of the report folder",
}
"""What to do in place of google-adk's arguments that are refused."""


class AgentEvaluator:
    """Replaces google-adk's class of this name: `from evalgate import AgentEvaluator`.

    Each call must be awaited, as in google-adk. Without a running event loop, the call runs at
    once: tests called google-adk this way before 0.5, and such a test has passed since then without
    running anything."""

    @staticmethod
    def evaluate(  # noqa: PLR0917 - google-adk's signature
        agent_module: str,
        eval_dataset_file_path_or_dir: str,
        num_runs: int = 2,
        agent_name: str | None = None,
        initial_session_file: str | None = None,
        print_detailed_results: bool = True,  # noqa: FBT001, FBT002 - google-adk's signature
        artifact_service: Any = None,
        output_file: str | None = None,
        app_name: str | None = None,
        eval_set_results_manager: Any = None,
    ) -> Awaitable[None]:
        """Run every case `num_runs` times. Raises AssertionError with a line for each criterion of
        a case that fails.

        A criterion of a case fails if the mean of its turns over all runs misses the threshold, as
        in google-adk, or if a run of it was not measured. Raises ValueError for arguments that
        cannot be honored, EvalgateError if there is nothing to judge. Source: google-adk
        `evaluation/agent_evaluator.py`."""

        __tracebackhide__ = True

        async def evaluation() -> str:
            _refuse(
                num_runs,
                initial_session_file=initial_session_file,
                output_file=output_file,
                eval_set_results_manager=eval_set_results_manager,
            )
            return await _evaluate(
                agent_module,
                Path(eval_dataset_file_path_or_dir),
                num_runs,
                agent_name=agent_name,
                details=print_detailed_results,
                app_name=app_name,
                artifact_service=artifact_service,
            )

        return _run_or_await(evaluation)

    @staticmethod
    def evaluate_eval_set(  # noqa: PLR0917 - google-adk's signature
        agent_module: str,
        eval_set: Any,
        criteria: Mapping[str, float] | None = None,
        eval_config: Any = None,
        num_runs: int = 2,
        agent_name: str | None = None,
        print_detailed_results: bool = True,  # noqa: FBT001, FBT002 - google-adk's signature
        artifact_service: Any = None,
        output_file: str | None = None,
        app_name: str | None = None,
        eval_set_results_manager: Any = None,
    ) -> Awaitable[None]:
        """The same for an `EvalSet` and an `EvalConfig` of google-adk (or their JSON), or for
        `criteria`."""

        __tracebackhide__ = True

        async def evaluation() -> str:
            _refuse(
                num_runs, output_file=output_file, eval_set_results_manager=eval_set_results_manager
            )
            config = {"criteria": dict(criteria)} if criteria else eval_config
            if config is None:
                raise ValueError("`eval_config` is required.")
            texts = {"made.test.json": _as_json(eval_set), "test_config.json": _as_json(config)}
            mark = _mark(sorted(texts.items()))
            folder = top_of(Path.cwd()) / "evalgate-report" / f"made-{mark}"
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (folder / name).write_text(text, "utf-8")
            return await _evaluate(
                agent_module,
                folder / "made.test.json",
                num_runs,
                agent_name=agent_name,
                details=print_detailed_results,
                app_name=app_name,
                artifact_service=artifact_service,
            )

        return _run_or_await(evaluation)

    @staticmethod
    def migrate_eval_data_to_new_schema(*_: Any, **__: Any) -> None:
        """Refused: raises ValueError."""
        raise ValueError("Use `evalgate migrate OLD NEW --initial-session SESSION`.")


evaluate = AgentEvaluator.evaluate


async def _evaluate(
    module: str,
    dataset: Path,
    num_runs: int,
    *,
    agent_name: str | None,
    details: bool,
    **services: Any,
) -> str:
    """Run the gate with the agent in this event loop. Returns the failures, "" if there are none.
    `services`: `app_name` and `artifact_service` of the agent."""
    agent_path = f"{module}:{agent_name or 'root_agent'}"
    root = top_of(dataset.absolute().parent)
    files = [dataset.absolute()]
    if dataset.is_dir():
        files = sorted(file.absolute() for file in dataset.rglob(f"*{TEST_FILE}"))
    elif not dataset.is_file():
        raise ValueError(f"There is no eval file {dataset}.")
    if not files:
        raise ValueError(
            f"No `*{TEST_FILE}` eval files found in {dataset}, so there is nothing to evaluate. Other files are named one by one."
        )
    output = f"evalgate-report/{files[0].name.split('.')[0]}-{_mark((agent_path, files))}"
    folder = root / output
    folder.mkdir(parents=True, exist_ok=True)
    async with guest.open_agent(module, agent_name=agent_name, **services) as agent:
        options = {
            "root": str(root),
            "paths": [os.path.relpath(file, root) for file in files],
            "runs": num_runs,
            "threshold": "all",
            "baseline": "none",
            # the test's mocks are part of the agent, and no fingerprint has them
            "reuse_days": 0,
            "output": output,
        }

        def present(report: Report) -> None:  # the conversations cannot be read after the run
            if details:
                print(reports.render_terminal(report))  # noqa: T201 - what the argument asks for

        def gate() -> Report:
            # written in the one thread of all gates: calls at the same time may share a folder
            config = _gate_file(root, agent_path, folder)
            settings = load.load_settings({**options, "config": config})
            context = prepare.make_context(
                settings, audience=Audience(present=present), opening=Opening(host=agent.open)
            )
            return gate_run.run(settings, context)

        report = await asyncio.get_running_loop().run_in_executor(GATE, gate)
    failures = list(_failures(report, module))
    if not failures:
        return ""
    title = "Following are all the test failures."  # google-adk's words, which tests look for
    return "\n".join([title, *failures, f"Report: {folder / 'report.html'}"])


def _mark(facts: object) -> str:
    return digest_of(repr(facts), 8)


GATE = ThreadPoolExecutor(max_workers=1, thread_name_prefix="evalgate")
"""The gate's thread. The agent may need the threads of the event loop. There is only one thread: of
two evaluations at once, one could undo the changes of the other to the agent."""


def _run_or_await(evaluation: Callable[[], Coroutine[Any, Any, str]]) -> Awaitable[None]:
    """Raise AssertionError with the failures, here, so that pytest shows the line of the test and
    none of ours."""
    __tracebackhide__ = True

    async def run() -> None:
        __tracebackhide__ = True
        if failure_text := await evaluation():
            raise AssertionError(failure_text)

    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return run()
    # its own loop: the test may have set one and not started it yet
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        failure_text = runner.run(evaluation())
    if failure_text:
        raise AssertionError(failure_text)
    return _Done()


class _Done(Coroutine[Any, Any, None]):
    """A finished call, for `asyncio.run` and `await`; nobody has to await it."""

    def send(self, value: Any) -> Any:  # noqa: ARG002 - the protocol's signature
        """See `Coroutine.send`."""
        raise StopIteration

    def throw(self, *args: Any) -> Any:
        """See `Coroutine.throw`."""
        raise args[0]

    def close(self) -> None:
        """See `Coroutine.close`."""

    def __await__(self) -> Iterator[Any]:  # type: ignore[override]  # nothing to wait for
        return iter(())


def _as_json(model: Any) -> str:
    """The JSON of a pydantic model of google-adk, or of a mapping. Raises ValueError for anything
    else."""
    if hasattr(model, "model_dump_json"):
        return str(model.model_dump_json(exclude_none=True, by_alias=True))
    if isinstance(model, Mapping):
        return json.dumps(model)
    raise ValueError(
        f"expected an `EvalSet` or `EvalConfig` of google-adk, got {type(model).__name__}"
    )


def _refuse(num_runs: int, **arguments: Any) -> None:
    """Raise ValueError for arguments that cannot be honored."""
    for name, argument in arguments.items():
        if argument is not None and argument != "":
            raise ValueError(f"`{name}` is not supported: {ARGUMENT_ADVICE[name]}.")
    if num_runs < 1:
        raise ValueError(f"`num_runs` must be at least 1, got {num_runs}.")


def _gate_file(root: Path, agent: str, folder: Path) -> str:
    """Write the repository's evalgate.yml with this agent for all files; return its path. The
    conversations of a test run one after another unless `concurrency` allows more: the test's mocks
    may give their answers in an order. A test passes or fails by its own cases alone, as in
    google-adk: what excuses failures is left out."""
    paths = [root / name for name in gate_file.NAMES if (root / name).is_file()]
    configuration = yaml.safe_load(paths[0].read_text("utf-8")) if paths else {}
    agents = [{"driver": PythonDriver.name, "call": agent, "python": sys.executable}]
    new_file = folder / "evalgate.yml"
    own = {"agents": agents, **gate_file.STRICT}
    new_file.write_text(yaml.safe_dump({"concurrency": 1, **(configuration or {}), **own}), "utf-8")
    return str(new_file)


def _failures(report: Report, module: str) -> Iterator[str]:
    """A line in google-adk's words for each criterion of a case that failed or was not measured in
    every run."""
    runs = grouped((trial.key.case, trial) for trial in report.run.trials)
    for suite in report.run.suites:
        if suite.problem:
            yield f"{suite.key}: not measured: {suite.problem}"
        for case in suite.cases:
            trials = runs.get((suite.key, case.case_id), [])
            crash = next((trial.failure for trial in trials if trial.failure is not None), None)
            if crash is not None or not trials:
                reason = crash.message if crash else "the case did not run"
                yield f"{suite.key}: {case.case_id}: not measured: {reason}"
                continue
            for use in suite.criteria_of(case):
                failure = _failure(use, trials)
                if failure:
                    yield f"{suite.key}: {case.case_id}: {use.name} for {module} {failure}"


def _failure(use: CriterionUse, trials: Sequence[GradedTrial]) -> str:
    """The failure of one criterion of one case; "" if it passes or is informational."""
    if use.informational or use.threshold is None:
        return ""
    scores: list[float] = []
    for trial in trials:
        grade = trial.grades.get(use.name)
        if not isinstance(grade, Score):
            return f"was not evaluated: {grade.message if grade else 'no grade'}"
        scores += [score for score in grade.turns if score is not None] or [grade.value]
    mean = fmean(scores)
    is_met = mean <= use.threshold if use.lower_is_better else mean >= use.threshold
    return "" if is_met else f"Failed. Expected {use.threshold}, but got {mean}."
