"""Is a failure an accident? Fresh runs of the cases that fail, until each failure is confirmed or called flaky.

The same for a run, for its shards and for files: what is confirmed follows from the first runs, the comparison and the
fresh runs alone (`Run.confirmations`). The bounds and their proof: docs/decisions/017-confirmed.md.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evalgate.comparison import pairing, threshold
from evalgate.errors import Problem, Severity
from evalgate.model import (
    BURN_IN,
    CRASHES,
    INFRASTRUCTURE,
    BurnIn,
    CaseComparison,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Comparison,
    CriterionComparison,
    CriterionUse,
    FailureKind,
    FailureOrigin,
    GradedTrial,
    NotEvaluated,
    Policy,
    Reason,
    Run,
    Suite,
    ThresholdRule,
    TrialKey,
    VerdictKind,
)
from evalgate.text import words

SHARE_OF_REGRESSION = 0.4
"""How much of alpha the regression gate may spend beside this one; what it cannot spend is this one's."""

PAIRS: Sequence[tuple[float, tuple[int, int, int]]] = (
    (0.0420, (3, 4, 6)),
    (0.0274, (3, 5, 6)),
    (0.0230, (3, 5, 7)),
    (0.0135, (4, 5, 7)),
    (0.00862, (4, 6, 7)),
    (0.00656, (4, 6, 8)),
    (0.00419, (5, 6, 8)),
    (0.00267, (5, 7, 8)),
    (0.00186, (5, 7, 9)),
    (0.00127, (6, 7, 9)),
    (0.00081, (6, 8, 9)),
    (0.00042, (6, 9, 10)),
)
"""How many pairs of fresh runs confirm a new failure with no slip, with one and with two, by the largest chance that an
unchanged case gets there. A slip: head passes, or base fails. Below the last row only pairs without any count."""

EARLY_PAIRS, EARLY_RUNS = 3, 5
"""Two slips within so many pairs, or a pass within so many runs of head alone, end it: such a case would take many runs
more and be called flaky in the end nearly always."""

NEVER_PASSES = 0.3
"""A case that passes less often than this fails by itself, whatever it did before; one that passes more often is flaky.
"""
FEWEST_ALONE, SECOND_CHANCE = 9, 6
"""Without a base: the fewest straight failures, and how many runs more one pass among them asks for."""

OUTAGES = INFRASTRUCTURE | {FailureKind.SIMULATOR, FailureKind.INSTALL, FailureKind.NO_RECORDING}
"""Failures of a rerun that are not the agent's own."""

FEW = 0.25
"""Up to this share of the runs that break down it may be an accident, so that running them again is worth the while."""

SPARE = 2
"""How many more fresh runs of a case on a side may fail to be measured than are, before it is left unconfirmed."""


def share(policy: Policy, *, can_fail: bool = True) -> float:
    """The share of alpha that the regression gate may spend. `can_fail`: see `may_fail`."""
    return SHARE_OF_REGRESSION if can_fail and policy.threshold is not ThresholdRule.ALL else 1.0


def may_fail(
    suites: Iterable[Suite],
    failures: Collection[CaseKey],
    verdicts: Mapping[CaseKey, CaseVerdict],
    *,
    policy: Policy,
    new: Collection[CaseKey],
) -> bool:
    """Whether a suite would miss its pass rate if these `failures` were all head's. Else no failure is to be confirmed,
    and all of alpha is the regression gate's. `verdicts`: of the cases that count.

    `failures` are those of any run of either side, as if nobody knew which run is whose. Chosen by head's failures
    alone, the share would depend on what is tested: up to 8% of equal agents would be blocked at an alpha of 5%.
    """
    for suite in suites:
        required = policy.suite_pass_rate.get(suite.key, policy.pass_rate)
        known = (verdicts.get((suite.key, case.case_id)) for case in suite.eval_set.cases)
        cases = [] if suite.problem or suite.key in policy.advisory else [each for each in known if each is not None]
        for part in threshold.groups(cases, added=new, required=required):
            passed = sum(case.key not in failures for case in part)
            if passed < threshold.needed(len(part), required):
                return True
    return False


