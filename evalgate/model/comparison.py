"""The policy, the verdict, and the comparison of head with the base."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated

from pydantic import BaseModel, Field, PlainSerializer

from evalgate.errors import Place
from evalgate.values import Wording, frozen_dataclass
from .case import CriterionUse
from .conversation import Content, Invocation, ToolCall, ToolResponse
from .deviations import OURS, Deviations
from .run import CaseVerdict, Exemption, Run, VerdictKind
from .trial import CaseKey

SORTED = PlainSerializer(sorted)
"""Equal sets are written alike."""


class FailOn(enum.StrEnum):
    """Results that can fail the job."""

    THRESHOLD = "threshold"
    """Cases below their thresholds."""
    REGRESSION = "regression"
    """Head is worse than the base."""
    NOT_MEASURED = "not_measured"
    """Something could not be evaluated."""
    INCONCLUSIVE = "inconclusive"
    """There is not enough data."""


class ThresholdRule(enum.StrEnum):
    """Which cases below their thresholds fail the gate, if there is a base."""

    CONFIRMED = "confirmed"
    """Failures that reruns confirm."""
    NEW = "new"
    """Of these, failures that the base does not have."""
    ALL = "all"
    """All failures, by first runs."""


class CriterionRule(BaseModel, extra="forbid", frozen=True):
    """The comparison of one criterion with the base. Missing keys use the criterion's own
    values.

    `max_drop`: on the criterion's scale 0..1; a share of the base's mean for open scales (tokens,
    seconds, calls)."""

    gating: bool | None = Field(default=None, description="A drop against the base fails the gate.")
    lower_is_better: bool | None = Field(
        default=None, description="For costs, such as tokens, calls and seconds."
    )
    max_drop: float | None = Field(
        default=None, ge=0, description="Instead of the setting `max-drop`."
    )


@frozen_dataclass
class Policy:
    """The rules of the gate."""

    fail_on: Annotated[frozenset[FailOn], SORTED] = frozenset(
        {FailOn.THRESHOLD, FailOn.REGRESSION, FailOn.NOT_MEASURED}
    )
    """The results that fail the job."""
    pass_rate: float = 1.0
    """Share of a suite's cases that must pass; 1.0 (all), as in ADK."""
    min_measured: float = 1.0
    """Share of a suite's cases that must be measured."""
    suite_pass_rate: Mapping[str, float] = field(default_factory=dict)
    """Pass rates of suites with their own."""
    deviations: Deviations = OURS
    """Our rules, or ADK's even where ADK is wrong (docs/adk-parity.md)."""
    alpha: float = 0.05
    """How often a change without effect may be called worse."""
    max_drop: float = 0.05
    """The tolerated drop."""
    threshold: ThresholdRule = ThresholdRule.CONFIRMED
    """Which failures count."""
    advisory: Annotated[frozenset[str], SORTED] = frozenset()
    """Suites that are shown and never decide."""
    exemptions: Mapping[CaseKey, Exemption] = field(default_factory=dict)
    """Cases that are shown and never decide."""
    criteria: Mapping[str, CriterionRule] = field(default_factory=dict)
    """Rules of `compare` in evalgate.yml, by criterion."""

    def blocks(self, key: CaseKey) -> bool:
        """True if the case may block: its suite is not advisory, and it is not listed."""
        return key[0] not in self.advisory and key not in self.exemptions

    def blocking(self) -> Policy:
        """The policy with `not_measured` blocking: `fail-on` without it is meant for outages."""
        return replace(self, fail_on=self.fail_on | {FailOn.NOT_MEASURED})

    def with_exemptions(self, exemptions: Mapping[CaseKey, Exemption]) -> Policy:
        """The policy with other cases that never decide."""
        return replace(self, exemptions=exemptions)


class GateKind(enum.StrEnum):
    """The two questions of the gate."""

    THRESHOLD = "threshold"
    """Is head good enough?"""
    REGRESSION = "regression"
    """Is head worse than the base?"""


