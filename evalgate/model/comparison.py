"""The policy, the verdict, and base against head: what changed, by how much, and how sure that
is."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from evalgate.errors import Place
from evalgate.model.case import CriterionUse
from evalgate.model.deviations import OURS, Deviations
from evalgate.model.run import CaseVerdict, Run, VerdictKind
from evalgate.model.trial import CaseKey
from evalgate.values import frozen_dataclass


class FailOn(enum.StrEnum):
    """What can end the job red."""

    THRESHOLD = "threshold"  # cases below their thresholds
    REGRESSION = "regression"  # head is worse than base
    NOT_MEASURED = "not_measured"
    INCONCLUSIVE = "inconclusive"


class ThresholdRule(enum.StrEnum):
    """Which cases below their thresholds fail the gate, if there is a base."""

    CONFIRMED = "confirmed"  # those that fresh runs confirm
    NEW = "new"  # of these, those that do not fail on the base too
    ALL = "all"  # every one, by its first runs


@frozen_dataclass
class CriterionRule:
    """How one criterion is compared with the base; None: as the criterion itself has it.

    `max_drop`: on the criterion's scale 0..1; a share of the base's mean for open scales (tokens,
    seconds, calls)."""

    gating: bool | None = None
    lower_is_better: bool | None = None
    max_drop: float | None = None


@frozen_dataclass
class Policy:
    """The rules of the gate."""

    # ends it red
    fail_on: frozenset[FailOn] = frozenset(
        {FailOn.THRESHOLD, FailOn.REGRESSION, FailOn.NOT_MEASURED}
    )
    pass_rate: float = 1.0  # share of a suite's cases that must pass; 1.0, all, is ADK's meaning
    min_measured: float = 1.0  # share of a suite's cases that must have been measured
    # of suites that have their own
    suite_pass_rate: Mapping[str, float] = field(default_factory=dict)
    # evalgate's rules, or ADK's even where ADK is wrong (docs/adk-parity.md)
    deviations: Deviations = OURS
    alpha: float = 0.05  # how often a change that does nothing may be called worse
    max_drop: float = 0.05  # the drop that is let pass
    threshold: ThresholdRule = ThresholdRule.CONFIRMED
    advisory: frozenset[str] = frozenset()  # suites that are shown and never decide
    criteria: Mapping[str, CriterionRule] = field(default_factory=dict)

    def blocking(self) -> Policy:
        """The same, with `not_measured` blocking: `fail-on` without it is for outages."""
        return replace(self, fail_on=self.fail_on | {FailOn.NOT_MEASURED})


class GateKind(enum.StrEnum):
    """The two questions of the gate."""

    THRESHOLD = "threshold"  # is head good enough?
    REGRESSION = "regression"  # is head worse than base?


class GateCause(enum.StrEnum):
    """Why the regression gate answers as it does."""

    WORSE = "worse"  # the evidence is enough
    NO_EVIDENCE = "no_evidence"
    NO_AGENT = "no_agent"  # the change brings the first one
    NO_BASE = "no_base"
    BASE_FAILED = "base_failed"  # in every run, by its own failures
    BASE_LACKS = "base_lacks"  # scores, by its own failures
    UNPAIRED = "unpaired"  # no case of the base is one of head's
    UNSCORED = "unscored"  # too few scores
    CUT_SHORT = "cut_short"  # by a budget
    APPETITE = "appetite"  # head took so much more than the base that a budget ended
    PAST = "past"  # a drop beside results of another day
    UNDECIDED = "undecided"
    UNTOUCHED = "untouched"  # the change leaves the agent as it is
    ONLY_CASES = "only_cases"  # the same, and it edits evaluation files


@frozen_dataclass
class GateVerdict:
    """The answer to one of the two questions. `blocked_by`: the most severe kind for which the
    policy fails the job, if there is one. It may differ from `kind`: a failure hides nothing.
    `causes`: of the regression gate, in the order to report them; `reason`: the answer in words."""

    gate: GateKind
    kind: VerdictKind
    blocked_by: VerdictKind | None = None
    causes: tuple[GateCause, ...] = ()
    reason: str = ""

    @property
    def blocks(self) -> bool:
        """True if the policy fails the job for it."""
        return self.blocked_by is not None


@frozen_dataclass
class SuiteVerdict:
    """One suite: its cases, and the share of the measured ones that must pass. `beside`: the other
    kinds that occur, behind the reported one."""

    suite: str
    kind: VerdictKind
    cases: tuple[CaseVerdict, ...]
    required_pass_rate: float = 1.0
    reason: str = ""
    advisory: bool = False
    beside: frozenset[VerdictKind] = frozenset()

    def count(self, kind: VerdictKind) -> int:
        """How many cases ended as `kind`."""
        return sum(1 for case in self.cases if case.kind is kind)


@frozen_dataclass
class Verdict:
    """The answer: one kind, one sentence, and the answers that it is made of."""

    kind: VerdictKind
    reason: str = ""
    blocked_by: VerdictKind | None = None  # the most severe of the kinds that end the job red
    suites: tuple[SuiteVerdict, ...] = ()  # the threshold gate's word on every suite and case
    gates: tuple[GateVerdict, ...] = ()
    book: Book | None = None  # the evidence
    # whose failure each failed case is
    origins: Mapping[CaseKey, FailureOrigin] = field(default_factory=dict)
    open: frozenset[CaseKey] = frozenset()  # failures that could not be rerun

    @property
    def blocks(self) -> bool:
        """True if the policy fails the job."""
        return self.blocked_by is not None

    @property
    def cases(self) -> Iterator[CaseVerdict]:
        """Those of all suites."""
        return (case for suite in self.suites for case in suite.cases)

    def count(self, kind: VerdictKind) -> int:
        """How many cases ended as `kind`, over all suites."""
        return sum(suite.count(kind) for suite in self.suites)


class Change(enum.StrEnum):
    """What can be said of a criterion over the cases that both sides ran."""

    REGRESSED = "regressed"  # the evidence is enough
    IMPROVED = "improved"
    NO_EVIDENCE = "no_evidence"  # too little of it, or none
    # nothing may be claimed: the base is of another day, or failed by itself
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not_measured"  # too few cases have a score on both sides


class CaseStatus(enum.StrEnum):
    """How a case relates to the base."""

    PAIRED = "paired"  # the same question on both sides
    NEW = "new"  # base's evaluation files do not have it; it may still have been run on both sides
    CHANGED = "changed"  # base's results are of another content of the case
    REMOVED = "removed"  # only base has it


class FailureOrigin(enum.StrEnum):
    """Whose failure a case below its threshold is."""

    NEW = "new"  # the base passes
    KNOWN = "known"  # the base fails it too
    MIXED = "mixed"  # outcomes differ within a side
    FLAKY = "flaky"  # fresh runs did not confirm it
    UNKNOWN = "unknown"  # the base's outcome is not known
    UNCONFIRMED = "unconfirmed"  # too few fresh runs could be measured to tell


@frozen_dataclass
class Interval:
    """Both ends of a 95% interval."""

    low: float
    high: float


@frozen_dataclass
class CaseOutcome:
    """One side's trials of one case by outcome, and the threshold gate's word on the case.

    A trial passes when every deciding criterion reaches its threshold; `unmeasured` ones have no
    score."""

    passed: int
    failed: int
    unmeasured: int
    kind: VerdictKind

    @property
    def mixed(self) -> bool:
        """True if repeats of the same side ended differently."""
        return self.passed > 0 and self.failed > 0


@frozen_dataclass
class Divergence:
    """Where two conversations of one simulated user part, by turns counted from 1.

    `answers`: the first turn in which the user hears different things of the two agents; None: it
    never does. `users`: the first turn in which the user says different things, or speaks on one
    side alone; None: it says the same to the end."""

    answers: int | None = None
    users: int | None = None


@frozen_dataclass
class Reruns:
    """Fresh runs of a case that failed: how many passed, of those that could be measured, on head
    and on the base."""

    passed: int
    runs: int
    base_passed: int = 0
    base_runs: int = 0


@frozen_dataclass
class CaseComparison:
    """One case on both sides.

    `origin`: whose failure it is; None if head does not fail. `newly`: the criteria that head fails
    and the base passes; empty if only the case as a whole changed. `reruns`: fresh runs to confirm
    a failure. `evidence`: what the bets on it made of 1. `why`: the reason why it cannot be
    compared. `divergence`: between the conversations of a simulated user, in the first repeat that
    both sides have. `quarantined`: it is reported separately, and not counted elsewhere."""

    suite: str
    case_id: str
    status: CaseStatus
    head: CaseOutcome | None = None
    base: CaseOutcome | None = None
    origin: FailureOrigin | None = None
    newly: tuple[str, ...] = ()
    reruns: Reruns | None = None
    evidence: float = 1.0
    why: str = ""
    divergence: Divergence | None = None
    quarantined: bool = False

    @property
    def key(self) -> CaseKey:
        """Its suite and its name."""
        return self.suite, self.case_id

    @property
    def mixed(self) -> bool:
        """True if outcomes differ within a side, or reruns do not confirm a failure."""
        varies = any(side is not None and side.mixed for side in (self.head, self.base))
        return not self.quarantined and (varies or self.origin is FailureOrigin.FLAKY)

    @property
    def broken(self) -> bool:
        """Base passes, head fails, and not by accident."""
        kinds = (self.base and self.base.kind, self.head and self.head.kind)
        is_told = self.quarantined or self.origin in (FailureOrigin.MIXED, FailureOrigin.FLAKY)
        return kinds == (VerdictKind.PASS, VerdictKind.FAIL) and not is_told

    @property
    def fixed(self) -> bool:
        """Base fails, head passes."""
        kinds = (self.base and self.base.kind, self.head and self.head.kind)
        return kinds == (VerdictKind.FAIL, VerdictKind.PASS) and not self.quarantined


@frozen_dataclass
class AppliedRule:
    """How a criterion was compared.

    `gating` False: shown, never decides. `advisory`: of the suites and cases that never decide.
    `floor`: the drop that the policy tolerates, absolute."""

    gating: bool
    lower_is_better: bool
    floor: float
    advisory: bool = False


@frozen_dataclass
class ComparedCases:
    """Numbers of cases: `compared` have a score on both sides; `unpaired` were to be compared and
    lack a score on either side; `broken`, `fixed`: pass the criterion on base alone, and on head
    alone."""

    compared: int
    unpaired: int = 0
    broken: int = 0
    fixed: int = 0


@frozen_dataclass
class CriterionComparison:
    """One criterion over the paired cases of all suites of one severity.

    `base`, `head`: the means of the cases' means; None if no case has a score on both sides.
    `evidence`: what bets on this criterion alone made of 1. `clock_based`: read from a clock, and
    the sides did not run together. `short`: too little of it was measured, whatever else is
    reported. `base_failed`: too little, and only because the base's agent failed by itself."""

    name: str
    rule: AppliedRule
    change: Change
    cases: ComparedCases
    base: float | None = None
    head: float | None = None
    evidence: float = 1.0
    clock_based: bool = False
    short: bool = False
    base_failed: bool = False

    @property
    def delta(self) -> float | None:
        """head - base on the criterion's own scale; None where either is unknown."""
        return None if self.head is None or self.base is None else self.head - self.base

    @property
    def drop(self) -> float | None:
        """How much worse head is; negative if it is better."""
        if self.delta is None:
            return None
        return self.delta if self.rule.lower_is_better else -self.delta


