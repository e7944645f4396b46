"""Writing results.json, one case at a time: a large run never stands in memory as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from evalgate import criteria
from evalgate.errors import Problem
from evalgate.judged import identity
from evalgate.model import (
    AgentDetails,
    CaseVerdict,
    CriterionUse,
    GradedTrial,
    Report,
    Run,
    Shard,
    Suite,
    SuiteVerdict,
    TrialKey,
    Verdict,
)
from evalgate.pipeline import fingerprints, trials
from evalgate.wire import calibration, case_writing, comparison, lines, not_finite, records, simulators
from evalgate.wire.results import SCHEMA_VERSION


class Kept(Protocol):
    """Where outcomes lie as they were written: the journal of a run, or a results.json that was read."""

    def find_json(self, key: TrialKey) -> dict[str, Any] | None:
        """The outcome of a trial as it was written, None where it is unknown."""

    def agents(self) -> Mapping[str, tuple[AgentDetails, ...]]:
        """What agents were told and given, by the address that outcomes refer to."""


def render_results(report: Report, *, kept: Kept, exit_code: int) -> Iterator[str]:
    """The pieces of results.json in order; joined they are one JSON document, one line a case."""
    run, verdict = report.run, report.verdict
    by_case: dict[tuple[str, str], list[GradedTrial]] = {}
    for trial in (*run.trials, *run.confirmations):
        by_case.setdefault((trial.key.suite, trial.key.case_id), []).append(trial)
    head = {
        "schema_version": SCHEMA_VERSION,
        "evalgate": report.version,
        "started_at": run.started_at,
        "seconds": round(run.seconds, 3),
        "repeats": run.repeats,
        **_compact(more=run.more, repeated=sorted(run.repeated), truncated=run.truncated),
        "seed": run.seed,
        "complete": run.complete,
        "adk_compat": report.policy.adk_compat,
        "commit": run.commit,
        **({} if run.root is None else {"root": run.root}),
        **_compact(models=sorted(run.models)),
        **({} if run.shard is None else {"shard": _shard(run.shard, report)}),
        "verdict": _verdict(verdict, exit_code=exit_code),
        **({} if report.comparison is None else {"comparison": comparison.comparison_json(report.comparison)}),
        "agent_details": _agent_details(kept.agents()),
        "judges": [_compact(**dataclasses.asdict(use)) for use in run.judges],
        **_compact(problems=[_problem(each) for each in report.problems]),
    }
    yield _dump(head)[:-1] + ',"suites":['
    for number, (suite, suite_verdict) in enumerate(zip(run.suites, verdict.suites, strict=True)):
        yield ",\n" if number else "\n"
        yield from _suite(suite, suite_verdict, report=report, by_case=by_case, kept=kept)
    yield "\n]}\n"


def _problem(problem: Problem) -> dict[str, Any]:
    place = problem.place
    return {
        "severity": problem.severity.value,
        "code": problem.code,
        "message": problem.message,
        **_compact(hint=problem.hint, **({} if place is None else dataclasses.asdict(place))),
    }


def _verdict(verdict: Verdict, *, exit_code: int) -> dict[str, Any]:
    gates = [
        {"gate": each.gate.value, "kind": each.kind.value, "reason": each.reason, "blocks": each.blocks}
        for each in verdict.gates
    ]
    return {
        "kind": verdict.kind.value,
        "reason": verdict.reason,
        "blocks": verdict.blocks,
        "exit_code": exit_code,
        "gates": gates,
    }


def _suite(
    suite: Suite,
    verdict: SuiteVerdict,
    *,
    report: Report,
    by_case: dict[tuple[str, str], list[GradedTrial]],
    kept: Kept,
) -> Iterator[str]:
    head = {
        "suite": suite.key,
        "eval_set_id": suite.eval_set.eval_set_id,
        "agent": _agent(suite, report.run),
        "criteria": [_criterion(use, suite=suite.key, report=report) for use in suite.criteria],
        "criteria_origin": suite.criteria_source.origin.value,
        "criteria_file": suite.criteria_source.file,
        **_compact(simulator=_simulator(suite)),
        "verdict": verdict.kind.value,
        "reason": verdict.reason,
        "required_pass_rate": verdict.required_pass_rate,
        **_compact(advisory=verdict.advisory),
    }
    yield _dump(head)[:-1] + ',"cases":['
    for number, (case, case_verdict) in enumerate(zip(suite.eval_set.cases, verdict.cases, strict=True)):
        written = _compact(
            case_id=case.case_id,
            line=case.place.line if case.place else None,
            fingerprint=report.run.fingerprints.get((suite.key, case.case_id)) or fingerprints.of_case(case),
            eval_case=case_writing.case_json(case),
            **_case_verdict(case_verdict),
            trials=[_trial(each, kept) for each in by_case.get((suite.key, case.case_id), ())],
        )
        yield (",\n" if number else "\n") + _case_line(written)
    yield "]}"


def _case_line(written: dict[str, Any]) -> str:
    text = lines.encode(written)
    if not_finite.may_stand_in(text) and (places := not_finite.places(written["eval_case"])):
        text = lines.encode({**written, "not_finite": places})
    return text.decode()


def _shard(shard: Shard, report: Report) -> dict[str, Any]:
    plan = [
        {
            "suite": suite.key,
            "eval_set_id": suite.eval_set.eval_set_id,
            "agent": _agent(suite, report.run),
            "criteria": [_criterion(use, suite=suite.key, report=report) for use in suite.criteria],
            "criteria_origin": suite.criteria_source.origin.value,
            "criteria_file": suite.criteria_source.file,
            **_compact(simulator=_simulator(suite)),
            "cases": [
                _compact(
                    case_id=case.case_id,
                    line=case.place.line if case.place else None,
                    fingerprint=shard.fingerprints.get((suite.key, case.case_id), ""),
                    shard=shard.homes[suite.key, case.case_id],
                )
                for case in suite.eval_set.cases
            ],
        }
        for suite in shard.plan
    ]
    known = {"index": shard.index, "of": shard.of, "fingerprint": shard.fingerprint, "more": shard.more}
    return {**known, "plan": plan}


def _agent(suite: Suite, run: Run) -> dict[str, Any]:
    key = trials.agent_key(suite.agent)
    return {
        "driver": suite.agent.driver,
        "options": dict(suite.agent.options),
        "about": dict(run.agents.get(key, {})),
        **_compact(found_by=suite.agent.found_by, code=run.codes.get(key, "")),
    }


def _simulator(suite: Suite) -> dict[str, Any] | None:
    """Who plays the users of a suite that has scenarios."""
    led = any(case.scenario is not None for case in suite.eval_set.cases)
    return simulators.json_of(suite.simulator) if led else None


def _case_verdict(verdict: CaseVerdict) -> dict[str, Any]:
    return {"verdict": verdict.kind.value, "reason": verdict.reason, "waiting": not verdict.admitted}


def _criterion(use: CriterionUse, *, suite: str, report: Report) -> dict[str, Any]:
    judged = next((each for each in report.judged if (each.suite, each.criterion) == (suite, use.name)), None)
    return _compact(
        name=use.name,
        threshold=use.threshold,
        options=dict(use.options),
        informational=use.informational,
        lower_is_better=use.lower_is_better,
        on_the_test=use.on_the_test,
        endpoint=use.endpoint,
        code=use.code,
        fingerprint=fingerprints.of_criterion(use, version=report.version, adk_compat=report.policy.adk_compat),
        prompt_version=_prompt_version(use, adk_compat=report.policy.adk_compat),
        calibration=None if judged is None else calibration.judged_json(judged),
    )


def _prompt_version(use: CriterionUse, *, adk_compat: bool) -> str:
    """Of the question to the criterion's judge; "" where it asks none, or has options that cannot be read."""
    try:
        judge = identity.judge_of(use, criteria.pick(use.name, use.code), adk_compat=adk_compat)
    except ValidationError:
        return ""
    return "" if judge is None else judge.prompt_version


def _trial(trial: GradedTrial, kept: Kept) -> dict[str, Any]:
    key: TrialKey = trial.key
    return {
        "repeat": key.repeat,
        "seconds": round(trial.seconds, 4),
        "attempts": trial.attempts,
        **_compact(behaviour=trial.behaviour, tokens=trial.tokens, reused=trial.reused),
        "outcome": kept.find_json(key),
        "grades": {name: records.grade_json(grade) for name, grade in trial.grades.items()},
    }


def _agent_details(seen: Any) -> dict[str, Any]:
    details: dict[str, tuple[AgentDetails, ...]] = dict(seen)
    return {address: records.agents_json(agents) for address, agents in sorted(details.items())}


def _compact(**values: Any) -> dict[str, Any]:
    """Without what says nothing; a zero says something."""
    return {name: value for name, value in values.items() if value or (value == 0 and value is not False)}


def _dump(value: Any) -> str:
    return lines.encode(value).decode()
