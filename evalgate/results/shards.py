"""The parts of a plan: which cases each machine measures, whether parts belong together, and all of them as one run."""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, Place, Problem, Severity
from evalgate.formats import fingerprints
from evalgate.model import (
    AgentDetails,
    BaseOrigin,
    BaseSource,
    Case,
    Comparison,
    JudgeUse,
    Run,
    Shard,
    Standing,
    Suite,
    Transcript,
    TrialKey,
)
from evalgate.model import CaseKey as CaseKey_
from evalgate.results import file as results_file
from evalgate.results.file import Stored
from evalgate.text import words

CaseKey: TypeAlias = tuple[str, str]
"""Suite key and case id."""
Value = TypeVar("Value")


def divide(cases: Iterable[CaseKey], *, of: int, durations: Mapping[CaseKey, float]) -> dict[CaseKey, int]:
    """Which of `of` parts, from 1, each case belongs to; every case to exactly one, in any order of `cases`.

    The longest case goes first, always to the part with the least to do (then with the fewest cases, then the first);
    cases of equal length are taken in the order of a hash of their names. `durations`: seconds; a case without a usable
    one counts as the median of the others, so that without any all cases count alike and no two parts differ by more
    than one case.
    """
    wanted = set(cases)
    known = {key: durations[key] for key in wanted if _is_usable(durations.get(key))}
    usual = statistics.median(known.values()) if known else 1.0
    lengths = {key: known.get(key, usual) for key in wanted}
    parts = [(0.0, 0, index) for index in range(1, of + 1)]
    homes: dict[CaseKey, int] = {}
    for key in sorted(lengths, key=lambda key: (-lengths[key], _hash(key))):
        busy, count, index = heapq.heappop(parts)
        homes[key] = index
        heapq.heappush(parts, (busy + lengths[key], count + 1, index))
    return homes


def plan(
    suites: Sequence[Suite],
    *,
    index: int,
    of: int,
    durations: Mapping[CaseKey, float],
    more: int = 0,
    settings: Iterable[object] = (),
) -> Shard:
    """Part `index` of `of` of these suites. `more`: see Shard. `settings`: whatever else has to be equal for all."""
    homes = divide(
        [(suite.key, case.case_id) for suite in suites for case in suite.eval_set.cases], of=of, durations=durations
    )
    contents = fingerprints.of_cases(suites)
    return Shard(
        index=index,
        of=of,
        plan=tuple(suites),
        homes=homes,
        fingerprints=contents,
        more=more,
        fingerprint=fingerprint(suites, homes=homes, contents=contents, settings=[more, *settings]),
    )


def fingerprint(
    suites: Iterable[Suite],
    *,
    homes: Mapping[CaseKey, int],
    contents: Mapping[CaseKey, str],
    settings: Iterable[object] = (),
) -> str:
    """Equal where all cases, their content, their criteria and thresholds, their agents and their parts are equal."""
    return fingerprints.digest(
        [
            [
                [suite.key, suite.agent.driver, dict(suite.agent.options)],
                [
                    [use.name, use.threshold, dict(use.options), use.informational, use.lower_is_better, use.code]
                    for use in suite.criteria
                ],
                [
                    [case.case_id, contents[suite.key, case.case_id], homes[suite.key, case.case_id]]
                    for case in suite.eval_set.cases
                ],
            ]
            for suite in suites
        ]
        + [list(settings)]
    )


def own(suites: Iterable[Suite], shard: Shard) -> tuple[Suite, ...]:
    """The suites with the cases of this part alone; those that have none of it are left out.

    A case that the plan does not have (only on the base) belongs to the first part.
    """
    kept = []
    for suite in suites:
        cases = tuple(
            case for case in suite.eval_set.cases if shard.homes.get((suite.key, case.case_id), 1) == shard.index
        )
        if cases:
            kept.append(dataclasses.replace(suite, eval_set=dataclasses.replace(suite.eval_set, cases=cases)))
    return tuple(kept)


def durations_of(run: Run) -> dict[CaseKey, float]:
    """How long the agent took for one run of each case, in the mean; failed runs do not count."""
    taken: dict[CaseKey, list[float]] = {}
    for trial in run.trials:
        if trial.failure is None:
            taken.setdefault((trial.key.suite, trial.key.case_id), []).append(trial.seconds)
    return {key: statistics.fmean(seconds) for key, seconds in taken.items()}


