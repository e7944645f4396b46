"""One case as a reader sees it: its verdict, its trials, and its comparison with the base."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from evalgate.comparison import pairing, threshold
from evalgate.errors import Place
from evalgate.model import (
    AgentFailure,
    Case,
    CaseComparison,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Change,
    Comparison,
    CriterionComparison,
    CriterionVerdict,
    GateKind,
    GradedTrial,
    Invocation,
    Lack,
    Reason,
    Report,
    Run,
    Suite,
    TrialKey,
    VerdictKind,
)
from evalgate.results import labels
from evalgate.results.labels import CaseLabel
from evalgate.text import plain, words
from .phrases import phrase

TOLERANCE_PHRASES: Mapping[VerdictKind, str] = {
    VerdictKind.FAIL: "within_pass_rate",
    VerdictKind.NOT_MEASURED: "within_min_measured",
}
"""The phrase for why a suite with such a case passes."""
FAILED_LABELS = frozenset({*labels.FAILURES, *labels.UNSTABLE})
"""The labels of cases that failed, by chance or not."""

WHY_LIMIT = 600
"""Characters of a reason."""
DETAIL_LIMIT = 20_000
"""Characters of an agent's output."""


KINDS: Mapping[Change, VerdictKind] = {
    Change.REGRESSED: VerdictKind.FAIL,
    Change.IMPROVED: VerdictKind.PASS,
    Change.NO_EVIDENCE: VerdictKind.PASS,
    Change.INCONCLUSIVE: VerdictKind.INCONCLUSIVE,
    Change.NOT_MEASURED: VerdictKind.NOT_MEASURED,
}
"""The verdict whose sign and color a change has."""


MARKS: Mapping[VerdictKind | None, str] = {
    None: "\N{HEAVY MINUS SIGN}",
    VerdictKind.PASS: "\N{WHITE HEAVY CHECK MARK}",
    VerdictKind.FAIL: "\N{CROSS MARK}",
    VerdictKind.INCONCLUSIVE: "\N{WHITE QUESTION MARK ORNAMENT}",
    VerdictKind.NOT_MEASURED: "\N{WARNING SIGN}\N{VARIATION SELECTOR-16}",
}
"""Signs that are readable without color; None: a gate with nothing to compare."""


