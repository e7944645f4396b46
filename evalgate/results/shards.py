"""Shards: which cases each machine runs, whether results belong together, and all of them as one
run."""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from evalgate import errors
from evalgate.config import context
from evalgate.config.settings import Settings, of_agents
from evalgate.errors import ConfigError, Place, Problem
from evalgate.formats import fingerprints
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    Case,
    CaseKey,
    CaseStatus,
    Comparison,
    Edits,
    GradedTrial,
    JudgeUse,
    Purpose,
    Run,
    Shard,
    Suite,
    run as model_run,
)
from evalgate.results import file as results_file
from evalgate.results.file import Stored, StoredOutcomes
from evalgate.text import plain, words

DURATIONS = "durations.json"
_DURATIONS = TypeAdapter(dict[str, dict[str, float]])

Value = TypeVar("Value")

# --- the plan ------------------------------------------------------------------------------------


def of(settings: Settings, suites: Sequence[Suite]) -> Shard | None:
    """The shard that `shard` names (`2/8`), None if this machine runs everything. Raises
    ConfigError."""
    if not settings.shard:
        return None
    index, count = (int(number) for number in settings.shard.split("/"))
    if index > count:
        raise ConfigError(f"invalid shard {settings.shard}: the first number must be 1 to {count}")
    durations_file = settings.durations
    if not durations_file and settings.baseline.startswith("file:"):
        durations_file = settings.baseline.removeprefix("file:")
    return plan(
        suites,
        index=index,
        of=count,
        durations=read_durations(settings.root / durations_file, shown_as=durations_file)
        if durations_file
        else {},
        settings=[str(settings.runs), settings.skip_judged, of_agents(settings)],
    )


def plan(
    suites: Sequence[Suite],
    *,
    index: int,
    of: int,
    durations: Mapping[CaseKey, float],
    settings: Iterable[object] = (),
) -> Shard:
    """Shard `index` of `of` of these suites. `settings`: whatever else has to be equal for all."""
    prints = fingerprints.CaseFingerprints().of_cases(suites)
    homes = divide(prints, of=of, durations=durations)
    suite_rows = [
        [
            [suite.key, suite.agent.driver, dict(suite.agent.options)],
            [
                [
                    use.name,
                    use.threshold,
                    dict(use.options),
                    use.informational,
                    use.lower_is_better,
                    use.code,
                    use.endpoint,
                ]
                for use in suite.criteria
            ],
            [
                [case.case_id, prints[suite.key, case.case_id], homes[suite.key, case.case_id]]
                for case in suite.eval_set.cases
            ],
        ]
        for suite in suites
    ]
    return Shard(
        index=index,
        of=of,
        plan=tuple(suites),
        homes=homes,
        fingerprints=prints,
        fingerprint=fingerprints.digest([*suite_rows, [*settings]]),
    )


def divide(
    cases: Iterable[CaseKey], *, of: int, durations: Mapping[CaseKey, float]
) -> dict[CaseKey, int]:
    """Which of `of` shards, from 1, each case belongs to; every case to exactly one, in any order
    of `cases`.

    The longest case goes first, always to the shard with the least to do (then with the fewest
    cases, then the first); cases of equal length are taken in the order of a hash of their names.
    `durations`: seconds; a case without a usable one counts as the median of the others, so that
    without any all cases count alike and no two shards differ by more than one case."""
    keys = set(cases)
    usable_durations = {
        key: seconds
        for key in keys
        if (seconds := durations.get(key)) is not None and math.isfinite(seconds) and seconds > 0
    }
    usual = statistics.median(usable_durations.values()) if usable_durations else 1.0
    lengths = {key: usable_durations.get(key, usual) for key in keys}
    shards = [(0.0, 0, index) for index in range(1, of + 1)]
    homes: dict[CaseKey, int] = {}
    for key in sorted(
        lengths,
        key=lambda key: (
            -lengths[key],
            hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).digest(),
        ),
    ):
        busy, count, index = heapq.heappop(shards)
        homes[key] = index
        heapq.heappush(shards, (busy + lengths[key], count + 1, index))
    return homes


def suites_of_shard(suites: Iterable[Suite], shard: Shard) -> tuple[Suite, ...]:
    """The suites with the cases of this shard alone; those that have none of it are left out.

    A case that the plan does not have (only on the base) belongs to the first shard.
    """
    shard_suites = []
    for suite in suites:
        cases = tuple(
            case
            for case in suite.eval_set.cases
            if shard.homes.get((suite.key, case.case_id), 1) == shard.index
        )
        if cases:
            shard_suites.append(suite.with_cases(cases))
    return tuple(shard_suites)


