"""A whole run: find the base, open the agents, measure, decide, write."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

from evalgate import __version__, reports
from evalgate.agents import opening
from evalgate.agents.base import Agent
from evalgate.agents.pool import CommonStart
from evalgate.agents.tools import toolbox
from evalgate.baseline import base as baseline_base
from evalgate.baseline import rules
from evalgate.baseline.base import Base
from evalgate.baseline.rules import Rules
from evalgate.calibration import apply
from evalgate.comparison import compare
from evalgate.comparison import verdict as comparison_verdict
from evalgate.config import load
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.discovery import agents
from evalgate.discovery.project import Project
from evalgate.errors import ConfigError, ExitCode, Place, Problem, Severity
from evalgate.formats import fingerprints
from evalgate.gate import measure, prepare
from evalgate.gate.measure import Bout, Measured
from evalgate.github import events
from evalgate.model import CaseKey, Links, Policy, Report, Run, Shard, Verdict, VerdictKind
from evalgate.reports import Renderer
from evalgate.results import file as results_file
from evalgate.results import history, shards, stores
from evalgate.results.file import RawOutcomes
from evalgate.results.history import Keeping, Past
from evalgate.results.journal import Journal
from evalgate.text import words

# -- One Report to every place where people look --


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Where the reports went: by renderer name; and the places that could not be written."""

    files: Mapping[str, Path]
    problems: tuple[Problem, ...] = ()


def write_reports(report: Report, *, folder: Path, renderers: Iterable[Renderer]) -> Published:
    """Render and write each report into `folder`."""
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    for renderer in renderers:
        path = folder / renderer.file_name
        problem = write_file(path, [renderer.render(report)])
        if problem is None:
            files[renderer.name] = path
        else:
            problems.append(problem)
    return Published(files=files, problems=tuple(problems))


def write_file(path: Path, pieces: Iterable[str]) -> Problem | None:
    """Write a file whole or not at all: beside its place first, then moved there. Readable by all."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines(pieces)
        beside.chmod(0o644)
        beside.replace(path)
    except OSError as error:
        return _not_written(str(path), error)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
    return None


def append_summary(text: str, *, path: Path) -> Problem | None:
    """Append to the job's summary (GITHUB_STEP_SUMMARY)."""
    return _append(path, text if text.endswith("\n") else f"{text}\n")