NON_BLOCKING = "\N{LARGE YELLOW CIRCLE}"
"""The sign of a failure that is shown and does not block."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CaseSide:
    """A case in the run of one side."""

    run: Run
    """All results of the side."""
    trials: tuple[GradedTrial, ...]
    """In order of repeats."""
    confirmations: tuple[GradedTrial, ...]
    """The reruns that were to confirm its failure."""

    def turns(self, key: TrialKey) -> Sequence[Invocation] | None:
        """The turns of a trial; None if its agent failed, or it was not kept."""
        transcript = self.run.transcripts(key)
        return None if transcript is None else transcript.invocations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CaseView:
    """A case with all that reports say of it."""

    head: CaseSide
    """Its trials on head."""
    base: CaseSide | None = None
    """None without a run of the base."""
    verdict: CaseVerdict
    """Of the threshold gate."""
    suite: Suite
    """Head's; it has the criteria by which both sides are scored."""
    eval_case: Case
    """The case in the user's files."""
    label: CaseLabel
    """What it is counted as."""
    compared: CaseComparison | None = None
    """Its comparison with the base; None without one."""
    allowed: str | None = None
    """Why it decides nothing although it does not pass, "" if the origin of the failure is the
    reason; None if it decides."""

    @property
    def trials(self) -> tuple[GradedTrial, ...]:
        """Its trials on head."""
        return self.head.trials

    def with_trials(self, trials: Iterable[GradedTrial]) -> Self:
        """The case with other trials on head."""
        head = CaseSide(
            run=self.head.run, trials=tuple(trials), confirmations=self.head.confirmations
        )
        return replace(self, head=head)

    @property
    def kind(self) -> VerdictKind:
        """The kind of its verdict."""
        return self.verdict.kind

    @property
    def is_allowed_failure(self) -> bool:
        """True if it failed, or the agent crashed by accident, without blocking."""
        return self.allowed is not None and (
            self.kind is VerdictKind.FAIL or self.label is CaseLabel.FLAKY
        )

    @property
    def word(self) -> str:
        """Its word in every report: that of its label if that is an exception, else of its
        verdict."""
        return stored_word(self.kind, self.label)

    @property
    def mark(self) -> str:
        """Its sign: a failure that does not block has one of its own."""
        return NON_BLOCKING if self.is_allowed_failure else MARKS[self.kind]

    @property
    def group(self) -> str:
        """The group that lists it: an exception by its label, others by their verdict."""
        is_nonblocking = self.label in labels.UNSTABLE and self.kind is not VerdictKind.PASS
        return self.label.value if is_nonblocking else self.kind.value

    @property
    def key(self) -> CaseKey:
        """Its suite and its name."""
        return self.verdict.key

    @property
    def case_id(self) -> str:
        """Its name."""
        return self.verdict.case_id

    @property
    def place(self) -> Place:
        """File and line."""
        place = self.eval_case.place
        return Place(place.file, place.line) if place else Place(self.suite.key)

    @property
    def failing(self) -> tuple[CriterionVerdict, ...]:
        """The criteria that failed."""
        return tuple(
            verdict for verdict in self.verdict.criteria if verdict.kind is VerdictKind.FAIL
        )

    def misses(self, mark: Callable[[str], str]) -> list[str]:
        """`name 0.79 < 0.80` of each criterion that failed; `mark` spells names."""
        return [f"{mark(verdict.name)} {score_and_limit(verdict)}" for verdict in self.failing]

    @property
    def unmeasured(self) -> tuple[CriterionVerdict, ...]:
        """The deciding criteria without a verdict."""
        undecided = (VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE)
        return tuple(verdict for verdict in self.verdict.criteria if verdict.kind in undecided)

    @property
    def agent_failed(self) -> bool:
        """True if a broken agent, and not a criterion, decided this case."""
        return not self.failing and self.failure is not None

    @property
    def failure(self) -> AgentFailure | None:
        """The first failure of the agent in any of its runs."""
        return next((trial.failure for trial in self.trials if trial.failure is not None), None)

    @property
    def output(self) -> str:
        """The agent's output at its failure, if that decided the case."""
        return "" if self.failing or self.failure is None else last_output(self.failure)

    @property
    def unmeasured_reason(self) -> str:
        """A sentence on why it could not be evaluated: the agent's failure, else the first
        criterion without a score."""
        if self.failure is not None:
            return failure_sentence(self.failure)
        if not self.trials:
            return phrase("not_run")
        if self.unmeasured:
            verdict = self.unmeasured[0]
            return f"{verdict.name}: {unmeasured_sentence(verdict)}"
        return plain.bounded(self.verdict.reason, WHY_LIMIT) or phrase("no_criterion")

    def reason(self, width: int) -> str:
        """The failed criteria and the origin of the failure; "" if it passed. Names take at most
        `width` characters."""
        if not self.failing:
            return "" if self.kind is VerdictKind.PASS else self.unmeasured_reason
        misses = self.misses(lambda name: plain.label(name, width))
        return ", ".join(text for text in (*misses, self.failure_origin) if text)

    @property
    def skipped(self) -> bool:
        """True if the user asked to skip everything unmeasured here."""
        return bool(self.trials and self.unmeasured) and all(
            verdict.reason is Reason.SKIPPED for verdict in self.unmeasured
        )

    @property
    def shortfall(self) -> float:
        """The distance of the worst criterion from its threshold, in units of the threshold; 0.0 if
        none fails."""
        gaps = [
            abs(verdict.threshold - verdict.value) / max(abs(verdict.threshold), 1e-9)
            for verdict in self.failing
            if verdict.value is not None and verdict.threshold is not None
        ]
        return max(gaps, default=0.0)

    @property
    def main_trial(self) -> GradedTrial | None:
        """The trial to look at: most criteria below their thresholds, else a broken agent, else the
        first."""
        if len(self.trials) <= 1:
            return self.trials[0] if self.trials else None
        uses = pairing.deciding(tuple({use.name: use for use in self.suite.criteria}.values()))
        return max(
            self.trials,
            key=lambda trial: (
                pairing.pattern_of(trial, uses).count(False),
                trial.failure is not None,
                -trial.key.number,
            ),
        )

    @property
    def run_label(self) -> str:
        """`showing run 2 of 3`; "" unless there are several runs."""
        runs = self.head.run.repeats
        return (
            ""
            if runs <= 1 or self.main_trial is None
            else phrase("run_shown", self.main_trial.key.number + 1, runs)
        )

    @property
    def failure_origin(self) -> str:
        """The origin of the failure, and why it does not decide, if so; "" without a base."""
        label, compared = self.label, self.compared
        if label not in FAILED_LABELS:
            return self.allowed or ""
        origin = phrase("failure_label", label)
        if compared is not None and label is not CaseLabel.LISTED:
            base = compared.base
            if compared.status in (CaseStatus.NEW, CaseStatus.CHANGED):
                status = phrase("unpaired_case", compared.status)
                names_both = label in (CaseLabel.MIXED, CaseLabel.NOT_CONFIRMED, CaseLabel.FLAKY)
                origin = f"{status}, {origin}" if names_both else status
            elif (
                label is CaseLabel.NEW
                and compared.newly
                and not (base and base.kind is VerdictKind.PASS)
            ):
                origin = phrase("newly_failing")
        reruns = None if compared is None else compared.reruns
        if origin and reruns is not None and reruns.runs:
            origin += f", {phrase('reruns', reruns)}"
        if origin and (self.allowed == "" or self.verdict.listing):
            return phrase("nonblocking", origin)
        return ", ".join(text for text in (origin, self.allowed) if text)

    @property
    def is_new(self) -> bool:
        """True if the change broke it: the base passes all of it, or a criterion that fails
        here."""
        return self.compared is not None and (self.compared.broken or self.label is CaseLabel.NEW)

    @property
    def seconds(self) -> float:
        """The agent's time in all of its runs."""
        return sum(trial.seconds for trial in self.trials)

    @property
    def mixed(self) -> tuple[CriterionVerdict, ...]:
        """The deciding criteria that reached their threshold in some repeats only."""
        if len(self.trials) < 2:
            return ()
        uses = {use.name: use for use in self.suite.criteria}
        verdicts = []
        for verdict in self.verdict.criteria:
            if verdict.kind is not None and verdict.name in uses:
                outcomes = {
                    threshold.reaches(value, uses[verdict.name])
                    for value in verdict.values
                    if value is not None
                }
                if len(outcomes) > 1:
                    verdicts.append(verdict)
        return tuple(verdicts)