def note(shard: Shard) -> Problem:
    """What a reader of a shard's reports must know."""
    message = f"this is shard {shard}; it reports no verdict"
    hint = "Merge the shards with `evalgate merge` (in a workflow: `mode: merge`)."
    return errors.note("part-of-a-plan", message, hint=hint)


# --- how long cases take --------------------------------------------------------------------------


def durations_of(run: Run) -> dict[CaseKey, float]:
    """How long the agent took for one run of each case, in the mean; failed runs do not count."""
    seconds_by_case: dict[CaseKey, list[float]] = {}
    for trial in run.trials:
        if trial.failure is None:
            seconds_by_case.setdefault(trial.key.case, []).append(trial.seconds)
    return {key: statistics.fmean(seconds) for key, seconds in seconds_by_case.items()}


def render_durations(run: Run) -> str:
    """durations.json: seconds of one run of each case, by suite and case."""
    durations: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for (suite, case_id), seconds in sorted(durations_of(run).items()):
        durations[suite][case_id] = round(seconds, 3)
    return json.dumps(durations, ensure_ascii=False, indent=1) + "\n"


def read_durations(path: Path, *, shown_as: str) -> Mapping[CaseKey, float]:
    """Durations of durations.json or results.json. Raises ConfigError if it is unreadable."""
    place = Place(file=shown_as)
    hint = "Check `durations`."
    try:
        raw = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror or error}", place=place, hint=hint
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is not JSON: {error}", place=place, hint=hint) from error
    if isinstance(raw, dict) and "schema_version" in raw:
        return durations_of(results_file.read_results(path, shown_as=shown_as).run)
    try:
        read = _DURATIONS.validate_python(raw)
    except ValidationError as error:
        hint = "Use a results.json, or a durations.json written by `evalgate merge`."
        raise ConfigError("has no seconds by suite and case", place=place, hint=hint) from error
    return {
        (suite, case_id): seconds
        for suite, cases in read.items()
        for case_id, seconds in cases.items()
    }


# --- shards that were run ------------------------------------------------------------------------


def parts_of(stored_results: Iterable[Stored]) -> tuple[Stored, ...]:
    """The shards among results, in their order in the plan.

    Raises ConfigError if one is not a shard, if two are the same shard, or if they are from
    different plans."""
    parts: dict[int, Stored] = {}
    for stored in stored_results:
        if stored.run.shard is None:
            raise ConfigError(
                "is a complete run, not a shard",
                place=Place(file=stored.file),
                hint="Merge takes runs with `shard: 1/N` to `N/N`; to compare two complete runs use `evalgate "
                "compare`.",
            )
        shard = shard_of(stored)
        _insist_complete(stored, shard)
        if shard.index in parts:
            first_file = parts[shard.index].file
            raise ConfigError(
                f"is shard {shard}, and so is {first_file}", place=Place(file=stored.file)
            )
        parts[shard.index] = stored
    ordered = tuple(parts[index] for index in sorted(parts))
    for other_part in ordered[1:]:
        difference = _difference(ordered[0], other_part)
        if difference:
            first_label, other_label = (
                f"{shard_of(part)} ({part.file})" for part in (ordered[0], other_part)
            )
            raise ConfigError(
                f"shards {first_label} and {other_label} {difference}",
                hint="All shards must come from one commit, with the same files and inputs.",
            )
    return ordered


def insist_of_run(stored: Stored, *, run: str, commit: str) -> None:
    """Raises ConfigError for results that the workflow run `run` has not written in this attempt or
    before, or that say another commit than `commit` ("": any); the command line says none."""
    results_run = stored.run
    if not context.is_of_run(results_run.workflow_run, run):
        other = (
            f"it was written by {plain.label(results_run.workflow_run, 200)}"
            if results_run.workflow_run
            else "no run wrote it"
        )
        reason = f"is not of this workflow run: {other}"
    elif commit and results_run.commit not in ("", commit):
        reason = f"is of {plain.one_line(results_run.commit[:12])}, this workflow run is of {commit[:12]}"
    else:
        return
    hint = "Use only what jobs of this workflow run have uploaded; delete results from the commit and from caches."
    raise ConfigError(reason, place=Place(file=stored.file), hint=hint)


def shard_of(part: Stored) -> Shard:
    """Which shard the results are of."""
    assert part.run.shard is not None
    return part.run.shard


def _insist_complete(part: Stored, shard: Shard) -> None:
    """Raises ConfigError if a shard lacks cases of its own, or has others."""
    has = _cases(part.run.suites).keys()
    shard_cases = {key for key, home in shard.homes.items() if home == shard.index}
    if not 1 <= shard.index <= shard.of or any(
        not 1 <= home <= shard.of for home in shard.homes.values()
    ):
        raise ConfigError(f"has an invalid shard {shard}", place=Place(file=part.file))
    strangers = sorted((has - shard_cases) & set(shard.homes)) or sorted(shard_cases - has)
    if strangers:
        message = f"is shard {shard}, which must not contain {'/'.join(strangers[0])}"
        raise ConfigError(message, place=Place(file=part.file))


