"""A results.json that somebody else made: it is read or refused, whatever it says."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.errors import ConfigError
from evalgate.results import file

TRIAL: dict[str, Any] = {
    "purpose": "pair",
    "number": 0,
    "outcome": {"kind": "transcript", "invocations": [], "final_state": None},
    "grades": {"m": {"value": 1.0}},
}
RESULTS: dict[str, Any] = {
    "schema_version": 6,
    "evalgate": "0",
    "verdict": {"kind": "pass", "reason": "", "exit_code": 0},
    "suites": [
        {
            "suite": "a.evalset.json",
            "eval_set_id": "a",
            "agent": {"driver": "replay"},
            "criteria": [{"name": "m", "threshold": 0.5}],
            "criteria_source": {"origin": "defaults"},
            "verdict": "pass",
            "cases": [{"case_id": "c", "fingerprint": "f", "verdict": "pass", "trials": [TRIAL]}],
        }
    ],
}
ANY = [
    None, True, -1, 10**30, 1e308, float("nan"), float("inf"), "", "x" * 100_000, "\x00\ud800", [], {}, [[[]]],
    {"kind": "transcript"}, {"kind": "nonsense"}, ["a", "b"], {"value": float("nan")},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(place for key, each in below for place in places(each, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], new)
    return changed


@pytest.mark.parametrize("place", places(RESULTS), ids=str)
def test_it_is_read_or_refused(tmp_path: Path, place: tuple[Any, ...]) -> None:
    for version, (number, new) in itertools.product((5, 6), enumerate(ANY)):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(replaced(RESULTS | {"schema_version": version}, place, new)))
        try:
            read = file.read_results(path)
        except ConfigError:
            continue
        assert read.run.repeats >= 1
        for trial in read.run.trials:
            assert trial.key.number >= 0
            read.outcomes.find(trial.key)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"schema_version": 6, "a": ' + "[" * 900 + "]" * 900 + "}"]
)
def test_depth_is_no_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.json").write_text(text)
    with pytest.raises(ConfigError):
        file.read_results(tmp_path / "deep.json")


def test_the_version_before_is_read_as_well(tmp_path: Path) -> None:
    """Without the two fields that only it had."""
    former: Any = copy.deepcopy(RESULTS) | {"schema_version": 5}
    (case,) = former["suites"][0]["cases"]
    case["not_finite"] = [["conversation", 0]]
    case["trials"][0]["outcome"]["not_finite"] = [["final_state"]]
    former["comparison"] = {
        "origin": {"source": "rerun"},
        "cases": [
            {
                "suite": "a.evalset.json",
                "case_id": "c",
                "divergence": {"turn": 2},
                "status": "paired",
            }
        ],
    }
    path = tmp_path / "results.json"
    path.write_text(json.dumps(former))
    stored = file.read_results(path)
    assert [case.case_id for suite in stored.run.suites for case in suite.cases] == ["c"]
    assert stored.comparison is not None
    former["schema_version"] = 4
    path.write_text(json.dumps(former))
    with pytest.raises(ConfigError, match="has schema_version 4"):
        file.read_results(path)
