"""How often a month of scheduled runs says that the provider's model moved, though nothing did; and how soon it says so
where something did. Simulated through evalgate's own functions.

    python bench/drift.py [--months 2000]

The last line is JSON: the largest share of months with a false alarm, and the days until three broken cases of twenty
are seen.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import statistics
from collections.abc import Callable, Sequence

from evalgate.comparison import drift
from evalgate.comparison.drift import PastRun
from evalgate.results.history import LAST_RUNS

DAYS = 30
MIXES = {
    ".98/.8/.4 (70/20/10 %)": (0.98,) * 14 + (0.8,) * 4 + (0.4,) * 2,
    "all .95": (0.95,) * 20,
    "all .5": (0.5,) * 20,
    "5 cases, all .9": (0.9,) * 5,
    "100 cases, .98/.8/.4": (0.98,) * 70 + (0.8,) * 20 + (0.4,) * 10,
}
BROKEN = {"3 broken": lambda rates: (0.1, 0.1, 0.1, *rates[3:]), "all -.10": lambda rates: [p - 0.1 for p in rates]}
START = dt.date(2026, 1, 1)
Rates = Sequence[float]


def _scores(rng: random.Random, passed: int, runs: int) -> list[float]:
    """Graded ones beside the outcomes: 0.6 to 1 of what passes, 0.4 to 0.8 of what fails."""
    lowest = (0.6,) * passed + (0.4,) * (runs - passed)
    return [round(low + 0.4 * rng.random(), 3) for low in lowest]


def alarms(
    rng: random.Random, rates: Callable[[int], Rates], *, days: int, runs: int, a_day: int = 1, graded: bool = False
) -> list[int]:
    """The days of a history, from 0, whose look says that something moved: the first run of a day looks, and after an
    alarm the runs before it are no longer looked at."""
    past: list[PastRun] = []
    found = []
    for day in range(days):
        for number in range(a_day):
            outcomes = {
                ("suite", str(case)): (sum(rng.random() < rate for _ in range(runs)), runs)
                for case, rate in enumerate(rates(day))
            }
            scores = {"graded": {case: _scores(rng, *counts) for case, counts in outcomes.items()}} if graded else {}
            past.append(PastRun((START + dt.timedelta(days=day)).isoformat(), outcomes, scores))
            past = past[-LAST_RUNS:]
            if number == 0 and drift.look(past) is not None:
                found.append(day)
                past = []
    return found


def false_alarms(rates: Rates, *, months: int, runs: int, a_day: int, seed: int = 0, graded: bool = False) -> float:
    """The share of months with an alarm, of histories that begin a month before."""
    rng = random.Random(seed)
    hits = (alarms(rng, lambda _: rates, days=2 * DAYS, runs=runs, a_day=a_day, graded=graded) for _ in range(months))
    return sum(any(day >= DAYS for day in days) for days in hits) / months


def delays(rates: Rates, after: Rates, *, months: int, runs: int, seed: int = 0) -> list[int]:
    """The days until a change is seen, 1 on its first day; DAYS where it is not seen within so many."""
    rng = random.Random(seed)
    found = []
    for _ in range(months):
        seen = alarms(rng, lambda day: rates if day < DAYS else after, days=2 * DAYS, runs=runs)
        found.append(next((day - DAYS + 1 for day in seen if day >= DAYS), DAYS))
    return found


def main() -> None:
    """Both tables, and the line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--months", type=int, default=2000)
    months = parser.parse_args().months
    worst = 0.0
    print("| Pass probabilities | Runs per case | Base runs a day | Months with a false alarm |")
    print("| --- | --- | --- | --- |")
    for name, rates in MIXES.items():
        few = max(months // 10, 1) if len(rates) > 20 else months
        for runs, a_day in ((1, 1), (3, 1), (1, 4)):
            share = false_alarms(rates, months=few, runs=runs, a_day=a_day)
            worst = max(worst, share)
            print(f"| {name} | {runs} | {a_day} | {share:.1%} |", flush=True)
    mix, medians = next(iter(MIXES)), {}
    share = false_alarms(MIXES[mix], months=max(months // 10, 1), runs=3, a_day=1, graded=True)
    worst = max(worst, share)
    print(f"| {mix}, and graded scores | 3 | 1 | {share:.1%} |", flush=True)
    print("\n| Pass probabilities | Change | Runs per case | Median days | Seen in 7 days |")
    print("| --- | --- | --- | --- | --- |")
    for change, changed in BROKEN.items():
        for runs in (1, 3, 5):
            rates = MIXES[mix]
            days = delays(rates, changed(rates), months=max(months // 10, 1), runs=runs)
            seen = sum(day <= 7 for day in days) / len(days)
            medians[f"{change}, {runs} runs"] = statistics.median(days)
            print(f"| {mix} | {change} | {runs} | {statistics.median(days):g} | {seen:.0%} |", flush=True)
    print(json.dumps({"drift_false_month_max": round(worst, 4), "drift_median_days": medians}))


if __name__ == "__main__":
    main()
