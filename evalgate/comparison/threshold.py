"""The threshold gate: does a case reach the thresholds of its criteria over its repeats?"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from evalgate.model import (
    CaseKey,
    CaseVerdict,
    CriterionUse,
    CriterionVerdict,
    FailureKind,
    Grade,
    GradedTrial,
    NotEvaluated,
    Reason,
    Run,
    Score,
    VerdictKind,
    not_evaluated,
    turns,
)
from evalgate.model.deviations import OURS, Deviations
from evalgate.values import Sentence, Wording, grouped


def judge(
    cases: Sequence[CaseVerdict],
    *,
    required: float,
    min_measured: float,
    allowed: Collection[CaseKey] = (),
    unconfirmed: Collection[CaseKey] = (),
) -> dict[VerdictKind, Wording]:
    """The verdict kinds of a suite's cases, with reasons. If the suite does not pass, each kind
    that prevents it, the most important first.

    A failure that no unmeasured case could change is a failure, so neither an outage nor a failure
    hides the other. Otherwise the pass rate of the measured cases decides, if enough cases were
    measured. Failures in `allowed` count as passes, those in `unconfirmed` as inconclusive.
    `min_measured` tolerates cases without a result, never failures."""
    total = len(cases)
    if total == 0:
        return {VerdictKind.NOT_MEASURED: Sentence("suite_empty")}
    case_kinds = [
        VerdictKind.INCONCLUSIVE if case.key in unconfirmed else case.kind for case in cases
    ]
    unrun = case_kinds.count(VerdictKind.INCONCLUSIVE)
    measured = case_kinds.count(VerdictKind.PASS) + case_kinds.count(VerdictKind.FAIL)
    blocking_cases = [case for case in cases if case.key not in allowed]
    failed = sum(
        case.kind is VerdictKind.FAIL and case.key not in unconfirmed for case in blocking_cases
    )
    doubtful = sum(case.doubtful for case in blocking_cases)
    least_measured = max(1, round(total * min_measured, 9) - 1e-9)
    passes_enough = measured - failed >= needed(measured, required)
    kinds: dict[VerdictKind, Wording] = {}
    is_certain = total - failed < needed(total, required)
    known_count = measured + unrun
    if is_certain:
        kinds[VerdictKind.FAIL] = Sentence("suite_failed", failed, total)
        # a failure of a case that could not be measured in part hides no outage
        known_count -= sum(case.partial for case in blocking_cases)
    is_enough = known_count >= least_measured
    if not is_enough:
        kinds[VerdictKind.NOT_MEASURED] = Sentence("suite_unmeasured", total - measured, total)
    if unrun and not (measured >= least_measured and passes_enough):
        kinds[VerdictKind.INCONCLUSIVE] = Sentence("suite_unfinished", unrun, total)
    elif is_enough and not is_certain and not passes_enough:
        kinds[VerdictKind.FAIL] = Sentence("suite_below", measured - failed, measured, required)
    if doubtful:
        kinds.setdefault(VerdictKind.NOT_MEASURED, Sentence("suite_doubtful", doubtful))
    return kinds or {VerdictKind.PASS: Sentence("suite_allowed", len(allowed)) if allowed else ""}


def needed(total: int, share: float) -> int:
    """The smallest number of `total` cases that is at least the given share."""
    # 0.7 * 10 is 7.000000000000001 as a float: a rounding error must not require an eighth case
    return math.ceil(round(total * share, 9))


def judge_case(
    key: CaseKey,
    criteria: Sequence[CriterionUse],
    trials: Sequence[GradedTrial],
    *,
    run: Run,
    deviations: Deviations,
) -> CaseVerdict:
    """The verdict on one case of a run. Trials that a budget prevented make it inconclusive.

    A case fails if any criterion fails. Else it is not measured if any criterion could not be
    measured. Else it passes, provided that at least one criterion decides. In ADK a case with one
    passing criterion passes although other criteria have no score, and an agent failure is a
    failure."""
    deviations = rules_of(criteria, deviations)
    verdicts = tuple(
        judge_criterion(use, [trial.grades.get(use.name) for trial in trials], repeats=run.repeats)
        for use in criteria
    )
    kind, reason = _case_kind(verdicts, deviations)
    failures = [trial.failure for trial in trials if trial.failure is not None]
    if failures and kind is not VerdictKind.FAIL:
        is_simulator = failures[0].kind is FailureKind.SIMULATOR
        reason = Sentence("case_agent_failed", is_simulator, failures[0].message)
        if not deviations.agent_failure:
            kind = VerdictKind.FAIL
    elif not trials:
        reason = Sentence("case_never_ran")
    is_unmeasured = kind is VerdictKind.NOT_MEASURED
    names = [verdict.name for verdict in verdicts if verdict.kind is not None]
    grades = [trial.grades.get(name) for trial in trials for name in names]
    # a trial failed, or has no score by a deciding criterion
    is_broken = kind is not VerdictKind.PASS and (
        bool(failures) or not all(isinstance(grade, Score) or abstains(grade) for grade in grades)
    )
    is_unfinished = is_unmeasured and len(trials) < run.repeats and not is_broken
    is_cut_short = bool(run.truncated) and is_unfinished
    # measured in part, and a measured score is below the threshold; not of the test itself
    is_doubtful = any(
        verdict.kind is VerdictKind.NOT_MEASURED
        and not use.on_the_test
        and any(score is not None and not reaches(score, use) for score in verdict.values)
        for use, verdict in zip(criteria, verdicts, strict=True)
    )
    second_kind = None
    if is_unmeasured and is_doubtful:
        second_kind = VerdictKind.FAIL
    elif kind is VerdictKind.FAIL and deviations.agent_failure and is_broken:
        second_kind = VerdictKind.NOT_MEASURED
    return CaseVerdict(
        suite=key[0],
        case_id=key[1],
        kind=VerdictKind.INCONCLUSIVE if is_cut_short else kind,
        criteria=verdicts,
        reason=run.truncated if is_cut_short else reason,
        second_kind=second_kind,
    )


def rules_of(uses: Iterable[CriterionUse], deviations: Deviations) -> Deviations:
    """evalgate's own rules for CES criteria, because ADK has no rules for them."""
    return OURS if any(use.is_of_ces for use in uses) else deviations


