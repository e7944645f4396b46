"""Which failures are let pass: those that the base has too, that runs do not confirm, and of unreliable cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evalgate import words
from evalgate.gate.pairing import CaseKey
from evalgate.model import Comparison, FailureOrigin, Policy, Run, Standing, ThresholdRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """What the threshold gate knows of the base.

    `origins`: whose failure each failed case is. `excused`: failures that do not block. `unsettled`: failures that a
    spent budget kept from being confirmed; they neither block nor pass. `unreliable`: cases that do not decide.
    """

    origins: Mapping[CaseKey, FailureOrigin] = field(default_factory=dict)
    excused: frozenset[CaseKey] = frozenset()
    unsettled: frozenset[CaseKey] = frozenset()
    unreliable: frozenset[CaseKey] = frozenset()

    def blocking(self, failures: Iterable[CaseKey]) -> frozenset[CaseKey]:
        """The failures that count."""
        return frozenset(failures) - self.excused - self.unsettled

    def in_words(self, failures: Iterable[CaseKey]) -> str:
        """`1 new, 2 pre-existing and 1 flaky`; empty where there is no base."""
        counts = Counter(self.origins[key] for key in failures if key in self.origins)
        return words.listed(f"{counts[origin]} {SAID[origin]}" for origin in FailureOrigin if counts[origin])


SAID: Mapping[FailureOrigin, str] = {
    FailureOrigin.NEW: "new",
    FailureOrigin.KNOWN: "pre-existing",
    FailureOrigin.FLAKY: "flaky",
    FailureOrigin.UNKNOWN: "without a base result",
    FailureOrigin.UNCONFIRMED: "unconfirmed",
}

NONE = Allowances()


def find(
    run: Run, policy: Policy, *, comparison: Comparison | None, unreliable: frozenset[CaseKey] = frozenset()
) -> Allowances:
    """What the comparison lets pass under the policy.

    Under `threshold: new` a failure counts where the base passes the case, or its outcome on the base is not known, or
    the base does not have the case: what a change adds must pass. A case whose question changed has no outcome there.
    """
    if comparison is None or comparison.base is None:
        return Allowances(unreliable=unreliable)
    failures = {(case.suite, case.case_id): case for case in comparison.cases if case.origin is not None}
    origins = {key: case.origin for key, case in failures.items() if case.origin is not None}
    if policy.threshold is not ThresholdRule.NEW:
        return Allowances(origins=origins, unreliable=unreliable)
    cut_short = bool(run.truncated or comparison.base.truncated)
    paired = {key for key, case in failures.items() if case.standing is Standing.PAIRED}
    known = {key for key in paired if origins[key] in (FailureOrigin.KNOWN, FailureOrigin.FLAKY)}
    old = {key for key, case in failures.items() if case.standing is not Standing.NEW}
    unknown = {key for key in old if origins[key] in (FailureOrigin.UNKNOWN, FailureOrigin.UNCONFIRMED)}
    return Allowances(
        origins=origins,
        excused=frozenset(known),
        unsettled=frozenset(unknown) if cut_short else frozenset(),
        unreliable=unreliable,
    )
