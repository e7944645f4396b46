"""Labels beside verdicts from few words: `labelled("y/y y/n n/y n/n y/?")`, person first, `?` is
undecided."""

from __future__ import annotations

import dataclasses

from evalgate.errors import Place
from evalgate.model import CriterionCalibration, CriterionJudge, JudgeIdentity
from evalgate.wings.calibrate import agreement
from evalgate.wings.calibrate.labels import Label, LabelledVerdict, LabelLine

MATCH = "final_response_match_v2"
JUDGE = JudgeIdentity(model="gemini-2.5-flash", prompt_version="2", num_samples=5)
_WORDS = {"y": True, "n": False, "?": None}


def labelled(words: str, *, clusters: int = 0) -> list[LabelledVerdict]:
    """One label a word, `*3` behind it for three of them; each a case of its own, or spread over
    `clusters` cases."""
    pairs: list[tuple[str, str]] = []
    for word in words.split():
        said, _, times = word.partition("*")
        human, _, judge = said.partition("/")
        pairs += [(human, judge)] * int(times or 1)
    return [
        LabelledVerdict(
            label=Label(
                line=LabelLine(criterion=MATCH, label="valid" if human == "y" else "invalid"),
                human=_WORDS[human] is True,
                place=Place(file="labels.jsonl", line=number),
            ),
            criterion_judge=CriterionJudge(criterion=MATCH, judge=JUDGE),
            passed=_WORDS[judge],
            cluster=str(number % clusters if clusters else number),
            word={"y": "valid", "n": "invalid"}.get(judge, ""),
            message="because" if judge != "?" else "the judge was out of reach",
            judged_text=f"answer {number}",
        )
        for number, (human, judge) in enumerate(pairs, start=1)
    ]


def calibrated(
    words: str, *, judge: JudgeIdentity = JUDGE, criterion: str = MATCH
) -> CriterionCalibration:
    """The calibration that these labels make."""
    asked = CriterionJudge(criterion=criterion, judge=judge)
    made = agreement.calibrate(asked, labelled(words), seed=0, draws=2_000)
    return dataclasses.replace(made, examples=())