def abstains(grade: Grade | None) -> bool:
    """True if a custom metric reported that it does not score this trial."""
    return isinstance(grade, NotEvaluated) and grade.reason is Reason.ABSTAINED


def judge_criterion(
    use: CriterionUse, grades: Sequence[Grade | None], *, repeats: int
) -> CriterionVerdict:
    """One criterion over the repeats of a case: the mean of its scores against the threshold.

    If repeats are missing, the criterion is not measured, unless even the best possible scores in
    their place would leave the mean below the threshold: then it fails. Trials in which it
    abstained do not count; if it abstained in all of them, it decides nothing. If a criterion about
    the test itself misses its threshold, the case is not measured: the test was broken, and nothing
    is known about the agent."""
    case_scores = tuple(grade.value if isinstance(grade, Score) else None for grade in grades)
    case_scores += (None,) * (repeats - len(case_scores))
    scores = [score for score in case_scores if score is not None]
    gaps = [grade for grade in grades if isinstance(grade, NotEvaluated)]
    missing = len(case_scores) - len(scores) - sum(map(abstains, gaps))
    has_abstained = bool(case_scores) and not (scores or missing)
    gap = next((gap for gap in gaps if abstains(gap) is has_abstained), None)
    mean = turns.mean_of_runs(scores) if scores else None
    decides = not (use.informational or has_abstained)
    kind = VerdictKind.NOT_MEASURED if decides else None
    if decides and mean is not None and not math.isnan(mean):
        best_score = use.scale.lowest if use.lower_is_better else use.scale.highest
        if not missing:
            kind = VerdictKind.PASS if reaches(mean, use) else VerdictKind.FAIL
        elif best_score is not None and not reaches(
            turns.mean_of_runs([*scores, *[best_score] * missing]), use
        ):
            kind = VerdictKind.FAIL
    if kind is VerdictKind.NOT_MEASURED and gap is None:
        gap = not_evaluated(Reason.SKIPPED, "criterion_did_not_run")
    if kind is VerdictKind.FAIL and use.on_the_test:
        kind = VerdictKind.NOT_MEASURED
        gap = not_evaluated(Reason.TEST_BROKEN, "criterion_below", mean, use.threshold)
    return CriterionVerdict(
        name=use.name,
        kind=kind,
        value=mean,
        threshold=use.threshold if decides else None,
        values=case_scores,
        reason=gap.reason if gap else None,
        message=gap.message if gap else "",
    )


def reaches(score: float, use: CriterionUse) -> bool:
    """ADK's rule: value >= threshold, without tolerance; value <= threshold if lower is better.
    Without a threshold any value passes, and the comparison with the base decides."""
    if use.threshold is None:
        return True
    return score <= use.threshold if use.lower_is_better else score >= use.threshold


def _case_kind(
    verdicts: Iterable[CriterionVerdict], deviations: Deviations
) -> tuple[VerdictKind, Wording]:
    """The kind of a case from the kinds of its criteria, and the reason in words."""
    groups = grouped((verdict.kind, verdict) for verdict in verdicts)
    unmeasured_verdicts = groups.get(VerdictKind.NOT_MEASURED, [])
    for verdict in unmeasured_verdicts:
        if verdict.reason is Reason.TEST_BROKEN:
            reason = Sentence("case_test_broken", verdict.name, verdict.message)
            return VerdictKind.NOT_MEASURED, reason
    if failed_verdicts := groups.get(VerdictKind.FAIL):
        names = [verdict.name for verdict in failed_verdicts]
        return VerdictKind.FAIL, Sentence("case_below", names)
    has_passed = VerdictKind.PASS in groups
    if unmeasured_verdicts and (deviations.criterion_unscored or not has_passed):
        verdict = unmeasured_verdicts[0]
        return VerdictKind.NOT_MEASURED, Sentence("case_unmeasured", verdict.name, verdict.message)
    if not has_passed:
        return VerdictKind.NOT_MEASURED, Sentence("case_without_criterion")
    return VerdictKind.PASS, ""
