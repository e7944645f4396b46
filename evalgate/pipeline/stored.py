"""Reading results.json back: a Run as good as one that was just measured, from a file that anybody may have written."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from evalgate.errors import ConfigError, Place, Problem
from evalgate.model import (
    AgentDetails,
    AgentFailure,
    AgentUse,
    Case,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    GradedTrial,
    JudgeUse,
    Run,
    Shard,
    Suite,
    Transcript,
    TrialKey,
)
from evalgate.pipeline import trials
from evalgate.pipeline.desk import FRESH
from evalgate.wire import records, simulators
from evalgate.wire.results import (
    SCHEMA_VERSION,
    CaseResult,
    PlannedCase,
    PlannedSuite,
    ProblemResult,
    Results,
    ShardResult,
    SuiteResult,
    TrialResult,
)

MOST_BYTES = 2 * 1024**3
NEEDED = "Use a results.json that `evalgate run` or the action wrote to its output folder."


class _Trial(TrialResult):
    outcome: dict[str, Any] | None = None  # type: ignore[assignment]  # parsed when somebody looks at it
    grades: dict[str, dict[str, Any]] = Field(default_factory=dict)  # type: ignore[assignment]  # one turn may be left out


class _Case(CaseResult):
    trials: list[_Trial] = Field(default_factory=list)  # type: ignore[assignment]


class _Suite(SuiteResult):
    cases: list[_Case]  # type: ignore[assignment]


class _Results(Results):
    comparison: dict[str, Any] | None = None  # type: ignore[assignment]  # read by those who join results
    agent_details: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)  # type: ignore[assignment]
    suites: list[_Suite]  # type: ignore[assignment]


class StoredOutcomes:
    """The outcomes of a results.json (`pipeline.results.Kept`, `model.Transcripts`); parsed when they are looked at."""

    def __init__(self, raw: Mapping[TrialKey, dict[str, Any]], agents: Mapping[str, tuple[AgentDetails, ...]]) -> None:
        self._raw = raw
        self._agents = dict(agents)

    def find(self, key: TrialKey) -> Transcript | None:
        """See `model.Transcripts`; an outcome that cannot be read is none."""
        raw = self._raw.get(key)
        if raw is None:
            return None
        try:
            outcome = records.parse_outcome(raw, agents_seen=self._agents)
        except ValidationError:
            return None
        return outcome if isinstance(outcome, Transcript) else None

    def find_json(self, key: TrialKey) -> dict[str, Any] | None:
        """The outcome as it was written."""
        return self._raw.get(key)

    def agents(self) -> Mapping[str, tuple[AgentDetails, ...]]:
        """What agents were told and given."""
        return self._agents


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A results.json that was read: its run, its outcomes, and what the file itself says.

    `criteria`: fingerprint of a criterion by suite key and name; grades with an equal one can be taken over.
    `comparison`: head beside base as it was told, as JSON, None where there was none. `problems`: what was remarked
    about the evaluation files and the inputs. `prompts`: version of the question to a criterion's judge, by suite key
    and name, where the file tells it.
    """

    run: Run
    outcomes: StoredOutcomes
    version: str
    criteria: Mapping[tuple[str, str], str]
    adk_compat: bool = False
    comparison: Mapping[str, Any] | None = None
    problems: tuple[Problem, ...] = ()
    prompts: Mapping[tuple[str, str], str] = field(default_factory=dict)