def _is_usable(seconds: float | None) -> bool:
    return seconds is not None and math.isfinite(seconds) and seconds > 0


def _hash(key: CaseKey) -> bytes:
    suite, case_id = key
    return hashlib.sha256(f"{suite}\0{case_id}".encode("utf-8", "surrogatepass")).digest()


# --- parts that were measured --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One results.json of a part, and where it was found."""

    file: str
    stored: Stored
    shard: Shard


def parts_of(found: Iterable[tuple[str, Stored]]) -> tuple[Part, ...]:
    """The parts among results, in their order in the plan.

    Raises ConfigError where one is no part, where two are the same part, or where they are not of one plan.
    """
    parts: dict[int, Part] = {}
    for file, stored in found:
        shard = stored.run.shard
        if shard is None:
            raise ConfigError(
                "is a complete run, not a shard",
                where=Place(file=file),
                hint="Merge takes runs with `shard: 1/N` to `N/N`; to compare two complete runs use `evalgate "
                "compare`.",
            )
        _insist_whole(file, stored.run, shard)
        if shard.index in parts:
            first = parts[shard.index].file
            raise ConfigError(f"is shard {shard}, and so is {first}", where=Place(file=file))
        parts[shard.index] = Part(file=file, stored=stored, shard=shard)
    ordered = tuple(parts[index] for index in sorted(parts))
    for other in ordered[1:]:
        _insist_alike(ordered[0], other)
    return ordered


def _insist_whole(file: str, run: Run, shard: Shard) -> None:
    """A part has all its own cases and no others."""
    has = {(suite.key, case.case_id) for suite in run.suites for case in suite.eval_set.cases}
    own = {key for key, home in shard.homes.items() if home == shard.index}
    if not 1 <= shard.index <= shard.of or any(not 1 <= home <= shard.of for home in shard.homes.values()):
        raise ConfigError(f"has an invalid shard {shard}", where=Place(file=file))
    strangers = sorted((has - own) & set(shard.homes)) or sorted(own - has)
    if strangers:
        raise ConfigError(
            f"is shard {shard}, which must not contain {'/'.join(strangers[0])}",
            where=Place(file=file),
        )


def _insist_alike(first: Part, other: Part) -> None:
    """Raises ConfigError with what keeps two parts from being one plan."""
    a, b = first.stored, other.stored
    for what, left, right in (
        ("of different versions of evalgate", a.version, b.version),
        ("of different commits", a.run.commit[:12], b.run.commit[:12]),
        ("shards of different numbers of shards", first.shard.of, other.shard.of),
        ("run with different `seed`s", a.run.seed, b.run.seed),
        ("run with different `runs`", a.run.repeats, b.run.repeats),
        ("run with and without `adk-compat`", a.adk_compat, b.adk_compat),
    ):
        if left != right:
            raise _apart(first, other, f"are {what} ({left} and {right})")
    if None not in (a.run.root, b.run.root) and a.run.root != b.run.root:
        raise _apart(first, other, f"are of different folders of the repository ({_shown(a.run)} and {_shown(b.run)})")
    if first.shard.fingerprint != other.shard.fingerprint:
        raise _apart(first, other, _plan_difference(first.shard, other.shard))


def _shown(run: Run) -> str:
    return run.root or "all of it"


def _plan_difference(first: Shard, other: Shard) -> str:
    if first.fingerprints != other.fingerprints:
        different = sorted(
            key
            for key in first.fingerprints.keys() | other.fingerprints.keys()
            if first.fingerprints.get(key) != other.fingerprints.get(key)
        )
        return f"do not have the same cases: {'/'.join(different[0])}"
    if first.homes != other.homes:
        return "divide the cases differently: their `durations` files differ"
    for suite, twin in zip(first.plan, other.plan, strict=True):
        if suite.criteria != twin.criteria:
            return f"have different criteria or thresholds for {suite.key}"
        if suite.agent != twin.agent:
            return f"ran different agents for {suite.key}"
    return "were run with different settings"


