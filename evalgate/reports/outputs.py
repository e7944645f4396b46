"""The outputs of the action: names and values that later steps can use."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean

from evalgate.exhibits import judge_use, totals
from evalgate.markup import plain
from evalgate.model import Report

REASON_LIMIT = 1_000
NAMES = 1_000
NAME_LIMIT = 100
"""GitHub takes 1 MB of outputs in all."""


def render(report: Report) -> Mapping[str, str]:
    """Name to value, as action.yml lists them.

    `scores` is a JSON object: the mean of each criterion over all cases that have a value, null where none has. So is
    `delta`: head's mean minus base's by criterion; `{}` without a comparison. `judge-cost-usd` is empty where the price
    of any call is unknown.
    """
    counts = totals.count(report)
    return {
        "verdict": report.verdict.kind.value,
        "reason": plain.one_line(plain.clip(report.verdict.reason, REASON_LIMIT)),
        "passed": str(counts.passed),
        "failed": str(counts.failed),
        "not-measured": str(counts.not_measured),
        "total": str(counts.total),
        "scores": _scores(report),
        "delta": _delta(report),
        "judge-calls": str(judge_use.total(report.run.judges).calls),
        "judge-cost-usd": _cost(report),
    }


def _delta(report: Report) -> str:
    comparison = report.comparison
    rows = comparison.criteria if comparison is not None else ()
    deltas = {plain.label(row.name, NAME_LIMIT): row.delta for row in rows[:NAMES]}
    return json.dumps(deltas, separators=(",", ":"))


def _cost(report: Report) -> str:
    exact = judge_use.exact_cost_usd(report.run.judges)
    return "" if exact is None else f"{exact:.6f}".rstrip("0").rstrip(".")


def _scores(report: Report) -> str:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for suite in report.verdict.suites:
        for case in suite.cases:
            for each in case.criteria:
                known = [each.value] if each.value is not None and math.isfinite(each.value) else []
                found[plain.label(each.name, NAME_LIMIT)] += known
    means = {name: fmean(values) if values else None for name, values in list(found.items())[:NAMES]}
    return json.dumps(means, separators=(",", ":"))
