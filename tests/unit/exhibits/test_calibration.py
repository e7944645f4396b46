"""A calibration at the desk and corrected scores in reports: what stands there, and that nothing in it commands."""

from __future__ import annotations

import dataclasses

from builders.build import WORDS, report
from builders.labels import JUDGE, MATCH, calibrated, labelled

from evalgate import reports
from evalgate.exhibits import calibration as exhibit
from evalgate.exhibits import corrected, totals
from evalgate.gate import agreement, calibrations, judge_bias
from evalgate.model import Calibration, CriterionCalibration, JudgedCriterion, Report
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


def judged(words: str, outcomes: str = "pass pass wrong pass") -> Report:
    made = report(outcomes)
    calibration = calibrated(words, criterion=WORDS)
    value = judge_bias.correct(0.75, cases=4, calibration=calibration)
    one = JudgedCriterion(
        suite=made.run.suites[0].key, criterion=WORDS, judge=JUDGE, calibration=calibration, corrected=value
    )
    return dataclasses.replace(made, judged=(one,))


def test_a_corrected_score_stands_beside_the_raw_one_everywhere() -> None:
    made = judged("y/y*45 y/n*5 n/n*40 n/y*10")
    (row,) = [row for row in totals.by_criterion(made) if row.name == WORDS]
    cell = corrected.cell(row.corrected)
    assert cell.startswith("0.79 (")  # (0.75 + 0.8 - 1) / 0.7
    assert row.mean == 0.75
    for renderer in reports.RENDERERS.values():
        if renderer.file_name in ("comment.md", "summary.md", "report.html"):
            page = renderer.render(made)
            assert cell in page
            assert corrected.LEGEND in page
    assert cell in reports.render_terminal(made)


def test_a_judge_that_guesses_corrects_nothing_and_that_is_said() -> None:
    made = judged("y/y*5 y/n*5 n/n*5 n/y*5")
    for page in (
        *(each.render(made) for each in reports.RENDERERS.values() if each.file_name in ("comment.md", "report.html")),
        reports.render_terminal(made),
    ):
        assert "refused" in page
        assert "not better than chance" in page


def test_without_labels_nothing_is_added() -> None:
    made = report("pass wrong")
    assert not corrected.any_of(totals.by_criterion(made))
    for renderer in reports.RENDERERS.values():
        assert corrected.TITLE not in renderer.render(made)
