"""The view of a report, built once and shared by all renderers: cases, counts, facts, and the cases
that made a criterion fall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import fmean

from evalgate.model import (
    USER_SIMULATOR,
    BaseSource,
    CaseStatus,
    Comparison,
    CriterionComparison,
    CriterionUse,
    FailureCause,
    GradedTrial,
    JudgeUse,
    Reason,
    Report,
    Run,
    Score,
    SuiteVerdict,
    Trend,
    VerdictKind,
    run as model_run,
    turn_score,
)
from evalgate.results import labels
from evalgate.text import markdown, plain, words
from evalgate.values import frozen_dataclass, grouped
from . import cases as reports_cases, causes
from .cases import CaseView
from .phrases import phrase
from .turns import Turn

UNKNOWN = "-"
"""In place of a value that is not known."""
LISTED = 8
"""Values of one fact that are named."""
JUDGES = 20
"""Criteria whose judges are listed."""
LEAST_CASES = 3
"""Fewer cases have no list of their causes."""
SHA = 12
"""Digits of a commit."""
NAME_WIDTH = 80
"""Characters of a criterion's name."""
CAUSE_LIMIT = 320
"""Characters of a reason."""
UNSCORED = frozenset(
    {
        Reason.JUDGE_UNAVAILABLE,
        Reason.JUDGE_NOT_RECORDED,
        Reason.JUDGE_UNREADABLE,
        Reason.CREDENTIALS_MISSING,
        Reason.CRITERION_FAILED,
    }
)
"""Reasons for which a criterion lacks a score that it should have."""


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """A report, and what several renderers need of it."""

    report: Report
    cases: tuple[CaseView, ...]
    """In the order of the verdict."""

    @property
    def comparison(self) -> Comparison | None:
        """The comparison; None also without results of the base."""
        comparison = self.report.comparison
        return None if comparison is None or comparison.problem else comparison

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The numbers of cases, see `labels.count`."""
        return labels.count({case.key: case.label for case in self.cases}.values())

    @property
    def measured(self) -> int:
        """The cases with a known outcome."""
        return self.counts["passed"] + self.counts["failed"] + self.counts["flaky"]

    @property
    def pass_rate(self) -> float | None:
        """The share of measured cases that passed; None if no case was measured."""
        return self.counts["passed"] / self.measured if self.measured else None

    @cached_property
    def run_trials(self) -> Sequence[GradedTrial]:
        """The trials of both sides in this run, with those that confirm, without stored results."""
        comparison = self.report.compared
        trials = self.report.run.all_trials
        if comparison.base is not None:
            of_base = {BaseSource.FILE: (), BaseSource.STORE: comparison.base.confirmations}
            trials += of_base.get(comparison.origin.source, comparison.base.all_trials)
        return [trial for trial in trials if not trial.reused]

    @property
    def tokens(self) -> int | None:
        """The tokens of the agents in `run_trials`; None if they are unknown."""
        counts = [trial.tokens for trial in self.run_trials if trial.tokens is not None]
        return sum(counts) if counts else None

    @property
    def agent_s(self) -> float:
        """The seconds of the agents in `run_trials`."""
        return sum(trial.seconds for trial in self.run_trials)

    @cached_property
    def criteria(self) -> tuple[CriterionTotals, ...]:
        """Every criterion of every suite, in the suites' order."""
        verdicts = grouped(
            ((case.suite.key, verdict.name), verdict)
            for case in self.cases
            for verdict in case.verdict.criteria
        )
        all_totals: list[CriterionTotals] = []
        for suite in self.report.run.suites:
            for use in suite.criteria:
                use_verdicts = verdicts.get((suite.key, use.name), ())
                kinds = Counter(verdict.kind for verdict in use_verdicts)
                values = [verdict.value for verdict in use_verdicts if verdict.value is not None]
                totals = CriterionTotals(
                    suite=suite.key,
                    use=use,
                    threshold=None if use.informational else use.threshold,
                    mean=fmean(values) if values else None,
                    total=len(use_verdicts),
                    passed=len(values) if use.informational else kinds[VerdictKind.PASS],
                    failed=kinds[VerdictKind.FAIL],
                )
                all_totals.append(totals)
        return tuple(all_totals)

    @cached_property
    def by_group(self) -> Mapping[str, Sequence[CaseView]]:
        """The cases by group."""
        return grouped((case.group, case) for case in self.cases)

    @cached_property
    def unscored(self) -> str:
        """A sentence on cases that pass, as in ADK, although a criterion has no score or a partial
        one, and the reason of the first; "" without any."""
        passed_cases = {case.key: case for case in self.cases if case.kind is VerdictKind.PASS}
        unscored_gaps = [
            (key, verdict.name, reports_cases.unmeasured_sentence(verdict))
            for key, case in passed_cases.items()
            for verdict in case.verdict.criteria
            if verdict.kind is VerdictKind.NOT_MEASURED and verdict.reason in UNSCORED
        ]
        partial_gaps = [
            (trial.key.case, name, plain.bounded(grade.lacking, reports_cases.WHY_LIMIT))
            for trial in self.report.run.trials
            for name, grade in trial.grades.items()
            if isinstance(grade, Score) and grade.lacking and trial.key.case in passed_cases
        ]
        return " ".join(
            phrase(
                "passed_unscored",
                len({key for key, _, _ in gaps}),
                len(passed_cases),
                gaps is partial_gaps,
                words.listed(
                    dict.fromkeys(f"`{plain.label(name, NAME_WIDTH)}`" for _, name, _ in gaps),
                    limit=3,
                ),
                plain.keep_advice(gaps[0][2], CAUSE_LIMIT).rstrip("."),
            )
            for gaps in (unscored_gaps, partial_gaps)
            if gaps
        )

    @property
    def shared_causes(self) -> tuple[FailureCause, ...]:
        """The causes, if a list of them before the cases helps: several cases share one. An agent
        failure in all of them is reported as one already."""
        causes = causes_of(self.cases)
        count = sum(len(cause.cases) for cause in causes)
        is_list = count >= LEAST_CASES and count > len(causes)
        broken_cases = (case for case in self.cases if case.kind is not VerdictKind.PASS)
        is_reported = len(causes) == 1 and not next(broken_cases).failing
        return causes if is_list and not is_reported else ()

    @property
    def broken(self) -> tuple[SuiteVerdict, ...]:
        """Evaluation files that could not be measured."""
        pairs = zip(self.report.run.suites, self.report.verdict.suites, strict=True)
        return tuple(verdict for suite, verdict in pairs if suite.problem)

    def commit_page(self, commit: str) -> str:
        """The page of a commit; "" if it is unknown."""
        links = self.report.display.links
        return (
            f"{links.repository}/commit/{commit}"
            if links.repository and links.commit and commit.isalnum()
            else ""
        )

    def file_page(self, case: CaseView) -> str:
        """The page of a case's file, at its line if the commit of that line is known; "" if it is
        unknown."""
        links = self.report.display.links
        return markdown.file_address(
            repository=links.repository,
            commit=links.checkout or links.commit,
            path=links.place(case.place.file),
            line=case.place.line if links.checkout else None,
        )