class GateCause(enum.StrEnum):
    """Why the regression gate has its verdict."""

    WORSE = "worse"
    """There is enough evidence that head is worse."""
    NO_EVIDENCE = "no_evidence"
    """Enough was compared, and it does not show that head is worse."""
    NO_AGENT = "no_agent"
    """The change adds the first agent."""
    NO_BASE = "no_base"
    """There are no results of a base."""
    BASE_FAILED = "base_failed"
    """The base failed in every run, by its own failures."""
    BASE_LACKS = "base_lacks"
    """The base lacks scores because of its own failures."""
    UNPAIRED = "unpaired"
    """The sides have no common cases."""
    UNSCORED = "unscored"
    """Too few cases have scores on both sides."""
    CUT_SHORT = "cut_short"
    """A budget ended the run."""
    APPETITE = "appetite"
    """Head used so much more than the base that a budget ended."""
    PAST = "past"
    """There is a drop, compared with results of another day."""
    UNDECIDED = "undecided"
    UNTOUCHED = "untouched"
    """The change does not edit the agent."""
    ONLY_CASES = "only_cases"
    """The change edits only evaluation files."""


@frozen_dataclass
class GateVerdict:
    """The answer to one of the two questions."""

    gate: GateKind
    kind: VerdictKind
    """The most severe result."""
    blocked_by: VerdictKind | None = None
    """The most severe kind for which the policy fails the job, if any. It may differ from `kind`,
    because a failure hides no other result."""
    causes: tuple[GateCause, ...] = ()
    """Of the regression gate, in the order of the report."""
    reason: Wording = ""
    """The answer in words."""

    @property
    def blocks(self) -> bool:
        """True if the policy fails the job because of it."""
        return self.blocked_by is not None


@frozen_dataclass
class SuiteVerdict:
    """One suite: its cases, and the share of measured cases that must pass."""

    suite: str
    """Its key."""
    kind: VerdictKind
    cases: tuple[CaseVerdict, ...]
    required_pass_rate: float = 1.0
    """The share of its measured cases that must pass."""
    reason: Wording = ""
    """In words; "" for a plain pass."""
    advisory: bool = False
    """True if it is shown and never decides."""
    lesser_kinds: frozenset[VerdictKind] = frozenset()
    """Further kinds, less important than `kind`."""


@frozen_dataclass
class Verdict:
    """The overall verdict: one kind, one sentence, and the verdicts that it is made of."""

    kind: VerdictKind
    """The most severe kind of its gates."""
    reason: Wording = ""
    """The verdict in one or more sentences."""
    blocked_by: VerdictKind | None = None
    """The most severe kind that fails the job."""
    suites: tuple[SuiteVerdict, ...] = ()
    """The threshold gate's verdicts on every suite and case."""
    gates: tuple[GateVerdict, ...] = ()
    """The threshold gate, then the regression gate if there is a base."""
    book: Book | None = None
    """The evidence."""
    origins: Mapping[CaseKey, FailureOrigin] = field(default_factory=dict)
    """The origin of each failure."""
    open: frozenset[CaseKey] = frozenset()
    """Failures that could not be rerun."""

    @property
    def blocks(self) -> bool:
        """True if the policy fails the job."""
        return self.blocked_by is not None

    @property
    def cases(self) -> Iterator[CaseVerdict]:
        """The cases of all suites."""
        return (case for suite in self.suites for case in suite.cases)


class Change(enum.StrEnum):
    """The result for a criterion over the cases that both sides ran."""

    REGRESSED = "regressed"
    """There is enough evidence of a drop."""
    IMPROVED = "improved"
    """There is enough evidence of a rise."""
    NO_EVIDENCE = "no_evidence"
    """There is too little evidence, or none."""
    INCONCLUSIVE = "inconclusive"
    """No claim is possible: the base ran on another day, or failed by itself."""
    NOT_MEASURED = "not_measured"
    """Too few cases have a score on both sides."""


class Lack(enum.StrEnum):
    """What a criterion lacks for a sure result."""

    CLOCK = "clock"
    """It is read from a clock, and the sides did not run together."""
    SCORES = "scores"
    """Too few scores on both sides."""
    RUNS = "runs"
    """Too few runs: a budget ended, or all runs of a side crashed."""
    BASE_FAILED = "base_failed"
    """Too few scores, only because the base's agent failed by itself."""
    PAST = "past"
    """A base that ran on the same day."""


class CaseStatus(enum.StrEnum):
    """How a case relates to the base."""

    PAIRED = "paired"
    """The same case on both sides."""
    NEW = "new"
    """Not in the base's evaluation files; it may still have run on both sides."""
    CHANGED = "changed"
    """The base's results are of another version of the case."""
    REMOVED = "removed"
    """Only on the base."""


