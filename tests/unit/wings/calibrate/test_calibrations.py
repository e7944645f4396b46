"""What a calibration lets a run claim, and what its reader is told first."""

from __future__ import annotations

import dataclasses

import pytest
from builders.labels import JUDGE, MATCH, calibrated, labelled
from hypothesis import given, settings, strategies as st

from evalgate.model import (
    Calibration,
    ConfusionKind,
    CriterionCalibration,
    CriterionJudge,
    JudgeIdentity,
)
from evalgate.wings.calibrate import agreement

OTHER = dataclasses.replace(JUDGE, model="gemini-3-pro")
ASKED = CriterionJudge(criterion=MATCH, judge=JUDGE)
GOOD = calibrated("y/y*40 n/n*38 n/y*2")
POOR = calibrated("y/y*30 y/n*10 n/n*10 n/y*10")


def of(*criteria: CriterionCalibration) -> Calibration:
    return Calibration(evalgate="1", made_at="2026-01-02", labels_file="l", criteria=criteria)


@pytest.mark.parametrize(
    ("calibration", "judge", "least", "code", "words"),
    [
        (of(GOOD), JUDGE, 0.6, "", ""),
        (None, JUDGE, 0.6, "calibration-missing", "`gemini-2.5-flash` (prompt 2)"),
        (None, JUDGE, None, "calibration-missing", "no label"),
        (
            of(dataclasses.replace(GOOD, criterion="another")),
            JUDGE,
            0.6,
            "calibration-missing",
            "no label",
        ),
        (of(GOOD), OTHER, 0.6, "calibration-of-another-judge", "gemini-2.5-flash -> gemini-3-pro"),
        (
            of(GOOD),
            dataclasses.replace(JUDGE, prompt_version="3"),
            None,
            "calibration-of-another-judge",
            "prompt version 2 -> 3",
        ),
        (of(POOR), JUDGE, 0.6, "calibration-below-minimum", "kappa of 0.25 ("),
        (of(POOR), JUDGE, None, "", ""),  # nothing is required
        (of(POOR), JUDGE, 0.2, "", ""),
        (of(calibrated("y/y*40")), JUDGE, 0.1, "calibration-below-minimum", "cannot be computed"),
        # other options than calibrated with are a doubt, not another judge
        (of(GOOD), dataclasses.replace(JUDGE, num_samples=1), 0.6, "", ""),
        # the judge that is asked is found among several
        (of(dataclasses.replace(POOR, judge=OTHER), GOOD), JUDGE, 0.6, "", ""),
    ],
)
def test_what_a_run_may_rely_on(
    calibration: Calibration | None,
    judge: JudgeIdentity,
    least: float | None,
    code: str,
    words: str,
) -> None:
    doubts = agreement.doubts(MATCH, judge, calibration, min_kappa=least)
    faults = [doubt for doubt in doubts if doubt[0] != agreement.UNCERTAIN]
    ((found, message),) = faults or [("", "")]
    assert found == code
    assert words in message


def test_doubts_are_told() -> None:
    def doubts(judge: JudgeIdentity, figures: CriterionCalibration) -> list[tuple[str, str]]:
        return list(agreement.doubts(MATCH, judge, of(figures), min_kappa=0.6))

    one_sample = dataclasses.replace(JUDGE, num_samples=1)
    assert doubts(JUDGE, GOOD) == []
    ((code, options),) = doubts(one_sample, GOOD)
    assert (code, "samples 5 -> 1" in options) == (agreement.UNCERTAIN, True)
    ((_, few),) = doubts(JUDGE, calibrated("y/y*6 n/n*5 n/y"))
    assert "with so few labels" in few


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("y/y*60 n/n*55 n/y*3 y/n*2", ""),
        (
            "y/y*6 n/n*5 n/y",
            "too few labels: kappa may be anything from 0.29 to 0.96; about 61 labels are needed",
        ),
        ("y/y*50", "no label is a no"),
        ("n/n*50", "no label is a yes"),
        ("y/y*45 y/n*5", "no label is a no"),
        ("y/?*3", "decided none"),
        ("y/y*60 n/n*58 y/?*2", "2 of 120 labels undecided"),
    ],
)
def test_what_a_reader_is_told(words: str, told: str) -> None:
    assert (told in " ".join(agreement.doubts_of_figures(calibrated(words)))) if told else True
    assert bool(agreement.doubts_of_figures(calibrated(words))) is bool(told)


def test_examples_of_each_confusion_are_kept_and_clipped() -> None:
    verdicts = labelled("y/y*3 n/y*9 y/n*2 y/?")
    verdicts[4] = dataclasses.replace(verdicts[4], judged_text="x" * 10_000)
    made = agreement.calibrate(ASKED, verdicts, seed=0)
    kinds = [example.kind for example in made.examples]
    assert [kinds.count(kind) for kind in ConfusionKind] == [agreement.MAX_EXAMPLES, 2, 1]
    assert max(len(example.shown) for example in made.examples) < 500
    undecided = made.examples[-1]
    assert (undecided.human, undecided.judge, undecided.rationale) == (
        "valid",
        "",
        "the judge was out of reach",
    )


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from(["y/y", "y/n", "n/y", "n/n", "y/?", "n/?"]), min_size=1, max_size=25)
)
def test_a_file_is_read_back_as_it_was_written(words: list[str]) -> None:
    made = agreement.calibrate(ASKED, labelled(" ".join(words)), seed=0)
    read = agreement.parse(agreement.render_file(of(made)))
    assert agreement.render_file(read) == agreement.render_file(of(made))
    (back,) = read.criteria
    assert (back.matrix, back.examples) == (made.matrix, made.examples)
    assert (back.kappa is None) is (made.kappa is None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Invalid JSON"),
        ("{}", "`criteria`"),
        ('{"criteria": [{"criterion": "c"}]}', "judge"),
        ('{"schema_version": 99, "criteria": []}', "schema version is 99"),
    ],
)
def test_what_is_no_calibration(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        agreement.parse(text)


def test_keys_of_later_versions_are_passed_over() -> None:
    assert agreement.parse('{"criteria": [], "later": 1}').criteria == ()