class Finding(enum.Enum):
    """What the fresh runs of a failure say."""

    CONFIRMED = enum.auto()
    FLAKY = enum.auto()
    OPEN = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A case that fails, looked at by `uses`: beside the base that passed first, or alone. `crashed`: nothing is known
    to fail, but the agent broke down in some runs."""

    key: CaseKey
    uses: tuple[CriterionUse, ...]
    paired: bool
    crashed: bool = False


def pairs_needed(level: float) -> tuple[int, ...]:
    """Pairs that confirm a new failure without a slip, with one, with two; without further ones where none is allowed.

    An unchanged case of pass rate p slips not at all in a pair with a chance of u, twice with u, once with 1 - 2u,
    where u = p(1 - p) <= 1/4: the largest chance to be confirmed is that of u = 1/4 in each pair.
    """
    found = next((needed for chance, needed in PAIRS if chance <= level + 1e-12), None)
    return found or (max(1, math.ceil(-math.log(max(level, 1e-300), 4) - 1e-9)),)


@functools.lru_cache(maxsize=256)
def failures_needed(level: float) -> int:
    """Straight failures that confirm a failure without a base: a case that passes 3 times in 10 gets there, or to as
    many and `SECOND_CHANCE` more with one pass after `EARLY_RUNS`, with a chance of at most `level`."""
    fails, count = 1 - NEVER_PASSES, FEWEST_ALONE
    while fails**count + NEVER_PASSES * (count - EARLY_RUNS) * fails ** (count + SECOND_CHANCE - 1) > level:
        count += 1
    return count


def by_pairs(heads: Sequence[bool], bases: Sequence[bool], needed: Sequence[int]) -> Finding:
    """What fresh runs of both sides say; True: passed. What ends it, nothing brings back."""
    slips, done = 0, min(len(heads), len(bases))
    for number, (head, base) in enumerate(itertools.zip_longest(heads, bases), start=1):
        slips += (head is True) + (base is False)
        if slips >= len(needed) or (slips > 1 and number <= EARLY_PAIRS):
            return Finding.FLAKY
        if number <= done and number >= needed[slips]:
            return Finding.CONFIRMED
    return Finding.OPEN


def by_head(heads: Sequence[bool], needed: int) -> Finding:
    """What fresh runs of head alone say; True: passed."""
    passes = 0
    for number, passed in enumerate(heads, start=1):
        passes += passed
        if passes > 1 or (passes and number <= EARLY_RUNS):
            return Finding.FLAKY
        if number >= needed + SECOND_CHANCE * passes:
            return Finding.CONFIRMED
    return Finding.OPEN


def level(policy: Policy, comparison: Comparison | None, *, suspects: int, parts: int = 1) -> float:
    """The chance of a false confirmation that one of `suspects` may have: what the regression gate leaves of alpha. Of
    `parts` that know nothing of each other each has its share."""
    spent = 0.0 if comparison is None or comparison.base is None else comparison.spent
    if parts > 1:
        spent = policy.alpha * SHARE_OF_REGRESSION
    return (policy.alpha - spent) / parts / max(suspects, 1)


def suspects(
    head: Run,
    comparison: Comparison | None,
    *,
    policy: Policy,
    unreliable: Collection[CaseKey] = (),
    recorded: Collection[str] = (),
) -> tuple[Suspect, ...]:
    """The failures that would fail the gate, and that fresh runs can speak for: those of suites with more failures than
    their pass rate lets pass; and the cases that only crashes keep from being measured, where that leaves the gate not
    measured. Advisory suites and `unreliable` cases do not fail it; what a deterministic agent does is no accident, and
    what is `recorded` (suites) cannot be run again. A shard does not know how many there are elsewhere, so that all are
    asked about. Under `threshold: new` failures of the base are let pass and need no word.
    """
    if policy.threshold is ThresholdRule.ALL:
        return ()
    in_shards = bool(_homes(head))
    compared = comparison if comparison is not None and comparison.base is not None else None
    by_case = {} if compared is None else {case.key: case for case in compared.cases}
    alone = frozenset() if compared is None or compared.base is None else absent(compared.base)
    if compared is not None:  # what the base would be run for is what head was run for
        alone |= {key for key in by_case if key[0] in compared.unchanged}
    verdicts = {} if compared is None else compared.decided
    uses = pairing.uses_by_case(head)
    if verdicts.keys() != uses.keys():
        verdicts = pairing.case_verdicts(head, uses, policy=policy)
    crashed = crashed_cases(head, policy=policy)
    found: list[Suspect] = []
    for suite in head.suites:
        if suite.problem or suite.key in policy.advisory or suite.key in recorded:
            continue
        keys = [(suite.key, case.case_id) for case in suite.eval_set.cases]
        cases = [verdicts[key] for key in keys if key not in unreliable]
        new = added(by_case.values())
        # crashes that turn out to be accidents do not count, so that it takes fewer failures then
        kinds = _kinds(suite, cases, policy, new=new) | _kinds(
            suite, [case for case in cases if case.key not in crashed], policy, new=new
        )
        for case in cases:
            is_crash = case.kind is VerdictKind.NOT_MEASURED and case.key in crashed
            if is_crash and (in_shards or kinds - {VerdictKind.PASS}):
                looks = _looks(case, by_case.get(case.key), uses[case.key], policy=policy, alone=alone)
                found += [dataclasses.replace(look, crashed=True) for look in looks]
            elif case.kind is VerdictKind.FAIL and (in_shards or VerdictKind.FAIL in kinds):
                found += _looks(case, by_case.get(case.key), uses[case.key], policy=policy, alone=alone)
    steady = policy.deterministic or (not in_shards and repeats_itself(head, compared))
    return tuple(each for each in found if not _is_certain(each, head, steady=steady, of=len(found), policy=policy))


def _kinds(suite: Suite, cases: Sequence[CaseVerdict], policy: Policy, *, new: Collection[CaseKey]) -> set[VerdictKind]:
    required = policy.suite_pass_rate.get(suite.key, policy.pass_rate)
    return {
        threshold.judge(threshold.count(part), required=required, min_measured=policy.min_measured)[0]
        for part in threshold.groups(cases, added=new, required=required)
    }


def crashes(run: Run, policy: Policy) -> frozenset[TrialKey]:
    """The first runs in which the agent broke down by itself, where they are so few that reruns are to tell whether it
    was an accident. Of shards, which know nothing of each other, by those of each, and of all."""
    if policy.threshold is ThresholdRule.ALL or policy.deterministic or policy.adk_compat:
        return frozenset()
    homes = _homes(run)
    groups: defaultdict[int | None, list[GradedTrial]] = defaultdict(list)
    for trial in run.trials:
        groups[homes.get((trial.key.suite, trial.key.case_id))].append(trial)
    found: set[TrialKey] = set()
    for trials in groups.values():
        own = {trial.key for trial in trials if trial.failure is not None and trial.failure.kind in CRASHES}
        found |= own if len(own) <= max(1, len(trials) * FEW) else set()
    return frozenset(found) if len(found) <= max(1, len(run.trials) * FEW) else frozenset()


def crashed_cases(head: Run, *, policy: Policy) -> frozenset[CaseKey]:
    """The cases that lack the scores of such runs, and no others."""
    left_out = crashes(head, policy)
    keys = {(key.suite, key.case_id) for key in left_out}
    if not keys:
        return frozenset()
    trials, uses = pairing.trials_by_case(head), pairing.uses_by_case(head)
    return frozenset(
        key
        for key in keys
        if len(trials[key]) == head.expected(*key)
        and all(trial.key in left_out or _is_measured(trial, pairing.deciding(uses[key])) for trial in trials[key])
    )


def _is_measured(trial: GradedTrial, uses: Sequence[CriterionUse]) -> bool:
    return None not in pairing.pattern_of(trial, uses) and _passed(trial, uses) is not None


def added(cases: Iterable[CaseComparison]) -> frozenset[CaseKey]:
    """The cases that the base does not have."""
    return frozenset(case.key for case in cases if case.status is CaseStatus.NEW)


def _looks(
    case: CaseVerdict,
    compared: CaseComparison | None,
    uses: Sequence[CriterionUse],
    *,
    policy: Policy,
    alone: Collection[CaseKey],
) -> list[Suspect]:
    """How a failing case is looked at: as a whole, beside the base where that mostly passed, else alone; and by the
    criteria that head fails and the base passes, where they are not all that decide."""
    deciding = pairing.deciding(uses)
    can_pair = case.key not in alone
    base = None if compared is None else compared.base
    passed = base is not None and base.passed > base.failed
    looks = []
    if not (policy.threshold is ThresholdRule.NEW and compared is not None and compared.origin in ALLOWED_BY_NEW):
        looks.append(Suspect(key=case.key, uses=deciding, paired=passed and can_pair))
    newly = tuple(use for use in deciding if compared is not None and use.name in compared.newly)
    if newly and len(newly) < len(deciding) and can_pair and not any(look.paired for look in looks):
        looks.append(Suspect(key=case.key, uses=newly, paired=True))
    return looks


ALLOWED_BY_NEW = frozenset({FailureOrigin.KNOWN, FailureOrigin.MIXED, FailureOrigin.FLAKY})


def _is_certain(suspect: Suspect, head: Run, *, steady: bool, of: int, policy: Policy) -> bool:
    """Whether the first runs are proof enough: of an agent that is deterministic, where no judge gives the score, and
    where coin tosses would look like it too seldom, or somebody says that there are none."""
    if not steady or any(use.is_judged for use in suspect.uses):
        return False
    return policy.deterministic or 0.25**head.repeats * of <= policy.alpha


def repeats_itself(head: Run, comparison: Comparison | None) -> bool:
    """Whether the agent did the same in every run of every case, often enough to call it deterministic."""
    return comparison.deterministic if comparison is not None else is_steady(pairing.trials_by_case(head).values())


REPETITIONS = 4
"""As many runs, beyond the first of each side, must have been repetitions before an agent is called deterministic: one
case that is a coin toss looks like a fact, and worse, with a chance of 1/16 at two runs a side."""


def is_steady(sides: Iterable[Sequence[GradedTrial | None]]) -> bool:
    """Whether every case ran twice or more and the agent did the same each time, and that often enough. `sides`: the
    trials of each case on each side."""
    trials = list(sides)
    return sum(len(own) - 1 for own in trials) >= REPETITIONS and all(
        len(own) >= 2
        and len({"" if trial is None else trial.behavior for trial in own}) == 1
        and own[0] is not None
        and own[0].behavior != ""
        for own in trials
    )


def absent(base: Run) -> frozenset[CaseKey]:
    """The cases that cannot be run on the base: only results of it are at hand."""
    return frozenset(
        (suite.key, case.case_id) for suite in base.suites if suite.agent.is_absent for case in suite.eval_set.cases
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the fresh runs of a suspect say.

    `slips`: runs that speak against it; `agreed`: runs, or pairs of them, that confirm it. `runs`: how often head and
    base are to be run before the next look.
    """

    suspect: Suspect
    finding: Finding
    slips: int
    agreed: int
    runs: tuple[int, int]


