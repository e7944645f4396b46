"""Whether a run may rely on its judges: what evalgate.yml asks for, beside what people's labels
say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from builders.build import case, suite, turn
from builders.labels import JUDGE, MATCH, calibrated

from evalgate import criteria
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.errors import Severity
from evalgate.model import Calibration, CriterionUse
from evalgate.wings.calibrate import agreement

GOOD = calibrated("y/y*40 n/n*38 n/y*2")
POOR = calibrated("y/y*30 y/n*10 n/n*10 n/y*10")
BOTH = "calibration: calibration.json, min_kappa: 0.6"


def chosen(root: Path, judge: str, **given: object) -> Settings:
    (root / "evalgate.yml").write_text(f"judge: {{{judge}}}\n")
    return load.load_settings({"root": str(root), **given})


def problems(choice: Settings, *names: str) -> list[tuple[str, Severity]]:
    uses = tuple(
        criteria.with_facts(CriterionUse(name=name, threshold=0.5)) for name in names or (MATCH,)
    )
    own = dataclasses.replace(suite(case("c", turn("x", answer="y"))), criteria=uses)
    settled = judges.settle_suites(
        [own, dataclasses.replace(own, key="another.json")], judges.defaults_of(choice)
    )
    return [(each.code, each.severity) for each in agreement.find_problems(choice, settled)]


def write(root: Path, *calibrations: object) -> None:
    made = Calibration(evalgate="1", made_at="2026", labels_file="my.jsonl", criteria=calibrations)  # type: ignore[arg-type]  # each is one
    (root / "calibration.json").write_text(agreement.render_file(made))


@pytest.mark.parametrize(
    ("judge", "calibrations", "expected"),
    [
        ("num_samples: 5", None, []),  # nothing is asked for
        (BOTH, (GOOD,), []),
        ("min_kappa: 0.6", (GOOD,), [("calibration-missing", Severity.ERROR)]),  # which file?
        (BOTH, None, [("calibration-missing", Severity.ERROR)]),  # told once, two suites use it
        (BOTH, (), [("calibration-missing", Severity.ERROR)]),
        (BOTH, (POOR,), [("calibration-below-minimum", Severity.ERROR)]),
        (BOTH + ", model: gpt-5", (GOOD,), [("calibration-of-another-judge", Severity.ERROR)]),
        (BOTH + ", num_samples: 1", (GOOD,), [("calibration-uncertain", Severity.NOTE)]),
        # without a minimum the same are notices
        ("calibration: calibration.json", None, [("calibration-missing", Severity.NOTE)]),
        ("calibration: calibration.json", (POOR,), []),
        (
            "calibration: calibration.json, model: m",
            (GOOD,),
            [("calibration-of-another-judge", Severity.NOTE)],
        ),
    ],
)
def test_what_stops_a_run(
    tmp_path: Path,
    judge: str,
    calibrations: tuple[object, ...] | None,
    expected: list[tuple[str, Severity]],
) -> None:
    if calibrations is not None:
        write(tmp_path, *calibrations)
    assert problems(chosen(tmp_path, judge)) == expected


def test_a_broken_file_is_told_and_nobody_judging_needs_none(tmp_path: Path) -> None:
    (tmp_path / "calibration.json").write_text("{")
    assert problems(chosen(tmp_path, BOTH)) == [("calibration-unreadable", Severity.ERROR)]
    assert problems(chosen(tmp_path, "calibration: calibration.json")) == [
        ("calibration-unreadable", Severity.WARNING)
    ]
    assert problems(chosen(tmp_path, BOTH, skip_judged=True)) == []


def test_criteria_that_say_no_yes_or_no_are_told_and_those_that_ask_nobody_pass(
    tmp_path: Path,
) -> None:
    found = problems(chosen(tmp_path, BOTH), "safety_v1", "response_match_score")
    assert found == [("label-without-verdict", Severity.NOTE)]


def test_the_hint_names_the_labels_and_the_file(tmp_path: Path) -> None:
    write(tmp_path, POOR)
    choice = chosen(tmp_path, BOTH)
    own = dataclasses.replace(
        suite(case("c")), criteria=(criteria.with_facts(CriterionUse(name=MATCH, threshold=0.5)),)
    )
    (problem,) = agreement.find_problems(
        choice, judges.settle_suites([own], judges.defaults_of(choice))
    )
    assert (
        problem.hint
        == "Run `evalgate calibrate my.jsonl` and commit calibration.json (docs/calibration.md)."
    )
    assert JUDGE.model in problem.message
