"""A whole run: find the base, open the agents, measure, decide, write."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evalgate import __version__
from evalgate.agents import opening
from evalgate.agents.base import Agent
from evalgate.agents.opening import Surroundings
from evalgate.agents.tools import toolbox
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, Severity
from evalgate.gate.pairing import CaseKey
from evalgate.model import Run, Shard
from evalgate.pipeline import fingerprints
from evalgate.results import shards as results_shards
from evalgate.results.journal import Journal
from evalgate.text import words
from evalgate.wiring import (
    agent_code,
    bars,
    bases,
    concluding,
    counterparts,
    folders,
    judging,
    measuring,
    preparing,
    remembering,
    shards,
)
from evalgate.wiring.bars import Bar
from evalgate.wiring.bases import Base
from evalgate.wiring.concluding import Ending, Gated, Sources
from evalgate.wiring.measuring import Bout, Measured
from evalgate.wiring.preparing import Prepared
from evalgate.wiring.scenes import Scene

JOURNAL, BASE_JOURNAL = "journal.jsonl", "base-journal.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Journals:
    """The journal of each side; the base has one where anything of it is measured."""

    head: Journal
    base: Journal | None = None


def run_gate(settings: Settings, prepared: Prepared, scene: Scene) -> Gated:
    """Measure the prepared suites, decide, and write every report.

    Raises UnavailableError where the journal cannot be written, ConfigError where the base's rules decide and cannot be
    kept to. Everything that was measured until then is in it.
    """
    now = datetime.now(UTC)
    cache = folders.cache_of(settings, scene.environ, say=scene.watcher.say)
    search = bases.Search(
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
        base = stack.enter_context(bases.opened(search))
        bar = bars.of(settings, prepared.suites, load.policy_of(settings, prepared.suites), base)
        _insist(bar, scene)
        # what is on the base branch already has its own stores
        keeping = remembering.opened(settings if scene.on_base_branch else bar.settings, scene, cache, stack)
        settings = bar.settings
        shard = shards.of(settings, bar.suites)
        if shard is not None:
            bar = dataclasses.replace(bar, suites=results_shards.own(bar.suites, shard))
        journal = stack.enter_context(_open_journal(output / JOURNAL, settings, scene.watcher.say))
        base_journal = None
        if base is not None and not base.problem:
            base_journal = stack.enter_context(_open_journal(output / BASE_JOURNAL, settings, scene.watcher.say))
        journals = Journals(head=journal, base=base_journal)
        # by the history as it was, before agents ran: regressions of these cases do not decide either
        past = dataclasses.replace(
            remembering.past_of(keeping, bar.policy, scene), renamed={} if base is None else base.renamed
        )
        unreliable = remembering.unreliable_of(keeping, past, lambda: _unmeasured(bar, journal), bar.policy, scene)
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
        gated = concluding.conclude(found, policy, ending, sources, unreliable=unreliable)
        scene.present(gated.report)
        return remembering.keep(gated, keeping, scene, settings, now=now)


def _insist(bar: Bar, scene: Scene) -> None:
    """Raises ConfigError where the base's rules decide and ask for what is not there: a judge's key, a calibration."""
    if not bar.by_base:
        return
    problems = preparing.unready(bar.settings, bar.suites, environ=scene.environ)
    settings, tools = bar.settings, bar.settings.gate_file.tools
    problems += tuple(toolbox.check(settings, tools, root=bar.settings.root, suites=bar.suites))
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        scene.watcher.say("`policy: base`: a key or file required by the base's rules is missing")
        raise ConfigError.collected(errors)


def _tools_of(settings: Settings) -> Callable[[Path], str]:
    """The fingerprint of what answers tool calls in a side's checkout."""
    return lambda own: toolbox.fingerprint(settings, settings.gate_file.tools, root=settings.root, own=own)


def _unmeasured(bar: Bar, journal: Journal) -> Run:
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
    bar: Bar,
    base: Base | None,
    scene: Scene,
    journals: Journals,
    *,
    now: datetime,
    cache: Path,
    shard: Shard | None,
    unreliable: frozenset[CaseKey],
) -> Measured:
    say = scene.watcher.say
    around = _surroundings(settings, scene, cache=cache)
    limiters = judging.limiters_of(settings)
    with ExitStack() as stack:
        pools = stack.enter_context(opening.open_agents(bar.suites, around))
        base_pools: Mapping[str, Agent] = {}
        if base is not None and journals.base is not None:
            with_base = counterparts.with_agents(bar.suites, base)
            there = dataclasses.replace(around, root=base.root or settings.root)
            base_pools = stack.enter_context(opening.open_agents(with_base, there))
        panel = stack.enter_context(
            judging.opened_panel(settings, bar.suites, environ=scene.environ, cache=cache, say=say, limiters=limiters)
        )
        found = measuring.measure(
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
                apart=agent_code.apart_of(settings),
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
    return dataclasses.replace(run, shard=dataclasses.replace(shard, plan=counterparts.with_agents(shard.plan, base)))


def _surroundings(settings: Settings, scene: Scene, *, cache: Path) -> Surroundings:
    """Where head's agents live; the base's live in its own checkout."""
    return Surroundings(
        root=settings.root,
        settings=settings,
        environ=scene.environ,
        cache=cache,
        say=scene.watcher.say,
        tools=settings.gate_file.tools,
        tools_root=settings.root,
    )


def _open_journal(path: Path, settings: Settings, say: Callable[[str], None]) -> Journal:
    if not settings.resume or not path.exists():
        return Journal.create(path, about={"evalgate": __version__})
    journal = Journal.reopen(path)
    if journal.damaged:
        lines = words.counted(journal.damaged, "line")
        say(f"{path}: {lines} cannot be read; those runs are repeated")
    return journal
