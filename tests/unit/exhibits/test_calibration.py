"""A calibration in a terminal: what it says, and that nothing in it commands."""

from __future__ import annotations

import dataclasses

from builders.labels import JUDGE, MATCH, calibrated, labelled

from evalgate.exhibits import calibration as exhibit
from evalgate.gate import agreement, calibrations
from evalgate.model import Calibration, CriterionCalibration
from evalgate.wire import calibration as files

HOSTILE = "::error::x\n##[group]\x1b[31m`</details><script>@everyone #1 | ![](http://x) <!-- evil -->\u202e"


def of(*criteria: CriterionCalibration) -> Calibration:
    return Calibration(evalgate="1", made_at="2026-01-02", labels_file="l", source="asked", criteria=criteria)


def test_the_table() -> None:
    made = calibrations.calibrate(MATCH, JUDGE, labelled("y/y*18 y/n*2 n/n*19 n/y y/?"), seed=0)
    shown = exhibit.render(of(made), notes=["`safety_v1` is used here and has no label"])
    for words in (
        "gemini-2.5-flash, prompt 1, 5 samples",
        "0.93 (0.80 to 0.97)",  # agreement, by Wilson
        "0.90 (0.70 to 0.97)",  # TPR
        "the judge says yes, people say no (it would let these through)",
        "line 40: people: invalid; the judge: valid",
        "the judge could not decide",
        "note: `safety_v1` is used here and has no label",
    ):
        assert words in shown


def test_drift_is_shown_with_what_changed() -> None:
    new = calibrated("y/y*33 y/n*9 n/n*28 n/y*2", judge=dataclasses.replace(JUDGE, model="gemini-3-pro"))
    old = calibrated("y/y*40 y/n*2 n/n*28 n/y*2")
    shown = exhibit.render(of(new), before=of(old), drift=[agreement.drift(new, old)])
    assert "drift beyond noise, 7 of 72 shared labels judged otherwise" in shown
    assert "another judge: model gemini-2.5-flash -> gemini-3-pro" in shown
    assert "TPR   0.95 -> 0.79 (-0.17, " in shown
    assert "none of its criteria" in exhibit.render(of(new), before=of(old))


def test_hostile_labels_and_answers_command_neither_terminal_nor_runner() -> None:
    verdicts = [
        dataclasses.replace(
            each,
            label=dataclasses.replace(each.label, word=HOSTILE, subject=HOSTILE, note=HOSTILE, criterion=HOSTILE),
            said=HOSTILE,
            message=HOSTILE,
            shown=HOSTILE,
        )
        for each in labelled("y/n n/y y/? n/n")
    ]
    made = calibrations.calibrate(HOSTILE, dataclasses.replace(JUDGE, model=HOSTILE), verdicts, seed=0)
    calibration = dataclasses.replace(of(made), made_at=HOSTILE, labels_file=HOSTILE)
    shown = exhibit.render(
        calibration, before=calibration, drift=[agreement.drift(made, made)], caveats=[(HOSTILE, "x")], notes=["x"]
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert not [line for line in shown.split("\n") if line.lstrip().startswith("::") or "##[" in line]
    assert files.parse(files.render(calibration)).criteria[0].examples == made.examples
