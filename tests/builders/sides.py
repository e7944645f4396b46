"""Two runs of the same cases from few words.

`sides("PPP/PPF PFF/PPP")`: two cases, head's runs before the slash and base's behind it. The
letters:

    P  passes          F  fails
    ?  was not measured (the criterion gave no score)
    -  the criterion abstained
    !  the agent failed
    .  never ran
    0-9  a graded score of 0.0 to 0.9

A second row after `;` is a second criterion: `sides("PP/PP ; 59/88")`. Behind a `+` stand fresh
pairs, and behind a second one fresh runs of head alone: `sides("F+FF/P+PP")`, `sides("F++FF/F")`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from evalgate.baseline import failures
from evalgate.comparison import verdict
from evalgate.comparison.book import Sides
from evalgate.model import (
    AgentFailure,
    AgentUse,
    BaseOrigin,
    BaseSource,
    Case,
    CaseStatus,
    Comparison,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Exemption,
    ExemptionKind,
    FailureKind,
    GateVerdict,
    Grade,
    GradedTrial,
    Need,
    NotEvaluated,
    Policy,
    Purpose,
    Reason,
    Run,
    Scale,
    Score,
    Suite,
    TrialKey,
    Verdict,
)
from evalgate.reports import wording

SUITE = "s"
NAMES = ("m", "n", "o")
ORIGIN = BaseOrigin(source=BaseSource.RERUN, commit="abc1234")
OUTAGE = NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message="the judge is out")
ABSTENTION = NotEvaluated(reason=Reason.ABSTAINED, message="NOT_EVALUATED")
CRASH = AgentFailure(kind=FailureKind.RAISED, message="KeyError: 'city'")


def use(name: str, *, threshold: float | None = 0.5, lower: bool = False) -> CriterionUse:
    """A criterion; informational without a threshold."""
    return CriterionUse(
        name=name, threshold=threshold, informational=threshold is None, lower_is_better=lower
    )


def grade(letter: str, *, lower: bool = False) -> Grade:
    """The grade of one run."""
    if letter in "?!-":
        return ABSTENTION if letter == "-" else OUTAGE
    value = {"P": 1.0, "F": 0.0}.get(letter)
    value = float(f"0.{letter}") if value is None else value
    return Score(value=1 - value if lower and letter in "PF" else value)


def run(
    rows: list[list[str]],
    *,
    uses: tuple[CriterionUse, ...] = (),
    suite: str = SUITE,
    truncated: str = "",
) -> Run:
    """One side: a row a criterion, a word a case."""
    uses = uses or tuple(use(name) for name, _ in zip(NAMES, rows, strict=False))
    cases = tuple(Case(case_id=f"c{number}", conversation=()) for number, _ in enumerate(rows[0]))
    trials: list[GradedTrial] = []
    for place, case in enumerate(cases):
        words = [row[place].split("+") for row in rows]
        for purpose, parts in zip(Purpose, zip(*words, strict=True), strict=False):
            for number, letters in enumerate(zip(*parts, strict=True)):
                if "." in letters:
                    continue
                crashed = "!" in letters
                grades = {
                    each.name: grade(letter, lower=each.lower_is_better)
                    for each, letter in zip(uses, letters, strict=True)
                }
                trials.append(
                    GradedTrial(
                        key=TrialKey(
                            suite=suite, case_id=case.case_id, purpose=purpose, number=number
                        ),
                        failure=CRASH if crashed else None,
                        grades=dict.fromkeys(grades, OUTAGE) if crashed else grades,
                    )
                )
    return Run(
        suites=(
            Suite(
                key=suite,
                eval_set=EvalSet(eval_set_id=suite, cases=cases),
                criteria=uses,
                criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
                agent=AgentUse(driver="adk"),
            ),
        ),
        trials=tuple(trial for trial in trials if trial.key.is_first),
        confirmations=tuple(trial for trial in trials if not trial.key.is_first),
        transcripts={}.get,
        repeats=max((len(word.partition("+")[0]) for word in rows[0]), default=1),
        truncated=truncated,
    )


def sides(text: str, **more: object) -> tuple[Run, Run]:
    """Head and base; see the module."""
    rows = [[word.partition("/") for word in row.split()] for row in text.split(";")]
    heads = [[head for head, _, _ in row] for row in rows]
    bases = [[base for _, _, base in row] for row in rows]
    return run(heads, **more), run(bases, **more)  # type: ignore[arg-type]


def compare_runs(
    head: Run,
    base: Run,
    *,
    policy: Policy | None = None,
    unpaired: Mapping[tuple[str, str], CaseStatus] | None = None,
    judged: frozenset[str] = frozenset(),
    scales: Mapping[str, Scale] | None = None,
    run_together: bool = True,
) -> Comparison:
    """The real comparison, with scales of 0 to 1 where `scales` has no others."""
    both = Sides(
        head=scaled(head, scales or {}, judged=judged),
        base=base,
        policy=policy or Policy(),
        unpaired=unpaired or {},
        is_together=run_together,
    )
    return failures.compare(both, origin=ORIGIN)


def scaled(head: Run, scales: Mapping[str, Scale], *, judged: frozenset[str] = frozenset()) -> Run:
    """The run with these scales of its criteria, some of them scored by a judge, and a seed."""
    suites = tuple(
        dataclasses.replace(
            suite,
            criteria=tuple(
                dataclasses.replace(
                    use,
                    scale=scales.get(use.name, Scale()),
                    needs=frozenset({Need.JUDGE}) if use.name in judged else frozenset(),
                )
                for use in suite.criteria
            ),
        )
        for suite in head.suites
    )
    return dataclasses.replace(head, suites=suites, seed=7)


def compare(text: str, **more: object) -> Comparison:
    """`sides` compared."""
    names = ("policy", "unpaired", "judged", "scales", "run_together")
    settings = {key: more.pop(key) for key in names if key in more}
    return compare_runs(*sides(text, **more), **settings)  # type: ignore[arg-type]


def quarantining(*numbers: int, policy: Policy | None = None) -> Policy:
    """The policy with these cases of `SUITE` quarantined."""
    quarantine = Exemption(kind=ExemptionKind.LISTED, owner="@maria", expires="2026-02-01")
    keys = ((SUITE, f"c{number}") for number in numbers)
    return dataclasses.replace(policy or Policy(), exemptions=dict.fromkeys(keys, quarantine))


def decide(head: Run, comparison: Comparison | None, policy: Policy) -> Verdict:
    """Both gates together, in words; without a comparison the threshold gate alone."""
    decided = verdict.decide(head, policy, comparison=comparison)
    return wording.with_reasons(decided, head, comparison, policy)


def regression(head: Run, comparison: Comparison, policy: Policy) -> GateVerdict:
    """The regression gate, in words."""
    return decide(head, comparison, policy).gates[1]