def stored_word(kind: VerdictKind, label: CaseLabel | None) -> str:
    """The word of a case of a stored run."""
    is_aside = label in labels.UNSTABLE
    return phrase("label_word", label) if is_aside else phrase("kind_word", kind)


def failure_sentence(failure: AgentFailure) -> str:
    """`The agent raised an exception in turn 2 (raised): KeyError: 'city'`."""
    return f"{phrase('failed_agent', failure)} {plain.bounded(failure.message, WHY_LIMIT)}"


def last_output(failure: AgentFailure, most_lines: int = 12) -> str:
    """The agent's output at its failure, mostly standard error: the first and the last lines."""
    return plain.ends(
        plain.visible(plain.clip(failure.detail, DETAIL_LIMIT)),
        most_lines=most_lines,
        limit=125 * most_lines,
    ).strip("\n")


def unmeasured_sentence(verdict: CriterionVerdict) -> str:
    """`the agent failed: KeyError`: why a criterion of a case has no verdict."""
    message = plain.bounded(verdict.message, WHY_LIMIT)
    if verdict.reason is None:
        return message or phrase("no_score")
    reason = phrase("reason_words", verdict.reason)
    return message if message.startswith(reason) else f"{reason}: {message}" if message else reason


def side_of(run: Run) -> Callable[[CaseKey], CaseSide]:
    """The run's side of a case, by the case's key."""
    trials, confirmations = map(pairing.by_case, (run.trials, run.confirmations))
    return lambda key: CaseSide(
        run=run,
        trials=tuple(trials.get(key, ())),
        confirmations=tuple(confirmations.get(key, ())),
    )


def collect(report: Report) -> Iterator[CaseView]:
    """All cases of a report in the order of its verdict."""
    compared = {case.key: case for case in report.compared.cases}
    allowed = allowed_cases(report)
    known_labels = labels.labels_of(report)
    sides = [side_of(run) for run in (report.run, report.compared.base) if run is not None]
    for suite, suite_verdict in zip(report.run.suites, report.verdict.suites, strict=True):
        for case, verdict in zip(suite.cases, suite_verdict.cases, strict=True):
            key = verdict.key
            head, *bases = (side(key) for side in sides)
            yield CaseView(
                head=head,
                base=bases[0] if bases else None,
                verdict=verdict,
                suite=suite,
                eval_case=case,
                label=known_labels[key],
                compared=compared.get(key),
                allowed=allowed.get(key),
            )


URGENCY = (
    CaseLabel.NEW,
    CaseLabel.NOT_CONFIRMED,
    CaseLabel.NO_BASE,
    CaseLabel.FAILED,
    CaseLabel.MIXED,
    CaseLabel.PRE_EXISTING,
    CaseLabel.FLAKY,
    CaseLabel.LISTED,
)
"""The failures to show first; other cases keep their place."""


