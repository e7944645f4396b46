"""Labels beside verdicts from few words: `labelled("y/y y/n n/y n/n y/?")`, person first, `?` is undecided."""

from __future__ import annotations

from evalgate.calibration import agreement
from evalgate.errors import Place
from evalgate.model import CriterionCalibration, JudgeIdentity, Label, LabelledVerdict

MATCH = "final_response_match_v2"
JUDGE = JudgeIdentity(model="gemini-2.5-flash", prompt_version="1", num_samples=5)
_WORDS = {"y": True, "n": False, "?": None}


def labelled(words: str, *, clusters: int = 0) -> list[LabelledVerdict]:
    """One label a word, `*3` behind it for three of them; each a case of its own, or spread over `clusters` cases."""
    pairs: list[tuple[str, str]] = []
    for word in words.split():
        said, _, times = word.partition("*")
        human, _, judge = said.partition("/")
        pairs += [(human, judge)] * int(times or 1)
    return [
        LabelledVerdict(
            label=Label(
                criterion=MATCH,
                human=_WORDS[human] is True,
                word="valid" if human == "y" else "invalid",
                place=Place(file="labels.jsonl", line=number),
            ),
            judge=_WORDS[judge],
            cluster=str(number % clusters if clusters else number),
            said={"y": "valid", "n": "invalid"}.get(judge, ""),
            message="because" if judge != "?" else "the judge was out of reach",
            shown=f"answer {number}",
        )
        for number, (human, judge) in enumerate(pairs, start=1)
    ]


def calibrated(words: str, *, judge: JudgeIdentity = JUDGE, criterion: str = MATCH) -> CriterionCalibration:
    """The calibration that these labels make."""
    verdicts = labelled(words)
    return CriterionCalibration(
        criterion=criterion,
        judge=judge,
        matrix=agreement.confusion(verdicts),
        undecided=sum(each.judge is None for each in verdicts),
        clusters=len({each.cluster for each in verdicts}),
        agreement=agreement.agreement_rate(verdicts),
        kappa=agreement.kappa_rate(verdicts, seed=0, draws=2_000),
        tpr=agreement.true_positive_rate(verdicts),
        tnr=agreement.true_negative_rate(verdicts),
    )
