"""Parts of a run, its shards: the cases that each machine runs, checks that results belong
together, and their merge into one run."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evalgate import errors
from evalgate.config import context
from evalgate.config.settings import Settings, of_agents
from evalgate.errors import ConfigError, Place, Problem
from evalgate.formats import fingerprints
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseKey,
    CaseStatus,
    Comparison,
    Edits,
    JudgeUse,
    PlanPart,
    Run,
    Suite,
    Suites,
    cases_of,
    run as model_run,
)
from evalgate.text import plain, words
from evalgate.values import digest_of, grouped, json_text
from . import file as results_file
from .file import Stored, StoredOutcomes, merge

DURATIONS = "durations.json"
"""The file that `merge` writes for the setting `durations` of later shards."""
_DURATIONS = TypeAdapter(dict[str, dict[str, float]])
"""Seconds by suite and case id."""

# --- the plan ------------------------------------------------------------------------------------


def find_part(settings: Settings, suites: Sequence[Suite]) -> PlanPart:
    """The shard in `shard` (`2/8`). Raises ConfigError."""
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
) -> PlanPart:
    """Shard `index` of `of` of these suites. `settings`: further values that must be equal for all
    shards."""
    prints = fingerprints.of_cases(suites)
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
                for case in suite.cases
            ],
        ]
        for suite in suites
    ]
    return PlanPart(
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
    """The shard of each case, from 1 to `of`; the order of `cases` does not matter.

    The longest case goes first, always to the shard with the least to do (then with the fewest
    cases, then the first); cases of equal length are taken in the order of a hash of their names.
    `durations`: seconds; a case without a usable duration counts as the median of the others.
    Without any durations all cases count the same, and shards differ by at most one case."""
    keys = set(cases)
    usable_durations = {
        key: seconds
        for key in keys
        if (seconds := durations.get(key, 0.0)) > 0 and math.isfinite(seconds)
    }
    median_s = statistics.median(usable_durations.values()) if usable_durations else 1.0
    lengths = {key: usable_durations.get(key, median_s) for key in keys}
    shards = [(0.0, 0, index) for index in range(1, of + 1)]
    homes: dict[CaseKey, int] = {}
    for key in sorted(lengths, key=lambda key: (-lengths[key], digest_of("\0".join(key)))):
        busy_s, count, index = shards[0]
        homes[key] = index
        heapq.heapreplace(shards, (busy_s + lengths[key], count + 1, index))
    return homes


def suites_of(suites: Iterable[Suite], shard: PlanPart) -> Suites:
    """The suites with only the cases of this shard; suites without any are left out.

    A case that is not in the plan (only on the base) belongs to the first shard."""
    shard_suites = []
    for suite in suites:
        cases = tuple(
            case
            for case in suite.cases
            if shard.homes.get((suite.key, case.case_id), 1) == shard.index
        )
        if cases:
            shard_suites.append(suite.with_cases(cases))
    return tuple(shard_suites)


def note(shard: PlanPart) -> Problem:
    """The notice for readers of a shard's reports."""
    message = f"this is shard {shard}; it reports no verdict"
    hint = "Merge the shards with `evalgate merge` (in a workflow: `mode: merge`)."
    return errors.note("part-of-a-plan", message, hint=hint)


# --- durations of cases ---------------------------------------------------------------------------


def durations_of(run: Run) -> dict[CaseKey, float]:
    """The mean time of the agent in one run of each case, in seconds; failed runs do not count."""
    seconds_by_case = grouped(
        (trial.key.case, trial.seconds) for trial in run.trials if trial.failure is None
    )
    return {key: statistics.fmean(seconds) for key, seconds in seconds_by_case.items()}


def render_durations(run: Run) -> str:
    """durations.json: seconds of one run of each case, by suite and case."""
    durations = grouped(
        (suite, (case_id, round(seconds, 3)))
        for (suite, case_id), seconds in sorted(durations_of(run).items())
    )
    document = {suite: dict(rows) for suite, rows in durations.items()}
    return json_text(document, indent=1)


def read_durations(path: Path, *, shown_as: str) -> Mapping[CaseKey, float]:
    """Durations of durations.json or results.json. Raises ConfigError if it is unreadable."""
    place = Place(shown_as)
    document = results_file.read_json(path, place, hint="Check `durations`.")
    if isinstance(document, dict) and "schema_version" in document:
        return durations_of(results_file.parse(document, place).run)
    try:
        seconds_by_suite = _DURATIONS.validate_python(document)
    except ValidationError as error:
        hint = "Use a results.json, or a durations.json written by `evalgate merge`."
        raise ConfigError("has no seconds by suite and case", place=place, hint=hint) from error
    return {
        (suite, case_id): seconds
        for suite, cases in seconds_by_suite.items()
        for case_id, seconds in cases.items()
    }


# --- results of shards ---------------------------------------------------------------------------