Outcomes = Sequence[tuple[Sequence[bool | None], Sequence[bool | None]]]
"""What the fresh runs of each suspect gave, on head and on the base: whether they passed; None: not measured. A judge
that is replayed has no reply for further runs: what it lacks counts as all that may fail to be measured."""


class Confirmation:
    """Suspects, each with its share of alpha, and what their fresh runs say."""

    def __init__(self, suspects: Sequence[Suspect], *, level: float) -> None:
        self.suspects = tuple(suspects)
        self._pairs, self._alone = pairs_needed(level), failures_needed(level)

    def outcomes(self, head: Run, base: Run | None) -> Outcomes:
        """Those of the fresh runs of both sides."""
        heads, bases = pairing.by_case(head.confirmations), pairing.by_case(() if base is None else base.confirmations)
        ours, theirs = (
            [
                [passed for trial in trials.get(each.key, ()) for passed in _outcomes(trial, each.uses)]
                for each in self.suspects
            ]
            for trials in (heads, bases)
        )
        return list(zip(ours, theirs, strict=True))

    def states(self, outcomes: Outcomes) -> list[State]:
        """What they say of each suspect."""
        return [
            self._beside_base(suspect, *own) if suspect.paired else self._by_itself(suspect, own[0])
            for suspect, own in zip(self.suspects, outcomes, strict=True)
        ]

    def _by_itself(self, suspect: Suspect, head: Sequence[bool | None]) -> State:
        known = [each for each in head if each is not None]
        finding, slips = by_head(known, self._alone), sum(known)
        left = self._alone + SECOND_CHANCE * slips - len(known)
        # one, one more, then twice as many each time: who passes sometimes shows it soon
        runs = min(left, max(1, len(known))) if finding is Finding.OPEN and not _given_up(head) else 0
        return State(suspect=suspect, finding=finding, slips=slips, agreed=known.count(False), runs=(runs, 0))

    def _beside_base(self, suspect: Suspect, head: Sequence[bool | None], base: Sequence[bool | None]) -> State:
        ours, theirs = ([each for each in side if each is not None] for side in (head, base))
        finding, slips = by_pairs(ours, theirs, self._pairs), sum(ours) + theirs.count(False)
        goes_on = finding is Finding.OPEN and not _given_up(head) and not _given_up(base)
        needed = self._pairs[min(slips, len(self._pairs) - 1)]
        return State(
            suspect=suspect,
            finding=finding,
            slips=slips,
            agreed=sum(not mine and other for mine, other in zip(ours, theirs, strict=False)),
            # base follows head, where an accident shows first
            runs=(
                int(goes_on and len(ours) < needed and len(ours) <= len(theirs) + 1),
                int(goes_on and len(theirs) < min(needed, len(ours))),
            ),
        )

    def next_runs(self, outcomes: Outcomes, *, is_failed: bool) -> tuple[Mapping[CaseKey, int], Mapping[CaseKey, int]]:
        """How often each case is to be run on head, and on the base, before the next look; no case where all is said.

        First what looks new and had no slip, then what fails alone and never passed, then the others: so that few runs
        confirm what is worst. Once the gate fails for certain (`is_failed`) only the first go on, which are the
        author's.
        """
        states = [state for state in self.states(outcomes) if any(state.runs)]
        first = 0 if is_failed else min((_order(state) for state in states), default=0)
        wanted: tuple[dict[CaseKey, int], dict[CaseKey, int]] = ({}, {})
        for state in states:
            if _order(state) == first:
                for side, runs in zip(wanted, state.runs, strict=True):
                    side[state.suspect.key] = max(runs, side.get(state.suspect.key, 0))
        ours, theirs = ({key: runs for key, runs in side.items() if runs} for side in wanted)
        return ours, theirs

    def confirmed(self, outcomes: Outcomes) -> frozenset[CaseKey]:
        """The cases whose failure is confirmed."""
        found = self.states(outcomes)
        return frozenset(each.suspect.key for each in found if each.finding is Finding.CONFIRMED)

    def settled(self, head: Run, base: Run | None) -> dict[CaseKey, tuple[Finding, bool, int]]:
        """What the fresh runs say of each case: by any look that confirms it, else open where any is; whether it was
        confirmed beside the base; and how many runs agreed."""
        # an agent that cannot even be asked in a rerun did not bear out that it works
        refused = {
            (trial.key.suite, trial.key.case_id)
            for trial in head.confirmations
            if trial.failure is not None and trial.failure.kind not in OUTAGES | CRASHES
        }
        looks: defaultdict[CaseKey, list[State]] = defaultdict(list)
        outcomes = self.outcomes(head, base)
        for state, (ours, _) in zip(self.states(outcomes), outcomes, strict=True):
            looks[state.suspect.key].append(state)
            if state.suspect.crashed and True not in ours:  # whatever the base does, nobody saw it work
                refused.add(state.suspect.key)
        found = {}
        for key, states in looks.items():
            best = next(
                finding
                for finding in (Finding.CONFIRMED, Finding.OPEN, Finding.FLAKY)
                if any(state.finding is finding for state in states)
            )
            own = [state for state in states if state.finding is best]
            best = Finding.OPEN if best is Finding.FLAKY and key in refused else best
            found[key] = (best, any(state.suspect.paired for state in own), max(state.agreed for state in own))
        return found