def read_results(path: Path, *, shown_as: str = "", of: str = "") -> Stored:
    """Read a results.json. Raises ConfigError: where it cannot be read, is of another version, or does not fit.

    `of`: whose results these are (`the base`), for the message.
    """
    place = Place(file=shown_as or str(path))

    def refused(why: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{of} {why}".lstrip(), where=place, hint=hint)

    try:
        if path.stat().st_size > MOST_BYTES:
            raise refused("is larger than 2 GB")
        raw = json.loads(path.read_bytes())
    except OSError as error:
        raise refused(f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise refused(f"is not JSON: {error}", NEEDED) from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version is None:
        raise refused("is not a results.json: `schema_version` is missing", NEEDED)
    if version != SCHEMA_VERSION:
        shown = repr(version)[:40]
        hint = f"Rerun {of or 'it'} with this version of evalgate."
        raise refused(f"has schema_version {shown}, this version reads {SCHEMA_VERSION}", hint)
    try:
        return _stored(_Results.model_validate(raw))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise refused(f"is not a valid results.json: `{where}`: {first['msg']}") from error


def _stored(read: _Results) -> Stored:
    raw: dict[TrialKey, dict[str, Any]] = {}
    graded: list[GradedTrial] = []
    for suite in read.suites:
        for case in suite.cases:
            for trial in case.trials:
                key = TrialKey(suite=suite.suite, case_id=case.case_id, repeat=trial.repeat)
                if trial.outcome is not None:
                    raw[key] = trial.outcome
                graded.append(_graded(key, trial))
    agents = {address: records.parse_agents(each) for address, each in read.agent_details.items()}
    outcomes = StoredOutcomes(raw, agents)
    suites = tuple(_suite(suite) for suite in read.suites)
    run = Run(
        suites=suites,
        trials=tuple(each for each in graded if each.key.repeat < FRESH),
        confirmations=tuple(each for each in graded if each.key.repeat >= FRESH),
        transcripts=outcomes,
        repeats=read.repeats,
        more=read.more,
        repeated=frozenset(read.repeated),
        truncated=read.truncated,
        seed=read.seed,
        started_at=read.started_at,
        seconds=read.seconds,
        complete=read.complete,
        commit=read.commit,
        root=read.root,
        agents={trials.agent_key(suite.agent): read.suites[at].agent.about for at, suite in enumerate(suites)},
        fingerprints={(suite.suite, case.case_id): case.fingerprint for suite in read.suites for case in suite.cases},
        models=frozenset(read.models),
        judges=tuple(JudgeUse(**each.model_dump()) for each in read.judges),
        shard=None if read.shard is None else _shard(read.shard),
        codes={trials.agent_key(suite.agent): read.suites[at].agent.code for at, suite in enumerate(suites)},
    )
    criteria = {(suite.suite, use.name): use.fingerprint for suite in read.suites for use in suite.criteria}
    return Stored(
        run=run,
        outcomes=outcomes,
        version=read.evalgate,
        criteria=criteria,
        adk_compat=read.adk_compat,
        comparison=read.comparison,
        problems=tuple(_problem(each) for each in read.problems),
        prompts={
            (suite.suite, use.name): use.prompt_version
            for suite in read.suites
            for use in suite.criteria
            if use.prompt_version
        },
    )


def _problem(read: ProblemResult) -> Problem:
    place = Place(file=read.file, line=read.line, column=read.column, json_path=read.json_path)
    return Problem(
        severity=read.severity,
        code=read.code,
        message=read.message,
        hint=read.hint,
        place=place if read.file else None,
    )


def _graded(key: TrialKey, trial: _Trial) -> GradedTrial:
    failure = None
    if trial.outcome is not None and trial.outcome.get("kind") != "transcript":
        outcome = records.parse_outcome(trial.outcome, agents_seen={})
        failure = outcome if isinstance(outcome, AgentFailure) else None
    return GradedTrial(
        key=key,
        failure=failure,
        grades={name: records.parse_grade(grade) for name, grade in trial.grades.items()},
        seconds=trial.seconds,
        attempts=trial.attempts,
        tokens=trial.tokens,
        reused=trial.reused,
        behaviour=trial.behaviour,
    )


def _suite(suite: _Suite | PlannedSuite) -> Suite:
    return Suite(
        key=suite.suite,
        eval_set=EvalSet(eval_set_id=suite.eval_set_id, cases=tuple(_case(case, suite.suite) for case in suite.cases)),
        criteria=tuple(
            CriterionUse(
                name=use.name,
                threshold=use.threshold,
                options=use.options,
                informational=use.informational,
                lower_is_better=use.lower_is_better,
                code=use.code,
                on_the_test=use.on_the_test,
                endpoint=use.endpoint,
            )
            for use in suite.criteria
        ),
        criteria_source=CriteriaSource(origin=suite.criteria_origin, file=suite.criteria_file),
        agent=AgentUse(driver=suite.agent.driver, options=suite.agent.options, found_by=suite.agent.found_by),
        simulator=simulators.parse(suite.simulator),
    )


def _case(case: _Case | PlannedCase, suite: str) -> Case:
    place = Place(file=suite, line=case.line)
    if isinstance(case, PlannedCase) or case.eval_case is None:
        return Case(case_id=case.case_id, conversation=(), place=place)
    return dataclasses.replace(case.eval_case.noun(place=place), case_id=case.case_id)


def _shard(read: ShardResult) -> Shard:
    cases = [(suite.suite, case) for suite in read.plan for case in suite.cases]
    return Shard(
        index=read.index,
        of=read.of,
        plan=tuple(_suite(suite) for suite in read.plan),
        homes={(suite, case.case_id): case.shard for suite, case in cases},
        fingerprints={(suite, case.case_id): case.fingerprint for suite, case in cases},
        more=read.more,
        fingerprint=read.fingerprint,
    )
