"""Domain objects from few words.

`report("pass fail pass/fail error")` is a report on four cases; the third ran twice. The words:

    pass      every criterion reaches its threshold
    fail      the tool calls are wrong
    wrong     the answer is wrong
    0.75      the answer scores so much
    error     the agent raised; any `FailureKind` value (timeout, rate_limited ...) is a word too
    unjudged  scoring failed
    skipped   the user left it out
    never     the trial did not run
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalgate.comparison import verdict
from evalgate.errors import Place
from evalgate.model import (
    AgentFailure,
    AgentUse,
    Case,
    ConfigOrigin,
    Content,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Event,
    FailureKind,
    Grade,
    GradedTrial,
    Invocation,
    Links,
    NotEvaluated,
    Policy,
    Reason,
    Report,
    Run,
    Score,
    Suite,
    Text,
    ToolCall,
    Transcript,
    TrialKey,
)
from evalgate.reports import wording

SUITE = "agents/travel/travel.evalset.json"
TOOLS, WORDS = "tool_trajectory_avg_score", "response_match_score"
CRITERIA: Mapping[str, float] = {TOOLS: 1.0, WORDS: 0.8}
LINKS = Links(
    repository="https://github.com/example/travel",
    commit="6a57802d3f0f4e9b8c7a6b5c4d3e2f1a0b9c8d7e",
    checkout="6a57802d3f0f4e9b8c7a6b5c4d3e2f1a0b9c8d7e",
    workflow_run="https://github.com/example/travel/actions/runs/42",
)


def text(value: str, *, role: str = "model") -> Content:
    """A message of one text."""
    return Content(parts=(Text(text=value),), role=role)


def text_of(asked: Invocation) -> str:
    """What the user of a turn says."""
    return "".join(part.text for part in asked.user_content.parts if isinstance(part, Text))


def call(tool: str, /, **args: Any) -> ToolCall:
    """`call("book", city="Oslo")`."""
    return ToolCall(name=tool, args=args)


def turn(user: str, *calls: ToolCall, answer: str | None = None) -> Invocation:
    """One turn: what the user says, which tools are called, what is answered."""
    return Invocation(
        user_content=text(user, role="user"),
        final_response=None if answer is None else text(answer),
        events=tuple(
            Event(author="agent", content=Content(parts=(each,), role="model")) for each in calls
        ),
    )


def case(case_id: str, *turns: Invocation, line: int | None = None, file: str = SUITE) -> Case:
    """A case at a line of its file."""
    return Case(case_id=case_id, conversation=turns, place=Place(file=file, line=line))


def suite(*cases: Case, key: str = SUITE, criteria: Mapping[str, float | None] = CRITERIA) -> Suite:
    """A suite; a criterion whose threshold is None is informational."""
    return Suite(
        key=key,
        eval_set=EvalSet(eval_set_id="set", cases=cases),
        criteria=tuple(
            CriterionUse(name=name, threshold=threshold, informational=threshold is None)
            for name, threshold in criteria.items()
        ),
        criteria_source=CriteriaSource(
            origin=ConfigOrigin.BESIDE, file="agents/travel/test_config.json"
        ),
        agent=AgentUse(driver="adk", options={"path": "agents/travel"}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What one trial gave: its turns and grades, or a failure."""

    turns: tuple[Invocation, ...] = ()
    grades: Mapping[str, Grade] | None = None
    failure: AgentFailure | None = None
    seconds: float = 1.5
    tokens: int | None = 410


def failed(
    kind: FailureKind, message: str, *, detail: str = "", partial: tuple[Invocation, ...] = ()
) -> Done:
    """A trial whose agent broke."""
    return Done(
        failure=AgentFailure(kind=kind, message=message, turn=1, detail=detail, partial=partial),
        tokens=None,
    )


def scores(*turns: Invocation, **values: float | Sequence[float | None]) -> Done:
    """A trial with a score for each criterion: one number, or one a turn."""
    return Done(turns=turns, grades={name: _score(value) for name, value in values.items()})


def run_report(
    suites: Sequence[Suite],
    done: Mapping[tuple[str, str], Sequence[Done | None]],
    *,
    policy: Policy | None = None,
    links: Links = LINKS,
    complete: bool = True,
    **more: Any,
) -> Report:
    """A report on what the trials gave, by (suite key, case id); the real gate decides."""
    run = run_of(suites, done, commit=links.commit, complete=complete)
    policy = policy or Policy()
    decided = wording.with_reasons(verdict.decide(run, policy, comparison=None), run, None, policy)
    given = {"reproduce": f"evalgate run {SUITE}", "version": "0.1.0", **more}
    return made(run=run, verdict=decided, policy=policy, links=links, **given)