def _passed(trial: GradedTrial, uses: Sequence[CriterionUse]) -> bool | None:
    """Whether a rerun passed; None where nothing is known of the agent's answer."""
    pattern = pairing.pattern_of(trial, uses)
    if any(each is False and use.on_the_test for each, use in zip(pattern, uses, strict=True)):
        return None
    return False if False in pattern else pairing.passes(pattern)


def _outcomes(trial: GradedTrial, uses: Sequence[CriterionUse]) -> Sequence[bool | None]:
    return [None] * (SPARE + 1) if _is_unrecorded(trial, uses) else [_passed(trial, uses)]


def _is_unrecorded(trial: GradedTrial, uses: Sequence[CriterionUse]) -> bool:
    grades = [trial.grades.get(use.name) for use in uses]
    is_lacking = any(isinstance(each, NotEvaluated) and each.reason is Reason.JUDGE_NOT_RECORDED for each in grades)
    return is_lacking and _passed(trial, uses) is None


def unrecorded(asked: Iterable[Confirmation], *, head: Run, base: Run | None) -> tuple[Problem, ...]:
    """A warning where failures stay unconfirmed since the replayed judge has no replies for their reruns."""
    trials = pairing.by_case((*head.confirmations, *(() if base is None else base.confirmations)))
    found = {
        state.suspect.key
        for each in asked
        for state in each.states(each.outcomes(head, base))
        if state.finding is Finding.OPEN
        and any(_is_unrecorded(trial, state.suspect.uses) for trial in trials.get(state.suspect.key, ()))
    }
    if not found:
        return ()
    failures = words.counted(len(found), "failure")
    message = f"{failures} could not be confirmed: the judge's recorded replies have none for reruns"
    hint = "They count as failures. Record again with this agent, judge live, or set `threshold: all`."
    return (Problem(severity=Severity.WARNING, code="judge-not-recorded", message=message, hint=hint),)


