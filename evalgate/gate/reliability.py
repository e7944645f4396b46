"""The reliability ledger: what base runs add to it, and what it says of a case, a criterion, a branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalgate.model import (
    CaseHistory,
    CaseTally,
    Health,
    LedgerRun,
    PastOutcome,
    Reliability,
    ReliabilityLedger,
    RunSummary,
    Trend,
)

LAST_RUNS = 50
"""How many base runs the ledger remembers; a case that none of them had is forgotten."""

RECENT = 20
"""How many of them tell how reliable a case is, and make a trend."""


def update(ledger: ReliabilityLedger, summary: RunSummary, *, last: int = LAST_RUNS) -> ReliabilityLedger:
    """The ledger with one more run. The history of a case whose fingerprint changed starts anew."""
    number = ledger.runs[-1].number + 1 if ledger.runs else 1
    run = LedgerRun(number=number, commit=summary.commit, at=summary.at, means=dict(summary.means))
    runs = (*ledger.runs, run)[-last:]
    oldest = runs[0].number
    histories = by_case(ledger)
    for tally in summary.cases:
        key = (tally.suite, tally.case_id)
        histories[key] = _continued(histories.get(key), tally, number=number)
    kept = (_since(history, oldest) for _, history in sorted(histories.items()))
    return ReliabilityLedger(runs=runs, cases=tuple(history for history in kept if history.outcomes))


def by_case(ledger: ReliabilityLedger) -> dict[tuple[str, str], CaseHistory]:
    """The histories by suite and case id."""
    return {(history.suite, history.case_id): history for history in ledger.cases}


def judge(outcomes: Sequence[PastOutcome]) -> Reliability:
    """What consecutive outcomes of one case, oldest first, say; usually the `RECENT` last of a history."""
    measured = [outcome for outcome in outcomes if outcome.measured]
    mixed = flips = 0
    before: bool | None = None  # whether all repeats passed, the last time that they agreed
    for outcome in measured:
        agreed = outcome.passes in {0, outcome.measured}
        passed = outcome.passes == outcome.measured
        mixed += not agreed
        flips += agreed and before is not None and passed is not before
        before = passed if agreed else before
    passes = sum(outcome.passes for outcome in measured)
    repeats = sum(outcome.measured for outcome in measured)
    return Reliability(
        base_runs=len(measured),
        passes=passes,
        failures=repeats - passes,
        unmeasured=sum(outcome.runs - outcome.measured for outcome in outcomes),
        pass_rate=passes / repeats if repeats else None,
        mixed_runs=mixed,
        flips=flips,
    )


def is_admitted(history: CaseHistory | None, *, question: str, runs: int, pass_rate: float) -> bool:
    """Whether a case may gate: its last `runs` measured base runs passed at least at `pass_rate`, by the base's own
    criteria. By which criteria it is judged now plays no part, or a change could switch the gate off by raising a bar.

    A case that the base does not have, has with another content, or has measured too rarely may not: nobody knows.
    """
    if history is None or history.question != question:
        return runs <= 0
    measured = [outcome for outcome in history.outcomes if outcome.measured]
    if len(measured) < runs:
        return False
    rate = judge(measured[-runs:] if runs > 0 else ()).pass_rate
    return rate is None or rate >= pass_rate


def trends(ledger: ReliabilityLedger, now: Mapping[str, float], *, recent: int = RECENT) -> tuple[Trend, ...]:
    """How each criterion of this run went in the last base runs, where at least two of them have it.

    `now`: this run's means, in the order of the answer.
    """
    runs = ledger.runs[-recent:]
    found = [
        Trend(
            criterion=name,
            means=tuple(run.means.get(name) for run in runs),
            now=mean,
            since=runs[0].at if runs else "",
            until=runs[-1].at if runs else "",
        )
        for name, mean in now.items()
    ]
    return tuple(each for each in found if sum(mean is not None for mean in each.means) >= 2)


def examine(ledger: ReliabilityLedger, *, recent: int = RECENT) -> Health:
    """How the cases of the newest run stand."""
    newest = ledger.runs[-1].number if ledger.runs else 0
    present = [history for history in ledger.cases if history.outcomes[-1].number == newest]
    last = [history.outcomes[-1] for history in present]
    return Health(
        total=len(present),
        passed=sum(outcome.passes == outcome.runs > 0 for outcome in last),
        unmeasured=sum(outcome.measured < outcome.runs or not outcome.runs for outcome in last),
        flaky=sum(judge(history.outcomes[-recent:]).is_flaky for history in present),
    )


def _continued(history: CaseHistory | None, tally: CaseTally, *, number: int) -> CaseHistory:
    same = history is not None and history.fingerprint == tally.fingerprint
    # a case that a run names twice counts once
    before = [each for each in history.outcomes if each.number < number] if history is not None and same else []
    outcome = PastOutcome(number=number, passes=tally.passes, measured=tally.measured, runs=tally.runs)
    return CaseHistory(
        suite=tally.suite,
        case_id=tally.case_id,
        question=tally.question,
        fingerprint=tally.fingerprint,
        outcomes=(*before, outcome),
    )


def _since(history: CaseHistory, oldest: int) -> CaseHistory:
    if history.outcomes[0].number >= oldest:
        return history
    return CaseHistory(
        suite=history.suite,
        case_id=history.case_id,
        question=history.question,
        fingerprint=history.fingerprint,
        outcomes=tuple(outcome for outcome in history.outcomes if outcome.number >= oldest),
    )
