"""All cases of two runs, paired: how each ended, and who caused its failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalgate.comparison import book as comparison_book, divergence, pairing
from evalgate.comparison.book import ScoredSide, Sides
from evalgate.model import (
    Book,
    CaseComparison,
    CaseKey,
    CaseOutcome,
    CaseStatus,
    Confirmation,
    Divergence,
    FailureOrigin,
    Suite,
    VerdictKind,
)
from evalgate.values import Sentence, Wording


def comparisons_of(sides: Sides) -> tuple[CaseComparison, ...]:
    """Every case of head in its order, then the cases that only the base has."""
    simulated_suites = {
        (suite.key, case.case_id): suite
        for suite in sides.head.suites
        for case in suite.cases
        if case.scenario is not None
    }
    base_only_cases = (
        CaseComparison(suite=suite, case_id=case_id, status=status, why=_unpaired(status))
        for (suite, case_id), status in sides.unpaired.items()
        if (suite, case_id) not in sides.uses
    )
    return (*(_case(sides, key, simulated_suites.get(key)) for key in sides.uses), *base_only_cases)


def _case(sides: Sides, key: CaseKey, simulated_suite: Suite | None) -> CaseComparison:
    """Compare one case. `simulated_suite`: its suite, if the case has a simulated user."""
    head_side, base_side = sides.scored_sides
    book = sides.book_and_reruns[0]
    status = sides.unpaired.get(key, CaseStatus.PAIRED)
    # a base result for another question, or for no question, is not an outcome of this case
    head = _outcome(head_side, key)
    base = _outcome(base_side, key) if status is CaseStatus.PAIRED else None
    new_failures: tuple[str, ...] = ()
    # a case that failed all along can fail in a new way
    if base is not None and head.kind is VerdictKind.FAIL:
        broken_kinds = (VerdictKind.FAIL, VerdictKind.PASS)
        names = [use.name for use in pairing.deciding(sides.uses[key])]
        new_failures = tuple(
            name
            for name in names
            if (head_side.kind(key, name), base_side.kind(key, name)) == broken_kinds
        )
    is_missing_on_base = status is CaseStatus.PAIRED and not base_side.trials.get(key)
    return CaseComparison(
        suite=key[0],
        case_id=key[1],
        status=status,
        head=head,
        base=base,
        origin=origin_of(key, head, base, new_failures, book),
        newly=new_failures,
        reruns=comparison_book.reruns_of(sides, key),
        evidence=book.factors.get(key, 1.0),
        why=Sentence("case_not_on_base") if is_missing_on_base else _unpaired(status),
        divergence=None if simulated_suite is None else _divergence(sides, key, simulated_suite),
        quarantined=key in sides.informational,
    )


def _unpaired(status: CaseStatus) -> Wording:
    return "" if status is CaseStatus.PAIRED else Sentence("case_status", status)


def _outcome(side: ScoredSide, key: CaseKey) -> CaseOutcome:
    """Count a case's trials by the deciding criteria. Trials that never ran count as unmeasured."""
    uses = pairing.deciding(side.uses[key])
    outcomes = [
        pairing.passes(pairing.pattern_of(trial, uses)) for trial in side.trials.get(key, ())
    ]
    outcomes += [None] * (side.run.repeats - len(outcomes))
    return CaseOutcome(
        passed=outcomes.count(True),
        failed=outcomes.count(False),
        unmeasured=outcomes.count(None),
        kind=side.verdicts[key].kind,
    )


def _divergence(sides: Sides, key: CaseKey, suite: Suite) -> Divergence | None:
    """Where the conversations of a simulated user diverge, in the first repeat that both sides
    have."""
    for trial in sides.scored_sides[0].trials.get(key, ()):
        head, base = (side.run.transcripts(trial.key) for side in sides.scored_sides)
        if head is not None and base is not None:
            hears_calls = suite.simulator.include_function_calls
            return divergence.compare(base.invocations, head.invocations, hears_calls=hears_calls)
    return None


def origin_of(
    key: CaseKey,
    head: CaseOutcome,
    base: CaseOutcome | None,
    new_failures: Sequence[str],
    book: Book,
) -> FailureOrigin | None:
    """The origin of a case's failure. None if head does not fail, or only crashed without a known
    origin.

    The reruns decide. Without reruns, the first runs of both sides decide."""
    confirmation = book.confirmations.get(key)
    is_confirmed = confirmation in (Confirmation.FLAKY, Confirmation.BROKEN)
    if head.kind is not VerdictKind.FAIL and not is_confirmed:
        return None
    if confirmation in OF_RERUNS:
        return OF_RERUNS[confirmation]
    if base is None or not (base.passed + base.failed or new_failures):
        return FailureOrigin.UNKNOWN
    is_new = base.passed > base.failed or bool(new_failures)
    is_new = is_new and key not in book.on_both
    if confirmation is Confirmation.OPEN and is_new and not book.is_worse:
        # once head is certainly worse, no further suspect is rerun
        return FailureOrigin.UNCONFIRMED
    if (confirmation is None and (head.mixed or base.mixed)) or (
        is_new and head.passed >= head.failed > 0
    ):
        return FailureOrigin.MIXED
    return FailureOrigin.NEW if is_new else FailureOrigin.KNOWN


OF_RERUNS: Mapping[Confirmation | None, FailureOrigin] = {
    Confirmation.FLAKY: FailureOrigin.FLAKY,
    Confirmation.BROKEN: FailureOrigin.NEW,
    Confirmation.LOST: FailureOrigin.UNCONFIRMED,
}
