"""The judges of a run's criteria: asked in it, or named by stored results."""

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
    asked_judges = [
        CriterionJudge(criterion=use.name, judge=judge)
        for suite in suites
        for use in suite.criteria
        if (judge := judges.judge_of(use)) is not None
    ]
    return tuple(
        asked_judge
        for at, asked_judge in enumerate(asked_judges)
        if asked_judge not in asked_judges[:at]
    )


def stored_judges(stored: Stored) -> tuple[CriterionJudge, ...]:
    """The judges of the criteria that have a score in stored results, once. Each has the version of
    its question that the file names, "" if it names none. At most MOST_JUDGES: the file is
    untrusted."""
    run = stored.run
    asked_judges = list[CriterionJudge]()
    scored = {
        (trial.key.suite, name)
        for trial in run.trials
        for name in trial.grades
        if pairing.value_of(trial, name) is not None
    }
    for suite in run.suites:
        for use in suite.criteria:
            judge = None
            with suppress(ValidationError):
                if (suite.key, use.name) in scored:
                    judge = judges.judge_of(use, prompt_version=use.prompt_version)
            asked_judge = None if judge is None else CriterionJudge(criterion=use.name, judge=judge)
            if asked_judge is not None and asked_judge not in asked_judges:
                asked_judges.append(asked_judge)
            if len(asked_judges) == MOST_JUDGES:
                return tuple(asked_judges)
    return tuple(asked_judges)