def _difference(a: Stored, b: Stored) -> str:
    """Why two shards are not from one plan; "" if they are."""
    first = shard_of(a)
    other = shard_of(b)
    for difference, left_value, right in (
        ("from different versions of evalgate", a.version, b.version),
        ("from different commits", a.run.commit[:12], b.run.commit[:12]),
        ("of runs with different numbers of shards", first.of, other.of),
        ("of runs with a different `seed`", a.run.seed, b.run.seed),
        ("of runs with different `runs`", a.run.repeats, b.run.repeats),
        (
            "of runs with and without `adk-compat`",
            a.deviations.are_taken_back,
            b.deviations.are_taken_back,
        ),
    ):
        if left_value != right:
            return f"are {difference} ({left_value} and {right})"
    if None not in (a.run.root, b.run.root) and a.run.root != b.run.root:
        roots = " and ".join(run.root or "the repository root" for run in (a.run, b.run))
        return f"are from different folders of the repository ({roots})"
    return "" if first.fingerprint == other.fingerprint else _plan_difference(first, other)


def _plan_difference(first: Shard, other: Shard) -> str:
    different = sorted(dict(first.fingerprints.items() ^ other.fingerprints.items()))
    if different:
        return f"do not have the same cases: {'/'.join(different[0])}"
    if first.homes != other.homes:
        return "divide the cases differently: their `durations` files differ"
    for suite, twin in zip(first.plan, other.plan, strict=True):
        if suite.criteria != twin.criteria:
            return f"have different criteria or thresholds for {suite.key}"
        if suite.agent != twin.agent:
            return f"ran different agents for {suite.key}"
    return "were run with different settings"


def _cases(suites: Iterable[Suite]) -> dict[CaseKey, Case]:
    return {(suite.key, case.case_id): case for suite in suites for case in suite.eval_set.cases}


# --- all shards as one run -----------------------------------------------------------------------


def join(parts: Sequence[Stored]) -> Stored:
    """One side's shards (at least one, as `parts_of` gives them) as one, in the order of the plan.

    The result depends neither on their order nor on the machines; a case of a missing shard has no
    trials. Times: the earliest start, the longest shard. Raises ConfigError if they were compared
    with different commits."""
    first = parts[0]
    outcomes = StoredOutcomes.joined([part.outcomes for part in parts])
    comparisons = [part.comparison for part in parts if part.comparison is not None]
    return Stored(
        run=_joined([part.run for part in parts], shard_of(first), outcomes),
        outcomes=outcomes,
        version=first.version,
        criteria=_merged(part.criteria for part in parts),
        deviations=first.deviations,
        comparison=join_comparisons(comparisons, planned=_cases(shard_of(first).plan)),
        edits=Edits(
            edits=tuple(dict.fromkeys(edit for part in parts for edit in part.edits.edits))
        ),
        problems=tuple(_problems(parts)),
    )


def _in_order(runs: Iterable[Run], shard: Shard) -> tuple[GradedTrial, ...]:
    """The first runs of all parts, in the order of the plan."""
    order = {key: number for number, key in enumerate(shard.homes)}

    def place(trial: GradedTrial) -> tuple[int, Purpose, int]:
        return order.get(trial.key.case, len(order)), trial.key.purpose, trial.key.number

    return tuple(sorted((trial for run in runs for trial in run.trials), key=place))


def _joined(runs: Sequence[Run], shard: Shard, outcomes: StoredOutcomes) -> Run:
    """The runs of all parts as one. `shard`: one of the plan."""
    first = runs[0]
    has = {key: case for run in runs for key, case in _cases(run.suites).items()}
    suites = tuple(
        suite.with_cases(
            tuple(has.get((suite.key, case.case_id), case) for case in suite.eval_set.cases)
        )
        for suite in shard.plan
    )
    states = {run.dirty for run in runs}
    return Run(
        suites=suites,
        trials=_in_order(runs, shard),
        confirmations=tuple(
            sorted(
                (trial for run in runs for trial in run.confirmations), key=lambda trial: trial.key
            )
        ),
        transcripts=outcomes,
        repeats=first.repeats,
        truncated=next((run.truncated for run in runs if run.truncated), ""),
        seed=first.seed,
        started_at=min(run.started_at for run in runs),
        seconds=max(run.seconds for run in runs),
        complete=all(run.complete for run in runs),
        commit=first.commit,
        dirty=next(state for state in (True, None, False) if state in states),
        root=next((run.root for run in runs if run.root is not None), None),
        agents=_merged(run.agents for run in runs),
        descriptions=_merged(run.descriptions for run in runs),
        inputs=_agreed(run.inputs for run in runs),
        fingerprints=dict(shard.fingerprints) | _merged(run.fingerprints for run in runs),
        judges=_judges(runs),
        models=frozenset(name for run in runs for name in run.models),
        shards=shard.of,
        homes=dict(shard.homes) if shard.of > 1 else {},
    )


