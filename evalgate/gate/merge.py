"""Many machines' results as one gate: shards joined, both sides compared again, one verdict, one set of reports."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from evalgate.baseline import base as baseline_base
from evalgate.baseline import rules
from evalgate.baseline.rules import Rules
from evalgate.comparison import compare, repeats
from evalgate.comparison.repeats import Stage
from evalgate.config import load
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, Place, Problem, Severity, UnavailableError
from evalgate.gate import run as gate_run
from evalgate.gate.measure import Measured
from evalgate.gate.run import BASE_RESULTS, RESULTS, Ending, Gated, Sources
from evalgate.github import events
from evalgate.model import BaseSource, CaseKey, Comparison, Policy, Run, Shard, Suite, ThresholdRule
from evalgate.results import file, shards
from evalgate.results import history as results_history
from evalgate.results.file import Stored


def merge_gate(settings: Settings, places: Sequence[Path], scene: Context) -> Gated:
    """Join what lies in `places` (files, or folders to search), decide by the settings' policy, write every report.

    Raises ConfigError where results do not belong together, UnavailableError where there are none at all.
    """
    heads, bases = _read(places, apart=settings.root / settings.output)
    head = shards.join(heads)
    _insist_at_home(head.run, settings, scene)
    with ExitStack() as stack:
        bar, renamed = _rules(settings, head.run.suites, heads, scene)
        past = stack.enter_context(results_history.opened(settings if scene.on_base_branch else bar.settings, scene))
        settings, policy = bar.settings, dataclasses.replace(bar.policy, adk_compat=head.adk_compat)
        unreliable = past.unreliable(head.run.suites, policy=policy, renamed=renamed, prints=head.run.fingerprints)
        found, sources = _compared(head, bases, shards.shard_of(heads[0]), policy=policy, unreliable=unreliable)
        remarks = dict.fromkeys((*settings.problems, *bar.problems, *past.problems, *head.problems))
        ending = Ending(
            settings=settings,
            problems=(*remarks, *_without_base(heads, bases)),
            links=scene.links,
            reproduce=scene.reproduce,
            past=past,
            by_base=bar.by_base,
        )
        gated = gate_run.conclude(found, policy, ending, sources, unreliable=unreliable)
        scene.present(gated.report)
        gate_run.write_file(settings.root / settings.output / shards.DURATIONS, [shards.render_durations(head.run)])
        return gate_run.keep(gated, past)


def _read(places: Sequence[Path], *, apart: Path) -> tuple[tuple[Stored, ...], tuple[Stored, ...]]:
    """The shards of both sides, head's and the base's."""
    files = _files(places, apart=apart)
    if not files:
        where = ", ".join(str(place) for place in places) or "nowhere"
        raise UnavailableError(
            f"no {RESULTS} of a shard in {where}",
            hint="All shards failed early, or their results were not downloaded: see their jobs.",
        )
    heads = shards.parts_of(file.read_results(path) for path in files)
    beside = (path.with_name(BASE_RESULTS) for path in files)
    bases = shards.parts_of(file.read_results(path) for path in beside if path.is_file())
    for part in bases:
        if shards.shard_of(part).fingerprint != shards.shard_of(heads[0]).fingerprint:
            raise ConfigError("shards come from different runs", where=Place(file=part.file))
    return heads, bases


def _insist_at_home(run: Run, settings: Settings, scene: Context) -> None:
    """Raises ConfigError where the shards are of another folder of the repository than the settings': its evalgate.yml
    and its links are not theirs."""
    here = events.root_of(settings.root, scene.links)
    if None in (run.root, here) or run.root == here:
        return
    theirs, ours = (f"`{root}`" if root else "the top of the repository" for root in (run.root, here))
    raise ConfigError(
        f"the shards are of {theirs}, this merge is of {ours}",
        hint=f"Use the shards' `root`: `{run.root or '.'}`, from the top of the repository.",
    )


def _files(places: Iterable[Path], *, apart: Path) -> list[Path]:
    """Every results.json, each once; those of an earlier merge (`apart`) are left aside unless they are named."""
    found: dict[Path, None] = {}
    for place in places:
        if place.is_dir():
            inside = sorted(place.rglob(RESULTS))
            found |= dict.fromkeys(path for path in inside if not path.absolute().is_relative_to(apart.absolute()))
        elif place.is_file():
            found[place] = None
        else:
            raise ConfigError(
                "does not exist",
                where=Place(file=str(place)),
                hint="Paths are relative to the working directory (in a workflow: the workspace), not to `root`.",
            )
    return list(found)


def _rules(
    settings: Settings, suites: tuple[Suite, ...], heads: Sequence[Stored], scene: Context
) -> tuple[Rules, Mapping[str, str]]:
    """By which rules the shards are decided: the settings', or the base's where it or the base's own evalgate.yml says
    `policy: base`. Which base it is, the shards say. And the base's name of each evaluation file that has another one.
    """
    policy = load.policy_of(settings, suites)
    origins = (part.comparison.origin for part in heads if part.comparison is not None)
    origin = next((each for each in origins if each.commit), None)
    if origin is None or origin.source is BaseSource.FILE:
        return Rules(settings=settings, suites=suites, policy=policy), {}
    # its code and its rules, whatever was run of it
    given = {**settings.given, "baseline": "rerun"}
    search = baseline_base.Search(
        settings=settings.model_copy(update={"baseline": "rerun", "base": origin.commit, "given": given}),
        suites=suites,
        environ=scene.environ,
        cache=scene.cache,
        say=scene.say,
        now=scene.now,
        token=scene.token,
    )
    with baseline_base.opened(search) as base:
        bar = rules.of(settings, suites, policy, base)
        if base is not None and base.problem and not base.origin.commit:  # git did not find it
            hint = "Check out the repository in the merge job, so that git can fetch the base."
            bar = dataclasses.replace(
                bar, problems=tuple(dataclasses.replace(each, hint=hint) for each in bar.problems)
            )
        return bar, {} if base is None else base.renamed


def _compared(
    head: Stored, bases: Sequence[Stored], shard: Shard, *, policy: Policy, unreliable: frozenset[CaseKey]
) -> tuple[Measured, Sources]:
    told = head.comparison
    if told is None or not bases:
        if told is not None:
            told = dataclasses.replace(told, problem=told.problem or "no shard has base results", cases=())
        return Measured(head=head.run, comparison=told), Sources(head=head.outcomes)
    base = shards.join(bases)
    comparison = compare.compare(
        head.run,
        base.run,
        policy=policy,
        origin=told.origin,
        unpaired={(case.suite, case.case_id): case.standing for case in told.cases},
        loosened=told.loosened,
        stage=Stage.LAST if shard.more else Stage.ONLY,
        unreliable=unreliable,
    )
    if policy.threshold is ThresholdRule.NEW and not comparison.problem:
        comparison = _settled(comparison, head.run, base.run, shard=shard, policy=policy, unreliable=unreliable)
    found = Measured(head=head.run, base=base.run, comparison=comparison)
    return found, Sources(head=head.outcomes, base=base.outcomes)


def _settled(
    comparison: Comparison, head: Run, base: Run, *, shard: Shard, policy: Policy, unreliable: frozenset[CaseKey]
) -> Comparison:
    """Every shard's new failures, by as many fresh runs as that shard had to make."""
    parts: defaultdict[int | None, list[CaseKey]] = defaultdict(list)
    for key in repeats.new_failures(comparison, policy=policy, unreliable=unreliable):
        parts[shard.homes.get(key)].append(key)
    for own in parts.values():
        asked = repeats.ask(own, head.suites, base, repeats=head.repeats, policy=policy, parts=shard.of)
        comparison = asked.settle(comparison, head=head, base=base)
    return comparison


def _without_base(heads: Sequence[Stored], bases: Sequence[Stored]) -> Iterator[Problem]:
    """A warning for every shard that lacks the base's side while others have it."""
    have = {shards.shard_of(part).index for part in bases}
    for part in heads if have else ():
        shard = shards.shard_of(part)
        if shard.index not in have and shard.index in shard.homes.values():
            why = (part.comparison and part.comparison.problem) or "it had no baseline"
            yield Problem(
                severity=Severity.WARNING,
                code="shard-without-base",
                message=f"shard {shard} has no base results: {why}",
            )
