"""What a share of yes would be by people's word, given how a judge errs (Rogan and Gladen 1978)."""

from __future__ import annotations

import math

from evalgate.gate import proportions
from evalgate.model import Confusion, Corrected, CriterionCalibration, Interval

NO_BETTER = "the judge is not better than chance (TPR + TNR is at most 1)"
TOO_FEW = "too few labels to show that the judge is better than chance"
ONE_KIND = "all human labels are of one kind, so TPR or TNR is unknown"


def correct(raw: float, *, cases: int, calibration: CriterionCalibration) -> Corrected:
    """The share of yes that people would give, from the judge's share `raw` over `cases` cases.

    theta = (p + TNR - 1) / (TPR + TNR - 1), clipped to 0..1. It holds for any mean of yes-or-no verdicts whose errors
    are those of the labels. Turns, rubrics and repeats of one case move together, so that a case counts as one
    verdict. Refused where the judge knows no better than a coin, or one of its rates is not known.
    """
    if calibration.tpr is None or calibration.tnr is None:
        return Corrected(raw=raw, cases=cases, refused=ONE_KIND)
    if calibration.tpr.value + calibration.tnr.value <= 1:
        return Corrected(raw=raw, cases=cases, refused=NO_BETTER)
    found = interval(raw, cases=cases, matrix=calibration.matrix)
    if found is None:
        return Corrected(raw=raw, cases=cases, refused=TOO_FEW)
    value = estimate(raw, tpr=calibration.tpr.value, tnr=calibration.tnr.value)
    found = Interval(low=min(found.low, value), high=max(found.high, value))
    return Corrected(raw=raw, cases=cases, value=value, interval=found)


def estimate(raw: float, *, tpr: float, tnr: float) -> float:
    """Rogan and Gladen's estimate, clipped to 0..1. `tpr + tnr` must be above 1."""
    return _clipped((raw + tnr - 1) / (tpr + tnr - 1))


def interval(raw: float, *, cases: int, matrix: Confusion) -> Interval | None:
    """Its 95 % interval, with the noise of the cases and that of the labels.

    Wald's interval with the variance [p(1-p)/n + (1-theta)^2 TNR(1-TNR)/m0 + theta^2 TPR(1-TPR)/m1] / (TPR+TNR-1)^2 has
    width 0 where nothing went wrong; so every share is moved towards its middle first, and the bias that this brings
    is taken out again. None where the moved judge is no better than chance.
    Source: Lang and Reiczigel 2014; the use for judges: arXiv 2511.21140.
    """
    z = proportions.quantile(0.95)
    n, m1, m0 = cases + z * z, matrix.positives + 2, matrix.negatives + 2
    p = (cases * raw + z * z / 2) / n
    tpr, tnr = (matrix.true_positive + 1) / m1, (matrix.true_negative + 1) / m0
    youden = tpr + tnr - 1
    if youden <= 0:
        return None
    theta = _clipped((p + tnr - 1) / youden)
    of_yes, of_no = tpr * (1 - tpr) / m1, tnr * (1 - tnr) / m0
    spread = z * math.sqrt(p * (1 - p) / n + (1 - theta) ** 2 * of_no + theta**2 * of_yes) / youden
    middle = theta + 2 * z * z * (theta * of_yes - (1 - theta) * of_no)
    return Interval(low=_clipped(middle - spread), high=_clipped(middle + spread))


def _clipped(share: float) -> float:
    return min(max(share, 0.0), 1.0)