def join_comparisons(
    comparisons: Sequence[Comparison], *, planned: Container[CaseKey]
) -> Comparison | None:
    """The shards' comparisons as one, always without `base`; None if no shard was compared.

    Raises ConfigError if they were compared with different commits."""
    if not comparisons:
        return None
    commits = sorted(
        {comparison.origin.commit for comparison in comparisons if comparison.origin.commit}
    )
    if len(commits) > 1:
        raise ConfigError(
            f"the shards were compared with different commits: {words.listed(commit[:12] for commit in commits)}",
            hint="Rerun all shards, or set `base`.",
        )
    standings = {
        case.key: case
        for comparison in comparisons
        for case in comparison.cases
        if case.status is not CaseStatus.REMOVED or case.key not in planned
    }
    problems = [comparison.problem for comparison in comparisons if comparison.problem]
    return Comparison(
        origin=_origin([comparison.origin for comparison in comparisons]),
        problem=problems[0] if len(problems) == len(comparisons) else "",
        no_agent=all(comparison.no_agent for comparison in comparisons),
        base_failed=all(comparison.base_failed for comparison in comparisons),
        cases=tuple(standings[key] for key in sorted(standings)),
        unchanged=tuple(
            sorted(set.intersection(*(set(comparison.unchanged) for comparison in comparisons)))
        ),
        edited=tuple(sorted({key for comparison in comparisons for key in comparison.edited})),
        is_past=any(comparison.is_past for comparison in comparisons),
    )


def _merged(mappings: Iterable[Mapping[Any, Value]]) -> dict[Any, Value]:
    """Of several values of a key the first."""
    merged: dict[Any, Value] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            if key not in merged or not merged[key]:
                merged[key] = value
    return merged


def _agreed(mappings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """By key, the value if all that have the key agree."""
    values_by_key: dict[str, set[str]] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            values_by_key.setdefault(key, set()).add(value)
    return {key: values.pop() for key, values in values_by_key.items() if len(values) == 1}


def _judges(runs: Iterable[Run]) -> tuple[JudgeUse, ...]:
    """What judging took in all shards, by criterion and model."""
    together: dict[tuple[str, str], list[JudgeUse]] = {}
    for use in (use for run in runs for use in run.judges):
        together.setdefault((use.criterion, use.model), []).append(use)
    return tuple(
        model_run.total_of(uses, criterion=criterion, model=model)
        for (criterion, model), uses in sorted(together.items())
    )


def _origin(origins: Sequence[BaseOrigin]) -> BaseOrigin:
    sources = {origin.source for origin in origins}
    ages = [origin.age_days for origin in origins if origin.age_days is not None]
    distances = [origin.distance for origin in origins if origin.distance is not None]
    times = [origin.measured_at for origin in origins if origin.measured_at]
    return BaseOrigin(
        source=sources.pop() if len(sources) == 1 else BaseSource.MIXED,
        commit=next((origin.commit for origin in origins if origin.commit), ""),
        found_by=next((origin.found_by for origin in origins if origin.found_by), ""),
        measured_at=min(times, default=""),
        age_days=max(ages, default=None),
        distance=max(distances, default=None),
        reused=sum(origin.reused for origin in origins),
        run=sum(origin.run for origin in origins),
        notes=tuple(dict.fromkeys(note for origin in origins for note in origin.notes)),
    )


def _problems(parts: Sequence[Stored]) -> Iterator[Problem]:
    """The shards' problems with the evaluation files, each of them about all shards; missing
    shards; and differences that should not exist."""
    for part in parts:
        yield from (problem for problem in part.problems if problem != note(shard_of(part)))
    shard = shard_of(parts[0])
    there = {shard_of(part).index for part in parts}
    for index in range(1, shard.of + 1):
        if index not in there:
            lost = words.counted(sum(home == index for home in shard.homes.values()), "case")
            yield errors.warning(
                "shard-missing", f"shard {index}/{shard.of} has no results: {lost} not measured"
            )
    every = [part.run.agents for part in parts]
    if any(
        len({repr(agents[key]) for agents in every if agents.get(key)}) > 1
        for key in _merged(every)
    ):
        message = "the shards ran in different environments: the agents' versions differ"
        yield errors.warning("shards-differ", message)