def parts_of(stored_results: Iterable[Stored]) -> tuple[Stored, ...]:
    """The shards among results, in their order in the plan.

    Raises ConfigError if one is not a shard, if two are the same shard, or if they are from
    different plans."""
    parts: dict[int, Stored] = {}
    for stored in stored_results:
        if not stored.run.is_part:
            raise ConfigError(
                "is a complete run, not a shard",
                place=Place(stored.file),
                hint="Merge takes runs with `shard: 1/N` to `N/N`; to compare two complete runs use `evalgate "
                "compare`.",
            )
        shard = part_of(stored)
        _require_complete(stored, shard)
        if shard.index in parts:
            first_file = parts[shard.index].file
            raise ConfigError(f"is shard {shard}, and so is {first_file}", place=Place(stored.file))
        parts[shard.index] = stored
    ordered_parts = tuple(parts[index] for index in sorted(parts))
    for other_part in ordered_parts[1:]:
        difference = _difference(ordered_parts[0], other_part)
        if difference:
            first_label, other_label = (
                f"{part_of(part)} ({part.file})" for part in (ordered_parts[0], other_part)
            )
            raise ConfigError(
                f"shards {first_label} and {other_label} {difference}",
                hint="All shards must come from one commit, with the same files and inputs.",
            )
    return ordered_parts


def of_run(stored: Stored, *, run: str, commit: str) -> Stored:
    """The results. Raises ConfigError if workflow run `run` did not write them in this or an
    earlier attempt, or if they are of another commit than `commit` ("": any); at the command line,
    `run` is "", and any are taken."""
    results_run = stored.run
    if run and not context.is_of_run(results_run.workflow_run, run):
        origin = (
            f"it was written by {plain.label(results_run.workflow_run, 200)}"
            if results_run.workflow_run
            else "no run wrote it"
        )
        reason = f"is not of this workflow run: {origin}"
    elif run and commit and results_run.commit not in ("", commit):
        reason = f"is of {plain.one_line(results_run.commit[:12])}, this workflow run is of {commit[:12]}"
    else:
        return stored
    hint = "Use only what jobs of this workflow run have uploaded; delete results from the commit and from caches."
    raise ConfigError(reason, place=Place(stored.file), hint=hint)


def part_of(part: Stored) -> PlanPart:
    """The shard of the results."""
    assert part.run.part is not None
    return part.run.part


def _require_complete(part: Stored, shard: PlanPart) -> None:
    """Raises ConfigError if a shard lacks one of its cases, or has others."""
    result_cases = cases_of(part.run.suites).keys()
    shard_cases = {key for key, home in shard.homes.items() if home == shard.index}
    if not 1 <= shard.index <= shard.of or any(
        not 1 <= home <= shard.of for home in shard.homes.values()
    ):
        raise ConfigError(f"has an invalid shard {shard}", place=Place(part.file))
    wrong_cases = sorted((result_cases - shard_cases) & set(shard.homes)) or sorted(
        shard_cases - result_cases
    )
    if wrong_cases:
        message = f"is shard {shard}, which must not contain {'/'.join(wrong_cases[0])}"
        raise ConfigError(message, place=Place(part.file))


def _difference(first_part: Stored, other_part: Stored) -> str:
    """The reason why two shards are not from one plan; "" if they are."""
    facts, other_facts = map(_facts, (first_part, other_part))
    for difference, fact in facts.items():
        other_fact = other_facts[difference]
        if fact != other_fact and None not in (fact, other_fact):
            return f"are {difference} ({fact} and {other_fact})"
    prints = {part_of(part).fingerprint for part in (first_part, other_part)}
    return "differ in cases, criteria, agents, `durations` or settings" if len(prints) > 1 else ""


def _facts(part: Stored) -> dict[str, object]:
    """What is the same for all shards of a plan, by the words for a difference; None if unknown."""
    run = part.run
    return {
        "from different versions of evalgate": part.version,
        "from different commits": run.commit[:12],
        "of runs with different numbers of shards": part_of(part).of,
        "of runs with a different `seed`": run.seed,
        "of runs with different `runs`": run.repeats,
        "of runs with and without `adk-compat`": part.deviations.is_adk_compat,
        "from different folders of the repository": run.root
        or (None if run.root is None else "the repository root"),
    }


# --- all shards as one run -----------------------------------------------------------------------


def join(parts: Sequence[Stored]) -> Stored:
    """The shards of one side (at least one, as `parts_of` returns them) as one run, in the order of
    the plan.

    The result depends neither on their order nor on the machines; a case of a missing shard has no
    trials. Times: the earliest start, the longest shard. Raises ConfigError if they were compared
    with different commits."""
    first_part = parts[0]
    outcomes = StoredOutcomes.joined([part.outcomes for part in parts])
    comparisons = [part.comparison for part in parts if part.comparison is not None]
    return Stored(
        run=_join_runs([part.run for part in parts], part_of(first_part), outcomes),
        outcomes=outcomes,
        version=first_part.version,
        criteria=merge(part.criteria for part in parts),
        deviations=first_part.deviations,
        comparison=join_comparisons(comparisons, planned=cases_of(part_of(first_part).plan)),
        edits=Edits(
            edits=tuple(dict.fromkeys(edit for part in parts for edit in part.edits.edits))
        ),
        problems=tuple(_problems(parts)),
    )


