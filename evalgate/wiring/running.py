"""A whole run: open the agents, measure, decide, write."""

from __future__ import annotations

import dataclasses
import math
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from evalgate import __version__, agents, criteria, publish, reports
from evalgate.errors import ExitCode, Problem
from evalgate.gate import verdict as verdicts
from evalgate.gate.threshold import Scale
from evalgate.model import AgentUse, FailOn, Links, Policy, Report, Run, Suite, Verdict, VerdictKind
from evalgate.pipeline import results, trials
from evalgate.pipeline.journal import Journal
from evalgate.pipeline.measure import Bench, Measuring, Side
from evalgate.pipeline.pacing import ProviderPace
from evalgate.plugins import Agent, AgentFailed, AgentLimits, AgentSetting, Criterion, CriterionServices, Panel, Watcher
from evalgate.project import globs
from evalgate.settings import Settings
from evalgate.wiring import agent_code, calibrated, judging, preparing, simulating, surroundings, tooling, unopened
from evalgate.wiring.choosing import Choice
from evalgate.wiring.preparing import Prepared

JOURNAL = "journal.jsonl"
RESULTS = "results.json"
TRIALS_WORTH_A_WORKER = 32
"""Starting a worker costs seconds of imports; a conversation mostly waits for its model and needs no process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """A finished run: what came of it, what the process says, and where everything was written."""

    report: Report
    exit_code: ExitCode
    files: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a door knows and the settings do not."""

    environ: Mapping[str, str]
    watcher: Watcher
    links: Links = field(default_factory=Links)
    commit: str = ""
    reproduce: str = ""


def run_gate(choice: Choice, prepared: Prepared, scene: Scene) -> Gated:
    """Measure the prepared suites, decide, and write every report.

    Raises UnavailableError where the journal cannot be written. Everything that was measured until then is in it.
    """
    settings = choice.settings
    output = choice.root / settings.output
    tools = tooling.fingerprint(settings, choice.gate_file.tools, root=choice.root, own=choice.root)
    governed, stop = judging.governors_of(choice), threading.Event()
    with _open_journal(output / JOURNAL, settings) as journal:
        with (
            _opened_agents(choice, prepared.suites, scene) as opened,
            judging.opened_panel(
                choice,
                prepared.suites,
                environ=scene.environ,
                cache=cache_of(choice, scene),
                say=scene.watcher.say,
                governed=governed,
            ) as panel,
        ):
            head = Side(
                suites=prepared.suites,
                agents=opened,
                criteria={suite.key: _criteria_of(suite, opened, panel, settings) for suite in prepared.suites},
                code_of=lambda use: agent_code.fingerprint(choice.root, use, apart=output) + tools,
                journal=journal,
            )
            bench = Bench(
                watcher=scene.watcher,
                stop=stop,
                concurrency=_threads(prepared.suites, panel, settings),
                retries=settings.retries,
                adk_compat=settings.adk_compat,
                criterion_version=__version__,
                behaviours=settings.runs.most > 1,
                simulate=simulating.simulation_of(panel, settings),
                pace=ProviderPace(governed, trials_at_once=settings.concurrency, stop=stop),
            )
            measuring = Measuring([head], bench, seed=settings.seed, now=datetime.now(UTC))
            measuring.first(settings.runs.start)
            asked = panel.uses() if panel is not None else ()
            run = dataclasses.replace(measuring.run(0), commit=scene.commit, judges=asked)
        return _conclude(run, journal, choice, prepared.problems, scene)


def _threads(suites: tuple[Suite, ...], panel: Panel | None, settings: Settings) -> int:
    """How many trials at once. Where nothing waits for a process or a network, threads only take turns at one
    interpreter, which costs half as much again."""
    waits = panel is not None or any(suite.agent.driver != "replay" for suite in suites)
    return settings.concurrency if waits else 1


def policy_of(choice: Choice, suites: tuple[Suite, ...]) -> Policy:
    """The rules of the gate from the settings and the suites' own rules."""
    settings = choice.settings
    own_rates = {}
    for suite in suites:
        for rule in choice.gate_file.suites:
            if rule.pass_rate is not None and globs.matches(suite.key, rule.match):
                own_rates[suite.key] = rule.pass_rate
    return Policy(
        fail_on=frozenset(FailOn(word) for word in settings.fail_on),
        pass_rate=settings.pass_rate,
        min_measured=settings.min_measured,
        suite_pass_rate=own_rates,
        adk_compat=settings.adk_compat,
    )