@lru_cache(maxsize=1)  # views of one run share it; conversations are deleted after the run
def causes_of(case_views: tuple[CaseView, ...]) -> tuple[FailureCause, ...]:
    """The causes of all cases that do not pass: new ones first, then the most frequent."""
    groups = grouped(
        ((case.label, causes.cause(case)), case.key)
        for case in case_views
        if case.kind is not VerdictKind.PASS
    )
    order = sorted(
        groups.items(), key=lambda group: (causes.STATUSES.index(group[0][0]), -len(group[1]))
    )
    return tuple(
        FailureCause(cause=text, status=phrase("label_word", label), cases=tuple(keys))
        for (label, text), keys in order
    )


def view_of(report: Report) -> View:
    """The view of a report. The last view is cached: renderers use it in turn, the last one after
    the files are written."""
    global _last  # noqa: PLW0603 - one value, replaced whole
    # reports that share these show the same cases
    names = ("run", "verdict", "comparison", "policy")
    if _last is None or any(
        getattr(_last.report, name) is not getattr(report, name) for name in names
    ):
        _last = View(report=report, cases=tuple(reports_cases.collect(report)))
    elif _last.report is not report:
        _last = View(report=report, cases=_last.cases)
    return _last


_last: View | None = None
"""The last view that was made, see `view_of`."""


@frozen_dataclass
class CriterionTotals:
    """One criterion of one suite over the cases that it applies to."""

    suite: str
    """Its key."""
    use: CriterionUse
    """The criterion as it is configured."""
    threshold: float | None
    """None if it is informational, or only compared with the base."""
    mean: float | None
    """Over the cases that have a value; None without any."""
    total: int
    """The cases that it applies to."""
    passed: int
    """The cases that reach the threshold; if it decides nothing, those with a value."""
    failed: int
    """The cases below its threshold."""

    @property
    def not_evaluated(self) -> int:
        """The cases that neither passed nor failed."""
        return self.total - self.passed - self.failed

    @property
    def met(self) -> bool | None:
        """True if all of its cases passed: a mean may reach the threshold although some of them do
        not. None if it decides nothing, or some have no value and none failed."""
        if self.threshold is None or not self.total:
            return None
        return False if self.failed else None if self.not_evaluated else True