class FailureOrigin(enum.StrEnum):
    """The origin of a failed case."""

    NEW = "new"
    """The base passes."""
    KNOWN = "known"
    """The case also fails on the base."""
    MIXED = "mixed"
    """Outcomes differ within a side."""
    FLAKY = "flaky"
    """Reruns do not confirm the failure."""
    UNKNOWN = "unknown"
    """The base's result is unknown."""
    UNCONFIRMED = "unconfirmed"
    """Too few reruns could be measured."""


@frozen_dataclass
class CaseOutcome:
    """One side's trials of one case by outcome, and the threshold gate's verdict on the case."""

    passed: int
    """Trials in which every deciding criterion reaches its threshold."""
    failed: int
    """Trials in which a deciding criterion is below its threshold."""
    unmeasured: int
    """Trials without a score, and trials that did not run."""
    kind: VerdictKind
    """The threshold gate's verdict on the case."""

    @property
    def mixed(self) -> bool:
        """True if repeats on the same side had different outcomes."""
        return self.passed > 0 and self.failed > 0


@frozen_dataclass
class Divergence:
    """Where two conversations of one simulated user diverge, by turns counted from 1."""

    answers: int | None = None
    """The first turn in which the agents' answers to the user differ; None if none does."""
    users: int | None = None
    """The first turn in which the user's messages differ, or that only one side has; None if none
    does."""


def divergence(
    base: Sequence[Invocation], head: Sequence[Invocation], *, hears_calls: bool
) -> Divergence | None:
    """The first turns that differ; None if both sides had the same conversation.

    `hears_calls`: the user also sees tool calls and their results (`include_function_calls`). Both
    users start with the same prompt, seed and stored replies, so their messages are the same until
    the agents' answers differ. After that turn, turns of the same number are no longer
    comparable."""
    pairs = tuple(zip(base, head, strict=False))
    answer_turn = user_turn = None
    for number, (base_turn, head_turn) in enumerate(pairs, 1):
        if _content_text(base_turn.user_content) != _content_text(head_turn.user_content):
            user_turn = number
            break
        if answer_turn is None and _heard(base_turn, with_calls=hears_calls) != _heard(
            head_turn, with_calls=hears_calls
        ):
            answer_turn = number
    if user_turn is None and len(base) != len(head):
        user_turn = len(pairs) + 1
    return (
        None
        if answer_turn is None and user_turn is None
        else Divergence(answers=answer_turn, users=user_turn)
    )


def _heard(turn: Invocation, *, with_calls: bool) -> tuple[object, ...]:
    """The part of a turn that the user hears: the agents' texts without thoughts, and tool calls
    with their results if `with_calls`. A final response that repeats the last event's text counts
    once."""
    event_texts = (_content_text(event.content) for event in turn.steps)
    texts = [text for text in event_texts if text]
    final_text = _content_text(turn.final_response)
    if final_text and (not texts or texts[-1] != final_text):
        texts.append(final_text)
    return (*texts, *(_steps(turn) if with_calls else ()))


def _steps(turn: Invocation) -> Iterator[tuple[object, ...]]:
    """The tool calls of a turn and their results."""
    for part in turn.parts():
        match part:
            case ToolCall():
                yield "called", part.name, dict(part.arguments)
            case ToolResponse():
                yield "gave", part.name, part.response


def _content_text(content: Content | None) -> str:
    """The text of the content; "" if there is none."""
    return content.text() if content is not None else ""


@frozen_dataclass
class Reruns:
    """Reruns of a failed case: the number that passed, of those that could be measured, on head and
    on the base."""

    passed: int
    """Reruns on head that passed."""
    runs: int
    """Reruns on head that could be measured."""
    base_passed: int = 0
    """Reruns on the base that passed."""
    base_runs: int = 0
    """Reruns on the base that could be measured."""


@frozen_dataclass
class CaseSides:
    """The outcomes of one case on both sides."""

    suite: str
    """Its key."""
    case_id: str
    status: CaseStatus
    head: CaseOutcome | None = None
    """None if only the base has the case."""
    base: CaseOutcome | None = None
    """None if there is no result for the same case."""