def exit_code_of(run: Run, verdict: Verdict) -> ExitCode:
    """What the process says: 0 unless the policy blocks; 1 for a fail, 3 for the verdicts that are none; 130 for a
    run that was interrupted."""
    if not run.complete:
        return ExitCode.INTERRUPTED
    if not verdict.blocks:
        return ExitCode.PASS
    return ExitCode.FAIL if verdict.kind is VerdictKind.FAIL else ExitCode.NOT_MEASURED


def _conclude(run: Run, journal: Journal, choice: Choice, problems: tuple[Problem, ...], scene: Scene) -> Gated:
    policy = policy_of(choice, run.suites)
    scales = {spec.name: Scale(lowest=spec.lowest, highest=spec.highest) for spec in criteria.CRITERIA.values()}
    verdict = verdicts.decide(run, policy, scales=scales)
    exit_code = exit_code_of(run, verdict)
    report = Report(
        run=run,
        verdict=verdict,
        policy=policy,
        problems=problems,
        links=scene.links,
        reproduce=scene.reproduce,
        version=__version__,
    )
    report = calibrated.with_calibration(report, choice)
    output = choice.root / choice.settings.output
    published = publish.write_reports(report, folder=output, renderers=reports.RENDERERS.values())
    late = publish.write_file(output / RESULTS, results.render_results(report, kept=journal, exit_code=exit_code))
    files = dict(published.files) | ({} if late else {"results": output / RESULTS})
    unwritten = (*published.problems, *((late,) if late else ()))
    return Gated(report=dataclasses.replace(report, problems=(*problems, *unwritten)), exit_code=exit_code, files=files)


def _open_journal(path: Path, settings: Settings) -> Journal:
    if settings.resume and path.exists():
        return Journal.reopen(path)
    return Journal.create(path, about={"evalgate": __version__})


@contextmanager
def _opened_agents(choice: Choice, suites: tuple[Suite, ...], scene: Scene) -> Iterator[dict[str, Agent]]:
    opened: dict[str, Agent] = {}
    expected: Counter[str] = Counter()
    for suite in suites:
        expected[trials.agent_key(suite.agent)] += len(suite.eval_set.cases) * choice.settings.runs.start
    try:
        for key, use in {trials.agent_key(suite.agent): suite.agent for suite in suites}.items():
            opened[key] = _open(use, _agent_setting(choice, scene, trials_expected=expected[key]))
        yield opened
    finally:
        for agent in opened.values():
            agent.close()


def _open(use: AgentUse, setting: AgentSetting) -> Agent:
    try:
        return agents.DRIVERS[use.driver].open(preparing.options_of(use), setting)
    except AgentFailed as failed:
        return unopened.UnopenedAgent(failed.failure)


def _agent_setting(choice: Choice, scene: Scene, *, trials_expected: int) -> AgentSetting:
    settings = choice.settings
    environment = surroundings.allowed(scene.environ, settings.env)
    workers = min(settings.workers, max(1, math.ceil(trials_expected / TRIALS_WORTH_A_WORKER)))
    return AgentSetting(
        root=str(choice.root),
        environment=environment,
        install_environment=surroundings.for_installing(scene.environ, environment),
        cache=str(cache_of(choice, scene)),
        limits=AgentLimits(
            turn_timeout_s=settings.turn_timeout,
            case_timeout_s=settings.case_timeout,
            start_timeout_s=settings.start_timeout,
            output_bytes=settings.max_output * 10**6,
            memory_bytes=settings.memory * 10**6 or None,
            workers=workers,
            sessions=math.ceil(settings.concurrency / workers),
            isolate_cases=settings.isolation == "case",
        ),
        log=scene.watcher.say,
        seed=settings.seed,
        tools=tooling.source(
            settings, choice.gate_file.tools, root=choice.root, own=choice.root, environment=environment
        ),
    )


def cache_of(choice: Choice, scene: Scene) -> Path:
    """The absolute folder of what outlives a run: environments and verdicts."""
    named = choice.settings.cache
    return (Path(named).expanduser() if named else _user_cache(scene.environ)).absolute()


def _user_cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118 - HOME may be relative nonsense
    return Path(base) / "evalgate"


def _criteria_of(
    suite: Suite, opened: Mapping[str, Agent], panel: Panel | None, settings: Settings
) -> dict[str, Criterion]:
    agent = opened[trials.agent_key(suite.agent)]
    judge = None if settings.skip_judged else panel
    services = CriterionServices(adk_compat=settings.adk_compat, run_metric=agent.run_metric, judge=judge)
    return {use.name: criteria.build(use, services) for use in suite.criteria}