def _join_runs(runs: Sequence[Run], shard: PlanPart, outcomes: StoredOutcomes) -> Run:
    """The runs of all shards as one. `shard`: any of the plan."""
    first_run = runs[0]
    run_cases = cases_of(suite for run in runs for suite in run.suites)
    suites = tuple(
        suite.with_cases(
            tuple(run_cases.get((suite.key, case.case_id), case) for case in suite.cases)
        )
        for suite in shard.plan
    )
    states = {run.dirty for run in runs}
    # trials in the order of the plan
    ranks = {key: rank for rank, key in enumerate(shard.homes)}
    return Run(
        suites=suites,
        trials=tuple(
            sorted(
                (trial for run in runs for trial in run.trials),
                key=lambda trial: (ranks.get(trial.key.case, len(ranks)), trial.key),
            )
        ),
        confirmations=tuple(
            sorted(
                (trial for run in runs for trial in run.confirmations), key=lambda trial: trial.key
            )
        ),
        transcripts=outcomes.find,
        repeats=first_run.repeats,
        truncated=next((run.truncated for run in runs if run.truncated), ""),
        seed=first_run.seed,
        started_at=min(run.started_at for run in runs),
        seconds=max(run.seconds for run in runs),
        complete=all(run.complete for run in runs),
        commit=first_run.commit,
        dirty=next(state for state in (True, None, False) if state in states),
        root=next((run.root for run in runs if run.root is not None), None),
        agents=merge(run.agents for run in runs),
        descriptions=merge(run.descriptions for run in runs),
        inputs=_agreed_texts(run.inputs for run in runs),
        fingerprints=dict(shard.fingerprints) | merge(run.fingerprints for run in runs),
        judges=_judges(runs),
        models=frozenset(name for run in runs for name in run.models),
        part=PlanPart(of=shard.of, homes=shard.homes) if shard.of > 1 else None,
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
    case_comparisons = {
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
        cases=tuple(case_comparisons[key] for key in sorted(case_comparisons)),
        unchanged=tuple(
            sorted(set.intersection(*(set(comparison.unchanged) for comparison in comparisons)))
        ),
        edited=tuple(sorted({key for comparison in comparisons for key in comparison.edited})),
        is_past=any(comparison.is_past for comparison in comparisons),
    )


def _agreed_texts(mappings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The values on which all mappings with the key agree."""
    texts_by_key = grouped(pair for mapping in mappings for pair in mapping.items())
    return {key: texts[0] for key, texts in texts_by_key.items() if len({*texts}) == 1}


def _judges(runs: Iterable[Run]) -> tuple[JudgeUse, ...]:
    """The use of judges in all shards, by criterion and model."""
    uses_by_judge = grouped(((use.criterion, use.model), use) for run in runs for use in run.judges)
    return tuple(
        model_run.total_of(uses, criterion=criterion, model=model)
        for (criterion, model), uses in sorted(uses_by_judge.items())
    )


def _origin(origins: Sequence[BaseOrigin]) -> BaseOrigin:
    """The base of all shards, with the oldest of their results."""
    sources = {origin.source for origin in origins}
    return BaseOrigin(
        source=sources.pop() if len(sources) == 1 else BaseSource.MIXED,
        commit=next((origin.commit for origin in origins if origin.commit), ""),
        found_by=next((origin.found_by for origin in origins if origin.found_by), ""),
        measured_at=min(
            (origin.measured_at for origin in origins if origin.measured_at), default=""
        ),
        age_days=max(
            (origin.age_days for origin in origins if origin.age_days is not None), default=None
        ),
        distance=max(
            (origin.distance for origin in origins if origin.distance is not None), default=None
        ),
        reused=sum(origin.reused for origin in origins),
        run=sum(origin.run for origin in origins),
        notes=tuple(dict.fromkeys(note for origin in origins for note in origin.notes)),
    )


def _problems(parts: Sequence[Stored]) -> Iterator[Problem]:
    """The shards' problems with the evaluation files; missing shards; and unexpected
    differences."""
    for part in parts:
        yield from (problem for problem in part.problems if problem != note(part_of(part)))
    shard = part_of(parts[0])
    present_indexes = {part_of(part).index for part in parts}
    for index in range(1, shard.of + 1):
        if index not in present_indexes:
            lost_cases = words.counted([*shard.homes.values()].count(index), "case")
            yield errors.warning(
                "shard-missing",
                f"shard {index}/{shard.of} has no results: {lost_cases} not measured",
            )
    all_agents = [part.run.agents for part in parts]
    if any(
        len({repr(agents[key]) for agents in all_agents if agents.get(key)}) > 1
        for key in merge(all_agents)
    ):
        message = "the shards ran in different environments: the agents' versions differ"
        yield errors.warning("shards-differ", message)