@frozen_dataclass
class CaseComparison(CaseSides):
    """One case on both sides, and where its failure comes from."""

    origin: FailureOrigin | None = None
    """The origin of its failure; None if head does not fail."""
    newly: tuple[str, ...] = ()
    """The criteria that head fails and the base passes; empty if only the case as a whole
    changed."""
    reruns: Reruns | None = None
    """Runs to confirm a failure."""
    evidence: float = 1.0
    """The factor of its bets, from 1."""
    why: Wording = ""
    """Why it cannot be compared."""
    listed: bool = False
    """True if it is reported separately, and not counted elsewhere."""

    @property
    def key(self) -> CaseKey:
        """Its suite and its name."""
        return self.suite, self.case_id

    @property
    def mixed(self) -> bool:
        """True if outcomes differ within a side, or reruns do not confirm a failure."""
        varies = any(side is not None and side.mixed for side in (self.head, self.base))
        return not self.listed and (varies or self.origin is FailureOrigin.FLAKY)

    @property
    def broken(self) -> bool:
        """True if the base passes and head fails, and reruns or repeats do not contradict it."""
        kinds = (self.base and self.base.kind, self.head and self.head.kind)
        is_excluded = self.listed or self.origin in (FailureOrigin.MIXED, FailureOrigin.FLAKY)
        return kinds == (VerdictKind.PASS, VerdictKind.FAIL) and not is_excluded

    @property
    def fixed(self) -> bool:
        """True if the base fails and head passes."""
        kinds = (self.base and self.base.kind, self.head and self.head.kind)
        return kinds == (VerdictKind.FAIL, VerdictKind.PASS) and not self.listed


@frozen_dataclass
class AppliedRule:
    """How a criterion was compared."""

    gating: bool
    """False if it is shown and never decides."""
    lower_is_better: bool
    """True for costs, such as tokens: a rise is worse."""
    floor: float
    """The tolerated drop, absolute."""
    advisory: bool = False
    """True for suites and cases that never decide."""


@frozen_dataclass
class ComparedCases:
    """Numbers of cases."""

    compared: int
    """With a score on both sides."""
    unpaired: int = 0
    """To be compared, but without a score on a side."""
    broken: int = 0
    """Passing the criterion only on the base."""
    fixed: int = 0
    """Passing the criterion only on head."""


@frozen_dataclass
class CriterionComparison:
    """One criterion over the paired cases of all suites of one severity."""

    name: str
    rule: AppliedRule
    """How it was compared."""
    change: Change
    cases: ComparedCases
    base: float | None = None
    """The mean of the cases' means; None if no case has a score on both sides."""
    head: float | None = None
    """The same for head."""
    evidence: float = 1.0
    """The factor of bets on this criterion alone, from 1."""
    lack: Lack | None = None
    """What it lacks for a sure result, also if it is reported as regressed."""

    @property
    def delta(self) -> float | None:
        """head - base on the criterion's own scale; None if either is unknown."""
        return None if self.head is None or self.base is None else self.head - self.base

    @property
    def drop(self) -> float | None:
        """How much worse head is; negative if it is better."""
        if self.delta is None:
            return None
        return self.delta if self.rule.lower_is_better else -self.delta


@frozen_dataclass
class PassRates:
    """The rates of one side: the share of a case's runs that pass, pass^k (all of k runs pass) and
    pass@k (at least one of k passes), as means over `cases`."""

    cases: int
    """The number of cases."""
    k: int
    """The fewest runs of a case."""
    rate: float
    """The share of a case's runs that pass."""
    all_of_k: float
    """pass^k: the chance that k runs of a case all pass."""
    any_of_k: float
    """pass@k: the chance that at least one of k runs passes."""


class Cell(enum.IntEnum):
    """The result of a pair of runs, one of each side."""

    FELL = 0
    """The base passes more criteria."""
    ROSE = 1
    """Head passes more criteria."""
    PASSED = 2
    """Both pass all."""
    FAILED = 3
    """Neither passes all, and neither passes more."""


@frozen_dataclass
class Bet:
    """One bet: the result of its pair, and the amount in the purse after it."""

    key: CaseKey
    cell: Cell
    worth: float
    """The amount in the purse after it."""