def worst_first(case_views: Sequence[CaseView]) -> tuple[CaseView, ...]:
    """What the change broke first, then the furthest below its threshold; equals keep their
    order."""
    ranks = {label: rank for rank, label in enumerate(URGENCY)}
    return tuple(
        sorted(
            case_views,
            key=lambda case: (ranks.get(case.label, len(URGENCY)), -case.shortfall),
        )
    )


def number(value: float | None, threshold: float | None) -> str:
    """A criterion's value, not rounded onto its threshold if it has one."""
    return words.amount(value) if threshold is None else words.score(value, beside=threshold)


def score_and_limit(verdict: CriterionVerdict) -> str:
    """`0.79 < 0.80`: a value and its threshold."""
    return words.score_and_limit(
        verdict.value, verdict.threshold, met=verdict.kind is VerdictKind.PASS
    )


def allowed_cases(report: Report) -> Mapping[CaseKey, str]:
    """The reason why a failed case does not decide, by suite and id; "" if the origin of its
    failure is the reason."""
    # what a pass rate allows may still be worse
    regressed = any(
        gate.gate is GateKind.REGRESSION and gate.kind is VerdictKind.FAIL
        for gate in report.verdict.gates
    )
    decisive = {case.key for case in report.compared.cases if regressed and case.broken}
    reasons: dict[CaseKey, str] = {}
    for suite in report.verdict.suites:
        for case in suite.cases:
            reason = TOLERANCE_PHRASES.get(case.kind) if suite.kind is VerdictKind.PASS else None
            if suite.suite in report.policy.advisory:
                reason = "advisory"
            elif case.exemption is not None:
                reason = ""
            is_worse = reason == TOLERANCE_PHRASES[VerdictKind.FAIL] and case.key in decisive
            if reason is not None and case.kind is not VerdictKind.PASS and not is_worse:
                reasons[case.key] = reason and phrase(reason)
    return reasons


def relative_drop(row: CriterionComparison, drop: float | None) -> float:
    """A drop in units of what is tolerated."""
    return (drop or 0.0) / max(row.rule.floor, 1e-9)


def evidence(row: CriterionComparison) -> str:
    """`43 : 1`: the worth of bets on this criterion alone, which start at 1; `-` if they lost, or
    nothing may be claimed."""
    if not row.rule.gating or row.lack is Lack.CLOCK or row.evidence <= 1:
        return "-"
    return words.odds(row.evidence)


def rows(comparison: Comparison) -> tuple[Sequence[CriterionComparison], ...]:
    """The criteria that decide, worst first; the informational ones; and those of cases that decide
    nothing, except the informational ones."""
    order = (
        Change.REGRESSED,
        Change.NOT_MEASURED,
        Change.INCONCLUSIVE,
        Change.IMPROVED,
        Change.NO_EVIDENCE,
    )
    deciding_rows = sorted(
        (row for row in comparison.criteria if row.rule.gating),
        key=lambda row: order.index(row.change),
    )
    other_rows = [row for row in comparison.criteria if not row.rule.gating]
    informational_rows = [row for row in other_rows if not row.rule.advisory]
    names = {row.name for row in informational_rows}
    return (
        deciding_rows,
        informational_rows,
        [row for row in other_rows if row.rule.advisory and row.name not in names],
    )


def base_words(comparison: Comparison) -> str:
    """The source of the base's results: `run alongside`, `cached results, 3 days old, 2 commits
    before the base`, or the same agent on both sides."""
    return (
        phrase("same_agent") if _is_one_agent(comparison) else phrase("origin", comparison.origin)
    )


def _is_one_agent(comparison: Comparison) -> bool:
    """True if the change touches no agent of the compared cases, so both sides have the same
    results."""
    return bool(comparison.unchanged) and all(
        case.suite in comparison.unchanged for case in comparison.cases
    )


def certainty(report: Report) -> str:
    """The evidence of the bets, by whose rules if both sides' differ, and its meaning; and the
    chance to notice a broken case, if it is known. "" without a comparison, or if an agent is
    compared with itself."""
    comparison = report.comparison
    if comparison is None or _is_one_agent(comparison):
        return ""
    book = comparison.book
    broken_keys = book.certainly_broken if book.is_worse else ()
    edits = report.edits
    sentence = phrase("bets", book, broken_keys, bool(edits.rules()), edits.by_base)
    power = comparison.power
    if book.is_worse or power is None or not power.caught:
        return sentence
    (_, share), *levels = power.caught
    next_level = next((level for level in levels if level[1] > share), None)
    return f"{sentence} {phrase('power', power, share, next_level)}"