def _given_up(outcomes: Sequence[bool | None]) -> bool:
    lacking = outcomes.count(None)
    return lacking > SPARE + len(outcomes) - lacking


def _order(state: State) -> int:
    if state.slips:
        return 2
    return 0 if state.suspect.paired else 1


def of(
    head: Run,
    comparison: Comparison | None,
    *,
    policy: Policy,
    unreliable: Collection[CaseKey] = (),
    recorded: Collection[str] = (),
) -> tuple[Confirmation, ...]:
    """What is to be confirmed; of a shard, and of shards that were joined, the failures of each shard by themselves, as
    it had to do it."""
    homes = _homes(head)
    groups: defaultdict[int | None, list[Suspect]] = defaultdict(list)
    for each in suspects(head, comparison, policy=policy, unreliable=unreliable, recorded=recorded):
        groups[homes.get(each.key)].append(each)
    parts = head.shards if head.shard is None else head.shard.of
    return tuple(
        Confirmation(own, level=level(policy, comparison, suspects=len(own), parts=parts)) for own in groups.values()
    )


def _homes(head: Run) -> Mapping[CaseKey, int]:
    """The shard of each case; nothing where there is only one."""
    if head.shard is None:
        return head.homes if head.shards > 1 else {}
    return head.shard.homes if head.shard.of > 1 else {}


