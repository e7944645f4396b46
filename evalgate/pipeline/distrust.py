"""Reading results that a stranger made: nothing in them may cost more than results of that size do."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from evalgate.errors import ConfigError, Place
from evalgate.model import Run, TrialKey
from evalgate.pipeline import stored
from evalgate.pipeline.desk import FRESH
from evalgate.pipeline.stored import Stored

MOST_BYTES = 64 * 1024 * 1024
MOST_DEPTH = 60
MOST_NODES = 5_000_000
MOST_TEXT = 1_000_000
"""Characters of one text."""

MOST_NUMBER = 2**53
MOST_CASES = 10_000
MOST_TRIALS = 100_000
MOST_REPEATS = 1_000


def read_results(path: Path, *, shown_as: str) -> Stored:
    """`stored.read_results` for a file that anybody may have written. Raises ConfigError, and nothing else, for
    whatever is in it."""
    place = Place(file=shown_as)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _refused(f"is larger than {MOST_BYTES >> 20} MB", place)
        raw = json.loads(path.read_bytes())
    except OSError as error:
        raise _refused(f"cannot be read: {error.strerror or error}", place) from error
    except (ValueError, RecursionError) as error:
        raise _refused("is not JSON", place) from error
    _insist_bounded(raw, place)
    read = stored.read_results(path, shown_as=shown_as)
    _insist_plausible(read.run, place)
    return read


def _insist_bounded(raw: Any, place: Place) -> None:
    """No deep nest, no huge text, no number that is none or that no arithmetic takes."""
    level: list[Any] = [raw]
    nodes = 0
    for _ in range(MOST_DEPTH):
        below: list[Any] = []
        for value in level:
            nodes += 1
            match value:
                case dict():
                    below += value.values()
                    below += value.keys()
                case list():
                    below += value
                case str() if len(value) > MOST_TEXT:
                    raise _refused(f"has a text of {len(value):,} characters", place)
                case float() if not math.isfinite(value) or abs(value) > MOST_NUMBER:
                    raise _refused("contains an invalid number", place)
                case int() if abs(value) > MOST_NUMBER:
                    raise _refused("contains a number that is too large", place)
        if nodes > MOST_NODES:
            raise _refused(f"has more than {MOST_NODES:,} values", place)
        if not below:
            return
        level = below
    raise _refused(f"is nested deeper than {MOST_DEPTH} deep", place)


def _insist_plausible(run: Run, place: Place) -> None:
    """As many repeats and cases as a run can have, and each of them once."""
    cases = [(suite.key, case.case_id) for suite in run.suites for case in suite.eval_set.cases]
    names = [(suite.key, use.name) for suite in run.suites for use in suite.criteria]
    most = run.repeats + run.more
    if run.shard is not None:
        raise _refused("is a shard", place)
    if not (1 <= run.repeats <= MOST_REPEATS and 0 <= run.more <= MOST_REPEATS):
        raise _refused("has an invalid number of repeats", place)
    if len(cases) > MOST_CASES or len(cases) * most > MOST_TRIALS or len(run.trials) > MOST_TRIALS:
        raise _refused(f"has {len(cases):,} cases, each up to {most:,} times, which exceeds the limit", place)
    for what, keys in (
        ("evaluation file", [suite.key for suite in run.suites]),
        ("case", cases),
        ("criterion", names),
        ("run of a case", [trial.key for trial in (*run.trials, *run.confirmations)]),
    ):
        if len(set(keys)) != len(keys):
            raise _refused(f"has the same {what} twice", place)
    if not all(_is_possible(trial.key, most) for trial in (*run.trials, *run.confirmations)):
        raise _refused("has a run of a case with an invalid number", place)


def _is_possible(key: TrialKey, most: int) -> bool:
    return 0 <= key.repeat < most or FRESH <= key.repeat < FRESH + MOST_REPEATS


def _refused(what: str, place: Place) -> ConfigError:
    return ConfigError(what, where=place, hint="It is not used because it came from a pull request.")
