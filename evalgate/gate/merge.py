"""Many machines' results as one gate: the parts joined, both sides compared again, one verdict, one set of reports."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from evalgate.baseline import base as baseline_base
from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.rules import Rules
from evalgate.comparison import compare, repeats
from evalgate.comparison.repeats import Stage
from evalgate.config import load
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, Place, Problem, Severity, UnavailableError
from evalgate.gate import run as gate_run
from evalgate.github import events
from evalgate.model import BaseSource, CaseKey, Comparison, Policy, Report, Run, Shard, ThresholdRule
from evalgate.results import file, output, shards
from evalgate.results import history as results_history
from evalgate.results.file import Stored
from evalgate.results.output import BASE_RESULTS, RESULTS
from evalgate.results.shards import Joined, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """All parts of both sides; `told`: what each says of the base, in the order of the parts, as far as it says any."""

    head: tuple[Part, ...]
    base: tuple[Part, ...]
    told: tuple[Comparison, ...]


def merge_gate(settings: Settings, places: Sequence[Path], context: Context) -> Report:
    """Join what lies in `places` (files, or folders to search), decide by the settings' policy, write every report.

    Raises ConfigError where results do not belong together, UnavailableError where there are none at all.
    """
    sides = _read(places, apart=settings.root / settings.output)
    head = shards.join(sides.head)
    _insist_at_home(head.run, settings, context)
    with ExitStack() as stack:
        rules, renamed = _rules(settings, sides, head, context)
        policy = dataclasses.replace(rules.policy, adk_compat=head.adk_compat)
        stores = settings if context.on_base_branch else rules.settings
        history = stack.enter_context(
            results_history.opened(stores, context, admission=policy.admission, renamed=renamed)
        )
        quarantined = history.quarantined(head.run.fingerprints, policy)
        rules = dataclasses.replace(rules, policy=policy, quarantined=quarantined)
        base, comparison = _compared(sides, head, rules)
        remarks = (*settings.problems, *rules.problems, *history.problems, *_of_parts(sides), *head.problems)
        report = gate_run.conclude(
            head.run,
            None if base is None else base.run,
            comparison,
            rules,
            context,
            problems=(*dict.fromkeys(remarks), *_without_base(sides)),
            trends=history.trends(head.run),
            outcomes=[head.outcomes, *([] if base is None else [base.outcomes])],
        )
        context.present(report)
        output.write_file(settings.root / settings.output / shards.DURATIONS, [shards.render_durations(head.run)])
        return history.keep(report)


def _read(places: Sequence[Path], *, apart: Path) -> Sides:
    head: list[tuple[str, Stored]] = []
    base: list[tuple[str, Stored]] = []
    for path in _files(places, apart=apart):
        head.append((str(path), file.read_results(path)))
        beside = path.with_name(BASE_RESULTS)
        if beside.is_file():
            base.append((str(beside), file.read_results(beside)))
    if not head:
        where = ", ".join(str(place) for place in places) or "nowhere"
        raise UnavailableError(
            f"no {RESULTS} of a shard in {where}",
            hint="All shards failed early, or their results were not downloaded: see their jobs.",
        )
    heads, bases_ = shards.parts_of(head), shards.parts_of(base)
    for part in bases_:
        if part.shard.fingerprint != heads[0].shard.fingerprint:
            raise ConfigError("shards come from different runs", where=Place(file=part.file))
    told = (part.stored.comparison for part in heads)
    return Sides(head=heads, base=bases_, told=tuple(each for each in told if each is not None))


def _insist_at_home(run: Run, settings: Settings, context: Context) -> None:
    """Raises ConfigError where the parts are of another folder of the repository than the settings': its evalgate.yml
    and its links are not theirs."""
    here = events.root_of(settings.root, context.links)
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


def _rules(settings: Settings, sides: Sides, head: Joined, context: Context) -> tuple[Rules, Mapping[str, str]]:
    """By which rules the parts are decided: the settings', or the base's where it or the base's own evalgate.yml says
    `policy: base`. Which base it is, the parts say. And the base's name of each evaluation file that has another there.
    """
    suites = head.run.suites
    policy = load.policy_of(settings, suites)
    origin = next((each.origin for each in sides.told if each.origin.commit), None)
    if origin is None or origin.source is BaseSource.FILE:
        return Rules(settings=settings, suites=suites, policy=policy), {}
    # its code and its rules, whatever was run of it
    given = {**settings.given, "baseline": "rerun"}
    search = baseline_base.Search(
        settings=settings.model_copy(update={"baseline": "rerun", "base": origin.commit, "given": given}),
        suites=suites,
        environ=context.environ,
        cache=context.cache,
        say=context.say,
        now=context.now,
        token=context.token,
    )
    with baseline_base.opened(search) as base:
        bar = baseline_rules.of(settings, suites, policy, base)
        if base is not None and base.problem and not base.origin.commit:
            bar = dataclasses.replace(bar, problems=tuple(_ruleless(bar.problems)))
        return bar, {} if base is None else base.renamed


def _ruleless(problems: Iterable[Problem]) -> Iterable[Problem]:
    """What is said of rules that are not known, where it is git that did not find the base."""
    hint = "Check out the repository in the merge job, so that git can fetch the base."
    return (dataclasses.replace(each, hint=hint) for each in problems)


def _compared(sides: Sides, head: Joined, rules: Rules) -> tuple[Joined | None, Comparison | None]:
    """The base's shards joined, and what comparing with them says."""
    planned = {(suite.key, case.case_id) for suite in head.run.suites for case in suite.eval_set.cases}
    told = shards.join_comparisons(sides.told, planned=planned)
    if told is None:
        return None, None
    if not sides.base:
        problem = told.problem or "no shard has base results"
        return None, dataclasses.replace(told, problem=problem, cases=())
    base = shards.join(sides.base)
    shard = sides.head[0].shard
    comparison = compare.compare(
        head.run,
        base.run,
        policy=rules.policy,
        origin=told.origin,
        unpaired={(case.suite, case.case_id): case.standing for case in told.cases},
        loosened=told.loosened,
        stage=Stage.LAST if shard.more else Stage.ONLY,
        unreliable=rules.quarantined,
    )
    if rules.policy.threshold is ThresholdRule.NEW and not comparison.problem:
        comparison = _settled(
            comparison, head.run, base.run, shard=shard, policy=rules.policy, unreliable=rules.quarantined
        )
    return base, comparison