class Confirmation(enum.StrEnum):
    """The result of rerunning a case that fails in its first runs."""

    BROKEN = "broken"
    """The base passes, and the bets show that head does not."""
    FAILING = "failing"
    """Head fails, whatever the base does."""
    FLAKY = "flaky"
    """Head passes in reruns."""
    OPEN = "open"
    """The case was not rerun, or not often enough."""
    LOST = "lost"
    """Its reruns could not be measured."""


@frozen_dataclass
class Book:
    """The result of the bets of a run."""

    needed: float = 20.0
    """The amount at which a purse decides."""
    worse: float = 1.0
    """The amount that the bets on "head is worse" reached, from 1."""
    better: float = 1.0
    """The same for "head is better"."""
    failing: float = 1.0
    """The same for "more cases fail by themselves than their suites allow"."""
    bets: tuple[Bet, ...] = ()
    """The bets that head is worse, in order."""
    factors: Mapping[CaseKey, float] = field(default_factory=dict)
    """The factor of the bets on each case."""
    confirmations: Mapping[CaseKey, Confirmation] = field(default_factory=dict)
    """Of each case that fails and could be rerun."""
    on_both: frozenset[CaseKey] = frozenset()
    """Suspects that failed on both sides in the same rerun."""

    @property
    def is_worse(self) -> bool:
        """True if head is worse than the base."""
        return self.worse >= self.needed

    @property
    def is_failing(self) -> bool:
        """True if more cases fail by themselves than their suites allow."""
        return self.failing >= self.needed

    @property
    def certainly_broken(self) -> tuple[CaseKey, ...]:
        """The cases that may be called broken by name: with a chance of at most 1 in `needed`, one
        of them did not change (closed testing)."""
        losses = math.prod(min(1.0, factor) for factor in self.factors.values())
        return tuple(
            key
            for key, factor in self.factors.items()
            if factor > 1 and factor * losses >= self.needed
        )


@frozen_dataclass
class Power:
    """The failures that a passing gate could have missed, from simulated pull requests of the same
    size."""

    cases: int
    """The number of compared cases."""
    caught: tuple[tuple[int, float], ...] = ()
    """For each number of broken cases, the share of simulated pull requests that is blocked."""
    unseen: tuple[CaseKey, ...] = ()
    """The cases whose failure would more often be missed than noticed."""


@frozen_dataclass
class Drift:
    """A change in the behavior of the base branch's unchanged agent: its model, a judge or a
    service changed."""

    since: str
    """Start of the first run that differs, ISO 8601, UTC."""
    before: float
    """The share of runs that passed before it."""
    after: float
    """The same since then."""
    evidence: float = 0.0
    """The factor of the bets, from 1."""


class BaseSource(enum.StrEnum):
    """The source of the base's results."""

    RERUN = "rerun"
    """Its code was checked out and run."""
    STORE = "store"
    """Results of an earlier run."""
    MIXED = "mixed"
    """Some results were stored, others were run."""
    FILE = "file"
    """A results.json that the user named."""


@frozen_dataclass
class BaseOrigin:
    """The base, and the source of its results."""

    source: BaseSource
    commit: str = ""
    """Its full SHA; "" if unknown."""
    found_by: str = ""
    """How it was found: `merge-base`, `base` or `given`."""
    measured_at: str = ""
    """ISO 8601, UTC."""
    age_days: float | None = None
    """The age of its results; None if their time is unknown."""
    distance: int | None = None
    """Commits between the stored results and the wanted base."""
    reused: int = 0
    """The number of trials from the store."""
    run: int = 0
    """The number of trials run now."""
    notes: tuple[Wording, ...] = ()
    """Facts that a reader must know (old results, another model)."""

    def of_store(self, *, measured_at: str = "", distance: int | None = None) -> BaseOrigin:
        """The origin if stored results stand in for runs of its commit."""
        return replace(self, source=BaseSource.STORE, measured_at=measured_at, distance=distance)

    def with_notes(self, notes: Iterable[Wording], *, age_days: float | None = None) -> BaseOrigin:
        """The origin with more notes, each once and none empty, and with the age of its results."""
        all_notes = dict.fromkeys(note for note in (*self.notes, *notes) if note)
        return replace(
            self, notes=tuple(all_notes), age_days=self.age_days if age_days is None else age_days
        )