def is_failed(run: Run, confirmed: Collection[CaseKey], *, policy: Policy) -> bool:
    """Whether the confirmed failures alone fail a suite."""
    for suite in run.suites:
        total = len(suite.eval_set.cases)
        failed = sum((suite.key, case.case_id) in confirmed for case in suite.eval_set.cases)
        if total - failed < threshold.needed(total, policy.suite_pass_rate.get(suite.key, policy.pass_rate)):
            return True
    return False


def burned_in(head: Run) -> Mapping[CaseKey, BurnIn]:
    """How the cases did that were run more often because they are new or changed: in their first runs and in those."""
    uses = pairing.uses_by_case(head)
    more = [trial for trial in head.confirmations if trial.key.repeat >= BURN_IN]
    keys = {(trial.key.suite, trial.key.case_id) for trial in more}
    found: dict[CaseKey, BurnIn] = {}
    for key, trials in pairing.by_case((*head.trials, *more)).items() if keys else ():
        if key in keys and key in uses:
            outcomes = [_passed(trial, pairing.deciding(uses[key])) for trial in trials]
            found[key] = BurnIn(passed=outcomes.count(True), runs=len(outcomes) - outcomes.count(None))
    return found


def with_burn_in(comparison: Comparison, head: Run) -> Comparison:
    """The comparison, with these runs among their cases' outcomes, so that mixed results show."""
    found = burned_in(head)
    cases = tuple(
        dataclasses.replace(case, head=dataclasses.replace(case.head, passed=own.passed, failed=own.runs - own.passed))
        if case.head is not None and (own := found.get(case.key)) is not None
        else case
        for case in comparison.cases
    )
    return dataclasses.replace(comparison, cases=cases)