@frozen_dataclass
class PassRates:
    """One side over its cases: the share of runs that pass, pass^k and pass@k (all of k runs pass,
    one does)."""

    k: int
    rate: float
    all_of_k: float
    any_of_k: float


class Cell(enum.IntEnum):
    """How a pair of runs came out: the base passes more criteria than head, head more than the
    base, both all, or neither."""

    FELL = 0
    ROSE = 1
    PASSED = 2
    FAILED = 3


@frozen_dataclass
class Bet:
    """One bet that was made: how its pair came out, and what the purse held after it."""

    key: CaseKey
    cell: Cell
    worth: float


class Confirmation(enum.StrEnum):
    """What is known of a case that fails by its first runs."""

    BROKEN = "broken"  # the base passes, and the bets on it say that head does not
    FAILING = "failing"  # head fails, whatever the base does
    FLAKY = "flaky"  # head passes in fresh runs
    OPEN = "open"  # nobody looked, or not to the end
    LOST = "lost"  # its fresh runs could not be measured


@frozen_dataclass
class Book:
    """What the bets of a run came to.

    `worse`, `better`, `failing`: what each purse made of 1; at `needed` it speaks. `bets`: those
    that head is worse, in their order. `factors`: what the bets on each case made of 1.
    `confirmations`: of each case that fails and could be run again. `on_both`: suspects that failed
    on both sides in fresh runs."""

    needed: float = 20.0
    worse: float = 1.0
    better: float = 1.0
    failing: float = 1.0
    bets: tuple[Bet, ...] = ()
    factors: Mapping[CaseKey, float] = field(default_factory=dict)
    confirmations: Mapping[CaseKey, Confirmation] = field(default_factory=dict)
    on_both: frozenset[CaseKey] = frozenset()

    @property
    def is_worse(self) -> bool:
        """True if head is worse than the base."""
        return self.worse >= self.needed

    @property
    def is_failing(self) -> bool:
        """True if more cases fail by themselves than their suites allow."""
        return self.failing >= self.needed


