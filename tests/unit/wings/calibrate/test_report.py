"""A calibration on a terminal: what stands there, and that nothing in it commands."""

from __future__ import annotations

import dataclasses

from builders.labels import JUDGE, MATCH, labelled

from evalgate.model import Calibration, CriterionCalibration, CriterionJudge
from evalgate.wings.calibrate import agreement
from evalgate.wings.calibrate.labels import LabelLine

HOSTILE = "::error::x\n##[group]\x1b[31m`</details><script>@everyone #1 | ![](http://x) <!-- evil -->\u202e"


def of(*criteria: CriterionCalibration) -> Calibration:
    return Calibration(evalgate="1", made_at="2026-01-02", labels_file="l", criteria=criteria)


def test_the_table() -> None:
    made = agreement.calibrate(
        CriterionJudge(criterion=MATCH, judge=JUDGE),
        labelled("y/y*18 y/n*2 n/n*19 n/y y/?"),
        seed=0,
    )
    shown = agreement.render(of(made), notes=["`safety_v1` is used here and has no label"])
    for words in (
        "gemini-2.5-flash, prompt 2, 5 samples",
        "0.93 (0.80 to 0.97)",  # agreement, by Wilson
        "0.90 (0.70 to 0.97)",  # TPR
        "the judge says yes, people say no (it would let these through)",
        "line 40: people: invalid; the judge: valid",
        "the judge could not decide",
        "note: `safety_v1` is used here and has no label",
    ):
        assert words in shown


def test_hostile_labels_and_answers_command_neither_terminal_nor_runner() -> None:
    line = LabelLine(criterion=HOSTILE, label=HOSTILE, rubric=HOSTILE, note=HOSTILE)
    verdicts = [
        dataclasses.replace(
            each,
            label=dataclasses.replace(each.label, line=line),
            word=HOSTILE,
            message=HOSTILE,
            judged_text=HOSTILE,
        )
        for each in labelled("y/n n/y y/? n/n")
    ]
    asked = CriterionJudge(criterion=HOSTILE, judge=dataclasses.replace(JUDGE, model=HOSTILE))
    made = agreement.calibrate(asked, verdicts, seed=0)
    calibration = dataclasses.replace(of(made), made_at=HOSTILE, labels_file=HOSTILE)
    shown = agreement.render(calibration, notes=["x"])
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert not [
        line for line in shown.split("\n") if line.lstrip().startswith("::") or "##[" in line
    ]
    assert agreement.parse(agreement.render_file(calibration)).criteria[0].examples == made.examples