def settle(comparison: Comparison, asked: Iterable[Confirmation], *, head: Run) -> Comparison:
    """The comparison after the fresh runs that there are: whose failure each case is now."""
    found = {key: said for each in asked for key, said in each.settled(head, comparison.base).items()}
    if not found:
        return comparison
    cases = tuple(
        _settled(case, found[case.key], is_same=case.suite in comparison.unchanged) if case.key in found else case
        for case in comparison.cases
    )
    compared = {case.key for case in comparison.cases if case.status is CaseStatus.PAIRED}
    flaky = [key for key, said in found.items() if said[0] is Finding.FLAKY and key in compared]
    rows = tuple(_without_accidents(row, flaky, comparison) for row in comparison.criteria)
    return dataclasses.replace(comparison, cases=cases, criteria=rows)


def _without_accidents(row: CriterionComparison, flaky: Sequence[CaseKey], known: Comparison) -> CriterionComparison:
    """The row without the flaky cases among those that broke."""
    turned = sum(
        _kind(known.decided.get(key), row.name) is VerdictKind.FAIL
        and _kind(known.base_decided.get(key), row.name) is VerdictKind.PASS
        for key in flaky
    )
    if not turned or row.rule.advisory:
        return row
    return dataclasses.replace(row, cases=dataclasses.replace(row.cases, broken=row.cases.broken - turned))


def _kind(case: CaseVerdict | None, criterion: str) -> VerdictKind | None:
    found = () if case is None else case.criteria
    return next((each.kind for each in found if each.name == criterion), None)


def _settled(case: CaseComparison, said: tuple[Finding, bool, int], *, is_same: bool) -> CaseComparison:
    """`is_same`: the base has the same agent, so that no failure is the change's."""
    finding, is_new, agreed = said
    origin = case.origin
    if finding is not Finding.FLAKY and case.head is not None and case.head.kind is VerdictKind.NOT_MEASURED:
        return case  # the agent goes on breaking down, and nobody knows whether it would fail
    if finding is Finding.FLAKY:
        origin = FailureOrigin.FLAKY
    elif finding is Finding.OPEN:
        origin = FailureOrigin.UNCONFIRMED
    elif is_new or (case.base is not None and case.base.passed > case.base.failed and not is_same):
        origin = FailureOrigin.NEW
    else:
        origin = FailureOrigin.KNOWN if case.base is not None and case.base.failed else FailureOrigin.UNKNOWN
    return dataclasses.replace(case, origin=origin, confirmations=agreed)


def origins(asked: Iterable[Confirmation], *, head: Run) -> dict[CaseKey, FailureOrigin]:
    """What the fresh runs of a run without a base say of the failures that they do not confirm."""
    named = {Finding.FLAKY: FailureOrigin.FLAKY, Finding.OPEN: FailureOrigin.UNCONFIRMED}
    found = {key: said[0] for each in asked for key, said in each.settled(head, None).items()}
    crashed = {suspect.key for each in asked for suspect in each.suspects if suspect.crashed}
    return {
        key: named[finding]
        for key, finding in found.items()
        if finding is Finding.FLAKY or (finding in named and key not in crashed)
    }


def not_run(asked: Iterable[Confirmation], *, head: Run, base: Run | None) -> tuple[Problem, ...]:
    """A warning where files lack the fresh runs that failures ask for."""
    found = [state for each in asked for state in each.states(each.outcomes(head, base)) if any(state.runs)]
    lacking = {state.suspect.key for state in found}
    if not lacking:
        return ()
    failures = words.counted(len(lacking), "failure")
    message = f"the results lack reruns of {failures}, so a flaky case may block"
    hint = "`evalgate run` makes them, `threshold: all` needs none."
    return (Problem(severity=Severity.WARNING, code="fresh-runs-missing", message=message, hint=hint),)