def _settled(
    comparison: Comparison, head: Run, base: Run, *, shard: Shard, policy: Policy, unreliable: frozenset[CaseKey]
) -> Comparison:
    """Every part's new failures, by as many fresh runs as that part had to make."""
    parts: defaultdict[int | None, list[CaseKey]] = defaultdict(list)
    for key in repeats.new_failures(comparison, policy=policy, unreliable=unreliable):
        parts[shard.homes.get(key)].append(key)
    for own in parts.values():
        asked = repeats.ask(own, head.suites, base, repeats=head.repeats, policy=policy, parts=shard.of)
        comparison = asked.settle(comparison, head=head, base=base)
    return comparison


def _of_parts(sides: Sides) -> Iterable[Problem]:
    """What the parts remarked about the evaluation files; each of them read all of these."""
    for part in sides.head:
        yield from (each for each in part.stored.problems if each != shards.note(part.shard))


def _without_base(sides: Sides) -> Iterable[Problem]:
    """A warning for every part that lacks the base's side while others have it."""
    have = {part.shard.index for part in sides.base}
    if not have:
        return
    for part in sides.head:
        if part.shard.index not in have and part.shard.index in part.shard.homes.values():
            why = (part.stored.comparison and part.stored.comparison.problem) or "it had no baseline"
            yield Problem(
                severity=Severity.WARNING,
                code="shard-without-base",
                message=f"shard {part.shard} has no base results: {why}",
            )