def _apart(first: Part, other: Part, why: str) -> ConfigError:
    return ConfigError(
        f"shards {first.shard} ({first.file}) and {other.shard} ({other.file}) {why}",
        hint="All shards must come from one commit, with the same files and inputs.",
    )


# --- all parts as one run ------------------------------------------------------------------------


class JoinedOutcomes:
    """The outcomes of all parts (`file.RawOutcomes`, `model.Transcripts`)."""

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
    """One side's parts (at least one, as `parts_of` gives them) as one Run, in the order of the plan.

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
        yield _warning(
            "shard-missing", f"shard {index}/{of} has no results: {words.counted(lost, 'case')} not measured"
        )
    for name, of_run in _BY_AGENT:
        if _vary([of_run(part.stored.run) for part in parts]):
            yield _warning("shards-differ", f"the shards ran in different environments: {name} differ")


def _vary(mappings: Sequence[Mapping[str, Any]]) -> bool:
    keys = {key for mapping in mappings for key in mapping}
    return any(len({repr(mapping[key]) for mapping in mappings if mapping.get(key)}) > 1 for key in keys)


_BY_AGENT: Sequence[tuple[str, Callable[[Run], Mapping[str, Any]]]] = (
    ("the agents' own files", lambda run: run.codes),
    ("the agents' versions", lambda run: run.agents),
)


def _warning(code: str, message: str) -> Problem:
    return Problem(severity=Severity.WARNING, code=code, message=message)


# -- Which part of the cases this machine measures, and what earlier runs say of how long they take --

DURATIONS = "durations.json"
_SHAPE = TypeAdapter(dict[str, dict[str, float]])


def of(settings: Settings, suites: Sequence[Suite]) -> Shard | None:
    """The part that `shard` names, None where this machine measures everything. Raises ConfigError."""
    named = numbers(settings)
    if named is None:
        return None
    index, count = named
    return plan(
        suites,
        index=index,
        of=count,
        durations=_durations(settings),
        more=settings.runs.more,
        settings=[str(settings.runs), settings.seed, settings.skip_judged, settings.adk_compat],
    )


def numbers(settings: Settings) -> tuple[int, int] | None:
    """`2/8` as numbers. Raises ConfigError for a part that is not there."""
    if not settings.shard:
        return None
    index, count = (int(number) for number in settings.shard.split("/"))
    if index > count:
        raise ConfigError(f"invalid shard {settings.shard}")
    return index, count


def note(shard: Shard) -> Problem:
    """What a reader of a part's reports must know."""
    message = f"this is shard {shard}; it reports no verdict"
    hint = "Merge the shards with `evalgate merge` (in a workflow: `mode: merge`)."
    return Problem(severity=Severity.NOTE, code="part-of-a-plan", message=message, hint=hint)


def render_durations(run: Run) -> str:
    """durations.json: seconds of one run of each case, by suite and case."""
    found: dict[str, dict[str, float]] = {}
    for (suite, case_id), seconds in sorted(durations_of(run).items()):
        found.setdefault(suite, {})[case_id] = round(seconds, 3)
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def read_durations(path: Path, *, shown_as: str) -> Mapping[CaseKey_, float]:
    """What durations.json or results.json says. Raises ConfigError where it cannot be read."""
    place, hint = Place(file=shown_as), "Check `durations`."
    try:
        raw = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=place, hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is not JSON: {error}", where=place, hint=hint) from error
    if isinstance(raw, dict) and "schema_version" in raw:
        return durations_of(results_file.read_results(path, shown_as=shown_as).run)
    try:
        read = _SHAPE.validate_python(raw)
    except ValidationError as error:
        hint = "Use a results.json, or a durations.json written by `evalgate merge`."
        raise ConfigError("has no seconds by suite and case", where=place, hint=hint) from error
    return {(suite, case_id): seconds for suite, cases in read.items() for case_id, seconds in cases.items()}


def _durations(settings: Settings) -> Mapping[CaseKey_, float]:
    named = settings.durations
    if not named and settings.baseline.startswith("file:"):
        named = settings.baseline.removeprefix("file:")
    return read_durations(settings.root / named, shown_as=named) if named else {}