class EditKind(enum.StrEnum):
    """The kinds of edits of a change to its own rules."""

    RULE = "rule"
    """A rule that decides; both the change's and the base's are applied."""
    AGENT = "agent"
    """Another agent answers, as evalgate names it."""
    FILE = "file"
    """A file that defines the measurement, which runs once."""
    CASE_REMOVED = "case_removed"
    """A case that only the base has."""
    CASE_CHANGED = "case_changed"
    """A case with other content or expectations."""
    SUITE_REMOVED = "suite_removed"
    """An evaluation file that only the base has."""


@frozen_dataclass
class GateEdit:
    """One edit: of a rule `subject` with its values in words, of a file with its differing lines,
    or of a case's expectations."""

    kind: EditKind
    subject: str
    """The rule, the file, the suite or the case."""
    suite: str = ""
    """The suite of a case or a rule; "" for others."""
    base: str = ""
    """The base's value in words."""
    head: str = ""
    """The change's value in words."""
    lines: tuple[str, ...] = ()
    """Differing lines of a file."""
    place: Place | None = None
    """Where head has it."""


@frozen_dataclass
class Edits:
    """The edits of a change to its own rules."""

    edits: tuple[GateEdit, ...] = ()
    decide: bool = False
    """True if the change passes by only one of both rule books, its own and the base's."""
    by_base: bool = False
    """True if the base's book decided."""
    both_decide: bool = False
    """True if the worse verdict of two books counted."""
    unasked: tuple[str, ...] = ()
    """Criteria of the base that were not evaluated."""

    def rules(self) -> tuple[GateEdit, ...]:
        """The edits of rules that decide."""
        return tuple(edit for edit in self.edits if edit.kind is EditKind.RULE)


@frozen_dataclass
class RuleBook:
    """The rules of one side: the policy, and the criteria of each suite."""

    policy: Policy
    """The rules of this side's gate file."""
    criteria: Mapping[str, tuple[CriterionUse, ...]] = field(default_factory=dict)
    """By suite; empty if the run has its own."""

    def divided(self, parts: int) -> RuleBook:
        """The book with one of `parts` equal parts of the money, so that it needs `parts` times the
        evidence."""
        return RuleBook(
            policy=replace(self.policy, alpha=self.policy.alpha / parts), criteria=self.criteria
        )

    def applied(self, run: Run) -> Run:
        """The run with the criteria of this book."""
        if not self.criteria:
            return run
        suites = (
            suite.with_criteria(self.criteria.get(suite.key, suite.criteria))
            for suite in run.suites
        )
        return replace(run, suites=tuple(suites), earlier_verdicts={})


@frozen_dataclass
class Comparison:
    """Head compared with the base. Values of both runs are empty if there is nothing to compare
    with."""

    origin: BaseOrigin
    base: Run | None = None
    """None if there is none; `problem` is the reason."""
    problem: Wording = ""
    """Why there is nothing to compare with."""
    no_agent: bool = False
    """True if the base has no agent yet, so nothing can have become worse."""
    base_failed: bool = False
    """True if the base does not work with its own settings, without fault of the change."""
    cases: tuple[CaseComparison, ...] = ()
    """Every case of head in its order, then those that only the base has."""
    criteria: tuple[CriterionComparison, ...] = ()
    """Criteria that decide, then criteria that do not."""
    rates: tuple[PassRates, ...] = ()
    """Head's and the base's, over the cases with an outcome on both; empty if there are none."""
    power: Power | None = None
    """What a pass may have missed; None if unknown."""
    book: Book = Book()
    """The bets."""
    unchanged: tuple[str, ...] = ()
    """Suites with the same agent on both sides, so that one side's results are for both."""
    unread: tuple[str, ...] = ()
    """Files that the change edits and no agent opened."""
    edited: tuple[CaseKey, ...] = ()
    """Cases of unchanged suites that the change adds or edits."""
    is_past: bool = False
    """True if cases are worse than older results, and the base was not rerun for them."""
    decided: Mapping[CaseKey, CaseVerdict] = field(default_factory=dict)
    """Head's cases, by head's thresholds; empty for results from files."""
    base_decided: Mapping[CaseKey, CaseVerdict] = field(default_factory=dict)
    """The base's cases, also by head's thresholds."""

    def is_untouched(self, run: Run) -> bool:
        """True if the change touches no suite's agent in the run."""
        return bool(self.unchanged) and {suite.key for suite in run.suites} <= set(self.unchanged)
