"""Joining the results of a plan's parts into one Run, as good as if one machine had measured it all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evalgate import words
from evalgate.errors import ConfigError, Problem, Severity
from evalgate.model import (
    AgentDetails,
    BaseOrigin,
    BaseSource,
    Case,
    Comparison,
    JudgeUse,
    Run,
    Standing,
    Suite,
    Transcript,
    TrialKey,
)
from evalgate.pipeline.parts import Part

Value = TypeVar("Value")
CaseKey = tuple[str, str]


class JoinedOutcomes:
    """The outcomes of all parts (`pipeline.results.Kept`, `model.Transcripts`)."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._of = {
            (suite.key, case.case_id): part.stored.outcomes
            for part in parts
            for suite in part.stored.run.suites
            for case in suite.eval_set.cases
        }
        self._all = list(dict.fromkeys(self._of.values()))

    def find(self, key: TrialKey) -> Transcript | None:
        """See `model.Transcripts`."""
        outcomes = self._of.get((key.suite, key.case_id))
        return None if outcomes is None else outcomes.find(key)

    def find_json(self, key: TrialKey) -> dict[str, Any] | None:
        """The outcome as it was written."""
        outcomes = self._of.get((key.suite, key.case_id))
        return None if outcomes is None else outcomes.find_json(key)

    def agents(self) -> Mapping[str, tuple[AgentDetails, ...]]:
        """What agents were told and given."""
        return {address: details for each in self._all for address, details in each.agents().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """One side of a whole plan. `missing`: parts without results, whose cases have no trials in `run`."""

    run: Run
    outcomes: JoinedOutcomes
    missing: tuple[int, ...]
    adk_compat: bool
    problems: tuple[Problem, ...] = ()


def join(parts: Sequence[Part]) -> Joined:
    """One side's parts (at least one, as `parts.parts_of` gives them) as one Run, in the order of the plan.

    Nothing in it tells in which order parts were given or which machine measured what; a case of a missing part has no
    trials. Times: the earliest start, the longest part.
    """
    first = parts[0]
    runs = [part.stored.run for part in parts]
    measured = {
        (suite.key, case.case_id): case for run in runs for suite in run.suites for case in suite.eval_set.cases
    }
    order = {key: number for number, key in enumerate(first.shard.homes)}
    run = Run(
        suites=tuple(_filled(suite, measured) for suite in first.shard.plan),
        trials=tuple(sorted((trial for run in runs for trial in run.trials), key=lambda trial: _at(trial.key, order))),
        confirmations=tuple(
            sorted((trial for run in runs for trial in run.confirmations), key=lambda trial: trial.key)
        ),
        transcripts=(outcomes := JoinedOutcomes(parts)),
        repeats=first.stored.run.repeats,
        more=max(run.more for run in runs),
        repeated=frozenset(key for run in runs for key in run.repeated),
        truncated=next((run.truncated for run in runs if run.truncated), ""),
        seed=first.stored.run.seed,
        started_at=min(run.started_at for run in runs),
        seconds=max(run.seconds for run in runs),
        complete=all(run.complete for run in runs),
        commit=first.stored.run.commit,
        root=next((run.root for run in runs if run.root is not None), None),
        agents=_merged(run.agents for run in runs),
        codes=_merged(run.codes for run in runs),
        fingerprints=dict(first.shard.fingerprints) | _merged(run.fingerprints for run in runs),
        judges=_judges(runs),
        models=frozenset(name for run in runs for name in run.models),
    )
    missing = tuple(sorted(set(range(1, first.shard.of + 1)) - {part.shard.index for part in parts}))
    return Joined(
        run=run,
        outcomes=outcomes,
        missing=missing,
        adk_compat=first.stored.adk_compat,
        problems=tuple(_problems(parts, missing)),
    )


def join_comparisons(told: Sequence[Comparison], *, planned: Iterable[CaseKey]) -> Comparison | None:
    """What the parts tell of the base, as one: None where no part was compared, without `base` in any case.

    Raises ConfigError where they were compared with different commits.
    """
    if not told:
        return None
    commits = sorted({each.origin.commit for each in told if each.origin.commit})
    if len(commits) > 1:
        raise ConfigError(
            f"the shards were compared with different commits: {words.listed(commit[:12] for commit in commits)}",
            hint="Rerun all shards, or set `base`.",
        )
    have = set(planned)
    standings = {
        (case.suite, case.case_id): case
        for each in told
        for case in each.cases
        if case.standing is not Standing.REMOVED or (case.suite, case.case_id) not in have
    }
    problems = [each.problem for each in told if each.problem]
    return Comparison(
        origin=_origin([each.origin for each in told]),
        problem=problems[0] if len(problems) == len(told) else "",
        no_agent=all(each.no_agent for each in told),
        cases=tuple(standings[key] for key in sorted(standings)),
        loosened=tuple(dict.fromkeys(each for comparison in told for each in comparison.loosened)),
    )


def _filled(suite: Suite, measured: Mapping[CaseKey, Case]) -> Suite:
    cases = tuple(measured.get((suite.key, case.case_id), case) for case in suite.eval_set.cases)
    return dataclasses.replace(suite, eval_set=dataclasses.replace(suite.eval_set, cases=cases))


def _at(key: TrialKey, order: Mapping[CaseKey, int]) -> tuple[int, int]:
    return order.get((key.suite, key.case_id), len(order)), key.repeat


def _merged(each: Iterable[Mapping[Any, Value]]) -> dict[Any, Value]:
    """Of several values of a key the first."""
    merged: dict[Any, Value] = {}
    for mapping in each:
        for key, value in mapping.items():
            if key not in merged or not merged[key]:
                merged[key] = value
    return merged


def _judges(runs: Iterable[Run]) -> tuple[JudgeUse, ...]:
    """What judging took in all parts, by criterion and model."""
    together: dict[tuple[str, str], JudgeUse] = {}
    for use in (use for run in runs for use in run.judges):
        name = (use.criterion, use.model)
        together[name] = use if name not in together else _added(together[name], use)
    return tuple(together[name] for name in sorted(together))


def _added(one: JudgeUse, more: JudgeUse) -> JudgeUse:
    costs = [cost for cost in (one.cost_usd, more.cost_usd) if cost is not None]
    kinds = one.failures.keys() | more.failures.keys()
    return JudgeUse(
        criterion=one.criterion,
        model=one.model,
        calls=one.calls + more.calls,
        cached=one.cached + more.cached,
        retries=one.retries + more.retries,
        prompt_tokens=one.prompt_tokens + more.prompt_tokens,
        output_tokens=one.output_tokens + more.output_tokens,
        cost_usd=sum(costs) if costs else None,
        unpriced=one.unpriced + more.unpriced,
        failures={kind: one.failures.get(kind, 0) + more.failures.get(kind, 0) for kind in sorted(kinds)},
    )


def _origin(origins: Sequence[BaseOrigin]) -> BaseOrigin:
    sources = {each.source for each in origins}
    ages = [each.age_days for each in origins if each.age_days is not None]
    distances = [each.distance for each in origins if each.distance is not None]
    times = [each.measured_at for each in origins if each.measured_at]
    return BaseOrigin(
        source=sources.pop() if len(sources) == 1 else BaseSource.MIXED,
        commit=next((each.commit for each in origins if each.commit), ""),
        found_by=next((each.found_by for each in origins if each.found_by), ""),
        measured_at=min(times, default=""),
        age_days=max(ages, default=None),
        distance=max(distances, default=None),
        reused=sum(each.reused for each in origins),
        run=sum(each.run for each in origins),
        notes=tuple(dict.fromkeys(note for each in origins for note in each.notes)),
    )


def _problems(parts: Sequence[Part], missing: Sequence[int]) -> Iterable[Problem]:
    homes, of = parts[0].shard.homes, parts[0].shard.of
    for index in missing:
        lost = sum(home == index for home in homes.values())
        yield _problem(
            "shard-missing", f"shard {index}/{of} has no results: {words.counted(lost, 'case')} not measured"
        )
    for name, of_run in _BY_AGENT:
        if _vary([of_run(part.stored.run) for part in parts]):
            yield _problem("shards-differ", f"the shards ran in different environments: {name} differ")


def _vary(mappings: Sequence[Mapping[str, Any]]) -> bool:
    keys = {key for mapping in mappings for key in mapping}
    return any(len({repr(mapping[key]) for mapping in mappings if mapping.get(key)}) > 1 for key in keys)


_BY_AGENT: Sequence[tuple[str, Callable[[Run], Mapping[str, Any]]]] = (
    ("the agents' own files", lambda run: run.codes),
    ("the agents' versions", lambda run: run.agents),
)


def _problem(code: str, message: str) -> Problem:
    return Problem(severity=Severity.WARNING, code=code, message=message)