@frozen_dataclass
class Power:
    """What a green could not have seen: pull requests like this one, simulated.

    `cases`: how many were compared. `caught`: for so many cases that break, the share of simulated
    pull requests that are blocked. `unseen`: the cases that could break without being noticed more
    often than not."""

    cases: int
    caught: tuple[tuple[int, float], ...] = ()
    unseen: tuple[CaseKey, ...] = ()


@frozen_dataclass
class Drift:
    """A change in how the base branch's unchanged agent behaves: its model, a judge or a service
    changed.

    `since`: the start of the first run that differs, ISO 8601, UTC. `before`, `after`: shares of
    runs that passed. `evidence`: what the bets made of 1."""

    since: str
    before: float
    after: float
    evidence: float = 0.0


class BaseSource(enum.StrEnum):
    """The source of the base's results."""

    RERUN = "rerun"  # its code was checked out and run
    STORE = "store"  # results of an earlier run
    MIXED = "mixed"  # some were stored, the rest was run
    FILE = "file"  # a results.json that somebody named


@frozen_dataclass
class BaseOrigin:
    """Which base, and how its results came to be.

    `found_by`: merge-base, base, given. `measured_at`: ISO 8601, UTC. `distance`: commits between
    the stored results and the wanted base. `reused`, `run`: trials taken from the store, and trials
    run now. `notes`: what a reader must know (stale results, another model answered)."""

    source: BaseSource
    commit: str = ""
    found_by: str = ""
    measured_at: str = ""
    age_days: float | None = None
    distance: int | None = None
    reused: int = 0
    run: int = 0
    notes: tuple[str, ...] = ()