def append_outputs(outputs: Mapping[str, str], *, path: Path) -> Problem | None:
    """Append step outputs (GITHUB_OUTPUT), each under a delimiter that its value cannot contain by guessing."""
    pieces = []
    for name, value in outputs.items():
        delimiter = f"evalgate_{secrets.token_hex(16)}"
        pieces.append(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
    return _append(path, "".join(pieces))


def hand_over(workspace: Path) -> None:
    """Give what a container's root wrote to the owner of the workspace: later steps must read it, the next checkout
    must be able to remove it. What the agents left behind (caches, bytecode) is given back too."""
    owner = workspace.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    for path in _everything(workspace):
        with contextlib.suppress(OSError):  # vanished meanwhile, or a file system without owners
            status = path.lstat()
            if status.st_uid == 0:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
                if not path.is_symlink():
                    path.chmod(status.st_mode | (0o755 if path.is_dir() else 0o644))


def _everything(folder: Path) -> Iterator[Path]:
    yield folder
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(where) / name


def _append(path: Path, text: str) -> Problem | None:
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
    except OSError as error:
        return _not_written(str(path), error)
    return None


def _not_written(file: str, error: OSError) -> Problem:
    return Problem(
        severity=Severity.WARNING,
        code="not-written",
        message=f"cannot be written: {error.strerror or error}",
        place=Place(file=file),
    )


# -- From what was measured to the verdict, the reports on disk and what the process says --

RESULTS, BASE_RESULTS = "results.json", "base.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """A finished run: what came of it, what the process says, and where everything was written."""

    report: Report
    exit_code: ExitCode
    files: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where each side's outcomes lie: a journal, or results that were read. The base has one where it was measured."""

    head: RawOutcomes
    base: RawOutcomes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a report needs beside the measured. `by_base`: the base's rules decide."""

    settings: Settings
    problems: tuple[Problem, ...]
    links: Links
    reproduce: str
    past: Past = field(default_factory=Past)
    by_base: bool = False


def conclude(
    found: Measured, policy: Policy, ending: Ending, sources: Sources | None, *, unreliable: frozenset[CaseKey]
) -> Gated:
    """Decide and write every report; what could not be written is among the report's problems. Without `sources`
    there are results already, and none are written."""
    head = dataclasses.replace(found.head, root=events.root_of(ending.settings.root, ending.links))
    verdict = comparison_verdict.decide(
        head, policy, scales=compare.scales(head.suites), comparison=found.comparison, unreliable=unreliable
    )
    exit_code = exit_code_of(head, verdict)
    report = Report(
        run=head,
        verdict=verdict,
        policy=policy,
        comparison=found.comparison and dataclasses.replace(found.comparison, by_base=ending.by_base),
        trends=history.trends(ending.past.history, history.means_of(head)),
        asked=apply.asked(head.suites, ending.settings),
        problems=ending.problems,
        links=ending.links,
        reproduce=ending.reproduce,
        version=__version__,
    )
    report = apply.with_calibration(report, ending.settings)
    output = ending.settings.root / ending.settings.output
    published = write_reports(report, folder=output, renderers=reports.RENDERERS.values())
    written = {}
    if sources is not None:
        written[RESULTS] = results_file.render_results(report, outcomes=sources.head, exit_code=exit_code)
    if found.base is not None and sources is not None and sources.base is not None:
        written[BASE_RESULTS] = _base_results(found.base, report, sources.base)
    files, unwritten = dict(published.files), list(published.problems)
    for name, pieces in written.items():
        late = write_file(output / name, pieces)
        if late is None:
            files[name.removesuffix(".json")] = output / name
        else:
            unwritten.append(late)
    problems = (*ending.problems, *unwritten)
    return Gated(report=dataclasses.replace(report, problems=problems), exit_code=exit_code, files=files)


def exit_code_of(run: Run, verdict: Verdict) -> ExitCode:
    """What the process says: 0 unless the policy blocks; 1 for a fail that blocks, 3 where what blocks is no
    verdict, also beside a fail that does not block; 130 for a run that was interrupted. A part of a plan, which decides
    nothing, says 3 where its agent never ran at all."""
    if not run.complete:
        return ExitCode.INTERRUPTED
    if run.shard is not None and run.trials and all(trial.failure is not None for trial in run.trials):
        return ExitCode.NOT_MEASURED
    if not verdict.blocks:
        return ExitCode.PASS
    return ExitCode.FAIL if verdict.blocked_by is VerdictKind.FAIL else ExitCode.NOT_MEASURED


def _base_results(base: Run, report: Report, outcomes: RawOutcomes) -> Iterator[str]:
    """The base's run in a file of its own, with the threshold gate's word on it."""
    verdict = comparison_verdict.decide(base, report.policy, scales=compare.scales(base.suites), comparison=None)
    here = dataclasses.replace(base, root=report.run.root)
    own = dataclasses.replace(report, run=here, verdict=verdict, comparison=None, judged=(), problems=())
    return results_file.render_results(own, outcomes=outcomes, exit_code=exit_code_of(base, verdict))


# -- Where what outlives a run lies --


def cache_of(settings: Settings, environ: Mapping[str, str], *, say: Callable[[str], None]) -> Path:
    """The absolute folder of the agents' environments and the judges' verdicts; the user's where the named one is part
    of the commit: a change could bring the verdicts on itself along."""
    own = platformdirs.user_cache_path("evalgate").absolute()
    named = Path(settings.cache).expanduser().absolute() if settings.cache else own
    if not stores.found_in(named, settings.root, environ):
        return named
    say(f"the cache {settings.cache or named} contains committed files and was ignored")
    return own if own != named else Path(tempfile.mkdtemp(prefix="evalgate-"))


# -- Stores of base runs around a run --


def opened(settings: Settings, scene: Context, cache: Path, stack: ExitStack) -> Keeping | None:
    """The stores that the settings name, to be kept in and for their history; opened before any agent runs."""
    named = bool(settings.data_branch or settings.baseline_folder)
    if not named or (settings.shard and not settings.admission):  # a part is not kept, and shows no trend
        return None
    found = history.opened(
        settings, settings.root, environ=scene.environ, token=scene.token, cache=cache, say=scene.watcher.say
    )
    return stack.enter_context(found)


def _is_saved(settings: Settings, scene: Context) -> bool:
    if settings.shard:  # a part is no base for anybody
        return False
    return settings.save_baseline == "always" or (settings.save_baseline == "auto" and scene.on_base_branch)


def past_of(keeping: Keeping | None, policy: Policy, scene: Context) -> Past:
    """What the stores remember of base runs."""
    if keeping is None:
        return Past()
    return history.past_of(keeping.stores, admission=policy.admission, say=scene.watcher.say)


def unreliable_of(
    keeping: Keeping | None, past: Past, run: Callable[[], Run], policy: Policy, scene: Context
) -> frozenset[CaseKey]:
    """The cases that the history does not let decide yet (`admission`)."""
    if keeping is None or not policy.admission:
        return frozenset()
    return history.unreliable(past, run(), policy=policy, say=scene.watcher.say)


def keep(gated: Gated, keeping: Keeping | None, scene: Context, settings: Settings, *, now: datetime) -> Gated:
    """Keep a complete run on the base branch, whatever its verdict: later runs are compared with what is there."""
    results, run = gated.files.get("results"), gated.report.run
    if keeping is None or results is None or not _is_saved(settings, scene) or not run.complete:
        return gated
    if run.truncated:  # it would take the place of a whole run
        scene.watcher.say(f"the results are not stored: {run.truncated}")
        return gated
    if not stores.has_conversation(run):  # an outage: nothing could be compared with it
        scene.watcher.say("the results are not stored: the agent failed in every run")
        return gated
    problems = keeping.save(gated.report.run, results, policy=gated.report.policy, now=now)
    report = dataclasses.replace(gated.report, problems=(*gated.report.problems, *problems))
    return dataclasses.replace(gated, report=report)


JOURNAL, BASE_JOURNAL = "journal.jsonl", "base-journal.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Journals:
    """The journal of each side; the base has one where anything of it is measured."""

    head: Journal
    base: Journal | None = None


def run_gate(settings: Settings, prepared: Project, scene: Context) -> Gated:
    """Measure the prepared suites, decide, and write every report.

    Raises UnavailableError where the journal cannot be written, ConfigError where the base's rules decide and cannot be
    kept to. Everything that was measured until then is in it.
    """
    now = datetime.now(UTC)
    cache = cache_of(settings, scene.environ, say=scene.watcher.say)
    search = baseline_base.Search(
        settings=settings,
        suites=prepared.suites,
        environ=scene.environ,
        cache=cache,
        say=scene.watcher.say,
        now=now,
        event_base=scene.event_base,
        token=scene.token,
        tools=_tools_of(settings),
    )
    output = settings.root / settings.output
    with ExitStack() as stack:
        base = stack.enter_context(baseline_base.opened(search))
        bar = rules.of(settings, prepared.suites, load.policy_of(settings, prepared.suites), base)
        _insist(bar, scene)
        # what is on the base branch already has its own stores
        keeping = opened(settings if scene.on_base_branch else bar.settings, scene, cache, stack)
        settings = bar.settings
        shard = shards.of(settings, bar.suites)
        if shard is not None:
            bar = dataclasses.replace(bar, suites=shards.own(bar.suites, shard))
        journal = stack.enter_context(_open_journal(output / JOURNAL, settings, scene.watcher.say))
        base_journal = None
        if base is not None and not base.problem:
            base_journal = stack.enter_context(_open_journal(output / BASE_JOURNAL, settings, scene.watcher.say))
        journals = Journals(head=journal, base=base_journal)
        # by the history as it was, before agents ran: regressions of these cases do not decide either
        past = dataclasses.replace(past_of(keeping, bar.policy, scene), renamed={} if base is None else base.renamed)
        unreliable = unreliable_of(keeping, past, lambda: _unmeasured(bar, journal), bar.policy, scene)
        found = _measured(
            settings, bar, base, scene, journals, now=now, cache=cache, shard=shard, unreliable=unreliable
        )
        problems = (*prepared.problems, *bar.problems, *past.problems, *found.problems)
        if shard is not None:
            problems = (shards.note(shard), *problems)
        policy = bar.policy if shard is None else dataclasses.replace(bar.policy, fail_on=frozenset())
        ending = Ending(
            settings=settings,
            problems=problems,
            links=scene.links,
            reproduce=scene.reproduce,
            past=past,
            by_base=bar.by_base,
        )
        sources = Sources(head=journals.head, base=journals.base)
        gated = conclude(found, policy, ending, sources, unreliable=unreliable)
        scene.present(gated.report)
        return keep(gated, keeping, scene, settings, now=now)


def _insist(bar: Rules, scene: Context) -> None:
    """Raises ConfigError where the base's rules decide and ask for what is not there: a judge's key, a calibration."""
    if not bar.by_base:
        return
    problems = prepare.unready(bar.settings, bar.suites, environ=scene.environ)
    settings, tools = bar.settings, bar.settings.gate_file.tools
    problems += tuple(toolbox.check(settings, tools, root=bar.settings.root, suites=bar.suites))
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        scene.watcher.say("`policy: base`: a key or file required by the base's rules is missing")
        raise ConfigError.collected(errors)


def _tools_of(settings: Settings) -> Callable[[Path], str]:
    """The fingerprint of what answers tool calls in a side's checkout."""
    return lambda own: toolbox.fingerprint(settings, settings.gate_file.tools, root=settings.root, own=own)


def _unmeasured(bar: Rules, journal: Journal) -> Run:
    """The run that is to be, with nothing in it yet."""
    prints = {
        (suite.key, case.case_id): fingerprints.of_case(
            case, task=fingerprints.of_task(case, simulator=suite.simulator)
        )
        for suite in bar.suites
        for case in suite.eval_set.cases
    }
    return Run(suites=bar.suites, trials=(), transcripts=journal, fingerprints=prints)


def _measured(
    settings: Settings,
    bar: Rules,
    base: Base | None,
    scene: Context,
    journals: Journals,
    *,
    now: datetime,
    cache: Path,
    shard: Shard | None,
    unreliable: frozenset[CaseKey],
) -> Measured:
    say = scene.watcher.say
    context, starting = dataclasses.replace(scene, cache=cache), CommonStart()
    limiters = judges.limiters_of(settings)
    with ExitStack() as stack:
        pools = stack.enter_context(
            opening.opened(bar.suites, settings, context, root=settings.root, starting=starting)
        )
        base_pools: Mapping[str, Agent] = {}
        if base is not None and journals.base is not None:
            with_base = baseline_base.with_agents(bar.suites, base)
            there = base.root or settings.root
            base_pools = stack.enter_context(
                opening.opened(with_base, settings, context, root=there, starting=starting)
            )
        panel = stack.enter_context(
            judges.opened_panel(settings, bar.suites, environ=scene.environ, cache=cache, say=say, limiters=limiters)
        )
        found = measure.measure(
            Bout(
                settings=settings,
                root=settings.root,
                suites=bar.suites,
                policy=bar.policy,
                agents=pools,
                panel=panel,
                journal=journals.head,
                watcher=scene.watcher,
                limiters=limiters,
                now=now,
                apart=agents.apart_of(settings),
                base=base,
                base_agents=base_pools,
                base_journal=journals.base,
                loosened=bar.loosened,
                unreliable=unreliable,
                shard=shard,
                tools=_tools_of(settings),
            )
        )
        uses = panel.uses() if panel is not None else ()
    head = dataclasses.replace(found.head, commit=scene.commit, judges=uses, shard=shard)
    return dataclasses.replace(found, head=head, base=_with_plan(found.base, base, shard))


def _with_plan(run: Run | None, base: Base | None, shard: Shard | None) -> Run | None:
    """The base's run with its own agents in the plan that it is a part of."""
    if run is None or base is None or shard is None:
        return run
    return dataclasses.replace(run, shard=dataclasses.replace(shard, plan=baseline_base.with_agents(shard.plan, base)))


def _open_journal(path: Path, settings: Settings, say: Callable[[str], None]) -> Journal:
    if not settings.resume or not path.exists():
        return Journal.create(path, about={"evalgate": __version__})
    journal = Journal.reopen(path)
    if journal.damaged:
        lines = words.counted(journal.damaged, "line")
        say(f"{path}: {lines} cannot be read; those runs are repeated")
    return journal
