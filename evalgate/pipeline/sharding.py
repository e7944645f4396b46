"""Dividing a plan among machines: every one of them computes the same division from the same files."""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from evalgate.model import Run, Shard, Suite
from evalgate.pipeline import fingerprints

CaseKey: TypeAlias = tuple[str, str]
"""Suite key and case id."""


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
    contents = {
        (suite.key, case.case_id): fingerprints.of_case(
            case, task=fingerprints.of_task(case, simulator=suite.simulator)
        )
        for suite in suites
        for case in suite.eval_set.cases
    }
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