def judge_cost(use: JudgeUse, *, is_alone: bool = True) -> str:
    """`$0.02`, `at least $0.02` or `unknown` if prices are missing; `-` if nothing was paid. Never
    a false $0. `is_alone`: in a column of its own."""
    if use.cost_usd is None:
        return phrase("cost_unknown", is_alone) if use.unpriced else UNKNOWN if is_alone else ""
    return phrase("cost", words.dollars(use.cost_usd), use.unpriced)


def judges_summary(uses: Sequence[JudgeUse]) -> str:
    """`36 calls, 84 cached, $0.02`."""
    total = model_run.total_of(uses)
    failed = sum(total.failures.values())
    played = sum(use.calls for use in uses if use.criterion == USER_SIMULATOR)
    return phrase("judges", total, played, failed, judge_cost(total, is_alone=False))


def asker_name(use: JudgeUse) -> str:
    """The name of the asker: a criterion, or the simulated users."""
    return phrase("simulated_users") if use.criterion == USER_SIMULATOR else use.criterion


def judge_row(use: JudgeUse) -> tuple[str, ...]:
    """The cells of a row after criterion and judge, as `judge_header` names them; `-` for unknown
    tokens."""
    return (
        f"{use.calls:,}",
        f"{use.cached:,}",
        f"{use.retries:,}",
        phrase("judge_failures", sum(use.failures.values()), sorted(use.failures.items())),
        *(
            words.tokens(count) if count else UNKNOWN
            for count in (use.prompt_tokens, use.output_tokens)
        ),
        judge_cost(use),
    )


def facts(report: Report) -> list[dict[str, str]]:
    """All facts known on either side: for each its `name`, the criterion that it is `of`, and its
    text on `head` and on the `base`, "" if there is only one side. A commit alone does not count:
    it is above the cases."""
    comparison = report.compared
    base = None if comparison.problem else comparison.base
    has_base = base is not None
    more_count = len(report.facts.criterion_judges) - JUDGES
    base_commit = comparison.origin.commit
    statistics = (
        phrase("statistics", report.display.version, comparison.book.needed) if has_base else ""
    )
    commit = phrase("commit", report.head_commit[:SHA], report.head_commit and report.run.dirty)
    rows = [("commit", "", commit, base_commit[:SHA])]
    for name, texts_of in RUN_FACTS.items():
        head, base_text = (
            ""
            if run is None
            else words.listed(dict.fromkeys(filter(None, texts_of(run))), limit=LISTED)
            for run in (report.run, base)
        )
        rows.append((name, "", head, base_text))
    # the same judge judges both sides
    judges = [
        (criterion_judge.criterion, phrase("judge", criterion_judge.judge))
        for criterion_judge in report.facts.criterion_judges[:JUDGES]
    ]
    if more_count > 0:
        judges.append(("", phrase("more_criteria", more_count)))
    rows += [("judge", criterion, judge, judge) for criterion, judge in judges]
    rows.append(("statistics", "", statistics, statistics))
    facts = [
        {
            "name": phrase("fact", name),
            "of": criterion,
            "head": head or UNKNOWN,
            "base": (phrase("same") if base_text == head else base_text or UNKNOWN)
            if has_base
            else "",
        }
        for name, criterion, head, base_text in rows
        if head or (base_text and has_base)
    ]
    return facts if [fact["name"] for fact in facts] != [phrase("fact", "commit")] else []


RUN_FACTS: Mapping[str, Callable[[Run], Iterable[str]]] = {
    "environment": lambda run: (phrase("environment", about) for about in run.agents.values()),
    "models": lambda run: sorted(run.models),
    "simulator": lambda run: (suite.simulator.model for suite in run.suites if suite.is_simulated),
}
"""The facts on each side's run."""


def trend_figures(trend: Trend) -> tuple[str, ...]:
    """The lowest, the highest and the last mean of the base runs, and this run's."""
    means = [mean for mean in trend.means if mean is not None]
    formatter = words.score if max(map(abs, (*means, trend.current or 0.0))) <= 1 else words.amount
    return tuple(map(formatter, (min(means), max(means), means[-1], trend.current)))


def trend_title(trends: Sequence[Trend]) -> str:
    """`Criteria in the last 12 runs of the base branch, 2026-01-02 to 2026-01-20`."""
    first_trend = trends[0]
    days = " to ".join(
        dict.fromkeys(moment[:10] for moment in (first_trend.since, first_trend.until) if moment)
    )
    return phrase("trend", len(first_trend.means), days)


# --- the cases that made a criterion fall, by how much and in which turn --------------------------
# even if all of them reach their thresholds


