"""The parts of a plan: whether what was found is a part, and whether parts belong together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evalgate.errors import ConfigError, Place
from evalgate.model import Run, Shard
from evalgate.pipeline.stored import Stored


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
