"""The judges of a run's criteria: configured, or named by stored results."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pydantic import ValidationError

from evalgate.comparison import pairing
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.model import CriterionJudge, Suite
from evalgate.results.file import Stored

MOST_JUDGES = 200


def criterion_judges(suites: Iterable[Suite], settings: Settings) -> tuple[CriterionJudge, ...]:
    """The judge of each criterion of settled suites, once; empty if no judge is asked."""
    if settings.skip_judged:
        return ()
    all_judges = [
        CriterionJudge(criterion=use.name, judge=judge)
        for suite in suites
        for use in suite.criteria
        if (judge := judges.judge_of(use)) is not None
    ]
    return tuple(
        criterion_judge
        for index, criterion_judge in enumerate(all_judges)
        if criterion_judge not in all_judges[:index]
    )


def stored_judges(stored: Stored) -> tuple[CriterionJudge, ...]:
    """The judges of the criteria that have a score in stored results, once. Each has the prompt
    version that the file names, "" if it names none. At most MOST_JUDGES: the file is untrusted."""
    run = stored.run
    all_judges = list[CriterionJudge]()
    scored_criteria = {
        (trial.key.suite, name)
        for trial in run.trials
        for name in trial.grades
        if pairing.value_of(trial, name) is not None
    }
    for suite in run.suites:
        for use in suite.criteria:
            judge = None
            with suppress(ValidationError):
                if (suite.key, use.name) in scored_criteria:
                    judge = judges.judge_of(use, prompt_version=use.prompt_version)
            criterion_judge = (
                None if judge is None else CriterionJudge(criterion=use.name, judge=judge)
            )
            if criterion_judge is not None and criterion_judge not in all_judges:
                all_judges.append(criterion_judge)
            if len(all_judges) == MOST_JUDGES:
                return tuple(all_judges)
    return tuple(all_judges)