DUST = 1e-9
"""Smaller drops are rounding errors."""
NOTABLE = 0.1
"""The fall of one case that is worth a sentence above all, as a share of the criterion's scale;
never less than what the policy tolerates of the mean. On an open scale (tokens, seconds), the
tolerated drop decides alone: it is a share of the base's mean already."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CaseFall:
    """The scores of one case by one criterion on both sides."""

    case: CaseView
    """With trials on both sides."""
    row: CriterionComparison
    """The criterion over all cases."""
    base: float
    """The mean over the runs of the base."""
    head: float
    """The mean over the runs of head."""

    @property
    def drop(self) -> float:
        """How much worse head is."""
        return self.head - self.base if self.row.rule.lower_is_better else self.base - self.head

    @cached_property
    def turn(self) -> Turn | None:
        """The turn that fell furthest, else the first that differs, in the two runs of one number
        that differ most: base's as expected, head's as actual. None if a conversation is missing,
        or a simulated user led it."""
        case = self.case
        if case.eval_case.scenario or case.base is None:
            return None
        sign = -1.0 if self.row.rule.lower_is_better else 1.0
        base_scores = {trial.key: _score(trial, self.row.name) for trial in case.base.trials}
        pairs = [
            (head_score, base_score, trial.key)
            for trial in case.trials
            if (head_score := _score(trial, self.row.name))
            and (base_score := base_scores.get(trial.key))
        ]
        if not pairs:
            return None
        head, base, key = min(pairs, key=lambda pair: sign * (pair[0].value - pair[1].value))
        head_turns, base_turns = (side.turns(key) or () for side in (case.head, case.base))

        shown_turn = None
        largest: tuple[float, bool] | None = None
        for index, pair in enumerate(zip(head_turns, base_turns, strict=False)):
            turn = Turn(number=index + 1, of=len(head_turns), expected=pair[1], actual=pair[0])
            head_part, base_part = (turn_score(score, index) for score in (head, base))
            if head_part is None or base_part is None:
                head_part = base_part = 0.0
            is_different = turn.calls_differ or turn.expected_answer != turn.actual_answer
            difference = sign * (base_part - head_part), is_different
            if largest is None or difference > largest:
                shown_turn, largest = turn, difference
        return shown_turn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fall:
    """A deciding criterion that fell."""

    row: CriterionComparison
    """Its comparison over all cases."""
    case_falls: tuple[CaseFall, ...]
    """The cases that fell, largest drop first."""
    higher: int
    """The number of cases that rose."""


@lru_cache(maxsize=8)
def falls(v: View) -> tuple[Fall, ...]:
    """The deciding criteria that fell, worst first, each with the cases that moved."""
    comparison = v.comparison
    if comparison is None or comparison.base is None:
        return ()
    all_falls = []
    for row in comparison.criteria:
        if row.rule.gating and (row.drop or 0.0) > DUST:
            moved_cases = sorted(_pairs(row, v), key=lambda moved_case: -moved_case.drop)
            lower = tuple(moved_case for moved_case in moved_cases if moved_case.drop > DUST)
            higher = sum(moved_case.drop < -DUST for moved_case in moved_cases)
            if lower:
                all_falls.append(Fall(row=row, case_falls=lower, higher=higher))
    return tuple(
        sorted(all_falls, key=lambda fall: -reports_cases.relative_drop(fall.row, fall.row.drop))
    )


def notable(v: View) -> CaseFall | None:
    """The passing case that fell furthest, among those whose drop is large enough to report at the
    top; failing cases are reported anyway."""
    candidates = [
        moved_case
        for fall in falls(v)
        for moved_case in fall.case_falls
        if moved_case.case.kind is VerdictKind.PASS
        and moved_case.drop
        > max(
            fall.row.rule.floor,
            NOTABLE if max(moved_case.base, moved_case.head) <= 1 else 0.0,
        )
    ]
    return max(
        candidates,
        key=lambda moved_case: reports_cases.relative_drop(moved_case.row, moved_case.drop),
        default=None,
    )


def _pairs(row: CriterionComparison, v: View) -> Iterator[CaseFall]:
    """The cases that decide and have a score on both sides."""
    for case in v.cases:
        is_paired = case.compared is not None and case.compared.status is CaseStatus.PAIRED
        if not (is_paired and case.base) or not v.report.policy.blocks(case.key):
            continue
        if all(use.name != row.name or use.informational for use in case.suite.criteria):
            continue
        head_values, base_values = (
            [score.value for trial in trials if (score := _score(trial, row.name)) is not None]
            for trials in (case.trials, case.base.trials)
        )
        if head_values and base_values:
            yield CaseFall(case=case, row=row, base=fmean(base_values), head=fmean(head_values))


def _score(trial: GradedTrial, name: str) -> Score | None:
    """The score of a trial by a criterion; None if it has none."""
    grade = trial.grades.get(name)
    return grade if isinstance(grade, Score) else None