class EditKind(enum.StrEnum):
    """What a change may edit of that by which it is judged."""

    RULE = "rule"  # decides: the change's is asked, and the base's
    FILE = "file"  # says how is measured, which is done once
    CASE_REMOVED = "case_removed"
    CASE_CHANGED = "case_changed"
    SUITE_REMOVED = "suite_removed"


@frozen_dataclass
class GateEdit:
    """One edit: of a rule `subject` with its values in words, of a file with the lines that differ,
    of what a case expects."""

    kind: EditKind
    subject: str
    suite: str = ""
    base: str = ""
    head: str = ""
    lines: tuple[str, ...] = ()
    place: Place | None = None


@frozen_dataclass
class Edits:
    """What a change edits of that by which it is judged.

    `decide`: whether the change passes by one of both rule books alone, its own and the base's.
    `by_base`: the base's decided. `unasked`: criteria of the base's that nobody asked."""

    edits: tuple[GateEdit, ...] = ()
    decide: bool = False
    by_base: bool = False
    unasked: tuple[str, ...] = ()

    def rules(self) -> tuple[GateEdit, ...]:
        """Those of rules that decide."""
        return tuple(edit for edit in self.edits if edit.kind is EditKind.RULE)


@frozen_dataclass
class RuleBook:
    """By what one side decides: the policy, and the criteria of each suite."""

    policy: Policy
    criteria: Mapping[str, tuple[CriterionUse, ...]] = field(default_factory=dict)

    def divided(self, parts: int) -> RuleBook:
        """The same with a part of the money, so that it takes as many times the evidence."""
        return RuleBook(
            policy=replace(self.policy, alpha=self.policy.alpha / parts), criteria=self.criteria
        )

    def applied(self, run: Run) -> Run:
        """The run, as this book asks about it."""
        if not self.criteria:
            return run
        suites = (
            replace(suite, criteria=self.criteria.get(suite.key, suite.criteria))
            for suite in run.suites
        )
        return replace(run, suites=tuple(suites), earlier_verdicts={})


@frozen_dataclass
class Comparison:
    """Head compared with base. Values from both runs are empty if there is nothing to compare
    with."""

    origin: BaseOrigin
    base: Run | None = None  # None: `problem` says why there are no results of it
    problem: str = ""  # why there is nothing to compare with
    # because the base has no agent yet, so nothing that could have become worse
    no_agent: bool = False
    # because the base does not work by its own settings, which the change did not do
    base_failed: bool = False
    cases: tuple[CaseComparison, ...] = ()
    criteria: tuple[CriterionComparison, ...] = ()
    overall: CriterionComparison | None = None  # trials that pass every criterion; it never decides
    head_rates: PassRates | None = None
    base_rates: PassRates | None = None
    power: Power | None = None
    book: Book = Book()  # the bets
    # suites whose agent is the same on both sides, whose results are those of both
    unchanged: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()  # files that the change edits, and that no agent opened
    # cases of these suites that the change adds, or asks or judges otherwise
    edited: tuple[CaseKey, ...] = ()
    # cases are worse than results of another time, for which the base was not run again
    is_past: bool = False
    # head's, by head's thresholds; not of files
    decided: Mapping[CaseKey, CaseVerdict] = field(default_factory=dict)
    # the base's, the same
    base_decided: Mapping[CaseKey, CaseVerdict] = field(default_factory=dict)

    def is_untouched(self, run: Run) -> bool:
        """True if the change touches no suite's agent in the run."""
        return bool(self.unchanged) and {suite.key for suite in run.suites} <= set(self.unchanged)
