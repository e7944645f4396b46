"""How a suite's cases ended, in numbers, and what that makes of the suite."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from evalgate.gate.pairing import CaseKey
from evalgate.model import CaseVerdict, VerdictKind
from evalgate.text import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How a suite's cases ended. `excused` failures are among `passed`; `unrun`: a budget kept them from running;
    `doubtful` ones are below a threshold in the completed runs, `partial` ones fail and are not measured whole either.
    """

    total: int
    passed: int
    failed: int
    unrun: int
    doubtful: int
    partial: int
    excused: int

    @property
    def measured(self) -> int:
        """Cases that passed or failed."""
        return self.passed + self.failed

    def enough(self, *, required: float, min_measured: float) -> bool:
        """Whether what was measured is enough, and passes."""
        measured = self.measured
        return (
            measured > 0
            and measured >= _needed(self.total, min_measured)
            and self.passed >= _needed(measured, required)
        )


def count(cases: Sequence[CaseVerdict], *, excused: Collection[CaseKey] = ()) -> Counts:
    """The counts of a suite's cases."""
    own = [case for case in cases if (case.suite, case.case_id) not in excused]
    failed = sum(case.kind is VerdictKind.FAIL for case in own)
    return Counts(
        total=len(cases),
        passed=sum(case.kind in (VerdictKind.PASS, VerdictKind.FAIL) for case in cases) - failed,
        failed=failed,
        unrun=sum(case.kind is VerdictKind.INCONCLUSIVE for case in cases),
        doubtful=sum(case.doubtful for case in own),
        partial=sum(case.partial for case in own),
        excused=len(excused),
    )


def judge(  # noqa: PLR0911 - a row each
    counts: Counts, *, required: float, min_measured: float
) -> tuple[VerdictKind, str]:
    """A suite's kind from its cases: the pass rate among the measured, where enough was measured.

    Fails for certain, however the unmeasured would have ended, come first: an outage does not hide a failure. Excused
    failures count as passes. Cases that a budget kept from running are inconclusive. `min_measured` lets cases pass of
    which nothing is known, never those of which something bad is.
    """
    total, failed, passed, unrun, measured = counts.total, counts.failed, counts.passed, counts.unrun, counts.measured
    if total == 0:
        return VerdictKind.NOT_MEASURED, "no case"
    if total - failed < _needed(total, required):
        return VerdictKind.FAIL, f"{failed} of {total:,} cases failed"
    if measured + unrun == 0 or measured + unrun < _needed(total, min_measured):
        return VerdictKind.NOT_MEASURED, f"{total - measured} of {total:,} cases could not be evaluated"
    if unrun and not counts.enough(required=required, min_measured=min_measured):
        return VerdictKind.INCONCLUSIVE, f"{unrun} of {total:,} cases did not finish"
    if passed < _needed(measured, required):
        return VerdictKind.FAIL, f"{passed} of {measured} measured cases passed, {words.percent(required)} required"
    if counts.doubtful:
        doubtful = words.counted(counts.doubtful, "case")
        return VerdictKind.NOT_MEASURED, f"{doubtful} below a threshold, but not fully evaluated"
    return VerdictKind.PASS, f"{words.counted(counts.excused, 'failure')} allowed" if counts.excused else ""


def beside(counts: Counts, *, required: float, min_measured: float) -> frozenset[VerdictKind]:
    """What is wrong with a suite apart from its failures: a failure more never takes anything out of it."""
    whole = counts.measured - counts.partial + counts.unrun
    kinds = set()
    if whole < _needed(counts.total, min_measured) or counts.doubtful:
        kinds.add(VerdictKind.NOT_MEASURED)
    if counts.unrun and not counts.enough(required=required, min_measured=min_measured):
        kinds.add(VerdictKind.INCONCLUSIVE)
    return frozenset(kinds)


def _needed(total: int, share: float) -> int:
    # 0.7 * 10 is 7.000000000000001 in floats: the dust must not ask for an eighth case
    return math.ceil(round(total * share, 9))
