"""Which part of the cases this machine measures, and what earlier runs say of how long they take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, Place, Problem, Severity
from evalgate.gate.pairing import CaseKey
from evalgate.model import Run, Shard, Suite
from evalgate.results import file as results_file
from evalgate.results import shards as results_shards

DURATIONS = "durations.json"
_SHAPE = TypeAdapter(dict[str, dict[str, float]])


def of(settings: Settings, suites: Sequence[Suite]) -> Shard | None:
    """The part that `shard` names, None where this machine measures everything. Raises ConfigError."""
    named = numbers(settings)
    if named is None:
        return None
    index, count = named
    return results_shards.plan(
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
    for (suite, case_id), seconds in sorted(results_shards.durations_of(run).items()):
        found.setdefault(suite, {})[case_id] = round(seconds, 3)
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def read_durations(path: Path, *, shown_as: str) -> Mapping[CaseKey, float]:
    """What durations.json or results.json says. Raises ConfigError where it cannot be read."""
    place, hint = Place(file=shown_as), "Check `durations`."
    try:
        raw = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=place, hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is not JSON: {error}", where=place, hint=hint) from error
    if isinstance(raw, dict) and "schema_version" in raw:
        return results_shards.durations_of(results_file.read_results(path, shown_as=shown_as).run)
    try:
        read = _SHAPE.validate_python(raw)
    except ValidationError as error:
        hint = "Use a results.json, or a durations.json written by `evalgate merge`."
        raise ConfigError("has no seconds by suite and case", where=place, hint=hint) from error
    return {(suite, case_id): seconds for suite, cases in read.items() for case_id, seconds in cases.items()}


def _durations(settings: Settings) -> Mapping[CaseKey, float]:
    named = settings.durations
    if not named and settings.baseline.startswith("file:"):
        named = settings.baseline.removeprefix("file:")
    return read_durations(settings.root / named, shown_as=named) if named else {}
