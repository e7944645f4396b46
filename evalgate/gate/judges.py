"""Who judges the criteria of a run: asked in it, or told by results that were read."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pydantic import ValidationError

from evalgate.comparison import pairing
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.model import AskedJudge, Suite
from evalgate.results.file import Stored

MOST_JUDGES = 200


def asked(suites: Iterable[Suite], settings: Settings) -> tuple[AskedJudge, ...]:
    """Who judges each criterion of settled suites, once; nobody where no judge is asked."""
    if settings.skip_judged:
        return ()
    asked_judges = [
        AskedJudge(criterion=use.name, judge=judge)
        for suite in suites
        for use in suite.criteria
        if (judge := judges.judge_of(use)) is not None
    ]
    return tuple(
        asked_judge
        for at, asked_judge in enumerate(asked_judges)
        if asked_judge not in asked_judges[:at]
    )


def asked_then(stored: Stored) -> tuple[AskedJudge, ...]:
    """Who judged the criteria that have a score in results that were read, once; each with the
    version of its question that the file tells, "" where it does not. At most MOST_JUDGES: anybody
    may have written the file."""
    run, asked_judges = stored.run, list[AskedJudge]()
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
            asked_judge = None if judge is None else AskedJudge(criterion=use.name, judge=judge)
            if asked_judge is not None and asked_judge not in asked_judges:
                asked_judges.append(asked_judge)
            if len(asked_judges) == MOST_JUDGES:
                return tuple(asked_judges)
    return tuple(asked_judges)