def made(**given: Any) -> Report:
    """A report of these facts, also those of its parts."""
    return changed(
        Report(**{name: given.pop(name) for name in ("run", "verdict", "policy")}), **given
    )


def changed(report: Report, **given: Any) -> Report:
    """The report with other facts, also those of its parts."""
    parts = {
        name: dataclasses.replace(
            part,
            **{
                field.name: given.pop(field.name)
                for field in dataclasses.fields(part)
                if field.name in given
            },
        )
        for name, part in (("facts", report.facts), ("display", report.display))
    }
    return dataclasses.replace(report, **parts, **given)


def run_of(
    suites: Sequence[Suite],
    done: Mapping[tuple[str, str], Sequence[Done | None]],
    *,
    commit: str = "",
    complete: bool = True,
) -> Run:
    """One side: what the trials gave, by (suite key, case id)."""
    keyed = [
        (TrialKey(suite=key, case_id=case_id, number=repeat), each)
        for (key, case_id), repeats in done.items()
        for repeat, each in enumerate(repeats)
        if each is not None
    ]
    return Run(
        suites=tuple(suites),
        trials=tuple(_graded(key, each, suites) for key, each in keyed),
        transcripts={
            key: Transcript(invocations=each.turns) for key, each in keyed if each.failure is None
        }.get,
        repeats=max((len(repeats) for repeats in done.values()), default=1),
        started_at="2026-01-02T03:04:05+00:00",
        seconds=12.5,
        complete=complete,
        commit=commit,
    )


def report(words: str, *, policy: Policy | None = None, **more: Any) -> Report:
    """A report on as many cases as there are words; see the module."""
    outcomes = [word.split("/") for word in words.split()]
    repeats = max((len(each) for each in outcomes), default=1)
    cases = [
        case(
            f"case_{number}",
            turn("Book it.", call("book", city="Oslo"), answer="Booked."),
            line=number * 10,
        )
        for number in range(1, len(outcomes) + 1)
    ]
    made = suite(*cases)
    done = {
        (made.key, each.case_id): [done_of(word) for word in (words * repeats)[:repeats]]
        for each, words in zip(cases, outcomes, strict=True)
    }
    return run_report([made], done, policy=policy, **more)


def done_of(word: str) -> Done | None:
    """What a word says of one trial; see the module."""
    right = turn("Book it.", call("book", city="Oslo"), answer="Booked.")
    match word:
        case "never":
            return None
        case "pass":
            return scores(right, **{TOOLS: [1.0], WORDS: [1.0]})
        case "fail":
            return scores(
                turn("Book it.", call("book", city="Rome"), answer="Booked."),
                **{TOOLS: [0.0], WORDS: [1.0]},
            )
        case "wrong":
            answered = turn("Book it.", call("book", city="Oslo"), answer="I cannot.")
            return scores(answered, **{TOOLS: [1.0], WORDS: [0.0]})
        case "unjudged" | "skipped":
            reason = Reason.SKIPPED if word == "skipped" else Reason.CRITERION_FAILED
            missing = NotEvaluated(reason=reason, message="no number came back")
            return Done(turns=(right,), grades={TOOLS: _score([1.0]), WORDS: missing})
        case "error":
            return failed(FailureKind.RAISED, "KeyError: 'city'")
        case _ if word in set(FailureKind):
            return failed(FailureKind(word), f"it ended as {word}")
        case _:
            return scores(right, **{TOOLS: [1.0], WORDS: [float(word)]})


def _score(value: float | Sequence[float | None]) -> Score:
    if isinstance(value, int | float):
        return Score(value=float(value))
    known = [each for each in value if each is not None]
    return Score(value=sum(known) / len(known), turns=tuple(value))


def _graded(key: TrialKey, done: Done, suites: Sequence[Suite]) -> GradedTrial:
    uses = next(each.criteria for each in suites if each.key == key.suite)
    grades = done.grades
    if grades is None:
        message = done.failure.message if done.failure else ""
        grades = {
            use.name: NotEvaluated(reason=Reason.AGENT_FAILED, message=message) for use in uses
        }
    return GradedTrial(
        key=key, failure=done.failure, grades=grades, seconds=done.seconds, tokens=done.tokens
    )
